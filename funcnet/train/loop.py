"""The training loop, from top to bottom.

The next batch is made and placed in a thread while a step runs, and a step's metrics are read when the next one is
already running: the device never waits for Python. What must see a finished step (evaluating, saving, leaving) reads
them at once.
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
from funcnet.train.state import TrainState

__all__ = ["Cadence", "Logger", "Outcome", "train"]


class Logger(Protocol):
    """Receives the values of a logged step: `JsonLines`, `TensorBoard`, `Progress`."""

    def write(self, step: int, values: Mapping[str, float]) -> None:
        """The values of one step, each step once."""

    def sync(self) -> None:
        """A checkpoint is about to count on what was written."""


@dataclasses.dataclass(frozen=True)
class Cadence:
    """When things happen, in steps; 0 means never, but for the last step.

    Args:
        total_steps: where the run ends.
        log_every: a line of metrics; the first and the last step and evaluated ones have one too.
        evaluate_every: on held-out batches; the last step too.
        save_every: a checkpoint; the last step too. A multiple of `evaluate_every` lets the best one be known.

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
        """Whether `step` has a line."""
        return step == 1 or self._due(step, self.log_every)

    def evaluates(self, step: int) -> bool:
        """Whether held-out batches are looked at after `step`."""
        return self._due(step, self.evaluate_every)

    def saves(self, step: int) -> bool:
        """Whether a checkpoint is written after `step`."""
        return self._due(step, self.save_every)

    def _due(self, step: int, every: int) -> bool:
        return step == self.total_steps or (every > 0 and step % every == 0)


@dataclasses.dataclass(frozen=True)
class Outcome:
    """How a call of `train` ended: the state, the updates made, seconds of training without evaluation and saving, the
    real tokens seen in them, and the share of them in which the loop waited for data."""

    state: TrainState
    step: int
    seconds: float
    tokens: int
    data_wait_share: float


def train(
    step: Callable[[TrainState, Any, jax.Array], tuple[TrainState, dict[str, jax.Array]]],
    train_state: TrainState,
    batches: Callable[[int], Iterable[Any]],
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
    enough: Callable[[Mapping[str, float]], bool] = lambda evaluation: False,
) -> Outcome:
    """Train from `train_state` to `cadence.total_steps`, or to the step after a signal.

    Args:
        step: `parallelize(make_step(…), plan, donate=True)`; `train_state` is gone after the first call.
        train_state: placed by `plan.place`, from `create` or from a checkpoint: its `step` says where to go on.
        batches: `batches(start_step)`, the host batches from that step on (`DataLoader.batches`).
        key: the run's, placed.
        place: `plan.shard`.
        size: the real tokens (or images, …) of a host batch, for the throughput.
        unit: what `size` counts; the throughput is logged as `{unit}_per_second`.
        cadence: when to log, evaluate and save.
        stop: an open `Interruption`.
        loggers: each receives `write(step, values)`.
        evaluate: `evaluate(train_state) -> {name: value}`; the names are logged with `eval_` before them.
        checkpoints: where to save; None saves nothing.
        about: what a checkpoint should hold beside the arrays (seed, configuration).
        after_step: called with the number of each finished step, for a progress bar.
        owed: what the checkpoint's `about` says under "owed": the values of its step, whose evaluation a signal cut
            short. That is made up for before anything else.
        enough: asked with the values of each evaluation (as logged); True ends the run at that step, saved.

    Returns:
        An `Outcome`.

    Raises:
        RunError: the loss is not finite; a checkpoint could not be written; the data ended early.
        ValueError: the devices' buffers differ (`check_replicated`).
    """
    done = int(train_state.step)
    remaining = range(done + 1, done + 1 if stop.requested else cadence.total_steps + 1)
    evaluated = functools.partial(_evaluated, evaluate, stop)
    if owed is not None:
        evaluation = evaluated(train_state)
        if evaluation is not None:
            _log(loggers, done, {**owed, **evaluation})
        if evaluation is None or enough(evaluation):
            return Outcome(train_state, done, 0.0, 0, 0.0)

    with Prefetcher(batches(done), transfer=lambda batch: (int(size(batch)), place(batch))) as ahead:
        book = _Book(cadence, loggers, after_step, ahead, unit)
        for number in remaining:
            tokens, batch = _next(ahead, number)
            train_state, metrics = step(train_state, batch, key)  # returns while the device works
            book.close_page()  # of the step before
            book.open_page(number, metrics, tokens)
            if checkpoints is not None:
                checkpoints.check()
            is_first = number == remaining[0]
            if not (stop.requested or is_first or cadence.evaluates(number) or cadence.saves(number)):
                continue
            book.wait()
            details: dict[str, Any] = {**(about or {}), "data": {"next_step": number}}
            evaluation = {}
            if cadence.evaluates(number):
                with book.clock.paused():
                    evaluation = evaluated(train_state)
            if evaluation is None and checkpoints is not None:
                details["owed"] = book.take_page()
            else:
                book.close_page(evaluation)
            stopping = stop.requested or bool(evaluation and enough(evaluation))
            if checkpoints is not None and (stopping or cadence.saves(number)):
                with book.clock.paused():
                    _save(checkpoints, train_state, number, details, evaluation, loggers)
            if is_first:
                book.clock.restart()  # the first step of a process compiles
            if stopping:
                break
        book.close_page()
        if checkpoints is not None:
            checkpoints.wait()
        return Outcome(train_state, book.done or done, book.clock.seconds, book.clock.tokens, book.wait_share)


def _evaluated(
    evaluate: Callable[[TrainState], dict[str, float]] | None, stop: Interruption, state: TrainState
) -> dict[str, float] | None:
    """The evaluation as it is logged; None if a signal cut it short."""
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


class _Book:
    """Reads the metrics of one step at a time, hands the logged ones on, and keeps the time."""

    def __init__(
        self, cadence: Cadence, loggers: Sequence[Logger], after_step: Callable[[int], None], ahead: Any, unit: str
    ):
        self.cadence, self.loggers, self.after_step, self.ahead, self.unit = cadence, loggers, after_step, ahead, unit
        self.clock = _Clock()
        self.done: int | None = None
        self._page: tuple[int, dict[str, jax.Array], int] | None = None
        self._waited = 0.0

    @property
    def wait_share(self) -> float:
        """Of the seconds since the first step, those in which the loop waited for a batch."""
        return self.ahead.waited / self.clock.seconds if self.clock.seconds > 0 else 0.0

    def open_page(self, number: int, metrics: dict[str, jax.Array], tokens: int) -> None:
        """A step has been handed to the device."""
        self._page = (number, metrics, tokens)

    def wait(self) -> None:
        """Until the device has finished the step."""
        jax.block_until_ready(self._page and self._page[1])

    def close_page(self, evaluation: Mapping[str, float] | None = None) -> None:
        """Read the step's metrics, which waits for it, and log them where a line is due."""
        if self._page is None:
            return
        number, values = self._read()
        if evaluation or self.cadence.logs(number):
            _log(self.loggers, number, {**values, **self._speed(), **(evaluation or {})})

    def take_page(self) -> dict[str, float]:
        """The line of the step, read but not logged."""
        _, values = self._read()
        return {**values, **self._speed()}

    def _read(self) -> tuple[int, dict[str, float]]:
        assert self._page is not None
        number, metrics, tokens = self._page
        values = {name: float(value) for name, value in jax.device_get(metrics).items()}
        self._page, self.done = None, number
        self.clock.add(tokens)
        self.after_step(number)
        for name in ("loss", "grad_norm"):
            if not math.isfinite(values.get(name, 0.0)):
                raise RunError(
                    f"train.train: {name} at step {number}; expected a finite number, got {values[name]}. "
                    "Lower the learning rate or lengthen the warm-up; the last checkpoint is from before."
                )
        return number, values

    def _speed(self) -> dict[str, float]:
        seconds, tokens = self.clock.lap()
        waited, self._waited = self.ahead.waited - self._waited, self.ahead.waited
        return {f"{self.unit}_per_second": tokens / seconds, "data_wait_share": min(1.0, waited / seconds)}


class _Clock:
    """Seconds and tokens, in all and since the last lap; paused seconds do not count."""

    def __init__(self) -> None:
        self._since = time.perf_counter()
        self.restart()

    def restart(self) -> None:
        """Forget what was, laps too."""
        self.seconds, self.tokens = 0.0, 0
        self._lap_seconds, self._lap_tokens = 0.0, 0
        self._since = time.perf_counter()

    def add(self, tokens: int) -> None:
        """A step has ended."""
        self._advance()
        self.tokens += tokens
        self._lap_tokens += tokens

    def lap(self) -> tuple[float, int]:
        """(seconds, tokens) since the last lap."""
        self._advance()
        lap = max(self._lap_seconds, 1e-9), self._lap_tokens
        self._lap_seconds, self._lap_tokens = 0.0, 0
        return lap

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """What happens inside takes no time."""
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
            f"train.train: the data ended at step {number}; expected a batch for every step, got none. "
            "Let batches(start_step) go on for as long as the run does."
        ) from None
