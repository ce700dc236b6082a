"""The training loop.

While a step runs, a thread makes and places the next batch. The metrics of a step are read while the next step runs.
Therefore the device never waits for Python. Before an evaluation, a checkpoint or the end, the loop waits for the step.

A line of the log contains the means of the metrics since the last line; see `RunningMeans`. A checkpoint between two
lines stores the sums so far. A resumed run therefore writes the same line as a run that was not killed.
"""

import contextlib
import dataclasses
import functools
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import jax

from funcnet.data.prefetch import Prefetcher
from funcnet.parallel import check_replicated
from funcnet.train.checkpoints import Checkpoints
from funcnet.train.errors import RunError
from funcnet.train.interruption import Interruption
from funcnet.train.means import RunningMeans
from funcnet.train.state import TrainState

__all__ = ["Cadence", "Logger", "Outcome", "train"]


class Logger(Protocol):
    """Receives the metrics of logged steps: `JsonLines`, `TensorBoard`, `TrainingProgress`."""

    def write(self, step: int, values: Mapping[str, float]) -> None:
        """Write the metrics of a step. Each step is written once."""

    def sync(self) -> None:
        """Make everything written so far durable. The loop calls this before it saves a checkpoint."""


@dataclasses.dataclass(frozen=True)
class Cadence:
    """How often a run logs, evaluates and saves, in steps. 0 means only at the last step.

    Args:
        total_steps: number of steps in the run.
        log_every: number of steps between two lines of metrics. The first, the last and all evaluated steps are logged
            too.
        evaluate_every: number of steps between two evaluations. The last step is evaluated too.
        save_every: number of steps between two checkpoints. The last step is saved too. If it is a multiple of
            `evaluate_every`, every checkpoint has an evaluation, so the best checkpoint can be kept.

    Example:
        >>> cadence = Cadence(total_steps=10, log_every=4, save_every=5)
        >>> [step for step in range(1, 11) if cadence.logs(step)]
        [1, 4, 8, 10]
        >>> [step for step in range(1, 11) if cadence.saves(step)]
        [5, 10]
    """

    total_steps: int
    log_every: int = 10
    evaluate_every: int = 0
    save_every: int = 0

    def logs(self, step: int) -> bool:
        """Return whether `step` is logged."""
        return step == 1 or self._due(step, self.log_every)

    def evaluates(self, step: int) -> bool:
        """Return whether the model is evaluated after `step`."""
        return self._due(step, self.evaluate_every)

    def saves(self, step: int) -> bool:
        """Return whether a checkpoint is saved after `step`."""
        return self._due(step, self.save_every)

    def _due(self, step: int, every: int) -> bool:
        return step == self.total_steps or (every > 0 and step % every == 0)


@dataclasses.dataclass(frozen=True)
class Outcome:
    """The result of `train`.

    Attributes:
        state: the last train state, on the devices.
        step: the number of updates made, including those of earlier processes.
        seconds: time spent in training after the first step, excluding evaluation and saving.
        tokens: number of tokens (or images, …) processed in `seconds`, without padding.
        all_tokens: number of tokens of all steps of this process, including the first one.
        data_wait_share: share of `seconds` that the loop spent waiting for data, 0 to 1.
    """

    state: TrainState
    step: int
    seconds: float
    tokens: int
    data_wait_share: float
    all_tokens: int = 0


def train(
    step: Callable[[TrainState, Any, jax.Array], tuple[TrainState, dict[str, Any]]],
    train_state: TrainState,
    batches: Callable[..., Iterable[Any]],
    *,
    key: jax.Array,
    place: Callable[[Any], Any],
    size: Callable[[Any], int],
    unit: str = "tokens",
    cadence: Cadence,
    stop: Interruption,
    loggers: Sequence[Logger] = (),
    evaluate: Callable[[TrainState], dict[str, float]] | None = None,
    checkpoints: Checkpoints | None = None,
    about: Mapping[str, Any] | None = None,
    after_step: Callable[[int], None] = lambda step: None,
    owed: Mapping[str, float] | None = None,
    unlogged: Mapping[str, Any] | None = None,
    position: Mapping[str, Any] | None = None,
    should_stop: Callable[[Mapping[str, float]], bool] = lambda evaluation: False,
) -> Outcome:
    """Train from `train_state` to `cadence.total_steps`, or until a signal arrives.

    Args:
        step: the compiled step, `parallelize(make_step(…, metrics_as="sums"), layout, donate=True)`. It consumes
            `train_state`. If its metrics are means, a line of the log weights all steps equally.
        train_state: the first state, placed by `layout.place`. Training continues from its `step`.
        batches: `batches(start_step)` returns the host batches from that step on, such as `LoaderBatches(loader)` or
            `loader.batches`. If the returned iterable has `state_dict()`, each checkpoint contains its position.
        key: the random key of the run, placed.
        place: function that places a batch on the devices, such as `layout.shard`.
        size: function that counts the tokens (or images, …) of a host batch, without padding, for the throughput.
        unit: the unit that `size` counts. The throughput is logged as `{unit}_per_second`.
        cadence: when to log, evaluate and save.
        stop: an active `Interruption`.
        loggers: loggers, which receive the metrics of logged steps.
        evaluate: function `evaluate(train_state) -> {name: value}`. The values are logged with the prefix `eval_`.
        checkpoints: checkpoints of the run. None saves no checkpoints.
        about: other values to save in a checkpoint (seed, configuration), as JSON.
        after_step: function that is called with the number of each finished step, for a progress bar.
        owed: the entry "owed" in the `about` of the restored checkpoint. It exists if a signal interrupted the
            evaluation of the checkpoint's step, and contains the other metrics of that step. The evaluation is then
            repeated first, and logged with these metrics.
        unlogged: the entry "unlogged" in the `about` of the restored checkpoint. It exists if the checkpoint was saved
            between two lines of the log, and contains the sums of the metrics since the last line.
        position: the entry "position" in the `about["data"]` of the restored checkpoint, if there is one. The batches
            are then those of `batches(start_step, position)`.
        should_stop: function that is called with the logged values of each evaluation. If it returns True, the run
            saves a checkpoint and ends at that step.

    Returns:
        An `Outcome`.

    Raises:
        RunError: if the loss or the gradient norm is not finite, a checkpoint cannot be written, or the data end early.
        ValueError: if the buffers differ between devices (see `check_replicated`).
    """
    done = int(train_state.step)
    remaining = range(done + 1, done + 1 if stop.requested else cadence.total_steps + 1)
    evaluated = functools.partial(_evaluated, evaluate, stop)
    if owed is not None:
        evaluation = evaluated(train_state)
        if evaluation is not None:
            _log(loggers, done, {**owed, **evaluation})
        if evaluation is None or should_stop(evaluation):
            return Outcome(train_state, done, 0.0, 0, 0.0)

    source = batches(done) if position is None else batches(done, position)
    with Prefetcher(
        source,
        transfer=lambda batch: (int(size(batch)), place(batch)),
        position=getattr(source, "state_dict", None),
    ) as ahead:
        pending = _PendingMetrics(cadence, loggers, after_step, ahead, unit, RunningMeans(unlogged))
        for number in remaining:
            stop.at_step(number)
            tokens, batch = _next(ahead, number)
            train_state, metrics = step(train_state, batch, key)  # returns while the device works
            pending.log()  # the metrics of the previous step
            pending.add(number, metrics, tokens)
            if checkpoints is not None:
                checkpoints.check()
            is_first = number == remaining[0]
            if not (stop.requested or is_first or cadence.evaluates(number) or cadence.saves(number)):
                continue
            pending.wait()
            details: dict[str, Any] = {**(about or {}), "data": {"next_step": number}}
            if ahead.state_dict() is not None:
                details["data"]["position"] = ahead.state_dict()
            evaluation = {}
            if cadence.evaluates(number):
                with pending.clock.paused():
                    evaluation = evaluated(train_state)
            if evaluation is None and checkpoints is not None:
                details["owed"] = pending.take()
            else:
                pending.log(evaluation)
                details |= pending.unlogged()
            stopping = stop.requested or bool(evaluation and should_stop(evaluation))
            if checkpoints is not None and (stopping or cadence.saves(number)):
                with pending.clock.paused():
                    _save(checkpoints, train_state, number, details, evaluation, loggers)
            if is_first:
                pending.clock.restart()  # the first step of a process includes its compilation
            if stopping:
                break
        pending.log()
        if checkpoints is not None:
            checkpoints.wait()
        clock = pending.clock
        return Outcome(
            train_state, pending.done or done, clock.seconds, clock.tokens, pending.wait_share, pending.tokens
        )


def _evaluated(
    evaluate: Callable[[TrainState], dict[str, float]] | None, stop: Interruption, state: TrainState
) -> dict[str, float] | None:
    """Evaluate, and add the prefix `eval_` to the names. Return None if a signal interrupted the evaluation."""
    if evaluate is None:
        return {}
    if stop.requested:
        return None
    values = {f"eval_{name}": value for name, value in evaluate(state).items()}
    return None if stop.requested else values


def _save(
    checkpoints: Checkpoints,
    state: TrainState,
    number: int,
    details: Mapping[str, Any],
    evaluation: Mapping[str, float] | None,
    loggers: Sequence[Logger],
) -> None:
    check_replicated(state.state, where="train.train")
    for logger in loggers:
        logger.sync()
    checkpoints.save(state, number, details, evaluation)


def _log(loggers: Sequence[Logger], step: int, values: Mapping[str, float]) -> None:
    for logger in loggers:
        logger.write(step, values)


class _PendingMetrics:
    """Reads and logs the metrics of the step that the device is computing, and measures the throughput."""

    def __init__(
        self,
        cadence: Cadence,
        loggers: Sequence[Logger],
        after_step: Callable[[int], None],
        ahead: Any,
        unit: str,
        means: RunningMeans,
    ):
        self.cadence, self.loggers, self.after_step, self.ahead, self.unit = cadence, loggers, after_step, ahead, unit
        self.means = means
        self.clock = _Clock()
        self.done: int | None = None
        self.tokens = 0
        self._pending: tuple[int, dict[str, Any], int] | None = None
        self._waited = 0.0

    @property
    def wait_share(self) -> float:
        """The share of the time after the first step that the loop spent waiting for a batch."""
        return self.ahead.waited / self.clock.seconds if self.clock.seconds > 0 else 0.0

    def add(self, number: int, metrics: dict[str, Any], tokens: int) -> None:
        """Keep the metrics of a step that was given to the device."""
        self._pending = (number, metrics, tokens)

    def wait(self) -> None:
        """Wait until the device has finished the step."""
        jax.block_until_ready(self._pending and self._pending[1])

    def log(self, evaluation: Mapping[str, float] | None = None) -> None:
        """Wait for the step and read its metrics. If the step is logged or evaluated, log the means since the last
        line.
        """
        if self._pending is None:
            return
        number = self._read()
        if evaluation or self.cadence.logs(number):
            _log(self.loggers, number, {**self.means.take(), **self._speed(), **(evaluation or {})})

    def take(self) -> dict[str, float]:
        """Wait for the step, and return the means since the last line without logging them."""
        self._read()
        return {**self.means.take(), **self._speed()}

    def unlogged(self) -> dict[str, Any]:
        """Return the metrics since the last log line, as a checkpoint stores them."""
        record = self.means.record()
        return {} if record is None else {"unlogged": record}

    def _read(self) -> int:
        assert self._pending is not None
        number, metrics, tokens = self._pending
        values = self.means.add(metrics)
        self._pending, self.done = None, number
        self.clock.add(tokens)
        self.tokens += tokens
        self.after_step(number)
        for name in ("loss", "grad_norm"):
            if not math.isfinite(values.get(name, 0.0)):
                advice = "Lower the learning rate or lengthen the warm-up. The last checkpoint is from an earlier step."
                if number == 1:
                    advice = "Look for ids out of range and for NaN in the data: nn.checked(net) names the first."
                raise RunError(
                    f"train.train: {name} at step {number}; expected a finite number, got {values[name]}. {advice}"
                )
        return number

    def _speed(self) -> dict[str, float]:
        seconds, tokens = self.clock.lap()
        waited, self._waited = self.ahead.waited - self._waited, self.ahead.waited
        return {f"{self.unit}_per_second": tokens / seconds, "data_wait_share": min(1.0, waited / seconds)}


class _Clock:
    """Counts seconds and tokens, in total and since the last lap. Paused seconds do not count."""

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
        """Start a new lap, and return (seconds, tokens) of the last one."""
        self._advance()
        lap = max(self._lap_seconds, 1e-9), self._lap_tokens
        self._lap_seconds, self._lap_tokens = 0.0, 0
        return lap

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """A context whose time is not counted."""
        self._advance()
        yield
        self._since = time.perf_counter()

    def _advance(self) -> None:
        now = time.perf_counter()
        self.seconds += now - self._since
        self._lap_seconds += now - self._since
        self._since = now


def _next(ahead: Iterator[tuple[int, Any]], number: int) -> tuple[int, Any]:
    try:
        return next(ahead)
    except StopIteration:
        raise RunError(
            f"train.train: the data ended at step {number}; expected a batch for every step, got none. The iterator of "
            "batches(start_step) must not end before the run."
        ) from None
