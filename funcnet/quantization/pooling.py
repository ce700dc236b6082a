"""Average pooling in integers."""

import functools
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from funcnet.quantization.activations import activation_range
from funcnet.quantization.qparams import QParams, check_integers, require_per_tensor
from funcnet.quantization.windows import Padding, as_padding, as_sizes, window_counts

__all__ = ["avg_pool"]


def avg_pool(
    x: jax.Array,
    kernel_size: int | Sequence[int],
    qparams: QParams,
    *,
    stride: int | Sequence[int] | None = None,
    padding: Padding = 0,
    activation: str | None = None,
) -> jax.Array:
    """Compute the averages of windows in integers, with halves rounded away from zero.

    The output has the parameters of the input. The result equals that of LiteRT's reference kernel for AVERAGE_POOL_2D
    bit for bit.

    Args:
        x: int8, uint8 or int16 array (N, C, *S).
        kernel_size: size of the windows, an integer or one for each spatial dimension.
        qparams: parameters of `x` and of the result, with one scale.
        stride: distance between windows, an integer or one for each spatial dimension; None means `kernel_size`.
        padding: an integer, or for each spatial dimension an integer or a pair (before, after). The padding must be
            smaller than the kernel. Padded entries do not count in the averages.
        activation: None, "relu", "relu6" or "relu_n1_to_1", applied to the result.

    Returns:
        An array (N, C, *S') of the dtype of `x`.

    Raises:
        TypeError: if `x` has a different dtype from its parameters.
        ValueError: if sizes do not fit, the dtype is int32, the parameters have a scale for each channel, the padding
            is not smaller than the kernel, or the activation is unknown.

    Differs from torch: padded entries do not count in an average, as with `count_include_pad=False`. By default, torch
    counts them.

    Example:
        >>> avg_pool(jnp.array([[[1, 2, -1, -4]]], jnp.int8), 2, QParams(0.5, 0, "int8"))
        Array([[[ 2, -3]]], dtype=int8)

    Reference: TFLite's `reference_integer_ops::AveragePool`.
    """
    x = check_integers("avg_pool", "x", x, qparams)
    require_per_tensor("avg_pool", "x", qparams)
    spatial = x.ndim - 2
    if spatial < 1 or qparams.dtype == "int32":
        raise ValueError(
            f"avg_pool: x does not fit; expected (N, C, *S) of int8, uint8 or int16, got {x.shape} of {x.dtype}."
        )
    kernel = as_sizes("avg_pool", "kernel_size", kernel_size, spatial)
    strides = as_sizes("avg_pool", "stride", kernel if stride is None else stride, spatial)
    pads = as_padding("avg_pool", padding, spatial)
    if any(max(pair) >= width for pair, width in zip(pads, kernel, strict=True)):
        raise ValueError(
            f"avg_pool: a window lies in the padding; expected less padding than the kernel {kernel}, got {padding!r}."
        )
    window_counts("avg_pool", x.shape[2:], kernel, strides, pads, (1,) * spatial)
    low, high = activation_range("avg_pool", activation, qparams)
    return _average(x, np.int32(low), np.int32(high), (kernel, strides, pads))


@functools.partial(jax.jit, static_argnames="windows")
def _average(x, low, high, windows):
    kernel, strides, pads = windows

    def add_up(values):
        rest = (1,) * (values.ndim - len(kernel))
        none = ((0, 0),) * len(rest)
        return lax.reduce_window(values, np.int32(0), lax.add, rest + kernel, rest + strides, none + pads)

    total = add_up(x.astype(jnp.int32))
    count = add_up(jnp.ones(x.shape[2:], jnp.int32))
    # XLA's integer division rounds towards zero, as C's does.
    half = lax.div(count, jnp.int32(2))
    mean = lax.div(total + jnp.where(total > 0, half, -half), jnp.broadcast_to(count, total.shape))
    return jnp.clip(mean, low, high).astype(x.dtype)
