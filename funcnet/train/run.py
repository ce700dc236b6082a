"""The lifecycle of every training run, from its settings to its exit code.

    layout -> run directory, lock -> task -> start or restore -> loop (metrics, evaluation, checkpoints) -> conclusion

A run can be killed at any moment. When it is resumed, its results have the same bits as those of a run that was not
killed.
"""

import contextlib
import functools
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

import jax

from funcnet import tree
from funcnet.files import write_digests, write_json
from funcnet.parallel import (
    check_batch_size,
    check_equal,
    first_decides,
    is_first,
    parallelize,
    sharding_report,
    wait_for_all,
    watch_processes,
)
from funcnet.settings import as_json, defaults, recorded
from funcnet.train import compilation_cache
from funcnet.train.best import BestModel
from funcnet.train.checkpoints import Checkpoints, Restored, resume, versions
from funcnet.train.interruption import Stopped, interruption
from funcnet.train.loop import Outcome, train
from funcnet.train.metrics import JsonLines, TensorBoard, read_metrics
from funcnet.train.objective_checks import check_returns_sums
from funcnet.train.progress import TrainingProgress
from funcnet.train.report import draw_report
from funcnet.train.run_directory import (
    cancel_run,
    configuration,
    extend_run,
    finish,
    is_finished,
    lock_run,
    open_run,
    record_facts,
)
from funcnet.train.seeds import summarise
from funcnet.train.settings import DeviceSettings, LoopSettings, RunSettings, open_layout
from funcnet.train.state import TrainState, create
from funcnet.train.step import make_eval_step, make_step
from funcnet.train.task import Best, Context, Ended, Task

__all__ = ["EMA", "MODEL", "NOT_RECORDED", "TrainingSettings", "run_task"]

MODEL = "model.safetensors"
EMA = "ema"  # folder of the averaged model
WRITES = (MODEL, EMA, "metrics.jsonl", "checkpoints", "eval.json", "config.json", "tokenizer.json")
FREE = ("save_every", "keep", "devices", "mesh", "shard", "parallel")  # settings that a resumed run may change
PROCESSES = ("coordinator", "num_processes", "process_id")
NOT_RECORDED = ("out", "resume", *PROCESSES)  # settings that are not part of the run record


class TrainingSettings(Protocol):
    """The settings of a training command: any dataclass with these three groups."""

    @property
    def run(self) -> RunSettings:
        """The run directory and the seed."""

    @property
    def loop(self) -> LoopSettings:
        """The size of an update."""

    @property
    def device(self) -> DeviceSettings:
        """The devices and the precision."""


Settings = TypeVar("Settings", bound=TrainingSettings)


def run_task(
    open_task: Callable[[Settings, Context], Task], settings: Settings, *, where: str, free: Sequence[str] = ()
) -> int:
    """Run a task, or resume its run.

    Args:
        open_task: function `open_task(settings, context)`, which reads the data and returns the task. If it takes long,
            it should raise `Stopped` after a signal.
        settings: the settings of the command, already checked.
        where: the name of the command, for error messages.
        free: names of further settings that a resumed run may change. If `steps` is one of them and differs, a finished
            run continues from its last checkpoint.

    Returns:
        The exit code: 0 when the run is finished; 130 or 143 when SIGINT or SIGTERM stopped it. A stopped run has
        saved a checkpoint, unless it stopped before its first step.

    Raises:
        ValueError: if the settings or the data are wrong.
        RunError: if the run directory cannot be used. `RunError` is a `ValueError`.
        OSError: if a file cannot be read or written.

    Example:
        >>> import dataclasses, io, itertools, tempfile
        >>> import numpy as np, optax
        >>> from funcnet.train import Cadence, Conclusion, Panel
        >>> @dataclasses.dataclass(frozen=True)
        ... class Command:
        ...     run: RunSettings
        ...     loop: LoopSettings = LoopSettings(batch_size=2)
        ...     device: DeviceSettings = DeviceSettings()
        >>> class Mean(Task):  # learns the mean of its data, which is 2
        ...     name, cadence, optimizer = "mean", Cadence(10), optax.sgd(0.25)
        ...     def __init__(self, settings, context): ...
        ...     def init(self, seed):
        ...         return {"mean": np.zeros(1, np.float32)}, {}
        ...     def counts(self, batch):
        ...         return {"fit": batch.shape[0]}
        ...     def objective(self, params, state, batch, *, training, rng):
        ...         return {"fit": {"loss": ((batch - params["mean"]) ** 2).sum()}}, state
        ...     def batches(self, seed):
        ...         return lambda start: itertools.repeat(np.array([1, 3], np.float32))
        ...     def size(self, batch):
        ...         return len(batch)
        ...     def save(self, folder, params, state):
        ...         np.save(folder / "mean.npy", params["mean"])
        ...     def conclude(self, ended):
        ...         return Conclusion({"loss": ended.rows[-1]["loss"]}, [Panel("Loss", "", {"x": "loss"})], "Mean", "")
        >>> with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        ...     out = Path(folder) / "run"
        ...     code = run_task(Mean, Command(RunSettings(out)), where="mean")
        ...     mean = np.load(out / "mean.npy").round(2)
        >>> code, mean
        (0, array([2.], dtype=float32))
    """
    layout = open_layout(settings.device, where)
    with interruption() as stop, contextlib.ExitStack() as stack:
        if not is_first():
            stack.enter_context(contextlib.redirect_stdout(stack.enter_context(open(os.devnull, "w"))))
        stack.enter_context(watch_processes())
        rows, parts = settings.loop.batch_size, settings.loop.accumulate
        check_batch_size(rows, layout.batch_parts, parts, where=f"{where}: --batch-size")
        config = recorded(settings, leave_out=NOT_RECORDED)
        usual = {name: as_json(value) for name, value in defaults(type(settings)).items()}
        check_equal({**config, "funcnet": versions()["funcnet"], "jax": versions()["jax"]}, where=where)
        folder = settings.run.out

        def open_folder() -> bool:
            """Open the run directory, and return whether its run has finished."""
            options = {"resume": settings.run.resume, "writes": WRITES, "free": (*FREE, *free), "defaults": usual}
            stack.enter_context(lock_run(open_run(folder, config, **options)))  # type: ignore[arg-type]
            if "steps" in free and (configuration(folder) or config)["steps"] != config["steps"]:
                extend_run(folder, config)
            return is_finished(folder) and (folder / MODEL).exists()

        if first_decides(open_folder):
            print(f"The run in {folder} has finished; there is nothing left to do.")
            return 0
        compilation_cache.enable()
        context = Context(layout, settings.device.policy, stop)
        try:
            if is_first():
                task = open_task(settings, context)  # it may build data that the other processes then find
            wait_for_all(f"{folder}, data", timeout=24 * 3600)
            if not is_first():
                task = open_task(settings, context)
            trials = _Trials(task, settings, config, context)
            if task.checks_objective and not settings.run.resume:
                trials.check_objective(where)
        except Stopped:
            print("Stopped before the first step. Continue with --resume (in Python: resume=True).")
            return stop.exit_code
        except (ValueError, OSError):
            if not settings.run.resume and is_first():
                cancel_run(folder)
            raise
        for facts in task.facts:
            check_equal(facts, where=where)
            first_decides(functools.partial(record_facts, folder, facts, task.sources))
        if not trials.all(folder):
            return stop.exit_code
        first_decides(functools.partial(finish, folder))
        print(f"Written: {folder}")
        return 0


def _is_concluded(out: Path) -> bool:
    return (out / "eval.json").exists() and (out / MODEL).exists()


class _Trials:
    """The trainings of a run, one per seed. The trainings share the compiled programs."""

    def __init__(self, task: Task, settings: TrainingSettings, config: Mapping[str, Any], context: Context):
        self.task, self.settings, self.config, self.context = task, settings, config, context
        self.layout, self.stop = getattr(task, "layout", context.layout), context.stop
        self.evaluate = task.evaluator()
        self._step: Callable[..., Any] | None = None
        self._seeds = list(task.seeds) or [settings.run.seed]
        self._started: dict[int, TrainState] = {}

    def check_objective(self, where: str) -> None:
        """Check with the first batch that the objective returns sums; see `check_returns_sums`."""
        seed = self._seeds[0]
        first = self._started[seed] = self._start(seed)
        batch = next(iter(self.task.batches(seed)(0)))
        step = make_eval_step(self.task.objective, self.task.counts, precision=self.context.precision)
        model = (first.params, first.state) if first.extra is None else (first.params, first.state, first.extra)
        check_returns_sums(step, self.layout.place(model), batch, jax.random.key(seed), self.layout, where=where)

    def _start(self, seed: int) -> TrainState:
        task = self.task
        params, state = task.init(seed)
        return create(params, state, task.optimizer, trainable=task.trainable, ema=task.ema, extra=task.extra(seed))

    def all(self, folder: Path) -> bool:
        """Train with every seed, and summarise the results if there are several. Return False if a signal stopped the
        run.
        """
        seeds = self._seeds
        outs = {seed: folder if len(seeds) == 1 else folder / f"seed-{seed}" for seed in seeds}
        for seed, out in outs.items():
            if not first_decides(functools.partial(_is_concluded, out)) and not self.one(seed, out):
                return False
        if len(seeds) > 1 and is_first():
            summarise(list(outs.values()), folder, self.task.best or Best("loss", largest=False))
        return True

    def one(self, seed: int, out: Path) -> bool:
        """Train with one seed, from its newest checkpoint or from the start. Return False if a signal stopped it."""
        if self.stop.requested:
            self._print_stopped(0)
            return False
        out.mkdir(exist_ok=True)
        task = self.task
        is_resumed = first_decides(lambda: self.settings.run.resume and (out / "metrics.jsonl").exists())
        with Checkpoints(
            out / "checkpoints", keep=task.keep, best_metric=None if task.best else "eval_loss"
        ) as checkpoints:
            first = self._started.pop(seed) if seed in self._started else self._start(seed)
            if not is_resumed:
                begin = Restored(self.layout.place(first), 0, {})
            else:
                begin = resume(checkpoints, first, self.layout)
            self._announce(first)
            best = None
            if task.best is not None and self.evaluate is not None:
                best = BestModel(task.best, read_metrics(out / "metrics.jsonl") if is_resumed else [], begin.step)
            outcome = None
            if best is None or not best.should_stop():
                outcome = self._train(seed, out, begin, best, checkpoints)
                if self.stop.requested:
                    self._print_stopped(outcome.step)
                    return False
                if best is None:
                    self._save(out, outcome.state)
        if not self._conclude(seed, out, outcome):
            self._print_stopped(self.task.cadence.total_steps)
            return False
        if not task.keeps_checkpoints and is_first():
            shutil.rmtree(out / "checkpoints", ignore_errors=True)
        return True

    def _train(
        self, seed: int, out: Path, begin: Restored, best: BestModel | None, checkpoints: Checkpoints
    ) -> Outcome:
        task, cadence = self.task, self.task.cadence
        evaluate = self.evaluate if best is None else self._saving_the_best(best, out)
        step = self._compiled(begin.state)
        with self._loggers(out, begin.step) as loggers:
            return train(
                step,
                begin.state,
                task.batches(seed),
                key=self.layout.place(jax.random.key(seed)),
                place=self.layout.shard,
                size=task.size,
                unit=task.unit,
                cadence=cadence,
                stop=self.stop,
                loggers=loggers,
                evaluate=evaluate,
                checkpoints=checkpoints,
                about={"seed": seed, "config": dict(self.config)},
                after_step=loggers[-1].after_step if loggers else lambda step: None,
                owed=begin.about.get("owed"),
                unlogged=begin.about.get("unlogged"),
                position=begin.about.get("data", {}).get("position"),
                should_stop=lambda evaluation: best is not None and best.should_stop(),
            )

    def _compiled(self, state: TrainState) -> Callable[..., Any]:
        if self._step is None:
            step = make_step(
                self.task.objective,
                self.task.counts,
                self.task.optimizer,
                schedule=self.task.schedule,
                accumulate=self.settings.loop.accumulate,
                precision=self.context.precision,
                trainable=self.task.trainable,
                buffers=self.task.buffers,
                update_extra=self.task.update_extra,
                metrics_as="sums",
            )
            self._step = parallelize(step, self.layout, state=state, donate=True)
        return self._step

    @contextlib.contextmanager
    def _loggers(self, out: Path, step: int) -> Iterator[list[Any]]:
        if not is_first():
            yield []
            return
        with (
            JsonLines(out / "metrics.jsonl", step) as lines,
            TensorBoard(out / "tensorboard", step) as board,
            TrainingProgress(
                self.task.cadence.total_steps, step=step, show=self.task.shown, evaluated=self.task.evaluated
            ) as progress,
        ):
            yield [lines, board, progress]

    def _saving_the_best(self, best: BestModel, out: Path) -> Callable[[TrainState], dict[str, float]]:
        def evaluate(state: TrainState) -> dict[str, float]:
            assert self.evaluate is not None
            figures = self.evaluate(state)
            if not self.stop.requested and best.update(figures):
                self._save(out, state)
            return figures

        return evaluate

    def _save(self, out: Path, state: TrainState) -> None:
        trees = {out: (state.params, state.state)}
        if state.ema is not None:
            trees[out / EMA] = (state.ema.params, state.ema.state)
        for folder, model in trees.items():
            arrays = self.layout.gather(model)  # in all processes, each of which has a part
            if is_first():
                folder.mkdir(exist_ok=True)
                self.task.save(folder, *arrays)
        wait_for_all(f"{out}, model of step {int(state.step)}")

    def _conclude(self, seed: int, out: Path, outcome: Outcome | None) -> bool:
        rows = read_metrics(out / "metrics.jsonl")
        state = None if outcome is None else outcome.state
        conclusion = self.task.conclude(Ended(out, seed, rows, state, outcome))
        if conclusion is None or self.stop.requested:
            return False
        if not is_first():
            return True
        draw_report(out / "report.png", rows, conclusion.panels, title=conclusion.title, subtitle=conclusion.subtitle)
        if outcome is not None:
            wait = f"{outcome.data_wait_share:.2%} of the time was spent waiting for data"
            print(f"This process trained on {outcome.all_tokens:,} {self.task.unit}; {wait}.")
        write_digests(out, [MODEL])
        if conclusion.values:
            write_json(out / "eval.json", conclusion.values)  # written last: it marks the training as concluded
            print(json.dumps(conclusion.values, indent=2))
        for line in conclusion.notes:
            print(line)
        return True

    def _announce(self, first: TrainState) -> None:
        sizes = {name: leaf.size for name, leaf in tree.flatten(first.params).items()}
        trained = sum(sizes[name] for name in tree.select(self.task.trainable, sizes, where="train.run: trainable"))
        frozen = f" and {sum(sizes.values()) - trained:,} frozen" if trained < sum(sizes.values()) else ""
        steps = self.task.cadence.total_steps
        print(f"{self.task.name}: {trained:,} parameters{frozen}, {steps:,} steps, {self.layout}.")
        if not self.layout.is_data_parallel:
            print(sharding_report(first.params, self.layout.shardings(first.params)))

    def _print_stopped(self, step: int) -> None:
        saved = " and saved" if step else ""
        steps = f"step {step:,} of {self.task.cadence.total_steps:,}"
        print(f"Stopped{saved} after {steps}. Continue with --resume (in Python: resume=True).")
