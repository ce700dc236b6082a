"""Sliding blocks out of an image, and their sum back into one.

Letters: `B batch, C channels, H height, W width, k kernel sizes, h and w how many blocks there are, L = h · w`.
Both process one dimension after the other, so that kH + kW slices do the work of kH · kW.
"""

import math

import jax
import jax.numpy as jnp
from jax import lax

from funcnet.functional import checks
from funcnet.functional.checks import Ints

__all__ = ["fold", "unfold"]


def fold(
    input: jax.Array, output_size: Ints, kernel_size: Ints, dilation: Ints = 1, padding: Ints = 0, stride: Ints = 1
) -> jax.Array:
    """Adds blocks up to an image, each at the place where `unfold` reads it: overlapping values are summed.

    Args:
        input: (B, C · kH · kW, L) or (C · kH · kW, L), floating.
        output_size: (H, W) of the image; one number stands for both, here and below.
        kernel_size: (kH, kW) of the blocks.
        dilation: distance between a block's elements.
        padding: the image's padding on both sides; values that fall there are dropped.
        stride: between blocks.

    Returns:
        (B, C, H, W) or (C, H, W), the input's dtype; sums are taken in at least float32.

    Raises:
        ValueError: sizes that do not fit: a first dimension other than a multiple of kH · kW, a second other than L.
        TypeError: an input of integers; sizes that are none.

    Example:
        >>> fold(jnp.ones((1, 4, 4)), (3, 3), (2, 2))[0, 0]
        Array([[1., 2., 1.],
               [2., 4., 2.],
               [1., 2., 1.]], dtype=float32)

    Reference: torch.nn.functional.fold.
    """
    where = "F.fold"
    input = checks.floating(where, "input", input)
    if input.ndim not in (2, 3) or 0 in input.shape[-2:]:
        raise ValueError(
            f"{where}: input has the wrong shape; expected (batch, channel · kernel, blocks) or the same without the "
            f"batch, neither of size 0, got {input.shape}."
        )
    sizes = checks.as_tuple(where, "output_size", output_size, 2)
    kernels, dilations, pads, strides = _window(where, kernel_size, dilation, padding, stride)
    blocks = [_blocks(n, k, d, p, s) for n, k, d, p, s in zip(sizes, kernels, dilations, pads, strides, strict=True)]
    *batch, rows, length = input.shape
    if rows % math.prod(kernels):
        raise ValueError(
            f"{where}: the rows are no whole number of blocks; expected a multiple of {math.prod(kernels)}, the "
            f"product of kernel_size {kernels}, got {rows} in {input.shape}. Give the kernel of unfold."
        )
    if min(blocks) < 1 or length != math.prod(blocks):
        raise ValueError(
            f"{where}: the number of blocks is not that of output_size {sizes}; expected {blocks[0]} · {blocks[1]}, "
            f"got {length} in {input.shape}. Give the sizes that unfold was given."
        )
    x = input.astype(checks.wide_dtype(input)).reshape(*batch, rows // math.prod(kernels), *kernels, *blocks)
    for axis in (-1, -2):  # the width first: (…, C, kH, kW, h, w) -> (…, C, kH, h, W) -> (…, C, H, W)
        n, k, d, p, s = sizes[axis], kernels[axis], dilations[axis], pads[axis], strides[axis]
        reach, total = (blocks[axis] - 1) * s + 1, jnp.zeros((), x.dtype)
        for tap in range(k):
            low = tap * d - p
            widths = [(0, 0, 0)] * (x.ndim - 1)
            widths[axis] = (low, n - low - reach, s - 1)
            part = lax.index_in_dim(x, tap, x.ndim - 3, keepdims=False)
            total = total + lax.pad(part, jnp.zeros((), x.dtype), widths)
        x = total
    return x.astype(input.dtype)


def unfold(input: jax.Array, kernel_size: Ints, dilation: Ints = 1, padding: Ints = 0, stride: Ints = 1) -> jax.Array:
    """Every block that a window of kernel_size sees, as a column: `y[c · kH · kW + i · kW + j, l]`.

    Args:
        input: (B, C, H, W) or (C, H, W), floating.
        kernel_size: (kH, kW) of the blocks; one number stands for both, here and below.
        dilation: distance between a block's elements.
        padding: zeros on both sides.
        stride: between blocks.

    Returns:
        (B, C · kH · kW, L) or (C · kH · kW, L), the input's dtype, with L the product over both dimensions of
        `(size + 2 · padding - dilation · (k - 1) - 1) // stride + 1`.

    Raises:
        ValueError: ranks or sizes that do not fit; a window that is larger than the padded input.
        TypeError: an input of integers; sizes that are none.

    Example:
        >>> unfold(jnp.arange(6.0).reshape(1, 2, 3), 2)
        Array([[0., 1.],
               [1., 2.],
               [3., 4.],
               [4., 5.]], dtype=float32)

    Reference: torch.nn.functional.unfold.
    """
    where = "F.unfold"
    input = checks.spatial(where, input, 2, empty=False)
    kernels, dilations, pads, strides = _window(where, kernel_size, dilation, padding, stride)
    sizes = input.shape[-2:]
    blocks = [_blocks(n, k, d, p, s) for n, k, d, p, s in zip(sizes, kernels, dilations, pads, strides, strict=True)]
    if min(blocks) < 1 or input.shape[-3] == 0:
        raise ValueError(
            f"{where}: there is nothing to take; expected at least one block and one channel, got {tuple(blocks)} "
            f"blocks of {kernels} from {input.shape}. Use a smaller kernel or dilation, or pad more."
        )
    rank = input.ndim
    x = jnp.pad(input, [(0, 0)] * (rank - 2) + [(p, p) for p in pads])
    for axis in (-1, -2):  # (…, C, H, W) -> (…, C, kW, H, w) -> (…, C, kH, kW, h, w)
        k, d, s = kernels[axis], dilations[axis], strides[axis]
        reach = (blocks[axis] - 1) * s + 1
        taps = [lax.slice_in_dim(x, tap * d, tap * d + reach, s, x.ndim + axis) for tap in range(k)]
        x = jnp.stack(taps, rank - 2)
    rows = input.shape[-3] * math.prod(kernels)
    return x.reshape(*input.shape[:-3], rows, math.prod(blocks))


def _blocks(size: int, kernel: int, dilation: int, pad: int, stride: int) -> int:
    return (size + 2 * pad - dilation * (kernel - 1) - 1) // stride + 1


def _window(where: str, kernel: Ints, dilation: Ints, pad: Ints, stride: Ints) -> tuple[tuple[int, ...], ...]:
    return (
        checks.as_tuple(where, "kernel_size", kernel, 2, least=1),
        checks.as_tuple(where, "dilation", dilation, 2, least=1),
        checks.as_tuple(where, "padding", pad, 2, least=0),
        checks.as_tuple(where, "stride", stride, 2, least=1),
    )
