"""Parts of arrays along one dimension."""

import itertools
from collections.abc import Sequence

import jax
import numpy as np

from funcnet.functional import checks
from funcnet.torchlike.arguments import axis_of

__all__ = ["chunk", "split", "tensor_split"]


def split(input: jax.Array, split_size_or_sections: int | Sequence[int], dim: int = 0) -> tuple[jax.Array, ...]:
    """Divide an array into parts of a given size, or of given sizes.

    Args:
        input: array of at least one dimension.
        split_size_or_sections: an int is the size of each part, and the last part is smaller if this size does not
            divide the dimension. A sequence contains the sizes of all parts, whose sum is the size of the dimension.
        dim: dimension to divide.

    Returns:
        A tuple of arrays with the dtype of the input.

    Raises:
        ValueError: if the sizes do not add up to the dimension, or one is negative.

    Differs from torch:
        The parts are copies. `jnp.split` takes the number of parts or the split positions instead of sizes.

    Example:
        >>> [part.tolist() for part in split(jax.numpy.arange(5), 2)]
        [[0, 1], [2, 3], [4]]
        >>> [part.tolist() for part in split(jax.numpy.arange(5), [1, 4])]
        [[0], [1, 2, 3, 4]]

    Reference: torch.split.
    """
    where = "tl.split"
    if input.ndim == 0:
        raise ValueError(f"{where}: a scalar has no parts; expected at least one dimension, got shape ().")
    axis = axis_of(where, dim, input.ndim)
    length = input.shape[axis]
    if isinstance(split_size_or_sections, Sequence):
        sizes = [checks.as_int(where, "size", size) for size in split_size_or_sections]
        if sum(sizes) != length or any(size < 0 for size in sizes):
            raise ValueError(
                f"{where}: the sizes do not fit dimension {axis}; expected a sum of {length}, got {sizes}."
            )
        return _cut(input, list(np.cumsum(sizes)[:-1]), axis) if sizes else ()
    size = checks.as_int(where, "split_size", split_size_or_sections)
    if size < 0 or (size == 0 and length > 0):
        raise ValueError(f"{where}: split_size is too small; expected at least 1, got {size}.")
    return _cut(input, list(range(size, length, size)) if size else [], axis)


def chunk(input: jax.Array, chunks: int, dim: int = 0) -> tuple[jax.Array, ...]:
    """Divide an array into at most `chunks` parts of equal size. The last part is smaller if the size does not divide
    the dimension.

    Args:
        input: array of at least one dimension.
        chunks: number of parts, at least 1. The result has fewer parts if fewer parts of size ⌈length / chunks⌉ cover
            the dimension.
        dim: dimension to divide.

    Returns:
        A tuple of arrays with the dtype of the input.

    Raises:
        ValueError: if `chunks` is less than 1.

    Differs from torch:
        The parts are copies. `jnp.array_split` always returns `chunks` parts. For example, it splits 5 entries into 4
        parts of sizes 2, 1, 1 and 1, and torch splits them into sizes 2, 2 and 1.

    Example:
        >>> [part.tolist() for part in chunk(jax.numpy.arange(5), 4)]
        [[0, 1], [2, 3], [4]]

    Reference: torch.chunk.
    """
    where = "tl.chunk"
    if input.ndim == 0:
        raise ValueError(f"{where}: a scalar has no parts; expected at least one dimension, got shape ().")
    if checks.as_int(where, "chunks", chunks) < 1:
        raise ValueError(f"{where}: chunks is too small; expected at least 1, got {chunks}.")
    length = input.shape[axis_of(where, dim, input.ndim)]
    if length == 0:
        return (input,) * chunks
    return split(input, -(-length // chunks), dim)


def tensor_split(input: jax.Array, indices_or_sections: int | Sequence[int], dim: int = 0) -> tuple[jax.Array, ...]:
    """Split an array into a number of parts, or at the given positions.

    Args:
        input: array of at least one dimension.
        indices_or_sections: an int is the number of parts, whose sizes differ by at most 1. A sequence contains the
            split positions. A negative position counts from the end.
        dim: dimension to divide.

    Returns:
        A tuple of arrays with the dtype of the input.

    Raises:
        ValueError: if the number of parts is less than 1.

    Differs from torch:
        The parts are copies. The result is a tuple, whereas `jnp.array_split` returns a list.

    Example:
        >>> [part.tolist() for part in tensor_split(jax.numpy.arange(5), 3)]
        [[0, 1], [2, 3], [4]]

    Reference: torch.tensor_split.
    """
    where = "tl.tensor_split"
    if input.ndim == 0:
        raise ValueError(f"{where}: a scalar has no parts; expected at least one dimension, got shape ().")
    places = np.asarray(indices_or_sections)
    if places.ndim == 0 and places < 1:
        raise ValueError(f"{where}: the number of parts is too small; expected at least 1, got {places}.")
    axis = axis_of(where, dim, input.ndim)
    length = input.shape[axis]
    if places.ndim == 0:
        size, larger = divmod(length, int(places))
        return _cut(input, [i * size + min(i, larger) for i in range(1, int(places))], axis)
    return _cut(input, [int(place) for place in places], axis)


def _cut(input: jax.Array, places: Sequence[int], axis: int) -> tuple[jax.Array, ...]:
    """Return the parts of an array between split positions, which have the same meaning as in Python's slices."""
    bounds = [0, *places, length := input.shape[axis]]
    slices = [slice(start, stop).indices(length)[:2] for start, stop in itertools.pairwise(bounds)]
    return tuple(jax.lax.slice_in_dim(input, start, max(start, stop), axis=axis) for start, stop in slices)
