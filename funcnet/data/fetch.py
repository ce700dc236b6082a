"""Fetchers: read the items of a batch from a dataset and collate them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from funcnet.data.describe import describe
from funcnet.data.gather import items_of, reader_of

__all__ = ["Collate", "IterableFetcher", "MapFetcher", "Rows"]

Collate = Callable[[Any], Any]
Rows = Callable[[int], NDArray[np.int64]] | None


class MapFetcher:
    """Reads batches from a map-style dataset. A task is (epoch, indices of the items), or (epoch, index of one item) if
    items are not batched.

    Args:
        dataset: the dataset.
        collate_fn: function that makes a batch from a list of items, or that converts one item if items are not
            batched.
        batched: whether a task has a list of indices instead of one index.
        gathers: if True, a complete batch that `__getitems__` returns is yielded without changes. If False,
            `collate_fn` always receives a list of items.
        rows: function that takes the number n of rows in a batch and returns the rows to read, or None to read all
            rows.
    """

    def __init__(self, dataset: Any, collate_fn: Collate, *, batched: bool, gathers: bool, rows: Rows = None):
        self.dataset, self.collate_fn, self.batched, self.gathers = dataset, collate_fn, batched, gathers
        self.rows = rows
        self._opened: tuple[Any, int, Any] | None = None  # (dataset, epoch, its items)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_opened": None}

    def begin(self, epoch: int, state: Any) -> None:
        """Do nothing, because each task of a map-style dataset contains the number of its epoch."""

    def state(self) -> None:
        """Return None, because a task of a map-style dataset does not depend on earlier tasks."""

    def fetch(self, task: tuple[int, Any]) -> Any:
        """Read the items of a task from the dataset, and return them as a batch."""
        epoch, indices = task
        items = self._items(epoch)
        if not self.batched:
            return self._collate(self._item(items, indices), [indices])
        if self.rows is not None:
            indices = [indices[position] for position in self.rows(len(indices)).tolist()]
        read = reader_of(items)
        if read is not None:
            batch = self._read(read, indices)
            if isinstance(batch, list):
                if len(batch) != len(indices):
                    raise ValueError(
                        f"{describe(self.dataset)}: __getitems__ returned the wrong number of items; expected "
                        f"{len(indices)}, got {len(batch)}."
                    )
                return self._collate(batch, indices)
            if self.gathers:
                return list(batch) if type(batch) is tuple else batch
        return self._collate([self._item(items, index) for index in indices], indices)

    def _items(self, epoch: int) -> Any:
        opened = self._opened
        if opened is None or opened[0] is not self.dataset or opened[1] != epoch:
            at_epoch = getattr(self.dataset, "at_epoch", None)
            items = items_of(self.dataset if at_epoch is None else at_epoch(epoch))
            opened = self._opened = (self.dataset, epoch, items)
        return opened[2]

    def _item(self, items: Any, index: Any) -> Any:
        try:
            _check_index(index)
            return items[index]
        except StopIteration as error:
            raise self._noted(_stopped(), [index]) from error
        except Exception as error:
            raise self._noted(error, [index])  # noqa: B904  the same exception

    def _read(self, read: Callable[[Any], Any], indices: Any) -> Any:
        try:
            return read(indices)
        except StopIteration as error:
            raise self._noted(_stopped(), indices) from error
        except Exception as error:
            raise self._noted(error, indices)  # noqa: B904  the same exception

    def _collate(self, items: Any, indices: Any) -> Any:
        try:
            batch = self.collate_fn(items)
        except Exception as error:
            entry = getattr(error, "entry", None)  # the item that does not match the first one
            if entry is not None and self.batched:
                error.add_note(f"entry {entry} is item {indices[entry]} of {describe(self.dataset)}")
            else:
                self._noted(error, indices)
            raise
        return _checked(batch, self.collate_fn, self.dataset)

    def _noted(self, error: BaseException, indices: Any) -> BaseException:
        error.add_note(f"while reading {_listed(indices)} of {describe(self.dataset)}")
        return error


class IterableFetcher:
    """Reads batches from an iterable dataset. Each task requests the next batch.

    Args:
        dataset: the dataset.
        collate_fn: function that makes a batch from a list of items, or that converts one item if items are not
            batched.
        batch_size: number of items per batch, or None for single items.
        drop_last: whether to omit the last batch if it is smaller than `batch_size`.
    """

    def __init__(self, dataset: Any, collate_fn: Collate, *, batch_size: int | None, drop_last: bool):
        self.dataset, self.collate_fn = dataset, collate_fn
        self.batch_size, self.drop_last = batch_size, drop_last
        self._iterator: Iterator[Any] | None = None
        self._read = 0

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_iterator": None}

    def begin(self, epoch: int, state: Any) -> None:
        """Begin to iterate over the dataset at the saved position `state`, or at the first item if `state` is None. If
        `state` does not contain a state of the dataset, the items before the position are read and dropped.
        """
        if hasattr(self.dataset, "set_epoch"):
            self.dataset.set_epoch(epoch)
        self._read, self._iterator = 0, None
        if state is not None and "dataset" in state:
            self.dataset.load_state_dict(state["dataset"])
            self._read = state["items"]
        self._iterator = iter(self.dataset)
        if state is not None and "dataset" not in state:
            skipped = sum(1 for _ in itertools.islice(self._iterator, state["items"]))
            self._read = skipped

    def state(self) -> dict[str, Any]:
        """Return a dict with the number of items read, and with the dataset's `state_dict()` if it has this method."""
        taken: dict[str, Any] = {"items": self._read}
        if hasattr(self.dataset, "state_dict") and hasattr(self.dataset, "load_state_dict"):
            taken["dataset"] = self.dataset.state_dict()
        return taken

    def fetch(self, task: Any) -> Any:
        """Return the next batch. Raise a StopIteration if there is no further batch."""
        assert self._iterator is not None
        if self.batch_size is None:
            items = self._next(self._iterator, 1)
            if not items:
                raise StopIteration
            return self._collate(items[0])
        items = self._next(self._iterator, self.batch_size)
        if not items or (self.drop_last and len(items) < self.batch_size):
            raise StopIteration
        return self._collate(items)

    def _next(self, iterator: Iterator[Any], count: int) -> list[Any]:
        items: list[Any] = []
        try:
            items.extend(itertools.islice(iterator, count))
        except Exception as error:
            error.add_note(f"while reading item {self._read + len(items)} of {describe(self.dataset)}")
            raise
        self._read += len(items)
        return items

    def _collate(self, items: Any) -> Any:
        try:
            batch = self.collate_fn(items)
        except Exception as error:
            last = self._read - 1
            first = last - (self.batch_size or 1) + 1
            error.add_note(f"while collating items {first} to {last} of {describe(self.dataset)}")
            raise
        return _checked(batch, self.collate_fn, self.dataset)


def _check_index(index: Any) -> None:
    if isinstance(index, int | np.integer) and not isinstance(index, bool):
        if index < 0:
            raise IndexError(f"index {index} is negative; expected an index of the dataset from the sampler")
    elif isinstance(index, float | bool | np.floating) or index is None:
        raise TypeError(f"the index is not an integer; expected an int from the sampler, got {index!r}")


def _checked(batch: Any, collate_fn: Collate, dataset: Any) -> Any:
    if batch is None:
        name = getattr(collate_fn, "__name__", type(collate_fn).__name__)
        raise TypeError(
            f"DataLoader: collate_fn returned nothing; expected a batch from {name} for {describe(dataset)}, got None. "
            "Add a return statement."
        )
    return batch


def _stopped() -> RuntimeError:
    return RuntimeError("the dataset raised StopIteration; expected an item or a different exception")


def _listed(indices: Any) -> str:
    listed = list(indices)
    if len(listed) == 1:
        return f"item {listed[0]}"
    return f"items {', '.join(map(str, listed[:5]))}{', …' if len(listed) > 5 else ''}"
