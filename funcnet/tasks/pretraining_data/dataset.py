"""Batches of masked pairs of segments. Array operations build all rows of a batch at once.

Letters: B batch, T sequence, M slots, P passes, N examples per epoch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from funcnet.data import Joined, pad_batch
from funcnet.data.dataset import BatchedDataset
from funcnet.data.padded import padded_batches
from funcnet.tasks.pretraining_data.masking import Masking, given_masks

__all__ = ["IGNORE", "Masks", "PretrainingDataset", "evaluation_batches", "fill_batch"]

Masks = Literal["of the visit", "of the pass"]
IGNORE = -100  # equals `funcnet.losses.IGNORE`, which would make workers import JAX
"""A label that losses ignore."""


@dataclass(frozen=True)
class PretrainingDataset(BatchedDataset):
    """A dataset of pretraining examples. Indexing it with B integers returns a batch of B masked examples.

    Epoch e uses the pairs of pass e modulo P, so successive epochs pair the text in different ways. The masked words of
    an example depend on (seed, e, index of the example). The masks differ between epochs, and are the same in a resumed
    run.

    Attributes:
        tokens: the concatenated token ids of all documents.
        pairs: for each of P passes, the columns of `build_pairs`, each (N,). Imported pairs also have masks: (N, M)
            `masked_positions`, -1 in unused slots, and (N, M) `masked_shown`, the ids that replace the masked words.
        seq_len: T.
        masking: the masking of words.
        cls_id, sep_id, pad_id: ids of `[CLS]`, `[SEP]` and `[PAD]`.
        seed: seed of the masks.
        masks: when masked words are drawn. "of the visit" draws them anew in each epoch. "of the pass" uses the same
            masks whenever a pass is repeated, as in Google's files.
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
        """Return the number of examples per epoch, N."""
        return len(self.pairs[0]["a_start"])

    @property
    def passes(self) -> int:
        """The number of passes, P."""
        return len(self.pairs)

    def at_epoch(self, epoch: int) -> PretrainingDataset:
        """Return a copy of this dataset for the epoch `epoch`, with the pairs and the masks of that epoch."""
        return replace(self, epoch=epoch % self.passes if self.masks == "of the pass" else epoch)

    def __getitems__(self, indices: Sequence[int]) -> dict[str, NDArray[Any]]:
        """Return the batch of the examples with these indices.

        Args:
            indices: (B,) integers in [0, N).

        Returns:
            A batch with Hugging Face's names. `input_ids`, `token_type_ids` (0 up to the first `[SEP]`, 1 up to the
            second, 0 after), `attention_mask` (1 at tokens, 0 at padding): (B, T) int32. `masked_positions`,
            `masked_ids` (B, M) int32 and `masked_weights` (B, M) float32: see `Masking`. `next_sentence_label` (B,)
            int32: 0 if the second segment follows the first one in the text, 1 if the second segment is random.

        Raises:
            ValueError: if a shard is damaged.
        """
        chosen = np.asarray(indices, np.int64)
        pairs = self.pairs[self.epoch % self.passes]
        column = {name: values[chosen] for name, values in pairs.items()}
        try:
            return self._batch(chosen, column)
        except IndexError as error:  # opening a folder checks the sizes of its files, not every byte
            raise ValueError(
                f"data: a shard is damaged; expected ids of the vocabulary and positions in the text, got "
                f"'{error}'. Run the same `funcnet data build` again to repair the data, or repeat the import."
            ) from error

    def _batch(self, indices: NDArray[np.int64], column: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        a_length, b_length = column["a_length"][:, None].astype(np.int64), column["b_length"][:, None].astype(np.int64)
        place = np.arange(self.seq_len)[None]
        b_place = a_length + 2  # where segment B starts: after [CLS] A [SEP]
        end = b_place + b_length
        in_a = (place >= 1) & (place <= a_length)
        in_b = (place >= b_place) & (place < end)
        source = np.where(in_a, column["a_start"][:, None] + place - 1, 0)  # (B, T)
        source = np.where(in_b, column["b_start"][:, None] + place - b_place, source)
        ids = np.where(in_a | in_b, self.tokens[source].astype(np.int32), np.int32(self.pad_id))
        ids = np.where((place == a_length + 1) | (place == end), np.int32(self.sep_id), ids)
        ids[:, 0] = self.cls_id
        if ids.max() >= self.masking.vocab_size:
            raise IndexError(f"id {ids.max()} of {self.masking.vocab_size}")
        if "masked_positions" in column:
            hidden = given_masks(ids, column["masked_positions"], column["masked_shown"])
        else:
            hidden = self.masking(ids, in_a | in_b, seed=self.seed, epoch=self.epoch, examples=indices)
        return {
            "input_ids": hidden.pop("input_ids"),
            "token_type_ids": ((place >= b_place) & (place <= end)).astype(np.int32),
            "attention_mask": (place <= end).astype(np.int32),
            **hidden,
            "next_sentence_label": column["is_random_next"].astype(np.int32),
        }


def evaluation_batches(
    dataset: PretrainingDataset, batch_size: int, own: NDArray[np.int64] | None = None
) -> Iterator[dict[str, NDArray[Any]]]:
    """Yield every example of a dataset once, in batches of equal size. The last batch is filled up with copies of an
    example, which losses and metrics ignore.

    A copy has `masked_weights` 0 and `next_sentence_label` -100. Therefore losses and metrics must ignore negative
    labels.

    Args:
        dataset: the examples to yield, such as the held-out examples.
        batch_size: B.
        own: the rows of each batch to yield. None means all rows.

    Returns:
        An iterator of batches, each of B examples, or of the examples `own` of a batch.

    Example:
        >>> column = lambda *numbers: Joined([np.array(numbers)])
        >>> pairs = {"a_start": column(0, 4, 8), "a_length": column(2, 2, 2), "is_random_next": column(0, 0, 1)}
        >>> pairs |= {"b_start": column(2, 6, 10), "b_length": column(2, 2, 2)}
        >>> masking = Masking(mask_id=4, never=(0, 1, 2, 3, 4), vocab_size=20, max_predictions=1)
        >>> ids = {"cls_id": 2, "sep_id": 3, "pad_id": 0}
        >>> dataset = PretrainingDataset(column(*range(5, 17)), [pairs], 8, masking, **ids, seed=0)
        >>> [batch["next_sentence_label"].tolist() for batch in evaluation_batches(dataset, 2)]
        [[0, 0], [1, -100]]
    """
    for batch, mask in padded_batches(dataset, batch_size, own):
        yield _only(batch, mask)


def fill_batch(batch: Mapping[str, NDArray[Any]], size: int) -> dict[str, NDArray[Any]]:
    """Fill a batch up to `size` examples with copies of its first example, which losses and metrics ignore.

    Example:
        >>> batch = {"masked_weights": np.ones((1, 2), np.float32), "next_sentence_label": np.zeros(1, np.int32)}
        >>> fill_batch(batch, 2)["next_sentence_label"].tolist()
        [0, -100]
    """
    return _only(*pad_batch(batch, size))


def _only(batch: Mapping[str, NDArray[Any]], mask: NDArray[np.bool_]) -> dict[str, NDArray[Any]]:
    """Make losses and metrics ignore the examples of a batch at which `mask` (B,) is False."""
    weights = np.where(mask[:, None], batch["masked_weights"], np.float32(0))
    labels = np.where(mask, batch["next_sentence_label"], np.int32(IGNORE))
    return {**batch, "masked_weights": weights, "next_sentence_label": labels}
