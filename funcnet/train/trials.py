"""Train a task once per seed: start or restore, loop, conclusion."""

import contextlib
import functools
import itertools
import json
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

import jax

from funcnet import tree
from funcnet.files import write_digests, write_json
from funcnet.parallel import (
    check_equal,
    first_decides,
    is_first,
    parallelize,
    process_count,
    sharding_report,
    wait_for_all,
)
from funcnet.train.batch_shapes import Shapes, ShapeWatch, describe_shapes, digest_of_arrays
from funcnet.train.batches import OpenedBatches
from funcnet.train.best_evaluation import BestModel
from funcnet.train.checkpoints import Checkpoints, Restored, resume
from funcnet.train.continuation import Continuation
from funcnet.train.initial_state import Start
from funcnet.train.loop import Outcome, train
from funcnet.train.metrics_files import JsonLines, TensorBoard, read_metrics
from funcnet.train.objective_checks import check_batch, check_returns_sums
from funcnet.train.pending_metrics import Logger
from funcnet.train.progress import TrainingProgress
from funcnet.train.recovery import RunRecovery
from funcnet.train.report_picture import draw_report
from funcnet.train.seeds import summarise
from funcnet.train.setting_groups import DeviceSettings, LoopSettings, RunSettings
from funcnet.train.state import TrainState
from funcnet.train.step import make_eval_step, make_step
from funcnet.train.task_interface import Best, Context, Ended, Task, layout_for
from funcnet.tree import PyTree

__all__ = ["EMA", "MODEL", "TrainingSettings", "Trials"]

MODEL = "model.safetensors"
EMA = "ema"  # folder of the averaged model
SAME_BATCHES = (
    "All processes must read the same batches, and the run divides the rows among them: use the same data and seed in "
    "all of them, and neither a DistributedSampler nor ShardDataset(num_replicas=...)."
)


class TrainingSettings(Protocol):
    """The settings of a training command: any dataclass with the fields `run`, `loop` and `device`."""

    @property
    def run(self) -> RunSettings:
        """The run directory and the seed."""

    @property
    def loop(self) -> LoopSettings:
        """The size of an update."""

    @property
    def device(self) -> DeviceSettings:
        """The devices and the precision."""


def _logged(begin: Restored) -> int:
    """Return the last step whose line of the log is kept. If a signal had interrupted the evaluation of the restored
    step, this step is evaluated and logged again, even if an earlier process had already done so before it was killed.
    """
    return begin.step - (Continuation.read(begin.about, begin.step).owed is not None)


def _is_concluded(out: Path) -> bool:
    return (out / "eval.json").exists() and (out / MODEL).exists()


class Trials:
    """Trains a task once per seed. All seeds share the compiled programs.

    Args:
        task: the task.
        settings: the settings of the command.
        config: the settings as JSON, for the checkpoints.
        context: the context of the run.
        where: name of the command.

    Raises:
        ValueError: if `task.rewind_above` is neither 0 nor above 1, or if the task has both `best` and
            `rewind_above`; see also `layout_for`.
    """

    def __init__(self, task: Task, settings: TrainingSettings, config: Mapping[str, Any], context: Context, where: str):
        self.task, self.settings, self.config, self.context, self.where = task, settings, config, context, where
        if task.rewind_above != 0 and not task.rewind_above > 1:  # written so that NaN is refused
            raise ValueError(
                f"{where}: --rewind-above is too small; expected a multiple of the usual loss above 1, or 0 (never), "
                f"got {task.rewind_above:g}."
            )
        if task.best is not None and task.rewind_above:
            raise ValueError(
                f"{where}: a run that keeps its best model cannot go back after a spike of the loss; expected "
                f"rewind_above = 0, got {task.rewind_above:g}."
            )
        self.layout = task.layout = layout_for(task, context.layout)
        self.start = Start(task, self.layout)
        self.stop = context.stop
        self.evaluate = task.evaluator()
        self._step: Callable[..., Any] | None = None
        self._seeds = list(task.seeds) or [settings.run.seed]
        self._started: dict[int, TrainState] = {}
        self._opened: dict[int, OpenedBatches] = {}
        self._shapes: set[Shapes] = set()

    def check_objective(self) -> None:
        """Check with the first batch that the objective returns sums; see `check_returns_sums`."""
        seed = self._seeds[0]
        first = self._started[seed] = self.start(seed)
        batches = self._opened[seed] = OpenedBatches(self.task.batches(seed))  # the first step uses this batch
        try:
            self._check(first, batches.first(), jax.random.key(seed))
        except BaseException:
            batches.close()
            raise

    def _check(self, first: TrainState, batch: PyTree, key: jax.Array) -> None:
        check_batch(batch, where=self.where)
        step = make_eval_step(self.task.objective, self.task.counts, precision=self.context.precision)
        model = (first.params, first.state) if first.extra is None else (first.params, first.state, first.extra)
        try:
            own = self.task.reads_own_rows
            check_returns_sums(step, model, batch, key, self.layout, where=self.where, own=own)
        except Exception as error:
            error.add_note(f"in the check of the loss with the first batch, {describe_shapes(batch)}")
            raise
        self.task.check_evaluation(model)

    def all(self, folder: Path) -> bool:
        """Train with every seed, and summarise the results if there are several seeds. Return False if a signal stopped
        the run.
        """
        seeds = self._seeds
        outs = {seed: folder if len(seeds) == 1 else folder / f"seed-{seed}" for seed in seeds}
        try:
            for seed, out in outs.items():
                if not first_decides(functools.partial(_is_concluded, out)) and not self.one(seed, out):
                    return False
        finally:
            for batches in self._opened.values():
                batches.close()
        if len(seeds) > 1 and is_first():
            summarise(list(outs.values()), folder, self.task.best or Best("loss", largest=False))
        return True

    def one(self, seed: int, out: Path) -> bool:
        """Train with one seed, from the newest checkpoint of this seed or from step 0. Return False if a signal stopped
        the training.
        """
        if self.stop.requested:
            self._print_stopped(0)
            return False
        out.mkdir(exist_ok=True)
        task = self.task
        is_resumed = first_decides(lambda: self.settings.run.resume and (out / "metrics.jsonl").exists())
        with Checkpoints(
            out / "checkpoints", keep=task.keep, best_metric=None if task.best else "eval_loss"
        ) as checkpoints:
            if is_resumed:
                begin = resume(checkpoints, self.start.shapes(seed), self.layout, functools.partial(self.start, seed))
            else:
                first = self._started.pop(seed) if seed in self._started else self.start(seed)
                begin = Restored(first, 0, {})
            self._announce(begin.state)
            best = None
            if task.best is not None and self.evaluate is not None:
                rows = read_metrics(out / "metrics.jsonl") if is_resumed else []
                best = BestModel(task.best, rows, _logged(begin))
            outcome = None
            if best is None or not best.should_stop():
                outcome = self._train(seed, out, begin, best, checkpoints)
                if self.stop.requested:
                    self._print_stopped(outcome.step)
                    return False
                if best is None:
                    self._save(out, outcome.state)
        if not self._conclude(seed, out, outcome):
            self._print_stopped(begin.step if outcome is None else outcome.step)
            return False
        if not task.keeps_checkpoints and is_first():
            shutil.rmtree(out / "checkpoints", ignore_errors=True)
        return True

    def _train(
        self, seed: int, out: Path, begin: Restored, best: BestModel | None, checkpoints: Checkpoints
    ) -> Outcome:
        task, cadence = self.task, self.task.cadence
        evaluate = self.evaluate if best is None else self._saving_the_best(best, out)
        opened = self._opened.pop(seed, None)
        step = self.compiled(begin.state)
        first = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), begin.state)
        with self._loggers(out, _logged(begin), begin.step) as (loggers, progress):
            restart = functools.partial(self.start, seed)
            about = (out, self.where, self.config, seed, self.layout)
            place, size = self._reading(seed)
            net = getattr(task, "net", None)
            return train(
                ShapeWatch(step, progress.say, self._shapes, 2 if self.layout.kind == "pmap" else 1),
                begin.state,
                task.batches(seed) if opened is None else opened,
                key=self.layout.place(jax.random.key(seed)),
                place=place,
                size=size,
                unit=task.unit,
                cadence=cadence,
                stop=self.stop,
                loggers=loggers,
                evaluate=evaluate,
                checkpoints=checkpoints,
                about={"seed": seed, "config": dict(self.config)},
                begin=begin.about,
                after_step=progress.after_step,
                should_stop=lambda evaluation: best is not None and best.should_stop(),
                rewind_above=task.rewind_above,
                recovery=RunRecovery(*about, checkpoints, first, restart, progress.say, net),
            )

    def compiled(self, state: TrainState, *, nan_trace: bool | None = None, donate: bool = True) -> Callable[..., Any]:
        """Return the compiled training step. The compiled step is kept for later calls, unless `nan_trace` is given or
        `donate` is False.

        Args:
            state: a placed train state.
            nan_trace: see `make_step`. With None, `nan_trace` has the value in the settings of the run.
            donate: see `parallelize`.
        """
        if self._step is not None and nan_trace is None and donate:
            return self._step
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
            nan_trace=self.settings.loop.nan_trace if nan_trace is None else nan_trace,
        )
        compiled = parallelize(step, self.layout, state=state, donate=donate)
        if nan_trace is None and donate:
            self._step = compiled
        return compiled

    def _reading(self, seed: int) -> tuple[Callable[[Any], Any], Callable[[Any], int]]:
        """Return the function that places a batch on the devices, and the function that counts the tokens of a batch.

        If each process reads all rows, the first batches of the processes are compared. If each process reads only its
        own rows, their shapes are compared, with `Task.what_is_read`, and the number of tokens in the complete batch is
        estimated from these rows.
        """
        if process_count() == 1:
            return self.task.place, self.task.size
        if not self.task.reads_own_rows:
            return self._comparing(seed), self.task.size
        check_equal(self.task.what_is_read(seed), where=self.where, advice=SAME_BATCHES)
        share = self.layout.batch_parts / len(self.layout.own_parts)
        return self._comparing(seed), lambda batch: round(self.task.size(batch) * share)

    def _comparing(self, seed: int) -> Callable[[Any], Any]:
        """Return a function that places a batch on the devices. For the first batch of a training, it raises a
        ProcessError if another process has read a different batch. If each process reads only its own rows, only the
        shapes are compared.
        """
        is_own = self.task.reads_own_rows
        names = itertools.chain([f"first batch, seed {seed}"], itertools.repeat(None))

        def place(batch: PyTree) -> Any:
            if (name := next(names)) is not None:
                content = "" if is_own else f", SHA-256 {digest_of_arrays(batch):.12}…"
                facts = {"the first batch": f"{describe_shapes(batch)}{content}"}
                check_equal(facts, where=self.where, name=name, advice=SAME_BATCHES)
            return self.task.place(batch)

        return place

    @contextlib.contextmanager
    def _loggers(self, out: Path, logged: int, step: int) -> Iterator[tuple[list[Logger], TrainingProgress]]:
        """Open the loggers of the run, and its progress display. Only process 0 has loggers; the lines that another
        process displays are not shown.
        """
        task = self.task
        progress = TrainingProgress(task.cadence.total_steps, step=step, show=task.shown, evaluated=task.evaluated)
        if not is_first():
            yield [], progress
            return
        with (
            JsonLines(out / "metrics.jsonl", logged) as lines,
            TensorBoard(out / "tensorboard", logged) as board,
            progress,
        ):
            yield [lines, board, progress], progress

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
            arrays = self.layout.gather(model)  # called in all processes, because each has only a part
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
        if outcome is not None and outcome.all_tokens:
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
        print(f"{self.task.name}: {trained:,} parameters{frozen}, {self.task.cadence.length}, {self.layout}.")
        if not self.layout.is_data_parallel:
            print(sharding_report(first.params, self.layout.shardings(first.params)))

    def _print_stopped(self, step: int) -> None:
        saved = " and saved" if step else ""
        total = self.task.cadence.total_steps
        of = "" if total is None else f" of {total:,}"
        arrived = self.stop.arrived  # None if another process received the signal
        took = "" if arrived is None else f", {time.monotonic() - arrived:.1f} s after the signal"
        print(f"Stopped{saved} after step {step:,}{of}{took}. Continue with --resume (in Python: resume=True).")
