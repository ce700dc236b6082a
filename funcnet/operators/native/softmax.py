"""Softmax and log-softmax in float32, by kernels in C++ on CPU."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from funcnet.operators.foreign_kernels import ForeignKernel
from funcnet.operators.native.library import once, targets
from funcnet.operators.operator import Operator, define

__all__ = ["log_softmax", "softmax"]


def softmax(x: jax.Array) -> jax.Array:
    """Return `exp(x) / Σ exp(x)` over the last dimension of x, float32 (*, D).

    Example:
        >>> softmax(jnp.zeros(2))
        Array([0.5, 0.5], dtype=float32)
    """
    found: jax.Array = _operators()["softmax"](x)
    return found


def log_softmax(x: jax.Array) -> jax.Array:
    """Return `x - log Σ exp(x)` over the last dimension of x, float32 (*, D).

    Example:
        >>> print(log_softmax(jnp.zeros(2)))
        [-0.6931472 -0.6931472]
    """
    found: jax.Array = _operators()["log_softmax"](x)
    return found


@once
def _operators() -> dict[str, Operator]:
    """Return the operators. They are declared, with their kernels, when the first one is called."""
    return {
        "softmax": _operator("softmax", jax.nn.softmax, lambda gradient, output: _of_softmax(gradient, output)),
        "log_softmax": _operator("log_softmax", jax.nn.log_softmax, lambda gradient, output: _of_log(gradient, output)),
    }


def _of_softmax(gradient: jax.Array, output: jax.Array) -> jax.Array:
    return (gradient - (gradient * output).sum(-1, keepdims=True)) * output


def _of_log(gradient: jax.Array, output: jax.Array) -> jax.Array:
    return gradient - jnp.exp(output) * gradient.sum(-1, keepdims=True)


def _operator(name: str, function: Callable[[jax.Array], jax.Array], of: Callable[..., jax.Array]) -> Operator:
    forward = define(f"funcnet::{name}(Tensor input) -> Tensor", "... d -> ... d")
    forward.reference(lambda input: function(input))
    schema = f"funcnet::{name}_backward(Tensor gradient, Tensor output) -> Tensor"
    backward = define(schema, "... d, ... d -> ... d")
    backward.reference(of)

    def second(grad: Any, gradient: Any, output: Any) -> dict[str, jax.Array]:
        return dict(zip(("gradient", "output"), jax.vjp(of, gradient, output)[1](grad), strict=True))

    backward.derivative(second)
    forward.derivative(input=lambda grad, result: backward(grad, result))
    for operator, target in ((forward, f"funcnet_{name}"), (backward, f"funcnet_{name}_backward")):
        if target in targets("kernels"):
            operator.impl("cpu", ForeignKernel(target, is_exported=False), dtypes=["float32"])
    return forward
