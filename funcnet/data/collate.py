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
        return _like_sequence(data, [default_convert(value) for value in data])
    return data


def collate(batch: Sequence[Any], *, collate_fn_map: CollateFns | None = None) -> Any:
    """Collate items with a function that is chosen according to the type of the first item.

    Args:
        batch: list of items.
        collate_fn_map: dict from type, or tuple of types, to a function `fn(batch, *, collate_fn_map)`. The function
            for the type of the first item is called. Mappings, tuples and other sequences whose type is not in the dict
            are collated entry by entry.

    Raises:
        TypeError: if the type of an item cannot be collated.
        RuntimeError: if sequences differ in length.

    Example:
        >>> total = lambda batch, *, collate_fn_map: sum(batch)
        >>> collate([(1, "a"), (2, "b")], collate_fn_map={**default_collate_fn_map, int: total})
        [3, ('a', 'b')]

    Reference: torch.utils.data._utils.collate.collate
    """
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
        return _like(
            first, {key: collate([item[key] for item in batch], collate_fn_map=collate_fn_map) for key in first}
        )
    if isinstance(first, collections.abc.Sequence) and not isinstance(first, str | bytes):
        lengths = [len(item) for item in batch]
        if len(set(lengths)) != 1:
            raise RuntimeError(f"each element in list of batch should be of equal size, got {_shortened(lengths)}")
        columns = [collate(column, collate_fn_map=collate_fn_map) for column in zip(*batch, strict=True)]
        if _is_namedtuple(first):
            return type(first)(*columns)
        return columns if isinstance(first, tuple) else _like_sequence(first, columns)
    raise TypeError(UNFIT.format(type(first)))


def default_collate(batch: Sequence[Any]) -> Any:
    """Turn a list of B items into a batch that is nested like the items.

    Args:
        batch: items. The type of the first item determines the result:

            - array, number or bool: a NumPy array (B, …). Python's floats become float64, and integers int64.
            - JAX array: a JAX array (B, …).
            - torch tensor: a NumPy array (B, …).
            - str, bytes: a sequence of B values.
            - mapping, namedtuple: a value of the same type, with a batch for each entry.
            - tuple: a list, with a batch for each entry.
            - other sequence: a sequence of the same type, with a batch for each entry.

    Raises:
        TypeError: if the type of an item cannot be collated, or arrays differ in dtype.
        RuntimeError: if arrays differ in shape, or sequences in length.

    Differs from torch: arrays of different dtypes are refused, whereas torch promotes them.

    Example:
        >>> default_collate([(np.zeros(2), 1, "a"), (np.ones(2), 2, "b")])
        [array([[0., 0.],
               [1., 1.]]), array([1, 2]), ('a', 'b')]

    Reference: torch.utils.data.default_collate
    """
    return collate(batch, collate_fn_map=default_collate_fn_map)


def is_jax(value: Any) -> bool:
    """Return whether a value is a JAX array, without importing JAX."""
    module = type(value).__module__
    return module.startswith("jax") and isinstance(value, sys.modules["jax"].Array)


def is_torch(value: Any) -> bool:
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
    if not first.ndim or not first.size:
        return np.stack(batch)
    return np.concatenate(batch).reshape(len(batch), *first.shape)  # faster than np.stack


def _check_alike(batch: Sequence[Any]) -> None:
    """Check that arrays have the same shape and dtype."""
    shape, dtype = batch[0].shape, batch[0].dtype
    if len(set(map(SHAPE, batch))) == 1 and len(set(map(DTYPE, batch))) == 1:
        return
    for entry, array in enumerate(batch):
        if array.shape != shape:
            raise ShapeMismatch(
                f"stack expects each tensor to be equal size, but got {list(shape)} at entry 0 and "
                f"{list(array.shape)} at entry {entry}",
                entry,
            )
        if array.dtype != dtype:
            raise DtypeMismatch(
                f"default_collate: the arrays have different dtypes; expected {dtype} as at entry 0, got {array.dtype} "
                f"at entry {entry}",
                entry,
            )


def _stack_numbers(batch: Sequence[Any], *, collate_fn_map: CollateFns | None = None) -> NDArray[Any]:
    array = np.array(batch, np.float64 if isinstance(batch[0], float) else None)
    if array.dtype.kind not in "biuf":
        odd = next((item for item in batch if not isinstance(item, int | float)), batch[0])
        raise TypeError(
            f"default_collate: the items of a batch have different types; expected numbers like {batch[0]!r}, got "
            f"{odd!r}."
        )
    return array


def _list(batch: Sequence[Any], *, collate_fn_map: CollateFns | None = None) -> Sequence[Any]:
    return batch


def _stack_scalars(batch: Sequence[Any], *, collate_fn_map: CollateFns | None = None) -> NDArray[Any]:
    return np.array(batch, batch[0].dtype)


def _stack_others(batch: Sequence[Any]) -> Any:
    first = batch[0]
    if is_torch(first):
        _check_alike(batch)
        return from_torch(sys.modules["torch"].stack(batch))
    return sys.modules["jax.numpy"].asarray(_stack_arrays([np.asarray(array) for array in batch]))


def _is_namedtuple(value: Any) -> bool:
    return isinstance(value, tuple) and hasattr(value, "_fields")


def _like(data: Mapping[Any, Any], values: dict[Any, Any]) -> Any:
    """Return `values` as a mapping of the type of `data`, or as a dict if that fails."""
    if type(data) is dict:
        return values
    try:
        if isinstance(data, collections.abc.MutableMapping):
            clone = copy.copy(data)
            clone.update(values)
            return clone
        return type(data)(values)  # type: ignore[call-arg]
    except TypeError:
        return values


def _like_sequence(data: Sequence[Any], values: list[Any]) -> Any:
    """Return `values` as a sequence of the type of `data`, or as a list if that fails."""
    if type(data) is list:
        return values
    try:
        if isinstance(data, collections.abc.MutableSequence):
            clone = copy.copy(data)
            for place, value in enumerate(values):
                clone[place] = value
            return clone
        return type(data)(values)  # type: ignore[call-arg]
    except TypeError:
        return values


def _shortened(lengths: Sequence[int]) -> str:
    return f"sizes {', '.join(map(str, lengths[:8]))}{', …' if len(lengths) > 8 else ''}"


default_collate_fn_map: CollateFns = MappingProxyType(
    {
        np.ndarray: _stack_arrays,
        (np.bool_, np.number): _stack_scalars,
        float: _stack_numbers,
        int: _stack_numbers,
        str: _list,
        bytes: _list,
    }
)
