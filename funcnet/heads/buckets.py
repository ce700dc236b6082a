"""Rows of many lengths through a few compiled programs: sorted by length, and padded to one of a few lengths.

Letters: `B rows of a batch, T tokens of a row`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from numpy.typing import NDArray

from funcnet.heads.head import TokenRow

__all__ = ["FINE_LENGTHS", "LENGTHS", "Answered", "Bucketed", "bucket", "pad"]

# Padding to the next of these costs a sixth on average; doubling would cost a third, and half as many programs.
LENGTHS = (16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)
# For many texts, where a program more soon pays: padding costs a tenth.
FINE_LENGTHS = (8, 12, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384, 448, 512)


def bucket(length: int, lengths: Sequence[int]) -> int:
    """The padded length of a text: the next of `lengths`, at most the last.

    >>> [bucket(n, (16, 24, 100)) for n in (1, 17, 64, 100)]
    [16, 24, 100, 100]
    """
    return next((size for size in lengths if size >= length), lengths[-1])


def pad(rows: Sequence[TokenRow], count: int, length: int, pad_id: int) -> dict[str, NDArray[np.int32]]:
    """Rows as one batch, in Hugging Face's names; rows that fill it up see their first token alone.

    Args:
        rows: at most `count`, each of at most `length` tokens.
        count, length: B and T.
        pad_id: of `[PAD]`.

    Returns:
        `input_ids`, `token_type_ids`, `attention_mask`: (B, T) int32.
    """
    ids, types, mask = np.full((count, length), pad_id, np.int32), *np.zeros((2, count, length), np.int32)
    mask[len(rows) :, 0] = 1
    for place, row in enumerate(rows):
        tokens = row.ids
        size = len(tokens)
        ids[place, :size], types[place, :size], mask[place, :size] = tokens, row.type_ids, 1
    return {"input_ids": ids, "token_type_ids": types, "attention_mask": mask}


class Answered(NamedTuple):
    """What a batch gave.

    Attributes:
        indices: which of the texts its rows are, without those that only fill it up.
        outputs: what the function gave for those rows, as numpy arrays.
    """

    indices: list[int]
    outputs: Any


class Bucketed:
    """A function of padded batches that takes rows of any length, and compiles once for each padded shape.

    Args:
        function: `(params, state, batch) -> tree of arrays` whose first dimension is B. Jitted here.
        params, state: put on the device once.
        longest: the most tokens that the model takes.
        pad_id: of `[PAD]`.
        lengths: the values that T may have, ascending, besides `longest`; such as `LENGTHS`.
        tokens: B · T of a batch, for every T: so all batches take about the same time and memory. None: 1,024 on a CPU,
            where more falls out of its caches (4,096 take 1.6 times as long), else 16,384.
        sizes: in place of `tokens`: the values that B may have, ascending; a batch is filled up to the next.

    A call is safe from several threads: nothing of it is kept here.

    Example:
        >>> from funcnet import text
        >>> tokenizer = text.train_wordpiece(["a b c d e"] * 2, vocab_size=12)
        >>> lengths = lambda params, state, batch: batch["attention_mask"].sum(1)
        >>> count = Bucketed(lengths, {}, {}, longest=64, pad_id=0, lengths=[16, 24], tokens=48)
        >>> found = count(tokenizer.encode_batch(["a b", "c", "a b c d e " * 4]))
        >>> [(indices, lengths.tolist()) for indices, lengths in found]
        [([2, 0], [22, 4]), ([1], [3])]
    """

    def __init__(
        self,
        function: Callable[[Any, Any, Any], Any],
        params: Any,
        state: Any,
        *,
        longest: int,
        pad_id: int,
        lengths: Sequence[int],
        tokens: int | None = None,
        sizes: Sequence[int] | None = None,
    ):
        self.params, self.state = jax.device_put((params, state))
        self.function = jax.jit(function)
        self.lengths = (*(length for length in lengths if length < longest), longest)
        self.longest, self.pad_id = longest, pad_id
        default = 1024 if jax.default_backend() == "cpu" else 16_384
        self._tokens, self._sizes = default if tokens is None else tokens, sizes

    def sizes(self, length: int) -> tuple[int, ...]:
        """The values of B for a padded length, ascending."""
        return (max(1, self._tokens // length),) if self._sizes is None else tuple(self._sizes)

    def shapes(self) -> list[tuple[int, int]]:
        """Every (B, T) that a program may be compiled for."""
        return [(size, length) for length in self.lengths for size in self.sizes(length)]

    def compile(self, progress: Callable[[int, int], None] = lambda done, of: None) -> None:
        """Compiles for every shape now, so that no later call waits; calls `progress(done, of)` after each."""
        shapes = self.shapes()
        for done, (size, length) in enumerate(shapes, 1):
            jax.block_until_ready(self._dispatch([], size, length))
            progress(done, len(shapes))

    def __call__(self, rows: Sequence[TokenRow]) -> Iterator[Answered]:
        """All rows, the longest first, in batches of about one length; the next is under way while one is taken."""
        sizes = [len(row.ids) for row in rows]
        order = sorted(range(len(rows)), key=lambda index: -sizes[index])
        under_way: deque[Answered] = deque()
        start = 0
        while start < len(order):
            length = bucket(sizes[order[start]], self.lengths)
            most = self.sizes(length)
            indices = order[start : start + most[-1]]
            start += len(indices)
            outputs = self._dispatch([rows[index] for index in indices], bucket(len(indices), most), length)
            under_way.append(Answered(indices, outputs))
            if len(under_way) > 1:
                yield _fetched(under_way.popleft())
        while under_way:
            yield _fetched(under_way.popleft())

    def _dispatch(self, rows: Sequence[TokenRow], size: int, length: int) -> Any:
        return self.function(self.params, self.state, pad(rows, size, length, self.pad_id))


def _fetched(batch: Answered) -> Answered:
    outputs = jax.device_get(batch.outputs)
    return Answered(batch.indices, jax.tree.map(lambda array: array[: len(batch.indices)], outputs))
