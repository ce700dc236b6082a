"""Functions for datasets that are made of other datasets, such as `ConcatDataset`."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from funcnet.data.gather import items_of, reader_of

__all__ = ["at_epoch", "joined", "read"]


def at_epoch(dataset: Any, epoch: int) -> Any:
    """Return `dataset.at_epoch(epoch)`, or the dataset itself if it has no method `at_epoch`."""
    return dataset.at_epoch(epoch) if hasattr(dataset, "at_epoch") else dataset


def read(dataset: Any, indices: list[int]) -> Any:
    """Return the items at some indices: a complete batch if the dataset returns batches, or else a list of items."""
    items: Any = items_of(dataset)
    whole = reader_of(items)
    if whole is not None:
        return whole(indices)
    return [items[index] for index in indices]


def joined(batches: Sequence[Any], order: NDArray[np.int64]) -> Any:
    """Concatenate batches or lists of items, and reorder their rows by `order`. Return None if the batches differ in
    structure.
    """
    kinds = {type(batch) for batch in batches}
    first = batches[0]
    if len(kinds) != 1:
        return None
    if isinstance(first, np.ndarray):
        return np.concatenate(batches)[order]
    if isinstance(first, list):
        items = list(itertools.chain.from_iterable(batches))
        return [items[place] for place in order.tolist()]
    if isinstance(first, Mapping) and len({tuple(batch) for batch in batches}) == 1:
        columns = {name: joined([batch[name] for batch in batches], order) for name in first}
        return None if any(column is None for column in columns.values()) else columns
    if isinstance(first, tuple) and len({len(batch) for batch in batches}) == 1:
        parts = [joined(values, order) for values in zip(*batches, strict=True)]
        if all(part is not None for part in parts):
            return type(first)(*parts) if hasattr(first, "_fields") else tuple(parts)
    return None
