"""`x[index]` and `x[index] = value` with torch's rules.

Torch applies an index in two steps. First, torch applies integers, slices, None and Ellipsis. Then, arrays and masks
select entries of the result. JAX and NumPy have one step, in which an integer next to an array counts as an array. For
example, `x[0, :, [0, 1]]` has shape (N, 2) in torch and (2, N) in NumPy.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from types import EllipsisType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from funcnet.functional import checks

__all__ = ["get_item", "set_item"]

# What selects a part of an array in torch.
Index = int | slice | EllipsisType | jax.Array | np.ndarray | list[Any] | tuple[Any, ...] | None

_ALL = slice(None)


@dataclass(frozen=True)
class _Index:
    """An index divided into the two steps in which torch applies it: `input[basic][advanced]`."""

    basic: tuple[Any, ...]
    advanced: tuple[Any, ...]

    @property
    def arrays(self) -> list[Any]:
        return [item for item in self.advanced if not isinstance(item, slice)]


def get_item(input: jax.Array, index: Index) -> jax.Array:
    """Return `input[index]`, with the meaning that the index has in torch.

    Args:
        input: array of any shape.
        index: an int, a slice, None, Ellipsis, an integer array, a boolean mask, a list of numbers, or a tuple of
            these. Ints and slices may be combined with arrays.

    Returns:
        An array with the dtype of the input.

    Raises:
        ValueError: if there are more indices than dimensions, or an int or a mask does not fit its dimension.
        TypeError: if the index has another type.

    Differs from torch:
        The result is a copy. A number in an index array that is out of range raises no error. Instead, JAX selects the
        nearest entry. Under `jit`, a mask must be known when the function is traced, because the shape of the result
        depends on it. JAX's own `input[index]` gives the same result unless a slice is between the ints and the arrays.

    Example:
        >>> get_item(jnp.ones((2, 3, 4)), (0, slice(None), jnp.array([0, 1]))).shape
        (3, 2)

    Reference: https://docs.pytorch.org/docs/stable/tensor_view.html, and NumPy's page on indexing.
    """
    steps = _parsed("tl.get_item", input, index)
    left = input[steps.basic]
    return left[steps.advanced] if steps.arrays else left


def set_item(input: jax.Array, index: Index, value: ArrayLike) -> jax.Array:
    """Return the array that `input[index] = value` would produce in torch.

    Args:
        input: array of any shape. It does not change.
        index: an int, a slice, None, Ellipsis, an integer array, a boolean mask, a list of numbers, or a tuple of
            these. A mask may be traced if it is the only array in the index.
        value: a number or an array that broadcasts to the shape of `input[index]`. Leading dimensions of size 1 in the
            value are ignored. If the index contains a mask, one dimension of the value counts the entries that the mask
            selects. This dimension has size 1 or the number of True entries. The value is converted to the dtype of the
            input.

    Returns:
        An array with the shape and the dtype of the input. If the index selects an entry twice, it is undefined which
        value is set, as in torch.

    Raises:
        ValueError: if there are more indices than dimensions, an int or a mask does not fit its dimension, or the value
            does not broadcast.
        TypeError: if the index has another type.

    Differs from torch:
        The result is a new array. A number in an index array that is out of range raises no error, and sets nothing.
        Under `jit`, the number of True entries of a mask is not compared with the size of the value.

    Example:
        >>> set_item(jnp.zeros((2, 3)), (slice(None), -1), 7).tolist()
        [[0.0, 0.0, 7.0], [0.0, 0.0, 7.0]]
        >>> x = jnp.array([3, -1, 5, -2])
        >>> set_item(x, x < 0, jnp.array([10, 20])).tolist()
        [3, 10, 5, 20]

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.Tensor.index_put_.html.
    """
    where = "tl.set_item"
    steps = _parsed(where, input, index)
    value = jnp.asarray(value).astype(input.dtype)
    while value.ndim and value.shape[0] == 1:
        value = value.reshape(value.shape[1:])
    if not steps.arrays:
        return input.at[steps.basic].set(value)
    whole = all(isinstance(item, slice) and item == _ALL for item in steps.basic)
    left = input if whole else input[steps.basic]
    if len(steps.arrays) == 1 and steps.arrays[0].dtype == bool:
        changed = _masked(where, left, steps.advanced, value)
    else:
        changed = left.at[steps.advanced].set(value)
    return changed if whole else input.at[steps.basic].set(changed)


def _masked(where: str, input: jax.Array, index: tuple[Any, ...], value: jax.Array) -> jax.Array:
    """Set the entries of the input that a mask selects.

    The mask may be traced, because no shape depends on its values.
    """
    before = next(i for i, item in enumerate(index) if not isinstance(item, slice))
    mask = jnp.asarray(index[before])
    after = input.ndim - before - mask.ndim
    if value.ndim > after:  # one dimension of the value counts the True entries
        axis = value.ndim - after - 1
        count = value.shape[axis]
        if count != 1 and checks.known(mask) and (true := int(np.asarray(mask).sum())) != count:
            raise ValueError(f"{where}: the value does not fit the mask; expected {true} entries, got {count}.")
        if count == 0 or mask.size == 0:
            return input
        places = jnp.clip(jnp.cumsum(mask.reshape(-1)) - 1, 0, count - 1)
        value = jnp.take(value, places, axis=axis, mode="clip")
        value = value.reshape(*value.shape[:axis], *mask.shape, *value.shape[axis + 1 :])
    spread = mask.reshape(*(1,) * before, *mask.shape, *(1,) * after)
    return jnp.where(spread, jnp.broadcast_to(value, input.shape), input)


def _parsed(where: str, input: jax.Array, index: Index) -> _Index:
    items = [_item(where, item) for item in (index if isinstance(index, tuple) else (index,))]
    used = [_dimensions_of(item) for item in items]
    free = input.ndim - sum(used)
    ellipses = sum(item is Ellipsis for item in items)
    if free < 0 or ellipses > 1:
        raise ValueError(
            f"{where}: the index does not fit the input; expected at most {input.ndim} dimensions and one Ellipsis, "
            f"got {sum(used)} dimensions and {ellipses}."
        )
    basic: list[Any] = []
    advanced: list[Any] = []
    dim = 0
    for item, count in zip(items, used, strict=True):
        sizes = input.shape[dim : dim + count]
        if item is Ellipsis:
            count = free
            basic += [_ALL] * free
            advanced += [_ALL] * free
        elif item is None or isinstance(item, slice):
            basic.append(item)
            advanced.append(_ALL)
        elif item.dtype == bool:
            if tuple(item.shape) != sizes and item.ndim:
                raise ValueError(f"{where}: a mask does not fit the input; expected shape {sizes}, got {item.shape}.")
            basic += [_ALL] * count if item.ndim else [None]
            advanced.append(item if item.ndim else item.reshape(1))
        elif item.ndim == 0:
            basic.append(_checked(where, item, sizes[0], dim))
        else:
            basic.append(_ALL)
            advanced.append(item)
        dim += count
    return _Index(tuple(basic), tuple(advanced))


def _item(where: str, item: object) -> Any:
    """Return one item of an index: a slice, None or Ellipsis unchanged, and anything else as an array."""
    if item is None or item is Ellipsis or isinstance(item, slice):
        return item
    if isinstance(item, Sequence) and any(isinstance(part, jax.Array) for part in item):
        item = jnp.stack(list(item))
    array = item if isinstance(item, jax.Array) else np.asarray(item)
    if array.size == 0 and isinstance(item, Sequence):
        array = array.astype(np.int32)
    if array.dtype == np.uint8 and array.ndim:  # torch's old uint8 masks
        return array != 0
    if array.dtype != bool and not jnp.issubdtype(array.dtype, jnp.integer):
        raise TypeError(f"{where}: an index has the wrong type; expected integers, booleans or slices, got {item!r}.")
    return array


def _dimensions_of(item: Any) -> int:
    """Return how many dimensions of the input one item of an index consumes."""
    if item is None or item is Ellipsis:
        return 0
    return 1 if isinstance(item, slice) or item.dtype != bool else item.ndim


def _checked(where: str, item: Any, size: int, dim: int) -> Any:
    """Return an index that is a single number: a JAX array unchanged, and any other number as a checked int."""
    if isinstance(item, jax.Array):
        return item
    number = int(item)
    if not -size <= number < size:
        raise ValueError(
            f"{where}: index is out of range in dimension {dim}; expected {-size} to {size - 1}, got {number}."
        )
    return number
