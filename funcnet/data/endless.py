"""An endless iterator over the epochs of a loader."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from funcnet.data.describe import describe
from funcnet.data.sampler import OrderedSampler

__all__ = ["EndlessLoader", "passes"]


class EndlessLoader:
    """Iterates over the batches of all epochs of a loader, without end. See `DataLoader.endless`."""

    def __init__(self, loader: Any):
        self._loader = loader
        self._passes = passes(loader)
        self._epoch: Any = None

    def __iter__(self) -> EndlessLoader:
        return self

    def __next__(self) -> Any:
        for _ in range(2):  # a pass that was resumed at its end has no batch
            if self._epoch is None:
                self._epoch = next(self._passes)
            for batch in self._epoch:
                return batch
            self._epoch = None
        raise ValueError(f"DataLoader: {describe(self._loader.dataset)} yields no batch; expected at least one.")

    def state_dict(self) -> Any:
        """Return the position of the loader."""
        return self._loader.state_dict()

    def close(self) -> None:
        """Stop reading the current epoch, and end the workers that read it."""
        if self._epoch is not None:
            self._epoch.close()


def passes(loader: Any) -> Iterator[Iterator[Any]]:
    """Yield an iterator over the rest of the current epoch of a loader, then one over each later epoch.

    A sampler of the user's own is told the number of the epoch by its method `set_epoch`, if it has one, as in the
    training loops of other libraries. The order is then the same if the run is resumed in a later epoch.

    Example:
        >>> from funcnet.data import DataLoader
        >>> epochs = passes(DataLoader(range(3), batch_size=2))
        >>> [batch.tolist() for batch in next(epochs)], [batch.tolist() for batch in next(epochs)]
        ([[0, 1], [2]], [[0, 1], [2]])
    """
    own = [one for one in (loader.sampler, loader.batch_sampler) if hasattr(one, "set_epoch") and not _is_planned(one)]
    epoch = loader.state_dict()["epoch"] if own else 0
    while True:
        for sampler in own:
            sampler.set_epoch(epoch)
        yield iter(loader)
        epoch += 1


def _is_planned(sampler: Any) -> bool:
    """Return whether the loader itself chooses the epoch of a sampler."""
    return hasattr(sampler, "plan") or isinstance(getattr(sampler, "sampler", sampler), OrderedSampler)
