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

Ints = int | Sequence[int]


def max_pool1d(
    input: jax.Array,
    kernel_size: Ints,
    stride: Ints | None = None,
    padding: Ints = 0,
    dilation: Ints = 1,
    ceil_mode: bool = False,
) -> jax.Array:
    """The maximum of every window over one spatial dimension; see `max_pool2d`.

    Args:
        input: (B, C, S) or (C, S), floating.
        kernel_size, stride, padding, dilation, ceil_mode: as in `max_pool2d`.

    Returns:
        (B, C, S') or (C, S').

    Raises:
        ValueError, TypeError: as `max_pool2d`.

    Example:
        >>> max_pool1d(jnp.array([[1.0, 3.0, 2.0, 0.0]]), 2)
        Array([[3., 2.]], dtype=float32)

    Reference: torch.nn.functional.max_pool1d.
    """
    return _max_pool("F.max_pool1d", 1, input, kernel_size, stride, padding, dilation, ceil_mode)


def max_pool2d(
    input: jax.Array,
    kernel_size: Ints,
    stride: Ints | None = None,
    padding: Ints = 0,
    dilation: Ints = 1,
    ceil_mode: bool = False,
) -> jax.Array:
    """The maximum of every window over two spatial dimensions; of equal ones the first has the gradient.

    Args:
        input: (B, C, H, W) or (C, H, W), floating.
        kernel_size: of the window.
        stride: between windows; None is the kernel's size.
        padding: -inf on both sides, at most half the kernel.
        dilation: distance between the window's taps.
        ceil_mode: whether a last window may overhang on the right (never one that starts in the right padding).

    Returns:
        (B, C, H', W') or (C, H', W'). NaN wins over numbers.

    Raises:
        ValueError: ranks or sizes that do not fit.
        TypeError: integers.

    Differs from torch: no `return_indices`.

    Example:
        >>> max_pool2d(jnp.arange(16.0).reshape(1, 4, 4), 2)[0]
        Array([[ 5.,  7.],
               [13., 15.]], dtype=float32)

    Reference: torch.nn.functional.max_pool2d.
    """
    return _max_pool("F.max_pool2d", 2, input, kernel_size, stride, padding, dilation, ceil_mode)


def max_pool3d(
    input: jax.Array,
    kernel_size: Ints,
    stride: Ints | None = None,
    padding: Ints = 0,
    dilation: Ints = 1,
    ceil_mode: bool = False,
) -> jax.Array:
    """The maximum of every window over three spatial dimensions; see `max_pool2d`.

    Args:
        input: (B, C, D, H, W) or (C, D, H, W), floating.
        kernel_size, stride, padding, dilation, ceil_mode: as in `max_pool2d`.

    Returns:
        (B, C, D', H', W') or (C, D', H', W').

    Raises:
        ValueError, TypeError: as `max_pool2d`.

    Example:
        >>> max_pool3d(jnp.arange(8.0).reshape(1, 2, 2, 2), 2).ravel()
        Array([7.], dtype=float32)

    Reference: torch.nn.functional.max_pool3d.
    """
    return _max_pool("F.max_pool3d", 3, input, kernel_size, stride, padding, dilation, ceil_mode)


def avg_pool1d(
    input: jax.Array,
    kernel_size: Ints,
    stride: Ints | None = None,
    padding: Ints = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> jax.Array:
    """The mean of every window over one spatial dimension; see `avg_pool2d`.

    Args:
        input: (B, C, S) or (C, S), floating.
        kernel_size, stride, padding, ceil_mode, count_include_pad: as in `avg_pool2d`.

    Returns:
        (B, C, S') or (C, S').

    Raises:
        ValueError, TypeError: as `avg_pool2d`.

    Example:
        >>> avg_pool1d(jnp.array([[1.0, 3.0, 2.0, 0.0]]), 2)
        Array([[2., 1.]], dtype=float32)

    Reference: torch.nn.functional.avg_pool1d.
    """
    return _avg_pool("F.avg_pool1d", 1, input, kernel_size, stride, padding, ceil_mode, count_include_pad, None)


def avg_pool2d(
    input: jax.Array,
    kernel_size: Ints,
    stride: Ints | None = None,
    padding: Ints = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> jax.Array:
    """The mean of every window over two spatial dimensions.

    Args:
        input: (B, C, H, W) or (C, H, W), floating.
        kernel_size: of the window.
        stride: between windows; None is the kernel's size.
        padding: zeros on both sides, at most half the kernel.
        ceil_mode: whether a last window may overhang on the right (never one that starts in the right padding).
        count_include_pad: whether the divisor counts the padding; what overhangs it is never counted.
        divisor_override: a divisor in place of the window's size.

    Returns:
        (B, C, H', W') or (C, H', W'). Sums are taken in at least float32.

    Raises:
        ValueError: ranks or sizes that do not fit; a divisor of 0.
        TypeError: integers.

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
    """The mean of every window over three spatial dimensions; see `avg_pool2d`.

    Args:
        input: (B, C, D, H, W) or (C, D, H, W), floating.
        kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override: as in `avg_pool2d`.

    Returns:
        (B, C, D', H', W') or (C, D', H', W').

    Raises:
        ValueError, TypeError: as `avg_pool2d`.

    Example:
        >>> avg_pool3d(jnp.arange(8.0).reshape(1, 2, 2, 2), 2).ravel()
        Array([3.5], dtype=float32)

    Reference: torch.nn.functional.avg_pool3d.
    """
    where = "F.avg_pool3d"
    return _avg_pool(where, 3, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


def adaptive_avg_pool1d(input: jax.Array, output_size: int | Sequence[int | None] | None) -> jax.Array:
    """Means over one spatial dimension that leave `output_size` numbers; see `adaptive_avg_pool2d`.

    Args:
        input: (B, C, S) or (C, S), floating.
        output_size: S'.

    Returns:
        (B, C, S') or (C, S').

    Raises:
        ValueError, TypeError: as `adaptive_avg_pool2d`.

    Example:
        >>> adaptive_avg_pool1d(jnp.array([[1.0, 2.0, 6.0]]), 2)
        Array([[1.5, 4. ]], dtype=float32)

    Reference: torch.nn.functional.adaptive_avg_pool1d.
    """
    return _adaptive_avg_pool("F.adaptive_avg_pool1d", 1, input, output_size)


def adaptive_avg_pool2d(input: jax.Array, output_size: int | Sequence[int | None] | None) -> jax.Array:
    """Means that leave `output_size` numbers: bin i of n runs from `floor(i · H / n)` to `ceil((i + 1) · H / n)`.

    Args:
        input: (B, C, H, W) or (C, H, W), floating.
        output_size: (H', W'), or one number for both; None keeps a dimension as it is.

    Returns:
        (B, C, H', W') or (C, H', W'). Sums are taken in at least float32.

    Raises:
        ValueError: ranks or sizes that do not fit.
        TypeError: integers.

    Example:
        >>> adaptive_avg_pool2d(jnp.arange(16.0).reshape(1, 4, 4), 1)
        Array([[[7.5]]], dtype=float32)

    Reference: torch.nn.functional.adaptive_avg_pool2d.
    """
    return _adaptive_avg_pool("F.adaptive_avg_pool2d", 2, input, output_size)


def adaptive_avg_pool3d(input: jax.Array, output_size: int | Sequence[int | None] | None) -> jax.Array:
    """Means over three spatial dimensions that leave `output_size` numbers; see `adaptive_avg_pool2d`.

    Args:
        input: (B, C, D, H, W) or (C, D, H, W), floating.
        output_size: (D', H', W'), or one number for all; None keeps a dimension as it is.

    Returns:
        (B, C, D', H', W') or (C, D', H', W').

    Raises:
        ValueError, TypeError: as `adaptive_avg_pool2d`.

    Example:
        >>> adaptive_avg_pool3d(jnp.arange(8.0).reshape(1, 2, 2, 2), 1).ravel()
        Array([3.5], dtype=float32)

    Reference: torch.nn.functional.adaptive_avg_pool3d.
    """
    return _adaptive_avg_pool("F.adaptive_avg_pool3d", 3, input, output_size)


# --------------------------------------------------------------------------------------------------- how it is done


def _max_pool(
    where: str, ndim: int, input: jax.Array, kernel: Ints, stride: Ints | None, pad: Ints, dilation: Ints, ceil: bool
) -> jax.Array:
    input = _spatial_input(where, ndim, input)
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
    input = _spatial_input(where, ndim, input)
    if divisor == 0:
        raise ValueError(f"{where}: divisor_override is zero; expected another number or None, got 0. Leave it out.")
    kernels, strides, pads, _ = _window(where, ndim, kernel, stride, pad, 1)
    x = input.astype(checks.at_least_float32(input))
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


def _adaptive_avg_pool(
    where: str, ndim: int, input: jax.Array, output_size: int | Sequence[int | None] | None
) -> jax.Array:
    input = _spatial_input(where, ndim, input)
    wanted = (output_size,) * ndim if output_size is None or isinstance(output_size, int) else tuple(output_size)
    if len(wanted) != ndim or any(n is not None and n < 0 for n in wanted):
        raise ValueError(
            f"{where}: output_size does not fit; expected {ndim} sizes of at least 0, got {output_size}. "
            "Give one number for every spatial dimension."
        )
    x = input.astype(checks.at_least_float32(input))
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


def _spatial_input(where: str, ndim: int, input: jax.Array) -> jax.Array:
    input = checks.floating(where, "input", input)
    if input.ndim not in (ndim + 1, ndim + 2) or 0 in input.shape[-ndim:]:
        raise ValueError(
            f"{where}: input has the wrong shape; expected {ndim + 2} dimensions (batch, channel, *spatial) or "
            f"{ndim + 1} without the batch, no spatial one of size 0, got {input.shape}. Add or drop a dimension."
        )
    return input


def _window(
    where: str, ndim: int, kernel: Ints, stride: Ints | None, pad: Ints, dilation: Ints
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    kernels = checks.as_tuple(where, "kernel_size", kernel, ndim)
    if stride is None or (not isinstance(stride, int) and len(stride) == 0):
        strides = kernels
    else:
        strides = checks.as_tuple(where, "stride", stride, ndim)
    dilations = checks.as_tuple(where, "dilation", dilation, ndim)
    for name, values in (("kernel_size", kernels), ("stride", strides), ("dilation", dilations)):
        if min(values) < 1:
            raise ValueError(f"{where}: {name} is too small; expected at least 1, got {values}. Correct {name}.")
    pads = checks.as_tuple(where, "padding", pad, ndim)
    spans = tuple(d * (k - 1) + 1 for d, k in zip(dilations, kernels, strict=True))
    if min(pads) < 0 or any(2 * p > span for p, span in zip(pads, spans, strict=True)):
        raise ValueError(
            f"{where}: padding is too large or negative; expected at most half the kernel's extent {spans}, "
            f"got {pads}. "
            "A window would lie in the padding alone: use F.pad for more."
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
