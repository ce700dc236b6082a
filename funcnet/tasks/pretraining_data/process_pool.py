"""Tasks over processes, a few ahead of the ones that run; in this process where there is one."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from typing import Any, TypeVar

Task = TypeVar("Task")
PATIENCE = 1.0  # seconds between a worker's looks at whether its parent still lives


class Workers:
    """A pool whose processes end with the one that made it, however that ends.

    Args:
        processes: how many; 1 runs everything here.

    Example:
        >>> with Workers(1) as workers:
        ...     workers.run(abs, [-1, -2], done=print)
        1
        2
    """

    def __init__(self, processes: int):
        self.processes = processes
        self._pool: ProcessPoolExecutor | None = None

    def run(self, function: Callable[[Task], Any], tasks: Iterable[Task], *, done: Callable[[Any], None]) -> None:
        """Calls `function` with every task, and here `done` with every result, in no order.

        `tasks` is read no further ahead than there are processes and one: what a task holds is in memory so often.

        Raises:
            ChildProcessError: something ended a process from outside.
        """
        if self.processes == 1:
            for task in tasks:
                done(function(task))
            return
        if self._pool is None:  # spawned, not forked: this process may have threads
            context = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(self.processes, context, _begin, (os.getpid(),))
        try:
            self._share_out(self._pool, function, tasks, done)
        except BrokenProcessPool as error:
            raise ChildProcessError(
                f"data build: a worker was killed; expected {self.processes} to live, got one less (the system kills "
                "where memory ends). Run the same command again: it goes on; fewer --processes take less memory."
            ) from error

    def _share_out(
        self,
        pool: ProcessPoolExecutor,
        function: Callable[[Task], Any],
        tasks: Iterable[Task],
        done: Callable[[Any], None],
    ) -> None:
        waiting: set[Future[Any]] = set()
        for task in tasks:
            waiting.add(pool.submit(function, task))
            if len(waiting) > self.processes:
                finished, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                for future in finished:
                    done(future.result())
        for future in waiting:
            done(future.result())

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)


def _begin(parent: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to answer
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(PATIENCE)
    os._exit(1)
