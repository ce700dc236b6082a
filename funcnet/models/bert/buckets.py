"""Texts of many lengths through a few compiled programs: padded to one of a few lengths, gathered by length.

Letters: `B rows of a batch, T tokens of a row`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from numpy.typing import NDArray
from tokenizers import Encoding

__all__ = ["LENGTHS", "Answered", "Bucketed", "bucket", "pad"]

# Padding to the next of these costs a sixth on average; doubling would cost a third, and half as many programs.
LENGTHS = (16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)

Batch = Mapping[str, NDArray[Any]]


def bucket(length: int, longest: int) -> int:
    """The padded length of a text: the next of `LENGTHS`, at most `longest`.

    >>> [bucket(n, 100) for n in (1, 17, 64, 97)]
    [16, 24, 64, 100]
    """
    return min(next((size for size in LENGTHS if size >= length), longest), longest)


def pad(encodings: Sequence[Encoding], rows: int, length: int, pad_id: int) -> dict[str, NDArray[np.int32]]:
    """Encodings as one batch, in Hugging Face's names; rows that fill it up see their first token alone.

    Args:
        encodings: at most `rows`, each of at most `length` tokens.
        rows, length: B and T.
        pad_id: of `[PAD]`.

    Returns:
        `input_ids`, `token_type_ids`, `attention_mask`: (B, T) int32.
    """
    ids, types, mask = np.full((rows, length), pad_id, np.int32), *np.zeros((2, rows, length), np.int32)
    mask[len(encodings) :, 0] = 1
    for row, encoding in enumerate(encodings):
        size = len(encoding)
        ids[row, :size], types[row, :size], mask[row, :size] = encoding.ids, encoding.type_ids, 1
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
    """A function of padded batches that takes encodings of any length, and compiles for each padded length once.

    Args:
        function: `(params, state, batch) -> tree of arrays` whose first dimension is B. Jitted here.
        params, state: put on the device once.
        longest: the most tokens that the model takes.
        pad_id: of `[PAD]`.
        tokens: B · T of a batch, for every T: so all batches take about the same time and memory.

    A call is safe from several threads: nothing of it is kept here.

    Example:
        >>> from funcnet import text
        >>> tokenizer = text.train_wordpiece(["a b c d e"] * 2, vocab_size=12)
        >>> count = Bucketed(lambda p, s, b: b["attention_mask"].sum(1), {}, {}, longest=64, pad_id=0, tokens=48)
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
        tokens: int = 4096,
    ):
        self.params, self.state = jax.device_put((params, state))
        self.function = jax.jit(function)
        self.longest, self.pad_id, self.tokens = longest, pad_id, tokens

    def rows(self, length: int) -> int:
        """B for a padded length."""
        return max(1, self.tokens // length)

    def compile(self, lengths: Sequence[int] = LENGTHS) -> None:
        """Compiles for these lengths now, so that no later call waits for it."""
        for length in {bucket(length, self.longest) for length in lengths}:
            jax.block_until_ready(self._dispatch([], length))

    def __call__(self, encodings: Sequence[Encoding]) -> Iterator[Answered]:
        """All texts, the longest first, in batches of about one length; the next is under way while one is taken."""
        order = sorted(range(len(encodings)), key=lambda index: -len(encodings[index]))
        under_way: deque[Answered] = deque()
        start = 0
        while start < len(order):
            length = bucket(len(encodings[order[start]]), self.longest)
            indices = order[start : start + self.rows(length)]
            start += len(indices)
            under_way.append(Answered(indices, self._dispatch([encodings[index] for index in indices], length)))
            if len(under_way) > 1:
                yield _fetched(under_way.popleft())
        while under_way:
            yield _fetched(under_way.popleft())

    def _dispatch(self, encodings: Sequence[Encoding], length: int) -> Any:
        return self.function(self.params, self.state, pad(encodings, self.rows(length), length, self.pad_id))


def _fetched(batch: Answered) -> Answered:
    outputs = jax.device_get(batch.outputs)
    return Answered(batch.indices, jax.tree.map(lambda array: array[: len(batch.indices)], outputs))
