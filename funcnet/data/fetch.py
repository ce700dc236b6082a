"""Fetchers: read the items of a batch from a dataset and collate them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from funcnet.arguments import shown
from funcnet.data.describe import describe
from funcnet.data.gather import Items, items_of, reader_of
from funcnet.data.item_rng import Reading, begin_draws_again, read_each
from funcnet.data.nested import at_epoch
from funcnet.data.resumable import Cursor
from funcnet.data.worker import worker_here

__all__ = ["Collate", "IterableFetcher", "MapFetcher", "Rows"]

Collate = Callable[[Any], Any]
Rows = Callable[[int], NDArray[np.int64]] | None


class MapFetcher:
    """Reads batches from a map-style dataset. A task is (epoch, indices of the items, their places in the epoch), or
    (epoch, index of one item, a list with its place) if items are not batched.

    Args:
        dataset: the dataset.
        collate_fn: function that makes a batch from a list of items, or that converts one item if items are not
            batched.
        batched: whether a task has a list of indices instead of one index.
        gathers: if True, a complete batch that `__getitems__` returns is yielded without changes. If False,
            `collate_fn` always receives a list of items.
        rows: function that takes the number n of rows in a batch and returns the rows to read, or None to read all
            rows.
        seed: seed of `item_rng`.
    """

    def __init__(
        self,
        dataset: Items | Iterable[Any],
        collate_fn: Collate,
        *,
        batched: bool,
        gathers: bool,
        seed: int,
        rows: Rows = None,
    ):
        self.dataset, self.collate_fn, self.batched, self.gathers = dataset, collate_fn, batched, gathers
        self.seed, self.rows = seed, rows
        self._opened: tuple[Any, int, Any] | None = None  # (dataset, epoch, its items)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_opened": None}

    def begin(self, epoch: int, state: Mapping[str, Any] | None) -> None:
        """Do nothing, because each task of a map-style dataset contains the number of its epoch."""

    def state(self) -> None:
        """Return None, because a task of a map-style dataset does not depend on earlier tasks."""

    def fetch(self, task: tuple[int, Any, Sequence[int]]) -> Any:
        """Read the items of a task from the dataset, and return them as a batch."""
        epoch, indices, places = task
        items = self._items(epoch)
        if not self.batched:
            with Reading(self.seed, epoch, places, 0):
                return self._collate(self._item(items, indices), [indices])
        if not hasattr(indices, "__iter__"):
            raise TypeError(
                f"DataLoader: batch_sampler yields no batch; expected a list of indices, got {shown(indices)}."
            )
        indices = indices if hasattr(indices, "__getitem__") else list(indices)
        if self.rows is not None:
            chosen = self.rows(len(indices)).tolist()
            indices, places = [indices[row] for row in chosen], [places[row] for row in chosen]
        with Reading(self.seed, epoch, places):
            return self._batch(items, indices)

    def _batch(self, items: Items, indices: Sequence[int]) -> Any:
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
            begin_draws_again({})
        return self._collate(read_each(functools.partial(self._item, items), indices), indices)

    def _items(self, epoch: int) -> Any:
        opened = self._opened
        if opened is None or opened[0] is not self.dataset or opened[1] != epoch:
            opened = self._opened = (self.dataset, epoch, items_of(at_epoch(self.dataset, epoch)))
        return opened[2]

    def _item(self, items: Items, index: int) -> Any:
        try:
            _check_index(index)
            return items[index]
        except StopIteration as error:
            raise self._noted(_stopped(), [index]) from error
        except Exception as error:
            raise self._noted(error, [index])  # noqa: B904  the same exception

    def _read(self, read: Callable[[Any], Any], indices: Sequence[int]) -> Any:
        try:
            return read(indices)
        except StopIteration as error:
            raise self._noted(_stopped(), indices) from error
        except Exception as error:
            raise self._noted(error, indices)  # noqa: B904  the same exception

    def _collate(self, items: object, indices: Sequence[int]) -> Any:
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

    def _noted(self, error: BaseException, indices: Sequence[int]) -> BaseException:
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
        seed: seed of `item_rng`.
    """

    def __init__(
        self, dataset: Iterable[Any], collate_fn: Collate, *, batch_size: int | None, drop_last: bool, seed: int
    ):
        self.dataset, self.collate_fn = dataset, collate_fn
        self.batch_size, self.drop_last, self.seed = batch_size, drop_last, seed
        self._cursor: Cursor | None = None
        self._epoch = self._read = 0
        self._share = (0, 1)  # (number of this worker, number of workers)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_cursor": None}

    def begin(self, epoch: int, state: Mapping[str, Any] | None) -> None:
        """Begin to iterate over the dataset at the saved position `state`, or at the first item if `state` is None. If
        `state` does not contain a state of the dataset, the items before the position are read and dropped. The entry
        "after" is the state of the dataset at the end of the epoch before.
        """
        if self._cursor is None or self._cursor.source is not self.dataset:
            self._cursor = Cursor(self.dataset)
        info = worker_here()
        self._share = (0, 1) if info is None else (info.id, info.num_workers)
        self._epoch, self._read = epoch, 0 if state is None else state["items"]
        if state is None:
            self._cursor.begin(epoch)
        elif "after" in state:
            self._cursor.begin(epoch, after=state["after"])
        elif state.get("ended"):
            self._cursor.begin(epoch, {"cursor": "ended", "state": state.get("dataset")})
        elif "dataset" in state and self._cursor.has_state:
            self._cursor.begin(epoch, state["dataset"])
        else:
            self._cursor.begin(epoch, skip=state["items"])

    def state(self) -> dict[str, Any]:
        """Return a dict with the number of items read, with the dataset's `state_dict()` as "dataset" if it has this
        method, and with "ended" if the dataset has ended.
        """
        assert self._cursor is not None
        items, own = {"items": self._read}, self._cursor.state()
        if self._cursor.ended:
            return {**items, "ended": True, **({"dataset": own["state"]} if "state" in own else {})}
        return {**items, **({"dataset": own} if self._cursor.has_state else {})}

    def fetch(self, task: object) -> Any:
        """Return the next batch. Raise a StopIteration if there is no further batch."""
        worker, workers = self._share
        first, count = self._read, self.batch_size or 1
        places = range(first * workers + worker, (first + count) * workers + worker, workers)
        with Reading(self.seed, self._epoch, places, 0 if self.batch_size is None else None):
            items = self._next(count)
            if not items or (self.drop_last and len(items) < count):
                raise StopIteration
            return self._collate(items[0] if self.batch_size is None else items)

    def _next(self, count: int) -> list[Any]:
        """Return the next items, or fewer at the end."""
        assert self._cursor is not None
        before = self._cursor.taken
        try:
            return self._cursor.take(count)
        except Exception as error:
            number = self._read + self._cursor.taken - before
            error.add_note(f"while reading item {number} of {describe(self.dataset)}")
            raise
        finally:
            self._read += self._cursor.taken - before

    def _collate(self, items: list[Any]) -> Any:
        try:
            batch = self.collate_fn(items)
        except Exception as error:
            last = self._read - 1
            first = last - (self.batch_size or 1) + 1
            error.add_note(f"while collating items {first} to {last} of {describe(self.dataset)}")
            raise
        return _checked(batch, self.collate_fn, self.dataset)


def _check_index(index: object) -> None:
    if isinstance(index, int | np.integer) and not isinstance(index, bool):
        if index < 0:
            raise IndexError(f"index {index} is negative; expected an index of the dataset from the sampler")
    elif isinstance(index, float | bool | np.floating) or index is None:
        raise TypeError(f"the index is not an integer; expected an int from the sampler, got {index!r}")


def _checked(batch: object, collate_fn: Collate, dataset: object) -> Any:
    if batch is None:
        name = getattr(collate_fn, "__name__", type(collate_fn).__name__)
        raise TypeError(
            f"DataLoader: collate_fn returned nothing; expected a batch from {name} for {describe(dataset)}, got None. "
            "Add a return statement."
        )
    return batch


def _stopped() -> RuntimeError:
    return RuntimeError("the dataset raised StopIteration; expected an item or a different exception")


def _listed(indices: Iterable[Any]) -> str:
    listed = list(indices)
    if len(listed) == 1:
        return f"item {listed[0]}"
    return f"items {', '.join(map(str, listed[:5]))}{', …' if len(listed) > 5 else ''}"
