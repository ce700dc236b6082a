"""Mistakes that torch users make, one line of code each, with torch's verdict and what funcnet must say.

The code of a `Mistake` is run twice: with funcnet's names and, if it is torch code, with torch's names. Both sides have
the same helpers: `x(2, 3)` gives floats, `ids(2, 3)` gives 0, 1, 2, 0, … as int32 (int64 for torch), `bools(2, 3)`
gives True and False in turn, `Net(init, forward)` defines a module from the source of its two methods, and
`run(net, *inputs)` runs a net whose floating parameters are all 0.1. `training=True` selects training mode.
"""

import dataclasses
import functools
import math
import pickle
import tempfile
import textwrap
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import torch
from jax import lax

import funcnet
from funcnet import bridges, data, nn, optim, random, text, train, tree, weights
from funcnet import functional as F

__all__ = ["Mistake", "Result", "funcnet_result", "raises", "same", "silent", "torch_result", "warns"]


@dataclasses.dataclass(frozen=True)
class Mistake:
    """A mistake, and what funcnet must do.

    Args:
        code: an expression or statements, as the user writes them. The last expression is the value.
        verdict: "raises", "warns", "same" (torch's value) or "silent" (a value, for code that torch does not have).
        message: regular expression for the error or warning.
        torch: "raises", "silent", or "" if the code is not torch code.
        why: if torch raises and funcnet does not, why that is not a silent mistake.
    """

    code: str
    verdict: str
    message: str = ""
    torch: str = ""
    why: str = ""


@dataclasses.dataclass(frozen=True)
class Result:
    """What a code did: its value, or its error, with the texts of its warnings."""

    value: Any = None
    error: Exception | None = None
    warnings: tuple[str, ...] = ()


def raises(code: str, message: str, torch: str = "") -> Mistake:
    """funcnet must raise an error with this message."""
    return Mistake(code, "raises", message, torch)


def warns(code: str, message: str, torch: str = "") -> Mistake:
    """funcnet must warn with this message."""
    return Mistake(code, "warns", message, torch)


def same(code: str) -> Mistake:
    """torch is silent, and funcnet must return its value."""
    return Mistake(code, "same", "", "silent")


def silent(code: str, why: str, torch: str = "") -> Mistake:
    """funcnet returns a value, for the given reason."""
    return Mistake(code, "silent", "", torch, why)


KEY = jax.random.key(0)


def _floats(shape: tuple[int, ...]) -> np.ndarray:
    return (np.arange(math.prod(shape), dtype=np.float32).reshape(shape) % 7 - 2) / 4


def _integers(shape: tuple[int, ...]) -> np.ndarray:
    return np.arange(math.prod(shape)).reshape(shape) % 3


def _module(namespace: dict[str, Any], init: str, forward: str, arguments: str = "x") -> Any:
    """Return an instance of a Module with the given bodies of `__init__` and `forward`."""
    source = "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
    source += textwrap.indent(init, " " * 8) + f"\n    def forward(self, {arguments}):\n"
    source += textwrap.indent(forward, " " * 8) + "\n"
    scope = dict(namespace)
    exec(source, scope)
    return scope["Net"]()


def _started(net: nn.Module, *inputs: Any) -> tuple[Any, Any]:
    params, state = net.init(KEY, *inputs)
    fill = lambda leaf: jnp.full_like(leaf, 0.1) if jnp.issubdtype(leaf.dtype, jnp.floating) else leaf
    return jax.tree.map(fill, params), state


def _run(net: nn.Module, *inputs: Any, training: Any = False, rng: Any = KEY, **kwargs: Any) -> Any:
    params, state = _started(net, *inputs)
    return net.apply(params, state, *inputs, training=training, rng=rng, **kwargs)[0]


def _run_torch(net: torch.nn.Module, *inputs: Any, training: bool = False, **kwargs: Any) -> Any:
    net.train(training)
    if any(isinstance(p, torch.nn.UninitializedParameter) for p in net.parameters()):
        net(*inputs)
    for parameter in net.parameters():
        if parameter.dtype.is_floating_point:
            torch.nn.init.constant_(parameter, 0.1)
    return net(*inputs, **kwargs)


def _funcnet_names(folder: Path) -> dict[str, Any]:
    names = {
        "jax": jax,
        "jnp": jnp,
        "np": np,
        "optax": optax,
        "torch": torch,
        "lax": lax,
        "pickle": pickle,
        "functools": functools,
        "funcnet": funcnet,
        "nn": nn,
        "F": F,
        "data": data,
        "optim": optim,
        "text": text,
        "train": train,
        "tree": tree,
        "weights": weights,
        "bridges": bridges,
        "random": random,
        "tnn": torch.nn,
        "key": KEY,
        "folder": folder,
        "x": lambda *shape: jnp.asarray(_floats(shape)),
        "run": _run,
        "started": _started,
        "ids": lambda *shape: jnp.asarray(_integers(shape), jnp.int32),
        "bools": lambda *shape: jnp.asarray(_integers(shape) % 2 == 0),
        "double": lambda *shape: _floats(shape).astype(np.float64),
        "cast": lambda array, dtype: array.astype(dtype),
    }
    return names | {"Net": functools.partial(_module, names)}


def _torch_names(folder: Path) -> dict[str, Any]:
    names = {
        "nn": torch.nn,
        "F": torch.nn.functional,
        "torch": torch,
        "np": np,
        "folder": folder,
        "run": _run_torch,
        "x": lambda *shape: torch.tensor(_floats(shape)),
        "ids": lambda *shape: torch.tensor(_integers(shape), dtype=torch.int64),
        "bools": lambda *shape: torch.tensor(_integers(shape) % 2 == 0),
        "double": lambda *shape: torch.tensor(_floats(shape), dtype=torch.float64),
        "cast": lambda tensor, dtype: tensor.to(getattr(torch, dtype)),
    }
    return names | {"Net": functools.partial(_module, names)}


def _value(code: str, names: dict[str, Any]) -> Any:
    """Execute the statements of a code, and return the value of the last one, if it is an expression."""
    *before, last = code.split("\n")
    scope = dict(names)
    if before:
        exec("\n".join(before), scope)
    return eval(last, scope)


def _result(code: str, make_names: Callable[[Path], dict[str, Any]]) -> Result:
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            value, error = jax.block_until_ready(_value(code, make_names(Path(folder)))), None
        except Exception as raised:
            value, error = None, raised
    return Result(value, error, tuple(str(warning.message) for warning in caught))


def funcnet_result(mistake: Mistake) -> Result:
    """Run the code with funcnet's names, with JAX's default promotion of dtypes, as users have it."""
    with jax.numpy_dtype_promotion("standard"):
        return _result(mistake.code, _funcnet_names)


def torch_result(mistake: Mistake) -> Result:
    """Run the code with torch's names."""
    torch.manual_seed(0)
    return _result(mistake.code, _torch_names)
