"""Datasets: objects that return items, one at a time or a batch at a time.

A map-style dataset has `__getitem__(index)` and `__len__`. It may also have `__getitems__(indices)`, which gets a list
of integers and returns either a list of items or the complete batch. A map-style dataset may have `at_epoch(epoch)`,
which returns the dataset of one epoch. The dataset of an epoch makes all random draws of this epoch (masks, crops,
pairs). The draws therefore depend on the epoch number and not on how many items were read before.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from funcnet.data.gather import check_bounds
from funcnet.data.parts import at_epoch, joined, read

__all__ = [
    "ArrayDataset",
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

    The base class is optional: any object with these methods is a dataset.

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

    def __getitem__(self, index: Any) -> T_co:
        raise NotImplementedError(f"{type(self).__name__}: the dataset has no items; expected a method __getitem__.")

    def __add__(self, other: Any) -> ConcatDataset:
        return ConcatDataset([self, other])


class IterableDataset(Dataset[T_co]):
    """Base class of datasets that are read by iteration. A subclass defines `__iter__`.

    Each worker of a `DataLoader` iterates over a copy of the dataset. See `get_worker_info`. If the dataset has
    `state_dict` and `load_state_dict`, a loader uses these methods to continue from a saved position. If the dataset
    lacks these methods, the loader reads and drops the items before the saved position.

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

    Example:
        >>> TensorDataset(np.arange(3), np.array([5, 6, 7]))[1]
        (np.int64(1), np.int64(6))

    Reference: torch.utils.data.TensorDataset
    """

    def __init__(self, *tensors: Any):
        if any(len(tensor) != len(tensors[0]) for tensor in tensors):
            lengths = [len(tensor) for tensor in tensors]
            raise AssertionError(
                f"TensorDataset: Size mismatch between tensors; expected equal lengths, got {lengths}."
            )
        self.tensors = tensors

    def __len__(self) -> int:
        return len(self.tensors[0])

    def __getitem__(self, index: Any) -> tuple[Any, ...]:
        return tuple(tensor[index] for tensor in self.tensors)

    def __getitems__(self, indices: list[int]) -> tuple[Any, ...]:
        """Return the arrays of some items."""
        chosen = check_bounds(indices, len(self))
        return tuple(_as_array(tensor)[chosen] for tensor in self.tensors)


class ArrayDataset(Dataset[dict[str, Any]]):
    """A dataset of named arrays of equal length, like `TensorDataset`, but with dicts as items and batches.

    Args:
        columns: dict from name to array of shape (N, ...).

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
        unfit = {name: type(column).__name__ for name, column in columns.items() if not hasattr(column, "shape")}
        if unfit:
            raise TypeError(
                f"ArrayDataset: columns are not arrays; expected arrays, got {unfit}. Convert them with np.asarray."
            )
        lengths = {name: len(column) for name, column in columns.items()}
        if len(set(lengths.values())) != 1:
            raise ValueError(f"ArrayDataset: arrays differ in length; expected equal lengths, got {lengths}.")
        self.columns = dict(columns)

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def __getitem__(self, index: Any) -> dict[str, Any]:
        """Return the item at an index, or the items at an array of indices."""
        return {name: column[index] for name, column in self.columns.items()}

    def __getitems__(self, indices: list[int]) -> dict[str, Any]:
        """Return the columns of some items."""
        chosen = check_bounds(indices, len(self))
        return {name: column[chosen] for name, column in self.columns.items()}


class ConcatDataset(Dataset[T_co]):
    """Several map-style datasets, one after another.

    Args:
        datasets: the datasets.

    Attributes:
        cumulative_sizes: for each dataset, the total number of items in this dataset and in all datasets before it.

    Raises:
        AssertionError: if no dataset is given, or one of the datasets is an `IterableDataset`, as in torch.

    Example:
        >>> ConcatDataset([["a", "b"], ["c"]])[2]
        'c'

    Reference: torch.utils.data.ConcatDataset
    """

    def __init__(self, datasets: Iterable[Any]):
        self.datasets = list(datasets)
        if not self.datasets:
            raise AssertionError("ConcatDataset: datasets should not be an empty iterable.")
        if any(isinstance(dataset, IterableDataset) for dataset in self.datasets):
            raise AssertionError("ConcatDataset does not support IterableDataset. Use ChainDataset.")
        self.cumulative_sizes = list(itertools.accumulate(len(dataset) for dataset in self.datasets))

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, index: Any) -> T_co:
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
        parts = sorted({part for part, _ in places})
        batches = [read(self.datasets[part], [place for own, place in places if own == part]) for part in parts]
        if len(batches) == 1:
            return batches[0]
        order = np.argsort(np.array([part for part, _ in places]), kind="stable")  # the places, grouped by part
        whole = joined(batches, np.argsort(order, kind="stable"))
        return [self[index] for index in indices] if whole is None else whole

    def at_epoch(self, epoch: int) -> ConcatDataset[T_co]:
        """Return the dataset from which the items of epoch number `epoch` are read."""
        return ConcatDataset([at_epoch(dataset, epoch) for dataset in self.datasets])

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
        self.datasets = datasets

    def __iter__(self) -> Iterator[T_co]:
        for dataset in self.datasets:
            _check_iterable(dataset)
            yield from dataset

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

    Example:
        >>> StackDataset(image=["a", "b"], label=[0, 1])[1]
        {'image': 'b', 'label': 1}

    Reference: torch.utils.data.StackDataset
    """

    datasets: tuple[Any, ...] | dict[str, Any]

    def __init__(self, *args: Any, **kwargs: Any):
        if args and kwargs:
            raise ValueError(
                "StackDataset: Supported either ``tuple``- (via ``args``) or ``dict``- (via ``kwargs``) like "
                "input/output, but both types are given."
            )
        if not args and not kwargs:
            raise ValueError("StackDataset: At least one dataset should be passed.")
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
        batches = [read(dataset, indices) for dataset in self._parts()]
        for batch in batches:
            if (isinstance(batch, list) or hasattr(batch, "shape")) and len(batch) != len(indices):
                raise ValueError(
                    f"StackDataset: Nested dataset's output size mismatch. Expected {len(indices)}, got {len(batch)}."
                )
        if not any(isinstance(batch, list) for batch in batches):
            return self._same(batches)
        rows = [
            batch if isinstance(batch, list) else [dataset[index] for index in indices]
            for batch, dataset in zip(batches, self._parts(), strict=True)
        ]
        return [self._same(items) for items in zip(*rows, strict=True)]

    def at_epoch(self, epoch: int) -> StackDataset:
        """Return the dataset from which the items of epoch number `epoch` are read."""
        if isinstance(self.datasets, dict):
            return StackDataset(**{name: at_epoch(dataset, epoch) for name, dataset in self.datasets.items()})
        return StackDataset(*(at_epoch(dataset, epoch) for dataset in self.datasets))

    def _parts(self) -> list[Any]:
        return list(self.datasets.values() if isinstance(self.datasets, dict) else self.datasets)

    def _same(self, values: Sequence[Any]) -> Any:
        """Return one value per dataset as a tuple, or as a dict if the datasets were given by name."""
        return dict(zip(self.datasets, values, strict=True)) if isinstance(self.datasets, dict) else tuple(values)


def _check_iterable(dataset: Any) -> None:
    if not isinstance(dataset, IterableDataset):
        raise AssertionError(f"ChainDataset only supports IterableDataset, got {type(dataset).__name__}.")


def _as_array(tensor: Any) -> Any:
    return np.asarray(tensor) if isinstance(tensor, list) else tensor
