"""A whole pretraining run: raw text in, a directory that Hugging Face opens out.

    text -> data -> model -> step -> loop (metrics, evaluation, checkpoints) -> model.safetensors, eval.json, report.png

Killed at any moment, it goes on with `resume=True` and ends with the same bits.
"""

import contextlib
import dataclasses
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from funcnet import optim
from funcnet.data import Prefetcher
from funcnet.files import write_json
from funcnet.models import bert
from funcnet.parallel import DataParallel, check_batch_size, data_parallel, parallelize, use_virtual_cpu_devices
from funcnet.tasks.pretraining import objective as losses
from funcnet.tasks.pretraining.configuration import FREE, PretrainingConfig
from funcnet.tasks.pretraining.phases import Phases, open_phases
from funcnet.tasks.pretraining.show import example_guesses, panels
from funcnet.tasks.pretraining_data.dataset import PretrainingDataset, evaluation_batches
from funcnet.tasks.pretraining_data.progress import Stopped
from funcnet.tasks.pretraining_data.reader import PretrainingData
from funcnet.text import save_tokenizer
from funcnet.train import (
    BFLOAT16,
    FLOAT32,
    Cadence,
    Checkpoints,
    Interruption,
    JsonLines,
    Outcome,
    Restored,
    RunError,
    TensorBoard,
    TrainingProgress,
    TrainState,
    abandon,
    compilation_cache,
    create,
    draw_report,
    evaluate,
    finish,
    is_finished,
    lock_run,
    make_eval_step,
    make_step,
    open_run,
    pin,
    read_metrics,
    resume,
    train,
)

__all__ = ["pretrain"]

WRITES = ("model.safetensors", "metrics.jsonl", "checkpoints", "eval.json", "config.json", "tokenizer.json")


def pretrain(config: PretrainingConfig) -> int:
    """Runs, or goes on with, a pretraining run.

    Args:
        config: the settings.

    Returns:
        The exit code: 0 finished, 130 or 143 stopped by SIGINT or SIGTERM with a checkpoint saved.

    Raises:
        ValueError: settings, text or files are wrong; `RunError` for what concerns the run's directory.
        OSError: a file cannot be read or written.
    """
    config.check()
    with Interruption() as stop, contextlib.ExitStack() as stack:
        plan = _devices(config)
        model_config = _model_config(config)
        folder = open_run(config.out, config.recorded(), resume=config.resume, writes=WRITES, free=FREE)
        stack.enter_context(lock_run(folder))
        if is_finished(folder) and (folder / WRITES[0]).exists():
            print(f"The run in {folder} has finished: nothing is left to do.")
            return 0
        compilation_cache.enable()
        try:
            phases = open_phases(config, stop)
            data = phases.phases[0].data
            model_config = dataclasses.replace(model_config, vocab_size=data.tokenizer.get_vocab_size())
            run = _Run(config, folder, phases, plan, bert.BertForPreTraining(model_config))
        except Stopped:
            print("Stopped before the first step: nothing was lost. Go on with --resume.")
            return stop.exit_code
        except (ValueError, OSError):
            if not config.resume:
                abandon(folder)
            raise
        if stop.requested:
            print("Stopped before the first step: nothing was lost. Go on with --resume.")
            return stop.exit_code
        pin(folder, data.fingerprint, _sources(config))
        with Checkpoints(folder / "checkpoints", keep=config.keep, best_metric="eval_loss") as checkpoints:
            outcome = run.train(checkpoints, stop)
        if stop.requested:
            saved = "saved" if outcome.step else "nothing was lost"
            print(f"Stopped after step {outcome.step:,} of {config.steps:,}; {saved}. Go on with --resume.")
            return stop.exit_code
        run.conclude(outcome)
        finish(folder)
        return 0


def _sources(config: PretrainingConfig) -> dict[str, str]:
    """Where what `pin` records comes from."""
    if config.data is not None:
        return dict.fromkeys(("corpus", "vocabulary"), str(config.data))
    corpus = {} if config.corpus is None else {"corpus": ", ".join(map(str, config.corpus))}
    return corpus | ({} if config.vocab is None else {"vocabulary": str(config.vocab)})


# ------------------------------------------------------------------------------------------ before anything is read


def _devices(config: PretrainingConfig) -> DataParallel:
    if config.devices is not None:
        use_virtual_cpu_devices(config.devices)
    on_cpu = jax.default_backend() == "cpu"
    plan = data_parallel(config.parallel, devices=config.devices or (1 if on_cpu else None))
    check_batch_size(config.batch_size, plan.count, config.accumulate, where="pretrain: --batch-size")
    if config.long_batch_size is not None:
        check_batch_size(config.long_batch_size, plan.count, config.accumulate, where="pretrain: --long-batch-size")
    return plan


def _model_config(config: PretrainingConfig) -> bert.BertConfig:
    """Everything but the size of the vocabulary, which the data tell."""
    model_config = bert.BertConfig.preset(
        config.model,
        hidden_dropout_prob=config.dropout,
        attention_probs_dropout_prob=config.dropout,
        scan_layers=config.scan_layers,
    )
    longest = model_config.max_position_embeddings
    for flag, length in (("--seq-len", config.seq_len), ("--long-seq-len", config.long_seq_len)):
        if length is not None and not 8 <= length <= longest:
            raise RunError(
                f"pretrain: {flag}; expected 8 to {longest}, the size of the position table, got {length}. "
                "Choose a length in between."
            )
    return model_config


# ------------------------------------------------------------------------------------------------------ the run


def _optimizer(config: PretrainingConfig) -> tuple[optax.GradientTransformation, optax.Schedule]:
    """LAMB with NVIDIA's schedule; AdamW with `warmup_linear_decay`, not with Google's own (`optim.bert_schedule`), in
    which the rate drops where the warm-up ends."""
    warmup = round(config.warmup * config.steps)
    if config.optimizer == "lamb":
        schedule = optim.lamb_schedule(config.learning_rate, warmup, config.steps)
        return optim.lamb(schedule, weight_decay=config.weight_decay), schedule
    schedule = optim.warmup_linear_decay(config.learning_rate, warmup, config.steps)
    rates = bert.QUICK_START_RATES if config.is_quick else None
    return optim.bert_adamw(schedule, weight_decay=config.weight_decay, rates=rates), schedule


class _Run:
    """The pieces of one run, and what is done with them."""

    def __init__(
        self, config: PretrainingConfig, folder: Path, phases: Phases, plan: DataParallel, net: bert.BertForPreTraining
    ):
        self.config, self.folder, self.phases, self.plan, self.net = config, folder, phases, plan, net
        self.data = phases.phases[-1].data  # what the finished model is looked at with
        self.precision = BFLOAT16 if config.precision == "bfloat16" else FLOAT32
        self.unigram = jnp.asarray(self.data.unigram())

    def train(self, checkpoints: Checkpoints, stop: Interruption) -> Outcome:
        """From the newest checkpoint, or from the start, to the last step or a signal."""
        config, plan = self.config, self.plan
        optimizer, schedule = _optimizer(config)
        step = make_step(
            losses.make_objective(self.net),
            losses.counts,
            optimizer,
            schedule=schedule,
            accumulate=config.accumulate,
            precision=self.precision,
        )
        key = jax.random.key(config.seed)
        first = create(*self._start(key), optimizer)
        begin = resume(checkpoints, first) if config.resume else Restored(first, 0, {})
        size = sum(leaf.size for leaf in jax.tree.leaves(first.params))
        print(f"BERT-{config.model}, {size:,} parameters, {plan.count} device(s) by {plan.kind}.")
        show = {"loss": "loss", "words": "mlm_accuracy", "next sentence": "nsp_accuracy"}
        with (
            JsonLines(self.folder / "metrics.jsonl", begin.step) as lines,
            TensorBoard(self.folder / "tensorboard", begin.step) as board,
            TrainingProgress(config.steps, step=begin.step, show=show) as progress,
        ):
            return train(
                parallelize(step, plan, donate=True),
                plan.place(begin.state),
                self.phases.batches,
                key=plan.place(key),
                place=plan.shard,
                size=lambda batch: batch["attention_mask"].sum(),
                cadence=Cadence(config.steps, config.log_every, config.evaluate_every, config.save_every),
                stop=stop,
                loggers=[lines, board, progress],
                evaluate=self._evaluator(stop) if self.data.evaluation is not None else None,
                checkpoints=checkpoints,
                about={"seed": config.seed, "config": config.recorded()},
                after_step=progress.after_step,
                owed=begin.about.get("owed"),
            )

    def _start(self, key: jax.Array) -> tuple[Any, Any]:
        params, state = jax.jit(self.net.init)(key)
        if self.config.is_quick:
            params = bert.quick_start(self.net.unstack(params), self.net.config, self.unigram)
            params = self.net.stack(params) if self.config.scan_layers else params
        return params, state

    # ------------------------------------------------------------------------------------------------- evaluation

    def _evaluator(self, stop: Interruption) -> Callable[[TrainState], dict[str, float]]:
        evaluation = losses.make_evaluation(self.net, self.unigram)
        step = parallelize(make_eval_step(evaluation, losses.evaluation_counts, precision=self.precision), self.plan)

        def run(state: TrainState) -> dict[str, float]:
            data = self.phases.phases[self.phases.number(max(_step_of(state) - 1, 0))].data
            with Prefetcher(self._held_out(data), transfer=self.plan.shard) as batches:
                values = evaluate(step, (state.params, state.state), batches, should_stop=lambda: stop.requested)
            return {**values, "loss": values["mlm_loss"] + values["nsp_loss"]}

        return run

    def _held_out(self, data: PretrainingData) -> Iterator[dict[str, np.ndarray]]:
        """The held-out batches of a phase, with `shows_mask`."""
        assert data.evaluation is not None
        for batch in evaluation_batches(data.evaluation, _evaluation_batch(data.evaluation.seq_len, self.plan)):
            yield add_shows_mask(batch, data.evaluation)

    # --------------------------------------------------------------------------------------------------- at the end

    def conclude(self, outcome: Outcome) -> None:
        """Everything that stands in the directory when a run has finished."""
        state = jax.device_get(outcome.state)
        bert.save_pretrained(self.folder, self.net, state.params, state.state)
        save_tokenizer(self.data.tokenizer, self.folder, max_length=self.data.train.seq_len)
        rows = read_metrics(self.folder / "metrics.jsonl")
        print(f"{outcome.tokens:,} tokens since the start or --resume; waited for data {outcome.data_wait_share:.2%}.")
        values: dict[str, float] = {}
        if self.data.evaluation is not None:
            last = next(row for row in reversed(rows) if "eval_mlm_loss" in row)
            values = self._evaluation_summary(last)
            write_json(self.folder / "eval.json", values)
            print(json.dumps(values, indent=2))
            for line in example_guesses(self.net, state.params, state.state, self.data):
                print(line)
        title = f"BERT-{self.config.model}: masked words and next sentence"
        draw_report(self.folder / "report.png", rows, panels(values), title=title, subtitle=self._subtitle())
        print(f"Written: {self.folder}")

    def _evaluation_summary(self, row: dict[str, float]) -> dict[str, float]:
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

    def _subtitle(self) -> str:
        config = self.config
        rows = [f"{phase.batch_size} x {phase.data.train.seq_len}" for phase in self.phases.phases]
        return (
            f"{config.steps:,} steps of {', then '.join(rows)} tokens, learning rate "
            f"{config.learning_rate:g}, {self.plan.count} device(s) by {self.plan.kind}, seed {config.seed}"
        )


def add_shows_mask(batch: dict[str, np.ndarray], dataset: PretrainingDataset) -> dict[str, np.ndarray]:
    """The batch with `shows_mask` (B, M) float32: 1 where the input at a hidden word is `[MASK]`."""
    shown = np.take_along_axis(batch["input_ids"], batch["masked_positions"], axis=1)
    return {**batch, "shows_mask": (shown == dataset.masking.mask_id).astype(np.float32)}


def _evaluation_batch(seq_len: int, plan: DataParallel) -> int:
    """Rows of a held-out batch: about 4,096 tokens a device, whatever the training batch."""
    return plan.count * max(1, 4096 // seq_len)


def _step_of(state: TrainState) -> int:
    """How many updates were made, also where every device has its own copy of the number."""
    return int(np.asarray(jax.device_get(state.step)).reshape(-1)[0])
