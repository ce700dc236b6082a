"""Workers of a `DataLoader` that are threads."""

from __future__ import annotations

import copy
import queue
import time
import types
import weakref
from collections.abc import Sequence
from typing import Any

from funcnet.data.sharing import own_copy
from funcnet.data.torch_worker_info import answer_torch
from funcnet.data.worker import Fetcher, InitFn, TaskResult, WorkerInfo, WorkerThread, drain, work

__all__ = ["ThreadWorkers"]

PATIENCE = 1.0  # seconds to wait for the threads to end


class ThreadWorkers:
    """Threads that make batches. They implement `Workers`.

    Each thread has a shallow copy of the dataset, so that `worker_init_fn` can set attributes of the copy.

    Args:
        fetcher: object that makes the batches. Each thread has a copy of this object.
        count: number of threads.
        init_fn: function that each thread calls first, with its number.
    """

    shares_generators = True

    def __init__(self, fetcher: Fetcher, count: int, *, init_fn: InitFn | None):
        self._outcomes: queue.SimpleQueue[tuple[int, TaskResult]] = queue.SimpleQueue()
        self._tasks: list[queue.SimpleQueue[Any]] = [queue.SimpleQueue() for _ in range(count)]
        self._pass = 0
        # The first tasks of worker 0 wait until the consumer waits, so that it is known who draws. See `_Ahead`.
        self._held: list[Any] | None = []
        self._threads = [
            WorkerThread(
                target=_run,
                args=(*_own(fetcher, init_fn), number, count, tasks, self._outcomes),
                name=f"funcnet-data-{number}",
                daemon=True,
            )
            for number, tasks in enumerate(self._tasks)
        ]
        # The threads refer to the queues and not to this object, so an unused object can be garbage-collected.
        self._finalizer = weakref.finalize(self, _stop, self._tasks)
        for thread in self._threads:
            thread.start()

    def begin(self, epoch: int, seed: int, states: Sequence[Any]) -> None:
        """Begin a pass over the data in every thread, and drop all results of the previous pass."""
        answer_torch()
        self._pass += 1
        if self._held is not None:
            self._held.clear()
        for number, (tasks, state) in enumerate(zip(self._tasks, states, strict=True)):
            drain(tasks)
            tasks.put(("begin", self._pass, (epoch, seed + number, state)))

    def submit(self, worker: int, number: int, task: object) -> None:
        """Give a task to a thread."""
        message = ("task", self._pass, (number, task))
        if worker == 0 and self._held is not None:
            self._held.append(message)
        else:
            self._tasks[worker].put(message)

    def get(self, timeout: float | None) -> TaskResult:
        """Wait until any thread has finished a task, and return its result. `Workers.get` lists the errors."""
        end = None if timeout is None else time.monotonic() + timeout
        held, self._held = self._held, None
        for task in held or ():
            self._tasks[0].put(task)
        while True:
            left = None if end is None else max(0.0, end - time.monotonic())
            try:
                number, outcome = self._outcomes.get(timeout=left)
            except queue.Empty:
                raise TimeoutError from None
            if number == self._pass:
                return outcome

    def close(self) -> None:
        """Tell the threads to end. A thread that is running a task ends after this task."""
        self._finalizer()
        patience = time.monotonic() + PATIENCE
        for thread in self._threads:
            thread.join(max(0.0, patience - time.monotonic()))


def _own(fetcher: Fetcher, init_fn: InitFn | None) -> tuple[Fetcher, InitFn | None]:
    """Return the fetcher and `init_fn` for one thread. The fetcher and, if possible, its dataset are copied. If
    `init_fn` is a method of the dataset, the method is bound to the copied dataset.
    """
    own = copy.copy(fetcher)
    try:
        own.dataset = own_copy(fetcher.dataset)
    except Exception:  # the dataset cannot be copied, so the threads share it
        own.dataset = fetcher.dataset
    if isinstance(init_fn, types.MethodType) and init_fn.__self__ is fetcher.dataset:
        init_fn = types.MethodType(init_fn.__func__, own.dataset)
    return own, init_fn


def _stop(tasks: list[queue.SimpleQueue[Any]]) -> None:
    for one in tasks:
        drain(one)
        one.put(("stop", 0, None))


def _run(
    fetcher: Fetcher,
    init_fn: InitFn | None,
    number: int,
    count: int,
    tasks: queue.SimpleQueue[Any],
    outcomes: queue.SimpleQueue[tuple[int, TaskResult]],
) -> None:
    """Run the tasks of a worker thread. If the thread or a pass over the data cannot start, each task returns the
    error.
    """
    thread = WorkerThread.current()
    started = False
    problem: BaseException | None = None
    while True:
        kind, current, content = tasks.get()
        if kind == "stop":
            return
        if kind == "begin":
            epoch, seed, state = content
            thread.worker_info = WorkerInfo(number, count, seed, fetcher.dataset, is_configured=init_fn is not None)
            try:
                if not started and init_fn is not None:
                    init_fn(number)
                started, problem = True, None
                fetcher.begin(epoch, state)
            except BaseException as error:
                error.add_note(
                    f"in worker {number} of DataLoader, {'at its start' if not started else 'in a new pass'}"
                )
                problem = error
        elif problem is not None:
            outcomes.put((current, TaskResult(content[0], number, error=problem)))
        else:
            try:
                outcome = work(fetcher, number, *content, where=f"in worker {number} of DataLoader")
            except BaseException as error:  # also SystemExit, because the consumer would otherwise wait forever
                outcome = TaskResult(content[0], number, error=error)
            outcomes.put((current, outcome))
