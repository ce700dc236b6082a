"""An endless iterator over the epochs of a loader."""

from __future__ import annotations

from typing import Any

from funcnet.data.describe import describe

__all__ = ["EndlessLoader"]


class EndlessLoader:
    """Iterates over the batches of all epochs of a loader, without end. See `DataLoader.endless`."""

    def __init__(self, loader: Any):
        self._loader = loader
        self._epoch: Any = None

    def __iter__(self) -> EndlessLoader:
        return self

    def __next__(self) -> Any:
        for _ in range(2):  # a pass that was resumed at its end has no batch
            if self._epoch is None:
                self._epoch = iter(self._loader)
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
