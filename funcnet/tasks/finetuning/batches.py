"""Groups rows of many lengths into batches of few shapes, so that short texts are cheap and few programs are
compiled.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from funcnet.data import BucketBatchSampler, DataLoader
from funcnet.data.dataset import BatchedDataset
from funcnet.tasks.finetuning.rows import Rows

__all__ = ["PaddedRows", "make_loader"]


class PaddedRows(BatchedDataset):
    """Encoded rows as a dataset, which pads each batch to the shortest of a few lengths that is long enough.

    Args:
        rows: N rows.
        lengths: padded lengths from `funcnet.data.bucket_lengths`, in increasing order.
        size: number of rows in each batch. A smaller batch is filled up with padding rows.
        pad_id: id of `[PAD]`.
        own: the rows of a batch that are read and padded, in ascending order. None means all rows.
    """

    def __init__(
        self, rows: Rows, lengths: Sequence[int], size: int, pad_id: int, own: NDArray[np.int64] | None = None
    ):
        self.rows, self.lengths, self.size, self.pad_id, self.own = rows, list(lengths), size, pad_id, own

    def __len__(self) -> int:
        return len(self.rows)

    def __getitems__(self, indices: Sequence[int]) -> dict[str, NDArray[Any]]:
        """Return the batch that contains the rows with these indices, padded; see `Rows.fill`. The length depends on
        all rows, including those that are not read.
        """
        chosen = np.asarray(indices, np.int64)
        length = self.lengths[np.searchsorted(self.lengths, self.rows.lengths[chosen].max())]
        if self.own is None:
            return self.rows.fill(chosen, length, self.size, self.pad_id)
        return self.rows.fill(chosen[self.own[self.own < len(chosen)]], length, len(self.own), self.pad_id)


def make_loader(
    rows: Rows,
    batch_size: int,
    lengths: Sequence[int],
    *,
    pad_id: int,
    seed: int = 0,
    own: NDArray[np.int64] | None = None,
) -> DataLoader:
    """Return a loader of the rows in buckets of similar length, in a different order in each epoch.

    Args:
        rows: N rows.
        batch_size: number of rows per batch, B, over all devices.
        lengths: padded lengths, in increasing order. The last length is enough for every row.
        pad_id: id of `[PAD]`.
        seed: seed for the random order.
        own: see `PaddedRows`.

    Example:
        >>> starts = np.cumsum([0, 3, 9, 4, 3])
        >>> rows = Rows(np.arange(19, dtype=np.int32), np.zeros(19, np.uint8), starts)
        >>> sorted(batch["input_ids"].shape for batch in make_loader(rows, 2, [4, 16], pad_id=0))
        [(2, 4), (2, 16)]
    """
    sampler = BucketBatchSampler(rows.lengths, batch_size, lengths, seed=seed)
    return DataLoader(PaddedRows(rows, lengths, batch_size, pad_id, own), batch_sampler=sampler)
