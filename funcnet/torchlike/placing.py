"""Write slices, diagonals and entries into a copy of an array, and select entries with an index or a mask."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from funcnet.torchlike.arguments import axis_of, line
from funcnet.torchlike.items import set_item
from funcnet.torchlike.scattering import scatter_reduce
from funcnet.torchlike.shaping import strided_places

__all__ = [
    "as_strided_scatter",
    "diagonal_scatter",
    "index_put",
    "index_reduce",
    "index_select",
    "masked_select",
    "put",
    "select_scatter",
    "slice_scatter",
]

_REDUCTIONS = ("prod", "mean", "amax", "amin")


def select_scatter(input: jax.Array, src: jax.Array, dim: int, index: int) -> jax.Array:
    """Return a copy of the input in which `src` replaces the slice at one index of a dimension.

    Args:
        input: array of at least one dimension.
        src: array with the shape of the input without `dim`.
        dim: dimension that the index refers to.
        index: position of the slice in this dimension. A negative index counts from the end.

    Returns:
        An array with the shape and the dtype of the input.

    Raises:
        ValueError: if the input has no such dimension, or `src` has the wrong shape.

    Example:
        >>> select_scatter(jnp.zeros((2, 2)), jnp.ones(2), 1, 0).tolist()
        [[1.0, 0.0], [1.0, 0.0]]

    Reference: torch.select_scatter.
    """
    where, axis = "tl.select_scatter", axis_of("tl.select_scatter", dim, input.ndim)
    _same(where, src, (*input.shape[:axis], *input.shape[axis + 1 :]))
    return input.at[(slice(None),) * axis + (index,)].set(src.astype(input.dtype))


def slice_scatter(
    input: jax.Array, src: jax.Array, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> jax.Array:
    """Return a copy of the input in which `src` replaces the slice `start:end:step` of a dimension.

    Args:
        input: array of at least one dimension.
        src: array with the shape of the slice.
        dim: dimension of the slice.
        start, end, step: as in a slice. Without `start`, the slice begins at the first entry; without `end`, it ends
            after the last one.

    Returns:
        An array with the shape and the dtype of the input.

    Raises:
        ValueError: if the input has no such dimension, or `src` has the wrong shape.

    Example:
        >>> slice_scatter(jnp.zeros(4), jnp.ones(2), 0, 1, 3).tolist()
        [0.0, 1.0, 1.0, 0.0]

    Reference: torch.slice_scatter.
    """
    where, axis = "tl.slice_scatter", axis_of("tl.slice_scatter", dim, input.ndim)
    part = slice(start, end, step)
    length = len(range(*part.indices(input.shape[axis])))
    _same(where, src, (*input.shape[:axis], length, *input.shape[axis + 1 :]))
    return input.at[(slice(None),) * axis + (part,)].set(src.astype(input.dtype))


def diagonal_scatter(input: jax.Array, src: jax.Array, offset: int = 0, dim1: int = 0, dim2: int = 1) -> jax.Array:
    """Return a copy of the input in which `src` replaces a diagonal.

    Args:
        input: array of at least two dimensions.
        src: array with the shape of `jnp.diagonal(input, offset, dim1, dim2)`.
        offset: number of the diagonal: 0 for the main diagonal, 1 for the one above it, -1 for the one below it.
        dim1: dimension that counts rows.
        dim2: dimension that counts columns.

    Returns:
        An array with the shape and the dtype of the input.

    Raises:
        ValueError: if the input has no such dimension, or `src` has the wrong shape.

    Example:
        >>> diagonal_scatter(jnp.zeros((2, 2)), jnp.array([1.0, 2.0])).tolist()
        [[1.0, 0.0], [0.0, 2.0]]

    Reference: torch.diagonal_scatter.
    """
    where = "tl.diagonal_scatter"
    axes = axis_of(where, dim1, input.ndim, "dim1"), axis_of(where, dim2, input.ndim, "dim2")
    last = jnp.moveaxis(input, axes, (-2, -1))
    count = max(0, min(last.shape[-2] + min(offset, 0), last.shape[-1] - max(offset, 0)))
    _same(where, src, (*last.shape[:-2], count))
    rows = np.arange(count) + max(-offset, 0)
    return jnp.moveaxis(last.at[..., rows, rows + offset].set(src.astype(input.dtype)), (-2, -1), axes)


def as_strided_scatter(
    input: jax.Array, src: jax.Array, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> jax.Array:
    """Return a copy of the input in which `src` replaces `as_strided(input, size, stride, storage_offset)`.

    Args:
        input: array of any shape.
        src: array of shape `size`.
        size, stride, storage_offset: as in `as_strided`.

    Returns:
        An array with the shape and the dtype of the input.

    Raises:
        ValueError: if an entry is outside the input, or `src` has the wrong shape.

    Differs from torch:
        The strides refer to an array in row-major order.

    Example:
        >>> as_strided_scatter(jnp.zeros(4), jnp.ones(2), (2,), (2,)).tolist()
        [1.0, 0.0, 1.0, 0.0]

    Reference: torch.as_strided_scatter.
    """
    where = "tl.as_strided_scatter"
    _same(where, src, tuple(size))
    places = strided_places(where, input.size, size, stride, storage_offset or 0)
    return input.reshape(-1).at[places].set(src.astype(input.dtype)).reshape(input.shape)


def index_put(input: jax.Array, indices: Sequence[jax.Array], values: jax.Array, accumulate: bool = False) -> jax.Array:
    """Set the entries at the given indices, or add to them.

    Args:
        input: array of any shape.
        indices: an integer array or a mask for each of the first dimensions.
        values: array that broadcasts to the shape of `input[indices]`.
        accumulate: whether the values are added to the entries instead of replacing them. If an index occurs twice,
            both values are added.

    Returns:
        An array with the shape and the dtype of the input.

    Raises:
        ValueError: if there are more indices than dimensions, or the values do not broadcast.

    Differs from torch:
        An index that is out of range raises no error and sets nothing. Under `jit`, adding values with a mask requires
        that the mask is known when the function is traced.

    Example:
        >>> index_put(jnp.zeros(3), (jnp.array([0, 0, 2]),), jnp.ones(()), accumulate=True).tolist()
        [2.0, 0.0, 1.0]

    Reference: torch.Tensor.index_put.
    """
    index = tuple(indices)
    used = sum(one.ndim if one.dtype == bool else 1 for one in map(jnp.asarray, index))
    if used > input.ndim:
        raise ValueError(
            f"tl.index_put: there are too many indices; expected at most one for each of the {input.ndim} dimensions, "
            f"got indices for {used}."
        )
    return input.at[index].add(values.astype(input.dtype)) if accumulate else set_item(input, index, values)


def index_reduce(
    input: jax.Array, dim: int, index: jax.Array, source: jax.Array, reduce: str, *, include_self: bool = True
) -> jax.Array:
    """Combine all slices of `source` that have the same index into one slice, the slice of the output at that index.

    Args:
        input: array of any shape.
        dim: dimension that the index refers to.
        index: integer array of shape (N,) or ().
        source: array with the shape of the input, but size N in `dim`.
        reduce: "prod", "mean", "amax" or "amin".
        include_self: whether the entry of the input takes part in the reduction. If False, an entry of the input stays
            only if no index refers to it.

    Returns:
        An array with the shape and the dtype of the input.

    Raises:
        ValueError: if the shapes do not fit, or `reduce` is unknown.

    Example:
        >>> index_reduce(jnp.ones(2), 0, jnp.array([1, 1]), jnp.array([3.0, 5.0]), "prod").tolist()
        [1.0, 15.0]

    Reference: torch.Tensor.index_reduce_.
    """
    where = "tl.index_reduce"
    axis = axis_of(where, dim, input.ndim)
    if reduce not in _REDUCTIONS:
        raise ValueError(f"{where}: reduce is unknown; expected one of {_REDUCTIONS}, got {reduce!r}.")
    if index.ndim > 1:
        raise ValueError(f"{where}: index has too many dimensions; expected shape (N,) or (), got {index.shape}.")
    full, source = line(input), line(source)
    wanted = (*full.shape[:axis], index.size, *full.shape[axis + 1 :])
    if source.shape != wanted:
        raise ValueError(f"{where}: source has the wrong shape; expected {wanted}, got {source.shape}.")
    spread = index.reshape(*(1,) * axis, -1, *(1,) * (full.ndim - axis - 1))
    places = jnp.broadcast_to(spread, source.shape)
    return scatter_reduce(full, axis, places, source, reduce, include_self=include_self).reshape(input.shape)


def index_select(input: jax.Array, dim: int, index: jax.Array) -> jax.Array:
    """Return the slices along a dimension at the given indices.

    Args:
        input: array of any shape.
        dim: dimension that the index refers to.
        index: integer array of shape (N,) or ().

    Returns:
        An array with the shape of the input, but size N in `dim`.

    Raises:
        ValueError: if the input has no such dimension.

    Differs from torch:
        A negative index counts from the end. An index that is out of range gives NaN (the smallest number for signed
        integers). For an index of shape (N,), `jnp.take(input, index, dim)` gives the same result.

    Example:
        >>> index_select(jnp.array([[1, 2], [3, 4]]), 1, jnp.array([1])).tolist()
        [[2], [4]]

    Reference: torch.index_select.
    """
    axis = axis_of("tl.index_select", dim, input.ndim)
    found = jnp.take(line(input), index.reshape(-1), axis=axis)
    return found.reshape(()) if input.ndim == 0 else found


def masked_select(input: jax.Array, mask: jax.Array) -> jax.Array:
    """Return the entries of the input where the mask is True, in row-major order.

    Args:
        input: array of any shape.
        mask: boolean array. Input and mask are broadcast to each other.

    Returns:
        An array of shape (number of True entries,).

    Raises:
        ValueError: if the shapes do not broadcast.

    Differs from torch:
        This function does not work under `jit`, because the shape of the result depends on the data. For a mask with
        the shape of the input, `input[mask]` does the same.

    Example:
        >>> masked_select(jnp.array([[1, 2], [3, 4]]), jnp.array([True, False])).tolist()
        [1, 3]

    Reference: torch.masked_select.
    """
    shape = jnp.broadcast_shapes(input.shape, mask.shape)
    return jnp.broadcast_to(input, shape)[jnp.broadcast_to(mask, shape)].reshape(-1)


def put(input: jax.Array, index: jax.Array, source: jax.Array, accumulate: bool = False) -> jax.Array:
    """Set the entries at the given indices, or add to them. An index is the number of an entry in row-major order.

    Args:
        input: array of any shape.
        index: integer array of any shape.
        source: array with as many entries as the index.
        accumulate: whether the entries of the source are added to those of the input instead of replacing them. If an
            index occurs twice, both source entries are added.

    Returns:
        An array with the shape and the dtype of the input.

    Raises:
        ValueError: if index and source have different numbers of entries.

    Differs from torch:
        An index that is out of range raises no error and sets nothing.

    Example:
        >>> put(jnp.zeros((2, 2)), jnp.array([1, 2]), jnp.array([5.0, 7.0])).tolist()
        [[0.0, 5.0], [7.0, 0.0]]

    Reference: torch.Tensor.put_.
    """
    if index.size != source.size:
        raise ValueError(f"tl.put: source does not fit the index; expected {index.size} entries, got {source.size}.")
    target = input.reshape(-1).at[index.reshape(-1)]
    values: Any = source.reshape(-1).astype(input.dtype)
    return (target.add(values) if accumulate else target.set(values)).reshape(input.shape)


def _same(where: str, src: jax.Array, shape: tuple[int, ...]) -> None:
    if src.shape != shape:
        raise ValueError(f"{where}: src has the wrong shape; expected {shape}, got {src.shape}.")
