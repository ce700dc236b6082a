"""Which words are hidden, drawn anew at each visit from (seed, epoch, example index). B batch, T sequence, M slots, V
vocabulary.

Every position of every example has its own random bits, so what an example shows depends on nothing else in its batch.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from funcnet.data import draw_bits, to_integers, to_uniform

CHOOSE, KIND, REPLACEMENT = 0, 1, 2  # the three draws a position has


@dataclass(frozen=True)
class Masking:
    """How words are hidden: BERT's 15 %, of which 80 % show `[MASK]`, 10 % a random word and 10 % themselves.

    Attributes:
        mask_id: the id of `[MASK]`.
        never: ids that are neither hidden nor shown as a random word: the special tokens.
        vocab_size: V; random words come from all other ids below it.
        max_predictions: M, the most hidden positions of a sequence.
        share: of the maskable positions that are hidden, rounded; at least one.
        mask_share, random_share: of the hidden ones, those that show `[MASK]` and a random word.

    Reference: create_masked_lm_predictions in
    https://github.com/google-research/bert/blob/master/create_pretraining_data.py
    """

    mask_id: int
    never: tuple[int, ...]
    vocab_size: int
    max_predictions: int
    share: float = 0.15
    mask_share: float = 0.8
    random_share: float = 0.1

    def __call__(
        self,
        tokens: NDArray[np.int32],
        maskable: NDArray[np.bool_],
        *,
        seed: int,
        epoch: int,
        examples: NDArray[np.int64],
    ) -> dict[str, NDArray[Any]]:
        """Hides words of a batch.

        Args:
            tokens: (B, T) int32 ids.
            maskable: (B, T) where words may be hidden; ids in `never` are excepted here too.
            seed, epoch: of the draw.
            examples: (B,) the examples' indices in their dataset.

        Returns:
            `input_ids` (B, T) int32; `masked_positions` (B, M) int32, ascending, unused slots 0; `masked_ids` (B, M)
            int32, the words that were there, unused slots 0; `masked_weights` (B, M) float32, 1 at used slots, 0 at
            others.

        Example:
            >>> hide = Masking(mask_id=4, never=(0, 1, 2, 3, 4), vocab_size=50, max_predictions=3)
            >>> tokens = np.arange(5, 25, dtype=np.int32)[None]
            >>> batch = hide(tokens, tokens > 0, seed=0, epoch=0, examples=np.array([7]))
            >>> batch["masked_weights"].tolist()
            [[1.0, 1.0, 1.0]]
            >>> tokens[0, batch["masked_positions"][0]].tolist() == batch["masked_ids"][0].tolist()
            True
        """
        length = tokens.shape[1]
        slots = self.max_predictions
        maskable = maskable & self._ordinary[tokens]
        counts = maskable.sum(1)
        used = np.clip(np.rint(counts * self.share).astype(np.int64), 1, slots)
        used = np.minimum(used, counts)

        bits = draw_bits(seed, epoch, np.asarray(examples)[:, None], np.arange(length) * 4 + CHOOSE)
        keys = np.where(maskable, bits >> np.uint64(1), np.uint64(2**64 - 1))
        lowest = np.argsort(keys, axis=1, kind="stable")[:, :slots]  # (B, min(M, T))
        if length < slots:
            lowest = np.pad(lowest, ((0, 0), (0, slots - length)))
        taken = np.arange(slots) < used[:, None]
        positions = np.sort(np.where(taken, lowest, length), axis=1)  # ascending, unused slots last
        positions = np.where(taken, positions, 0)

        labels = np.where(taken, np.take_along_axis(tokens, positions, 1), 0)
        where = (seed, epoch, np.asarray(examples)[:, None])
        kind = to_uniform(draw_bits(*where, positions * 4 + KIND))
        words = self._words
        random_words = words[to_integers(draw_bits(*where, positions * 4 + REPLACEMENT), len(words))]
        shown = np.where(kind < self.mask_share, self.mask_id, labels)
        shown = np.where((kind >= self.mask_share) & (kind < self.mask_share + self.random_share), random_words, shown)
        input_ids = np.pad(tokens, ((0, 0), (0, 1)))  # a column for the unused slots to write to
        np.put_along_axis(input_ids, np.where(taken, positions, length), shown.astype(np.int32), 1)
        return {
            "input_ids": np.ascontiguousarray(input_ids[:, :length]),
            "masked_positions": positions.astype(np.int32),
            "masked_ids": labels.astype(np.int32),
            "masked_weights": taken.astype(np.float32),
        }

    @cached_property
    def _ordinary(self) -> NDArray[np.bool_]:
        """(V,) whether an id is an ordinary word."""
        ordinary = np.ones(self.vocab_size, np.bool_)
        ordinary[list(self.never)] = False
        return ordinary

    @cached_property
    def _words(self) -> NDArray[np.int64]:
        """The ids that a random word is drawn from."""
        return np.flatnonzero(self._ordinary)


def default_predictions(seq_len: int, share: float = 0.15) -> int:
    """The slots that hold the hidden share of a full sequence, rounded up.

    Example:
        >>> default_predictions(128), default_predictions(512)
        (20, 77)
    """
    return max(1, math.ceil(round(seq_len * share, 6)))
