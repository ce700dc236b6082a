"""The training loop.

While a step runs, a thread makes and places the next batch. The metrics of a step are read while the next step runs.
Therefore the device never waits for Python. Before an evaluation, a checkpoint or the end, the loop waits until the
step has finished.

A line of the log contains the means of the metrics since the last line; see `RunningMeans`. A checkpoint between two
lines stores the sums so far. A resumed run therefore writes the same line as a run that was not killed.

If the loss of a step is a spike (see `faults`), the model goes back to a checkpoint, but the data do not go back.
Before the first spike, step s uses the batch with index s - 1. After a spike, step s uses a batch with a larger index.
"""

import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import jax

from funcnet.arguments import expect, function, integer
from funcnet.data.prefetch import Prefetcher
from funcnet.parallel import check_replicated
from funcnet.train.checkpoints import Checkpoints
from funcnet.train.continuation import Continuation
from funcnet.train.errors import RunError
from funcnet.train.faults import FaultFinder, Recovery
from funcnet.train.interruption import Interruption
from funcnet.train.pending_metrics import Logger, PendingMetrics, log
from funcnet.train.state import TrainState

__all__ = ["Cadence", "Every", "Outcome", "train"]

Every = int | Literal["epoch"]  # steps between two evaluations or checkpoints


@dataclasses.dataclass(frozen=True)
class Cadence:
    """How often a run logs metrics, evaluates the model and saves checkpoints, in steps. 0 means only at the last step.

    "epoch" means at the end of each epoch of the data. The batches must then say where an epoch ends, as those of
    `LoaderBatches(loader, by_epoch=True)` do.

    Args:
        total_steps: number of steps in the run. With None, the run ends with the data. The batches must then say which
            of them is the last one, as those of `LoaderBatches(loader, epochs)` do.
        log_every: number of steps between two lines of metrics. The first step, the last step and every step with an
            evaluation are logged too.
        evaluate_every: number of steps between two evaluations. The last step is evaluated too.
        save_every: number of steps between two checkpoints. The last step is saved too. If `save_every` is a multiple
            of `evaluate_every`, every checkpoint has an evaluation, so the best checkpoint can be kept.

    Raises:
        TypeError: if a number is not an int.
        ValueError: if a number is negative.

    Example:
        >>> cadence = Cadence(total_steps=10, log_every=4, save_every=5)
        >>> [step for step in range(1, 11) if cadence.logs(step)]
        [1, 4, 8, 10]
        >>> [step for step in range(1, 11) if cadence.saves(step)]
        [5, 10]
    """

    total_steps: int | None
    log_every: int = 10
    evaluate_every: Every = 0
    save_every: Every = 0

    def logs(self, step: int) -> bool:
        """Return whether `step` is logged."""
        return step == 1 or self._due(step, self.log_every, False)

    def evaluates(self, step: int, *, ends_epoch: bool = False) -> bool:
        """Return whether the model is evaluated after `step`. `ends_epoch` says whether `step` ends an epoch."""
        return self._due(step, self.evaluate_every, ends_epoch)

    def saves(self, step: int, *, ends_epoch: bool = False) -> bool:
        """Return whether a checkpoint is saved after `step`. `ends_epoch` says whether `step` ends an epoch."""
        return self._due(step, self.save_every, ends_epoch)

    def __post_init__(self) -> None:
        if self.total_steps is not None:
            integer("train.Cadence", "total_steps", self.total_steps, 0)
        integer("train.Cadence", "log_every", self.log_every, 0)
        for name in ("evaluate_every", "save_every"):
            if (value := getattr(self, name)) != "epoch":
                expect(not isinstance(value, str), "train.Cadence", name, "an int or 'epoch'", value)
                integer("train.Cadence", name, value, 0)

    @property
    def length(self) -> str:
        """The length of the run, for messages."""
        return "until the data end" if self.total_steps is None else f"{self.total_steps:,} steps"

    def _due(self, step: int, every: Every, ends_epoch: bool) -> bool:
        if step == self.total_steps:
            return True
        return ends_epoch if every == "epoch" else every > 0 and step % every == 0


@dataclasses.dataclass(frozen=True)
class Outcome:
    """The result of `train`.

    Attributes:
        state: the last train state, on the devices.
        step: the number of steps made, including those of earlier processes.
        seconds: time spent in training after the first step, excluding evaluation and saving.
        tokens: number of tokens (or images, …) processed in `seconds`, without padding.
        all_tokens: number of tokens in all steps of this process, including its first step.
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
    begin: Mapping[str, Any] | None = None,
    after_step: Callable[[int], None] = lambda step: None,
    should_stop: Callable[[Mapping[str, float]], bool] = lambda evaluation: False,
    rewind_above: float = 0.0,
    recovery: Recovery | None = None,
) -> Outcome:
    """Train from `train_state` to `cadence.total_steps`, or until a signal arrives.

    Args:
        step: the compiled step, `parallelize(make_step(…, metrics_as="sums"), layout, donate=True)`. It consumes
            `train_state`. If the step returns means instead of sums, a line of the log weights all steps equally.
        train_state: the first state, placed by `layout.place`. Training continues from `train_state.step`.
        batches: `batches(start_step)` returns the host batches from that step on, such as `LoaderBatches(loader)` or
            `loader.batches`. If the returned iterable has `state_dict()`, each checkpoint contains its position, and
            a resumed run calls `batches(start_step, position)`.
        key: the random key of the run, placed.
        place: function that places a batch on the devices, such as `layout.shard`.
        size: function that counts the tokens (or images, …) of a host batch, without padding, for the throughput.
        unit: the unit that `size` counts. The throughput is logged under the name `{unit}_per_second`.
        cadence: when to log, evaluate and save.
        stop: an active `Interruption`.
        loggers: objects that receive the metrics of logged steps; see `Logger`.
        evaluate: function `evaluate(train_state) -> {name: value}`. The values are logged with the prefix `eval_`.
        checkpoints: checkpoints of the run. None saves no checkpoints.
        about: JSON values to save in each checkpoint together with the train state, such as the seed and the
            configuration.
        begin: the `about` of the restored checkpoint. It contains the position in the data, the metrics that were not
            logged yet, and the faults so far. Pass None if no checkpoint was restored.
        after_step: function that is called with the number of each finished step, for a progress bar.
        should_stop: function that is called with the logged values of each evaluation. If it returns True, the run
            saves a checkpoint and ends at that step.
        rewind_above: a loss above this multiple of the moving average is a spike, and the run goes back to an earlier
            checkpoint. 0 finds no spikes. Needs `recovery`.
        recovery: an object that stores a failed step and restores an earlier checkpoint. None only counts skipped
            steps.

    Returns:
        An `Outcome`.

    Raises:
        RunError: if the first step is skipped, if too many steps in a row are skipped or have a loss that is not
            finite, if the loss spikes too often, if a checkpoint cannot be written, or if the data end early.
        ValueError: if the buffers differ between devices (see `check_replicated`).

    Example:
        >>> import optax
        >>> from funcnet.train import create, make_step
        >>> objective = lambda params, state, batch, **keywords: ({"fit": {"loss": (batch - params["w"]) ** 2}}, state)
        >>> step = jax.jit(make_step(objective, lambda batch: {"fit": 1}, optax.sgd(0.25)))
        >>> state = create({"w": jax.numpy.zeros(())}, {}, optax.sgd(0.25))
        >>> options = {"key": jax.random.key(0), "place": jax.device_put, "size": lambda _: 1, "stop": Interruption()}
        >>> outcome = train(step, state, lambda start: [jax.numpy.ones(())] * 2, cadence=Cadence(2), **options)
        >>> outcome.step, float(outcome.state.params["w"])
        (2, 0.75)
    """
    expect(isinstance(cadence, Cadence), "train.train", "cadence", "a Cadence", cadence)
    expect(isinstance(stop, Interruption), "train.train", "stop", "an Interruption", stop)
    function("train.train", "step", step, "step(train_state, batch, key)", 3)
    function("train.train", "batches", batches, "batches(start_step)", 1)
    function("train.train", "place", place, "place(batch)", 1)
    function("train.train", "size", size, "size(batch)", 1)
    done = int(train_state.step)
    begun = Continuation.read(begin, done)
    evaluated = functools.partial(_evaluated, evaluate, stop)
    if begun.owed is not None:
        evaluation = evaluated(train_state)
        if evaluation is not None:
            log(loggers, done, {**begun.owed, **evaluation})
        if evaluation is None or should_stop(evaluation):
            return Outcome(train_state, done, 0.0, 0, 0.0)
    finder = FaultFinder(rewind_above if recovery is not None else 0.0, begun.faults)
    if recovery is not None:
        recovery.changed(finder.events)
    source = begun.batches(batches)
    _check_epochs(cadence, source)
    with Prefetcher(
        source,
        transfer=lambda batch: _Taken(int(size(batch)), place(batch), getattr(source, "ends", "")),
        position=getattr(source, "state_dict", None),
    ) as ahead:
        metrics = PendingMetrics(cadence.logs, loggers, after_step, ahead, unit, begun.unlogged, finder)
        loop = _Loop(step, key, cadence, stop, ahead, metrics, checkpoints, about or {}, recovery)
        loop.offset = begun.next_batch - done
        train_state = loop.run(train_state, evaluated, should_stop)
        if checkpoints is not None:
            checkpoints.wait()
        clock = metrics.clock
        return Outcome(train_state, loop.number, clock.seconds, clock.tokens, metrics.wait_share, metrics.tokens)


class _Taken(NamedTuple):
    """A batch that the loop takes.

    Attributes:
        tokens: number of tokens in the batch.
        batch: the batch on the devices.
        ends: what ends with the batch; see `EpochBatches`.
    """

    tokens: int
    batch: Any
    ends: str


@dataclasses.dataclass
class _Loop:
    """Runs the training steps in one process.

    Attributes:
        planned: the cadence of the run.
        number: the number of the step that was started last.
        offset: the index of the next batch minus `number`, which grows when the run goes back to a checkpoint, because
            the data do not go back.
        held: a batch that had been read, but not yet used, when the run went back to a checkpoint. It is used first.
        cadence: the cadence of the run. It has a number of steps as soon as the last batch is known.
        ends_epoch: whether an epoch ends with the current step.
    """

    step: Callable[..., Any]
    key: jax.Array
    planned: Cadence
    stop: Interruption
    ahead: Prefetcher
    metrics: PendingMetrics
    checkpoints: Checkpoints | None
    about: Mapping[str, Any]
    recovery: Recovery | None
    number: int = 0
    offset: int = 0
    held: _Taken | None = None
    ends_epoch: bool = False

    def __post_init__(self) -> None:
        self.cadence = self.planned

    def run(
        self,
        state: TrainState,
        evaluated: Callable[[TrainState], dict[str, float] | None],
        should_stop: Callable[[Mapping[str, float]], bool],
    ) -> TrainState:
        """Run the training steps, and return the train state after the last one."""
        self.number, metrics = int(state.step), self.metrics
        is_first, stopping = True, self.stop.requested
        while not stopping and (self.cadence.total_steps is None or self.number < self.cadence.total_steps):
            taken = self._next()
            if taken is None:
                break
            state, values = self.step(state, taken.batch, self.key)  # returns while the device works
            if back := self._settle(taken):  # the previous step
                state = back
                continue
            metrics.write()
            metrics.add(self.number, self.number - 1 + self.offset, values, taken.tokens, taken.batch)
            if self.checkpoints is not None:
                self.checkpoints.check()
            evaluates = self.cadence.evaluates(self.number, ends_epoch=self.ends_epoch)
            is_due = evaluates or self.cadence.saves(self.number, ends_epoch=self.ends_epoch)
            if not (self.stop.requested or is_first or is_due):
                continue
            metrics.wait()
            if back := self._settle(None):
                state = back
                continue
            evaluation: dict[str, float] | None = {}
            if evaluates:
                with metrics.clock.paused():
                    evaluation = evaluated(state)
            stopping = self.stop.requested or bool(evaluation and should_stop(evaluation))
            self._log_and_save(state, evaluation, stopping)
            if is_first:
                metrics.clock.restart()  # the first step of a process includes its compilation
            is_first = False
        return state

    def _next(self) -> _Taken | None:
        """Begin the next step, and return its batch, or None if the run ends with the data."""
        self.stop.at_step(self.number + 1)
        taken, self.held = self.held or next(self.ahead, None), None
        if taken is None:
            if self.planned.total_steps is None and self.number:
                return None
            raise RunError(
                f"train.train: the data ended at step {self.number + 1}; expected a batch for every step, got none. "
                "The iterator of batches(start_step) must not end before the end of the run."
            )
        self.number += 1
        self.ends_epoch = bool(taken.ends)
        is_last = taken.ends == "run" and self.planned.total_steps is None
        self.cadence = dataclasses.replace(self.planned, total_steps=self.number) if is_last else self.planned
        self.metrics.logs = self.cadence.logs
        return taken

    def _settle(self, current: _Taken | None) -> TrainState | None:
        """Wait for the pending step, and read its metrics. If the loss of this step is a spike, return the train state
        of the checkpoint to which the run goes back.

        Args:
            current: the batch of the next step if the device is already computing that step, otherwise None.
        """
        found, finder = self.metrics.read(), self.metrics.finder
        if found is None:
            return None
        fault, batch = found
        if self.recovery is not None:
            event = {"kind": fault.kind, "step": fault.step, "batch": fault.batch, **self.recovery.keep(fault, batch)}
            finder.events.append(event)
            self.recovery.changed(finder.events)
        finder.check(fault)
        if fault.kind != "spike" or self.recovery is None:
            return None
        restored = self.recovery.rewind(fault)
        finder.events[-1] = {**event, "back_to": restored.step}
        begun = Continuation.read(restored.about, restored.step)
        finder.rewound(begun.faults)
        self.recovery.changed(finder.events)
        self.metrics.rewind(restored.step, begun.unlogged)
        self.number, self.held = restored.step, current
        self.offset = fault.batch + 1 - restored.step
        return restored.state

    def _log_and_save(self, state: TrainState, evaluation: dict[str, float] | None, stopping: bool) -> None:
        metrics, checkpoints = self.metrics, self.checkpoints
        owed = metrics.take() if evaluation is None and checkpoints is not None else None
        if owed is None:
            metrics.write(evaluation)
        is_due = self.cadence.saves(self.number, ends_epoch=self.ends_epoch)
        if checkpoints is not None and (stopping or is_due):
            with metrics.clock.paused():
                check_replicated(state.state, where="train.train")
                for logger in metrics.loggers:
                    logger.sync()
                position, sums = self.ahead.state_dict(), metrics.means.record()
                next_batch = self.number + self.offset
                then = Continuation(next_batch, position, sums, owed, metrics.finder.record())
                details = {**self.about, **then.as_json(), "scheduled": is_due}
                checkpoints.save(state, self.number, details, evaluation)


def _check_epochs(cadence: Cadence, source: object) -> None:
    """Raise a ValueError if the cadence needs to know where an epoch ends, and the batches do not say it."""
    needed = {"total_steps": cadence.total_steps is None}
    needed |= {name: getattr(cadence, name) == "epoch" for name in ("evaluate_every", "save_every")}
    if any(needed.values()) and not hasattr(source, "ends"):
        name = next(name for name, is_needed in needed.items() if is_needed)
        raise ValueError(
            f"train.train: {name}={getattr(cadence, name)!r} of the cadence needs batches that say where an epoch "
            f"ends; expected those of LoaderBatches(loader, epochs, by_epoch=True), got {type(source).__name__}."
        )


def _evaluated(
    evaluate: Callable[[TrainState], dict[str, float]] | None, stop: Interruption, state: TrainState
) -> dict[str, float] | None:
    """Evaluate the model, and add the prefix `eval_` to the names of the metrics. Return {} if `evaluate` is None, and
    None if a signal has arrived.
    """
    if evaluate is None:
        return {}
    if stop.requested:
        return None
    values = {f"eval_{name}": value for name, value in evaluate(state).items()}
    return None if stop.requested else values
