"""`compare`: run a torch module and its port on the same inputs, and find the first module that differs.

The outputs of all modules are compared first, then the gradients with respect to these outputs, then the gradients of
the parameters, then the buffers.
"""

import concurrent.futures
import dataclasses
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import jax
import numpy as np

from funcnet import nn
from funcnet.comparison.comparison_table import Comparison
from funcnet.comparison.differences import difference, make_rows, mark_rounding
from funcnet.comparison.recorded_runs import Run, array, run_ours, run_torch
from funcnet.comparison.torch_objects import TorchModule
from funcnet.tree import Params, PyTree, State

__all__ = ["compare"]


def compare(
    torch_module: TorchModule,
    net: nn.Module,
    params: Params,
    state: State,
    *inputs: PyTree,
    training: bool = False,
    rng: jax.Array | None = None,
    tolerance: float = 1e-5,
    seed: int = 0,
    dtype: str | None = None,
    **kwargs: Any,
) -> Comparison:
    """Compare a torch module with its port layer by layer, forward and backward, and find the first layer that differs.

    Args:
        torch_module: a torch.nn.Module. A copy of the torch module is run, so the torch module itself is not changed.
        net, params, state: port of the torch module, and the params and state that
            `net.load_state_dict(torch_module.state_dict())` returns.
        *inputs, **kwargs: arguments of both forward methods. The torch module receives tensors (integers as int64), and
            the port receives arrays.
        training: whether both modules run in training mode. With `training=True`, set all dropout rates to 0, because
            torch and JAX drop different elements.
        rng: random key for `net`.
        tolerance: largest accepted difference of a tensor. A difference is the largest absolute difference of two
            corresponding entries, divided by the largest absolute entry of torch's tensor.
        seed: seed of the random cotangents. The gradients are those of the scalar `sum(output * cotangent)`.
        dtype: "float64" casts both modules and their inputs to float64, so that rounding becomes negligible. If `dtype`
            is None, each module keeps its own dtypes.

    With `dtype=None`, both modules run twice: in their own dtypes, and in float64. The port runs as one compiled
    program. If a difference is over tolerance in the original dtypes but within tolerance in float64, the difference is
    marked as rounding and does not count. The exception is an output of the port that is much less exact than torch's
    output. For example, if an input of ReLU6 is close to 6, rounding can move the input across the kink at 6 in one
    library. In this example, the gradient of one library is 0, and that of the other library is 1.

    Returns:
        A `Comparison`, which is shown as a table. A `Comparison` has the attributes `ok`, `first` (name of the first
        module over tolerance, or None) and `rows`, and the method `to_dataframe()`.

    Raises:
        TypeError: if `torch_module` is not a torch module, or `params` or `state` is missing.
        ValueError: if `dtype` is neither None nor "float64", or if `net.apply` raises a ValueError.

    Example:
        >>> import torch, funcnet
        >>> from funcnet import nn
        >>> theirs = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.GELU(), torch.nn.Linear(4, 2))
        >>> net = nn.Sequential(nn.Linear(3, 4), nn.GELU("tanh"), nn.Linear(4, 2))  # torch's GELU is the exact one
        >>> params, state = net.load_state_dict(theirs.state_dict())
        >>> funcnet.compare(theirs, net, params, state, np.ones((2, 3), np.float32)).first
        '1'
    """
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(torch_module, torch.nn.Module):
        raise TypeError(
            f"funcnet.compare: the first argument is not a torch module; expected torch.nn.Module, got "
            f"{type(torch_module).__name__}. The order is compare(torch_module, net, params, state, *inputs)."
        )
    if not isinstance(params, dict) or not isinstance(state, dict):
        raise TypeError(
            "funcnet.compare: params or state has the wrong type; expected two dicts, as returned by `init`, got "
            f"{type(params).__name__} and {type(state).__name__}. The order is compare(torch_module, net, params, "
            "state, *inputs)."
        )
    if dtype not in (None, "float64"):
        raise ValueError(f"funcnet.compare: unknown dtype; expected None or 'float64', got {dtype!r}.")
    weights = _weights(torch_module, net, params, state, tolerance)

    def run(double: bool) -> tuple[Run, Run]:
        torchs = run_torch(torch, torch_module, inputs, kwargs, training, double, seed)
        return torchs, run_ours(net, params, state, inputs, kwargs, training, rng, double, torchs.cotangents)

    if dtype == "float64":
        return Comparison(tuple(make_rows(torch_module, *run(True))), weights, tolerance, dtype)
    # Most ports of real size differ by rounding. So the run in float64 starts now, and is traced while XLA compiles.
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        doubled_run = pool.submit(_with_settings(run), True)
        torchs, ours = run(False)
    rows, check = list(make_rows(torch_module, torchs, ours)), ""
    found = Comparison(tuple(rows), weights, tolerance, _precision(torch))
    if found.first is None:
        return found
    try:
        exact, ours_exact = doubled_run.result()
    except (TypeError, ValueError, RuntimeError) as error:  # such as a forward that casts to float32
        check = f"rounding was not checked, because the run in float64 failed: {type(error).__name__}: {error}"
        return dataclasses.replace(found, check=check)
    doubled = list(make_rows(torch_module, exact, ours_exact))
    marked = mark_rounding(torch_module, rows, doubled, (torchs, ours, exact), tolerance)
    return dataclasses.replace(found, rows=tuple(marked))


def _with_settings(run: Callable[[bool], Any]) -> Callable[[bool], Any]:
    """Return a function that calls `run` with the JAX settings of the present thread. Without this function, another
    thread would not see settings that were made in a `with` block.
    """
    config: Any = jax.config
    promotion, precision = config.jax_numpy_dtype_promotion, config.jax_default_matmul_precision

    def running(double: bool) -> Any:
        with jax.numpy_dtype_promotion(promotion), jax.default_matmul_precision(precision):
            return run(double)

    return running


def _weights(
    torch_module: TorchModule, net: nn.Module, params: Params, state: State, tolerance: float
) -> dict[str, float]:
    """Return {name: difference} for the weights of the port that differ from torch's by more than `tolerance` before
    the run.
    """
    expected = {name: array(value) for name, value in torch_module.state_dict().items() if hasattr(value, "shape")}
    given = net.state_dict(params, state)
    return {
        name: found
        for name, value in expected.items()
        if (found := difference([np.asarray(given[name])] if name in given else [], [value])) > tolerance
    }


def _precision(torch: ModuleType) -> str:
    jaxs = jax.config.jax_default_matmul_precision or "default"  # type: ignore[attr-defined]
    return f"matmul precision: JAX {jaxs} on {jax.default_backend()}, torch {torch.get_float32_matmul_precision()}" + (
        "" if jaxs != "default" or jax.default_backend() == "cpu" else '; for parity, set it to "highest" in JAX'
    )
