"""A whole fine-tuning run: labelled texts in, a directory that Hugging Face and `funcnet predict` open out.

    files -> examples -> rows -> step -> loop (metrics, evaluation, checkpoints) -> model.safetensors, eval.json

model.safetensors is at all times the best model so far. Killed at any moment, a run goes on with `resume=True`.
"""

import contextlib
import json
import shutil
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from funcnet import optim, tree
from funcnet.files import read_json, write_json
from funcnet.models import bert
from funcnet.parallel import DataParallel, check_batch_size, data_parallel, parallelize, use_virtual_cpu_devices
from funcnet.tasks.finetuning import directory
from funcnet.tasks.finetuning.batches import BucketLoader
from funcnet.tasks.finetuning.configuration import FinetuningConfig
from funcnet.tasks.finetuning.data import EncodedExamples, FinetuningData, read_data
from funcnet.tasks.finetuning.optimizer import make_optimizer, trainable_names
from funcnet.tasks.finetuning.outputs import Runner, make_objective
from funcnet.tasks.finetuning.rows import answers
from funcnet.tasks.finetuning.show import describe_constant, finetuning_panels
from funcnet.text import special_ids, vocabulary_digest
from funcnet.train import (
    BFLOAT16,
    FLOAT32,
    Cadence,
    Checkpoints,
    Interruption,
    JsonLines,
    Restored,
    TensorBoard,
    TrainingProgress,
    TrainState,
    abandon,
    compilation_cache,
    create,
    draw_report,
    finish,
    is_finished,
    lock_run,
    make_step,
    open_run,
    pin,
    read_metrics,
    resume,
    train,
)

__all__ = ["Run", "finetune"]

MODEL = "model.safetensors"
SAVE_EVERY = 50  # steps at the least: a checkpoint is three times the model, and takes as long as several steps
WRITES = (MODEL, "metrics.jsonl", "checkpoints", "eval.json")


def finetune(config: FinetuningConfig) -> int:
    """Runs, or goes on with, a fine-tuning run.

    Args:
        config: the settings.

    Returns:
        The exit code: 0 finished, 130 or 143 stopped by SIGINT or SIGTERM with a checkpoint saved.

    Raises:
        ValueError: settings or files are wrong; `RunError` for what concerns the run's directory.
        OSError: a file cannot be read or written.
    """
    config.check()
    with Interruption() as stop, contextlib.ExitStack() as stack:
        plan = _devices(config)
        folder = open_run(config.out, config.recorded(), resume=config.resume, writes=WRITES)
        stack.enter_context(lock_run(folder))
        if is_finished(folder) and (folder / MODEL).exists():
            print(f"The run in {folder} has finished: nothing is left to do.")
            return 0
        compilation_cache.enable()
        try:
            data = read_data(config)
            run = Run(config, data, plan, stop)
        except (ValueError, OSError):
            if not config.resume:
                abandon(folder)
            raise
        vocabulary = {"vocabulary": vocabulary_digest(data.tokenizer)}  # first: all rows follow from it
        pin(folder, vocabulary, {"vocabulary": str(config.model)})
        pin(folder, data.fingerprint(), data.sources(config))
        for seed, out in _seeds(config, folder):
            if not (out / "eval.json").exists() and not run.one(seed, out):
                print("Stopped; what was done is saved. Go on with --resume.")
                return stop.exit_code
        if config.seeds > 1:
            run.summarise([out for _, out in _seeds(config, folder)], folder)
        finish(folder)
        print(f"Written: {folder}")
        return 0


def _devices(config: FinetuningConfig) -> DataParallel:
    if config.devices is not None:
        use_virtual_cpu_devices(config.devices)
    plan = data_parallel("jit", config.devices or (1 if jax.default_backend() == "cpu" else None))
    check_batch_size(config.batch_size, plan.count, config.accumulate, where="finetune: --batch-size")
    return plan


def _seeds(config: FinetuningConfig, folder: Path) -> list[tuple[int, Path]]:
    numbers = range(config.seed, config.seed + config.seeds)
    return [(seed, folder if config.seeds == 1 else folder / f"seed-{seed}") for seed in numbers]


class Run:
    """What the runs of all seeds share: data, description, compiled programs."""

    def __init__(self, config: FinetuningConfig, data: FinetuningData, plan: DataParallel, stop: Interruption):
        self.config, self.data, self.plan, self.stop = config, data, plan, stop
        self.precision = BFLOAT16 if config.precision == "bfloat16" else FLOAT32
        self.metric = config.metric or data.head.metric
        self.net, params, state = self.start(config.seed)
        self._started = {config.seed: (params, state)}
        self.batches = self._loader(data.train)
        self.steps = max(1, round(config.epochs * len(self.batches)))
        model_config: bert.BertConfig = self.net.config
        self.learning_rate = config.learning_rate
        if self.learning_rate is None:
            self.learning_rate = min(2e-4, 5e-5 * 768 / model_config.hidden_size)
        self.schedule = optim.warmup_linear_decay(self.learning_rate, round(config.warmup * self.steps), self.steps)
        self.trainable = trainable_names(list(tree.flatten(params)), config.freeze)
        self.optimizer = make_optimizer(
            self.schedule,
            self.trainable,
            model_config.num_hidden_layers,
            config.layer_decay,
            weight_decay=config.weight_decay,
        )
        self.step = parallelize(
            make_step(
                make_objective(self.net, data.head),
                data.head.counts,
                self.optimizer,
                schedule=self.schedule,
                accumulate=config.accumulate,
                precision=self.precision,
                trainable=self.trainable,
            ),
            plan,
            donate=True,
        )
        self.runner = Runner(self.net, data.head, plan, self.precision)
        sizes = {name: leaf.size for name, leaf in tree.flatten(params).items()}
        trained = sum(sizes[name] for name in self.trainable)
        frozen = f", {sum(sizes.values()) - trained:,} frozen" if trained < sum(sizes.values()) else ""
        print(f"{trained:,} parameters train{frozen}; {self.steps:,} steps; rows of {_listed(data.lengths)} tokens.")

    def start(self, seed: int) -> tuple[Any, Any, Any]:
        """(net, params, state) before the first step."""
        return directory.start(self.config.model, self.data.head, dropout=self.config.dropout, seed=seed)

    def _loader(self, part: EncodedExamples, *, train: bool = True, seed: int | None = None) -> BucketLoader:
        size = self.config.batch_size
        return BucketLoader(
            part.rows,
            size if train else -(-size // self.plan.count) * self.plan.count,
            self.data.lengths,
            pad_id=special_ids(self.data.tokenizer)["[PAD]"],
            shuffle=train,
            seed=self.config.seed if seed is None else seed,
        )

    # -------------------------------------------------------------------------------------------------- one seed

    def one(self, seed: int, out: Path) -> bool:
        """The run of one seed, from its newest checkpoint or from the start; False where a signal stopped it."""
        if self.stop.requested:
            return False
        out.mkdir(exist_ok=True)
        with Checkpoints(out / "checkpoints", keep=1) as checkpoints:
            params, state = self._started.pop(seed) if seed in self._started else self.start(seed)[1:]
            first = create(params, state, self.optimizer, trainable=self.trainable)
            is_begun = (out / "metrics.jsonl").exists()
            begin = resume(checkpoints, first) if is_begun else Restored(first, 0, {})
            best = _Best(self, out, begin.step)
            if not best.is_enough():
                last = self._train(seed, out, begin, best, checkpoints)
                if self.stop.requested:
                    return False
                if self.data.validation is None:
                    self.save(out, last)
        if not self.conclude(seed, out):
            return False
        shutil.rmtree(out / "checkpoints", ignore_errors=True)  # three times the model, and of no use any more
        return True

    def _train(self, seed: int, out: Path, begin: Restored, best: "_Best", checkpoints: Checkpoints) -> TrainState:
        config, is_validated = self.config, self.data.validation is not None
        every = max(1, len(self.batches) // config.evaluations)
        with (
            JsonLines(out / "metrics.jsonl", begin.step) as lines,
            TensorBoard(out / "tensorboard", begin.step) as board,
            TrainingProgress(self.steps, step=begin.step, show={"loss": "loss", self.metric: self.metric}) as bar,
        ):
            return train(
                self.step,
                self.plan.place(begin.state),
                self._loader(self.data.train, seed=seed).batches,
                key=self.plan.place(jax.random.key(seed)),
                place=self.plan.shard,
                size=lambda batch: batch["attention_mask"].sum(),
                cadence=Cadence(self.steps, config.log_every, every if is_validated else 0, max(every, SAVE_EVERY)),
                stop=self.stop,
                loggers=[lines, board, bar],
                evaluate=best.evaluate if is_validated else None,
                checkpoints=checkpoints,
                about={"seed": seed, "config": config.recorded()},
                after_step=bar.after_step,
                owed=begin.about.get("owed"),
                enough=lambda evaluation: best.is_enough(),
            ).state

    def save(self, out: Path, state: TrainState) -> None:
        """The model of a state as the one that is kept."""
        params, buffers = jax.device_get((state.params, state.state))
        head, tokenizer = self.data.head, self.data.tokenizer
        directory.save(out, directory.FineTuned(head, tokenizer, self.net, params, buffers, self.config.seq_len))

    def measure(
        self, model: tuple[Any, Any], part: EncodedExamples
    ) -> tuple[dict[str, float], Sequence[Mapping[str, Any]]]:
        """(figures, predictions) of a model on a part; what a signal cut short is not right, and is not used."""
        outputs, loss = self.runner(model, self._loader(part, train=False), lambda: self.stop.requested)
        if self.stop.requested:
            return {}, []
        predictions = answers(self.data.head, outputs, part.examples, part.rows)
        figures = self.data.head.scores(part.examples, predictions)
        return ({} if loss is None else {"loss": loss}) | figures, predictions

    def conclude(self, seed: int, out: Path) -> bool:
        """The kept model, read back from its files, on the validation and test examples; eval.json and report.png.

        Returns:
            False where a signal stopped it.
        """
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # said when the model that this one comes of was opened
            kept = directory.load(out)
        model = self.plan.place((kept.params, kept.state))
        rows = read_metrics(out / "metrics.jsonl")
        values: dict[str, Any] = {"seed": seed, "steps": rows[-1]["step"]}
        classes: tuple[list[str], list[str]] | None = None
        parts = {"": self.data.validation, "test_": self.data.test}
        for prefix, part in parts.items():
            if part is not None:
                figures, predictions = self.measure(model, part)
                values |= {f"{prefix}{name}": value for name, value in figures.items()}
                classes = classes or self.data.head.classes(part.examples, predictions)
        if self.stop.requested:
            return False
        if self.data.validation is not None:
            evaluated = [row for row in rows if f"eval_{self.metric}" in row]
            values["best_step"] = max(evaluated, key=lambda row: _goodness(self.metric, row, "eval_"))["step"]
        pictures = finetuning_panels(self.data.head, self.metric, values, classes)
        title = f"{self.data.head.name}: {self.config.train.name}"
        subtitle = (
            f"{values['steps']:,} steps of {self.config.batch_size} rows, learning rate "
            f"{self.learning_rate:g}, seed {seed}"
        )
        draw_report(out / "report.png", rows, pictures, title=title, subtitle=subtitle)
        write_json(out / "eval.json", values)
        print(json.dumps(values, indent=2))
        if hint := describe_constant(classes):
            print(hint)
        return True

    # ------------------------------------------------------------------------------------------------- all seeds

    def summarise(self, outs: Sequence[Path], folder: Path) -> None:
        """Mean and spread over the seeds; the best seed's model becomes the directory's own."""
        runs = [read_json(out / "eval.json") or {} for out in outs]
        by = "" if self.data.validation is not None else "test_"
        best = max(range(len(runs)), key=lambda one: _goodness(self.metric, runs[one], by))
        for file in outs[best].iterdir():
            if file.is_file() and file.name != "eval.json":
                shutil.copy(file, folder / file.name)
        values = _spread(runs) | {"best_seed": runs[best]["seed"], "runs": runs}
        write_json(folder / "eval.json", values)
        print(json.dumps({name: values[name] for name in ("mean", "spread", "best_seed")}, indent=2))


class _Best:
    """Evaluates, keeps the best model, and knows when it has been long enough since."""

    def __init__(self, run: Run, out: Path, step: int):
        self.run, self.out = run, out
        path = out / "metrics.jsonl"
        rows = read_metrics(path) if path.exists() else []
        evaluated = [row for row in rows if row["step"] <= step and f"eval_{run.metric}" in row]
        self.history = [_goodness(run.metric, row, "eval_") for row in evaluated]

    def evaluate(self, state: TrainState) -> dict[str, float]:
        """The figures on the validation examples; where they are the best so far, the model is written."""
        assert self.run.data.validation is not None
        figures, _ = self.run.measure((state.params, state.state), self.run.data.validation)
        if self.run.stop.requested:
            return {}
        goodness = _goodness(self.run.metric, figures)
        if not self.history or goodness > max(self.history):
            self.run.save(self.out, state)
        self.history.append(goodness)
        return figures

    def is_enough(self) -> bool:
        """Whether the best figure is `patience` evaluations ago; a lower loss alone counts for nothing here."""
        patience, figures = self.run.config.patience, [figure for figure, _ in self.history]
        return bool(patience and figures) and len(figures) - 1 - figures.index(max(figures)) >= patience


def _goodness(metric: str, figures: Mapping[str, float], prefix: str = "") -> tuple[float, float]:
    """Larger is better: the figure, losses with their sign changed; of equal ones the lower loss.

    >>> _goodness("accuracy", {"eval_accuracy": 1.0, "eval_loss": 0.25}, "eval_")
    (1.0, -0.25)
    """
    value, loss = figures[prefix + metric], figures.get(f"{prefix}loss", 0.0)
    return -value if metric in ("loss", "mse") else value, -loss


def _spread(runs: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, float]]:
    """The mean, and the sample's standard deviation, of every figure.

    >>> _spread([{"seed": 0, "accuracy": 0.5}, {"seed": 1, "accuracy": 0.75}])["mean"]
    {'accuracy': 0.625}
    """
    names = [name for name in runs[0] if name not in ("seed", "steps", "best_step")]
    values = {name: np.array([run[name] for run in runs], np.float64) for name in names}
    return {
        "mean": {name: float(value.mean()) for name, value in values.items()},
        "spread": {name: float(value.std(ddof=1)) for name, value in values.items()},
    }


def _listed(lengths: Sequence[int]) -> str:
    *most, last = map(str, lengths)
    return f"{', '.join(most)} or {last}" if most else last
