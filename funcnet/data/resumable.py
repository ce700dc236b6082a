"""Iterable datasets whose position can be saved, and a reader that counts its position in any iterable."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from funcnet.data.dataset import IterableDataset

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
    is the number of items read so far, and a resumed cursor reads and drops that many items.

    Args:
        source: any iterable that can be iterated over repeatedly.

    Example:
        >>> cursor = Cursor("abc")
        >>> cursor.begin(0)
        >>> cursor.take(2), cursor.state()
        (['a', 'b'], {'skip': 2})
        >>> cursor.begin(0, {"skip": 2})
        >>> cursor.take(2)
        ['c']
    """

    def __init__(self, source: Iterable[Any]):
        self.source = source
        self._own_state = hasattr(source, "state_dict") and hasattr(source, "load_state_dict")
        self._iterator: Iterator[Any] = iter(())
        self._taken = 0

    def begin(self, epoch: int, state: Any = None) -> None:
        """Begin an epoch of the source at its first item, or at the position at which `state` was saved."""
        source: Any = self.source
        if hasattr(source, "set_epoch"):
            source.set_epoch(epoch)
        if state is not None and self._own_state:
            source.load_state_dict(state)
        self._iterator, self._taken = iter(source), 0
        if state is not None and not self._own_state:
            self.take(state["skip"])

    def take(self, count: int) -> list[Any]:
        """Return the next `count` items of the source, or all remaining items if there are fewer."""
        items = list(itertools.islice(self._iterator, count))
        self._taken += len(items)
        return items

    def state(self) -> Any:
        """Return the position in the source, as a copy that does not change when more items are read."""
        source: Any = self.source
        return copy.deepcopy(source.state_dict()) if self._own_state else {"skip": self._taken}
