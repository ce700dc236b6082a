"""Datasets: objects that have a length and accept an array of indices.

A dataset may also have a method `at_epoch(epoch)`, which returns the dataset of one epoch. That dataset makes all
random draws of the epoch (masks, crops, pairs), so that the draws depend on the epoch number and not on a counter of
calls.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

__all__ = ["ArrayDataset", "Dataset"]


@runtime_checkable
class Dataset(Protocol):
    """An object that returns the batch for an int64 array of B indices.

    A batch is an array, or a dict, list or tuple of arrays, and the first dimension of each array is B.
    """

    def __len__(self) -> int: ...

    def __getitem__(self, indices: NDArray[np.int64], /) -> Any: ...


class ArrayDataset:
    """A dataset of named arrays of equal length, like torch's `TensorDataset`, but with dicts as batches.

    Args:
        columns: dict from name to array of shape (N, ...).

    Raises:
        ValueError: if the arrays differ in length, or there are none.

    Example:
        >>> data = ArrayDataset({"x": np.arange(6).reshape(3, 2), "y": np.array([0, 1, 1])})
        >>> len(data), data[np.array([2, 0])]["x"].tolist()
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

    def __getitem__(self, indices: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
        return {name: column[indices] for name, column in self.columns.items()}
