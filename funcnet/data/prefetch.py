"""Load batches and put them on their devices while a step runs, and measure how long steps wait for batches."""

from __future__ import annotations

import queue
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, TypeVar

from funcnet.arguments import function, integer
from funcnet.data.checks import require_iterable
from funcnet.data.worker import drain

__all__ = ["Prefetcher"]

Item = TypeVar("Item")
POLL = 0.1  # seconds until a thread with a full queue notices that the prefetcher was closed


class Prefetcher(Generic[Item]):
    """An iterator over batches that a background thread loads in advance.

    Args:
        batches: iterable of batches, which the thread reads in order.
        transfer: function that the thread calls with each batch, for example `lambda batch: jax.device_put(batch,
            sharding)`.
        depth: maximum number of loaded batches in the queue.
        position: function that returns the position after the batch that was read last, such as
            `DataLoader.state_dict`. The function is called once at the start, and by the thread after each batch.

    Attributes:
        waited: seconds that the consumer has waited for batches. The unavoidable wait for the first batch is not
            included.

    Raises:
        ValueError: if `depth` is below 1.
        TypeError: if an argument has the wrong type.
        Exception: any exception of `batches`, `transfer` or `position`. The iterator raises this exception instead of
            yielding the batch. After an exception, and after `close`, the iterator is exhausted.

    Example:
        >>> with Prefetcher(iter(range(3)), transfer=lambda x: x * 10) as ahead:
        ...     list(ahead)
        [0, 10, 20]
    """

    def __init__(
        self,
        batches: Iterable[Any],
        *,
        transfer: Callable[[Any], Item] | None = None,
        depth: int = 2,
        position: Callable[[], Any] | None = None,
    ):
        require_iterable("Prefetcher", "batches", batches, "an iterable of batches")
        integer("Prefetcher", "depth", depth, 1)
        for name, value, form in (("transfer", transfer, "transfer(batch)"), ("position", position, "position()")):
            if value is not None:
                function("Prefetcher", name, value, form)
        self._queue: queue.Queue[tuple[str, Any, Any]] = queue.Queue(depth)
        self._position = None if position is None else position()
        self._stop = threading.Event()
        self._ended = False
        self._begun = False
        self.waited = 0.0
        # The thread refers to the queue and not to this object. An unused Prefetcher can therefore be
        # garbage-collected, which stops the thread.
        self._thread = threading.Thread(
            target=_work,
            args=(batches, transfer, position, self._queue, self._stop),
            name="funcnet-prefetch",
            daemon=True,
        )
        self._finalizer = weakref.finalize(self, self._stop.set)
        self._thread.start()

    def __iter__(self) -> Iterator[Item]:
        return self

    def __next__(self) -> Item:
        if self._ended:
            raise StopIteration
        asked = time.perf_counter()
        kind, value, position = self._queue.get()
        if not self._begun:
            self._begun = True
        elif kind == "batch":
            self.waited += time.perf_counter() - asked
        if kind == "batch":
            self._position = position
            return value  # type: ignore[no-any-return]
        self.close()
        if kind == "error":
            raise value
        raise StopIteration

    def state_dict(self) -> Any:
        """Return the position after the batch that was yielded last. Batches that the thread has loaded but not yielded
        yet do not count.
        """
        return self._position

    def close(self) -> None:
        """Stop the thread and discard the batches that it loaded in advance. Calling this method again has no effect.

        The method waits at most one second for the thread to end. If the current batch takes longer, the thread ends
        by itself after this batch.
        """
        self._ended = True
        self._stop.set()
        patience = time.monotonic() + 1
        while self._thread.is_alive() and time.monotonic() < patience:  # the thread may be waiting for the full queue
            drain(self._queue)
            self._thread.join(POLL / 10)
        drain(self._queue)

    def __enter__(self) -> Prefetcher[Item]:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _work(
    batches: Iterable[Any],
    transfer: Callable[[Any], Any] | None,
    position: Callable[[], Any] | None,
    ready: queue.Queue[tuple[str, Any, Any]],
    stop: threading.Event,
) -> None:
    try:
        for batch in batches:
            after = None if position is None else position()
            moved = batch if transfer is None else transfer(batch)
            if stop.is_set() or not _put(ready, ("batch", moved, after), stop):
                return
        _put(ready, ("end", None, None), stop)
    except BaseException as error:  # also SystemExit, because the consumer would otherwise wait forever
        _put(ready, ("error", error, None), stop)
    finally:
        if hasattr(batches, "close"):  # end a generator now, not when it is garbage-collected
            batches.close()


def _put(ready: queue.Queue[tuple[str, Any, Any]], item: tuple[str, Any, Any], stop: threading.Event) -> bool:
    while not stop.is_set():
        try:
            ready.put(item, timeout=POLL)
            return True
        except queue.Full:
            continue
    return False
