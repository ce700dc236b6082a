"""Reading without workers: the calling thread reads each batch when it is requested."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

from funcnet.data.worker import Fetcher, TaskResult, work

__all__ = ["InlineWorkers"]


class InlineWorkers:
    """Implements the interface `Workers` for a loader whose batches are read by the calling thread."""

    shares_generators = False  # there is no other thread

    def __init__(self, fetcher: Fetcher):
        self._fetcher = fetcher
        self._tasks: deque[tuple[int, Any]] = deque()

    def begin(self, epoch: int, seed: int, states: Sequence[Any]) -> None:
        """Begin a pass."""
        self._tasks.clear()
        self._fetcher.begin(epoch, states[0])

    def submit(self, worker: int, number: int, task: object) -> None:
        """Store the task."""
        self._tasks.append((number, task))

    def get(self, timeout: float | None) -> TaskResult:
        """Run the oldest task that is stored, and return its result."""
        number, task = self._tasks.popleft()
        return work(self._fetcher, 0, number, task)

    def close(self) -> None:
        """Drop the tasks."""
        self._tasks.clear()
