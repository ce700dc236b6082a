"""The settings of `funcnet finetune`: the shared groups, and the groups that only fine-tuning has."""

import dataclasses
from pathlib import Path
from typing import Annotated, Literal

import tyro

from funcnet.heads.input_settings import InputSettings, OnlyFor
from funcnet.settings import Range, annotated, check_ranges, defaults, flag, flat, with_helps
from funcnet.train.setting_groups import DeviceSettings, LoopSettings, RunSettings, SaveEvery

__all__ = ["EvaluationSettings", "ExampleSettings", "FinetuningSettings", "InputSettings", "UpdateSettings"]

Kind = Literal["classify", "labels", "regress", "pairs", "tokens", "choice", "answer"]


@with_helps
@dataclasses.dataclass(frozen=True)
class ExampleSettings:
    """Files of labelled examples, in addition to --train."""

    validation: Path | None = None
    """File of validation examples, on which the best model is chosen. The default for a GLUE folder is its dev file."""
    split: Annotated[float, Range(0, 1, below=True)] = 0.1
    """Fraction of the training examples to hold out for validation if there is no --validation file. Copies of a text
    stay on the same side of the split. With 0, nothing is held out and the last model is kept."""
    test: Path | None = None
    """File of test examples, on which the saved model is evaluated at the end."""
    text_column: Annotated[str | None, OnlyFor("classify", "labels", "regress", "pairs", "tokens", "choice")] = None
    """Name of the column that contains the texts. The default is "text", or "tokens" for the task "tokens"."""
    second_column: Annotated[str | None, OnlyFor("classify", "labels", "regress", "pairs", "choice")] = None
    """Name of the column that contains the second texts. The default is "text_b"."""
    label_column: Annotated[str | None, OnlyFor("classify", "labels", "regress", "pairs", "tokens", "choice")] = None
    """Name of the column that contains the labels. The default is "label", or "tags" for the task "tokens"."""
    label_separator: Annotated[str | None, OnlyFor("labels")] = None
    """For the task "labels": separator between the labels of one text. JSON lines may contain lists of labels
    instead."""


@with_helps
@dataclasses.dataclass(frozen=True)
class UpdateSettings:
    """How the model learns."""

    epochs: Annotated[float, Range(0, above=True)] = 3.0
    """Number of passes over the training examples."""
    learning_rate: Annotated[float, Range(0)] | None = None
    """Peak of the learning rate. The default is 5e-5 x 768 / hidden size, but not more than 2e-4."""
    warmup: Annotated[float, Range(0, 1, below=True)] = 0.1
    """Fraction of the steps over which the learning rate rises from 0 to its peak. It then falls linearly to 0."""
    layer_decay: Annotated[float, Range(0, 1, above=True)] = 1.0
    """Ratio of the learning rate of each layer to that of the layer above it. With 1, all layers have the same rate."""
    freeze: tuple[str, ...] = ()
    """Patterns for the names of parameters that are not trained, such as bert.embeddings or 'bert.**.LayerNorm'."""
    weight_decay: Annotated[float, Range(0)] = 0.01
    """Weight decay of all trained parameters except biases and LayerNorm."""
    dropout: Annotated[float, Range(0, 1, below=True)] | None = None
    """Dropout probability of hidden states and attention. The default is the value in the model's config.json."""


@with_helps
@dataclasses.dataclass(frozen=True)
class EvaluationSettings:
    """How often the model is evaluated and saved, and how the best model is chosen."""

    evaluations: Annotated[int, Range(1)] = 1
    """Number of times per epoch to evaluate on the validation examples. The best model so far is kept."""
    save_every: SaveEvery | None = None
    """Number of steps between two checkpoints. With 0, a checkpoint is saved only at the end. The default is the number
    of steps between two evaluations, but at least 50. Checkpoints are removed when the run has finished."""
    patience: Annotated[int, Range(0, note="0: never")] = 0
    """End the run early after this number of evaluations without a better model. With 0, the run never ends early."""
    metric: str | None = None
    """Metric by which the best model is chosen: loss, or one of the metrics that eval.json lists for the task. The
    default is accuracy for classes and choices, F1 for labels, entities and answers, Pearson correlation for numbers,
    and GLUE's metric for a GLUE folder."""
    seeds: Annotated[int, Range(1)] = 1
    """Number of runs, with the seeds --seed, --seed + 1 and so on. The mean and spread of their metrics are written to
    eval.json, and the best of their models to --out."""


@with_helps
@dataclasses.dataclass(frozen=True)
class FinetuningSettings:
    """Fine-tune a BERT on labelled texts.

    Texts are read from CSV, TSV or JSON lines with the columns text and label (and text_b for pairs), or from a GLUE
    folder. Tagged words are read from CoNLL columns, or from JSON lines with tokens and tags. Choices are read from the
    columns text and choices (or choice0, choice1, …). Questions are read from JSON in the format of SQuAD.

    The command writes into --out: a model that Hugging Face can open (config.json, vocab.txt, tokenizer.json,
    tokenizer_config.json, model.safetensors), metrics.jsonl, eval.json, report.png and tensorboard/. `funcnet predict`
    and `funcnet evaluate` read this directory.

    Exit codes: 0 finished; 2 an error in the arguments, the data or the files, reported in one line; 130 stopped by
    Ctrl-C; 143 stopped by SIGTERM. A stopped run saves a checkpoint, unless it stopped before its first step. Continue
    it with --resume.
    """

    task: tyro.conf.Positional[Kind]
    """Task to train. classify: one class per text; labels: any number of labels per text or pair; regress: one number
    per text or pair; pairs: one class per pair of texts; tokens: one tag per word; choice: the text that best continues
    another text; answer: the part of a text that answers a question."""
    model: Path
    """Directory of the BERT model to start from."""
    train: Path
    """Training file, or a GLUE folder."""
    run: RunSettings
    examples: ExampleSettings = ExampleSettings()
    input: InputSettings = InputSettings()
    update: UpdateSettings = UpdateSettings()
    evaluation: EvaluationSettings = EvaluationSettings()
    loop: LoopSettings = LoopSettings(log_every=10)
    device: DeviceSettings = DeviceSettings()

    def check(self) -> None:
        """Raise ValueError if a setting is out of range or does not apply to the task."""
        check_ranges(self, "finetune")
        values, usual = flat(self), defaults(type(self))
        for name, only_for in annotated(type(self), OnlyFor).items():
            if self.task not in only_for.tasks and values[name] != usual[name]:
                raise ValueError(
                    f"finetune: {flag(name)} does not apply to this task; expected the task {only_for}, got "
                    f"{self.task}."
                )
