"""Iterable datasets whose position can be saved, and a reader that counts its position in any iterable."""

from __future__ import annotations

import contextlib
import copy
import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from funcnet.data.dataset import IterableDataset
from funcnet.data.item_rng import aside, read_next
from funcnet.data.sharing import DivisionCheck, follows_epochs, has_own_state, own_copy, share_of

__all__ = ["Cursor", "ResumableDataset"]


class ResumableDataset(IterableDataset[Any]):
    """Base class of iterable datasets with epochs and a position that can be saved.

    Each `iter(dataset)` begins the next epoch. `state_dict` describes the position of the newest iterator. The first
    `iter(dataset)` after `load_state_dict` continues at the loaded position. A subclass defines `first_state` and
    `items_from`.

    Example:
        >>> class Numbers(ResumableDataset):
        ...     def first_state(self, epoch):
        ...         return {"epoch": epoch, "row": 0}
        ...     def items_from(self, state):
        ...         while state["row"] < 4:
        ...             state["row"] += 1
        ...             yield 10 * state["epoch"] + state["row"]
        >>> numbers = Numbers()
        >>> iterator = iter(numbers)
        >>> next(iterator), numbers.state_dict()
        (1, {'epoch': 0, 'row': 1})
        >>> other = Numbers()
        >>> other.load_state_dict(numbers.state_dict())
        >>> list(other), list(other)
        ([2, 3, 4], [11, 12, 13, 14])
    """

    def __init__(self) -> None:
        self._epoch = 0  # epoch of the next iterator
        self._loaded: dict[str, Any] | None = None  # where the next iterator continues
        self._current: dict[str, Any] | None = None  # the state of the newest iterator, which updates it

    def first_state(self, epoch: int) -> dict[str, Any]:
        """Return the state at the start of an epoch: a dict of JSON values with the key "epoch"."""
        raise NotImplementedError(f"{type(self).__name__}: first_state is not defined; expected a method.")

    def items_from(self, state: dict[str, Any]) -> Iterator[Any]:
        """Yield the items that follow `state`. Before each yield, update `state` to the position after the item."""
        raise NotImplementedError(f"{type(self).__name__}: items_from is not defined; expected a method.")

    def current_state(self, state: dict[str, Any]) -> dict[str, Any]:
        """Return the state of the newest iterator. A subclass may add entries that are too slow to update per item."""
        return state

    def __iter__(self) -> Iterator[Any]:
        state = self.first_state(self._epoch) if self._loaded is None else self._loaded
        self._current, self._loaded, self._epoch = state, None, state["epoch"] + 1
        return self.items_from(state)

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch of the next iterator. A state that was loaded for a different epoch is dropped."""
        self._epoch = epoch
        if self._loaded is not None and self._loaded["epoch"] != epoch:
            self._loaded = None

    def state_dict(self) -> dict[str, Any]:
        """Return the position of the newest iterator. Before the first iterator, return the position where it will
        start.

        Returns:
            A dict, whose size does not depend on the position.
        """
        if self._loaded is not None:
            return copy.deepcopy(self._loaded)
        if self._current is not None:
            return copy.deepcopy(self.current_state(self._current))
        return self.first_state(self._epoch)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Make the next `iter(dataset)` continue at the position that `state_dict` returned as `state`.

        Raises:
            ValueError: if `state` does not have the keys that `first_state` of this class returns.
        """
        expected, got = sorted(self.first_state(0)), sorted(state)
        if expected != got:
            raise ValueError(
                f"{type(self).__name__}.load_state_dict: the state is from a different dataset; expected the keys "
                f"{expected}, got {got}."
            )
        self._loaded = copy.deepcopy(dict(state))


class Cursor:
    """Reads an iterable dataset, and keeps the position up to which it has been read, so that the position can be
    saved.

    If the source has `state_dict` and `load_state_dict`, the saved position is the state of the source. Otherwise, it
    is the number of items read so far, and a resumed cursor reads and drops that many items. The position also records
    whether the source has ended, because a source may reset its own state when it ends, so that its next epoch can
    start.

    In a worker of a loader, the cursor reads the worker's share of the source.

    Args:
        source: any iterable that can be iterated over repeatedly.

    Attributes:
        has_state: whether the source has its own state.
        ended: whether the source has ended.
        taken: number of items read or dropped since the epoch began, or since the position at which it began.

    Example:
        >>> cursor = Cursor("abc")
        >>> cursor.begin(0)
        >>> cursor.take(2), cursor.state()
        (['a', 'b'], {'skip': 2})
        >>> cursor.begin(0, {"skip": 2})
        >>> cursor.take(2), cursor.state()
        (['c'], {'cursor': 'ended'})
    """

    def __init__(self, source: Iterable[Any]):
        self.source = source
        self.has_state = has_own_state(source)
        self.ended = False
        self._share: Any = source
        self._iterator: Iterator[Any] = iter(())
        self.taken = 0
        self._asks = False  # the source has been seen to ask which worker reads it

    def begin(
        self,
        epoch: int,
        state: Any = None,
        *,
        skip: int = 0,
        after: Any = None,
    ) -> None:
        """Begin an epoch of the source at its first item, or at the position at which `state` was saved, and drop
        `skip` items.

        Args:
            epoch: number of the epoch.
            state: what `state` returned.
            skip: number of items.
            after: the state of the source at the end of the epoch before.
        """
        has_ended, before = self.ended, self._share
        self._share = share_of(self.source)
        is_end = isinstance(state, Mapping) and state.get("cursor") == "ended"
        self._iterator, self.taken, self.ended = iter(()), 0, is_end or self._share is None
        end = state.get("state") if is_end else after
        if end is not None and self.has_state and self._share is not None:
            is_there = has_ended and self._share is before and self._share.state_dict() == end
            if not is_there:
                self._load_end(end)
        if self.ended:
            return
        if follows_epochs(self._share):
            self._share.set_epoch(epoch)
        if state is not None:
            self._load(state)
        check = None if self._asks or self._share is not self.source else DivisionCheck(self.source)
        with check or contextlib.nullcontext():
            self._iterator = iter(self._share)
        if check is not None:
            self._iterator = itertools.chain(self._first(self._iterator, check), self._iterator)
        if state is not None and not self.has_state:
            skip += state["skip"]
        with aside():
            self.taken = sum(1 for _ in itertools.islice(self._iterator, skip))
        self.ended = self.taken < skip

    def _load(self, state: Any) -> None:
        """Load the state of the source, if it has one.

        Raises:
            ValueError: if the state is a number of items but the source has its own state, or vice versa.
        """
        if not self.has_state and not _is_count(state):
            raise ValueError(_unfit(self.source, "the key 'skip', because it has no load_state_dict", state))
        try:
            if self.has_state:
                self._share.load_state_dict(state)
        except Exception as error:
            if not _is_count(state):
                raise
            raise ValueError(_unfit(self.source, "a state of its own", state)) from error

    def _load_end(self, end: Any) -> None:
        """Load the state that the source had at its end, so that its next iterator begins its next epoch.

        There are three kinds of sources. Some reset their state when they end, and begin the next epoch with it. Others
        keep a state that says that they have ended. Their next iterator has no item, and the one after it begins the
        epoch. In the third kind, every later iterator begins at a loaded state, so their state at the end is not
        loaded.
        """
        probe = own_copy(self._share)
        probe.load_state_dict(end)
        with aside():
            kept = [any(True for _ in itertools.islice(iter(probe), 1)) for _ in range(2)]
        if any(kept):
            self._share.load_state_dict(end)
        if kept == [False, True]:
            list(itertools.islice(iter(self._share), 1))

    def _first(self, iterator: Iterator[Any], check: DivisionCheck) -> Iterator[Any]:
        """Yield the first item, after checking that the source can be divided among workers."""
        with check:
            items = list(itertools.islice(iterator, 1))
        if items:
            check.after_first_item()
            self._asks = True
        yield from items

    def take(self, count: int) -> list[Any]:
        """Return the next `count` items of the source, or all remaining items if there are fewer.

        Raises:
            TypeError: if there are several workers, and the source yields the same items in each of them.
        """
        items: list[Any] = []
        if self.ended:
            return items
        try:
            read_next(self._iterator, count, items)
        finally:
            self.taken += len(items)
        self.ended = len(items) < count
        return items

    def state(self) -> Any:
        """Return a copy of the position in the source, which does not change when more items are read."""
        own = copy.deepcopy(self._share.state_dict()) if self.has_state and self._share is not None else None
        if self.ended:
            return {"cursor": "ended"} if own is None else {"cursor": "ended", "state": own}
        return {"skip": self.taken} if own is None else own


def _is_count(state: object) -> bool:
    return isinstance(state, Mapping) and state.keys() == {"skip"}


def _unfit(source: object, expected: str, state: object) -> str:
    return (
        f"{type(source).__name__}: the position is from a different source; expected {expected}, got the keys "
        f"{sorted(state) if isinstance(state, Mapping) else state!r:.60}."
    )
