"""Pairs of segments and masking -> batches, with one array operation for all rows.

B batch, T sequence, M slots, P passes, N examples of an epoch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from funcnet.data import DataLoader, Joined
from funcnet.tasks.pretraining_data.masking import Masking, given_masks

__all__ = ["IGNORE", "Masks", "PretrainingDataset", "evaluation_batches", "fill_batch"]

Masks = Literal["of the visit", "of the pass"]
IGNORE = -100  # a label that is not counted; equal to that of `bert.losses`, which workers of a build need not import


@dataclass(frozen=True)
class PretrainingDataset:
    """A dataset that returns a batch for (B,) indices.

    Epoch e uses the pairs of pass e modulo P, so each epoch pairs the text in another way, and draws its masks from
    (seed, e, index): an example has other masks at its next visit, and the same masks in a resumed run.

    Attributes:
        tokens: ids of all documents, one after the other.
        pairs: for each of P passes the columns of `build_pairs`, each (N,). Imported pairs have masks too: (N, M)
            `masked_positions`, -1 in unused slots, and `masked_shown`, the ids that are shown there.
        seq_len: T.
        masking: how words are hidden.
        cls_id, sep_id, pad_id: ids of `[CLS]`, `[SEP]` and `[PAD]`.
        seed: of the masks.
        masks: "of the visit": drawn again in each epoch; "of the pass": the same whenever a pass is repeated, as in
            Google's files.
        epoch: e.
    """

    tokens: Joined
    pairs: Sequence[Mapping[str, Joined]]
    seq_len: int
    masking: Masking
    cls_id: int
    sep_id: int
    pad_id: int
    seed: int
    masks: Masks = "of the visit"
    epoch: int = 0

    def __len__(self) -> int:
        """N, the number of examples in every epoch."""
        return len(self.pairs[0]["a_start"])

    @property
    def passes(self) -> int:
        """P, the number of passes."""
        return len(self.pairs)

    def at_epoch(self, epoch: int) -> PretrainingDataset:
        """The dataset of one epoch."""
        return replace(self, epoch=epoch % self.passes if self.masks == "of the pass" else epoch)

    def __getitem__(self, indices: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
        """The batch of the chosen examples.

        Args:
            indices: (B,) integers in [0, N).

        Returns:
            A batch with Hugging Face's names. `input_ids`, `token_type_ids` (0 up to the first `[SEP]`, 1 up to the
            second, 0 after), `attention_mask` (1 at tokens, 0 at padding): (B, T) int32. `masked_positions`,
            `masked_ids` (B, M) int32 and `masked_weights` (B, M) float32: see `Masking`. `next_sentence_label` (B,)
            int32: 0 if B follows A, 1 if it is random.
        """
        pairs = self.pairs[self.epoch % self.passes]
        column = {name: values[indices] for name, values in pairs.items()}
        try:
            return self._batch(indices, column)
        except IndexError as error:  # opening a folder checks the sizes of its files, not every byte
            raise ValueError(
                f"data: a shard has damaged bytes; expected words of the vocabulary and places in the text, got "
                f"'{error}'. Run the same `funcnet data build` again: it repairs what is damaged; or import it again."
            ) from error

    def _batch(self, indices: NDArray[np.int64], column: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        a_length, b_length = column["a_length"][:, None].astype(np.int64), column["b_length"][:, None].astype(np.int64)
        place = np.arange(self.seq_len)[None]
        b_place = a_length + 2  # where B starts: after [CLS] A [SEP]
        end = b_place + b_length
        in_a = (place >= 1) & (place <= a_length)
        in_b = (place >= b_place) & (place < end)
        source = np.where(in_a, column["a_start"][:, None] + place - 1, 0)  # (B, T)
        source = np.where(in_b, column["b_start"][:, None] + place - b_place, source)
        ids = np.where(in_a | in_b, self.tokens[source].astype(np.int32), np.int32(self.pad_id))
        ids = np.where((place == a_length + 1) | (place == end), np.int32(self.sep_id), ids)
        ids[:, 0] = self.cls_id
        if ids.max() >= self.masking.vocab_size:
            raise IndexError(f"the word {ids.max()} of {self.masking.vocab_size}")
        if "masked_positions" in column:
            hidden = given_masks(ids, column["masked_positions"], column["masked_shown"])
        else:
            hidden = self.masking(ids, in_a | in_b, seed=self.seed, epoch=self.epoch, examples=np.asarray(indices))
        return {
            "input_ids": hidden.pop("input_ids"),
            "token_type_ids": ((place >= b_place) & (place <= end)).astype(np.int32),
            "attention_mask": (place <= end).astype(np.int32),
            **hidden,
            "next_sentence_label": column["is_random_next"].astype(np.int32),
        }


def evaluation_batches(dataset: PretrainingDataset, batch_size: int) -> Iterator[dict[str, NDArray[Any]]]:
    """Every held-out example once, in batches of one size: the last one is filled with copies that are not counted.

    A copy has `masked_weights` 0 and `next_sentence_label` -100, so losses and metrics must ignore negative labels.

    Args:
        dataset: any `PretrainingDataset`.
        batch_size: B.

    Returns:
        An iterator of batches, each of B examples.
    """
    for batch in DataLoader(dataset, batch_size).epoch(0):
        missing = batch_size - len(batch["input_ids"])
        yield fill_batch(batch, batch_size) if missing else batch


def fill_batch(batch: Mapping[str, NDArray[Any]], size: int) -> dict[str, NDArray[Any]]:
    """Fill a batch up to `size` examples with copies of its first example that are not counted.

    Example:
        >>> batch = {"masked_weights": np.ones((1, 2), np.float32), "next_sentence_label": np.zeros(1, np.int32)}
        >>> fill_batch(batch, 2)["next_sentence_label"].tolist()
        [0, -100]
    """
    real = len(batch["next_sentence_label"])
    filled = {name: np.concatenate([values, np.repeat(values[:1], size - real, 0)]) for name, values in batch.items()}
    filled["masked_weights"][real:] = 0
    filled["next_sentence_label"][real:] = IGNORE
    return filled
