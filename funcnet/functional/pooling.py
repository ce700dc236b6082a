"""Pooling in 1, 2 and 3 dimensions. Letters: `B batch, C channel, S spatial sizes, K kernel sizes`.

A window over several dimensions is taken one dimension after the other, the last first: so the first of equal maxima
in reading order wins, which is where torch sends the gradient, and `K1 + K2` steps do the work of `K1 · K2`. A maximum
is taken over shifted slices, which XLA fuses; its own windows with a derivative are slow on CPU and know no dilation.
"""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from funcnet.functional import checks
from funcnet.functional.checks import Ints

__all__ = [
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
]

Sizes = int | Sequence[int | None] | None


def max_pool1d(
    input: jax.Array,
    kernel_size: Ints,
    stride: Ints | None = None,
    padding: Ints = 0,
    dilation: Ints = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> jax.Array:
    """The maximum of every window over one spatial dimension; of equal ones the first has the gradient.

    Args:
        input: (B, C, S) or (C, S), floating.
        kernel_size: of the window.
        stride: between windows; None or () is the kernel's size.
        padding: -inf on both sides, at most half the kernel (its taps, without dilation, as in torch).
        dilation: distance between the window's taps.
        ceil_mode: whether a last window may overhang on the right (never one that starts in the right padding).
        return_indices: False; takes torch's place in the order of arguments.

    Returns:
        (B, C, S') or (C, S'), with `S' = (S + 2 · padding - dilation · (K - 1) - 1) // stride + 1`.
        NaN wins over numbers.

    Raises:
        ValueError: ranks or sizes that do not fit; `return_indices`.
        TypeError: an input of integers; sizes that are none.

    Differs from torch: no indices.

    Example:
        >>> max_pool1d(jnp.array([[1.0, 3.0, 2.0, 0.0]]), 2)
        Array([[3., 2.]], dtype=float32)

    Reference: torch.nn.functional.max_pool1d.
    """
    where = "F.max_pool1d"
    return _max_pool(where, 1, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


def max_pool2d(
    input: jax.Array,
    kernel_size: Ints,
    stride: Ints | None = None,
    padding: Ints = 0,
    dilation: Ints = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> jax.Array:
    """`max_pool1d` over two dimensions: (B, C, H, W) or (C, H, W); sizes are one number or (height, width).

    Example:
        >>> max_pool2d(jnp.arange(16.0).reshape(1, 4, 4), 2)[0]
        Array([[ 5.,  7.],
               [13., 15.]], dtype=float32)

    Reference: torch.nn.functional.max_pool2d.
    """
    where = "F.max_pool2d"
    return _max_pool(where, 2, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


def max_pool3d(
    input: jax.Array,
    kernel_size: Ints,
    stride: Ints | None = None,
    padding: Ints = 0,
    dilation: Ints = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> jax.Array:
    """`max_pool1d` over three dimensions: (B, C, D, H, W) or (C, D, H, W); sizes are one number or three.

    Example:
        >>> max_pool3d(jnp.arange(8.0).reshape(1, 2, 2, 2), 2).ravel()
        Array([7.], dtype=float32)

    Reference: torch.nn.functional.max_pool3d.
    """
    where = "F.max_pool3d"
    return _max_pool(where, 3, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


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
    return _avg_pool(where, 1, input, kernel_size, stride, padding, ceil_mode, count_include_pad, None)


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
    return _avg_pool(where, 2, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


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
    return _avg_pool(where, 3, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


def adaptive_avg_pool1d(input: jax.Array, output_size: Sizes) -> jax.Array:
    """Means that leave `output_size` numbers: bin i of n runs from `floor(i · S / n)` to `ceil((i + 1) · S / n)`.

    Args:
        input: (B, C, S) or (C, S), floating.
        output_size: S'; None keeps a dimension as it is.

    Returns:
        (B, C, S') or (C, S'). Sums are taken in at least float32.

    Raises:
        ValueError: ranks or sizes that do not fit.
        TypeError: an input of integers; sizes that are none.

    Example:
        >>> adaptive_avg_pool1d(jnp.array([[1.0, 2.0, 6.0]]), 2)
        Array([[1.5, 4. ]], dtype=float32)

    Reference: torch.nn.functional.adaptive_avg_pool1d.
    """
    return _adaptive_avg_pool("F.adaptive_avg_pool1d", 1, input, output_size)


def adaptive_avg_pool2d(input: jax.Array, output_size: Sizes) -> jax.Array:
    """`adaptive_avg_pool1d` over two dimensions: (B, C, H, W) or (C, H, W), to one number for both or (H', W').

    Example:
        >>> adaptive_avg_pool2d(jnp.arange(16.0).reshape(1, 4, 4), 1)
        Array([[[7.5]]], dtype=float32)

    Reference: torch.nn.functional.adaptive_avg_pool2d.
    """
    return _adaptive_avg_pool("F.adaptive_avg_pool2d", 2, input, output_size)


def adaptive_avg_pool3d(input: jax.Array, output_size: Sizes) -> jax.Array:
    """`adaptive_avg_pool1d` over three dimensions: (B, C, D, H, W) or (C, D, H, W), to one number or (D', H', W').

    Example:
        >>> adaptive_avg_pool3d(jnp.arange(8.0).reshape(1, 2, 2, 2), 1).ravel()
        Array([3.5], dtype=float32)

    Reference: torch.nn.functional.adaptive_avg_pool3d.
    """
    return _adaptive_avg_pool("F.adaptive_avg_pool3d", 3, input, output_size)


# --------------------------------------------------------------------------------------------------- how it is done


def _max_pool(
    where: str,
    ndim: int,
    input: jax.Array,
    kernel: Ints,
    stride: Ints | None,
    pad: Ints,
    dilation: Ints,
    ceil: bool,
    return_indices: bool,
) -> jax.Array:
    if return_indices:
        raise ValueError(
            f"{where}: indices are not given; expected return_indices=False, got {return_indices}. "
            "There is no max_unpool that would read them."
        )
    input = checks.spatial(where, input, ndim, empty=False)
    kernels, strides, pads, dilations = _window(where, ndim, kernel, stride, pad, dilation)
    x = input
    for axis in range(-1, -ndim - 1, -1):  # the last dimension first: the first maximum in reading order wins
        k, s, p, d = kernels[axis], strides[axis], pads[axis], dilations[axis]
        size = _output_size(where, input.shape, input.shape[axis], k, s, p, d, ceil)
        right = max((size - 1) * s + d * (k - 1) + 1 - p - input.shape[axis], 0)
        widths = [(0, 0, 0)] * x.ndim
        widths[axis] = (p, right, 0)
        padded = lax.pad(x, jnp.array(-jnp.inf, x.dtype), widths)
        x = _tap(padded, axis, 0, size, s)
        for tap in range(1, k):
            other = _tap(padded, axis, tap * d, size, s)
            x = jnp.where((other > x) | jnp.isnan(other), other, x)
    return x


def _tap(x: jax.Array, axis: int, start: int, size: int, stride: int) -> jax.Array:
    return lax.slice_in_dim(x, start, start + (size - 1) * stride + 1, stride, axis)


def _avg_pool(
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
    input = checks.spatial(where, input, ndim, empty=False)
    if divisor == 0:
        raise ValueError(f"{where}: divisor_override is zero; expected another number or None, got 0. Leave it out.")
    kernels, strides, pads, _ = _window(where, ndim, kernel, stride, pad, 1)
    x = input.astype(checks.wide_dtype(input))
    for axis in range(-ndim, 0):
        in_size, k, s, p = input.shape[axis], kernels[axis], strides[axis], pads[axis]
        size = _output_size(where, input.shape, in_size, k, s, p, 1, ceil)
        right = (size - 1) * s + k - p - in_size
        windows, steps, widths = [1] * x.ndim, [1] * x.ndim, [(0, 0)] * x.ndim
        windows[axis], steps[axis], widths[axis] = k, s, (p, max(right, 0))
        seen = lax.slice_in_dim(x, 0, in_size + min(right, 0), axis=axis)
        # A numpy zero: a traced one hides from lax that this is a sum, and then it has no derivative.
        x = lax.reduce_window(seen, np.zeros((), x.dtype), lax.add, windows, steps, widths)
        if divisor is None:
            x = x / _counts(size, in_size, k, s, p, include_pad).reshape(-1, *(1,) * (-axis - 1)).astype(x.dtype)
    return (x if divisor is None else x / divisor).astype(input.dtype)


def _counts(size: int, in_size: int, kernel: int, stride: int, pad: int, include_pad: bool) -> jax.Array:
    """How many entries every window averages: with the declared padding or without, never what overhangs it."""
    start = jnp.arange(size) * stride - pad
    if include_pad:
        return jnp.minimum(start + kernel, in_size + pad) - start
    return jnp.minimum(start + kernel, in_size) - jnp.maximum(start, 0)


def _adaptive_avg_pool(where: str, ndim: int, input: jax.Array, output_size: Sizes) -> jax.Array:
    input = checks.spatial(where, input, ndim, empty=False)
    wanted = tuple(
        None if n is None else checks.as_int(where, "output_size", n) for n in checks.entries(output_size, ndim)
    )
    if len(wanted) != ndim or any(n is not None and n < 0 for n in wanted):
        raise ValueError(
            f"{where}: output_size does not fit; expected {ndim} sizes of at least 0, got {output_size}. "
            "Give one number for every spatial dimension."
        )
    x = input.astype(checks.wide_dtype(input))
    for axis, n in zip(range(-ndim, 0), wanted, strict=True):
        size = x.shape[axis]
        if n is None or n == size:
            continue
        if n and size % n == 0:
            split = (*x.shape[: x.ndim + axis], n, size // n, *x.shape[x.ndim + axis + 1 :])
            x = x.reshape(split).mean(axis)
        else:
            edges = [(i * size // n, -(-(i + 1) * size // n)) for i in range(n)]
            bins = [lax.slice_in_dim(x, *edge, axis=axis).mean(axis, keepdims=True) for edge in edges]
            x = jnp.concatenate(bins or [lax.slice_in_dim(x, 0, 0, axis=axis)], axis)
    return x.astype(input.dtype)


def _window(
    where: str, ndim: int, kernel: Ints, stride: Ints | None, pad: Ints, dilation: Ints
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    kernels = checks.as_tuple(where, "kernel_size", kernel, ndim, least=1)
    strides = kernels
    if stride is not None and np.size(stride):
        strides = checks.as_tuple(where, "stride", stride, ndim, least=1)
    dilations = checks.as_tuple(where, "dilation", dilation, ndim, least=1)
    pads = checks.as_tuple(where, "padding", pad, ndim)
    if min(pads) < 0 or any(2 * p > k for p, k in zip(pads, kernels, strict=True)):
        raise ValueError(
            f"{where}: padding is too large or negative; expected at most half the kernel {kernels}, got {pads}. "
            "torch counts the kernel without its dilation: use F.pad for more."
        )
    return kernels, strides, pads, dilations


def _output_size(
    where: str, shape: tuple[int, ...], size: int, kernel: int, stride: int, pad: int, dilation: int, ceil: bool
) -> int:
    room = size + 2 * pad - dilation * (kernel - 1) - 1
    out = (-(-room // stride) if ceil else room // stride) + 1
    if ceil and (out - 1) * stride >= size + pad:  # a window that would start in the right padding
        out -= 1
    if out < 1:
        raise ValueError(
            f"{where}: the window is larger than the padded input; expected an output of at least 1, got {out} from "
            f"{shape}. Use a smaller kernel."
        )
    return out
