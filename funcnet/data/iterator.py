"""Iterators over the batches of a `DataLoader`.

Workers read the batches in advance, or the calling thread reads them on demand.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from funcnet.data.global_draws_warning import DrawsWarning, generator_states, used_generators
from funcnet.data.worker import TaskResult, Workers

__all__ = ["BatchIterator", "Keep", "PlannedTask", "Position", "StreamIterator"]

Position = dict[str, Any]
Keep = Callable[[Position], None]  # receives the position after each batch


class PlannedTask(NamedTuple):
    """A task for a fetcher, and the position of the loader after the batch of this task."""

    task: Any
    position: Position


class _Ahead:
    """Base class of `BatchIterator` and `StreamIterator`, which waits for the results of workers and ends the workers.

    `depth` is the number of tasks that each worker receives in advance. If `depth` is 0, a worker receives a task only
    when the batch is requested. `on_draws` is called with the names of global random generators from which a worker
    drew.
    """

    def __init__(
        self,
        workers: Workers,
        count: int,
        depth: int,
        *,
        timeout: float,
        in_order: bool,
        persistent: bool,
        on_draws: DrawsWarning,
    ):
        self._workers, self._count, self._depth, self._on_draws = workers, count, depth, on_draws
        self._timeout, self._in_order, self._persistent = timeout, in_order, persistent
        self._ready: dict[int, TaskResult] = {}
        self._sent = 0  # number of tasks given to workers
        self._due = 0  # number of the next task to deliver
        self._outstanding = 0
        self._ended = self._is_handed_over = False

    def __iter__(self) -> Any:
        return self

    def close(self) -> None:
        """End the iteration, and the workers unless they are persistent."""
        self._ended = True
        if not self._persistent:
            self._workers.close()

    def hand_over(self) -> None:
        """End this iteration, because another iterator takes the persistent workers."""
        self._ended, self._is_handed_over = True, True

    def _check_owner(self) -> None:
        if self._is_handed_over:
            raise RuntimeError(
                "DataLoader: a newer pass over this loader took its persistent workers; expected one pass at a time. "
                "To make several passes at the same time, use persistent_workers=False."
            )

    def _submit(self, worker: int, task: object) -> None:
        self._workers.submit(worker, self._sent, task)
        self._sent += 1
        self._outstanding += 1

    def _receive(self) -> TaskResult:
        """Return the result of the next task in order, or the first result that arrives if `in_order` is False."""
        before = None
        is_main = threading.current_thread() is threading.main_thread()
        if is_main and self._workers.shares_generators and self._on_draws.left > 0:
            self._on_draws.left -= 1
            before = generator_states()  # while the main thread waits, only workers draw
        while True:
            if self._in_order and self._due in self._ready:
                outcome = self._ready.pop(self._due)
                break
            outcome = self._wait()
            if not self._in_order or outcome.number == self._due:
                break
            self._ready[outcome.number] = outcome
        self._due += 1
        self._outstanding -= 1
        drew_from = outcome.drew_from if before is None else used_generators(before)
        if drew_from:
            self._on_draws(drew_from)
        return outcome

    def _wait(self) -> TaskResult:
        try:
            return self._workers.get(self._timeout or None)
        except TimeoutError:
            self._fail()
            raise RuntimeError(
                f"DataLoader timed out after {self._timeout:g} seconds; expected a batch from "
                f"{self._count} workers. Pass a larger timeout, or find out what blocks the dataset."
            ) from None
        except BaseException:
            self._fail()
            raise

    def _fail(self) -> None:
        self._ended = True
        self._workers.close()


class BatchIterator(_Ahead):
    """Reads the planned batches of a map-style dataset with workers. With W workers, worker n % W makes batch n."""

    def __init__(
        self, workers: Workers, count: int, planned: Iterator[PlannedTask], keep: Keep, depth: int, **options: Any
    ):
        super().__init__(workers, count, depth, **options)
        self._planned, self._keep = planned, keep
        self._positions: dict[int, Position] = {}
        self._fill(depth)

    def __next__(self) -> Any:
        self._check_owner()
        if not self._ended:
            self._fill(max(1, self._depth))
        if self._ended or not self._outstanding:
            self.close()
            raise StopIteration
        outcome = self._receive()
        position = self._positions.pop(outcome.number)
        self._fill(self._depth)
        if outcome.error is not None:
            raise outcome.error
        self._keep(position)
        return outcome.batch

    def _fill(self, depth: int) -> None:
        while self._outstanding < depth * self._count:
            planned = next(self._planned, None)
            if planned is None:
                return
            self._positions[self._sent] = planned.position
            self._submit(self._sent % self._count, planned.task)


class StreamIterator(_Ahead):
    """Reads an iterable dataset with workers, which yield batches in turn. Each worker has a copy of the dataset.

    `keep(states, turn)` is called after each batch with the states of the workers and the worker of the next batch, or
    None at the end of the pass.
    """

    def __init__(
        self,
        workers: Workers,
        states: Sequence[Any],
        turn: int,
        keep: Callable[[Sequence[Any], int | None], None],
        depth: int,
        **options: Any,
    ):
        super().__init__(workers, len(states), depth, **options)
        self._states, self._turn, self._keep = list(states), turn, keep
        self._active = [state is None or not state.get("ended") for state in self._states]
        self._fill(depth)

    def __next__(self) -> Any:
        self._check_owner()
        while not self._ended:
            self._fill(max(1, self._depth))
            if not self._outstanding:
                self._keep(self._states, None)
                break
            outcome = self._receive()
            worker = outcome.worker
            if outcome.ended:
                self._active[worker] = False
                self._states[worker] = outcome.state
                continue
            self._fill(self._depth)
            if outcome.error is not None:
                raise outcome.error
            self._states[worker] = outcome.state
            self._keep(self._states, (worker + 1) % self._count)
            return outcome.batch
        self.close()
        raise StopIteration

    def _fill(self, depth: int) -> None:
        while self._outstanding < depth * self._count and any(self._active):
            while not self._active[self._turn]:
                self._turn = (self._turn + 1) % self._count
            worker, self._turn = self._turn, (self._turn + 1) % self._count
            self._submit(worker, None)
