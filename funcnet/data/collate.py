"""Collate items, which means to combine a list of items into a batch whose leaves are NumPy arrays.

As in torch, the type of the first item decides: numbers and arrays are stacked, strings stay a list of strings, and
mappings and sequences are collated entry by entry.
"""

from __future__ import annotations

import collections.abc
import copy
import operator
import sys
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["DtypeMismatch", "ShapeMismatch", "collate", "default_collate", "default_collate_fn_map", "default_convert"]

CollateFns = Mapping[type | tuple[type, ...], Callable[..., Any]]
SHAPE, DTYPE = operator.attrgetter("shape"), operator.attrgetter("dtype")
UNFIT = "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {}"


class _Mismatch(Exception):
    """Raised if arrays of a batch differ in shape or dtype. `entry` is the index of the first array whose shape or
    dtype differs from that of array 0.
    """

    def __init__(self, message: str, entry: int):
        super().__init__(message, entry)
        self.entry = entry

    def __str__(self) -> str:
        return str(self.args[0])


class ShapeMismatch(_Mismatch, RuntimeError):
    """Raised if arrays of a batch differ in shape. Array `entry` is the first whose shape is not that of array 0."""


class DtypeMismatch(_Mismatch, TypeError):
    """Raised if arrays of a batch differ in dtype. Array `entry` is the first whose dtype is not that of array 0."""


def default_convert(data: Any) -> Any:
    """Convert the NumPy scalars and torch tensors in an item to NumPy arrays.

    NumPy scalars become arrays without dimensions. NumPy arrays and JAX arrays do not change. Mappings and sequences
    keep their type if possible, but a tuple becomes a list, as in torch. Everything else, including strings and Python
    numbers, is returned unchanged.

    Example:
        >>> default_convert({"x": np.float32(1.5), "name": "a"})
        {'x': array(1.5, dtype=float32), 'name': 'a'}

    Reference: torch.utils.data.default_convert
    """
    if isinstance(data, np.ndarray | str | bytes) or is_jax(data):
        return data
    if is_torch(data):
        return from_torch(data)
    if isinstance(data, np.generic) and data.dtype.kind not in "SUO":
        return np.asarray(data)
    if isinstance(data, Mapping):
        return _like(data, {key: default_convert(data[key]) for key in data})
    if _is_namedtuple(data):
        return type(data)(*(default_convert(value) for value in data))
    if isinstance(data, tuple):
        return [default_convert(value) for value in data]
    if isinstance(data, Sequence):
        return _like(data, [default_convert(value) for value in data])
    return data


def collate(batch: Sequence[Any], *, collate_fn_map: CollateFns | None = None) -> Any:
    """Collate items with a function that is chosen according to the type of the first item.

    Args:
        batch: list of items.
        collate_fn_map: dict from type, or tuple of types, to a function `fn(batch, *, collate_fn_map)`. The function
            for the type of the first item is called. Mappings, tuples and other sequences whose type is not in the dict
            are collated entry by entry.

    Raises:
        TypeError: if the type of an item cannot be collated, or differs from that of the first item.
        RuntimeError: if sequences differ in length.
        KeyError: if a mapping lacks a key of the first one.
        ValueError: if `batch` is empty.

    Example:
        >>> total = lambda batch, *, collate_fn_map: sum(batch)
        >>> collate([(1, "a"), (2, "b")], collate_fn_map={**default_collate_fn_map, int: total})
        [3, ('a', 'b')]

    Reference: torch.utils.data._utils.collate.collate
    """
    if not len(batch):
        raise ValueError("default_collate: the batch is empty; expected at least one item, got none.")
    first = batch[0]
    functions = {} if collate_fn_map is None else collate_fn_map
    function = functions.get(type(first)) or next(
        (functions[kind] for kind in functions if isinstance(first, kind)), None
    )
    if function is not None:
        return function(batch, collate_fn_map=collate_fn_map)
    if functions is default_collate_fn_map and (is_jax(first) or is_torch(first)):
        return _stack_others(batch)
    if isinstance(first, Mapping):
        _check_kind(batch, Mapping)
        return _like(first, {key: _collate_key(batch, key, collate_fn_map) for key in first})
    if isinstance(first, collections.abc.Sequence) and not isinstance(first, str | bytes):
        _check_kind(batch, collections.abc.Sequence)
        lengths = [len(item) for item in batch]
        if len(set(lengths)) != 1:
            shown = f"{', '.join(map(str, lengths[:8]))}{', …' if len(lengths) > 8 else ''}"
            raise RuntimeError(f"each element in list of batch should be of equal size, got sizes {shown}")
        columns = [collate(column, collate_fn_map=collate_fn_map) for column in zip(*batch, strict=True)]
        if _is_namedtuple(first):
            return type(first)(*columns)
        return columns if isinstance(first, tuple) else _like(first, columns)
    raise TypeError(UNFIT.format(type(first)))


def default_collate(batch: Sequence[Any]) -> Any:
    """Turn a list of B items into a batch that is nested like the items.

    Args:
        batch: items. The type of the first item determines the result:

            - array or NumPy scalar: a NumPy array (B, …) of the same dtype.
            - number or bool of Python: a NumPy array (B,). Floats become float64, and integers int64. If the batch has
              both, it becomes float64 if the first item is a float, and otherwise float32, as in torch.
            - JAX array, or array of random keys: a JAX array (B, …).
            - torch tensor: a NumPy array (B, …).
            - str, bytes: a sequence of B values.
            - mapping, namedtuple: a value of the same type, with a batch for each entry.
            - tuple: a list, with a batch for each entry.
            - other sequence: a sequence of the same type, with a batch for each entry.

    Raises:
        TypeError: if the type of an item cannot be collated, arrays or NumPy scalars differ in dtype, or an array has
            masked values.
        RuntimeError: if arrays differ in shape, or sequences in length.
        KeyError: if a mapping lacks a key of the first one.
        ValueError: if there is no item, or an integer is beyond int64.

    Differs from torch: arrays and NumPy scalars of different dtypes are refused, whereas torch promotes them. Next to a
        NumPy scalar, Python's numbers count as bool, int64 or float64. Masked values are refused, whereas torch drops
        the mask. None is refused wherever it is in a batch, whereas torch returns it after a string.

    Example:
        >>> default_collate([(np.zeros(2), 1, "a"), (np.ones(2), 2, "b")])
        [array([[0., 0.],
               [1., 1.]]), array([1, 2]), ('a', 'b')]

    Reference: torch.utils.data.default_collate
    """
    return collate(batch, collate_fn_map=default_collate_fn_map)


def is_jax(value: object) -> bool:
    """Return whether a value is a JAX array, without importing JAX."""
    module = type(value).__module__
    return module.startswith("jax") and isinstance(value, sys.modules["jax"].Array)


def is_torch(value: object) -> bool:
    """Return whether a value is a torch tensor, without importing torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, getattr(torch, "Tensor", ()))


def from_torch(tensor: Any) -> NDArray[Any]:
    """Return a torch tensor as a NumPy array, without a copy if it is on the CPU."""
    tensor = tensor.detach().cpu()
    if str(tensor.dtype) == "torch.bfloat16":
        import ml_dtypes

        return tensor.view(sys.modules["torch"].int16).numpy().view(ml_dtypes.bfloat16)  # type: ignore[no-any-return]
    return tensor.numpy()  # type: ignore[no-any-return]


def _stack_arrays(batch: Sequence[Any], *, collate_fn_map: CollateFns | None = None) -> NDArray[Any]:
    first = batch[0]
    if first.dtype.kind in "SUO":
        raise TypeError(UNFIT.format(first.dtype))
    _check_alike(batch)
    if set(map(type, batch)) != {np.ndarray}:
        _check_masks(batch)
        batch = [np.asarray(array) for array in batch]  # without the methods of np.matrix
    if not first.ndim or not first.size:
        return np.stack(batch)
    return np.concatenate(batch).reshape(len(batch), *first.shape)  # faster than np.stack


def _check_alike(batch: Sequence[Any]) -> None:
    """Check that all items are arrays or NumPy scalars, and have the same shape and dtype."""
    first = batch[0]
    for entry, array in enumerate(batch):
        if not (hasattr(array, "shape") and hasattr(array, "dtype")):
            raise DtypeMismatch(
                f"default_collate: the items of a batch have different types; expected {type(first).__name__} of dtype "
                f"{first.dtype} as at entry 0, got {type(array).__name__} at entry {entry}",
                entry,
            )
    if len(set(map(SHAPE, batch))) == 1 and len(set(map(DTYPE, batch))) == 1:
        return
    for entry, array in enumerate(batch):
        if array.shape != first.shape:
            raise _other_shape(batch, entry)
        if array.dtype != first.dtype:
            raise DtypeMismatch(
                f"default_collate: the arrays have different dtypes; expected {first.dtype} as at entry 0, got "
                f"{array.dtype} at entry {entry}",
                entry,
            )


def _check_masks(batch: Sequence[Any]) -> None:
    """Check that no array of NumPy has masked values."""
    for entry, array in enumerate(batch):
        if np.ma.is_masked(array):
            raise DtypeMismatch(
                f"default_collate: an array has masked values; expected a value in every place, got "
                f"{np.ma.count_masked(array)} of {array.size} masked at entry {entry}. Fill them with "
                "`array.filled(value)`.",
                entry,
            )


def _stack_numbers(batch: Sequence[Any], *, collate_fn_map: CollateFns | None = None) -> NDArray[Any]:
    """Stack numbers of Python and NumPy scalars, and arrays without dimensions among them."""
    kinds = set(map(type, batch))
    if kinds <= {bool, int, float} or all(isinstance(one, int | float) and not _is_scalar(one) for one in batch):
        return _stack_python(batch)
    if len(kinds) > 1:
        _check_masks(batch)
        _check_numbers(batch)
    return np.array(batch, _dtype(batch[0]))


def _stack_python(batch: Sequence[Any]) -> NDArray[Any]:
    """Stack bools, ints and floats of Python. The dtype is that of torch."""
    try:
        if isinstance(batch[0], float):
            return np.array(batch, np.float64)
        kinds = set(map(type, batch))
        if any(issubclass(kind, float) for kind in kinds):
            with np.errstate(over="ignore"):  # as in torch, which also goes through float64
                return np.array(batch, np.float64).astype(np.float32)
        return np.array(batch, np.bool_ if kinds == {bool} else np.int64)
    except OverflowError:
        largest = max((number for number in batch if isinstance(number, int)), key=abs)
        kind = "float64" if isinstance(batch[0], float) else "int64"
        raise ValueError(
            f"default_collate: an integer is too large; expected one that {kind} can represent, got {largest!r:.40}."
        ) from None


def _check_numbers(batch: Sequence[Any]) -> None:
    """Check that numbers have the dtype of the first one. Those of Python count as bool, int64 or float64."""
    expected = _dtype(batch[0])
    for entry, item in enumerate(batch):
        dtype = _dtype(item)
        if dtype is None:
            raise DtypeMismatch(
                f"default_collate: the items of a batch have different types; expected numbers like {batch[0]!r}, got "
                f"{item!r:.60}.",
                entry,
            )
        if np.shape(item):
            raise _other_shape(batch, entry)
        if dtype != expected:
            raise DtypeMismatch(
                f"default_collate: the numbers have different dtypes; expected {expected} as at entry 0, got {dtype} "
                f"at entry {entry}",
                entry,
            )


def _dtype(number: Any) -> np.dtype[Any] | None:
    """Return the dtype of an array, a NumPy scalar or a number of Python, and None for other values."""
    if _is_scalar(number) or isinstance(number, np.ndarray):
        return number.dtype  # type: ignore[no-any-return]
    kinds = {bool: np.bool_, int: np.int64, float: np.float64}
    return next((np.dtype(kinds[kind]) for kind in kinds if isinstance(number, kind)), None)


def _is_scalar(value: object) -> bool:
    return isinstance(value, np.bool_ | np.number)


def _check_kind(batch: Sequence[Any], kind: type) -> None:
    if len(set(map(type, batch))) == 1:
        return
    for entry, item in enumerate(batch):
        if not isinstance(item, kind) or isinstance(item, str | bytes):
            raise _other_type(batch, entry)


def _other_type(batch: Sequence[Any], entry: int) -> DtypeMismatch:
    return DtypeMismatch(
        f"default_collate: the items of a batch have different types; expected {type(batch[0]).__name__} as at entry "
        f"0, got {type(batch[entry]).__name__} at entry {entry}",
        entry,
    )


def _other_shape(batch: Sequence[Any], entry: int) -> ShapeMismatch:
    first, other = (list(np.shape(batch[place])) for place in (0, entry))
    text = f"stack expects each tensor to be equal size, but got {first} at entry 0 and {other} at entry {entry}"
    return ShapeMismatch(text, entry)


def _collate_key(batch: Sequence[Mapping[Any, Any]], key: object, collate_fn_map: CollateFns | None) -> Any:
    """Collate the values of one key of the items."""
    try:
        values = [item[key] for item in batch]
    except KeyError:
        entry = next(entry for entry, item in enumerate(batch) if key not in item)
        raise KeyError(
            f"default_collate: an item lacks a key; expected {key!r} as at entry 0, got the keys "
            f"{sorted(map(str, batch[entry]))} at entry {entry}"
        ) from None
    try:
        return collate(values, collate_fn_map=collate_fn_map)
    except (TypeError, RuntimeError, ValueError) as error:
        error.add_note(f"under the key {key!r}")
        raise


def _list(batch: Sequence[Any], *, collate_fn_map: CollateFns | None = None) -> Sequence[Any]:
    """Return strings. None among them is an error, whereas torch returns it unless it is the first item."""
    entry = next((entry for entry, item in enumerate(batch) if item is None), None)
    if entry is not None:
        raise _other_type(batch, entry)
    return batch


def _stack_others(batch: Sequence[Any]) -> Any:
    _check_alike(batch)
    if is_torch(batch[0]):
        return from_torch(sys.modules["torch"].stack(list(batch)))
    jax = sys.modules["jax"]
    if jax.dtypes.issubdtype(batch[0].dtype, jax.dtypes.prng_key):
        return jax.numpy.stack(list(batch))
    return jax.numpy.asarray(_stack_arrays([np.asarray(array) for array in batch]))


def _is_namedtuple(value: object) -> bool:
    return isinstance(value, tuple) and hasattr(value, "_fields")


def _like(data: Any, values: Any) -> Any:
    """Return a dict or a list of values as a collection of the type of `data`, if that type can be made."""
    if type(data) in (dict, list):
        return values
    try:
        if not isinstance(data, collections.abc.MutableMapping | collections.abc.MutableSequence):
            return type(data)(values)
        clone = copy.copy(data)
        if isinstance(clone, collections.abc.MutableMapping):
            clone.update(values)
        else:
            for place, value in enumerate(values):
                clone[place] = value
        return clone
    except TypeError:
        return values


default_collate_fn_map: CollateFns = MappingProxyType(
    {
        np.ndarray: _stack_arrays,
        (np.bool_, np.number): _stack_numbers,
        float: _stack_numbers,
        int: _stack_numbers,
        **dict.fromkeys((str, bytes), _list),
    }
)
"""The functions with which `collate` makes batches of items, by the types of the items, as in torch."""
