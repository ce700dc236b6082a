"""Packing of several short examples into one row. The examples of a row do not attend to each other.

The examples of a row are chosen when the pairs are built (column `row`), because the choice depends on all lengths. The
examples of a row are then stored one after the other. In a packed row, the positions of each example start at 0, and
each example attends only to itself. The masks and the next-sentence label of an example are the same as in a row with
this example alone. Therefore the model's outputs and the loss for this example are the same too.

Letters: B rows, T tokens, at most P examples per row, M slots for masked words, N examples per batch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from funcnet.data.dataset import BatchedDataset
from funcnet.tasks.pretraining_data.dataset import IGNORE, PretrainingDataset

__all__ = ["PackedDataset", "most_examples", "number_of_rows", "share_rows"]

SHORTEST = 5  # tokens of an example: [CLS] a [SEP] b [SEP]


def most_examples(seq_len: int) -> int:
    """Return P, the maximum number of examples per row: one per 16 tokens."""
    return max(seq_len // 16, 1)


def share_rows(lengths: NDArray[Any], seq_len: int, random: np.random.Generator) -> NDArray[np.int32]:
    """Assign N examples to rows, the longest ones first. Each example goes to the row in which it leaves the least free
    space (best fit).

    `lengths` (N,) count special tokens, and are from 5 to `seq_len`. Rows are numbered from 0 in random order.

    Reference: Krell et al. 2021, arXiv:2107.02027
    """
    most = most_examples(seq_len)
    order = np.argsort(-lengths, kind="stable")
    alone = int((lengths > seq_len - SHORTEST).sum())
    rows = np.empty(len(lengths), np.int32)
    rows[order[:alone]] = np.arange(alone)
    free: list[list[tuple[int, int]]] = [[] for _ in range(seq_len + 1)]  # free[s]: rows with s free tokens
    spaces = 0  # bit s is set if a row has s free tokens
    number = alone
    for place, length in zip(order[alone:].tolist(), lengths[order[alone:]].tolist(), strict=True):
        fitting = spaces >> length
        if fitting:
            space = length + (fitting & -fitting).bit_length() - 1
            row, count = free[space].pop()
            if not free[space]:
                spaces ^= 1 << space
        else:
            row, count, space = number, 0, seq_len
            number += 1
        rows[place] = row
        left = space - length
        if left >= SHORTEST and count + 1 < most:
            free[left].append((row, count + 1))
            spaces |= 1 << left
    return random.permutation(number).astype(np.int32)[rows]


def number_of_rows(row: NDArray[np.int32]) -> int:
    """Return the number of packed rows, from a column with the row number of each example. Row numbers must be in
    increasing order.
    """
    return int(row[-1]) + 1 if len(row) else 0


@dataclass(frozen=True)
class PackedDataset(BatchedDataset):
    """A dataset of packed rows. Indexing it with an array of B row numbers returns a batch of B rows. The rows contain
    the examples of `examples`, with the epochs and the masked words of that dataset.

    The pairs of `examples` have a column `row`, in increasing order in each shard, with the same number of rows in each
    pass.
    """

    examples: PretrainingDataset

    def __len__(self) -> int:
        """Return the number of rows per epoch, R."""
        return int(self.first_rows[-1])

    @property
    def seq_len(self) -> int:
        return self.examples.seq_len

    @property
    def slots(self) -> int:
        """M, the number of slots for masked words in a packed row. In an example of n words, max(1, round(0.15 n))
        words are masked, which is at most 0.15 n + 0.7 (for n = 2). P examples in T tokens have T - 3 P words, so at
        most 0.15 T + 0.25 P of them are masked.
        """
        masking, most = self.examples.masking, most_examples(self.seq_len)
        return min(math.ceil(round(masking.share * self.seq_len + most / 4, 6)), most * masking.max_predictions)

    def at_epoch(self, epoch: int) -> PackedDataset:
        """Return a copy of this dataset for the epoch `epoch`, with the pairs and the masks of that epoch."""
        return PackedDataset(self.examples.at_epoch(epoch))

    def __getitems__(self, indices: Sequence[int]) -> dict[str, NDArray[Any]]:
        """Return the batch of the packed rows with these numbers, (B,) integers in [0, R).

        The batch has the arrays of `PretrainingDataset`, except that `next_sentence_label` is (B, P) int32. If a row
        has fewer than P examples, the remaining labels are -100. The batch also has three other arrays. `sequence_ids`
        (B, T) int32 is the number of the example in its row, from 1, and 0 at padding. `position_ids` (B, T) int32
        starts at 0 in each example. `pooled_positions` (B, P) int32 is the position at which each example begins.
        """
        first, count = self._examples(np.asarray(indices, np.int64))
        before = np.cumsum(count) - count
        owner = np.repeat(np.arange(len(count)), count)  # (N,) row of the batch
        number = np.arange(len(owner)) - before[owner]  # (N,) its position in that row
        return self._pack(self.examples[first[owner] + number], owner, number, len(count))

    @cached_property
    def first_rows(self) -> NDArray[np.int64]:
        """Array with the number of the first packed row of each shard. Its last entry is the total number of rows."""
        columns = self.examples.pairs[0]["row"].arrays
        return np.concatenate([[0], np.cumsum([number_of_rows(column) for column in columns])])

    def _examples(self, rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return two arrays (B,): the index of the first example in each packed row, and the number of examples in the
        row.
        """
        examples, first_rows = self.examples, self.first_rows
        columns = examples.pairs[examples.epoch % examples.passes]["row"].arrays
        shards = np.searchsorted(first_rows, rows, "right") - 1
        sizes = np.array([len(column) for column in columns])
        before = np.cumsum(sizes) - sizes
        first, last = np.empty_like(rows), np.empty_like(rows)
        for shard in np.unique(shards).tolist():
            here = shards == shard
            wanted = (rows[here] - first_rows[shard]).astype(columns[shard].dtype)
            first[here] = before[shard] + np.searchsorted(columns[shard], wanted, "left")
            last[here] = before[shard] + np.searchsorted(columns[shard], wanted, "right")
        return first, last - first

    def _pack(
        self, batch: dict[str, NDArray[Any]], owner: NDArray[np.int64], number: NDArray[np.int64], rows: int
    ) -> dict[str, NDArray[Any]]:
        """Pack a batch of N examples into a batch of B rows. Example n is the one with index `number[n]` in row
        `owner[n]`.
        """
        length, most = self.seq_len, most_examples(self.seq_len)
        real = batch["attention_mask"].astype(np.bool_)  # (N, T)
        lengths = real.sum(1)
        ends = np.cumsum(lengths)
        start = ends - lengths
        start = start - start[number == 0][owner]  # (N,) position in its row at which the example begins
        target = (owner * length + start)[:, None] + np.arange(length)

        def spread(values: NDArray[Any], fill: int = 0) -> NDArray[np.int32]:
            out = np.full(rows * length, fill, np.int32)
            out[target[real]] = np.broadcast_to(values, real.shape)[real]
            return out.reshape(rows, length)

        used = batch["masked_weights"] == 1  # (N, M of one example)
        counts = used.sum(1)
        slot = np.arange(counts.sum()) - (np.cumsum(counts) - counts)[number == 0][np.repeat(owner, counts)]

        def gather(values: NDArray[Any]) -> NDArray[Any]:
            out = np.zeros((rows, self.slots), values.dtype)
            out[np.repeat(owner, counts), slot] = values[used]
            return out

        labels = np.full((rows, most), IGNORE, np.int32)
        labels[owner, number] = batch["next_sentence_label"]
        begins = np.zeros((rows, most), np.int32)
        begins[owner, number] = start
        return {
            "input_ids": spread(batch["input_ids"], self.examples.pad_id),
            "token_type_ids": spread(batch["token_type_ids"]),
            "attention_mask": spread(np.ones((), np.int32)),
            "sequence_ids": spread(number[:, None] + 1),
            "position_ids": spread(np.arange(length)),
            "masked_positions": gather(batch["masked_positions"] + start[:, None].astype(np.int32)),
            "masked_ids": gather(batch["masked_ids"]),
            "masked_weights": gather(batch["masked_weights"]),
            "pooled_positions": begins,
            "next_sentence_label": labels,
        }
