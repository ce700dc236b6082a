"""Elementwise addition of quantized tensors, in the integer arithmetic of one of two kernels.

TFLite's ADD has no single definition: its kernels round differently. Both kernels in this file rescale the inputs to a
common scale, add them, and rescale the sum to the output's scale:

- `"reference"`: TFLite's plain C++ kernel, with gemmlowp's arithmetic. Each input is shifted left by 20 bits (int16:
  15) and multiplied by a 32-bit mantissa. The sum is multiplied by another mantissa. Each multiplication is rounded
  twice.
- `"xnnpack"`: the delegate that LiteRT uses by default. Each input is multiplied by an integer of at most 2²¹, and the
  sum is shifted right with one rounding.
"""

import jax
import jax.numpy as jnp
import numpy as np

from funcnet.quantization.activations import activation_range
from funcnet.quantization.multipliers import (
    quantize_multiplier,
    rounding_divide_by_pot,
    saturating_rounding_doubling_high_mul,
)
from funcnet.quantization.qparams import QParams, check_integers, require_per_tensor

__all__ = ["add"]

_LEFT_SHIFT = {"int8": 20, "uint8": 20, "int16": 15}


def add(
    a: jax.Array,
    b: jax.Array,
    a_qparams: QParams,
    b_qparams: QParams,
    out_qparams: QParams,
    kernel: str = "reference",
    activation: str | None = None,
) -> jax.Array:
    """Add two quantized tensors, and return the integers of the sum in the parameters of the output.

    The result equals LiteRT's ADD bit for bit. `add` works under jit and vmap. The quantization parameters are static.

    Args:
        a, b: arrays of int8, uint8 or int16, whose shapes broadcast.
        a_qparams, b_qparams, out_qparams: parameters of `a`, of `b` and of the result, each with one scale, all of the
            same dtype. For int16, the zero points must be 0.
        kernel: "reference" (gemmlowp's arithmetic) or "xnnpack" (21-bit multipliers, one rounding; no int16).
        activation: None, "relu", "relu6" or "relu_n1_to_1", applied to the result.

    Returns:
        An array of the broadcast shape and the dtype of `out_qparams`.

    Raises:
        TypeError: if parameters are not `QParams`, or an array has a different dtype from its parameters.
        ValueError: if parameters have a scale for each channel, their dtypes differ or do not suit the kernel, a zero
            point of int16 is not 0, a ratio of scales is outside the kernel's range, or the kernel or the activation
            is unknown. The ratio `r` is an input's scale divided by the output's scale. "xnnpack" needs
            `2⁻¹⁰ <= r < 2⁸` for each input, and "reference" needs `r < 2¹⁹` (int16: `r < 2¹⁴`).

    Example:
        >>> half, one = QParams(0.5, 0, "int8"), QParams(1.0, 0, "int8")
        >>> a, b = jnp.array([100, 3, -3], jnp.int8), jnp.array([50, 0, 0], jnp.int8)
        >>> add(a, b, half, one, one)
        Array([100,   2,  -2], dtype=int8)
        >>> add(a, b, half, one, one, kernel="xnnpack")
        Array([100,   2,  -1], dtype=int8)

    Reference: TFLite's ADD (`reference_integer_ops::Add`) and XNNPACK's `qs8-vadd-minmax`.
    """
    for name, qparams in (("a", a_qparams), ("b", b_qparams), ("the output", out_qparams)):
        if not isinstance(qparams, QParams):
            raise TypeError(f"add: the parameters of {name} are wrong; expected QParams, got {type(qparams).__name__}.")
        require_per_tensor("add", name, qparams)
    if not a_qparams.dtype == b_qparams.dtype == out_qparams.dtype or out_qparams.dtype not in _LEFT_SHIFT:
        raise ValueError(
            f"add: the dtypes do not fit; expected int8, uint8 or int16, the same for inputs and output, "
            f"got {a_qparams.dtype}, {b_qparams.dtype} and {out_qparams.dtype}."
        )
    a, b = check_integers("add", "a", a, a_qparams), check_integers("add", "b", b, b_qparams)
    low, high = activation_range("add", activation, out_qparams, kernel)
    end = [np.int32(one) for one in (out_qparams.zero_point, low, high)]
    if kernel == "reference":
        return _add_reference(a, b, *_reference_parameters(a_qparams, b_qparams, out_qparams), *end)
    if kernel == "xnnpack":
        return _add_xnnpack(a, b, *_xnnpack_parameters(a_qparams, b_qparams, out_qparams), *end)
    raise ValueError(f"add: unknown kernel; expected 'reference' or 'xnnpack', got {kernel!r}.")


def _reference_parameters(a: QParams, b: QParams, out: QParams) -> tuple:
    """Return the zero point, mantissa and right shift of each input, then the mantissa and right shift of the sum."""
    shift = _LEFT_SHIFT[out.dtype]
    if out.dtype == "int16" and (a.zero_point or b.zero_point or out.zero_point):
        raise ValueError(
            f"add: a zero point of int16 is not 0; expected 0, got {a.zero_point}, {b.zero_point} and {out.zero_point}."
        )
    common = 2 * max(a.scale, b.scale)
    after = common / (2**shift * out.scale)
    if not after < 1:
        raise ValueError(
            f"add: a ratio of scales is outside the range of the kernel 'reference'; expected input scale / output "
            f"scale < 2**{shift - 1} for {out.dtype}, got {max(a.scale, b.scale) / out.scale:g}."
        )
    made: list[np.int32] = []
    for qparams in (a, b):
        mantissa, exponent = quantize_multiplier(qparams.scale / common)
        made += [np.int32(qparams.zero_point), np.int32(mantissa), np.int32(-exponent)]
    mantissa, exponent = quantize_multiplier(after)
    return (*made, np.int32(mantissa), np.int32(-exponent))


@jax.jit
def _add_reference(a, b, a_zero, a_mantissa, a_shift, b_zero, b_mantissa, b_shift, mantissa, shift, zero, low, high):
    left = _LEFT_SHIFT[a.dtype.name]
    scale = lambda x, mantissa, shift: rounding_divide_by_pot(saturating_rounding_doubling_high_mul(x, mantissa), shift)
    a_scaled = scale((a.astype(jnp.int32) - a_zero) << left, a_mantissa, a_shift)
    b_scaled = scale((b.astype(jnp.int32) - b_zero) << left, b_mantissa, b_shift)
    total = scale(a_scaled + b_scaled, mantissa, shift)
    return jnp.clip(total + zero, low, high).astype(a.dtype)


def _xnnpack_parameters(a: QParams, b: QParams, out: QParams) -> tuple:
    """Return XNNPACK's bias, the multipliers of both inputs (at most 2²¹), and the right shift of the sum."""
    if out.dtype == "int16":
        raise ValueError("add: the kernel 'xnnpack' has no int16; expected int8 or uint8, got int16.")
    # XNNPACK rounds the ratios to float32 before it makes integers of them, and its lrintf rounds halves to even.
    # Ratios in double precision would give another multiplier in one of 16 cases.
    ratios = [np.float32(one.scale) / np.float32(out.scale) for one in (a, b)]
    for name, ratio in zip("ab", ratios, strict=True):
        if not 2**-10 <= ratio < 2**8:
            raise ValueError(
                f"add: the scale of {name} is outside the range of the kernel 'xnnpack'; expected 2**-10 <= input "
                f"scale / output scale < 2**8, got {ratio:g}."
            )
    shift = 21 - int(np.frexp(max(ratios))[1])  # from 13 to 30: the larger multiplier is in [2²⁰, 2²¹]
    multipliers = [int(np.rint(np.ldexp(ratio, shift))) for ratio in ratios]
    bias = (1 << (shift - 1)) - multipliers[0] * a.zero_point - multipliers[1] * b.zero_point
    return (np.int32(bias), *map(np.int32, multipliers), np.int32(shift))


@jax.jit
def _add_xnnpack(a, b, bias, a_multiplier, b_multiplier, shift, zero, low, high):
    total = bias + a.astype(jnp.int32) * a_multiplier + b.astype(jnp.int32) * b_multiplier
    return jnp.clip((total >> shift) + zero, low, high).astype(a.dtype)
