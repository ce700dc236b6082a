"""Multiplication of integers by real numbers in fixed point, without 64-bit integers.

A positive real number is written as `mantissa · 2^(exponent - 31)`, with an integer mantissa in [2³⁰, 2³¹). The
functions are those of gemmlowp, on which TFLite's reference kernels are built. These functions round a product twice:
first to 32 bits, and then in the shift by the exponent. A few kernels of TFLite round only once. JAX has no 64-bit
integers by default, so a product of two 32-bit integers is computed from their 16-bit halves.
"""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from funcnet.quantization.primitives import primitive

__all__ = [
    "fixed_point_product",
    "high_product",
    "multiply_by_quantized_multiplier",
    "quantize_multiplier",
    "rounding_divide",
    "rounding_divide_by_pot",
    "saturating_rounding_doubling_high_mul",
]


def quantize_multiplier(multiplier: float) -> tuple[int, int]:
    """Return the mantissa and the exponent of a real number, computed in double precision.

    Args:
        multiplier: finite number, at least 0.

    Returns:
        (mantissa, exponent), so that `multiplier ≈ mantissa · 2^(exponent - 31)`, with the mantissa in [2³⁰, 2³¹). The
        mantissa is 0 if the multiplier is below 2⁻³², because every product with an int32 number would then be rounded
        to 0.

    Raises:
        ValueError: if the multiplier is negative, infinite or NaN.

    Example:
        >>> quantize_multiplier(0.75)
        (1610612736, 0)

    Reference: TFLite's QuantizeMultiplier.
    """
    if not (math.isfinite(multiplier) and multiplier >= 0):
        raise ValueError(f"quantize_multiplier: bad multiplier; expected a finite number >= 0, got {multiplier!r}.")
    fraction, exponent = math.frexp(multiplier)
    mantissa = math.floor(fraction * 2**31 + 0.5)  # exact: a double has 53 bits
    if mantissa == 2**31:
        mantissa, exponent = 2**30, exponent + 1
    return (0, 0) if mantissa == 0 or exponent < -31 else (mantissa, exponent)


def saturating_rounding_doubling_high_mul(a: jax.Array, b: jax.Array) -> jax.Array:
    """Return the rounded upper 32 bits of `2·a·b`, which are `(a·b + 2³⁰) >> 31`.

    For `a = b = -2³¹`, the only case that does not fit in int32, the result is 2³¹ - 1.

    Args:
        a, b: int32 arrays that broadcast.

    Returns:
        An int32 array.

    Raises:
        TypeError: if an array is not int32.

    Example:
        >>> saturating_rounding_doubling_high_mul(jnp.array([1000, -3], jnp.int32), jnp.int32(2**30))
        Array([500,  -1], dtype=int32)

    Reference: gemmlowp's SaturatingRoundingDoublingHighMul.
    """
    return _high_mul(*_int32("saturating_rounding_doubling_high_mul", a, b))


@functools.partial(jax.jit, static_argnames="nudge")
def _high_mul(a, b, nudge=1 << 14):
    return high_product(*jnp.broadcast_arrays(a, b), nudge=nudge)


@primitive
def high_product(a: jax.Array, b: jax.Array, *, nudge: int) -> jax.Array:
    """Return `(a·b + nudge·2¹⁶) >> 31`, clipped to int32.

    Args:
        a, b: int32 arrays of the same shape.
        nudge: integer from 0 to 2¹⁴. With 2¹⁴, halves are rounded up; with 0, every result is rounded down.

    Example:
        >>> high_product(jnp.int32([1000, -3]), jnp.int32([2**30, 2**30]), nudge=0)
        Array([500,  -2], dtype=int32)
    """
    a_high, b_high = a >> 16, b >> 16
    a_low, b_low = (lax.bitcast_convert_type(x & 0xFFFF, jnp.uint32) for x in (a, b))
    # a·b = a_high·b_high·2³² + (a_high·b_low + a_low·b_high)·2¹⁶ + a_low·b_low. Each middle product fits in int32, but
    # their sum does not: floor(sum / 2¹⁵) is the sum of the floors and of the carry of the remainders.
    first = a_high * lax.bitcast_convert_type(b_low, jnp.int32)
    second = b_high * lax.bitcast_convert_type(a_low, jnp.int32)
    rest = lax.bitcast_convert_type(((a_low * b_low) >> 16) + jnp.uint32(nudge), jnp.int32)
    carry = ((first & 0x7FFF) + (second & 0x7FFF) + rest) >> 15
    high = 2 * (a_high * b_high)  # wraps only if a = b = -2³¹, which the last line handles
    product = high + (first >> 15) + (second >> 15) + carry
    least = np.int32(-(2**31))
    return jnp.where((a == least) & (b == least), jnp.int32(2**31 - 1), product)


def rounding_divide_by_pot(x: jax.Array, exponent: jax.Array | int) -> jax.Array:
    """Divide by a power of two and round halves away from zero.

    Args:
        x: int32 array.
        exponent: exponent of the power of two, from 0 to 31: an integer, or an int32 array that broadcasts.

    Returns:
        An int32 array.

    Raises:
        TypeError: if `x` is not int32.

    Example:
        >>> rounding_divide_by_pot(jnp.array([5, -5, -6], jnp.int32), 1)
        Array([ 3, -3, -3], dtype=int32)

    Reference: gemmlowp's RoundingDivideByPOT.
    """
    return _divide(*_int32("rounding_divide_by_pot", x, jnp.asarray(exponent, jnp.int32)))


@jax.jit
def _divide(x, exponent):
    return rounding_divide(*jnp.broadcast_arrays(x, exponent))


@primitive
def rounding_divide(x: jax.Array, exponent: jax.Array) -> jax.Array:
    """Divide like `rounding_divide_by_pot`, for arrays of the same shape. A traced program records one operation."""
    mask = lax.shift_right_logical(jnp.full_like(exponent, -1), 32 - exponent)  # a shift by 32 gives 0
    threshold = (mask >> 1) + (x < 0).astype(jnp.int32)
    return (x >> exponent) + ((x & mask) > threshold).astype(jnp.int32)


def multiply_by_quantized_multiplier(
    x: jax.Array, mantissa: jax.Array | int, exponent: jax.Array | int, roundings: int = 2
) -> jax.Array:
    """Return `x · mantissa · 2^(exponent - 31)`, rounded twice or once.

    Args:
        x: int32 array. With a positive exponent, `x · 2^exponent` must fit in int32.
        mantissa, exponent: results of `quantize_multiplier`, as integers or as int32 arrays that broadcast.
        roundings: with 2, as in gemmlowp, the upper 32 bits of the product are rounded with halves up, and the shifted
            result is rounded with halves away from zero. With 1, only the final result is rounded, with halves up.

    Returns:
        An int32 array.

    Raises:
        TypeError: if `x` is not int32.
        ValueError: if `roundings` is neither 1 nor 2.

    Example:
        >>> multiply_by_quantized_multiplier(jnp.array([100, -3], jnp.int32), *quantize_multiplier(0.75))
        Array([75, -2], dtype=int32)

    Reference: TFLite's MultiplyByQuantizedMultiplier, with double and with single rounding.
    """
    (x,) = _int32("multiply_by_quantized_multiplier", x)
    if roundings not in (1, 2):
        raise ValueError(f"multiply_by_quantized_multiplier: bad roundings; expected 1 or 2, got {roundings!r}.")
    return _multiply(x, jnp.asarray(mantissa, jnp.int32), jnp.asarray(exponent, jnp.int32), roundings)


@functools.partial(jax.jit, static_argnames="roundings")
def _multiply(x, mantissa, exponent, roundings):
    return fixed_point_product(*jnp.broadcast_arrays(x, mantissa, exponent), roundings=roundings)


@primitive
def fixed_point_product(x: jax.Array, mantissa: jax.Array, exponent: jax.Array, *, roundings: int) -> jax.Array:
    """Multiply as `multiply_by_quantized_multiplier` does, for equal shapes, as one operation of a traced program."""
    left, right = jnp.maximum(exponent, 0), jnp.maximum(-exponent, 0)
    nearest = _high_mul(x << left, mantissa)
    if roundings == 2:
        return _divide(nearest, right)
    # Half of the divisor is a multiple of 2³¹, so that the bits that `_high_mul` drops do not affect the rounding.
    below = _high_mul(x << left, mantissa, 0)
    return jnp.where(right == 0, nearest, ((below >> jnp.maximum(right - 1, 0)) + 1) >> 1)


def _int32(where: str, *arrays: jax.Array) -> tuple[jax.Array, ...]:
    for array in arrays:
        if jnp.result_type(array) != jnp.int32:
            raise TypeError(f"{where}: wrong dtype; expected int32, got {jnp.result_type(array)}.")
    return tuple(jnp.asarray(array) for array in arrays)
