"""Convolution in integers.

Letters: `N batch, C channels, O output channels, S spatial dimensions`. `*S'` are the spatial dimensions of the output.
"""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from funcnet.quantization.accumulators import check_product, rescale
from funcnet.quantization.integer_products import convolve
from funcnet.quantization.qparams import QParams
from funcnet.quantization.windows import Padding, as_padding, as_sizes, window_counts

__all__ = ["conv"]


def conv(
    x: jax.Array,
    weight: jax.Array,
    bias: jax.Array | None,
    x_qparams: QParams,
    weight_qparams: QParams,
    out_qparams: QParams,
    *,
    stride: int | Sequence[int] = 1,
    padding: Padding = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
    kernel: str = "reference",
    activation: str | None = None,
) -> jax.Array:
    """Convolve in integers.

    The sums are exact in int32, and one multiplication per output channel rescales them to the output's parameters.
    The result equals that of LiteRT's CONV_2D bit for bit. With as many groups as channels, the result equals that of
    DEPTHWISE_CONV_2D. The input is padded with its zero point, which represents 0.0.

    Args:
        x: int8 array (N, C, *S).
        weight: int8 array (O, C / groups, *kernel).
        bias: int32 array (O,) with the parameters that `bias_qparams` returns, or None.
        x_qparams, weight_qparams, out_qparams: parameters of input, weight and output, all int8. The weight has one
            scale, or one for each output channel (axis 0). The zero point of the weight is 0.
        stride, dilation: an integer, or one for each spatial dimension.
        padding: an integer, or for each spatial dimension an integer or a pair (before, after).
        groups: number of groups of channels. C and O are multiples of this number.
        kernel: "reference" (gemmlowp's arithmetic, a 32-bit mantissa) or "xnnpack" (a float32 multiplier).
        activation: None, "relu", "relu6" or "relu_n1_to_1", applied to the result.

    Returns:
        An int8 array (N, O, *S').

    Raises:
        TypeError: if parameters are not `QParams`, an array has a different dtype from its parameters, or the bias is
            not int32.
        ValueError: if shapes or parameters do not fit, a ratio of scales is outside the kernel's range, or the kernel
            or the activation is unknown.

    Example:
        >>> one, half = QParams(1.0, 0, "int8"), QParams(0.5, 0, "int8")
        >>> x, weight = jnp.array([[[1, 2, 3]]], jnp.int8), jnp.array([[[2, 4]]], jnp.int8)
        >>> conv(x, weight, None, one, half, one, padding=[(0, 1)])
        Array([[[5, 8, 3]]], dtype=int8)

    Reference: TFLite's `reference_integer_ops::ConvPerChannel` and `DepthwiseConvPerChannel`.
    """
    x, weight, bias = check_product("conv", x, weight, bias, x_qparams, weight_qparams, out_qparams)
    spatial = x.ndim - 2
    if spatial < 1 or weight.ndim != x.ndim:
        raise ValueError(
            f"conv: x and weight do not fit; expected (N, C, *S) and (O, C / groups, *kernel), "
            f"got {x.shape} and {weight.shape}."
        )
    if groups < 1 or weight.shape[0] % groups or x.shape[1] != weight.shape[1] * groups:
        raise ValueError(
            f"conv: the channels do not fit; expected {weight.shape[1]} * groups in x and a multiple of groups in the "
            f"output, got {x.shape[1]}, {weight.shape[0]} and groups={groups}."
        )
    strides = as_sizes("conv", "stride", stride, spatial)
    dilations = as_sizes("conv", "dilation", dilation, spatial)
    pads = as_padding("conv", padding, spatial)
    window_counts("conv", x.shape[2:], weight.shape[2:], strides, pads, dilations)
    zero = np.int8(x_qparams.zero_point)
    padded = lax.pad(x, zero, [(0, 0, 0), (0, 0, 0), *((low, high, 0) for low, high in pads)])
    form = (1, -1, *[1] * spatial)
    constant = -np.int32(zero) * jnp.sum(weight, range(1, weight.ndim), dtype=jnp.int32)
    constant = constant if bias is None else constant + bias
    sums = convolve(padded, weight, strides, dilations, groups) + constant.reshape(form)
    qparams = x_qparams, weight_qparams, out_qparams
    return rescale("conv", sums, 1, weight[0].size, qparams, activation, kernel, roundings=2)
