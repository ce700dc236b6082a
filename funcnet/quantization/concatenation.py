"""Concatenation of quantized tensors. All inputs are first requantized to the parameters of the output."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from funcnet.quantization.qparams import QParams, check_integers, integer_range, require_per_tensor
from funcnet.quantization.requantization import requantize
from funcnet.quantization.tables import look_up, table_values

__all__ = ["concat"]


def concat(
    arrays: Sequence[jax.Array],
    qparams: Sequence[QParams],
    out_qparams: QParams,
    axis: int,
    kernel: str = "reference",
) -> jax.Array:
    """Join quantized tensors along an axis, and requantize those whose parameters differ from the output's.

    The result equals that of LiteRT's operators bit for bit. For int8 and int16, TFLite's CONCATENATION demands equal
    parameters of all inputs, so a QUANTIZE operator first requantizes the inputs with other parameters; see
    `requantize`. For uint8, CONCATENATION itself requantizes in float32, whatever the kernel.

    Args:
        arrays: arrays of int8, uint8 or int16 that have equal shapes except on `axis`.
        qparams: parameters of each array, each with one scale, all of the same dtype.
        out_qparams: parameters of the result, with one scale and the dtype of `qparams`.
        axis: axis along which the arrays are joined; negative values count from the end.
        kernel: kernel of the QUANTIZE operator for int8 and int16 inputs: "reference" or "xnnpack".

    Returns:
        An array of the dtype of `out_qparams`.

    Raises:
        TypeError: if parameters are not `QParams`, or an array has a different dtype from its parameters.
        ValueError: if there is no array, the counts, dtypes or shapes do not fit, parameters have a scale for each
            channel, the axis does not exist, the kernel is unknown, or `requantize` raises ValueError.

    Example:
        >>> half, one = QParams(0.5, 0, "int8"), QParams(1.0, 0, "int8")
        >>> concat([jnp.array([4], jnp.int8), jnp.array([4], jnp.int8)], [half, one], one, axis=0)
        Array([2, 4], dtype=int8)

    Reference: TFLite's CONCATENATION (`ConcatenationWithScaling` for uint8).
    """
    if not arrays:
        raise ValueError("concat: no arrays; expected at least one, got none.")
    if len(arrays) != len(qparams):
        raise ValueError(f"concat: the counts differ; expected {len(arrays)} QParams, got {len(qparams)}.")
    if kernel not in ("reference", "xnnpack"):
        raise ValueError(f"concat: unknown kernel; expected 'reference' or 'xnnpack', got {kernel!r}.")
    if not isinstance(out_qparams, QParams):
        raise TypeError(f"concat: out_qparams is wrong; expected QParams, got {type(out_qparams).__name__}.")
    require_per_tensor("concat", "the output", out_qparams)
    joined = []
    for index, (array, one) in enumerate(zip(arrays, qparams, strict=True)):
        array = check_integers("concat", f"arrays[{index}]", array, one)
        require_per_tensor("concat", f"arrays[{index}]", one)
        if one.dtype != out_qparams.dtype or one.dtype == "int32":
            raise ValueError(
                f"concat: the dtype of arrays[{index}] does not fit; expected int8, uint8 or int16 as the output, "
                f"got {one.dtype} for the output {out_qparams.dtype}."
            )
        _check_shape(index, array, jnp.shape(arrays[0]), axis)
        if one != out_qparams:
            table = one.dtype == "uint8"
            array = look_up(array, _table(one, out_qparams)) if table else requantize(array, one, out_qparams, kernel)
        joined.append(array)
    return jnp.concatenate(joined, axis)


def _check_shape(index: int, array: jax.Array, first: tuple[int, ...], axis: int) -> None:
    if not -len(first) <= axis < len(first):
        raise ValueError(f"concat: axis is out of range; expected an axis of the shape {first}, got {axis}.")
    others = [i for i in range(len(first)) if i != axis % len(first)]
    if array.ndim != len(first) or any(array.shape[i] != first[i] for i in others):
        raise ValueError(
            f"concat: the shape of arrays[{index}] does not fit; expected {first} except on axis {axis}, "
            f"got {array.shape}."
        )


def _table(qparams: QParams, out: QParams) -> np.ndarray:
    """Return the output integer for each of the 256 integers of uint8, computed in float32 as in TFLite."""
    scale = np.float32(qparams.scale) * (np.float32(1) / np.float32(out.scale))
    bias = np.float32(-qparams.zero_point) * scale
    real = table_values("concat", qparams).astype(np.float32) * scale + bias
    whole = np.copysign(np.floor(np.abs(real.astype(np.float64)) + 0.5), real).astype(np.int64)
    return np.clip(whole + out.zero_point, *integer_range(out.dtype)).astype(out.dtype)
