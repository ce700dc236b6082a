"""Activations, element by element, and softmax. At kinks the derivatives are torch's, not JAX's.

bfloat16 is computed in float32 and rounded once. `inplace` is torch's and does nothing: arrays do not change.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from funcnet.functional import checks

__all__ = ["gelu", "log_softmax", "relu", "relu6", "sigmoid", "silu", "softmax", "tanh"]

_SQRT_HALF = 0.7071067811865476
_DENSITY_AT_0 = 0.3989422804014327  # of the normal distribution: 1 / √(2π)


def relu(input: jax.Array, inplace: bool = False) -> jax.Array:
    """`max(x, 0)`, with derivative 0 at 0.

    Args:
        input: any shape, floating or integers.
        inplace: ignored.

    Returns:
        As the input.

    Example:
        >>> relu(jnp.array([-1.0, 2.0]))
        Array([0., 2.], dtype=float32)

    Reference: torch.nn.functional.relu.
    """
    return jax.nn.relu(jnp.asarray(input))


def relu6(input: jax.Array, inplace: bool = False) -> jax.Array:
    """`min(max(x, 0), 6)`, with derivative 0 at 0 and at 6.

    Args:
        input: any shape, floating.
        inplace: ignored.

    Returns:
        As the input.

    Raises:
        TypeError: integers.

    Example:
        >>> relu6(jnp.array([-1.0, 2.0, 7.0]))
        Array([0., 2., 6.], dtype=float32)

    Reference: torch.nn.functional.relu6.
    """
    return _relu6(checks.floating("F.relu6", "input", input))


@jax.custom_jvp
def _relu6(x: jax.Array) -> jax.Array:
    return jnp.clip(x, 0, 6)


@_relu6.defjvp
def _relu6_jvp(primals: tuple[jax.Array], tangents: tuple[jax.Array]) -> tuple[jax.Array, jax.Array]:
    (x,), (dx,) = primals, tangents
    return _relu6(x), jnp.where((x <= 0) | (x >= 6), 0, dx)


def gelu(input: jax.Array, approximate: str = "none") -> jax.Array:
    """`x · Φ(x)`, Φ the normal distribution's: exact by default, unlike `jax.nn.gelu`.

    Args:
        input: any shape, floating.
        approximate: 'none' for erf; 'tanh' for `x/2 · (1 + tanh(√(2/π) · (x + 0.044715 x³)))`.

    Returns:
        As the input.

    Raises:
        ValueError: another `approximate`.
        TypeError: integers.

    Example:
        >>> print(gelu(jnp.array([-1.0, 0.0, 1.0])))
        [-0.15865526  0.          0.8413447 ]

    Reference: torch.nn.functional.gelu; Hendrycks and Gimpel 2016.
    """
    input = checks.floating("F.gelu", "input", input)
    if approximate not in ("none", "tanh"):
        raise ValueError(
            f"F.gelu: approximate is unknown; expected 'none' or 'tanh', got {approximate!r}. Choose one of the two."
        )
    x = input.astype(checks.wide_dtype(input))
    if approximate == "tanh":
        return jax.nn.gelu(x, approximate=True).astype(input.dtype)
    return _gelu_by_erf(x).astype(input.dtype)


@jax.custom_jvp
def _gelu_by_erf(x: jax.Array) -> jax.Array:
    # By erf, as in torch: jax.nn.gelu's erfc costs four times as much on CPU.
    return x * (0.5 * (1 + lax.erf(x * _SQRT_HALF)))


@_gelu_by_erf.defjvp
def _gelu_by_erf_jvp(primals, tangents):
    """`Φ(x) + x φ(x)`, with erf computed again behind a barrier: kept from the way forward, it would be written to
    memory and read back, which cost a tenth of a BERT step's temporary memory on CPU; time saved is within noise."""
    (x,), (tangent,) = primals, tangents
    again = lax.optimization_barrier(x)
    normal = 0.5 * (1 + lax.erf(again * _SQRT_HALF))
    density = jnp.exp(-0.5 * again * again) * _DENSITY_AT_0
    return _gelu_by_erf(x), (normal + again * density) * tangent


def silu(input: jax.Array, inplace: bool = False) -> jax.Array:
    """`x · sigmoid(x)`.

    Args:
        input: any shape, floating.
        inplace: ignored.

    Returns:
        As the input.

    Raises:
        TypeError: integers.

    Example:
        >>> print(silu(jnp.array([0.0, 1.0])))
        [0.        0.7310586]

    Reference: torch.nn.functional.silu.
    """
    input = checks.floating("F.silu", "input", input)
    x = input.astype(checks.wide_dtype(input))
    return (x * lax.logistic(x)).astype(input.dtype)


def tanh(input: jax.Array) -> jax.Array:
    """The hyperbolic tangent.

    Args:
        input: any shape, floating.

    Returns:
        As the input.

    Raises:
        TypeError: integers.

    Example:
        >>> tanh(jnp.zeros(2))
        Array([0., 0.], dtype=float32)

    Reference: torch.nn.functional.tanh.
    """
    return jnp.tanh(checks.floating("F.tanh", "input", input))


def sigmoid(input: jax.Array) -> jax.Array:
    """`1 / (1 + exp(-x))`.

    Args:
        input: any shape, floating.

    Returns:
        As the input.

    Raises:
        TypeError: integers.

    Example:
        >>> sigmoid(jnp.zeros(2))
        Array([0.5, 0.5], dtype=float32)

    Reference: torch.nn.functional.sigmoid.
    """
    input = checks.floating("F.sigmoid", "input", input)
    return lax.logistic(input.astype(checks.wide_dtype(input))).astype(input.dtype)


def softmax(input: jax.Array, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> jax.Array:
    """`exp(x) / Σ exp(x)` over one dimension, in at least float32.

    Args:
        input: any shape, floating (or any, with a `dtype`).
        dim: the dimension whose entries then sum to 1. None is torch's old rule: 0 for 0, 1 or 3 dimensions, else 1.
        _stacklevel: torch's, ignored.
        dtype: what to convert the input to first.

    Returns:
        As the input, or of `dtype`. A row that is -inf throughout is NaN.

    Raises:
        ValueError: there is no dimension `dim`.
        TypeError: integers without a `dtype`.

    Example:
        >>> softmax(jnp.array([0.0, 0.0]), dim=0)
        Array([0.5, 0.5], dtype=float32)

    Reference: torch.nn.functional.softmax.
    """
    return _softmax("F.softmax", jax.nn.softmax, input, dim, dtype)


def log_softmax(input: jax.Array, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> jax.Array:
    """`x - log Σ exp(x)` over one dimension, in at least float32.

    Args:
        input: any shape, floating (or any, with a `dtype`).
        dim: the dimension whose exponentials then sum to 1; None as in `softmax`.
        _stacklevel: torch's, ignored.
        dtype: what to convert the input to first.

    Returns:
        As the input, or of `dtype`.

    Raises:
        ValueError: there is no dimension `dim`.
        TypeError: integers without a `dtype`.

    Example:
        >>> print(log_softmax(jnp.array([0.0, 0.0]), dim=0))
        [-0.6931472 -0.6931472]

    Reference: torch.nn.functional.log_softmax.
    """
    return _softmax("F.log_softmax", jax.nn.log_softmax, input, dim, dtype)


def _softmax(where: str, function: Any, input: jax.Array, dim: int | None, dtype: Any) -> jax.Array:
    input = jnp.asarray(input) if dtype is None else jnp.asarray(input).astype(dtype)
    input = checks.floating(where, "input", input)
    if dim is None:
        dim = 0 if input.ndim in (0, 1, 3) else 1
    ndim = max(input.ndim, 1)
    if not -ndim <= dim < ndim:
        raise ValueError(
            f"{where}: there is no such dimension; expected {-ndim} to {ndim - 1}, got {dim}. Correct dim."
        )
    if input.size == 0:
        return input
    x = input.astype(checks.wide_dtype(input))
    return function(x.reshape(x.shape or (1,)), axis=dim).reshape(input.shape).astype(input.dtype)
