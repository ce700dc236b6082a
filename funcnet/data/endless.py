"""An endless iterator over the epochs of a loader."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from funcnet.data.describe import describe
from funcnet.data.plan import is_planned

__all__ = ["EndlessLoader", "Pass", "passes"]


class EndlessLoader:
    """Iterates over the batches of all epochs of a loader, without end. See `DataLoader.endless`."""

    def __init__(self, loader: Any):
        self._loader, self._passes = loader, passes(loader, loader.state_dict())
        self._pass: Pass | None = None

    def __iter__(self) -> EndlessLoader:
        return self

    def __next__(self) -> Any:
        while True:
            self._pass = self._pass or next(self._passes)
            for batch in self._pass:
                return batch
            self._pass = None

    def state_dict(self) -> Any:
        """Return the position of the loader."""
        return self._loader.state_dict()

    def close(self) -> None:
        """Stop reading the current epoch, and end the workers that read it."""
        if self._pass is not None:
            self._pass.close()


class Pass:
    """An iterator over the rest of an epoch of a loader.

    Args:
        loader: the loader.
        number: number of the epoch, counted from 1.
        may_be_empty: whether the rest of the epoch may have no batch.

    Raises:
        ValueError: while iterating, if the epoch has no batch, and must have one.
    """

    def __init__(self, loader: Any, number: int, may_be_empty: bool):
        self.number, self._loader, self._may_be_empty = number, loader, may_be_empty
        self._batches = iter(loader)

    def __iter__(self) -> Pass:
        return self

    def __next__(self) -> Any:
        for batch in self._batches:
            self._may_be_empty = True  # from here on, the rest of this epoch
            return batch
        if not self._may_be_empty:
            raise _no_batch(self._loader, self.number)
        raise StopIteration

    def close(self) -> None:
        """Stop reading, and end the workers of the loader."""
        if hasattr(self._batches, "close"):
            self._batches.close()


def passes(loader: Any, position: Mapping[str, Any], epochs: int | None = None) -> Iterator[Pass]:
    """Yield an iterator over the rest of the current epoch of a loader, then one over each later epoch.

    If a custom sampler has a method `set_epoch`, it is called with the number of the epoch, as in the training loops of
    other libraries. The order is then the same if the run is resumed in a later epoch.

    Args:
        loader: the loader.
        position: the position of the loader.
        epochs: number of epochs, counted from the first epoch of the loader. None means all, without end.

    Example:
        >>> from funcnet.data import DataLoader
        >>> loader = DataLoader(range(3), batch_size=2)
        >>> [[batch.tolist() for batch in batches] for batches in passes(loader, loader.state_dict(), 2)]
        [[[0, 1], [2]], [[0, 1], [2]]]
    """
    own = [one for one in (loader.sampler, loader.batch_sampler) if hasattr(one, "set_epoch") and not is_planned(one)]
    epoch, may_be_empty = position["epoch"], _is_inside(position)
    while epochs is None or epoch < epochs:
        for sampler in own:
            sampler.set_epoch(epoch)
        epoch += 1
        yield Pass(loader, epoch, may_be_empty)
        may_be_empty = False


def _is_inside(position: Mapping[str, Any]) -> bool:
    """Return whether a position is not at the start of its epoch, so that the rest of the epoch may have no batch."""
    workers = position.get("workers") or ()
    return any(worker and worker["items"] for worker in workers) or any(map(position.get, ("examples", "batches")))


def _no_batch(loader: Any, epoch: int) -> ValueError:
    """Return the error of a loader whose epoch number `epoch`, counted from 1, has no batch."""
    beginning = f"DataLoader: epoch {epoch} of {describe(loader.dataset)} has no batch; expected at least one, got"
    if epoch > 1:
        return ValueError(f"{beginning} none, as if it had ended for good. Return a new iterator in each __iter__.")
    few = f"fewer than {loader.batch_size} items, which drop_last=True omits" if loader.drop_last else "no item"
    return ValueError(f"{beginning} {few}.")
