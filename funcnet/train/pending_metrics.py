"""The metrics of the step that the device is computing, and the throughput of the loop."""

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import jax

from funcnet.train.faults import Fault, FaultFinder
from funcnet.train.means import RunningMeans
from funcnet.tree import PyTree

__all__ = ["Logger", "PendingMetrics", "log"]


class Logger(Protocol):
    """An object that receives the metrics of logged steps: `JsonLines`, `TensorBoard` or `TrainingProgress`."""

    def write(self, step: int, values: Mapping[str, float]) -> None:
        """Write the metrics of a step. Each step is written once."""

    def sync(self) -> None:
        """Make sure that everything written so far is on the disk. The loop calls this before it saves a checkpoint."""

    def rewind(self, step: int) -> None:
        """Remove the metrics that were written for the steps after `step`, because the run goes back to `step`."""


def log(loggers: Sequence[Logger], step: int, values: Mapping[str, float]) -> None:
    """Pass the metrics of a step to all loggers."""
    for logger in loggers:
        logger.write(step, values)


class PendingMetrics:
    """Reads and logs the metrics of the step that the device is computing, and measures the throughput.

    Args:
        logs: function that returns whether a step is logged, such as `Cadence.logs`.
        loggers: loggers of the run.
        after_step: function that is called with the number of each finished step.
        ahead: the prefetcher, whose attribute `waited` is the number of seconds that the loop has waited for a batch.
        unit: the unit of the throughput, such as "tokens".
        unlogged: the result of `RunningMeans.record` in an earlier process of the run, or None.
        finder: the `FaultFinder`, which finds the steps that fail.
    """

    def __init__(
        self,
        logs: Callable[[int], bool],
        loggers: Sequence[Logger],
        after_step: Callable[[int], None],
        ahead: Any,
        unit: str,
        unlogged: Mapping[str, Any] | None,
        finder: FaultFinder,
    ):
        self.logs, self.loggers, self.after_step, self.ahead, self.unit = logs, loggers, after_step, ahead, unit
        self.means, self.finder = RunningMeans(unlogged), finder
        self.clock = Clock()
        self.done: int | None = None
        self.tokens = 0
        self._pending: tuple[int, int, dict[str, Any], int, Any] | None = None
        self._waited = 0.0

    @property
    def wait_share(self) -> float:
        """The share of the time after the first step that the loop spent waiting for a batch."""
        return self.ahead.waited / self.clock.seconds if self.clock.seconds > 0 else 0.0

    def add(self, number: int, index: int, metrics: dict[str, Any], tokens: int, batch: PyTree) -> None:
        """Store the metrics and the batch of a step that the device is still computing. `index` is the index of the
        batch.
        """
        self._pending = (number, index, metrics, tokens, batch)

    def wait(self) -> None:
        """Wait until the device has finished the pending step."""
        jax.block_until_ready(self._pending and self._pending[2])

    def read(self) -> tuple[Fault, Any] | None:
        """Wait for the pending step, and read its metrics. Return (fault, batch) if the step has failed, otherwise
        None.
        """
        if self._pending is None:
            return None
        (number, index, metrics, tokens, batch), self._pending = self._pending, None
        trace = metrics.pop("trace", None)
        values = self.means.add(metrics)
        self.done = number
        self.clock.add(tokens)
        self.tokens += tokens
        self.after_step(number)
        flags = None if trace is None else lambda: jax.device_get(trace)
        fault = self.finder.find(number, index, values, flags)
        return None if fault is None else (fault, batch)

    def write(self, evaluation: Mapping[str, float] | None = None) -> None:
        """Log the means of the metrics since the last line, if the step that was read last is logged or evaluated."""
        if self.done is not None and self.means.has_steps and (evaluation or self.logs(self.done)):
            log(self.loggers, self.done, {**self.take(), **(evaluation or {})})

    def take(self) -> dict[str, float]:
        """Return the means of the metrics since the last line of the log, and reset the means. Nothing is logged."""
        return {**self.means.take(), **self._speed()}

    def rewind(self, step: int, unlogged: Mapping[str, Any] | None) -> None:
        """Go back to an earlier step, and discard the metrics of the step that the device is computing."""
        self._pending, self.done, self.means = None, step, RunningMeans(unlogged)
        for logger in self.loggers:
            logger.rewind(step)

    def _speed(self) -> dict[str, float]:
        seconds, tokens = self.clock.lap()
        waited, self._waited = self.ahead.waited - self._waited, self.ahead.waited
        return {f"{self.unit}_per_second": tokens / seconds, "data_wait_share": min(1.0, waited / seconds)}


class Clock:
    """Counts seconds and tokens, in total and since the last call of `lap`. Time inside `paused` does not count."""

    def __init__(self) -> None:
        self._since = time.perf_counter()
        self.restart()

    def restart(self) -> None:
        """Set all counts to zero."""
        self.seconds, self.tokens = 0.0, 0
        self._lap_seconds, self._lap_tokens = 0.0, 0
        self._since = time.perf_counter()

    def add(self, tokens: int) -> None:
        """Count the tokens of a finished step."""
        self._advance()
        self.tokens += tokens
        self._lap_tokens += tokens

    def lap(self) -> tuple[float, int]:
        """Return (seconds, tokens) since the last call of this method, and start to count from zero."""
        self._advance()
        lap = max(self._lap_seconds, 1e-9), self._lap_tokens
        self._lap_seconds, self._lap_tokens = 0.0, 0
        return lap

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Do not count time while the `with` block runs."""
        self._advance()
        yield
        self._since = time.perf_counter()

    def _advance(self) -> None:
        now = time.perf_counter()
        self.seconds += now - self._since
        self._lap_seconds += now - self._since
        self._since = now
