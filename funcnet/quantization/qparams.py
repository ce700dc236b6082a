"""Quantization parameters, and the conversion of arrays between real numbers and integers.

An integer `q` represents the real number `scale · (q - zero_point)`. There is one scale and one zero point for a whole
tensor, or for each channel along one axis. Scales are float32, as in all file formats that store them.
"""

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any, TypedDict

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import ArrayLike, DTypeLike

__all__ = [
    "IntegerLimits",
    "QParams",
    "check_integers",
    "choose_qparams",
    "dequantize",
    "integer_limits",
    "integer_range",
    "quantize",
    "require_per_tensor",
]

_DTYPES = ("int8", "uint8", "int16", "int32")


class IntegerLimits(TypedDict, total=False):
    """The arguments `quant_min` and `quant_max` of `choose_qparams`."""

    quant_min: int | None
    quant_max: int | None


@dataclasses.dataclass(frozen=True)
class QParams:
    """Parameters of a quantized tensor: `real = scale · (integer - zero_point)`.

    The parameters are hashable and static: a compiled program contains them as constants.

    Args:
        scale: positive number, which is rounded to float32. If `axis` is not None, one such number for each channel.
        zero_point: integer that represents 0.0, within the range of `dtype`. For int32, the zero point is 0, as in
            LiteRT. If `axis` is not None, one integer for each channel, or one integer for all channels.
        dtype: int8, uint8, int16 or int32, by name or as a NumPy dtype.
        axis: axis of the channels; None means one scale for the whole tensor.

    Raises:
        ValueError: if a scale is zero, negative, infinite or NaN in float32, the shape of the scales does not fit the
            axis, a zero point is out of range, the numbers of scales and zero points differ, or the dtype is unknown.
        TypeError: if a scale is not a number, or a zero point or the axis is not an integer.

    Example:
        >>> QParams(0.5, 3, "int8")
        QParams(scale=0.5, zero_point=3, dtype='int8', axis=None)
        >>> QParams([0.5, 0.25], 0, "int8", axis=0).zero_point
        (0, 0)
    """

    scale: Any
    zero_point: Any
    dtype: Any
    axis: int | None = None

    def __post_init__(self) -> None:
        try:
            dtype = np.dtype(self.dtype).name
        except TypeError:  # NumPy does not know the dtype
            dtype = str(self.dtype)
        if dtype not in _DTYPES:
            raise ValueError(f"QParams: unknown dtype; expected one of {', '.join(_DTYPES)}, got {dtype}.")
        if self.axis is not None and not isinstance(self.axis, int | np.integer):
            raise TypeError(f"QParams: axis is not an integer; expected an integer or None, got {self.axis!r}.")
        try:
            scales = np.asarray(self.scale, np.float64)
        except (TypeError, ValueError):
            raise TypeError(f"QParams: a scale is not a number; expected numbers, got {self.scale!r}.") from None
        zeros = np.asarray(self.zero_point)
        channels = 0 if self.axis is None else 1
        if scales.ndim != channels:
            expected = "a list of scales, since there is an axis" if channels else "one scale, since axis is None"
            raise ValueError(f"QParams: the scales have the wrong shape; expected {expected}, got {scales.shape}.")
        if scales.size == 0:
            raise ValueError("QParams: no scales; expected one for each channel, got none.")
        if not np.issubdtype(zeros.dtype, np.integer):
            raise TypeError(f"QParams: a zero point is not an integer; expected integers, got {self.zero_point!r}.")
        if zeros.ndim and zeros.shape != scales.shape:
            raise ValueError(
                f"QParams: scales and zero points differ in number; expected {scales.shape}, got {zeros.shape}."
            )
        with np.errstate(over="ignore", under="ignore"):
            scales = scales.astype(np.float32)
        wrong = scales[~(np.isfinite(scales) & (scales > 0))]
        if wrong.size:
            raise ValueError(f"QParams: bad scale; expected positive finite float32 numbers, got {self.scale!r}.")
        low, high = (0, 0) if dtype == "int32" else integer_range(dtype)
        if zeros.min() < low or zeros.max() > high:
            raise ValueError(
                f"QParams: the zero point is out of range; expected {f'{low} to {high}' if high else 0} for {dtype}, "
                f"got {self.zero_point!r}."
            )
        zeros = np.broadcast_to(zeros, scales.shape)
        fields = {
            "scale": tuple(map(float, scales)) if channels else float(scales),
            "zero_point": tuple(map(int, zeros)) if channels else int(zeros),
            "dtype": dtype,
            "axis": None if self.axis is None else int(self.axis),
        }
        for name, value in fields.items():
            object.__setattr__(self, name, value)


def integer_range(dtype: DTypeLike) -> tuple[int, int]:
    """Return the smallest and the largest integer of an integer dtype.

    Example:
        >>> integer_range("uint8")
        (0, 255)
    """
    limits = np.iinfo(np.dtype(dtype))
    return int(limits.min), int(limits.max)


def choose_qparams(
    min: float | Sequence[float],
    max: float | Sequence[float],
    dtype: DTypeLike = "int8",
    *,
    symmetric: bool = False,
    axis: int | None = None,
    quant_min: int | None = None,
    quant_max: int | None = None,
) -> QParams:
    """Return the parameters whose integers cover the real numbers from `min` to `max`.

    The range is widened to contain 0.0, which is then represented exactly. A symmetric range reaches from `-largest` to
    `largest`, and its zero point is the middle of the dtype (0 for signed integers, 128 for uint8). With a symmetric
    range, the most negative integer of a signed dtype is not used, as TFLite demands for weights.

    A range that contains only 0.0 gets the scale 1.0. If another channel has a wider range, a channel that contains
    only 0.0 gets the largest scale of all channels instead, so that every kernel accepts its scale.

    Args:
        min, max: limits of the range: numbers, or sequences with one number for each channel if there is an `axis`.
        dtype: dtype of the integers.
        symmetric: whether the zero point is the middle of the dtype.
        axis: axis of the channels; None means one range for the whole tensor.
        quant_min, quant_max: the smallest and the largest integer that represent the range, such as 0 and 127. Numbers
            outside of the range are clipped to the dtype, not to these integers. None means those of the dtype. If one
            of them is given and the range is symmetric, the scale is `2 · largest / (quant_max - quant_min)`, as in
            torch, and the zero point of uint8 is `(quant_min + quant_max) // 2`.

    Returns:
        The parameters. If `min == max`, the parameters represent this number to float32 accuracy.

    Raises:
        ValueError: if there are no limits, their shapes do not fit, a limit is not finite, `min` is above `max`, the
            scale is too large for float32, or `quant_min` and `quant_max` do not contain 0 and fit the dtype.

    Differs from torch: torch's observers make no scale below 1.2e-7. Without `quant_min` and `quant_max`, torch uses
    the most negative integer of a symmetric range too: pass -128 and 127 for its scale.

    Example:
        >>> choose_qparams(-1.0, 1.55, "int8")
        QParams(scale=0.009999999776482582, zero_point=-28, dtype='int8', axis=None)
        >>> choose_qparams(-63.5, 127.0, "int8", symmetric=True)
        QParams(scale=1.0, zero_point=0, dtype='int8', axis=None)
    """
    low, high = np.asarray(min, np.float64), np.asarray(max, np.float64)
    if low.size == 0 or high.size == 0:
        raise ValueError("choose_qparams: no limits; expected the range of at least one value, got an empty array.")
    if low.shape != high.shape or low.ndim != (0 if axis is None else 1):
        raise ValueError(
            f"choose_qparams: the limits have the wrong shape; expected {'numbers' if axis is None else 'two lists'} "
            f"of equal shape, got {low.shape} and {high.shape}."
        )
    if not (np.isfinite(low).all() and np.isfinite(high).all()):
        raise ValueError(f"choose_qparams: a limit is not finite; expected finite numbers, got {min!r} and {max!r}.")
    if (low > high).any():
        raise ValueError(f"choose_qparams: min is above max; expected min <= max, got {min!r} and {max!r}.")
    low, high = np.minimum(low, 0.0), np.maximum(high, 0.0)
    smallest, largest = integer_limits(dtype, quant_min, quant_max)
    is_limited = quant_min is not None or quant_max is not None
    if symmetric:
        is_signed = integer_range(dtype)[0] < 0
        # uint8: (0 + 255 + 1) // 2 = 128 as in TFLite, but (0 + 255) // 2 = 127 with limits, as in torch
        middle = 0 if is_signed else (smallest + largest + (not is_limited)) // 2
        # `largest - middle` is 127 for int8 and for uint8. Without limits, -128 and 0 are therefore not used.
        scale = np.maximum(-low, high) / ((largest - smallest) / 2 if is_limited else largest - middle)
    else:
        scale = (high - low) / (largest - smallest)
    # A range whose scale is below the normal float32 numbers counts as one that contains only 0.0.
    narrow = scale < np.finfo(np.float32).tiny
    with np.errstate(over="ignore"):
        scale = np.where(narrow, 1.0 if narrow.all() else np.max(scale), scale).astype(np.float32)
    # The scale is float32 by now, because the integers are computed with the rounded scale.
    zero = np.full(low.shape, middle) if symmetric else np.rint(smallest - low / scale)
    zero = np.clip(zero, smallest, largest).astype(np.int64)
    return QParams(scale, zero, dtype, axis)


def integer_limits(dtype: DTypeLike, quant_min: int | None = None, quant_max: int | None = None) -> tuple[int, int]:
    """Return the smallest and the largest integer that represent a range; see `choose_qparams`.

    Raises:
        ValueError: if they do not contain 0, or do not fit the dtype.

    Example:
        >>> integer_limits("uint8", quant_max=127)
        (0, 127)
    """
    low, high = integer_range(dtype)
    smallest, largest = low if quant_min is None else quant_min, high if quant_max is None else quant_max
    if not (low <= smallest <= 0 <= largest <= high and smallest < largest):
        raise ValueError(
            f"choose_qparams: quant_min and quant_max are out of range; expected {low} <= quant_min <= 0 <= quant_max "
            f"<= {high} for {np.dtype(dtype).name}, got {smallest} and {largest}."
        )
    return smallest, largest


def quantize(x: jax.Array, qparams: QParams, kernel: str = "reference") -> jax.Array:
    """Quantize: return `round(x / scale) + zero_point`, clipped to the range of the dtype.

    The result equals LiteRT's QUANTIZE bit for bit.

    Args:
        x: floating-point array; it is rounded to float32. NaN becomes the zero point.
        qparams: parameters of the result. If the parameters have an `axis`, `x` has one entry for each scale along this
            axis.
        kernel: "reference" divides by the scale and rounds halves away from zero; "xnnpack" multiplies by the
            reciprocal of the scale and rounds halves to even, as torch does.

    Returns:
        An integer array of the shape of `x` and the dtype of the parameters.

    Raises:
        TypeError: if `x` is not floating-point.
        ValueError: if the array does not have the axis of the channels, the size of this axis is not the number of
            scales, or the kernel is unknown.

    Differs from torch: `torch.quantize_per_tensor` rounds as `kernel="xnnpack"` does.

    Example:
        >>> quantize(jnp.array([-1.0, 0.25, 1000.0]), QParams(0.5, 3, "int8"))
        Array([  1,   4, 127], dtype=int8)
    """
    x = jnp.asarray(x)
    if not jnp.issubdtype(x.dtype, jnp.floating):
        raise TypeError(f"quantize: x does not hold real numbers; expected a floating-point dtype, got {x.dtype}.")
    scale, zero = _channels("quantize", qparams, x.shape)
    if kernel not in ("reference", "xnnpack"):
        raise ValueError(f"quantize: unknown kernel; expected 'reference' or 'xnnpack', got {kernel!r}.")
    return _quantize(x.astype(jnp.float32), scale, zero, qparams.dtype, kernel)


@functools.partial(jax.jit, static_argnames=("dtype", "kernel"))
def _quantize(x, scale, zero, dtype, kernel):
    if kernel == "reference":
        # XLA would replace a division by a scalar with a multiplication by its reciprocal, which rounds differently.
        # The barrier hides from XLA that all entries of the divisor are equal.
        divisor = lax.optimization_barrier(jnp.broadcast_to(scale, x.shape))
        steps = lax.round(x / divisor, lax.RoundingMethod.AWAY_FROM_ZERO)
    else:
        steps = jnp.rint(x * (jnp.float32(1) / scale))
    steps = jnp.where(jnp.isnan(steps), jnp.float32(0), steps)
    low, high = integer_range(dtype)
    if dtype == "int32":
        # 2**31 - 128 is the largest float32 number below 2**31. The zero point is 0.
        whole = jnp.clip(steps, jnp.float32(-(2.0**31)), jnp.float32(2.0**31 - 128)).astype(jnp.int32)
        return jnp.where(steps >= 2.0**31, jnp.int32(high), whole)
    whole = jnp.clip(steps, jnp.float32(-(2.0**20)), jnp.float32(2.0**20)).astype(jnp.int32)
    return jnp.clip(whole + zero, low, high).astype(dtype)


def dequantize(q: jax.Array, qparams: QParams) -> jax.Array:
    """Dequantize: return the real numbers that the integers represent, `scale · (q - zero_point)`.

    Args:
        q: integer array of the parameters' dtype.
        qparams: parameters of `q`.

    Returns:
        A float32 array of the shape of `q`.

    Raises:
        TypeError: if `qparams` is not `QParams`, or `q` has a different dtype from `qparams`.
        ValueError: if the array does not have the axis of the channels, or the size of this axis is not the number of
            scales.

    Example:
        >>> dequantize(jnp.array([1, 4], jnp.int8), QParams(0.5, 3, "int8"))
        Array([-1. ,  0.5], dtype=float32)
    """
    q = check_integers("dequantize", "q", q, qparams)
    scale, zero = _channels("dequantize", qparams, q.shape)
    return (q.astype(jnp.int32) - zero).astype(jnp.float32) * scale


def check_integers(where: str, name: str, array: ArrayLike, qparams: QParams) -> jax.Array:
    """Return `array` as a jax.Array, or raise TypeError if `qparams` is not a `QParams` with the dtype of the array."""
    if not isinstance(qparams, QParams):
        raise TypeError(f"{where}: the parameters of {name} are wrong; expected QParams, got {type(qparams).__name__}.")
    if jnp.result_type(array) != qparams.dtype or not hasattr(array, "dtype"):
        found = array.dtype if hasattr(array, "dtype") else type(array).__name__
        raise TypeError(f"{where}: {name} has the wrong dtype; expected {qparams.dtype} as its QParams, got {found}.")
    return jnp.asarray(array)


def require_per_tensor(where: str, name: str, qparams: QParams) -> None:
    """Raise ValueError if the parameters have a scale for each channel."""
    if qparams.axis is not None:
        raise ValueError(
            f"{where}: {name} has a scale for each channel; expected one scale for the tensor, "
            f"got {len(qparams.scale)} scales on axis {qparams.axis}."
        )


def _channels(where: str, qparams: QParams, shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Return the scale and the zero point of `qparams` as arrays that broadcast to `shape`."""
    scale, zero = np.asarray(qparams.scale, np.float32), np.asarray(qparams.zero_point, np.int32)
    if qparams.axis is None:
        return scale, zero
    if not -len(shape) <= qparams.axis < len(shape) or shape[qparams.axis] != len(qparams.scale):
        raise ValueError(
            f"{where}: the array does not fit the channels; expected {len(qparams.scale)} entries on axis "
            f"{qparams.axis}, got the shape {shape}."
        )
    form = [1] * len(shape)
    form[qparams.axis] = -1
    return scale.reshape(form), zero.reshape(form)
