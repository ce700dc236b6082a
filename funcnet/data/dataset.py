"""Datasets: objects that return items, one at a time or a batch at a time.

A map-style dataset has `__getitem__(index)` and `__len__`. It may also have `__getitems__(indices)`, which gets a list
of integers and returns either a list of items or the complete batch. A map-style dataset may have `at_epoch(epoch)`,
which returns the dataset of one epoch. The dataset of an epoch makes all random draws of this epoch (masks, crops,
pairs). The draws therefore depend on the epoch number and not on how many items were read before.
"""

from __future__ import annotations

import bisect
import copy
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from funcnet.arguments import shown
from funcnet.data.checks import require_datasets, require_items, require_iterable, require_unmasked
from funcnet.data.collate import from_torch, is_torch
from funcnet.data.gather import Items, check_bounds
from funcnet.data.item_rng import begin_draws_again, draws_so_far, read_each
from funcnet.data.nested import at_epoch, read, read_parts
from funcnet.data.sharing import DivisionCheck, is_iterable_dataset

__all__ = [
    "ArrayDataset",
    "BatchedDataset",
    "ChainDataset",
    "ConcatDataset",
    "Dataset",
    "IterableDataset",
    "StackDataset",
    "TensorDataset",
]

T_co = TypeVar("T_co", covariant=True)


class Dataset(Generic[T_co]):
    """Base class of map-style datasets. A subclass defines `__getitem__` and `__len__`.

    The base class is optional: any object with these methods is a dataset. If a subclass overrides only `__getitem__`,
    its `__getitems__` is None, because the inherited method would bypass the override.

    Example:
        >>> class Squares(Dataset):
        ...     def __len__(self):
        ...         return 4
        ...     def __getitem__(self, index):
        ...         return index**2
        >>> len(Squares() + Squares())
        8

    Reference: torch.utils.data.Dataset
    """

    def __init_subclass__(cls, **options: Any):
        super().__init_subclass__(**options)
        if "__getitem__" in vars(cls) and "__getitems__" not in vars(cls) and hasattr(cls, "__getitems__"):
            cls.__getitems__ = None

    def __getitem__(self, index: Any) -> T_co:
        raise NotImplementedError(f"{type(self).__name__}: the dataset has no items; expected a method __getitem__.")

    def __add__(self, other: Any) -> ConcatDataset:
        return ConcatDataset([self, other])


class IterableDataset(Dataset[T_co]):
    """Base class of datasets that are read by iteration. A subclass defines `__iter__`.

    Each worker of a `DataLoader` iterates over a copy of the dataset. `__iter__` calls `get_worker_info` to yield the
    worker's share. With several workers, a dataset that never calls it is refused. If the dataset has `state_dict` and
    `load_state_dict`, a loader uses these methods to continue from a saved position. If the dataset lacks these
    methods, the loader reads and drops the items before the saved position.

    Example:
        >>> class Count(IterableDataset):
        ...     def __iter__(self):
        ...         return iter(range(3))
        >>> list(Count() + Count())
        [0, 1, 2, 0, 1, 2]

    Reference: torch.utils.data.IterableDataset
    """

    def __iter__(self) -> Iterator[T_co]:
        raise NotImplementedError(f"{type(self).__name__}: the dataset has no items; expected a method __iter__.")

    def __add__(self, other: Any) -> ChainDataset:  # type: ignore[override]
        return ChainDataset([self, other])


class TensorDataset(Dataset[tuple[Any, ...]]):
    """A dataset of arrays whose first dimension counts the items.

    Args:
        tensors: arrays (N, …).

    Raises:
        AssertionError: if the arrays differ in length, as in torch.
        TypeError: if there is no array, or a value is not an array or a list.

    Example:
        >>> TensorDataset(np.arange(3), np.array([5, 6, 7]))[1]
        (np.int64(1), np.int64(6))

    Reference: torch.utils.data.TensorDataset
    """

    def __init__(self, *tensors: Any):
        if not tensors:
            raise TypeError("TensorDataset: there is no array; expected at least one, got none.")
        for place, tensor in enumerate(tensors):
            if not isinstance(tensor, list):
                _require_array("TensorDataset", f"array {place}", tensor)
        if any(len(tensor) != len(tensors[0]) for tensor in tensors):
            lengths = [len(tensor) for tensor in tensors]
            raise AssertionError(
                f"TensorDataset: Size mismatch between tensors; expected equal lengths, got {lengths}."
            )
        self.tensors = tensors

    def __len__(self) -> int:
        return len(self.tensors[0])

    def __getitem__(self, index: int | slice | NDArray[Any]) -> tuple[Any, ...]:
        return tuple(tensor[index] for tensor in self.tensors)

    def __getitems__(self, indices: list[int]) -> tuple[Any, ...]:
        """Return the arrays of some items."""
        chosen = check_bounds(indices, len(self))
        return tuple(_as_array(tensor)[chosen] for tensor in self.tensors)


class ArrayDataset(Dataset[dict[str, Any]]):
    """A dataset of named arrays of equal length, like `TensorDataset`, but with dicts as items and batches.

    Args:
        columns: dict from name to array of shape (N, ...). Tensors of torch become NumPy arrays.

    Raises:
        ValueError: if the arrays differ in length, or `columns` contains no array.
        TypeError: if a column is not an array.

    Example:
        >>> data = ArrayDataset({"x": np.arange(6).reshape(3, 2), "y": np.array([0, 1, 1])})
        >>> len(data), data.__getitems__([2, 0])["x"].tolist()
        (3, [[4, 5], [0, 1]])
    """

    def __init__(self, columns: Mapping[str, NDArray[Any]]):
        if not isinstance(columns, Mapping) or not columns:
            got = "an empty dict" if isinstance(columns, Mapping) else type(columns).__name__
            raise ValueError(
                f"ArrayDataset: columns must be named; expected a dict of names and arrays, got {got}. Write "
                "ArrayDataset({'x': array})."
            )
        for name, column in columns.items():
            _require_array("ArrayDataset", f"columns[{name!r}]", column)
        lengths = {name: len(column) for name, column in columns.items()}
        if len(set(lengths.values())) != 1:
            raise ValueError(f"ArrayDataset: arrays differ in length; expected equal lengths, got {lengths}.")
        self.columns = {name: from_torch(one) if is_torch(one) else one for name, one in columns.items()}

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def __getitem__(self, index: int | slice | NDArray[Any]) -> dict[str, Any]:
        """Return the item at an index, or the items at an array of indices."""
        return {name: column[index] for name, column in self.columns.items()}

    def __getitems__(self, indices: list[int]) -> dict[str, Any]:
        """Return the columns of some items."""
        chosen = check_bounds(indices, len(self))
        return {name: column[chosen] for name, column in self.columns.items()}


class BatchedDataset(Dataset[dict[str, Any]]):
    """Base class of datasets whose items are rows of complete batches. A subclass defines `__len__` and
    `__getitems__`.
    """

    def __getitem__(self, index: Any) -> dict[str, Any]:
        """Return the item at an index, or the batch of the items at an array of indices."""
        if np.ndim(index):
            return self.__getitems__(index)
        return {name: values[0] for name, values in self.__getitems__([index]).items()}

    def __getitems__(self, indices: Sequence[int]) -> dict[str, Any]:
        raise NotImplementedError(f"{type(self).__name__}: the dataset has no batches; expected a method __getitems__.")


class ConcatDataset(Dataset[T_co]):
    """Several map-style datasets, one after another.

    Args:
        datasets: the datasets.

    Attributes:
        cumulative_sizes: for each dataset, the total number of items in this dataset and in all datasets before it.

    Raises:
        AssertionError: if no dataset is given, or one of the datasets is an `IterableDataset`, as in torch.
        TypeError: if `datasets` is not a list, or one of the datasets has no items or no length.

    Example:
        >>> ConcatDataset([["a", "b"], ["c"]])[2]
        'c'

    Reference: torch.utils.data.ConcatDataset
    """

    def __init__(self, datasets: Iterable[Any]):
        require_iterable("ConcatDataset", "datasets", datasets, "a list of datasets")
        self.datasets = list(datasets)
        if not self.datasets:
            raise AssertionError("ConcatDataset: datasets should not be an empty iterable.")
        if any(map(is_iterable_dataset, self.datasets)):
            raise AssertionError("ConcatDataset does not support IterableDataset. Use ChainDataset.")
        require_datasets("ConcatDataset", self.datasets)
        self.cumulative_sizes = list(itertools.accumulate(len(dataset) for dataset in self.datasets))

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, index: int) -> T_co:
        if index < 0:
            if -index > len(self):
                raise ValueError(
                    f"ConcatDataset: absolute value of index should not exceed dataset length; expected at most "
                    f"{len(self)}, got {-index}."
                )
            index += len(self)
        part, place = self._place(index)
        return self.datasets[part][place]  # type: ignore[no-any-return]

    def __getitems__(self, indices: list[int]) -> Any:
        """Return a list of the items at `indices`, or a complete batch if all datasets return similar batches."""
        places = [self._place(index) for index in indices]
        parts = []
        for part in sorted({part for part, _ in places}):
            rows = [row for row, (own, _) in enumerate(places) if own == part]
            parts.append((self.datasets[part], [places[row][1] for row in rows], rows))
        return read_parts(self, indices, parts)

    def at_epoch(self, epoch: int) -> ConcatDataset[T_co]:
        """Return the dataset from which the items of epoch number `epoch` are read."""
        new = copy.copy(self)
        new.datasets = [at_epoch(dataset, epoch) for dataset in self.datasets]
        return new

    def _place(self, index: int) -> tuple[int, int]:
        """Return (number of the dataset that contains item `index` of the concatenation, index of the item in that
        dataset).
        """
        part = bisect.bisect_right(self.cumulative_sizes, index)
        if index < 0 or part == len(self.datasets):
            raise IndexError(f"ConcatDataset: index {index} is out of range; expected 0 to {len(self) - 1}.")
        return part, index - (self.cumulative_sizes[part - 1] if part else 0)


class ChainDataset(IterableDataset[T_co]):
    """Several iterable datasets, one after another.

    Args:
        datasets: the datasets.

    Raises:
        AssertionError: while iterating, if one of the datasets is not an `IterableDataset`, as in torch.

    Example:
        >>> class Count(IterableDataset):
        ...     def __iter__(self):
        ...         return iter(range(2))
        >>> list(ChainDataset([Count(), Count()]))
        [0, 1, 0, 1]

    Reference: torch.utils.data.ChainDataset
    """

    def __init__(self, datasets: Iterable[Any]):
        require_iterable("ChainDataset", "datasets", datasets, "a list of iterable datasets")
        self.datasets = datasets

    def __iter__(self) -> Iterator[T_co]:
        for dataset in self.datasets:
            _check_iterable(dataset)
            check = DivisionCheck(dataset)
            with check:
                iterator = iter(dataset)
                first = list(itertools.islice(iterator, 1))
            if first:
                check.after_first_item()
            yield from first
            yield from iterator

    def __len__(self) -> int:
        total = 0
        for dataset in self.datasets:
            _check_iterable(dataset)
            total += len(dataset)
        return total


class StackDataset(Dataset[Any]):
    """Combines map-style datasets of equal length: item i is a tuple or dict of the items i of all datasets.

    Args:
        args: datasets, whose items become a tuple.
        kwargs: datasets by name, whose items become a dict.

    Raises:
        ValueError: if both `args` and `kwargs` are given, or neither, or if the lengths of the datasets differ.
        TypeError: if one of the datasets has no items or no length.

    Example:
        >>> StackDataset(image=["a", "b"], label=[0, 1])[1]
        {'image': 'b', 'label': 1}

    Reference: torch.utils.data.StackDataset
    """

    datasets: tuple[Any, ...] | dict[str, Any]

    def __init__(self, *args: Items, **kwargs: Items):
        if args and kwargs:
            raise ValueError(
                "StackDataset: Supported either ``tuple``- (via ``args``) or ``dict``- (via ``kwargs``) like "
                "input/output, but both types are given."
            )
        if not args and not kwargs:
            raise ValueError("StackDataset: At least one dataset should be passed.")
        for name, dataset in (kwargs or {f"dataset {place}": one for place, one in enumerate(args)}).items():
            require_items("StackDataset", name, dataset)
        self.datasets = args or kwargs
        lengths = [len(dataset) for dataset in self._parts()]
        if len(set(lengths)) != 1:
            raise ValueError(f"StackDataset: Size mismatch between datasets; expected equal lengths, got {lengths}.")

    def __len__(self) -> int:
        return len(self._parts()[0])

    def __getitem__(self, index: Any) -> Any:
        return self._same([dataset[index] for dataset in self._parts()])

    def __getitems__(self, indices: list[int]) -> Any:
        """Return a list of the items at `indices`, or a complete batch if each dataset returns complete batches."""
        before = draws_so_far()
        batches = [read(dataset, indices) for dataset in self._parts()]
        for batch in batches:
            if (isinstance(batch, list) or hasattr(batch, "shape")) and len(batch) != len(indices):
                raise ValueError(
                    f"StackDataset: Nested dataset's output size mismatch. Expected {len(indices)}, got {len(batch)}."
                )
        if not any(isinstance(batch, list) for batch in batches):
            return self._same([list(batch) if type(batch) is tuple else batch for batch in batches])  # as collated
        if all(isinstance(batch, list) for batch in batches):
            return [self._same(items) for items in zip(*batches, strict=True)]
        begin_draws_again(before)
        return read_each(self.__getitem__, indices)

    def at_epoch(self, epoch: int) -> StackDataset:
        """Return the dataset from which the items of epoch number `epoch` are read."""
        new = copy.copy(self)
        new.datasets = self._same([at_epoch(dataset, epoch) for dataset in self._parts()])
        return new

    def _parts(self) -> list[Any]:
        return list(self.datasets.values() if isinstance(self.datasets, dict) else self.datasets)

    def _same(self, values: Sequence[Any]) -> Any:
        """Return one value per dataset as a tuple, or as a dict if the datasets were given by name."""
        return dict(zip(self.datasets, values, strict=True)) if isinstance(self.datasets, dict) else tuple(values)


def _check_iterable(dataset: object) -> None:
    if not is_iterable_dataset(dataset):
        raise AssertionError(f"ChainDataset only supports IterableDataset, got {type(dataset).__name__}.")


def _require_array(where: str, name: str, value: object) -> None:
    if not hasattr(value, "shape") or not len(value.shape) or hasattr(value, "iloc"):
        raise TypeError(
            f"{where}: {name} is not an array of rows; expected an array with at least one dimension, got "
            f"{shown(value)}. Convert it with np.asarray."
        )
    require_unmasked(where, name, value)


def _as_array(tensor: Any) -> Any:
    if is_torch(tensor):
        return from_torch(tensor)
    return np.asarray(tensor) if isinstance(tensor, list) else tensor
