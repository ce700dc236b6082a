"""Piecewise activations: hardtanh, relu6, hardsigmoid, hardswish, hardshrink and softshrink.

At the corners between two pieces, the derivatives are those of torch, not of JAX. For bfloat16 inputs, the computation
uses float32, and the result is rounded once at the end. `inplace` exists for compatibility with torch, and is ignored
because arrays are immutable.
"""

import functools

import jax
import jax.numpy as jnp

from funcnet.functional import checks

__all__ = ["hardshrink", "hardsigmoid", "hardswish", "hardtanh", "relu6", "softshrink"]

_SIXTH = 0.1666666716337204  # 1/6 in float32, which is the slope of torch's hardsigmoid even in float64


def hardtanh(input: jax.Array, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> jax.Array:
    """Compute `min(max(x, min_val), max_val)` element-wise. The derivative is 0 at both bounds.

    Args:
        input: floating-point or integer array of any shape. For an integer input, the bounds are truncated to integers.
        min_val: lower bound.
        max_val: upper bound.
        inplace: ignored.

    Returns:
        An array of the same shape and dtype as the input.

    Raises:
        ValueError: if `min_val` is above `max_val`, or if `min_val` is negative and the input is unsigned.
        TypeError: if the input is boolean or complex.

    Example:
        >>> hardtanh(jnp.array([-2.0, 0.5, 2.0]))
        Array([-1. ,  0.5,  1. ], dtype=float32)

    Reference: torch.nn.functional.hardtanh.
    """
    input = checks.real("F.hardtanh", "input", input)
    if min_val > max_val:
        raise ValueError(
            f"F.hardtanh: the bounds are in the wrong order; expected min_val <= max_val, got {min_val} and {max_val}. "
            "Swap them."
        )
    if jnp.issubdtype(input.dtype, jnp.unsignedinteger) and min_val < 0:
        raise ValueError(
            f"F.hardtanh: an unsigned input cannot be less than 0; expected min_val >= 0, got {min_val}. Convert the "
            "input with input.astype(jnp.int32)."
        )
    return _hardtanh(input, min_val, max_val)


def relu6(input: jax.Array, inplace: bool = False) -> jax.Array:
    """Compute `min(max(x, 0), 6)` element-wise. The derivative is 0 at 0 and at 6.

    Args:
        input: floating-point or integer array of any shape.
        inplace: ignored.

    Returns:
        An array of the same shape and dtype as the input.

    Raises:
        TypeError: if the input is boolean or complex.

    Example:
        >>> relu6(jnp.array([-1.0, 2.0, 7.0]))
        Array([0., 2., 6.], dtype=float32)

    Reference: torch.nn.functional.relu6.
    """
    return _hardtanh(checks.real("F.relu6", "input", input), 0, 6)


@functools.partial(jax.custom_jvp, nondiff_argnums=(1, 2))
def _hardtanh(x: jax.Array, low: float, high: float) -> jax.Array:
    return jnp.clip(x, jnp.asarray(low, x.dtype), jnp.asarray(high, x.dtype))


@_hardtanh.defjvp
def _hardtanh_jvp(low, high, primals, tangents):
    (x,), (dx,) = primals, tangents
    outside = (x <= jnp.asarray(low, x.dtype)) | (x >= jnp.asarray(high, x.dtype))
    return _hardtanh(x, low, high), jnp.where(outside, 0, dx)


def hardsigmoid(input: jax.Array, inplace: bool = False) -> jax.Array:
    """Compute `relu6(x + 3) / 6` element-wise. The derivative is 0 at -3 and at 3.

    Args:
        input: floating-point array of any shape.
        inplace: ignored.

    Returns:
        An array of the same shape and dtype as the input, in [0, 1].

    Raises:
        TypeError: if the input is not floating-point.

    Example:
        >>> hardsigmoid(jnp.array([-4.0, 0.0, 4.0]))
        Array([0. , 0.5, 1. ], dtype=float32)

    Reference: torch.nn.functional.hardsigmoid.
    """
    input = checks.floating("F.hardsigmoid", "input", input)
    return _hardsigmoid(input.astype(checks.wide_dtype(input))).astype(input.dtype)


@jax.custom_jvp
def _hardsigmoid(x: jax.Array) -> jax.Array:
    return jnp.clip(x + 3, 0, 6) / 6


@_hardsigmoid.defjvp
def _hardsigmoid_jvp(primals, tangents):
    (x,), (dx,) = primals, tangents
    return _hardsigmoid(x), jnp.where((x > -3) & (x < 3), _SIXTH * dx, 0)


def hardswish(input: jax.Array, inplace: bool = False) -> jax.Array:
    """Compute `x · relu6(x + 3) / 6` element-wise. The derivative is 0 at -3 and 1 at 3.

    Args:
        input: floating-point array of any shape.
        inplace: ignored.

    Returns:
        An array of the same shape and dtype as the input.

    Raises:
        TypeError: if the input is not floating-point.

    Example:
        >>> hardswish(jnp.array([-4.0, 0.0, 1.5, 4.0]))
        Array([-0.   ,  0.   ,  1.125,  4.   ], dtype=float32)

    Reference: torch.nn.functional.hardswish; Howard et al. 2019.
    """
    input = checks.floating("F.hardswish", "input", input)
    return _hardswish(input.astype(checks.wide_dtype(input))).astype(input.dtype)


@jax.custom_jvp
def _hardswish(x: jax.Array) -> jax.Array:
    return x * jnp.clip(x + 3, 0, 6) / 6


@_hardswish.defjvp
def _hardswish_jvp(primals, tangents):
    (x,), (dx,) = primals, tangents
    slope = jnp.where(x <= -3, 0, jnp.where(x < 3, x / 3 + 0.5, 1))
    return _hardswish(x), slope * dx


def hardshrink(input: jax.Array, lambd: float = 0.5) -> jax.Array:
    """Return `x` where `|x| > lambd` (with derivative 1), and 0 elsewhere (with derivative 0).

    Args:
        input: floating-point array of any shape.
        lambd: threshold, which is cast to the input's dtype.

    Returns:
        An array of the same shape and dtype as the input.

    Raises:
        TypeError: if the input is not floating-point.

    Example:
        >>> hardshrink(jnp.array([-1.0, 0.5, 1.0]))
        Array([-1.,  0.,  1.], dtype=float32)

    Reference: torch.nn.functional.hardshrink.
    """
    return _hardshrink(checks.floating("F.hardshrink", "input", input), lambd)


@functools.partial(jax.custom_jvp, nondiff_argnums=(1,))
def _hardshrink(x: jax.Array, lambd: float) -> jax.Array:
    return jnp.where(_is_small(x, lambd), 0, x)


@_hardshrink.defjvp
def _hardshrink_jvp(lambd, primals, tangents):
    (x,), (dx,) = primals, tangents
    return _hardshrink(x, lambd), jnp.where(_is_small(x, lambd), 0, dx)


def softshrink(input: jax.Array, lambd: float = 0.5) -> jax.Array:
    """Move `x` towards 0 by `lambd`, but not past 0. The derivative at ±`lambd` is 0.

    Args:
        input: floating-point array of any shape.
        lambd: distance by which `x` moves, at least 0.

    Returns:
        An array of the same shape and dtype as the input.

    Raises:
        ValueError: if `lambd` is negative, or too large for the input's dtype.
        TypeError: if the input is not floating-point.

    Example:
        >>> softshrink(jnp.array([-2.0, 0.5, 1.0]))
        Array([-1.5,  0. ,  0.5], dtype=float32)

    Reference: torch.nn.functional.softshrink.
    """
    input = checks.floating("F.softshrink", "input", input)
    if not 0 <= lambd <= float(jnp.finfo(input.dtype).max):
        raise ValueError(
            f"F.softshrink: lambd is out of range; expected 0 to the largest finite {input.dtype} number, got {lambd}."
        )
    return _softshrink(input, lambd)


@functools.partial(jax.custom_jvp, nondiff_argnums=(1,))
def _softshrink(x: jax.Array, lambd: float) -> jax.Array:
    wide = x.astype(checks.wide_dtype(x))
    return jnp.where(_is_small(wide, lambd), 0, wide - jnp.sign(wide) * jnp.asarray(lambd, wide.dtype)).astype(x.dtype)


@_softshrink.defjvp
def _softshrink_jvp(lambd, primals, tangents):
    (x,), (dx,) = primals, tangents
    return _softshrink(x, lambd), jnp.where(_is_small(x, lambd), 0, dx)


def _is_small(x: jax.Array, lambd: float) -> jax.Array:
    return jnp.abs(x) <= jnp.asarray(lambd, x.dtype)
