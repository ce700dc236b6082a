"""Requantization: a change of a quantized tensor's parameters or dtype in integers, as in TFLite's QUANTIZE."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from funcnet.quantization.multipliers import multiply_by_quantized_multiplier, quantize_multiplier
from funcnet.quantization.qparams import QParams, check_integers, integer_range, require_per_tensor

__all__ = ["requantize"]

_OUTPUTS = {
    "int8": ("int8", "uint8", "int16"),
    "uint8": ("int8", "uint8", "int16"),
    "int16": ("int8", "int16", "int32"),
    "int32": ("int8", "int16"),
}
# Largest exponents of the ratio of scales for which `(x - zero_point) · 2^exponent` fits in int32.
_LARGEST_EXPONENT = {"int8": 23, "uint8": 23, "int16": 15, "int32": 0}


def requantize(x: jax.Array, qparams: QParams, out_qparams: QParams, kernel: str = "reference") -> jax.Array:
    """Return the integers that represent the real numbers of `x` with the parameters `out_qparams`.

    The result equals LiteRT's QUANTIZE bit for bit.

    Args:
        x: integer array.
        qparams, out_qparams: parameters of `x` and of the result, each with one scale.
        kernel: "reference" (gemmlowp's arithmetic, a 32-bit mantissa) or "xnnpack" (a multiplier in units of 1/256;
            int8 to int8 and uint8 to uint8 only).

    Returns:
        An array of the shape of `x` and the dtype of `out_qparams`.

    Raises:
        TypeError: if parameters are not `QParams`, or `x` has a different dtype from its parameters.
        ValueError: if parameters have a scale for each channel, the kernel is unknown or does not convert between these
            dtypes, or the ratio `qparams.scale / out_qparams.scale` is outside the kernel's range. "reference" needs a
            ratio below 2²³ for 8-bit inputs, 2¹⁵ for int16 and 1 for int32; "xnnpack" needs 2⁻⁸ to 2⁷.

    Example:
        >>> requantize(jnp.array([-3, 100], jnp.int8), QParams(0.5, 1, "int8"), QParams(0.25, 130, "uint8"))
        Array([122, 255], dtype=uint8)

    Reference: TFLite's QUANTIZE (`reference_ops::Requantize`) and XNNPACK's `qs8-vcvt`.
    """
    x = check_integers("requantize", "x", x, qparams)
    if not isinstance(out_qparams, QParams):
        raise TypeError(f"requantize: out_qparams is wrong; expected QParams, got {type(out_qparams).__name__}.")
    for name, one in (("x", qparams), ("the output", out_qparams)):
        require_per_tensor("requantize", name, one)
    zeros = np.int32(qparams.zero_point), np.int32(out_qparams.zero_point)
    if kernel == "reference":
        mantissa, exponent = _mantissa(qparams, out_qparams)
        return _multiply(x, np.int32(mantissa), np.int32(exponent), *zeros, out_qparams.dtype)
    if kernel == "xnnpack":
        return _multiply_256ths(x, _multiplier(qparams, out_qparams), *zeros)
    raise ValueError(f"requantize: unknown kernel; expected 'reference' or 'xnnpack', got {kernel!r}.")


@functools.partial(jax.jit, static_argnames="dtype")
def _multiply(x, mantissa, exponent, zero, out_zero, dtype):
    steps = multiply_by_quantized_multiplier(x.astype(jnp.int32) - zero, mantissa, exponent)
    if dtype == "int32":
        return steps  # the zero point is 0
    low, high = integer_range(dtype)
    return (jnp.clip(steps, low - out_zero, high - out_zero) + out_zero).astype(dtype)


@jax.jit
def _multiply_256ths(x, multiplier, zero, out_zero):
    steps = ((x.astype(jnp.int32) - zero) * multiplier + 128) >> 8
    return jnp.clip(steps + out_zero, *integer_range(x.dtype)).astype(x.dtype)


def _mantissa(qparams: QParams, out: QParams) -> tuple[int, int]:
    if out.dtype not in _OUTPUTS[qparams.dtype]:
        raise ValueError(
            f"requantize: the kernel 'reference' does not convert between these dtypes; expected "
            f"{' or '.join(_OUTPUTS[qparams.dtype])} from {qparams.dtype}, got {out.dtype}."
        )
    mantissa, exponent = quantize_multiplier(qparams.scale / out.scale)
    largest = _LARGEST_EXPONENT[qparams.dtype]
    if exponent > largest:
        raise ValueError(
            f"requantize: the ratio of scales is outside the range of the kernel 'reference'; expected input scale / "
            f"output scale < 2**{largest} for {qparams.dtype}, got {qparams.scale / out.scale:g}."
        )
    return mantissa, exponent


def _multiplier(qparams: QParams, out: QParams) -> np.int32:
    if qparams.dtype != out.dtype or out.dtype not in ("int8", "uint8"):
        raise ValueError(
            f"requantize: the kernel 'xnnpack' does not convert between these dtypes; expected int8 to int8 or uint8 "
            f"to uint8, got {qparams.dtype} to {out.dtype}."
        )
    ratio = np.float32(qparams.scale) / np.float32(out.scale)
    if not 2**-8 <= ratio <= 2**7:
        raise ValueError(
            f"requantize: the ratio of scales is outside the range of the kernel 'xnnpack'; expected 2**-8 <= input "
            f"scale / output scale <= 2**7, got {ratio:g}."
        )
    return np.int32(np.rint(np.float32(256) * ratio))
