"""The batches of a run, read from a `DataLoader`."""

from collections.abc import Mapping
from typing import Any

from funcnet.data import DataLoader
from funcnet.data.endless import EndlessLoader

__all__ = ["LoaderBatches"]


class LoaderBatches:
    """The batches of a loader, from a step or a saved position on. A `Task` returns it from `batches`.

    Each checkpoint then contains the position of the loader, so a run also continues exactly if the data are iterable,
    or if the batch size or the number of processes has changed.

    Args:
        loader: the loader. One run at a time reads from it.

    Example:
        >>> import numpy as np
        >>> batches = LoaderBatches(DataLoader(np.arange(6), batch_size=4))
        >>> next(batches(1)).tolist(), next(batches(2)).tolist()
        ([4, 5], [0, 1, 2, 3])
    """

    def __init__(self, loader: DataLoader):
        self.loader = loader

    def __call__(self, start_step: int, position: Mapping[str, Any] | None = None) -> EndlessLoader:
        """Return the batches from a saved position on, or from a step on if there is none.

        Raises:
            ValueError: if the position belongs to other data, or the data are iterable and a run without a saved
                position continues.
        """
        loader = self.loader
        if position is not None:
            loader.load_state_dict(dict(position))
        elif not loader.is_iterable:
            loader.load_state_dict(loader.position(start_step))
        elif start_step:
            raise ValueError(
                f"train: the checkpoint of step {start_step} has no position in the data; expected one, because the "
                f"data "
                "are iterable, got none. Begin a new run."
            )
        return loader.endless()
