"""Load batches from a dataset, in an order that depends only on (seed, epoch).

B is the batch size, and N is the number of examples.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from funcnet.data.datasets import Dataset
from funcnet.data.draws import permute

__all__ = ["DataLoader"]


class DataLoader:
    """A loader that returns the batches of a dataset by step number.

    Args:
        dataset: object that has a length N and accepts an int64 array of B indices (see `funcnet.data.Dataset`). If it
            has `at_epoch`, each epoch reads from `dataset.at_epoch(epoch)`, which must have the same length.
        batch_size: number of examples per batch, B, over all devices.
        shuffle: if True, each epoch uses a different random permutation. Otherwise the examples are in order.
        seed: seed of the permutations.
        drop_last: if True, omit the last batch of an epoch if it is smaller than `batch_size`. A batch of another size
            causes another compilation of the step.

    Raises:
        TypeError: if the dataset is a list or tuple, which does not accept an array of indices.
        ValueError: if `batch_size` is below 1, the dataset is empty, or `drop_last` is True and the dataset is smaller
            than one batch.

    Differs from torch: a loader has no current position, so `iter(loader)` raises an error. `batches(start, stop)`
    counts steps over all epochs, and `epoch(number)` iterates over one epoch. There is no collate function, because the
    dataset returns complete batches. Use `Prefetcher` to load batches in advance.

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
                "DataLoader: the dataset does not accept an array of indices; expected an array, an ArrayDataset or "
                f"your own Dataset, got {type(dataset).__name__}. Wrap the data: `ArrayDataset({{'x': "
                "np.asarray(data)})`."
            )
        if not hasattr(dataset, "__len__") or not hasattr(dataset, "__getitem__"):
            raise TypeError(
                "DataLoader: the dataset has no length or no items; expected an array, an ArrayDataset or your own "
                f"Dataset, got {type(dataset).__name__}. Read a stream into arrays first."
            )
        if not isinstance(batch_size, int | np.integer):
            raise TypeError(f"DataLoader: batch_size is not an integer; expected int, got {batch_size!r}.")
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
        """Return the number of batches in an epoch."""
        return self.size // self.batch_size if self.drop_last else -(-self.size // self.batch_size)

    def indices(self, step: int) -> NDArray[np.int64]:
        """Return the indices of the examples of a step: int64 (B,), or shorter if the last batch is smaller.

        Steps are counted from 0 over all epochs.
        """
        if step < 0:
            raise ValueError(f"DataLoader: step is negative; expected at least 0, got {step}.")
        epoch, number = divmod(step, len(self))
        places = np.arange(number * self.batch_size, min((number + 1) * self.batch_size, self.size))
        return permute(places, self.size, seed=self.seed, epoch=epoch) if self.shuffle else places

    def batch(self, step: int) -> Any:
        """Return the batch of a step. The cost is the same for every step."""
        at_epoch = getattr(self.dataset, "at_epoch", None)
        dataset = self.dataset if at_epoch is None else at_epoch(step // len(self))
        return dataset[self.indices(step)]

    def batches(self, start: int = 0, stop: int | None = None) -> Iterator[Any]:
        """Yield the batches of the steps from `start` to `stop` (exclusive), or without end if `stop` is None."""
        step = start
        while stop is None or step < stop:
            yield self.batch(step)
            step += 1

    def epoch(self, number: int = 0) -> Iterator[Any]:
        """Return an iterator over all batches of one epoch."""
        return self.batches(number * len(self), (number + 1) * len(self))

    def __iter__(self) -> NoReturn:
        raise TypeError(
            "DataLoader: a loader cannot be iterated over, because it has no position; expected loader.epoch(number) "
            "or loader.batches(start, stop), got iter(loader). Write `for batch in loader.epoch(epoch)`."
        )
