"""BERT pretraining as a task for `funcnet.train.run_task`: from raw text to a model that Hugging Face can open."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from funcnet import optim
from funcnet.data import Prefetcher
from funcnet.models import bert
from funcnet.parallel import check_batch_size, parallelize
from funcnet.tasks.pretraining import objective as losses
from funcnet.tasks.pretraining.phases import Phases, open_phases
from funcnet.tasks.pretraining.report_panels import example_guesses, pretraining_panels
from funcnet.tasks.pretraining.settings import PretrainingSettings
from funcnet.tasks.pretraining_data import PretrainingData, PretrainingDataset, evaluation_batches
from funcnet.text import save_tokenizer
from funcnet.train import Cadence, Conclusion, Context, Ended, Task, TrainState, evaluate, make_eval_step, run_task
from funcnet.tree import Params, State

__all__ = ["PretrainingTask", "add_shows_mask", "pretrain"]

SEQUENCES = ("input_ids", "attention_mask", "token_type_ids", "position_ids", "sequence_ids")  # leaves (B, T)


def pretrain(settings: PretrainingSettings) -> int:
    """Run `funcnet pretrain`, or resume its run.

    Args:
        settings: the settings of the command.

    Returns:
        The exit code; see `run_task`.

    Raises:
        ValueError: if a setting is wrong; see also `run_task`.
    """
    settings.check()
    return run_task(PretrainingTask, settings, where="pretrain")


class PretrainingTask(Task):
    """Pretrains BERT on masked words and next sentences. The settings must have been checked."""

    unit = "tokens"
    checks_objective = False  # costs two compilations; tests/tasks/test_lifecycle.py checks the objective
    shown = {"loss": "loss", "words": "mlm_accuracy", "next sentence": "nsp_accuracy"}  # noqa: RUF012

    def __init__(self, settings: PretrainingSettings, context: Context):
        self.settings, self.context = settings, context
        model, checkpoint, steps = settings.model, settings.checkpoint, settings.optimizer.steps
        if model.long_batch_size is not None:
            parts = context.layout.batch_parts
            where = "pretrain: --long-batch-size"
            check_batch_size(model.long_batch_size, parts, settings.loop.accumulate, where=where)
        self.phases: Phases = open_phases(settings, context.stop, context.own_rows)
        self.reads_own_rows = context.own_rows is not None
        self.data = self.phases.phases[-1].data  # data for the evaluation of the finished model
        net = bert.BertForPreTraining(
            bert.BertConfig.preset(
                model.model,
                vocab_size=self.data.tokenizer.get_vocab_size(),
                hidden_dropout_prob=model.dropout,
                attention_probs_dropout_prob=model.dropout,
                scan_layers=model.scan_layers,
                attention_block_size=model.attention_block_size,
                context_parallel=model.context_parallel,
            )
        )
        self.net, self.sequences = net, SEQUENCES
        self.unigram = self.data.unigram()
        self.name = f"BERT-{model.model}"
        self.cadence = Cadence(steps, settings.loop.log_every, checkpoint.evaluate_every, checkpoint.save_every)
        self.keep, self.rewind_above = checkpoint.keep, checkpoint.rewind_above
        self.optimizer, self.schedule = make_optimizer(settings)
        self.counts = losses.counts  # type: ignore[method-assign]
        self.facts = [self.phases.phases[0].data.fingerprint]
        self.sources = _sources(settings)

    def objective(self, *arguments: Any, **keywords: Any) -> Any:
        """Return the sums of the losses and metrics; see `losses.make_objective`."""
        return losses.make_objective(self.net)(*arguments, **keywords)

    def init(self, seed: int) -> tuple[Any, Any]:
        params, state = jax.jit(self._draw)(jax.random.key(seed))
        return params, state

    def initializer(self) -> Callable[[Any], Any] | None:
        return self._draw

    def _draw(self, key: jax.Array) -> tuple[Any, Any]:
        params, state = self.net.init(key)
        if self.settings.is_quick:
            params = bert.quick_start(self.net.unstack(params), self.net.config, self.unigram)
            params = self.net.stack(params) if self.settings.model.scan_layers else params
        return params, state

    def batches(self, seed: int) -> Callable[[int], Iterable[Any]]:
        return self.phases.batches

    def size(self, batch: Mapping[str, Any]) -> int:
        return int(batch["attention_mask"].sum())

    # ------------------------------------------------------------------------------------------------- evaluation

    def evaluator(self) -> Callable[[TrainState], dict[str, float]] | None:
        if self.data.evaluation is None:
            return None
        measure = self._on_held_out()

        def on_held_out(state: TrainState) -> dict[str, float]:
            data = self.phases.phases[self.phases.number(max(int(state.step) - 1, 0))].data
            return measure((state.params, state.state), data)

        return on_held_out

    def measure(self, model: tuple[Any, Any]) -> dict[str, float]:
        """Return the metrics of (params, state) on the held-out text, or {} if no text is held out."""
        if self.data.evaluation is None:
            return {}
        found = self._on_held_out()(self.layout.place(model), self.data)
        return {name: found[name] for name in ("mlm_loss", "mlm_accuracy", "nsp_loss", "nsp_accuracy") if name in found}

    def _on_held_out(self) -> Callable[[tuple[Any, Any], PretrainingData], dict[str, float]]:
        layout, stop = self.layout, self.context.stop
        evaluation = losses.make_evaluation(self.net, jnp.asarray(self.unigram))
        step = make_eval_step(evaluation, losses.evaluation_counts, precision=self.context.precision)
        compiled = parallelize(step, layout)

        def on_held_out(model: tuple[Any, Any], data: PretrainingData) -> dict[str, float]:
            with Prefetcher(self._held_out(data), transfer=self.place) as batches:
                values = evaluate(compiled, model, batches, should_stop=lambda: stop.requested)
            return {**values, "loss": values["mlm_loss"] + values["nsp_loss"]}

        return on_held_out

    def _held_out(self, data: PretrainingData) -> Iterator[dict[str, np.ndarray]]:
        """Yield the held-out batches, with `shows_mask`. A batch has about 4,096 tokens per device."""
        assert data.evaluation is not None
        rows = self.layout.batch_parts * max(1, 4096 // data.evaluation.seq_len)
        own = self.layout.own_rows(rows) if self.reads_own_rows else None
        for batch in evaluation_batches(data.evaluation, rows, own):
            yield add_shows_mask(batch, data.evaluation)

    # --------------------------------------------------------------------------------------------------- at the end

    def save(self, folder: Path, params: Params, state: State) -> None:
        bert.save_pretrained(folder, self.net, params, state)
        save_tokenizer(self.data.tokenizer, folder, max_length=self.data.train.seq_len)

    def conclude(self, ended: Ended) -> Conclusion:
        settings = self.settings
        values = self._evaluation_summary(ended.rows) if self.data.evaluation is not None else {}
        notes: list[str] = []
        if ended.state is not None:
            params, state = self.layout.gather((ended.state.params, ended.state.state))
            notes = example_guesses(self.net, params, state, self.data)
        rows = [f"{phase.batch_size} x {phase.data.train.seq_len}" for phase in self.phases.phases]
        subtitle = (
            f"{settings.optimizer.steps:,} steps of {', then '.join(rows)} tokens, learning rate "
            f"{settings.optimizer.learning_rate:g}, {self.layout}, seed {settings.run.seed}"
        )
        title = f"{self.name}: masked words and next sentence"
        return Conclusion(values, pretraining_panels(values), title, subtitle, notes)

    def _evaluation_summary(self, rows: list[dict[str, Any]]) -> dict[str, float]:
        row = next(row for row in reversed(rows) if "eval_mlm_loss" in row)
        positions = sum(float(batch["masked_weights"].sum()) for batch in self._held_out(self.data))
        return {
            "step": int(row["step"]),
            "mlm_loss": row["eval_mlm_loss"],
            "mlm_accuracy": row["eval_mlm_accuracy"],
            "nsp_loss": row["eval_nsp_loss"],
            "nsp_accuracy": row["eval_nsp_accuracy"],
            "unigram_loss": row["eval_mlm_unigram_loss"],
            "mlm_positions": int(positions),
            "mlm_loss_on_mask": row["eval_mlm_on_mask_loss"],
            "unigram_loss_on_mask": row["eval_mlm_on_mask_unigram_loss"],
        }


def make_optimizer(settings: PretrainingSettings) -> tuple[optax.GradientTransformation, optax.Schedule]:
    """Return the optimizer and its schedule: LAMB with NVIDIA's schedule, or AdamW with `warmup_linear_decay`.

    AdamW is not combined with Google's schedule (`optim.bert_schedule`), in which the learning rate drops at the end of
    the warm-up.
    """
    chosen = settings.optimizer
    warmup = round(chosen.warmup * chosen.steps)
    if chosen.optimizer == "lamb":
        schedule = optim.lamb_schedule(chosen.learning_rate, warmup, chosen.steps)
        return optim.lamb(schedule, weight_decay=chosen.weight_decay), schedule
    schedule = optim.warmup_linear_decay(chosen.learning_rate, warmup, chosen.steps)
    rates = bert.QUICK_START_RATES if settings.is_quick else None
    return optim.bert_adamw(schedule, weight_decay=chosen.weight_decay, rates=rates), schedule


def add_shows_mask(batch: dict[str, np.ndarray], dataset: PretrainingDataset) -> dict[str, np.ndarray]:
    """Add `shows_mask` (B, M) float32 to a batch of `dataset`: 1 for a masked word whose input is `[MASK]`, otherwise
    0.

    Example:
        >>> from types import SimpleNamespace
        >>> dataset = SimpleNamespace(masking=SimpleNamespace(mask_id=4))
        >>> batch = {"input_ids": np.array([[2, 4, 7, 3]]), "masked_positions": np.array([[1, 2]])}
        >>> add_shows_mask(batch, dataset)["shows_mask"].tolist()  # the word at position 2 is still shown
        [[1.0, 0.0]]
    """
    shown = np.take_along_axis(batch["input_ids"], batch["masked_positions"], axis=1)
    return {**batch, "shows_mask": (shown == dataset.masking.mask_id).astype(np.float32)}


def _sources(settings: PretrainingSettings) -> dict[str, str]:
    """Return {name of a recorded fact: the file that it describes}."""
    if settings.data is not None:
        return dict.fromkeys(("corpus", "vocabulary"), str(settings.data))
    text = settings.text
    corpus = {} if text.corpus is None else {"corpus": ", ".join(map(str, text.corpus))}
    return corpus | ({} if text.vocab is None else {"vocabulary": str(text.vocab)})
