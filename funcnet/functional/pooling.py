"""Max and average pooling in 1, 2 and 3 dimensions. Letters: `B batch, C channel, S spatial sizes, K kernel sizes`.

Windows over several dimensions are processed one dimension at a time: `K1 + K2` steps do the work of `K1 · K2`.
`windows.py` says where windows lie and which of several equal maxima is chosen.
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
    """The maximum of every window over one spatial dimension; of equal ones the first has the gradient.

    Args:
        input: (B, C, S) or (C, S), floating.
        kernel_size: of the window.
        stride: between windows; None or () is the kernel's size.
        padding: -inf on both sides, at most half the kernel (its taps, without dilation, as in torch).
        dilation: distance between the window's taps.
        ceil_mode: whether a last window may overhang on the right (never one that starts in the right padding).
        return_indices: whether to return where the maxima lie too, as `max_unpool1d` reads it.

    Returns:
        (B, C, S') or (C, S'), with `S' = (S + 2 · padding - dilation · (K - 1) - 1) // stride + 1`; or (that, indices
        of the same shape), counted in the flattened plane. NaN wins over numbers, the last one over the others.

    Raises:
        ValueError: ranks or sizes that do not fit.
        TypeError: an input of integers; sizes that are none.

    Differs from torch: indices are int32 where JAX has no int64 (without x64).

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
    """`max_pool1d` over two dimensions: (B, C, H, W) or (C, H, W); sizes are one number or (height, width).

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
    """`max_pool1d` over three dimensions: (B, C, D, H, W) or (C, D, H, W); sizes are one number or three.

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
    """The mean of every window over one spatial dimension.

    Args:
        input: (B, C, S) or (C, S), floating.
        kernel_size: of the window.
        stride: between windows; None or () is the kernel's size.
        padding: zeros on both sides, at most half the kernel.
        ceil_mode: whether a last window may overhang on the right (never one that starts in the right padding).
        count_include_pad: whether the divisor counts the padding; what overhangs it is never counted.

    Returns:
        (B, C, S') or (C, S'), with `S' = (S + 2 · padding - K) // stride + 1`. Sums are taken in at least float32.

    Raises:
        ValueError: ranks or sizes that do not fit.
        TypeError: an input of integers; sizes that are none.

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
    """`avg_pool1d` over two dimensions: (B, C, H, W) or (C, H, W); sizes are one number or (height, width).

    `divisor_override` divides in place of the window's size; 0 is a ValueError.

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
    """`avg_pool2d` over three dimensions: (B, C, D, H, W) or (C, D, H, W); sizes are one number or three.

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
    """`max_poolnd` for any number of dimensions n; `where` is the name in its errors."""
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
    """`avg_poolnd` for any number of dimensions n; `where` is the name in its errors."""
    input = windows.planes(where, input, ndim)
    if divisor == 0:
        raise ValueError(f"{where}: divisor_override is zero; expected another number or None, got 0.")
    x = input.astype(checks.wide_dtype(input))
    counts: Any = 1 if divisor is None else divisor
    for axis, along in enumerate(windows.regular(where, input.shape, ndim, kernel, stride, pad, ceil=ceil), -ndim):
        size = input.shape[axis]
        seen = lax.slice_in_dim(x, 0, size + min(along.overhang(size), 0), axis=axis)
        # A numpy zero: a traced one hides from lax that this is a sum, and then it has no derivative.
        x = lax.reduce_window(seen, np.zeros((), x.dtype), lax.add, *windows.as_lax(along, x.ndim, axis, size))
        if divisor is None:
            along_axis = jnp.asarray(_counts(along, size, include_pad), x.dtype)
            counts = counts * along_axis.reshape(-1, *(1,) * (-axis - 1))
    # Divided at the end: thirds of 1, -1 and 0 do not add up to 0, and an absolute value after it would have a slope.
    return (x / counts).astype(input.dtype)


def _counts(along: windows.Windows, size: int, include_pad: bool) -> np.ndarray:
    """How many entries every window averages, with or without the declared padding, never what overhangs it."""
    start = along.starts(-1)
    if include_pad:
        return np.minimum(start + along.kernel, size + along.pad) - start
    return np.minimum(start + along.kernel, size) - np.maximum(start, 0)
