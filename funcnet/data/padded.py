"""Read all items of a dataset once, in batches of equal size."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from funcnet.data.dataloader import DataLoader
from funcnet.data.to_device import pad_batch

__all__ = ["padded_batches"]


def padded_batches(dataset: Any, batch_size: int, own: NDArray[np.int64] | None = None) -> Iterator[tuple[Any, Any]]:
    """Yield all items of a dataset once, in order, in batches of equal size, as (batch, mask). `pad_batch` fills the
    last batch.

    Args:
        dataset: map-style dataset.
        batch_size: number of rows of a complete batch.
        own: the rows of each batch that are read, in ascending order. None means all rows. If the last batch has none
            of them, its last item is read, and the mask is False everywhere.

    Example:
        >>> [(batch.tolist(), mask.tolist()) for batch, mask in padded_batches(np.arange(5), 4, np.array([2, 3]))]
        [([2, 3], [True, True]), ([4, 4], [False, False])]
    """
    rows = np.arange(batch_size) if own is None else own
    loader = DataLoader(dataset, batch_size)
    loader.read_rows(lambda count: rows[rows < count] if rows[0] < count else np.array([count - 1]))
    for number, batch in enumerate(loader.epoch()):
        padded, _ = pad_batch(batch, len(rows))
        yield padded, rows < len(dataset) - number * batch_size
