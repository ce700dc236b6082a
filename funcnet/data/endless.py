"""An endless iterator over the epochs of a loader."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from funcnet.data.describe import describe
from funcnet.data.plan import is_planned

__all__ = ["EndlessLoader", "is_inside", "no_batch", "passes"]


class EndlessLoader:
    """Iterates over the batches of all epochs of a loader, without end. See `DataLoader.endless`."""

    def __init__(self, loader: Any):
        self._loader = loader
        self._passes = passes(loader)
        self._epoch: Any = None
        self._number, self._may_be_empty = loader.state_dict()["epoch"], is_inside(loader.state_dict())

    def __iter__(self) -> EndlessLoader:
        return self

    def __next__(self) -> Any:
        while True:
            if self._epoch is None:
                self._epoch = next(self._passes)
                self._number += 1
            for batch in self._epoch:
                self._may_be_empty = True  # from here on, the end of this pass
                return batch
            self._epoch = None
            if not self._may_be_empty:
                raise no_batch(self._loader, self._number)
            self._may_be_empty = False

    def state_dict(self) -> Any:
        """Return the position of the loader."""
        return self._loader.state_dict()

    def close(self) -> None:
        """Stop reading the current epoch, and end the workers that read it."""
        if self._epoch is not None:
            self._epoch.close()


def passes(loader: Any) -> Iterator[Iterator[Any]]:
    """Yield an iterator over the rest of the current epoch of a loader, then one over each later epoch.

    If a custom sampler has a method `set_epoch`, it is called with the number of the epoch, as in the training loops of
    other libraries. The order is then the same if the run is resumed in a later epoch.

    Example:
        >>> from funcnet.data import DataLoader
        >>> epochs = passes(DataLoader(range(3), batch_size=2))
        >>> [batch.tolist() for batch in next(epochs)], [batch.tolist() for batch in next(epochs)]
        ([[0, 1], [2]], [[0, 1], [2]])
    """
    own = [one for one in (loader.sampler, loader.batch_sampler) if hasattr(one, "set_epoch") and not is_planned(one)]
    epoch = loader.state_dict()["epoch"] if own else 0
    while True:
        for sampler in own:
            sampler.set_epoch(epoch)
        yield iter(loader)
        epoch += 1


def is_inside(position: Mapping[str, Any]) -> bool:
    """Return whether a position is not at the start of its epoch, so that the rest of the epoch may have no batch."""
    workers = position.get("workers") or ()
    return any(worker and worker["items"] for worker in workers) or any(map(position.get, ("examples", "batches")))


def no_batch(loader: Any, epoch: int) -> ValueError:
    """Return the error of a loader whose epoch number `epoch`, counted from 1, has no batch."""
    beginning = f"DataLoader: epoch {epoch} of {describe(loader.dataset)} has no batch; expected at least one, got"
    if epoch > 1:
        return ValueError(f"{beginning} none, as if it had ended for good. Return a new iterator in each __iter__.")
    few = f"fewer than {loader.batch_size} items, which drop_last=True omits" if loader.drop_last else "no item"
    return ValueError(f"{beginning} {few}.")
