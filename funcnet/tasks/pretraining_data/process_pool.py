"""A pool of processes that run a sequence of tasks. Only a few tasks of the sequence are read in advance. With one
process, the tasks run in the calling process.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from typing import Any

__all__ = ["ProcessPool"]

POLL = 1.0  # seconds between a worker's checks that its parent is alive


class ProcessPool:
    """Worker processes that end when the process that started them ends, even if it is killed.

    >>> with ProcessPool(1) as pool:
    ...     pool.run(max, [(1, 2), (4, 3)], done=print)
    2
    4
    """

    def __init__(self, processes: int):
        if processes < 1:
            raise ValueError(f"data build: --processes is out of range; expected at least 1, got {processes}.")
        self.processes = processes
        self._pool: ProcessPoolExecutor | None = None

    def run(
        self, function: Callable[..., Any], tasks: Iterable[tuple[Any, ...]], *, done: Callable[[Any], object]
    ) -> None:
        """Call `function` with the arguments of each task in a worker process. Call `done` with each result in the
        calling process.

        At most `processes + 1` tasks are in memory at once. The order of the results is arbitrary. `function` must be
        at the top level of a module, so that workers can import it.
        """
        if self.processes == 1:
            for task in tasks:
                done(function(*task))
            return
        if self._pool is None:  # spawned, not forked: this process may have threads
            context = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(self.processes, context, _begin, (os.getpid(),))
        waiting: set[Future[Any]] = set()
        try:
            for task in tasks:
                waiting.add(self._pool.submit(function, *task))
                if len(waiting) > self.processes:
                    finished, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                    for future in finished:
                        done(future.result())
            for future in waiting:
                done(future.result())
        except BrokenProcessPool as error:
            raise ChildProcessError(
                f"data build: a worker was killed; expected {self.processes} live workers, got one less (the system "
                "kills processes when memory runs out). Run the same command again to continue. Fewer worker processes "
                "(--processes) need less memory."
            ) from error

    def __enter__(self) -> ProcessPool:
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)


def _begin(parent: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(POLL)
    os._exit(1)
