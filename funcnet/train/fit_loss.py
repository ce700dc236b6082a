"""The user's functions `loss` and `predict` of `fit`, as modules that contain the net."""

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from funcnet import nn
from funcnet.arguments import shown
from funcnet.train.precision import at_least_float32
from funcnet.tree import PyTree

__all__ = ["Bound", "checked_losses", "checked_outputs"]


class Bound(nn.Module):
    """A module that contains the net and calls a function of the user. Inside `forward`, the net is bound to its arrays
    and can be called.

    Args:
        net: the net of the user.
        name: the argument of `fit` with which the function was passed, "loss" or "predict".
        function: a function `function(model, batch)` or `function(model, batch, extra)`.
        check: function that checks the value of `function` and returns it.
    """

    def __init__(self, net: nn.Module, name: str, function: Callable[..., Any], check: Callable[[Any], Any]):
        super().__init__()
        self.net = net
        self.given = (name, function, check)  # in a tuple, so that a function that is a module is not a submodule

    def forward(self, *arguments: PyTree) -> Any:
        name, function, check = self.given
        try:
            value = function(self.net, *arguments)
        except Exception as error:
            if library := _library(function):
                raise TypeError(_library_message(name, function, library)) from error
            if not _succeeds(function, arguments[0], self.net, *arguments[1:]):
                raise
            raise TypeError(
                f"train.fit: {name} takes its arguments in another order; expected {name}(model, batch), got a "
                "function that can only be called with the batch first. Exchange its first two parameters."
            ) from error
        return check(value)


def _library(function: object) -> str | None:
    """Return the name of the library that a function, or the class of a callable object, comes from; None for others.

    >>> _library(functools.partial(jnp.mean, axis=0)), _library(len)
    ('jax', None)
    """
    function = _unwrapped(function)
    owner = function if inspect.isroutine(function) or hasattr(function, "__name__") else type(function)
    root = str(getattr(owner, "__module__", None)).partition(".")[0]
    return root if root in ("funcnet", "jax", "optax", "torch") else None


def _unwrapped(function: object) -> Any:
    while isinstance(function, functools.partial):
        function = function.func
    return function


def _library_message(name: str, function: object, library: str) -> str:
    example = (
        'lambda model, batch: F.mse_loss(model(batch["x"]), batch["y"], reduction="none")'
        if name == "loss"
        else 'lambda model, batch: (model(batch["x"]), batch["y"])'
    )
    return (
        f"train.fit: {name} is a function of {library}, which does not accept a model and a batch; expected your own "
        f"function {name}(model, batch), got {shown(_unwrapped(function))}. For example, {example}"
    )


def _succeeds(function: Callable[..., Any], *arguments: object) -> bool:
    try:
        function(*arguments)
    except Exception:
        return False
    return True


_ADVICE = {
    True: 'Use reduction="none", as in F.cross_entropy(logits, labels, reduction="none").',
    False: "The log shows the mean of the values. If a metric is not a mean, use the argument metrics, or compute it "
    "from the logged ones: for example, the perplexity is the exponential of the loss in Fitted.rows.",
}


def checked_losses(value: PyTree) -> dict[str, Any]:
    """Return the values of a loss by name.

    Raises:
        ValueError: if the loss function does not return one value per element.
    """
    arrays = dict(value) if isinstance(value, Mapping) else {"loss": value}
    if "loss" not in arrays:
        raise ValueError(
            f"train.fit: loss(model, batch) returned no 'loss'; expected it in the dict, got {sorted(arrays)}."
        )
    for name, array in arrays.items():
        is_loss = name == "loss"
        if not hasattr(array, "shape") or array.shape == ():
            raise ValueError(
                f"train.fit: {name!r} of loss(model, batch) is not an array of values; expected a value for each "
                "element (row, token, …) of the batch, because fit computes the mean over all devices and "
                f"micro-batches, got {'a scalar' if np.ndim(array) == 0 else type(array).__name__}. {_ADVICE[is_loss]}"
            )
        if array.shape != arrays["loss"].shape:
            raise ValueError(
                f"train.fit: {name!r} of loss(model, batch) has a different shape from the losses; expected "
                f"{arrays['loss'].shape}, got {array.shape}."
            )
    return arrays


def checked_outputs(value: object) -> Any:
    """Return the value of `predict`, with floating-point numbers in at least float32.

    Raises:
        ValueError: if the value has a part that is not an array with rows.
    """
    leaves = jax.tree.leaves(value)
    wrong = [leaf for leaf in leaves if not np.ndim(leaf) or not hasattr(leaf, "dtype")]
    if wrong or not leaves:
        raise ValueError(
            "train.fit: predict(model, batch) returned a wrong value; expected an array, or a tuple of arrays, with "
            f"one row per example, such as (logits, labels), got {shown(wrong[0] if wrong else value)}."
        )
    return jax.tree.map(
        lambda leaf: at_least_float32(leaf) if jnp.issubdtype(leaf.dtype, jnp.floating) else leaf, value
    )
