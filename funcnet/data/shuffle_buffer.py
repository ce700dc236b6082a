"""Shuffle an iterable dataset in blocks, with a state that does not contain the buffer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from funcnet.arguments import integer
from funcnet.data.checks import require_iterable
from funcnet.data.hashed_draws import draw_bits, permute
from funcnet.data.item_rng import unread
from funcnet.data.resumable import Cursor, ResumableDataset
from funcnet.data.sharing import own_copy

__all__ = ["ShuffleBuffer"]


class ShuffleBuffer(ResumableDataset):
    """An iterable dataset that shuffles another one in blocks of `buffer_size` consecutive items.

    The order inside a block depends only on (seed, epoch, number of the block). For each item that is emitted, one item
    of the next block is read, so the buffer always has about `buffer_size` items, and there is no pause between blocks.
    The first item comes when the first block is full.

    The state of a `ShuffleBuffer` contains the state of the source at the start of the current block, and the number of
    items of this block that were already emitted. After `load_state_dict`, the block is read again, and the remaining
    items are exactly those that would have followed.

    Args:
        source: an iterable dataset. The dataset should have `state_dict` and `load_state_dict`. Without these methods,
            a resumed run reads and drops the items before the current block. If the dataset has `set_epoch`, this
            method is called at the start of each epoch.
        buffer_size: number of items per block.
        seed: seed for the random order.

    Raises:
        ValueError: if `buffer_size` is below 1.
        TypeError: if `source` cannot be iterated over, or another argument is not an integer.

    Random draws per item belong after the buffer: `item_rng` raises an error in the source, because the source is read
    before it is known which item comes next.

    Differs from torch: `Shuffler` of torch's data pipes replaces one random item of the buffer at a time, and its state
    contains the buffer.

    Example:
        >>> shuffled = ShuffleBuffer(range(10), 5, seed=1)
        >>> iterator = iter(shuffled)
        >>> start, state = [next(iterator) for _ in range(7)], shuffled.state_dict()
        >>> sorted(start[:5]), state
        ([0, 1, 2, 3, 4], {'epoch': 0, 'block': 1, 'emitted': 2, 'source': {'skip': 5}})
        >>> rest = list(iterator)
        >>> shuffled.load_state_dict(state)
        >>> list(shuffled) == rest
        True
    """

    def __init__(self, source: Iterable[Any], buffer_size: int, *, seed: int = 0):
        super().__init__()
        require_iterable("ShuffleBuffer", "source", source, "an iterable dataset")
        integer("ShuffleBuffer", "buffer_size", buffer_size, 1)
        integer("ShuffleBuffer", "seed", seed)
        self.source, self.buffer_size, self.seed = source, buffer_size, seed

    def __copy__(self) -> ShuffleBuffer:
        """Return a copy with a copy of the source, so that each worker thread has its own position."""
        new = object.__new__(type(self))
        new.__dict__.update(self.__dict__, source=own_copy(self.source))
        return new

    def first_state(self, epoch: int) -> dict[str, Any]:
        """Return the state of the dataset at the start of an epoch."""
        return {"epoch": epoch, "block": 0, "emitted": 0, "source": None}

    def items_from(self, state: dict[str, Any]) -> Iterator[Any]:
        """Yield the items after the position `state`, and update `state` to the position after each item."""
        cursor = Cursor(self.source)
        cursor.begin(state["epoch"], state["source"])
        if state["source"] is None:
            state["source"] = cursor.state()
        key = int(draw_bits(self.seed, state["epoch"]))
        with unread():  # the items of a block have no place in the epoch yet
            block = cursor.take(self.buffer_size)
        while block:
            following_state, following = cursor.state(), []
            order = permute(np.arange(len(block)), len(block), seed=key, epoch=state["block"])
            for place in order[state["emitted"] :].tolist():
                item, block[place] = block[place], None  # the item is freed when the consumer drops it
                with unread():
                    following += cursor.take(1)
                state["emitted"] += 1
                yield item
            with unread():
                following += cursor.take(self.buffer_size - len(following))
            state.update(block=state["block"] + 1, emitted=0, source=following_state)
            block = following
