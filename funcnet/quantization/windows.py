"""Checks of the stride, padding and dilation of windows, and the number of windows in each dimension."""

from collections.abc import Sequence

import numpy as np

__all__ = ["Padding", "as_padding", "as_sizes", "window_counts"]

Padding = int | Sequence[int | tuple[int, int]]


def as_sizes(where: str, name: str, value: int | Sequence[int], spatial: int) -> tuple[int, ...]:
    """Return `value` as one positive integer for each spatial dimension, or raise ValueError if that fails.

    Example:
        >>> as_sizes("conv", "stride", 2, 2)
        (2, 2)
    """
    sizes = (value,) * spatial if isinstance(value, int | np.integer) else tuple(value)
    if len(sizes) != spatial or any(size < 1 for size in sizes):
        raise ValueError(f"{where}: bad {name}; expected {spatial} positive integers or one, got {value!r}.")
    return tuple(int(size) for size in sizes)


def as_padding(where: str, padding: Padding, spatial: int) -> tuple[tuple[int, int], ...]:
    """Return the padding as a pair (before, after) for each spatial dimension, or raise ValueError if that fails.

    Example:
        >>> as_padding("conv", [1, (0, 2)], 2)
        ((1, 1), (0, 2))
    """
    each = (padding,) * spatial if isinstance(padding, int | np.integer) else tuple(padding)
    pairs = [(one, one) if isinstance(one, int | np.integer) else tuple(one) for one in each]
    if len(pairs) != spatial or any(len(pair) != 2 or min(pair) < 0 for pair in pairs):
        raise ValueError(
            f"{where}: bad padding; expected an integer >= 0, or a sequence of length {spatial} of "
            f"such integers or pairs of them, got {padding!r}."
        )
    return tuple((int(low), int(high)) for low, high in pairs)


def window_counts(
    where: str,
    sizes: Sequence[int],
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[tuple[int, int]],
    dilation: Sequence[int],
) -> tuple[int, ...]:
    """Return the number of windows in each dimension, or raise ValueError if a window is larger than the padded input.

    Example:
        >>> window_counts("conv", (5,), (3,), (2,), ((1, 1),), (1,))
        (3,)
    """
    padded = [size + low + high for size, (low, high) in zip(sizes, padding, strict=True)]
    reach = [gap * (width - 1) + 1 for width, gap in zip(kernel, dilation, strict=True)]
    if any(size < width for size, width in zip(padded, reach, strict=True)):
        raise ValueError(
            f"{where}: the kernel is larger than the padded input; expected at least {tuple(reach)}, "
            f"got {tuple(padded)}."
        )
    return tuple((size - width) // step + 1 for size, width, step in zip(padded, reach, stride, strict=True))
