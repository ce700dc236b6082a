"""Sliding blocks of an image: `unfold` extracts the blocks, and `fold` sums them into an image.

Letters: `B batch, C channels, H height, W width, k kernel sizes, h and w numbers of blocks, L = h · w`. `unfold` and
`fold` process one dimension after the other, so they take kH + kW slices instead of kH · kW.
"""

import math

import jax
import jax.numpy as jnp
from jax import lax

from funcnet.functional import checks
from funcnet.functional.checks import Ints
from funcnet.functional.sharding import reshaped

__all__ = ["fold", "unfold"]


def fold(
    input: jax.Array, output_size: Ints, kernel_size: Ints, dilation: Ints = 1, padding: Ints = 0, stride: Ints = 1
) -> jax.Array:
    """Build an image as the sum of its blocks. Each block is placed at the position from which `unfold` extracts it,
    and overlapping values are added.

    Args:
        input: floating-point array of shape (B, C · kH · kW, L) or (C · kH · kW, L).
        output_size: size (H, W) of the image. Each argument from `output_size` to `stride` may also be one number, for
            both dimensions.
        kernel_size: size (kH, kW) of the blocks.
        dilation: distance between the elements of a block.
        padding: number of padding entries on each side of the image. Block values at padding positions are discarded.
        stride: distance between neighbouring blocks.

    Returns:
        An array of shape (B, C, H, W) or (C, H, W), in the input's dtype. The sums use at least float32.

    Raises:
        ValueError: if the shape of the input does not match the other arguments.
        TypeError: if the input is not floating-point, or a size is not an integer.

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
            f"{where}: input has the wrong shape; expected (batch, channel · kernel, blocks) or (channel · kernel, "
            f"blocks), with at least one row and one block, got {input.shape}."
        )
    sizes = checks.as_tuple(where, "output_size", output_size, 2)
    kernels, dilations, pads, strides = _window(where, kernel_size, dilation, padding, stride)
    blocks = [_blocks(n, k, d, p, s) for n, k, d, p, s in zip(sizes, kernels, dilations, pads, strides, strict=True)]
    *batch, rows, length = input.shape
    if rows % math.prod(kernels):
        raise ValueError(
            f"{where}: the number of rows does not fit the kernel; expected a multiple of {math.prod(kernels)}, the "
            f"product of kernel_size {kernels}, got {rows} in an input of shape {input.shape}. Pass the kernel_size "
            "that was passed to unfold."
        )
    if min(blocks) < 1 or length != math.prod(blocks):
        raise ValueError(
            f"{where}: the number of blocks does not match output_size {sizes}; expected {blocks[0]} · {blocks[1]}, "
            f"got {length} in an input of shape {input.shape}. Pass the kernel_size, dilation, padding and stride that "
            "were passed to unfold."
        )
    shape = (*batch, rows // math.prod(kernels), *kernels, *blocks)
    x = reshaped(input.astype(checks.wide_dtype(input)), shape)
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
    """Extract each block of the input as a column.

    In channel c, the entry at row i and column j of block l becomes `y[c · kH · kW + i · kW + j, l]`.

    Args:
        input: floating-point array of shape (B, C, H, W) or (C, H, W).
        kernel_size: size (kH, kW) of the blocks. Each argument from `kernel_size` to `stride` may also be one number,
            for both dimensions.
        dilation: distance between the elements of a block.
        padding: number of zeros on each side.
        stride: distance between neighbouring blocks.

    Returns:
        An array of shape (B, C · kH · kW, L) or (C · kH · kW, L), in the input's dtype. The number of blocks, L, is the
        product over both dimensions of `(size + 2 · padding - dilation · (k - 1) - 1) // stride + 1`.

    Raises:
        ValueError: if the input has the wrong rank or an empty dimension, a size is out of range, or a block is larger
            than the padded input.
        TypeError: if the input is not floating-point, or a size is not an integer.

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
            f"{where}: there is nothing to extract; expected at least one block and one channel, got {tuple(blocks)} "
            f"blocks of {kernels} from an input of shape {input.shape}. Use a smaller kernel or dilation, or pad more."
        )
    rank = input.ndim
    x = jnp.pad(input, [(0, 0)] * (rank - 2) + [(p, p) for p in pads])
    for axis in (-1, -2):  # (…, C, H, W) -> (…, C, kW, H, w) -> (…, C, kH, kW, h, w)
        k, d, s = kernels[axis], dilations[axis], strides[axis]
        reach = (blocks[axis] - 1) * s + 1
        taps = [lax.slice_in_dim(x, tap * d, tap * d + reach, s, x.ndim + axis) for tap in range(k)]
        x = jnp.stack(taps, rank - 2)
    rows = input.shape[-3] * math.prod(kernels)
    return reshaped(x, (*input.shape[:-3], rows, math.prod(blocks)))


def _blocks(size: int, kernel: int, dilation: int, pad: int, stride: int) -> int:
    return (size + 2 * pad - dilation * (kernel - 1) - 1) // stride + 1


def _window(where: str, kernel: Ints, dilation: Ints, pad: Ints, stride: Ints) -> tuple[tuple[int, ...], ...]:
    return (
        checks.as_tuple(where, "kernel_size", kernel, 2, least=1),
        checks.as_tuple(where, "dilation", dilation, 2, least=1),
        checks.as_tuple(where, "padding", pad, 2, least=0),
        checks.as_tuple(where, "stride", stride, 2, least=1),
    )
