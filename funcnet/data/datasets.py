"""What a loader reads: anything that has a length and accepts an array of indices.

A dataset may also have `at_epoch(epoch)`, which returns the dataset of one epoch. Everything that is drawn at each
visit (masks, crops, pairs) comes from it, so that it depends on the epoch and not on a counter.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

__all__ = ["ArrayDataset", "Dataset"]


@runtime_checkable
class Dataset(Protocol):
    """What returns a batch for an int64 array of shape (B,): an array, or a dict, list or tuple of arrays whose first
    size is B."""

    def __len__(self) -> int: ...

    def __getitem__(self, indices: NDArray[np.int64], /) -> Any: ...


class ArrayDataset:
    """Named arrays of one length, like torch's `TensorDataset`, with dicts as batches.

    Args:
        columns: name -> array of shape (N, ...).

    Raises:
        ValueError: the arrays differ in length.

    Example:
        >>> data = ArrayDataset({"x": np.arange(6).reshape(3, 2), "y": np.array([0, 1, 1])})
        >>> len(data), data[np.array([2, 0])]["x"].tolist()
        (3, [[4, 5], [0, 1]])
    """

    def __init__(self, columns: Mapping[str, NDArray[Any]]):
        lengths = {name: len(column) for name, column in columns.items()}
        if len(set(lengths.values())) != 1:
            raise ValueError(f"ArrayDataset: arrays differ in length; expected one length, got {lengths}.")
        self.columns = dict(columns)

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def __getitem__(self, indices: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
        return {name: column[indices] for name, column in self.columns.items()}
