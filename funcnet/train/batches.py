"""Read the batches of a run from a `DataLoader` or from a function, and inspect the first batch."""

import contextlib
from collections.abc import Callable, Generator, Iterable, Mapping
from typing import Any, Literal

from funcnet.arguments import boolean, expect, integer
from funcnet.data import DataLoader
from funcnet.data.endless import EndlessLoader, passes

__all__ = ["Ends", "EpochBatches", "LoaderBatches", "OpenedBatches"]

Ends = Literal["", "epoch", "run"]


class LoaderBatches:
    """A function that returns the batches of a `DataLoader`, starting at a step or at a saved position in the data.

    The method `Task.batches` of a task can return a `LoaderBatches`. Each checkpoint then contains the position of the
    loader, and a resumed run continues at exactly this position. The run also continues at this position if the data
    are an `IterableDataset`, or if the batch size or the number of processes has changed.

    Args:
        loader: the loader. Only one run at a time can read from the loader.
        epochs: number of epochs after which the batches end. With None, they do not end.
        by_epoch: whether the batches say where an epoch ends, as `Cadence` needs it for "epoch". One batch more is then
            read ahead. `epochs` implies `by_epoch`.

    Raises:
        TypeError: if an argument has the wrong type.
        ValueError: if `epochs` is below 1.

    Example:
        >>> import numpy as np
        >>> batches = LoaderBatches(DataLoader(np.arange(6), batch_size=4))
        >>> next(batches(1)).tolist(), next(batches(2)).tolist()
        ([4, 5], [0, 1, 2, 3])
    """

    def __init__(self, loader: DataLoader, epochs: int | None = None, *, by_epoch: bool = False):
        where = "train.LoaderBatches"
        expect(isinstance(loader, DataLoader), where, "loader", "a DataLoader of funcnet.data", loader)
        if epochs is not None:
            integer(where, "epochs", epochs, 1)
        boolean(where, "by_epoch", by_epoch)
        self.loader, self.epochs, self.by_epoch = loader, epochs, by_epoch or epochs is not None

    def __call__(self, start_step: int, position: Mapping[str, Any] | None = None) -> "EndlessLoader | EpochBatches":
        """Return the batches that begin at `position` in the data, or at the step `start_step` if `position` is None.

        Raises:
            ValueError: if the position belongs to other data, or if a run on an `IterableDataset` is resumed without a
                position.
        """
        loader = self.loader
        if position is None and start_step and loader.is_iterable:
            raise ValueError(
                f"train: the checkpoint of step {start_step} has no position in the data; expected one, because the "
                "data are iterable, got none. Begin a new run."
            )
        loader.load_state_dict(loader.position(start_step) if position is None else dict(position))
        return EpochBatches(loader, self.epochs) if self.by_epoch else loader.endless()


class EpochBatches:
    """An iterator over the batches of a loader, from its position on, that says where an epoch ends.

    A stream ends without notice. The iterator therefore reads one batch more than it has yielded.

    Args:
        loader: the loader.
        epochs: number of epochs after which the iterator ends, counted from the first epoch of the loader. None reads
            epoch after epoch without end.

    Attributes:
        ends: what ends with the batch that was yielded last: "epoch", "run" (its epoch is the last one) or "".

    Raises:
        ValueError: while iterating, if an epoch has no batch.

    Example:
        >>> import numpy as np
        >>> batches = EpochBatches(DataLoader(np.arange(5), batch_size=3), 2)
        >>> [(batch.tolist(), batches.ends) for batch in batches]
        [([0, 1, 2], ''), ([3, 4], 'epoch'), ([0, 1, 2], ''), ([3, 4], 'run')]
    """

    def __init__(self, loader: DataLoader, epochs: int | None = None):
        loader.require_batches()
        self.ends: Ends = ""
        self._loader, self._epochs = loader, epochs
        self._position = loader.state_dict()
        self._batches = self._read()

    def __iter__(self) -> "EpochBatches":
        return self

    def __next__(self) -> Any:
        batch, self._position, self.ends = next(self._batches)
        return batch

    def state_dict(self) -> dict[str, Any]:
        """Return the position of the loader after the batch that was yielded last."""
        return self._position

    def close(self) -> None:
        """Stop reading, and end the workers of the loader."""
        self._batches.close()

    def _read(self) -> Generator[tuple[Any, dict[str, Any], Ends]]:
        loader, epochs = self._loader, self._epochs
        for batches in passes(loader, self._position, epochs):
            ahead = None
            with contextlib.closing(batches):
                for batch in batches:
                    if ahead is not None:
                        yield *ahead, ""
                    ahead = batch, loader.state_dict()
            if ahead is not None:
                yield ahead[0], loader.state_dict(), "run" if batches.number == epochs else "epoch"


class OpenedBatches:
    """The batches of a run. The first batch can be inspected before the run begins.

    The inspected batch is then passed to the run. The data are therefore read only once, even if reading changes them:
    an iterable dataset may count its epochs, and an augmentation may draw random numbers.

    Args:
        batches: function `batches(start_step)` or `batches(start_step, position)`, as `Task.batches` returns it.

    Example:
        >>> opened = OpenedBatches(lambda start_step: iter([4, 5, 6][start_step:]))
        >>> opened.first(), list(opened(0)), list(opened(1))
        (4, [4, 5, 6], [5, 6])
    """

    def __init__(self, batches: Callable[..., Iterable[Any]]):
        self._batches = batches
        self._opened: _Opened | None = None

    def first(self) -> Any:
        """Return the batch of step 0, or None if there is none."""
        if self._opened is None:
            source = self._batches(0)
            self._opened = _OpenedAt(source) if hasattr(source, "state_dict") else _Opened(source)
        return self._opened.first

    def __call__(self, start_step: int, *position: Mapping[str, Any]) -> Iterable[Any]:
        """Return the batches from a step or a position on."""
        opened, self._opened = self._opened, None
        if opened is not None and not start_step and not position:
            return opened
        if opened is not None:
            opened.close()
        return self._batches(start_step, *position)

    def close(self) -> None:
        """Stop reading the batches that `first` has opened."""
        if self._opened is not None:
            self._opened.close()
            self._opened = None


class _Opened:
    """An iterator over the batches of `source`, whose first one has been read."""

    def __init__(self, source: Any):
        self.source, self.is_begun = source, False
        self._iterator = iter(source)
        self.first = next(self._iterator, None)

    def __iter__(self) -> "_Opened":
        return self

    def __next__(self) -> Any:
        if self.is_begun:
            return next(self._iterator)
        self.is_begun = True
        if self.first is None:
            raise StopIteration
        return self.first

    @property
    def ends(self) -> Ends:
        """See `EpochBatches`. Batches of another kind do not have this attribute."""
        return self.source.ends  # type: ignore[no-any-return]

    def close(self) -> None:
        """Stop reading."""
        if hasattr(self._iterator, "close"):
            self._iterator.close()


class _OpenedAt(_Opened):
    """An `_Opened` whose source has a position. The position counts the first batch when it has been yielded."""

    def __init__(self, source: Any):
        self._before = source.state_dict()
        super().__init__(source)

    def state_dict(self) -> Any:
        """Return the position after the batch that was yielded last."""
        return self.source.state_dict() if self.is_begun else self._before
