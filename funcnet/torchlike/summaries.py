"""Reductions and differences that jax.numpy lacks, such as running log-sums, both extremes, and medians that ignore
NaN.
"""

import itertools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from funcnet.torchlike.arguments import Dims, axes_of, axis_of, line, sizes_of
from funcnet.torchlike.reduction import chosen, of_all

__all__ = [
    "MinAndMax",
    "aminmax",
    "axes",
    "cumulative_trapezoid",
    "gradient",
    "logcumsumexp",
    "nanmedian",
    "sum_to_size",
    "unique_consecutive",
]


class MinAndMax(NamedTuple):
    """The smallest and the largest entries."""

    min: jax.Array
    max: jax.Array


def axes(dim: Dims) -> int | tuple[int, ...] | None:
    """Return torch's `dim` as the `axis` of jax.numpy.

    Args:
        dim: an int, a sequence of ints, or None. An empty tuple means all dimensions, as None does.

    Returns:
        An int, a non-empty tuple, or None.

    Example:
        >>> axes([0, 1]), axes(-1), axes(())
        ((0, 1), -1, None)
    """
    return (tuple(dim) or None) if isinstance(dim, Sequence) else dim


def aminmax(input: jax.Array, *, dim: int | None = None, keepdim: bool = False) -> MinAndMax:
    """Return the smallest and the largest entries. Equal entries share the gradient.

    Args:
        input: array of any shape, not complex.
        dim: dimension to reduce. None means all.
        keepdim: whether the dimensions stay with size 1.

    Returns:
        `(min, max)`. If an entry is NaN, both results are NaN.

    Raises:
        ValueError: if the input has no such dimension, or there is nothing to reduce.

    Example:
        >>> aminmax(jnp.array([3, 1, 2]))
        MinAndMax(min=Array(1, dtype=int32), max=Array(3, dtype=int32))

    Reference: torch.aminmax.
    """
    over = axes_of("tl.aminmax", dim, input.ndim)
    if 0 in (input.shape[axis] for axis in over):
        raise ValueError(f"tl.aminmax: there is nothing to reduce; expected at least one entry, got {input.shape}.")
    least, largest = input.min(over, keepdims=keepdim), input.max(over, keepdims=keepdim)
    if jnp.issubdtype(input.dtype, jnp.floating):  # on CPU, XLA's float32 extremes lose NaN
        is_nan = jnp.isnan(input).any(over, keepdims=keepdim)
        least, largest = jnp.where(is_nan, jnp.nan, least), jnp.where(is_nan, jnp.nan, largest)
    return MinAndMax(least, largest)


def nanmedian(input: jax.Array, dim: int | None = None, keepdim: bool = False) -> Any:
    """Return the median of the entries that are not NaN.

    If the number of these entries is even, the median is the lower of the two middle ones.

    Args:
        input: array of any shape, not complex.
        dim: dimension to reduce. None means all.
        keepdim: whether `dim` stays with size 1.

    Returns:
        An array of shape () without `dim`, or `(values, indices)`. If all entries are NaN, the median is NaN.

    Raises:
        ValueError: if the input has no such dimension.

    Differs from torch:
        Torch does not specify to which of several equal entries the index refers. `jnp.nanmedian` is the mean of the
        two entries in the middle.

    Example:
        >>> nanmedian(jnp.array([4.0, jnp.nan, 1.0])).item()
        1.0

    Reference: torch.nanmedian.
    """
    if dim is None:
        return of_all(nanmedian, input)
    axis, full = axis_of("tl.nanmedian", dim, input.ndim), line(input)
    order = jnp.argsort(full, axis)  # NaN comes last
    middle = (jnp.sum(~jnp.isnan(full), axis, keepdims=True) - 1) // 2
    return chosen(input, jnp.take_along_axis(order, jnp.maximum(middle, 0), axis), axis, keepdim)


def logcumsumexp(input: jax.Array, dim: int) -> jax.Array:
    """Compute the logarithms of running sums of exponentials, `log Σ_{j ≤ i} exp(x_j)`.

    Args:
        input: floating-point array of any shape.
        dim: dimension along which the sum runs.

    Returns:
        An array with the shape and the dtype of the input.

    Raises:
        ValueError: if the input has no such dimension.

    Example:
        >>> logcumsumexp(jnp.zeros(2), -1).tolist()
        [0.0, 0.6931471824645996]

    Reference: torch.logcumsumexp.
    """
    axis = axis_of("tl.logcumsumexp", dim, input.ndim)
    return jax.lax.cumlogsumexp(line(input), axis).reshape(input.shape)


def cumulative_trapezoid(y: jax.Array, x: jax.Array | None = None, *, dx: float = 1, dim: int = -1) -> jax.Array:
    """Compute the integrals from the first entry to each later entry with the trapezoidal rule.

    Args:
        y: values, an array of at least one dimension.
        x: positions of the values, of shape (N,) or of a shape that broadcasts with the shape of y. None means steps of
            size `dx`.
        dx: distance between neighbouring values if x is None.
        dim: dimension of size N to integrate over.

    Returns:
        An array in which `dim` has size N - 1.

    Raises:
        ValueError: if y has no such dimension.

    Example:
        >>> cumulative_trapezoid(jnp.array([1.0, 1.0, 3.0])).tolist()
        [1.0, 3.0]

    Reference: torch.cumulative_trapezoid.
    """
    axis = axis_of("tl.cumulative_trapezoid", dim, y.ndim)
    steps: Any = dx
    if x is not None and x.ndim == 1:
        steps = jnp.diff(x).reshape(-1, *(1,) * (y.ndim - axis - 1))
    elif x is not None:
        steps = jnp.diff(x, axis=axis - y.ndim)
    length = y.shape[axis]
    before, after = (jax.lax.slice_in_dim(y, k, max(length - 1, 0) + k, axis=axis) for k in (0, min(length, 1)))
    return jnp.cumsum((before + after) / 2 * steps, axis=axis - y.ndim)


def gradient(
    input: jax.Array, *, spacing: ArrayLike | Sequence[ArrayLike] = 1, dim: Dims = None, edge_order: int = 1
) -> tuple[jax.Array, ...]:
    """Estimate derivatives by central differences of second order.

    Args:
        input: array of any shape.
        spacing: distance between neighbouring entries, or a sequence with one distance or one array of positions for
            each dimension.
        dim: dimensions to differentiate. None means all.
        edge_order: 1 or 2, the order of the differences at both ends.

    Returns:
        A tuple with one array of derivatives for each dimension, each of the shape of the input.

    Raises:
        ValueError: if `spacing` does not have an entry for each dimension, or a dimension has too few entries.

    Example:
        >>> gradient(jnp.array([1.0, 4.0, 9.0]))[0].tolist()
        [3.0, 4.0, 5.0]

    Reference: torch.gradient.
    """
    where = "tl.gradient"
    over = axes_of(where, dim, input.ndim)
    steps = list(spacing) if isinstance(spacing, Sequence) else [1 if spacing is None else spacing] * len(over)
    if len(steps) != len(over) or edge_order not in (1, 2):
        raise ValueError(
            f"{where}: the arguments do not fit; expected {len(over)} entries of spacing and edge_order 1 or 2, got "
            f"{len(steps)} and {edge_order}."
        )
    return tuple(_slope(where, input, axis, step, edge_order) for axis, step in zip(over, steps, strict=True))


def _slope(where: str, input: jax.Array, axis: int, step: ArrayLike, edge_order: int) -> jax.Array:
    rows = jnp.moveaxis(input, axis, -1)
    length = rows.shape[-1]
    if length <= edge_order:
        raise ValueError(f"{where}: dimension {axis} is too small; expected more than {edge_order}, got {length}.")
    gaps = jnp.diff(step) if jnp.ndim(step) else jnp.full(length - 1, step, jnp.result_type(rows, float))
    left, right = gaps[:-1], gaps[1:]
    first, middle, last = rows[..., :-2], rows[..., 1:-1], rows[..., 2:]
    inner = (
        last * left / (right * (left + right))
        + middle * (right - left) / (left * right)
        - first * right / (left * (left + right))
    )
    start, end = (rows[..., 1] - rows[..., 0]) / gaps[0], (rows[..., -1] - rows[..., -2]) / gaps[-1]
    if edge_order == 2:  # the slope of the parabola through the first, or the last, three entries
        start = _parabola(rows[..., :3], left[0], right[0], 0)
        end = _parabola(rows[..., -3:], left[-1], right[-1], 2)
    slopes = jnp.concatenate([start[..., None], inner, end[..., None]], -1)
    return jnp.moveaxis(slopes, -1, axis)


def _parabola(three: jax.Array, left: jax.Array, right: jax.Array, place: int) -> jax.Array:
    """Return the slope of the parabola through three entries, taken at the first or the last of these entries."""
    one, two = (three[..., 1] - three[..., 0]) / left, (three[..., 2] - three[..., 1]) / right
    bend = (two - one) / (left + right)
    return one - bend * left if place == 0 else two + bend * right


def sum_to_size(input: jax.Array, *sizes: int | Sequence[int]) -> jax.Array:
    """Sum over dimensions until the array has the given sizes. `sum_to_size` is the opposite of `expand`.

    Args:
        input: array of any shape.
        sizes: new sizes, as numbers or as one tuple. The sizes must broadcast to the shape of the input.

    Returns:
        An array of these sizes with the dtype of the input.

    Raises:
        ValueError: if the sizes do not broadcast to the shape of the input.

    Example:
        >>> sum_to_size(jnp.ones((3, 2)), 1, 2).tolist()
        [[3.0, 3.0]]

    Reference: torch.Tensor.sum_to_size.
    """
    wanted = sizes_of("tl.sum_to_size", sizes)
    new = input.ndim - len(wanted)
    if new < 0 or any(size not in (1, own) for size, own in zip(wanted, input.shape[new:], strict=True)):
        raise ValueError(f"tl.sum_to_size: the sizes do not fit; expected sizes for {input.shape}, got {wanted}.")
    over = [*range(new), *(new + d for d, size in enumerate(wanted) if size == 1 != input.shape[new + d])]
    return input.sum(tuple(over), keepdims=True).reshape(wanted)


def unique_consecutive(
    input: jax.Array, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """Return the first entry of each sequence of equal neighbouring entries.

    Args:
        input: array of any shape.
        return_inverse: whether to return, for each entry, its position in the result.
        return_counts: whether to return the lengths of these sequences.
        dim: dimension whose slices are compared. With None, the entries are compared in row-major order.

    Returns:
        An array, or a tuple of this array and the requested positions and lengths.

    Raises:
        ValueError: if the input has no such dimension.

    Differs from torch:
        This function does not work under `jit`, because the shape of the result depends on the data.

    Example:
        >>> [part.tolist() for part in unique_consecutive(jnp.array([1, 1, 2, 1]), return_counts=True)]
        [[1, 2, 1], [2, 1, 1]]

    Reference: torch.unique_consecutive.
    """
    axis = 0 if dim is None else axis_of("tl.unique_consecutive", dim, input.ndim)
    full = input.reshape(-1) if dim is None else line(input)
    length = full.shape[axis]
    rows = jnp.moveaxis(full, axis, 0)
    rows = rows.reshape(length, math.prod(rows.shape[1:]))
    new = np.ones(length, bool)
    new[1:] = np.asarray((rows[1:] != rows[:-1]).any(1))
    starts = np.flatnonzero(new)
    found: list[Any] = [jnp.take(full, starts, axis=axis)]
    if return_inverse:
        inverse = jnp.asarray(np.cumsum(new) - 1)
        found.append(inverse.reshape(input.shape) if dim is None else inverse)
    if return_counts:
        bounds = [*starts.tolist(), length]
        found.append(jnp.asarray([b - a for a, b in itertools.pairwise(bounds)], int))
    return found[0] if len(found) == 1 else tuple(found)
