"""Maximum, minimum, median and mode, with the indices of the entries.

If a `dim` is given, a function returns a named tuple `(values, indices)`. The gradient of each value goes to the entry
at the index of this value. Without `dim`, equal entries share the gradient. Indices are int64 if x64 is enabled in JAX,
else int32.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from funcnet.torchlike.arguments import axis_of, common_dtype, index_dtype, line

__all__ = ["ValuesAndIndices", "chosen", "max", "median", "min", "mode", "of_all"]


class ValuesAndIndices(NamedTuple):
    """The result of a function along one dimension: entries, and their indices in that dimension."""

    values: jax.Array
    indices: jax.Array


def max(
    input: jax.Array, dim: int | jax.Array | None = None, keepdim: bool = False, *, other: jax.Array | None = None
) -> Any:
    """Return the largest entry, the largest entries along a dimension, or the larger entries of two arrays.

    Args:
        input: array of any shape, not complex.
        dim: dimension to reduce. None means all. An array passed as `dim` is read as `other`.
        keepdim: whether `dim` is kept with size 1.
        other: array that is compared with the input, entry by entry. The two arrays are broadcast to each other.

    Returns:
        - `max(input)`: an array of shape ().
        - `max(input, dim)`: `(values, indices)`, where the first of several equal entries is chosen.
        - `max(input, other)`: an array of the common dtype. Of two equal entries, each receives half of the gradient.

        NaN counts as the largest number.

    Raises:
        ValueError: if the input has no such dimension, or is empty.

    Differs from torch:
        Torch does not specify which of several equal entries is chosen. `jnp.max` loses NaN in large float32 arrays on
        CPU (seen in JAX 0.10.2).

    Example:
        >>> max(jnp.array([[1, 5], [7, 2]]), 1)
        ValuesAndIndices(values=Array([5, 7], dtype=int32), indices=Array([1, 0], dtype=int32))
        >>> max(jnp.array([1, 5]), jnp.array([3, 3])).tolist()
        [3, 5]

    Reference: torch.max.
    """
    return _extreme("tl.max", (jnp.max, jnp.argmax, jnp.maximum), input, dim, keepdim, other)


def min(
    input: jax.Array, dim: int | jax.Array | None = None, keepdim: bool = False, *, other: jax.Array | None = None
) -> Any:
    """Return the smallest entry, the smallest entries along a dimension, or the smaller entries of two arrays.

    Args:
        input: array of any shape, not complex.
        dim: dimension to reduce. None means all. An array passed as `dim` is read as `other`.
        keepdim: whether `dim` is kept with size 1.
        other: array that is compared with the input, entry by entry. The two arrays are broadcast to each other.

    Returns:
        The result has the same form as the result of `max`. NaN counts as the smallest number.

    Raises:
        ValueError: if the input has no such dimension, or is empty.

    Differs from torch:
        Torch does not specify which of several equal entries is chosen.

    Example:
        >>> min(jnp.array([[1, 5], [7, 2]]), 1).indices.tolist()
        [0, 1]

    Reference: torch.min.
    """
    return _extreme("tl.min", (jnp.min, jnp.argmin, jnp.minimum), input, dim, keepdim, other)


def _extreme(where: str, functions: tuple[Any, Any, Any], input: jax.Array, dim: Any, keepdim: bool, other: Any) -> Any:
    whole, place, pair = functions
    if other is None and getattr(dim, "dtype", None) is not None:
        dim, other = None, dim
    if other is not None:
        dtype = common_dtype(input, other)
        return pair(jnp.asarray(input, dtype), jnp.asarray(other, dtype))
    if dim is None:
        if input.size == 0:
            raise ValueError(f"{where}: input is empty; expected at least one entry, got shape {input.shape}.")
        value = whole(input)
        if jnp.issubdtype(input.dtype, jnp.floating):  # on CPU, XLA's float32 maximum loses NaN
            value = jnp.where(jnp.isnan(input).any(), jnp.nan, value)
        return value
    axis = _nonempty(where, dim, input)
    return chosen(input, place(line(input), axis, keepdims=True), axis, keepdim)


def chosen(input: jax.Array, places: jax.Array, axis: int, keepdim: bool) -> ValuesAndIndices:
    """Return the entries of the input at the indices `places`. The array `places` has size 1 along `axis`.

    >>> chosen(jnp.array([[1, 5], [7, 2]]), jnp.array([[1], [0]]), 1, False).values.tolist()
    [5, 7]
    """
    values = jnp.take_along_axis(line(input), places, axis)
    both: tuple[jax.Array, ...] = (values, places.astype(index_dtype()))
    if input.ndim == 0:
        both = tuple(part.reshape(()) for part in both)
    elif not keepdim:
        both = tuple(part.squeeze(axis) for part in both)
    return ValuesAndIndices(*both)


def _nonempty(where: str, dim: int, input: jax.Array) -> int:
    axis = axis_of(where, dim, input.ndim)
    if line(input).shape[axis] == 0:
        raise ValueError(f"{where}: dimension {axis} is empty; expected at least one entry, got shape {input.shape}.")
    return axis


def median(input: jax.Array, dim: int | None = None, keepdim: bool = False) -> Any:
    """Return the median of all entries, or the medians along a dimension. If the number of entries is even, the
    median is the lower of the two middle entries.

    Args:
        input: array of any shape, not complex.
        dim: dimension to reduce. None means all.
        keepdim: whether `dim` is kept with size 1.

    Returns:
        An array of shape () without `dim`, and `(values, indices)` with `dim`. If an entry is NaN, the median is NaN,
        with the index of the first NaN.

    Raises:
        ValueError: if the input has no such dimension, or the dimension is empty.

    Differs from torch:
        Torch does not specify to which of several equal entries the index refers. `jnp.median` is the mean of the two
        entries in the middle.

    Example:
        >>> median(jnp.array([4, 1, 3, 2])).item()
        2
        >>> median(jnp.array([4.0, 1.0, 3.0, 2.0]), 0).indices.item()
        3

    Reference: torch.median.
    """
    if dim is None:
        return of_all(median, input)
    axis = _nonempty("tl.median", dim, input)
    full = line(input)
    middle = (full.shape[axis] - 1) // 2
    places = jax.lax.slice_in_dim(jnp.argsort(full, axis), middle, middle + 1, axis=axis)
    nan = jnp.isnan(full)
    places = jnp.where(nan.any(axis, keepdims=True), jnp.argmax(nan, axis, keepdims=True).astype(places.dtype), places)
    return chosen(input, places, axis, keepdim)


def of_all(median: Callable[[jax.Array, int], ValuesAndIndices], input: jax.Array) -> jax.Array:
    """Return the median of all entries, or NaN for an empty input.

    All entries that equal the median share its gradient.

    >>> of_all(median, jnp.array([[4, 1], [3, 2]])).item()
    2
    """
    flat = input.reshape(-1)
    if flat.size == 0:
        return jnp.asarray(jnp.nan, input.dtype)
    return _shared(flat, jax.lax.stop_gradient(median(flat, 0).values))


@jax.custom_jvp
def _shared(input: jax.Array, value: jax.Array) -> jax.Array:
    """Return `value`. All entries of the input that equal `value` share its gradient."""
    return value


@_shared.defjvp
def _shared_jvp(primals: tuple[jax.Array, ...], tangents: tuple[jax.Array, ...]) -> tuple[jax.Array, jax.Array]:
    (input, value), (d_input, _) = primals, tangents
    equal = ((input == value) | (jnp.isnan(input) & jnp.isnan(value))).astype(input.dtype)
    return value, (equal * d_input).sum() / equal.sum()


def mode(input: jax.Array, dim: int = -1, keepdim: bool = False) -> ValuesAndIndices:
    """Return the most frequent entries along a dimension. If several entries are equally frequent, the smallest one is
    returned.

    Args:
        input: array of any shape, not complex.
        dim: dimension to reduce.
        keepdim: whether `dim` is kept with size 1.

    Returns:
        `(values, indices)`. The index refers to the last entry that equals the value.

    Raises:
        ValueError: if the input has no such dimension, or the dimension is empty.

    Differs from torch:
        Torch does not specify to which of several equal entries the index refers, or which of several modes is chosen.

    Example:
        >>> mode(jnp.array([2, 3, 2, 3, 1]))
        ValuesAndIndices(values=Array(2, dtype=int32), indices=Array(2, dtype=int32))

    Reference: torch.mode.
    """
    axis = _nonempty("tl.mode", dim, input)
    full = line(input)
    order = jnp.argsort(full, axis)
    ordered = jnp.take_along_axis(full, order, axis)
    count = jax.lax.broadcasted_iota(order.dtype, full.shape, axis)
    rest = (slice(None),) * axis
    new = ordered[(*rest, slice(1, None))] != ordered[(*rest, slice(-1))]
    new = jnp.concatenate([jnp.ones_like(ordered[(*rest, slice(1))], bool), new], axis)
    length = count - jax.lax.cummax(jnp.where(new, count, 0), axis)  # of the run of equal entries before this one
    places = jnp.take_along_axis(order, jnp.argmax(length, axis, keepdims=True), axis)
    return chosen(input, places, axis, keepdim)
