"""Matrix products of two quantized arrays, such as the queries and the keys of attention.

Letters: `M rows of a, N rows of b, K columns of both`.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from funcnet.quantization.multipliers import multiply_by_quantized_multiplier, quantize_multiplier
from funcnet.quantization.qparams import QParams, check_integers, require_per_tensor

__all__ = ["batch_matmul"]

_EXACT = 256  # products of differences (at most 255² each) whose sum is below 2²⁴


def batch_matmul(
    a: jax.Array,
    b: jax.Array,
    a_qparams: QParams,
    b_qparams: QParams,
    out_qparams: QParams,
    kernel: str = "reference",
) -> jax.Array:
    """Compute `a · bᵀ` in integers for each pair of matrices.

    The sums are exact, and one multiplication rescales them to the output's parameters. The result equals LiteRT's
    BATCH_MATMUL bit for bit.

    Args:
        a: int8 array (*, M, K).
        b: int8 array (*, N, K).
        a_qparams, b_qparams, out_qparams: parameters of `a`, of `b` and of the result, each with one scale, all int8.
        kernel: "reference" (a 32-bit mantissa) or "xnnpack" (a float32 multiplier if the zero point of `b` is 0).
            If the zero point of `b` is not 0, "xnnpack" gives the same results as "reference", because XNNPACK leaves
            such products to LiteRT's built-in kernels.

    Returns:
        An int8 array (*, M, N).

    Raises:
        TypeError: if an array has a different dtype from its parameters.
        ValueError: if shapes or dtypes do not fit, parameters have a scale for each channel, the product of the
            inputs' scales is not below the output's scale, or the kernel is unknown.

    Example:
        >>> one, half = QParams(1.0, 1, "int8"), QParams(0.5, 0, "int8")
        >>> batch_matmul(jnp.array([[3, 5]], jnp.int8), jnp.array([[2, 2]], jnp.int8), one, half, one)
        Array([[7]], dtype=int8)

    Reference: TFLite's `reference_ops::BatchMatMul`.
    """
    for name, array, qparams in (("a", a, a_qparams), ("b", b, b_qparams), ("the output", None, out_qparams)):
        if array is not None:
            check_integers("batch_matmul", name, array, qparams)
        require_per_tensor("batch_matmul", name, qparams)
    if {one.dtype for one in (a_qparams, b_qparams, out_qparams)} != {"int8"}:
        raise ValueError(
            f"batch_matmul: the dtypes do not fit; expected int8, got {a_qparams.dtype}, {b_qparams.dtype} and "
            f"{out_qparams.dtype}."
        )
    if a.ndim < 2 or a.shape[:-2] != b.shape[:-2] or a.shape[-1] != b.shape[-1]:
        raise ValueError(
            f"batch_matmul: the shapes do not fit; expected (*, M, K) and (*, N, K), got {a.shape} and {b.shape}."
        )
    if kernel not in ("reference", "xnnpack"):
        raise ValueError(f"batch_matmul: unknown kernel; expected 'reference' or 'xnnpack', got {kernel!r}.")
    mantissa, exponent = quantize_multiplier(a_qparams.scale * b_qparams.scale / out_qparams.scale)
    if exponent > 0:
        raise ValueError(
            f"batch_matmul: a scale * b scale / output scale is outside of the kernel's range; expected less than 1, "
            f"got {a_qparams.scale * b_qparams.scale / out_qparams.scale:g}."
        )
    zeros = [np.int32(one.zero_point) for one in (a_qparams, b_qparams, out_qparams)]
    if kernel == "xnnpack" and b_qparams.zero_point == 0:
        # XNNPACK computes the ratio in float32, whereas TFLite computes the multiplier in double precision (above).
        scales = [np.float32(one.scale) for one in (a_qparams, b_qparams, out_qparams)]
        return _multiply_in_float32(a, b, *zeros, scales[0] * scales[1] / scales[2])
    return _multiply(a, b, *zeros, np.int32(mantissa), np.int32(exponent))


@jax.jit
def _multiply(a, b, a_zero, b_zero, zero, mantissa, exponent):
    sums = _sums(a, b, a_zero, b_zero)
    steps = multiply_by_quantized_multiplier(sums, mantissa, exponent)
    return jnp.clip(steps + zero, -128, 127).astype(jnp.int8)


@jax.jit
def _multiply_in_float32(a, b, a_zero, b_zero, zero, ratio):
    steps = jnp.rint(_sums(a, b, a_zero, b_zero).astype(jnp.float32) * ratio)
    # The inner limits only prevent an overflow of int32. Any limits beyond ±255 (127 + 128) give the same results.
    return jnp.clip(jnp.clip(steps, -1024, 1024).astype(jnp.int32) + zero, -128, 127).astype(jnp.int8)


def _sums(a, b, a_zero, b_zero):
    # Differences fit in 9 bits. The dtype int16 tells the compiler that it may use 16-bit multiplications.
    a, b = (one.astype(jnp.int16) - zero.astype(jnp.int16) for one, zero in ((a, a_zero), (b, b_zero)))
    return lax.platform_dependent(a, b, cpu=_in_float32, default=_in_int32)


def _numbers(a):  # (*, M, K) times (*, N, K)ᵀ -> (*, M, N)
    batch = tuple(range(a.ndim - 2))
    return ((a.ndim - 1,), (a.ndim - 1,)), (batch, batch)


def _in_float32(a, b):
    """Return exact sums of products, computed in blocks of float32, because XLA's int32 product is slow on CPU.

    The sum of each block is below 2²⁴, so float32 represents this sum exactly in any order of addition.
    """
    total = jnp.int32(0)
    for start in range(0, a.shape[-1], _EXACT):
        parts = (one[..., start : start + _EXACT].astype(jnp.float32) for one in (a, b))
        total += lax.dot_general(*parts, _numbers(a), precision=lax.Precision.HIGHEST).astype(jnp.int32)
    return total


def _in_int32(a, b):
    return lax.dot_general(a.astype(jnp.int32), b.astype(jnp.int32), _numbers(a))
