"""Layer normalisation in float32 that gives the same bits in every runtime.

A sum of float32 numbers depends on the order of addition, and XNNPACK's SQRT is approximate. In this file, sums over a
row are therefore sums of integers, and the square root is computed from operations that IEEE 754 defines. In the
formulas, x is a row of D entries. L is the result of `largest_step`, about √(2³¹ / D):

    step = max|x| / L        r = x / step        q = round(r)
    mean = Σq / D            square = Σq² / D + eps / step²
    variance = square · (1 - mean / (square / mean))
    output = ((r - mean) / √variance) / (1 / weight) + bias

For D = 384, the integers q have 13 bits. The integers q are used only for the mean and the variance.

No inexact float32 product is added to a number, because compilers would contract the multiplication and the addition
into one operation, which rounds differently.
"""

import math

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import ArrayLike

__all__ = ["FLOOR_OF_LARGEST", "ROOT_STEPS", "START_OF_ROOT", "inverse_weight", "largest_step", "layer_norm"]

FLOOR_OF_LARGEST = np.float32(2.0**-20)
"""Lower limit of max|x| in the formula of `step`, so that rows near 0 are not divided by 0."""

START_OF_ROOT = 0x1FBD1DF5
"""Constant for the first guess of the square root of a float32 number. Take the bits of the number as an integer, shift
them right by one, and add this constant. The sum, read as the bits of a float32 number, is within 5 % of the square
root."""

ROOT_STEPS = 3
"""Number of steps of Heron's method for a square root. Each step roughly squares the relative error. The error is 5 %
at the start, then 0.1 %, then 6e-7, and after three steps that of float32."""


def layer_norm(x: jax.Array, weight: jax.Array, bias: jax.Array, eps: float = 1e-5) -> jax.Array:
    """Normalise over the last dimension.

    The result equals that of LiteRT's operators bit for bit. The formula is in the docstring of layer_norm.py.

    Args:
        x: float32 array (*, D).
        weight, bias: float32 arrays (D,).
        eps: number added to the variance.

    Returns:
        A float32 array of the shape of `x`.

    Raises:
        ValueError: if the shapes or the dtype of `x` do not fit, D is 0 or above 2²⁰, or eps is not positive.

    Example:
        >>> layer_norm(jnp.array([[-3.0, 1.0, 5.0, 9.0]]), jnp.ones(4), jnp.ones(4)).round(1)
        Array([[-0.3,  0.6,  1.4,  2.3]], dtype=float32)
    """
    x = jnp.asarray(x)
    if x.dtype != jnp.float32 or not x.ndim or weight.shape != x.shape[-1:] or bias.shape != x.shape[-1:]:
        raise ValueError(
            f"layer_norm: the arrays do not fit; expected float32 (*, D), (D,) and (D,), got {x.dtype} {x.shape}, "
            f"{weight.shape} and {bias.shape}."
        )
    if not 0 < x.shape[-1] <= 2**20 or not eps > 0:
        raise ValueError(
            f"layer_norm: D or eps is out of range; expected D of 1 to {2**20} and eps above 0, got {x.shape[-1]} and "
            f"{eps}."
        )
    return _normalised(x, inverse_weight(weight), bias, np.float32(eps))


def inverse_weight(weight: ArrayLike) -> jax.Array:
    """Return 1 / weight, by which `layer_norm` divides. The result is infinite if the weight is 0.

    Example:
        >>> inverse_weight(jnp.array([2.0, 0.0]))
        Array([0.5, inf], dtype=float32)
    """
    return jnp.float32(1) / jnp.asarray(weight)


def largest_step(size: int) -> np.float32:
    """Return an integer L such that the sum of `size` squares of integers from -L to L fits in int32.

    Example:
        >>> float(largest_step(384))
        2363.0
    """
    return np.float32(math.isqrt((2**31 - 1) // size) - 1)


@jax.jit
def _normalised(x, inverse, bias, eps):
    size = np.float32(x.shape[-1])
    top = jnp.maximum(jnp.max(jnp.abs(x), -1, keepdims=True), FLOOR_OF_LARGEST)
    step = _divided(top, largest_step(x.shape[-1]))
    ratio = _divided(x, step)
    whole = jnp.floor(ratio + np.float32(0.5)).astype(jnp.int32)
    total = jnp.sum(whole, -1, keepdims=True).astype(jnp.float32)
    squares = jnp.sum(whole * whole, -1, keepdims=True).astype(jnp.float32)
    mean = _divided(total, size)
    square = _divided(squares, size) + _divided(_divided(eps, step), step)
    variance = square * (np.float32(1) - _divided(mean, _divided(square, mean)))
    return _divided(_divided(ratio - mean, _root(variance)), inverse) + bias


def _root(x):
    """Return the square root to float32 accuracy, with the same bits on every machine."""
    half = lax.shift_right_arithmetic(lax.bitcast_convert_type(x, jnp.int32), np.int32(1))
    root = lax.bitcast_convert_type(half + np.int32(START_OF_ROOT), jnp.float32)
    for _ in range(ROOT_STEPS):
        root = (root + _divided(x, root)) * np.float32(0.5)
    return root


def _divided(x, by):
    """Divide with the rounding of IEEE 754. The barrier keeps XLA from rewriting the division."""
    x, by = lax.optimization_barrier(tuple(jnp.broadcast_arrays(x, by)))
    return x / by
