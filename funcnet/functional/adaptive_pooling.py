"""Pooling to a given output size. Letters: `B batch, C channel, S spatial sizes, n output sizes`.

Bin i of n runs from `floor(i · S / n)` to `ceil((i + 1) · S / n)`. Bins may overlap. Every entry of the input is in at
least one bin.
"""

import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from funcnet.functional import checks, windows

__all__ = [
    "Sizes",
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "adaptive_max_pool1d",
    "adaptive_max_pool2d",
    "adaptive_max_pool3d",
]

Sizes = int | Sequence[int | None] | None


def adaptive_avg_pool1d(input: jax.Array, output_size: Sizes) -> jax.Array:
    """Average the input over n = `output_size` bins. Bin i runs from `floor(i · S / n)` to `ceil((i + 1) · S / n)`.

    Args:
        input: floating-point array of shape (B, C, S) or (C, S).
        output_size: size S' of the output; None keeps the size of the input.

    Returns:
        An array of shape (B, C, S') or (C, S'). The sums are computed in at least float32.

    Raises:
        ValueError: if the input has the wrong rank, a dimension other than the batch is empty, or `output_size` has the
            wrong length or is negative.
        TypeError: if the input is not floating-point, or a size is not an integer.

    Example:
        >>> adaptive_avg_pool1d(jnp.array([[1.0, 2.0, 6.0]]), 2)
        Array([[1.5, 4. ]], dtype=float32)

    Reference: torch.nn.functional.adaptive_avg_pool1d.
    """
    return _adaptive_avg_pool("F.adaptive_avg_pool1d", 1, input, output_size)


def adaptive_avg_pool2d(input: jax.Array, output_size: Sizes) -> jax.Array:
    """Apply adaptive average pooling over two dimensions, as in `adaptive_avg_pool1d`.

    The input has shape (B, C, H, W) or (C, H, W). `output_size` is (H', W'), or one number for both sizes.

    Example:
        >>> adaptive_avg_pool2d(jnp.arange(16.0).reshape(1, 4, 4), 1)
        Array([[[7.5]]], dtype=float32)

    Reference: torch.nn.functional.adaptive_avg_pool2d.
    """
    return _adaptive_avg_pool("F.adaptive_avg_pool2d", 2, input, output_size)


def adaptive_avg_pool3d(input: jax.Array, output_size: Sizes) -> jax.Array:
    """Apply adaptive average pooling over three dimensions, as in `adaptive_avg_pool1d`.

    The input has shape (B, C, D, H, W) or (C, D, H, W). `output_size` is (D', H', W'), or one number for all three
    sizes.

    Example:
        >>> adaptive_avg_pool3d(jnp.arange(8.0).reshape(1, 2, 2, 2), 1).ravel()
        Array([3.5], dtype=float32)

    Reference: torch.nn.functional.adaptive_avg_pool3d.
    """
    return _adaptive_avg_pool("F.adaptive_avg_pool3d", 3, input, output_size)


def adaptive_max_pool1d(input: jax.Array, output_size: Sizes, return_indices: bool = False) -> Any:
    """Return the maximum of each of n = `output_size` bins. Bin i runs from `floor(i · S / n)` to `ceil((i + 1) · S /
    n)`.

    Args:
        input: floating-point array of shape (B, C, S) or (C, S).
        output_size: size S' of the output; None keeps the size of the input.
        return_indices: if True, also return the indices of the maxima.

    Returns:
        The maxima, of shape (B, C, S') or (C, S'). With `return_indices`, a pair (maxima, indices), where the indices
        refer to the flattened spatial dimensions. Among equal maxima, the first is chosen and receives the gradient. A
        NaN counts as larger than any number.

    Raises:
        ValueError: if the input has the wrong rank, a dimension other than the batch is empty, or `output_size` has the
            wrong length or is negative.
        TypeError: if the input is not floating-point, or a size is not an integer.

    Differs from torch: indices are int32 unless x64 is enabled.

    Example:
        >>> adaptive_max_pool1d(jnp.array([[1.0, 2.0, 6.0]]), 2, return_indices=True)
        (Array([[2., 6.]], dtype=float32), Array([[1, 2]], dtype=int32))

    Reference: torch.nn.functional.adaptive_max_pool1d.
    """
    return _adaptive_max_pool("F.adaptive_max_pool1d", 1, input, output_size, return_indices)


def adaptive_max_pool2d(input: jax.Array, output_size: Sizes, return_indices: bool = False) -> Any:
    """Apply adaptive max pooling over two dimensions, as in `adaptive_max_pool1d`.

    The input has shape (B, C, H, W) or (C, H, W). `output_size` is (H', W'), or one number for both sizes.

    Example:
        >>> adaptive_max_pool2d(jnp.arange(16.0).reshape(1, 4, 4), 1)
        Array([[[15.]]], dtype=float32)

    Reference: torch.nn.functional.adaptive_max_pool2d.
    """
    return _adaptive_max_pool("F.adaptive_max_pool2d", 2, input, output_size, return_indices)


def adaptive_max_pool3d(input: jax.Array, output_size: Sizes, return_indices: bool = False) -> Any:
    """Apply adaptive max pooling over three dimensions, as in `adaptive_max_pool1d`.

    The input has shape (B, C, D, H, W) or (C, D, H, W). `output_size` is (D', H', W'), or one number for all three
    sizes.

    Example:
        >>> adaptive_max_pool3d(jnp.arange(8.0).reshape(1, 2, 2, 2), 1).ravel()
        Array([7.], dtype=float32)

    Reference: torch.nn.functional.adaptive_max_pool3d.
    """
    return _adaptive_max_pool("F.adaptive_max_pool3d", 3, input, output_size, return_indices)


def _adaptive_avg_pool(where: str, ndim: int, input: jax.Array, output_size: Sizes) -> jax.Array:
    input = windows.planes(where, input, ndim)
    wanted = _output_sizes(where, ndim, input, output_size)
    x = input.astype(checks.wide_dtype(input))
    whole = tuple(axis for axis, n in enumerate(wanted, -ndim) if n == 1)
    counts: Any = math.prod(x.shape[axis] for axis in whole)
    if whole:  # summed at once; on CPU, one dimension after the other takes three times as long
        x = x.sum(whole, keepdims=True)
    for axis, n in enumerate(wanted, -ndim):
        size = x.shape[axis]
        if n == size:
            continue
        if n and size % n == 0:
            x = x.reshape(*x.shape[: x.ndim + axis], n, size // n, *x.shape[x.ndim + axis + 1 :]).sum(axis)
            counts = counts * (size // n)
        else:
            bins = _bins(size, n)
            sums = [lax.slice_in_dim(x, *b, axis=axis).sum(axis, keepdims=True) for b in bins]
            x = jnp.concatenate(sums or [lax.slice_in_dim(x, 0, 0, axis=axis)], axis)
            lengths = jnp.asarray([end - start for start, end in bins], x.dtype)
            counts = counts * lengths.reshape(-1, *(1,) * (-axis - 1))
    return (x / counts).astype(input.dtype)  # divide at the end; see `avg_pool` in pooling.py


def _adaptive_max_pool(where: str, ndim: int, input: jax.Array, output_size: Sizes, return_indices: bool) -> Any:
    input = windows.planes(where, input, ndim)
    wanted = _output_sizes(where, ndim, input, output_size)
    if 0 in wanted:
        empty = input.shape[: input.ndim - ndim] + wanted
        y, places = jnp.zeros(empty, input.dtype), jnp.zeros(empty, jnp.int32)
    else:
        y, places = windows.first_maxima(
            input, [_windows(*pair) for pair in zip(input.shape[-ndim:], wanted, strict=True)]
        )
    return (y, windows.as_index(places)) if return_indices else y


def _windows(size: int, n: int) -> windows.Windows | windows.Bins:
    if size % n:
        bins = _bins(size, n)
        return windows.Bins(tuple(start for start, _ in bins), tuple(end for _, end in bins))
    return windows.Windows(n, kernel=size // n, stride=size // n, pad=0, dilation=1)


def _bins(size: int, n: int) -> list[tuple[int, int]]:
    """Return the start and the end position of each of the n bins that cover a dimension of `size` entries."""
    return [(i * size // n, -(-(i + 1) * size // n)) for i in range(n)]


def _output_sizes(where: str, ndim: int, input: jax.Array, output_size: Sizes) -> tuple[int, ...]:
    given = [None if n is None else checks.as_int(where, "output_size", n) for n in checks.entries(output_size, ndim)]
    if len(given) != ndim or any(n is not None and n < 0 for n in given):
        raise ValueError(
            f"{where}: output_size is invalid; expected {ndim} sizes of at least 0, got {output_size}. "
            "Pass one number for each spatial dimension."
        )
    return tuple(size if n is None else n for n, size in zip(given, input.shape[-ndim:], strict=True))
