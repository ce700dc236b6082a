"""A dataset -> batches, in an order that follows from (seed, epoch). B batch, N examples."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from funcnet.data.datasets import Dataset
from funcnet.data.draws import permute

__all__ = ["DataLoader"]


class DataLoader:
    """The batches of a dataset, by their number.

    Args:
        dataset: has a length N and accepts an int64 array of B indices (see `funcnet.data.Dataset`); if it has
            `at_epoch`, each epoch reads from `dataset.at_epoch(epoch)`, which has the same length.
        batch_size: B, over all devices.
        shuffle: use another permutation in each epoch; otherwise examples come in order.
        seed: of the permutations.
        drop_last: omit the last, smaller batch of an epoch (it would be compiled for its own shape).

    Raises:
        TypeError: the dataset is a list or tuple, which accepts no array of indices.
        ValueError: `batch_size` is below 1, the dataset is empty, or with `drop_last` smaller than one batch.

    Differs from torch: a loader has no position, so there is no `iter(loader)`; `batches(start, stop)` counts steps
    over all epochs, and `epoch(number)` iterates over one. Nothing is collated: the dataset returns batches. Read ahead
    with `Prefetcher`.

    Example:
        >>> from funcnet.data import ArrayDataset
        >>> loader = DataLoader(ArrayDataset({"x": np.arange(10)}), 4, shuffle=True, seed=1)
        >>> len(loader), [len(batch["x"]) for batch in loader.epoch(0)]
        (3, [4, 4, 2])
        >>> all((a["x"] == b["x"]).all() for a, b in zip(loader.batches(2, 5), list(loader.batches(0, 5))[2:]))
        True
    """

    def __init__(
        self, dataset: Dataset, batch_size: int = 1, shuffle: bool = False, *, seed: int = 0, drop_last: bool = False
    ):
        if isinstance(dataset, list | tuple):
            raise TypeError(
                "DataLoader: the dataset accepts no array of indices; expected an array, an ArrayDataset or your own "
                f"Dataset, got {type(dataset).__name__}. Wrap it: ArrayDataset({{'x': np.asarray(data)}})."
            )
        size = len(dataset)
        if batch_size < 1:
            raise ValueError(f"DataLoader: batch_size is too small; expected at least 1, got {batch_size}.")
        if size < (batch_size if drop_last else 1):
            raise ValueError(
                "DataLoader: the dataset is smaller than one batch; expected at least "
                f"{batch_size if drop_last else 1} examples, got {size}."
            )
        self.dataset, self.batch_size, self.shuffle = dataset, batch_size, shuffle
        self.seed, self.drop_last, self.size = seed, drop_last, size

    def __len__(self) -> int:
        """The number of batches in an epoch."""
        return self.size // self.batch_size if self.drop_last else -(-self.size // self.batch_size)

    def indices(self, step: int) -> NDArray[np.int64]:
        """The examples of a step, counted from 0 over all epochs: int64 (B,), fewer in a smaller last batch."""
        epoch, number = divmod(step, len(self))
        places = np.arange(number * self.batch_size, min((number + 1) * self.batch_size, self.size))
        return permute(places, self.size, seed=self.seed, epoch=epoch) if self.shuffle else places

    def batch(self, step: int) -> Any:
        """The batch of a step; the cost does not depend on the step."""
        at_epoch = getattr(self.dataset, "at_epoch", None)
        dataset = self.dataset if at_epoch is None else at_epoch(step // len(self))
        return dataset[self.indices(step)]

    def batches(self, start: int = 0, stop: int | None = None) -> Iterator[Any]:
        """The batches of the steps from `start` up to `stop`, which is excluded; None: without end."""
        step = start
        while stop is None or step < stop:
            yield self.batch(step)
            step += 1

    def epoch(self, number: int = 0) -> Iterator[Any]:
        """All batches of one epoch."""
        return self.batches(number * len(self), (number + 1) * len(self))

    def __iter__(self) -> NoReturn:
        raise TypeError(
            "DataLoader: a loader has no position; expected loader.epoch(number) or loader.batches(start, stop), got "
            "iter(loader). Write `for batch in loader.epoch(epoch)`."
        )
