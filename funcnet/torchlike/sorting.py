"""Sorting with indices, the largest entries, running maxima and minima, and positions in a sorted sequence.

The gradient of an entry goes to its original position. NaN counts as the largest number. Indices are int64 if x64 is
enabled in JAX, and int32 otherwise.
"""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np

from funcnet.functional import checks
from funcnet.torchlike.arguments import axis_of, common_dtype, index_dtype, line
from funcnet.torchlike.reduction import ValuesAndIndices, chosen

__all__ = ["cummax", "cummin", "kthvalue", "searchsorted", "sort", "topk"]


def sort(input: jax.Array, dim: int = -1, descending: bool = False, stable: bool = False) -> ValuesAndIndices:
    """Sort the entries along a dimension.

    Args:
        input: array of any shape, not complex.
        dim: dimension to sort.
        descending: whether the largest entry comes first.
        stable: ignored. Equal entries always keep their order.

    Returns:
        `(values, indices)`, both with the shape of the input.

    Raises:
        ValueError: if the input has no such dimension.

    Differs from torch:
        The sort is always stable. `jnp.sort(input, dim)` is the first part of the result, and `jnp.argsort(input, dim,
        descending=descending)` is the second.

    Example:
        >>> sort(jnp.array([3, 1, 3, 2]), descending=True)
        ValuesAndIndices(values=Array([3, 3, 2, 1], dtype=int32), indices=Array([0, 2, 3, 1], dtype=int32))

    Reference: torch.sort.
    """
    axis, full = axis_of("tl.sort", dim, input.ndim), line(input)
    return _taken(input, jnp.argsort(full, axis, descending=descending), axis)


def topk(input: jax.Array, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> ValuesAndIndices:
    """Return the k largest entries along a dimension, largest first.

    Args:
        input: array of any shape, not complex.
        k: number of entries.
        dim: dimension to reduce.
        largest: if False, the smallest entries are returned, the smallest first.
        sorted: ignored. The entries are always sorted.

    Returns:
        `(values, indices)`, in which `dim` has size k. Among equal entries, the first ones are chosen.

    Raises:
        ValueError: if the dimension has fewer than k entries.

    Differs from torch:
        Torch does not specify which of several equal entries are chosen. `jax.lax.top_k` works on the last dimension.

    Example:
        >>> topk(jnp.array([3.0, 1.0, 3.0, 2.0]), 2)
        ValuesAndIndices(values=Array([3., 3.], dtype=float32), indices=Array([0, 2], dtype=int32))

    Reference: torch.topk.
    """
    axis, full = axis_of("tl.topk", dim, input.ndim), line(input)
    k = checks.as_int("tl.topk", "k", k)
    if not 0 <= k <= full.shape[axis]:
        raise ValueError(f"tl.topk: k is out of range; expected 0 to {full.shape[axis]}, got {k}.")
    if largest and input.dtype != bool:
        places = jnp.moveaxis(jax.lax.top_k(jnp.moveaxis(jax.lax.stop_gradient(full), axis, -1), k)[1], -1, axis)
    else:
        places = jax.lax.slice_in_dim(jnp.argsort(full, axis, descending=largest), 0, k, axis=axis)
    if input.ndim == 0 and k == 0:
        return ValuesAndIndices(full[:0], places.astype(index_dtype()))
    return _taken(input, places, axis)


def kthvalue(input: jax.Array, k: int, dim: int = -1, keepdim: bool = False) -> ValuesAndIndices:
    """Return the k-th smallest entries along a dimension.

    Args:
        input: array of any shape, not complex.
        k: rank of the entry in rising order, counted from 1.
        dim: dimension to reduce.
        keepdim: whether `dim` stays with size 1.

    Returns:
        `(values, indices)`.

    Raises:
        ValueError: if the dimension has fewer than k entries, or k is less than 1.

    Differs from torch:
        Torch does not specify to which of several equal entries the index refers.

    Example:
        >>> kthvalue(jnp.array([3.0, 1.0, 2.0]), 2).indices.item()
        2

    Reference: torch.kthvalue.
    """
    axis, full = axis_of("tl.kthvalue", dim, input.ndim), line(input)
    if not 1 <= k <= full.shape[axis]:
        raise ValueError(f"tl.kthvalue: k is out of range; expected 1 to {full.shape[axis]}, got {k}.")
    return chosen(input, jax.lax.slice_in_dim(jnp.argsort(full, axis), k - 1, k, axis=axis), axis, keepdim)


def cummax(input: jax.Array, dim: int) -> ValuesAndIndices:
    """Return the largest entry so far at each position along a dimension.

    Args:
        input: array of any shape, not complex.
        dim: dimension along which the entries are compared.

    Returns:
        `(values, indices)`, both with the shape of the input. Among equal entries, the index refers to the last one.
        After a NaN, all values are NaN.

    Raises:
        ValueError: if the input has no such dimension.

    Example:
        >>> cummax(jnp.array([1, 3, 3, 2]), 0)
        ValuesAndIndices(values=Array([1, 3, 3, 3], dtype=int32), indices=Array([0, 1, 2, 2], dtype=int32))

    Reference: torch.cummax.
    """
    return _running("tl.cummax", jax.lax.cummax, input, dim)


def cummin(input: jax.Array, dim: int) -> ValuesAndIndices:
    """Return the smallest entry so far at each position along a dimension.

    Args:
        input: array of any shape, not complex.
        dim: dimension along which the entries are compared.

    Returns:
        `(values, indices)`, both with the shape of the input. Among equal entries, the index refers to the last one.
        After a NaN, all values are NaN.

    Raises:
        ValueError: if the input has no such dimension.

    Example:
        >>> cummin(jnp.array([2, 3, 1]), 0).values.tolist()
        [2, 2, 1]

    Reference: torch.cummin.
    """
    return _running("tl.cummin", jax.lax.cummin, input, dim)


def _running(where: str, extreme: object, input: jax.Array, dim: int) -> ValuesAndIndices:
    axis, full = axis_of(where, dim, input.ndim), line(jax.lax.stop_gradient(input))
    full = full.astype(np.int8) if full.dtype == bool else full
    best = extreme(full, axis)  # type: ignore[operator]
    count = jax.lax.broadcasted_iota(index_dtype(), full.shape, axis)
    places = jax.lax.cummax(jnp.where((full == best) | jnp.isnan(full), count, 0), axis)
    return _taken(input, places, axis)


def _taken(input: jax.Array, places: jax.Array, axis: int) -> ValuesAndIndices:
    values = jnp.take_along_axis(line(input), places, axis)
    both = (values, places.astype(index_dtype()))
    return ValuesAndIndices(*(part.reshape(()) for part in both) if input.ndim == 0 else both)


def searchsorted(
    sorted_sequence: jax.Array,
    input: jax.Array,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: jax.Array | None = None,
) -> jax.Array:
    """Find the positions at which numbers would be inserted into sorted sequences.

    Args:
        sorted_sequence: array of shape (N,) or (…, N), sorted in its last dimension.
        input: numbers to insert. For one sequence, an array of any shape or a number. For several sequences, an array
            of shape (…, M).
        out_int32: whether the result is int32.
        right: whether a number that equals an entry is inserted after that entry.
        side: "right" means the same as `right=True`, and "left" the same as `right=False`.
        sorter: indices that sort `sorted_sequence`, an integer array of the same shape. `sorter` is required if the
            sequence is not sorted.

    Returns:
        An integer array with the shape of `input`, with entries from 0 to N.

    Raises:
        ValueError: if the shapes do not fit, or `side` and `right` disagree.

    Differs from jax.numpy:
        `jnp.searchsorted` supports only a single sequence.

    Example:
        >>> searchsorted(jnp.array([[1, 3, 5], [2, 4, 6]]), jnp.array([[3], [3]])).tolist()
        [[1], [1]]

    Reference: torch.searchsorted.
    """
    where = "tl.searchsorted"
    if side not in (None, "left", "right") or (side == "left" and right):
        raise ValueError(
            f"{where}: side does not fit; expected None, 'left' or 'right' as right={right}, got {side!r}."
        )
    if sorter is not None and sorter.shape != sorted_sequence.shape:
        raise ValueError(f"{where}: sorter has the wrong shape; expected {sorted_sequence.shape}, got {sorter.shape}.")
    values = jnp.asarray(input)
    dtype = common_dtype(sorted_sequence, input)
    rows, values = sorted_sequence.astype(dtype), values.astype(dtype)
    if sorter is not None:
        rows = jnp.take_along_axis(rows, sorter, -1)
    find = functools.partial(jnp.searchsorted, side="right" if right or side == "right" else "left")
    if rows.ndim == 1:
        found = find(rows, values)
    elif rows.shape[:-1] == values.shape[:-1]:
        count = math.prod(rows.shape[:-1])
        flat = rows.reshape(count, rows.shape[-1]), values.reshape(count, values.shape[-1])
        found = jax.vmap(find)(*flat).reshape(values.shape)
    else:
        raise ValueError(f"{where}: the shapes do not fit; expected {rows.shape[:-1]} in front, got {values.shape}.")
    return found.astype(np.int32 if out_int32 else index_dtype())
