"""The lifecycle of every run, from its arguments to its exit code.

    folder and lock -> layout -> task -> start or restore -> loop (metrics, evaluation, checkpoints) -> conclusion

Killed at any moment, a run goes on with `resume` and ends with the same bits.
"""

import contextlib
import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol, TypeVar

import jax

from funcnet import tree
from funcnet.files import write_json
from funcnet.parallel import check_batch_size, parallelize
from funcnet.settings import as_json, defaults, recorded
from funcnet.train import compilation_cache
from funcnet.train.best import BestModel
from funcnet.train.checkpoints import Checkpoints, Restored, resume
from funcnet.train.interruption import Interruption, Stopped
from funcnet.train.loop import Outcome, train
from funcnet.train.metrics import JsonLines, TensorBoard, read_metrics
from funcnet.train.progress import TrainingProgress
from funcnet.train.report import draw_report
from funcnet.train.run_directory import abandon, finish, is_finished, lock_run, open_run, pin
from funcnet.train.seeds import summarise
from funcnet.train.settings import DeviceSettings, LoopSettings, RunSettings, open_layout
from funcnet.train.state import TrainState, create
from funcnet.train.step import make_step
from funcnet.train.task import Best, Context, Ended, Task

__all__ = ["NOT_RECORDED", "TrainingSettings", "run_task"]

MODEL = "model.safetensors"
WRITES = (MODEL, "metrics.jsonl", "checkpoints", "eval.json", "config.json", "tokenizer.json")
FREE = ("save_every", "keep")  # a resumed run may change them
NOT_RECORDED = ("out", "resume")


class TrainingSettings(Protocol):
    """The settings of a command that trains: groups, among them these."""

    @property
    def run(self) -> RunSettings:
        """Where the run lies."""

    @property
    def loop(self) -> LoopSettings:
        """How large an update is."""

    @property
    def device(self) -> DeviceSettings:
        """On which devices it computes."""


Settings = TypeVar("Settings", bound=TrainingSettings)


def run_task(open_task: Callable[[Settings, Context], Task], settings: Settings, *, where: str) -> int:
    """Runs a task, or goes on with it.

    Args:
        open_task: reads the data and makes the task; it may take long, and raises `Stopped` after a signal.
        settings: the command's, checked.
        where: the command, for messages.

    Returns:
        The exit code: 0 finished, 130 or 143 stopped by SIGINT or SIGTERM with a checkpoint saved.

    Raises:
        ValueError: settings or data are wrong; `RunError` for what concerns the run's directory.
        OSError: a file cannot be read or written.
    """
    with Interruption() as stop, contextlib.ExitStack() as stack:
        layout = open_layout(settings.device, where)
        rows, parts = settings.loop.batch_size, settings.loop.accumulate
        check_batch_size(rows, layout.batch_parts, parts, where=f"{where}: --batch-size")
        config = recorded(settings, leave_out=NOT_RECORDED)
        usual = {name: as_json(value) for name, value in defaults(type(settings)).items()}
        folder = open_run(
            settings.run.out, config, resume=settings.run.resume, writes=WRITES, free=FREE, defaults=usual
        )
        stack.enter_context(lock_run(folder))
        if is_finished(folder) and (folder / MODEL).exists():
            print(f"The run in {folder} has finished: nothing is left to do.")
            return 0
        compilation_cache.enable()
        context = Context(layout, settings.device.policy, stop)
        try:
            task = open_task(settings, context)
            trials = _Trials(task, settings, config, context)
        except Stopped:
            print("Stopped before the first step: nothing was lost. Go on with --resume.")
            return stop.exit_code
        except (ValueError, OSError):
            if not settings.run.resume:
                abandon(folder)
            raise
        for facts in task.facts:
            pin(folder, facts, task.sources)
        if not trials.all(folder):
            return stop.exit_code
        finish(folder)
        print(f"Written: {folder}")
        return 0


class _Trials:
    """The trainings of a run, one a seed, and the programs that they share."""

    def __init__(self, task: Task, settings: TrainingSettings, config: Mapping[str, Any], context: Context):
        self.task, self.settings, self.config, self.context = task, settings, config, context
        self.layout, self.stop = context.layout, context.stop
        self.evaluate = task.evaluator()
        self._step: Callable[..., Any] | None = None

    def all(self, folder: Path) -> bool:
        """Every training, and the summary of several; False where a signal stopped them."""
        seeds = list(self.task.seeds) or [self.settings.run.seed]
        outs = {seed: folder if len(seeds) == 1 else folder / f"seed-{seed}" for seed in seeds}
        for seed, out in outs.items():
            if not (out / "eval.json").exists() and not self.one(seed, out):
                return False
        if len(seeds) > 1:
            summarise(list(outs.values()), folder, self.task.best or Best("loss", largest=False))
        return True

    def one(self, seed: int, out: Path) -> bool:
        """The training of one seed, from its newest checkpoint or from the start, to its conclusion."""
        if self.stop.requested:
            self._say_stopped(0)
            return False
        out.mkdir(exist_ok=True)
        task, is_begun = self.task, self.settings.run.resume and (out / "metrics.jsonl").exists()
        with Checkpoints(
            out / "checkpoints", keep=task.keep, best_metric=None if task.best else "eval_loss"
        ) as checkpoints:
            first = create(*task.init(seed), task.optimizer, trainable=task.trainable)
            if not is_begun:
                begin = Restored(self.layout.place(first), 0, {})
            else:
                begin = resume(checkpoints, first, self.layout)
            self._announce(first)
            best = None
            if task.best is not None and self.evaluate is not None:
                best = BestModel(task.best, read_metrics(out / "metrics.jsonl") if is_begun else [], begin.step)
            outcome = None
            if best is None or not best.is_enough():
                outcome = self._train(seed, out, begin, best, checkpoints)
                if self.stop.requested:
                    self._say_stopped(outcome.step)
                    return False
                if best is None:
                    self._save(out, outcome.state)
        if not self._conclude(seed, out, outcome):
            self._say_stopped(self.task.cadence.total_steps)
            return False
        if not task.keeps_checkpoints:
            shutil.rmtree(out / "checkpoints", ignore_errors=True)
        return True

    def _train(
        self, seed: int, out: Path, begin: Restored, best: BestModel | None, checkpoints: Checkpoints
    ) -> Outcome:
        task, cadence = self.task, self.task.cadence
        evaluate = self.evaluate if best is None else self._keeping_the_best(best, out)
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
                after_step=loggers[-1].after_step,
                owed=begin.about.get("owed"),
                enough=lambda evaluation: best is not None and best.is_enough(),
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
            )
            self._step = parallelize(step, self.layout, state=state, donate=True)
        return self._step

    @contextlib.contextmanager
    def _loggers(self, out: Path, step: int) -> Iterator[list[Any]]:
        with (
            JsonLines(out / "metrics.jsonl", step) as lines,
            TensorBoard(out / "tensorboard", step) as board,
            TrainingProgress(self.task.cadence.total_steps, step=step, show=self.task.shown) as progress,
        ):
            yield [lines, board, progress]

    def _keeping_the_best(self, best: BestModel, out: Path) -> Callable[[TrainState], dict[str, float]]:
        def evaluate(state: TrainState) -> dict[str, float]:
            assert self.evaluate is not None
            figures = self.evaluate(state)
            if not self.stop.requested and best.takes(figures):
                self._save(out, state)
            return figures

        return evaluate

    def _save(self, out: Path, state: TrainState) -> None:
        self.task.save(out, *self.layout.gather((state.params, state.state)))

    def _conclude(self, seed: int, out: Path, outcome: Outcome | None) -> bool:
        rows = read_metrics(out / "metrics.jsonl")
        state = None if outcome is None else outcome.state
        conclusion = self.task.conclude(Ended(out, seed, rows, state, outcome))
        if conclusion is None or self.stop.requested:
            return False
        draw_report(out / "report.png", rows, conclusion.panels, title=conclusion.title, subtitle=conclusion.subtitle)
        if outcome is not None:
            wait = f"waited for data {outcome.data_wait_share:.2%} of the time"
            print(f"{outcome.tokens:,} {self.task.unit} in this process; {wait}.")
        if conclusion.values:
            write_json(out / "eval.json", conclusion.values)  # the last: it says that the training is concluded
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

    def _say_stopped(self, step: int) -> None:
        saved = "saved" if step else "nothing was lost"
        print(f"Stopped after step {step:,} of {self.task.cadence.total_steps:,}; {saved}. Go on with --resume.")
