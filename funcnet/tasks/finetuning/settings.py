"""The settings of `funcnet finetune`: shared groups, and what only fine-tuning has."""

import dataclasses
from pathlib import Path
from typing import Annotated, Literal

import tyro

from funcnet.settings import Range, check_ranges, defaults, flag, flat
from funcnet.train.settings import DeviceSettings, LoopSettings, RunSettings

__all__ = ["EvaluationSettings", "ExampleSettings", "FinetuningSettings", "InputSettings", "UpdateSettings"]

Kind = Literal["classify", "labels", "regress", "pairs", "tokens", "choice", "answer"]
ONLY_FOR = {  # the tasks that a setting applies to
    **dict.fromkeys(("doc_stride", "max_answer", "n_best", "null_threshold"), ("answer",)),
    **dict.fromkeys(("text_column", "label_column"), ("classify", "labels", "regress", "pairs", "tokens", "choice")),
    "second_column": ("classify", "labels", "regress", "pairs", "choice"),
    "label_separator": ("labels",),
    "long_texts": ("classify", "labels", "regress"),
}


@dataclasses.dataclass(frozen=True)
class ExampleSettings:
    """Files of labelled examples, besides --train."""

    validation: Path | None = None
    """File to choose the best model by; for a GLUE folder the default is its dev file."""
    split: Annotated[float, Range(0, 1, below=True)] = 0.1
    """Share of the training examples to choose the best model by, without --validation; copies of a text stay on one
    side. 0: none, and the last model is kept."""
    test: Path | None = None
    """File to measure the kept model on at the end."""
    text_column: str | None = None
    """Name of the column of the texts. The default is text; for tagged words it is tokens."""
    second_column: str | None = None
    """Name of the column of the second texts. The default is text_b."""
    label_column: str | None = None
    """Name of the column of the labels. The default is label; for tagged words it is tags."""
    label_separator: str | None = None
    """labels: separator between the labels of one text; JSON lines have lists instead."""


@dataclasses.dataclass(frozen=True)
class InputSettings:
    """How a text becomes rows of tokens, and how answers are found."""

    seq_len: int = 128
    """Tokens per row, [CLS] and [SEP] included. Longer texts are cut; contexts of questions are read in windows."""
    long_texts: Literal["cut", "parts"] = "cut"
    """classify, labels, regress: cut longer texts, or read them whole, in parts of equal length whose logits are
    averaged."""
    doc_stride: Annotated[int, Range(1)] = 128
    """answer: tokens from the start of one window to the start of the next."""
    max_answer: Annotated[int, Range(1)] = 30
    """answer: largest length of an answer, in tokens."""
    n_best: Annotated[int, Range(1)] = 20
    """answer: number of answers to report."""
    null_threshold: float = 0.0
    """answer: by how much "no answer" must outscore the best answer to be given."""
    buckets: Annotated[int, Range(1)] = 4
    """Number of lengths that rows are padded to; each is a compiled program."""


@dataclasses.dataclass(frozen=True)
class UpdateSettings:
    """How the model learns."""

    epochs: Annotated[float, Range(0, above=True)] = 3.0
    """Number of passes over the training examples."""
    learning_rate: Annotated[float, Range(0)] | None = None
    """Peak of the learning rate. The default is 5e-5 for a width of 768, and more for narrower models (5e-5 x 768 /
    width, at most 2e-4)."""
    warmup: Annotated[float, Range(0, 1, below=True)] = 0.1
    """Share of the steps in which the learning rate rises. Then it falls linearly to 0."""
    layer_decay: Annotated[float, Range(0, 1, above=True)] = 1.0
    """Factor between the learning rate of a layer and that of the layer below; 1: all layers have the same."""
    freeze: tuple[str, ...] = ()
    """Patterns of parameters that do not train, such as bert.embeddings bert.encoder.layer.0 'bert.**.LayerNorm'."""
    weight_decay: Annotated[float, Range(0)] = 0.01
    """Weight decay, applied to all parameters but biases and LayerNorm."""
    dropout: Annotated[float, Range(0, 1, below=True)] | None = None
    """Dropout of hidden states and attention. The default is what the model's config says."""


@dataclasses.dataclass(frozen=True)
class EvaluationSettings:
    """Which model is kept."""

    evaluations: Annotated[int, Range(1)] = 1
    """Evaluations per epoch on the validation examples; the best model so far is kept."""
    patience: Annotated[int, Range(0, note="0: never")] = 0
    """Evaluations without a better model after which the run ends; 0: never."""
    metric: str | None = None
    """Metric that decides which model is best. The default is accuracy (or the metric of the GLUE task; F1 for
    entities and answers; Pearson correlation for numbers); any other of eval.json can be named."""
    seeds: Annotated[int, Range(1)] = 1
    """Number of runs, each with the next seed. Mean and spread go into eval.json, and the best model into --out."""


@dataclasses.dataclass(frozen=True)
class FinetuningSettings:
    """Fine-tune a BERT on labelled texts.

    Texts are read from CSV, TSV or JSON lines with the columns text (text_b) and label, or from a GLUE folder; tagged
    words from CoNLL columns, or JSON lines with tokens and tags; choices from the columns text and choices (or choice0,
    choice1, …); questions from SQuAD's JSON.

    Writes into --out a directory that Hugging Face opens (config.json, vocab.txt, tokenizer.json,
    tokenizer_config.json, model.safetensors), metrics.jsonl, eval.json, report.png and tensorboard/; `funcnet predict`
    and `funcnet evaluate` read it.

    Exit codes: 0 finished; 2 something in the arguments, the files or on the disk is wrong (a line says what);
    130 after Ctrl-C and 143 after SIGTERM: a checkpoint was saved if a step was made; continue with --resume.
    """

    task: tyro.conf.Positional[Kind]
    """classify: one of several classes for a text; labels: any number of labels for a text or a pair; regress: a
    number for a text or a pair; pairs: a class for two texts; tokens: a tag for each word; choice: the text that
    best continues another; answer: the part of a text that answers a question."""
    model: Path
    """Directory of the BERT to start from."""
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
        """Refuses settings that no run can have, before anything is read or written.

        Raises:
            ValueError: names the flag, what is expected, and what it is.
        """
        check_ranges(self, "finetune")
        values, usual = flat(self), defaults(type(self))
        for name, tasks in ONLY_FOR.items():
            if self.task not in tasks and values[name] != usual[name]:
                raise ValueError(
                    f"finetune: {flag(name)}; expected it with {' or '.join(tasks)} only, got the task {self.task}."
                )
