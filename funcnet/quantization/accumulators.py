"""Sums of products in int32, and their rescaling to the parameters of the output. Linear layers and convolutions share
this code.

Letters: `N batch, C channels, O output channels, S spatial dimensions`. Activations x are int8 with one scale and one
zero point. Weights w are int8 with the zero point 0, and with one scale for the whole tensor or one for each output
channel. A sum `Σ (x - zero_point) · w + bias` is exact in int32. The sum has the scale `x's scale · w's scale`, so that
one multiplication per output channel gives the integers of the output.
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from funcnet.quantization.activations import activation_range
from funcnet.quantization.multipliers import multiply_by_quantized_multiplier, quantize_multiplier
from funcnet.quantization.qparams import QParams, check_integers, require_per_tensor

__all__ = ["bias_qparams", "check_product", "rescale", "smallest_weight_scale"]

_LARGEST_BIAS = 2.0**30  # half of int32; the other half is for the products


def bias_qparams(x_qparams: QParams, weight_qparams: QParams) -> QParams:
    """Return the parameters of the int32 bias of a linear layer or a convolution.

    Args:
        x_qparams: parameters of the input.
        weight_qparams: parameters of the weight, for the tensor or for each channel of axis 0.

    Returns:
        The parameters of the bias, with the scale `x's scale · weight's scale` and the zero point 0.

    Raises:
        ValueError: if the product of the two scales is 0 or infinite in float32.

    Example:
        >>> bias_qparams(QParams(0.5, 3, "int8"), QParams([0.25, 0.5], 0, "int8", axis=0)).scale
        (0.125, 0.25)
    """
    scale = np.float32(x_qparams.scale) * np.asarray(weight_qparams.scale, np.float32)
    return QParams(scale, 0, "int32", None if weight_qparams.axis is None else 0)


def smallest_weight_scale(bias: Any, x_scale: float | jax.Array) -> Any:
    """Return the smallest weight scale for which the bias and the sum of products together fit in int32.

    Without this limit, weights that are tiny compared with the bias would get so small a scale that the integers of the
    bias would be clipped at 2³¹ - 1.

    Args:
        bias: floating-point array (O,) of NumPy or JAX.
        x_scale: scale of the input.

    Returns:
        An array (O,) of scales. The scale is 0 for each bias that is 0.

    Example:
        >>> smallest_weight_scale(np.array([0.0, 1.0]), 2.0**-10).tolist()
        [0.0, 9.5367431640625e-07]
    """
    return abs(bias) / x_scale / _LARGEST_BIAS


def check_product(
    where: str,
    x: ArrayLike,
    weight: ArrayLike,
    bias: ArrayLike | None,
    x_qparams: QParams,
    weight_qparams: QParams,
    out_qparams: QParams,
) -> tuple[jax.Array, jax.Array, jax.Array | None]:
    """Check the operands of a product, and return input, weight and bias as arrays.

    Axis 0 of the weight holds the output channels. If the weight has a scale for each channel, the axis of these scales
    must be 0 too.

    Raises:
        TypeError: if parameters are not `QParams`, an array has a different dtype from its parameters, or the bias is
            not int32.
        ValueError: if a dtype is not int8, the input or the output has a scale for each channel, a zero point of the
            weight is not 0, the scales of the weight do not fit its output channels, or the bias has the wrong shape.
    """
    x, weight = check_integers(where, "x", x, x_qparams), check_integers(where, "weight", weight, weight_qparams)
    if not isinstance(out_qparams, QParams):
        raise TypeError(f"{where}: out_qparams is wrong; expected QParams, got {type(out_qparams).__name__}.")
    require_per_tensor(where, "x", x_qparams)
    require_per_tensor(where, "the output", out_qparams)
    dtypes = x_qparams.dtype, weight_qparams.dtype, out_qparams.dtype
    if dtypes != ("int8",) * 3:
        raise ValueError(f"{where}: the dtypes do not fit; expected int8 for x, weight and output, got {dtypes}.")
    if np.any(weight_qparams.zero_point):
        raise ValueError(f"{where}: a zero point of the weight is not 0; expected 0, got {weight_qparams.zero_point}.")
    if weight_qparams.axis not in (None, 0) or (
        weight_qparams.axis == 0 and len(weight_qparams.scale) != weight.shape[0]
    ):
        raise ValueError(
            f"{where}: the scales of the weight do not fit its output channels; expected one scale or "
            f"{weight.shape[0]} on axis 0, got {np.size(weight_qparams.scale)} on axis {weight_qparams.axis}."
        )
    if bias is not None:
        if jnp.result_type(bias) != jnp.int32:
            raise TypeError(f"{where}: bias has the wrong dtype; expected int32, got {jnp.result_type(bias)}.")
        bias = jnp.asarray(bias)
        if bias.shape != weight.shape[:1]:
            raise ValueError(f"{where}: bias has the wrong shape; expected {weight.shape[:1]}, got {bias.shape}.")
    return x, weight, bias


def rescale(
    where: str,
    sums: jax.Array,
    axis: int,
    terms: int,
    qparams: tuple[QParams, QParams, QParams],
    activation: str | None,
    kernel: str,
    roundings: int,
) -> jax.Array:
    """Rescale exact sums to the integers of the output: multiply each channel, add the zero point, and clip.

    Args:
        where: name of the operator, for error messages.
        sums: int32 array.
        axis: axis of `sums` that holds the output channels.
        terms: number of products in a sum, from which the largest possible sum is computed.
        qparams: parameters of the input, the weight and the output.
        activation: as in `activation_range`.
        kernel: "reference" multiplies in fixed point; "xnnpack" multiplies in float32 and rounds halves to even.
        roundings: number of roundings of the kernel "reference", as in `multiply_by_quantized_multiplier`.

    Raises:
        ValueError: if a multiplier is outside the kernel's range, or the kernel or the activation is unknown.
    """
    x, weight, out = qparams
    form = [1] * sums.ndim
    form[axis] = -1
    scales = np.atleast_1d(np.asarray(weight.scale, np.float32)).reshape(form)
    low, high = activation_range(where, activation, out, kernel)
    end = [np.int32(one) for one in (out.zero_point, low, high)]
    if kernel == "reference":
        # In double precision: with a product of scales that is rounded to float32, a few integers would differ.
        multipliers = x.scale * scales.astype(np.float64) / out.scale
        return _multiply(sums, *_fixed_point(where, multipliers, terms), *end, roundings)
    if kernel == "xnnpack":
        ratios = np.float32(x.scale) * scales / np.float32(out.scale)
        if not 2**-32 <= ratios.min() <= ratios.max() < 256:
            raise ValueError(
                f"{where}: x scale * weight scale / output scale is outside the range of the kernel 'xnnpack'; "
                f"expected 2**-32 to 2**8, got {ratios.min():g} to {ratios.max():g}."
            )
        return _multiply_in_float32(sums, ratios, *end)
    raise ValueError(f"{where}: unknown kernel; expected 'reference' or 'xnnpack', got {kernel!r}.")


@functools.partial(jax.jit, static_argnames="roundings")
def _multiply(sums, mantissa, exponent, zero, low, high, roundings):
    steps = multiply_by_quantized_multiplier(sums, mantissa, exponent, roundings)
    return (jnp.clip(steps, low - zero, high - zero) + zero).astype(jnp.int8)


@jax.jit
def _multiply_in_float32(sums, ratios, zero, low, high):
    real = jnp.rint(sums.astype(jnp.float32) * ratios)
    steps = jnp.clip(real, jnp.float32(-1024), jnp.float32(1024)).astype(jnp.int32)
    return (jnp.clip(steps, low - zero, high - zero) + zero).astype(jnp.int8)


def _fixed_point(where: str, multipliers: np.ndarray, terms: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the mantissas and the exponents of `multipliers`, as two arrays of the same shape.

    Raise ValueError if a sum of `terms` products, shifted left by the largest exponent, could overflow int32.
    """
    pairs = [quantize_multiplier(float(one)) for one in multipliers.ravel()]
    largest = max(0, *(exponent for _, exponent in pairs))
    if (terms * 255 * 128) << largest >= 2**31:
        limit = 2.0 ** np.floor(np.log2(2**31 / (terms * 255 * 128)))
        raise ValueError(
            f"{where}: x scale * weight scale / output scale is outside the range of the kernel 'reference' for sums "
            f"of {terms} products; expected less than {limit:g}, got {multipliers.max():g}."
        )
    mantissas, exponents = np.asarray(pairs, np.int32).T
    return mantissas.reshape(multipliers.shape), exponents.reshape(multipliers.shape)
