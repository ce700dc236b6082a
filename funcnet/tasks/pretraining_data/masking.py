"""Masking of words. The masked words of an example depend on (seed, epoch, example index).

Every position of every example has separate random bits, so the masked words do not depend on the other examples of the
batch.

Letters: B batch, T sequence, M slots, V vocabulary.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from funcnet.data import draw_bits, to_integers, to_uniform
from funcnet.text import vocabulary

__all__ = ["Masking", "default_predictions", "given_masks", "word_pieces"]

CHOOSE, KIND, REPLACEMENT = 0, 1, 2  # the three random draws per position


@dataclass(frozen=True)
class Masking:
    """BERT's masking: 15 % of the words are masked. 80 % of these are replaced by `[MASK]` and 10 % by a random word;
    10 % are not replaced.

    Attributes:
        mask_id: the id of `[MASK]`.
        never: ids of the special tokens, which are neither masked nor drawn as random words.
        vocab_size: V. Random words are drawn from all ids below V that are not in `never`.
        max_predictions: M, the maximum number of masked positions per sequence.
        share: share of the maskable positions that are masked. The number of masked positions is rounded, and is at
            least one if there is a maskable position.
        mask_share, random_share: shares of the masked positions that are replaced by `[MASK]` and by a random word.
        pieces: (V,) booleans from `word_pieces`. If given, either all pieces of a word are masked or none. With None,
            each piece of a word is masked independently of the others.

    Example:
        >>> hide = Masking(mask_id=4, never=(0, 1, 2, 3, 4), vocab_size=50, max_predictions=20)
        >>> tokens = np.arange(5, 45, dtype=np.int32)[None]
        >>> batch = hide(tokens, tokens > 0, seed=0, epoch=0, examples=np.array([7]))
        >>> int(batch["masked_weights"].sum())  # 15 % of 40 words
        6

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
    pieces: NDArray[np.bool_] | None = None

    def __call__(
        self,
        tokens: NDArray[np.int32],
        maskable: NDArray[np.bool_],
        *,
        seed: int,
        epoch: int,
        examples: NDArray[np.int64],
    ) -> dict[str, NDArray[Any]]:
        """Mask words of a batch.

        Args:
            tokens: (B, T) int32 ids.
            maskable: (B, T) True at positions that may be masked. Ids in `never` are not masked at any position.
            seed, epoch: seed and epoch of the random draw.
            examples: (B,) indices in the dataset of the examples of the batch.

        Returns:
            `input_ids` (B, T) int32. `masked_positions` (B, M) int32, in increasing order, 0 in unused slots.
            `masked_ids` (B, M) int32, the original ids, 0 in unused slots. `masked_weights` (B, M) float32, 1 in used
            slots, 0 in others.

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
        lowest: NDArray[np.int64]  # (B, min(M, T))
        if self.pieces is None:
            lowest = np.argsort(keys, axis=1, kind="stable")[:, :slots]
        else:
            lowest, used = self._whole_words(keys, maskable, self.pieces[tokens], used)
        if lowest.shape[1] < slots:
            lowest = np.pad(lowest, ((0, 0), (0, slots - lowest.shape[1])))
        taken = np.arange(slots) < used[:, None]
        positions = np.sort(np.where(taken, lowest, length), axis=1)  # in increasing order, unused slots last
        positions = np.where(taken, positions, 0)

        labels = np.where(taken, np.take_along_axis(tokens, positions, 1), 0)
        shown = self._shown(labels, positions, seed, epoch, np.asarray(examples)[:, None])
        input_ids = np.pad(tokens, ((0, 0), (0, 1)))  # an extra column to which unused slots write
        np.put_along_axis(input_ids, np.where(taken, positions, length), shown.astype(np.int32), 1)
        return {
            "input_ids": np.ascontiguousarray(input_ids[:, :length]),
            "masked_positions": positions.astype(np.int32),
            "masked_ids": labels.astype(np.int32),
            "masked_weights": taken.astype(np.float32),
        }

    def _shown(
        self, labels: NDArray[Any], positions: NDArray[np.int64], seed: int, epoch: int, examples: NDArray[np.int64]
    ) -> NDArray[Any]:
        """Return the ids (B, M) that replace the masked words: that of `[MASK]`, of a random word, or of the word
        itself.
        """
        kind = to_uniform(draw_bits(seed, epoch, examples, positions * 4 + KIND))
        words = self._words
        bits = draw_bits(seed, epoch, examples, positions * 4 + REPLACEMENT)
        shown = np.where(kind < self.mask_share, self.mask_id, labels)
        is_random = (kind >= self.mask_share) & (kind < self.mask_share + self.random_share)
        return np.where(is_random, words[to_integers(bits, len(words))], shown)

    def _whole_words(
        self, keys: NDArray[np.uint64], maskable: NDArray[np.bool_], pieces: NDArray[np.bool_], most: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Mask whole words in random order, as Google's script does. A word is skipped if it has more pieces than may
        still be masked.

        `keys` (B, T) determine the order of the words. `pieces` (B, T) are True where a token continues the previous
        word. At most `most` (B,) positions are masked. Return (B, M) positions, with the masked ones first, and (B,)
        the number of masked positions.
        """
        rows, length = keys.shape
        follows = maskable & pieces
        follows[:, 1:] &= maskable[:, :-1]  # a new word starts after a position that may not be masked
        follows[:, :1] = False
        begins = maskable & ~follows
        word = np.cumsum(begins, 1) - 1 + np.arange(rows)[:, None] * length  # (B, T) numbers of words
        sizes = np.bincount(word[maskable], minlength=rows * length).reshape(rows, length)
        draws = np.full((rows, length), 2**64 - 1, np.uint64)
        draws[np.nonzero(begins)[0], word[begins] % length] = keys[begins]
        order = np.argsort(draws, axis=1, kind="stable")
        sizes = np.take_along_axis(sizes, order, 1)  # sizes of the words in random order; 0 after the last word
        chosen = np.zeros((rows, length), np.bool_)
        used = np.zeros(rows, np.int64)
        for place in range(length):
            fits = (sizes[:, place] > 0) & (used + sizes[:, place] <= most)
            used += np.where(fits, sizes[:, place], 0)
            np.put_along_axis(chosen, order[:, place : place + 1], fits[:, None], 1)
            if place % 8 == 7 and ((used == most) | (sizes[:, place] == 0)).all():
                break
        hidden = maskable & np.take_along_axis(chosen, word % length, 1)
        return np.argsort(~hidden, axis=1, kind="stable")[:, : self.max_predictions], used

    @cached_property
    def _ordinary(self) -> NDArray[np.bool_]:
        """Booleans (V,), which are True for each id that is not the id of a special token."""
        ordinary = np.ones(self.vocab_size, np.bool_)
        ordinary[list(self.never)] = False
        return ordinary

    @cached_property
    def _words(self) -> NDArray[np.int64]:
        """The ids from which random words are drawn."""
        return np.flatnonzero(self._ordinary)


def given_masks(
    tokens: NDArray[np.int32], positions: NDArray[np.int32], shown: NDArray[np.int32]
) -> dict[str, NDArray[Any]]:
    """Mask words as in an imported file, which has the masked positions and the ids at these positions. The result has
    the format of `Masking`.

    `tokens` (B, T) are the ids, `positions` (B, M) the masked positions (unused slots are -1 and come last), and
    `shown` (B, M) the ids that replace the masked words.
    """
    taken = positions >= 0
    places = np.where(taken, positions, 0)
    rows = np.nonzero(taken)[0]
    input_ids = tokens.copy()
    input_ids[rows, positions[taken]] = shown[taken]
    return {
        "input_ids": input_ids,
        "masked_positions": places.astype(np.int32),
        "masked_ids": np.where(taken, np.take_along_axis(tokens, places, 1), 0).astype(np.int32),
        "masked_weights": taken.astype(np.float32),
    }


def word_pieces(tokenizer: Tokenizer) -> NDArray[np.bool_]:
    """Return (V,) booleans, which are True for each token of the vocabulary that continues a word (`##…`).

    Example:
        >>> from funcnet.text import train_wordpiece, vocabulary
        >>> tokenizer = train_wordpiece(["aa ab"] * 2, vocab_size=9)
        >>> [token for token, piece in zip(vocabulary(tokenizer), word_pieces(tokenizer)) if piece]
        ['##a', '##b']
    """
    return np.array([token.startswith("##") for token in vocabulary(tokenizer)], np.bool_)


def default_predictions(seq_len: int, share: float = 0.15) -> int:
    """Return the number of slots that the masked words of a row without padding need, rounded up.

    Example:
        >>> default_predictions(128), default_predictions(512)
        (20, 77)
    """
    return max(1, math.ceil(round(seq_len * share, 6)))
