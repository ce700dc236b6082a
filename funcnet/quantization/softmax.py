"""Softmax of int8 tensors, in the arithmetic of one of two kernels.

The difference between the maximum of a row and an int8 entry has only 256 possible values. Both kernels therefore look
up the exponential of this difference in a table that is made on the host:

- `"reference"`: gemmlowp's fixed point. The table holds integers. Newton's method computes the reciprocal of the sum.
- `"xnnpack"`: XNNPACK leaves softmax to LiteRT's default kernel. LiteRT's default kernel has a table of float32
  numbers, and adds the exponentials of a row one after the other.
"""

import math

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from funcnet.quantization.multipliers import (
    quantize_multiplier,
    rounding_divide_by_pot,
    saturating_rounding_doubling_high_mul,
)
from funcnet.quantization.qparams import QParams, check_integers, require_per_tensor

__all__ = ["softmax"]

_OUT = QParams(1 / 256, -128, "int8")
_ONE = 2**31 - 1
_FACTORS = (1672461947, 1302514674, 790015084, 290630308, 39332535, 720401, 242)  # exp(-2^n) for n = -2, …, 4


def softmax(x: jax.Array, qparams: QParams, kernel: str = "reference") -> jax.Array:
    """Return the softmax over the last dimension.

    The result equals LiteRT's SOFTMAX bit for bit.

    Args:
        x: int8 array (*, K).
        qparams: parameters of `x`, with one scale.
        kernel: "reference" (fixed point) or "xnnpack" (a table of float32).

    Returns:
        An int8 array of the shape of `x`, with the parameters that LiteRT demands: `QParams(1 / 256, -128, "int8")`.

    Raises:
        TypeError: if `x` has a different dtype from its parameters.
        ValueError: if the parameters are not int8 or have a scale for each channel, `x` has no dimension, or the kernel
            is unknown.

    Example:
        >>> softmax(jnp.array([0, 16, -128], jnp.int8), QParams(1 / 16, 0, "int8"))
        Array([ -59,   59, -128], dtype=int8)

    Reference: TFLite's `reference_ops::Softmax` and `optimized_ops::Softmax`.
    """
    x = check_integers("softmax", "x", x, qparams)
    require_per_tensor("softmax", "x", qparams)
    if qparams.dtype != "int8" or not x.ndim:
        raise ValueError(f"softmax: x does not fit; expected an int8 array (*, K), got {x.dtype} {x.shape}.")
    if kernel == "reference":
        return _softmax_fixed_point(x, *_tables(qparams.scale))
    if kernel == "xnnpack":
        return _softmax_float(x, _float_table(qparams.scale))
    raise ValueError(f"softmax: unknown kernel; expected 'reference' or 'xnnpack', got {kernel!r}.")


def _tables(scale: float) -> tuple[np.ndarray, np.ndarray]:
    """Return exp(-scale · d) for d = 0, …, 255, in units of 2⁻³¹, and a mask of the entries that are not negligible."""
    multiplier = min(scale * 2**26, 2.0**31 - 1)
    mantissa, exponent = quantize_multiplier(multiplier)
    radius = math.floor(31 * 2.0**26 / 2.0**exponent)
    counts = np.arange(256) <= radius
    rescaled = [_high_mul(-(d << max(exponent, 0)), mantissa) if counts[d] else 0 for d in range(256)]
    return np.array([_exp(a) for a in rescaled], np.int32), counts


@jax.jit
def _softmax_fixed_point(x, table, counts):
    difference = jnp.max(x, -1, keepdims=True).astype(jnp.int32) - x.astype(jnp.int32)
    exponential, counted = table[difference], counts[difference]
    total = jnp.sum(jnp.where(counted, rounding_divide_by_pot(exponential, 12), 0), -1, keepdims=True)
    zeros = lax.clz(total)
    scale = _reciprocal((total << zeros) ^ np.int32(-(2**31)))
    product = saturating_rounding_doubling_high_mul(jnp.broadcast_to(scale, x.shape), exponential)
    shift = jnp.broadcast_to(12 - zeros + 31 - 8, x.shape)
    out = rounding_divide_by_pot(product, shift) - 128
    return jnp.where(counted, jnp.clip(out, -128, 127), -128).astype(jnp.int8)


def _reciprocal(a):
    """Return 1 / (1 + a) for a in [0, 1), in units of 2⁻³¹, after three steps of Newton's method."""
    multiply = saturating_rounding_doubling_high_mul
    half = (a >> 1) + np.int32(2**30)  # half of a + 1
    x = np.int32(1515870810) + multiply(half, jnp.full_like(half, -1010580540))
    for _ in range(3):
        rest = np.int32(2**29) - multiply(half, x)
        x = x + _times_pot(multiply(x, rest), 2)
    return _times_pot(x, 1)


def _times_pot(x, exponent):
    """Return `x · 2^exponent`, clipped to the range of int32."""
    limit = np.int32((2**31 - 1) >> exponent)
    return jnp.where(x > limit, np.int32(2**31 - 1), jnp.where(x < -limit - 1, np.int32(-(2**31)), x << exponent))


def _float_table(scale: float) -> np.ndarray:
    """Return exp(-scale · d) for d = 0, …, 255, as float32."""
    steps = [float(np.float32(-np.float32(scale)) * np.float32(d)) for d in range(256)]
    return np.array([math.exp(step) for step in steps], np.float32)


@jax.jit
def _softmax_float(x, table):
    difference = jnp.max(x, -1, keepdims=True).astype(jnp.int32) - x.astype(jnp.int32)
    exponential = table[difference]
    add = lambda total, one: (total + one, None)
    total, _ = lax.scan(add, jnp.zeros_like(exponential[..., 0]), jnp.moveaxis(exponential, -1, 0))
    divisor = lax.optimization_barrier(total * np.float32(_OUT.scale))
    inverse = lax.optimization_barrier(jnp.ones_like(divisor)) / divisor
    steps = lax.round(exponential * inverse[..., None], lax.RoundingMethod.AWAY_FROM_ZERO)
    return jnp.clip(steps.astype(jnp.int32) - 128, -128, 127).astype(jnp.int8)


def _high_mul(a: int, b: int) -> int:
    """Return gemmlowp's SaturatingRoundingDoublingHighMul of two Python integers."""
    product = a * b
    nudge = 2**30 if product >= 0 else 1 - 2**30
    total = product + nudge
    return min(abs(total) >> 31, 2**31 - 1) * (1 if total >= 0 else -1)


def _divide(a: int, exponent: int) -> int:
    mask = (1 << exponent) - 1
    return (a >> exponent) + ((a & mask) > (mask >> 1) + (a < 0))


def _exp(a: int) -> int:
    """Return exp(a / 2²⁶) in units of 2⁻³¹, for an integer a of at most 0."""
    if a == 0:
        return _ONE
    quarter = 2**24
    part = (a & (quarter - 1)) - quarter
    x = (part << 5) + 2**28
    x2 = _high_mul(x, x)
    x3, x4 = _high_mul(x2, x), _high_mul(x2, x2)
    series = _divide(_high_mul(_divide(x4, 2) + x3, 715827883) + x2, 1)
    result = 1895147668 + _high_mul(1895147668, x + series)
    remainder = part - a
    for place, factor in enumerate(_FACTORS):
        if remainder & (1 << (24 + place)):
            result = _high_mul(result, factor)
    return result
