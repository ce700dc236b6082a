"""Functions that read the items of a dataset, for loaders and for datasets that are made of other datasets."""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from funcnet.data.gather import Items, items_of, reader_of
from funcnet.data.item_rng import begin_draws_again, draws_so_far, narrowed, read_each

__all__ = ["at_epoch", "read", "read_parts"]


def at_epoch(dataset: Any, epoch: int) -> Any:
    """Return `dataset.at_epoch(epoch)`, or the dataset itself if it has no method `at_epoch`.

    Raises:
        TypeError: if a class overrides how items are read, but inherits an `at_epoch` that returns an object of another
            class, whose items are not those of the override.
    """
    if not hasattr(dataset, "at_epoch"):
        return dataset
    changed = dataset.at_epoch(epoch)
    names = {"__getitem__", "__getitems__", "at_epoch"}
    home = next((kind for kind in type(dataset).__mro__ if names & vars(kind).keys()), None)
    if home is not None and "at_epoch" not in vars(home) and not isinstance(changed, home):
        raise TypeError(
            f"{home.__name__}: at_epoch returned an object that reads other items; expected a {home.__name__}, got "
            f"{type(changed).__name__}. Define at_epoch in {home.__name__}, or let the inherited one return a changed "
            "copy.copy(self)."
        )
    return changed


def read(dataset: Items, indices: Sequence[int]) -> Any:
    """Return the items at some indices: a complete batch if the dataset returns batches, or else a list of items."""
    items: Any = items_of(dataset)
    whole = reader_of(items)
    if whole is not None:
        return whole(indices)
    return read_each(functools.partial(operator.getitem, items), indices)


def read_parts(whole: Items, indices: Sequence[int], parts: Sequence[tuple[Any, Sequence[int], Sequence[int]]]) -> Any:
    """Return the items of a dataset that consists of other datasets, as `read` does.

    Args:
        whole: the dataset. Its items are read one by one if the batches of its parts cannot be joined.
        indices: the indices of the items in `whole`.
        parts: for each dataset, (the dataset, the indices in it, the rows of the result). The rows of all parts are
            0 to `len(indices) - 1`, each once.
    """
    before, batches = draws_so_far(), []
    for dataset, chosen, rows in parts:
        with narrowed(rows):
            batches.append(read(dataset, chosen))
    lengths = [len(rows) for _, _, rows in parts]
    for (dataset, _, _), batch, length in zip(parts, batches, lengths, strict=True):
        if isinstance(batch, list) and len(batch) != length:
            raise ValueError(
                f"{type(dataset).__name__}: __getitems__ returned the wrong number of items; expected {length}, got "
                f"{len(batch)}."
            )
    order = np.argsort(np.concatenate([np.asarray(rows, np.int64) for _, _, rows in parts]), kind="stable")
    if all(isinstance(batch, list) for batch in batches):
        items = list(itertools.chain.from_iterable(batches))
        return [items[place] for place in order.tolist()]
    if len(batches) == 1 and order.tolist() == list(range(len(order))):
        return batches[0]
    joined = None if any(isinstance(batch, list) for batch in batches) else _joined(batches, lengths, order)
    if joined is not None:
        return joined
    begin_draws_again(before)
    return read_each(functools.partial(operator.getitem, whole), indices)


def _joined(batches: Sequence[Any], lengths: Sequence[int], order: NDArray[np.int64]) -> Any:
    """Concatenate batches of some lengths, and reorder their rows by `order`. Return None if that is impossible,
    because the batches differ in structure, dtypes or shapes, or are not made of arrays and strings.
    """
    first = batches[0]
    if len({type(batch) for batch in batches}) != 1:
        return None
    if isinstance(first, np.ndarray):
        return _joined_arrays(batches, lengths, order)
    if isinstance(first, Mapping):
        if len({frozenset(batch) for batch in batches}) != 1:
            return None
        columns = {name: _joined([batch[name] for batch in batches], lengths, order) for name in first}
        if type(first) is not dict or any(column is None for column in columns.values()):
            return None
        return columns
    if not isinstance(first, tuple | list):
        return None
    is_record = hasattr(first, "_fields")
    if not is_record and all(isinstance(value, str | bytes) for batch in batches for value in batch):
        if [len(batch) for batch in batches] != list(lengths):
            return None
        values = list(itertools.chain.from_iterable(batches))
        return type(first)([values[place] for place in order.tolist()])
    if len({len(batch) for batch in batches}) != 1:
        return None
    entries = [_joined(values, lengths, order) for values in zip(*batches, strict=True)]
    if any(entry is None for entry in entries):
        return None
    return type(first)(*entries) if is_record else type(first)(entries)


def _joined_arrays(
    batches: Sequence[NDArray[Any]], lengths: Sequence[int], order: NDArray[np.int64]
) -> NDArray[Any] | None:
    if any(map(np.ma.is_masked, batches)):
        return None  # `default_collate` names the item
    first = batches[0]
    fits = [batch.ndim and len(batch) == length for batch, length in zip(batches, lengths, strict=True)]
    if not all(fits) or any(batch.dtype != first.dtype or batch.shape[1:] != first.shape[1:] for batch in batches):
        return None
    return np.concatenate(batches)[order]
