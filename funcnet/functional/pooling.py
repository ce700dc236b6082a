"""Max and average pooling in 1, 2 and 3 dimensions. Letters: `B batch, C channel, S spatial sizes, K kernel sizes`.

Windows over several dimensions are processed one dimension at a time, which takes `K1 + K2` steps instead of `K1 · K2`.
`windows.py` defines the positions of the windows, and which of several equal maxima is chosen.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from funcnet.functional import checks, windows
from funcnet.functional.checks import Ints

__all__ = ["avg_pool1d", "avg_pool2d", "avg_pool3d", "max_pool1d", "max_pool2d", "max_pool3d"]


def max_pool1d(
    input: jax.Array,
    kernel_size: Ints,
    stride: Ints | None = None,
    padding: Ints = 0,
    dilation: Ints = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """Return the maximum of every window over one spatial dimension. If several entries equal the maximum, the first of
    them gets the gradient.

    Args:
        input: floating-point array (B, C, S) or (C, S).
        kernel_size: size of the window.
        stride: distance between windows; None or () means `kernel_size`.
        padding: number of -inf entries added on each side, at most half of `kernel_size`. As in torch, dilation does
            not raise the limit on the padding.
        dilation: distance between neighbouring entries of a window.
        ceil_mode: if True, include a last window that extends beyond the right padding, unless the window starts in
            this padding.
        return_indices: whether to return the indices of the maxima too, in the form that `max_unpool1d` requires.

    Returns:
        An array (B, C, S') or (C, S'), with `S' = (S + 2 · padding - dilation · (K - 1) - 1) // stride + 1`. With
        `ceil_mode`, the quotient is rounded up, not down. With `return_indices`, the result is a pair: the maxima, and
        their indices in the flattened spatial dimensions. If a window contains NaN, the maximum is the last NaN of the
        window.

    Raises:
        ValueError: if the rank of the input is wrong, a dimension other than the batch is empty, or a size is invalid.
        TypeError: if the input is not floating-point, or a size is not an integer.

    Differs from torch: indices are int32 unless JAX's x64 mode is enabled.

    Example:
        >>> max_pool1d(jnp.array([[1.0, 3.0, 2.0, 0.0]]), 2)
        Array([[3., 2.]], dtype=float32)
        >>> max_pool1d(jnp.array([[1.0, 3.0, 2.0, 0.0]]), 2, return_indices=True)[1]
        Array([[1, 2]], dtype=int32)

    Reference: torch.nn.functional.max_pool1d.
    """
    where = "F.max_pool1d"
    return max_pool(where, 1, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


def max_pool2d(
    input: jax.Array,
    kernel_size: Ints,
    stride: Ints | None = None,
    padding: Ints = 0,
    dilation: Ints = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """Apply `max_pool1d` over two dimensions. The input is (B, C, H, W) or (C, H, W).

    `kernel_size`, `stride`, `padding` and `dilation` are each an int or a pair (height, width).

    Example:
        >>> max_pool2d(jnp.arange(16.0).reshape(1, 4, 4), 2)[0]
        Array([[ 5.,  7.],
               [13., 15.]], dtype=float32)

    Reference: torch.nn.functional.max_pool2d.
    """
    where = "F.max_pool2d"
    return max_pool(where, 2, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


def max_pool3d(
    input: jax.Array,
    kernel_size: Ints,
    stride: Ints | None = None,
    padding: Ints = 0,
    dilation: Ints = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """Apply `max_pool1d` over three dimensions. The input is (B, C, D, H, W) or (C, D, H, W).

    `kernel_size`, `stride`, `padding` and `dilation` are each an int or a tuple of three ints.

    Example:
        >>> max_pool3d(jnp.arange(8.0).reshape(1, 2, 2, 2), 2).ravel()
        Array([7.], dtype=float32)

    Reference: torch.nn.functional.max_pool3d.
    """
    where = "F.max_pool3d"
    return max_pool(where, 3, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


def avg_pool1d(
    input: jax.Array,
    kernel_size: Ints,
    stride: Ints | None = None,
    padding: Ints = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> jax.Array:
    """Return the mean of every window over one spatial dimension.

    Args:
        input: floating-point array (B, C, S) or (C, S).
        kernel_size: size of the window.
        stride: distance between windows; None or () means `kernel_size`.
        padding: number of zeros added on each side, at most half of `kernel_size`.
        ceil_mode: if True, include a last window that extends beyond the right padding, unless the window starts in
            this padding.
        count_include_pad: whether padding entries count in the divisor of the mean. Positions beyond the padding never
            count.

    Returns:
        An array (B, C, S') or (C, S'), with `S' = (S + 2 · padding - K) // stride + 1`. With `ceil_mode`, the quotient
        is rounded up, not down. Sums are computed in at least float32.

    Raises:
        ValueError: if the rank of the input is wrong, a dimension other than the batch is empty, or a size is invalid.
        TypeError: if the input is not floating-point, or a size is not an integer.

    Example:
        >>> avg_pool1d(jnp.array([[1.0, 3.0, 2.0, 0.0]]), 2)
        Array([[2., 1.]], dtype=float32)

    Reference: torch.nn.functional.avg_pool1d.
    """
    where = "F.avg_pool1d"
    return avg_pool(where, 1, input, kernel_size, stride, padding, ceil_mode, count_include_pad, None)


def avg_pool2d(
    input: jax.Array,
    kernel_size: Ints,
    stride: Ints | None = None,
    padding: Ints = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> jax.Array:
    """Apply `avg_pool1d` over two dimensions. The input is (B, C, H, W) or (C, H, W).

    `kernel_size`, `stride` and `padding` are each an int or a pair (height, width).

    If `divisor_override` is given, each sum is divided by this number instead of the window's size. `divisor_override`
    must not be 0.

    Example:
        >>> avg_pool2d(jnp.arange(16.0).reshape(1, 4, 4), 2)[0]
        Array([[ 2.5,  4.5],
               [10.5, 12.5]], dtype=float32)

    Reference: torch.nn.functional.avg_pool2d.
    """
    where = "F.avg_pool2d"
    return avg_pool(where, 2, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


def avg_pool3d(
    input: jax.Array,
    kernel_size: Ints,
    stride: Ints | None = None,
    padding: Ints = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> jax.Array:
    """Apply `avg_pool2d` over three dimensions. The input is (B, C, D, H, W) or (C, D, H, W).

    `kernel_size`, `stride` and `padding` are each an int or a tuple of three ints.

    Example:
        >>> avg_pool3d(jnp.arange(8.0).reshape(1, 2, 2, 2), 2).ravel()
        Array([3.5], dtype=float32)

    Reference: torch.nn.functional.avg_pool3d.
    """
    where = "F.avg_pool3d"
    return avg_pool(where, 3, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


# --------------------------------------------------------------------------------------------------- how it is done


def max_pool(
    where: str,
    ndim: int,
    input: jax.Array,
    kernel: Ints,
    stride: Ints | None,
    pad: Ints,
    dilation: Ints,
    ceil: bool,
    return_indices: bool,
) -> Any:
    """Apply max pooling, as in `max_pool1d`, over any number of dimensions. `where` is the name of the public function,
    with which error messages begin.
    """
    input = windows.planes(where, input, ndim)
    along = windows.regular(where, input.shape, ndim, kernel, stride, pad, dilation, ceil)
    y = windows.maximum(input, along)
    return (y, windows.as_index(windows.first_maxima(input, along)[1])) if return_indices else y


def avg_pool(
    where: str,
    ndim: int,
    input: jax.Array,
    kernel: Ints,
    stride: Ints | None,
    pad: Ints,
    ceil: bool,
    include_pad: bool,
    divisor: int | None,
) -> jax.Array:
    """Apply average pooling, as in `avg_pool1d`, over any number of dimensions. `where` is the name of the public
    function, with which error messages begin.
    """
    input = windows.planes(where, input, ndim)
    if divisor == 0:
        raise ValueError(f"{where}: divisor_override is zero; expected a nonzero number or None, got 0.")
    x = input.astype(checks.wide_dtype(input))
    counts: Any = 1 if divisor is None else divisor
    for axis, along in enumerate(windows.regular(where, input.shape, ndim, kernel, stride, pad, ceil=ceil), -ndim):
        size = input.shape[axis]
        seen = lax.slice_in_dim(x, 0, size + min(along.overhang(size), 0), axis=axis)
        # The zero is numpy's. With a traced zero, lax does not recognise a sum, and there is no derivative.
        x = lax.reduce_window(seen, np.zeros((), x.dtype), lax.add, *windows.as_lax(along, x.ndim, axis, size))
        if divisor is None:
            along_axis = jnp.asarray(_counts(along, size, include_pad), x.dtype)
            counts = counts * along_axis.reshape(-1, *(1,) * (-axis - 1))
    # Divide at the end. The thirds of 1, -1 and 0 do not sum to exactly 0, and |x| has a slope if x is not exactly 0.
    return (x / counts).astype(input.dtype)


def _counts(along: windows.Windows, size: int, include_pad: bool) -> np.ndarray:
    """Return, for each window of an average pooling, the number of entries by which its sum is divided. Entries in the
    padding count only if `include_pad` is True, and positions beyond the padding never count.
    """
    start = along.starts(-1)
    if include_pad:
        return np.minimum(start + along.kernel, size + along.pad) - start
    return np.minimum(start + along.kernel, size) - np.maximum(start, 0)
