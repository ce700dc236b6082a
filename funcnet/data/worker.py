"""Classes and functions for the workers of a `DataLoader`, which are either threads or processes."""

from __future__ import annotations

import contextlib
import dataclasses
import multiprocessing
import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

__all__ = [
    "Fetcher",
    "InitFn",
    "TaskResult",
    "WorkerInfo",
    "WorkerThread",
    "Workers",
    "drain",
    "get_worker_info",
    "work",
    "worker_here",
]

InitFn = Callable[[int], Any]


@dataclasses.dataclass(init=False)
class WorkerInfo:
    """Information about the current worker. See `get_worker_info`. The attributes cannot be changed.

    Attributes:
        id: number of the worker, 0 to num_workers - 1.
        num_workers: number of workers.
        seed: seed of this worker, which differs between workers and between passes.
        dataset: the copy of the dataset that this worker reads.
        questions: how often `get_worker_info` has returned this object. An iterable dataset that never calls it cannot
            be divided among workers.
        is_configured: whether the loader has a `worker_init_fn`, which may have divided the dataset.
    """

    id: int
    num_workers: int
    seed: int
    dataset: Any
    questions: int = dataclasses.field(repr=False, compare=False)
    is_configured: bool = dataclasses.field(repr=False, compare=False)

    def __init__(self, id: int, num_workers: int, seed: int, dataset: object, *, is_configured: bool = False):
        self.__dict__.update(id=id, num_workers=num_workers, seed=seed, dataset=dataset)
        self.__dict__.update(questions=0, is_configured=is_configured)  # around `__setattr__`

    def count_question(self) -> None:
        """Add one to `questions`."""
        self.__dict__["questions"] += 1

    def __setattr__(self, name: str, value: object) -> None:
        raise RuntimeError("Cannot assign attributes to WorkerInfo objects")


class WorkerThread(threading.Thread):
    """A thread that runs a worker. `worker_info` is what `get_worker_info` returns in this thread."""

    worker_info: WorkerInfo | None = None

    @staticmethod
    def current() -> WorkerThread:
        """Return the current thread, which must be a `WorkerThread`."""
        thread = threading.current_thread()
        assert isinstance(thread, WorkerThread)
        return thread


def get_worker_info() -> WorkerInfo | None:
    """Return information about the worker that calls this function, or None outside a worker.

    Each worker iterates over a copy of an iterable dataset. The dataset calls this function to yield only the worker's
    share of the items. In workers, `torch.utils.data.get_worker_info` gives the same answer, so datasets of libraries
    that ask torch are shared, too.

    Returns:
        A `WorkerInfo`, or None.

    Example:
        >>> from funcnet.data import DataLoader, IterableDataset
        >>> class Numbers(IterableDataset):
        ...     def __iter__(self):
        ...         info = get_worker_info()
        ...         return iter(range(6) if info is None else range(info.id, 6, info.num_workers))
        >>> [batch.tolist() for batch in DataLoader(Numbers(), batch_size=2, num_workers=2)]
        [[0, 2], [1, 3], [4], [5]]

    Reference: torch.utils.data.get_worker_info
    """
    info = worker_here()
    if info is not None:
        info.count_question()
    return info


def worker_here() -> WorkerInfo | None:
    """Return what `get_worker_info` returns. Only the library calls this function, so it does not count as a call by
    the dataset.
    """
    for here in (threading.current_thread(), multiprocessing.current_process()):  # worker thread or process
        info = getattr(here, "worker_info", None)
        if isinstance(info, WorkerInfo):
            return info
    return None


class Fetcher(Protocol):
    """Makes batches from tasks. Each worker has a copy of the fetcher. Worker processes receive a pickled copy."""

    dataset: Any

    def begin(self, epoch: int, state: Mapping[str, Any] | None) -> None:
        """Begin a pass over the data: at the first item if `state` is None, otherwise at the position of `state`."""

    def fetch(self, task: Any) -> Any:
        """Return the batch of a task. Raise a StopIteration if the iterable dataset has ended."""

    def state(self) -> Any:
        """Return the position of an iterable dataset, or None for a map-style dataset."""


@dataclasses.dataclass
class TaskResult:
    """The result of a worker's task: a batch, an exception, or the end of the dataset.

    Attributes:
        number: number of the task.
        worker: number of the worker.
        batch: the batch, or None.
        state: state of the fetcher after the batch.
        error: the exception of the task, or None.
        ended: whether the worker's iterable dataset has ended.
        drew_from: names of the global random generators from which a worker process drew. See `global_draws_warning`.
    """

    number: int
    worker: int
    batch: Any = None
    state: Any = None
    error: BaseException | None = None
    ended: bool = False
    drew_from: tuple[str, ...] = ()


class Workers(Protocol):
    """A group of workers that make batches at the same time, such as `ThreadWorkers` and `ProcessWorkers`.

    Attributes:
        shares_generators: whether the workers draw from the same global random generators as the thread that waits for
            them. Otherwise, the results say which generators were used.
    """

    shares_generators: bool

    def begin(self, epoch: int, seed: int, states: Sequence[Any]) -> None:
        """Begin a pass over the data in worker i at the position `states[i]`, and drop all results of the previous
        pass.
        """

    def submit(self, worker: int, number: int, task: object) -> None:
        """Give a task to a worker. The call returns at once."""

    def get(self, timeout: float | None) -> TaskResult:
        """Wait until any worker has finished a task, and return its result.

        Raises:
            TimeoutError: if no result arrived within `timeout` seconds.
            RuntimeError: if a worker process has died.
        """

    def close(self) -> None:
        """End all workers. Calling this method again has no effect."""


def work(fetcher: Fetcher, worker: int, number: int, task: object, *, where: str = "") -> TaskResult:
    """Run one task and return the result. If the task raises an exception, the result contains the exception, with
    `where` as a note.
    """
    try:
        return TaskResult(number, worker, fetcher.fetch(task), fetcher.state())
    except StopIteration:
        return TaskResult(number, worker, state=fetcher.state(), ended=True)
    except Exception as error:
        if where:
            error.add_note(where)
        return TaskResult(number, worker, error=error)


def drain(waiting: queue.Queue[Any] | queue.SimpleQueue[Any]) -> None:
    """Remove everything from a queue."""
    with contextlib.suppress(queue.Empty):
        while True:
            waiting.get_nowait()
