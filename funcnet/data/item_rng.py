"""The random generator of the item that is being read, for augmentation and other draws per item.

The draws of an item depend only on the seed of the loader, the epoch, and the place of the item in the epoch. They do
not depend on workers, batch size or processes, or on where a run was resumed. The place is counted in the order of the
sampler. An index that a sampler yields twice has two places, and gets different draws.

An attribute of the reading thread contains the rows that it reads. `item_rng` makes the generators from this attribute.
"""

from __future__ import annotations

import contextlib
import copy
import itertools
import operator
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np

__all__ = [
    "Reading",
    "aside",
    "begin_draws_again",
    "draws_so_far",
    "item_rng",
    "narrowed",
    "read_each",
    "read_next",
    "unread",
]

T = TypeVar("T")
SECOND = operator.itemgetter(1)


def item_rng(row: int | None = None) -> np.random.Generator:
    """Return the random generator of the item that a `DataLoader` is reading.

    Call this function in `__getitem__`, or in anything that `__getitem__` calls, such as a transform. All calls for one
    item return the same generator, so a second transform continues with new numbers.

    Args:
        row: the row of the batch, for code that gets a complete batch: `__getitems__(indices)`, where row k is
            `indices[k]`, and `collate_fn(items)`, where row k is `items[k]`. In `__getitem__`, leave it out.

    Returns:
        A generator that depends on the loader's `seed`, the epoch, and the place of the item in the epoch. For an
        iterable dataset, the item is the one that the dataset yields next. With W workers, item n of worker w has the
        place n * W + w.

    Raises:
        RuntimeError: if no loader is reading an item in this thread, or the dataset is the source of a `ShuffleBuffer`,
            which reads items before their turn.
        TypeError: if a complete batch is being read and `row` is None.
        IndexError: if the batch has no such row.

    Differs from torch: torch's `get_worker_info().rng` belongs to a worker, and is missing without workers.

    Example:
        >>> from funcnet.data import DataLoader, Dataset
        >>> class Noisy(Dataset):
        ...     def __len__(self):
        ...         return 4
        ...     def __getitem__(self, index):
        ...         return index + item_rng().random()
        >>> alone, shared = DataLoader(Noisy(), 4, seed=1), DataLoader(Noisy(), 1, seed=1, num_workers=2)
        >>> next(iter(alone)).tolist() == [float(batch[0]) for batch in shared]
        True
    """
    here = _here()
    if here is None or here.places is None:
        raise RuntimeError(
            "item_rng: there is no item; expected a call from a dataset that a DataLoader reads in this thread, got "
            + ("a call from the source of a ShuffleBuffer. Draw after it." if here else "a call outside a DataLoader.")
        )
    row = here.row if row is None else row
    if row is None:
        raise TypeError(
            "item_rng: a complete batch is being read; expected the row of an item in the batch, as in item_rng(0), "
            "got None."
        )
    if not 0 <= row < len(here.places):
        raise IndexError(f"item_rng: the row is out of range; expected 0 to {len(here.places) - 1}, got {row}.")
    place = here.places[row]
    if place not in here.generators:
        words = np.array([here.seed % 2**64, here.epoch % 2**64, place], np.uint64).view(np.uint32)
        here.generators[place] = np.random.Generator(np.random.PCG64(np.random.SeedSequence(words)))
    return here.generators[place]


class Reading:
    """The rows that a thread is reading. In a `with` statement, they are the rows of the current thread.

    Args:
        seed, epoch: integers.
        places: place of each row in the epoch, or None if there is no item for which a draw could be repeated.
        row: the row that is being read, or None while a complete batch is read.
        generators: the generators that were made so far, by place.
    """

    def __init__(
        self,
        seed: int,
        epoch: int,
        places: Sequence[int] | None,
        row: int | None = None,
        generators: dict[int, np.random.Generator] | None = None,
    ):
        self.seed, self.epoch, self.places = seed, epoch, places
        self.generators = {} if generators is None else generators
        self._row = row
        self._left: Any = None  # an iterator whose length says how many rows are left to read
        self._count = 0
        self._thread: Any = None
        self._outer: Reading | None = None

    @property
    def row(self) -> int | None:
        """The row that is being read, or None while a complete batch is read."""
        if self._left is None:
            return self._row
        return self._count - operator.length_hint(self._left) - 1

    def count(self, left: Iterator[Any] | None, count: int = 0) -> None:
        """While the items of the iterator `left` are read, count them as rows. `count` is the number of items. None
        stops the counting.
        """
        self._left, self._count = left, count

    def __enter__(self) -> Reading:
        self._thread = threading.current_thread()
        self._outer = getattr(self._thread, "item_reading", None)
        self._thread.item_reading = self
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.item_reading = self._outer


def read_each(read: Callable[[Any], T], indices: Iterable[Any]) -> list[T]:
    """Return `[read(index) for index in indices]`. During call k, `item_rng()` returns the generator of row k.

    Use it wherever items of a batch are read one by one.
    """
    here = _uncounted()
    if here is None:
        return list(map(read, indices))
    indices = list(indices)
    left = iter(indices)
    here.count(left, len(indices))
    try:
        return list(map(read, left))
    finally:
        here.count(None)


def read_next(iterator: Iterator[T], count: int, items: list[T]) -> None:
    """Append the next `count` items of an iterator to `items`. During item k, `item_rng()` returns the generator of
    row k.
    """
    here = _uncounted()
    if here is None:
        items.extend(itertools.islice(iterator, count))
        return
    left = itertools.repeat(None, count)
    here.count(left, count)
    try:
        items.extend(map(SECOND, zip(left, iterator, strict=False)))
    finally:
        here.count(None)


def _uncounted() -> Reading | None:
    """Return what this thread reads, if it reads a complete batch whose rows are not counted yet."""
    here = _here()
    return here if here is not None and here.row is None else None


def narrowed(rows: Sequence[int]) -> contextlib.AbstractContextManager[object]:
    """Return the reading of some rows of a batch, for the part of a dataset that contains them."""
    here = _here()
    if here is None or here.row is not None or here.places is None:
        return contextlib.nullcontext()
    return Reading(here.seed, here.epoch, [here.places[row] for row in rows], None, here.generators)


def draws_so_far() -> dict[int, Any]:
    """Return the states of the generators of all rows that have been used, by place, for `begin_draws_again`."""
    here = _here()
    if here is None or here.places is None or not here.generators:
        return {}
    used = [place for place in here.places if place in here.generators]
    return {place: copy.deepcopy(here.generators[place].bit_generator.state) for place in used}


def begin_draws_again(states: dict[int, Any]) -> None:
    """Set the generators of all rows back to `states` from `draws_so_far`, because the rows are read again."""
    here = _here()
    if here is None or here.places is None or not here.generators:
        return
    for place in here.places:
        if place in states:
            here.generators[place].bit_generator.state = states[place]
        else:
            here.generators.pop(place, None)


def aside() -> Reading:
    """Return a reading for items that are read and dropped, whose draws must not change those of other items."""
    return Reading(0, 0, [0], 0)


def unread() -> Reading:
    """Return a reading in which `item_rng` raises an error."""
    return Reading(0, 0, None)


def _here() -> Reading | None:
    return getattr(threading.current_thread(), "item_reading", None)
