"""Fine-tuning as a task of `funcnet.train.run`: a head of `funcnet.heads` on a pretrained BERT."""

import dataclasses
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from funcnet import optim, tree
from funcnet.data import DataLoader
from funcnet.heads.buckets import Bucketed
from funcnet.models import bert
from funcnet.parallel import AXIS, compile_whole
from funcnet.tasks.finetuning import directory
from funcnet.tasks.finetuning.batches import make_loader
from funcnet.tasks.finetuning.data import EncodedExamples, read_data
from funcnet.tasks.finetuning.optimizer import make_optimizer, trainable_names
from funcnet.tasks.finetuning.rows import mean_loss
from funcnet.tasks.finetuning.settings import FinetuningSettings
from funcnet.tasks.finetuning.show import describe_constant, finetuning_panels
from funcnet.text import special_ids, vocabulary_digest
from funcnet.train import Best, Cadence, Conclusion, Context, Ended, LoaderBatches, Task, TrainState, run_task
from funcnet.train.best_evaluation import goodness
from funcnet.tree import Params, State

__all__ = ["FinetuningTask", "finetune"]

# Minimum number of steps between two checkpoints by default. A checkpoint is three times as large as the model, and
# takes as long as a few steps.
SAVE_EVERY = 50
LOSSES = ("loss", "mse")  # metrics for which a smaller value is better


def finetune(settings: FinetuningSettings) -> int:
    """Run `funcnet finetune`, or resume its run.

    Args:
        settings: the settings of the command.

    Returns:
        The exit code; see `run_task`.

    Raises:
        ValueError: if a setting is wrong; see also `run_task`.
    """
    settings.check()
    return run_task(FinetuningTask, settings, where="finetune")


class FinetuningTask(Task):
    """Trains a head on labelled examples. For the errors, see `read_data` and `bert.from_pretrained`."""

    sequences = ()  # does not support the mesh axis `context`
    unit = "tokens"
    checks_objective = False  # costs two compilations; tests/tasks/test_lifecycle.py checks the objective
    keep = 1
    keeps_checkpoints = False  # three times as large as the model, and of no use after the run

    def __init__(self, settings: FinetuningSettings, context: Context):
        self.settings, self.context = settings, context
        self.reads_own_rows = context.own_rows is not None
        self.data = read_data(settings)
        update, evaluation = settings.update, settings.evaluation
        self.net, params, state = self._start(settings.run.seed)
        self._compiled: tuple[Any, Bucketed] | None = None  # the net, and the programs that run it
        self._started = {settings.run.seed: (params, state)}
        config: bert.BertConfig = self.net.config
        epoch = len(self._loader(settings.run.seed))
        steps = max(1, round(update.epochs * epoch))
        usual = min(2e-4, 5e-5 * 768 / config.hidden_size)
        self.learning_rate = usual if update.learning_rate is None else update.learning_rate
        self.schedule = optim.warmup_linear_decay(self.learning_rate, round(update.warmup * steps), steps)
        self.trainable = trainable_names(list(tree.flatten(params)), update.freeze)
        self.optimizer = make_optimizer(
            self.schedule,
            self.trainable,
            config.num_hidden_layers,
            update.layer_decay,
            weight_decay=update.weight_decay,
        )
        self.counts = self.data.head.counts  # type: ignore[method-assign]
        metric = evaluation.metric or self.data.head.metric
        self.best = Best(metric, largest=metric not in LOSSES, patience=evaluation.patience)
        self.shown = {"loss": "loss", metric: metric}
        every = max(1, epoch // evaluation.evaluations)
        validated = every if self.data.validation is not None else 0
        saved = max(every, SAVE_EVERY) if evaluation.save_every is None else evaluation.save_every
        self.cadence = Cadence(steps, settings.loop.log_every, validated, saved)
        self.seeds = range(settings.run.seed, settings.run.seed + evaluation.seeds)
        self.facts = [{"vocabulary": vocabulary_digest(self.data.tokenizer)}, self.data.fingerprint()]
        self.sources = {"vocabulary": str(settings.model), **self.data.sources(settings)}
        lengths = ", ".join(map(str, self.data.lengths))
        self.name = f"{self.data.head.name} on {settings.model.name}, rows of {lengths} tokens"

    def objective(self, *arguments: Any, **keywords: Any) -> Any:
        """Return the sums of the losses and metrics of the head; see `Head.objective`."""
        return self.data.head.objective(self.net)(*arguments, **keywords)

    def _start(self, seed: int) -> tuple[Any, Any, Any]:
        """Return (net, params, state), the model before the first training step."""
        dropout = self.settings.update.dropout
        layout = self.context.layout
        is_sharded = any(size > 1 for axis, size in layout.mesh.shape.items() if axis != AXIS)
        own = layout if is_sharded else None
        return directory.start(self.settings.model, self.data.head, dropout=dropout, seed=seed, layout=own)

    def init(self, seed: int) -> tuple[Any, Any]:
        return self._started.pop(seed) if seed in self._started else self._start(seed)[1:]

    def batches(self, seed: int) -> Callable[[int], Iterable[Any]]:
        return LoaderBatches(self._loader(seed))

    def size(self, batch: Mapping[str, Any]) -> int:
        return int(batch["attention_mask"].sum())

    def _loader(self, seed: int) -> DataLoader:
        pad_id = special_ids(self.data.tokenizer)["[PAD]"]
        size, rows = self.settings.loop.batch_size, self.context.own_rows
        own = None if rows is None else rows(size)
        return make_loader(self.data.train.rows, size, self.data.lengths, pad_id=pad_id, seed=seed, own=own)

    def _run(self, *arguments: Any) -> list[Any]:
        """Run the model on rows of any length, on all devices."""
        if self._compiled is None or self._compiled[0] is not self.net:
            self._compiled = self.net, self._bucketed()
        return self._compiled[1](*arguments)

    def _bucketed(self) -> Bucketed:
        layout, context = self.layout, self.context
        forward = self.data.head.forward(self.net, self.data.tokenizer)
        size, parts = self.settings.loop.batch_size, layout.batch_parts
        whole = dataclasses.replace(layout, kind="jit")  # one program reads the rows of all devices
        return Bucketed(
            lambda params, state, batch: forward(context.precision.cast(params), state, batch),
            longest=self.data.lengths[-1],
            pad_id=special_ids(self.data.tokenizer)["[PAD]"],
            lengths=self.data.lengths,
            sizes=[-(-size // parts) * parts],
            shard=whole.shard_own if self.reads_own_rows else whole.shard,
            own=self.context.own_rows,
            compiled=lambda function: compile_whole(function, layout),
        )

    def evaluator(self) -> Callable[[TrainState], dict[str, float]] | None:
        validation = self.data.validation
        if validation is None:
            return None
        return lambda state: self._measure((state.params, state.state), validation)[0]

    def _measure(
        self, model: tuple[Any, Any], examples: EncodedExamples
    ) -> tuple[dict[str, float], Sequence[Mapping[str, Any]]]:
        """Run a model on examples, and return (metrics, answers). Both are empty if a signal stopped the run."""
        stop = self.context.stop
        head, rows = self.data.head, examples.rows
        outputs = self._run(model, rows.sequences, lambda: stop.requested)
        if stop.requested:
            return {}, []
        answers = head.answers(examples.examples, rows.details, rows.counts, outputs)
        return {"loss": mean_loss(head, outputs, rows), **head.scores(examples.examples, answers)}, answers

    def measure(self, model: tuple[Any, Any]) -> dict[str, float]:
        """Return the metrics of (params, state) on the validation and test examples."""
        placed = self.layout.place(model)
        figures = {prefix: self._measure(placed, examples)[0] for prefix, examples in self._held_out().items()}
        return {f"{prefix}{name}": value for prefix, one in figures.items() for name, value in one.items()}

    def _held_out(self) -> dict[str, EncodedExamples]:
        """Return the validation and test examples as {prefix of the names of their metrics: examples}."""
        parts = {"": self.data.validation, "test_": self.data.test}
        return {prefix: examples for prefix, examples in parts.items() if examples is not None}

    def save(self, folder: Path, params: Params, state: State) -> None:
        head, tokenizer, seq_len = self.data.head, self.data.tokenizer, self.settings.input.seq_len
        directory.save(folder, directory.FineTuned(head, tokenizer, self.net, params, state, seq_len))

    def conclude(self, ended: Ended) -> Conclusion | None:
        """Read the saved model from its files, and compute its metrics on the validation and test examples."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # already shown when the original model was opened
            kept = directory.load(ended.folder)
        model = self.layout.place((kept.params, kept.state))
        values: dict[str, Any] = {"seed": ended.seed, "steps": ended.rows[-1]["step"]}
        classes: tuple[list[str], list[str]] | None = None
        for prefix, examples in self._held_out().items():
            figures, said = self._measure(model, examples)
            if self.context.stop.requested:
                return None
            values |= {f"{prefix}{name}": value for name, value in figures.items()}
            classes = classes or self.data.head.classes(examples.examples, said)
        assert self.best is not None
        best, settings = self.best, self.settings
        if self.data.validation is not None:
            evaluated = [row for row in ended.rows if f"eval_{best.metric}" in row]
            values["best_step"] = max(evaluated, key=lambda row: goodness(best, row, "eval_"))["step"]
        panels = finetuning_panels(self.data.head, best.metric, values, classes)
        subtitle = (
            f"{values['steps']:,} steps of {settings.loop.batch_size} rows, learning rate {self.learning_rate:g}, "
            f"seed {ended.seed}"
        )
        hint = describe_constant(classes)
        title = f"{self.data.head.name}: {settings.train.name}"
        return Conclusion(values, panels, title, subtitle, [hint] if hint else [])
