"""Rows of many lengths -> batches of few shapes, so that short texts are cheap and few programs are compiled.

Each row is padded to the shortest of a few lengths that is long enough. Rows that do not fill a batch of their length
are padded to the next length. An epoch therefore has ceil(N / B) batches and contains each row once. All epochs have
the same shapes, so nothing is compiled after the first epoch. The batch of a step depends only on (seed, step).
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from funcnet.data import permute
from funcnet.tasks.finetuning.rows import Rows

__all__ = ["BucketLoader", "Planned", "bucket_lengths"]

STEP = 8  # lengths are multiples of this number


class Planned(NamedTuple):
    """The rows of a batch, and the length that they are padded to."""

    rows: NDArray[np.int64]
    length: int


class BucketLoader:
    """Arranges encoded rows in batches.

    Args:
        rows: N rows.
        batch_size: number of rows per batch, B, over all devices. The last batch is filled up with padding rows.
        lengths: padded lengths of `bucket_lengths`, in increasing order. The last length is enough for every row.
        pad_id: id of `[PAD]`.
        seed: seed of the order of the rows, which differs between epochs.

    Example:
        >>> starts = np.cumsum([0, 3, 9, 4, 3])
        >>> rows = Rows(np.arange(19, dtype=np.int32), np.zeros(19, np.uint8), starts)
        >>> loader = BucketLoader(rows, 2, lengths=[4, 16], pad_id=0)
        >>> sorted((sorted(batch.rows.tolist()), batch.length) for batch in loader.plan(0))
        [([0, 1], 16), ([2, 3], 4)]
    """

    def __init__(
        self,
        rows: Rows,
        batch_size: int,
        lengths: list[int],
        *,
        pad_id: int,
        seed: int = 0,
    ):
        self.rows, self.batch_size, self.lengths = rows, batch_size, lengths
        self.pad_id, self.seed = pad_id, seed
        self._bucket = np.searchsorted(lengths, rows.lengths)

    def __len__(self) -> int:
        """Return the number of batches in an epoch."""
        return -(-len(self.rows) // self.batch_size)

    def plan(self, epoch: int) -> list[Planned]:
        """Return the plan of all batches of an epoch."""
        size = self.batch_size
        order = np.arange(len(self.rows))
        order = permute(order, len(order), seed=self.seed, epoch=epoch)
        planned: list[Planned] = []
        left = order[:0]
        for number, length in enumerate(self.lengths):
            left = np.concatenate([left, order[self._bucket[order] == number]])
            whole = len(left) // size * size
            planned += [Planned(rows, length) for rows in left[:whole].reshape(-1, size)]
            left = left[whole:]
        if len(left):
            planned.append(Planned(left, int(self.lengths[self._bucket[left].max()])))
        return [planned[i] for i in permute(range(len(planned)), len(planned), seed=self.seed + 1, epoch=epoch)]

    def batches(self, start: int = 0) -> Iterator[dict[str, NDArray[Any]]]:
        """Yield the batches of the steps from `start` on, without end."""
        epoch, number = divmod(start, len(self))
        while True:
            for planned in self.plan(epoch)[number:]:
                yield self.rows.fill(planned.rows, planned.length, self.batch_size, self.pad_id)
            epoch, number = epoch + 1, 0


def bucket_lengths(lengths: NDArray[np.int64], longest: int, most: int = 4) -> list[int]:
    """Return the padded lengths, in increasing order, that need the fewest padding tokens.

    Args:
        lengths: (N,), lengths of the rows.
        longest: largest padded length. The other padded lengths are multiples of 8.
        most: largest number of padded lengths, and so of compiled programs.

    Example:
        >>> bucket_lengths(np.array([5, 6, 7, 7, 30, 31, 60]), 64, most=2)
        [8, 64]
        >>> bucket_lengths(np.array([5, 6, 7, 7, 30, 31, 60]), 64, most=3)
        [8, 32, 64]
    """
    rounded = np.minimum(-(-np.maximum(lengths, 1) // STEP) * STEP, longest)
    sizes, counts = np.unique(rounded, return_counts=True)
    total = np.concatenate([[0], np.cumsum(counts)])
    # best[j]: (tokens, chosen lengths) for the rows of the j shortest sizes, where the last chosen length is sizes[j-1]
    nothing: list[int] = []
    best = [(0.0, nothing)] + [(float("inf"), nothing)] * len(sizes)
    for _ in range(min(most, len(sizes))):
        best = [best[0]] + [
            min((best[i][0] + sizes[j - 1] * (total[j] - total[i]), [*best[i][1], int(sizes[j - 1])]) for i in range(j))
            for j in range(1, len(sizes) + 1)
        ]
    return best[-1][1]
