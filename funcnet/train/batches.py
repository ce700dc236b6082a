"""The batches of a run, read from a `DataLoader`."""

from collections.abc import Mapping
from typing import Any

from funcnet.data import DataLoader
from funcnet.data.endless import EndlessLoader

__all__ = ["LoaderBatches"]


class LoaderBatches:
    """A function that returns the batches of a `DataLoader`, starting at a step or at a saved position in the data.

    The method `Task.batches` of a task can return a `LoaderBatches`. Each checkpoint then contains the position of the
    loader, and a resumed run continues at exactly this position. The run also continues at this position if the data
    are an `IterableDataset`, or if the batch size or the number of processes has changed.

    Args:
        loader: the loader. Only one run at a time can read from the loader.

    Example:
        >>> import numpy as np
        >>> batches = LoaderBatches(DataLoader(np.arange(6), batch_size=4))
        >>> next(batches(1)).tolist(), next(batches(2)).tolist()
        ([4, 5], [0, 1, 2, 3])
    """

    def __init__(self, loader: DataLoader):
        self.loader = loader

    def __call__(self, start_step: int, position: Mapping[str, Any] | None = None) -> EndlessLoader:
        """Return the batches that begin at `position` in the data, or at the step `start_step` if `position` is None.

        Raises:
            ValueError: if the position belongs to other data, or if a run on an `IterableDataset` is resumed without a
                position.
        """
        loader = self.loader
        if position is not None:
            loader.load_state_dict(dict(position))
        elif not loader.is_iterable:
            loader.load_state_dict(loader.position(start_step))
        elif start_step:
            raise ValueError(
                f"train: the checkpoint of step {start_step} has no position in the data; expected one, because the "
                "data are iterable, got none. Begin a new run."
            )
        return loader.endless()
