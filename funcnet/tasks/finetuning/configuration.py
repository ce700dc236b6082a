"""The settings of a fine-tuning run, each with its reason; what the command line shows."""

import dataclasses
import math
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

__all__ = ["FinetuningConfig"]

Kind = Literal["classify", "labels", "regress", "pairs", "tokens", "choice", "answer"]
ONLY_FOR = {  # the tasks that a setting says something to
    **dict.fromkeys(("doc_stride", "max_answer", "n_best", "null_threshold"), ("answer",)),
    **dict.fromkeys(("text_column", "label_column"), ("classify", "labels", "regress", "pairs", "tokens", "choice")),
    "second_column": ("classify", "labels", "regress", "pairs", "choice"),
    "label_separator": ("labels",),
    "long_texts": ("classify", "labels", "regress"),
}


@dataclasses.dataclass(frozen=True)
class FinetuningConfig:
    """Fine-tune a BERT on labelled texts.

    Files of texts are CSV, TSV or JSON lines with the columns text (text_b) and label, or one of GLUE's folders; of
    tagged words CoNLL's columns or JSON lines with tokens and tags; of choices the columns text and choices (or
    choice0, choice1, …); of questions SQuAD's JSON.

    Writes into --out a directory that Hugging Face opens (config.json, vocab.txt, tokenizer.json,
    tokenizer_config.json, model.safetensors), metrics.jsonl, eval.json, report.png and tensorboard/; `funcnet predict`
    and `funcnet evaluate` read it.

    Exit codes: 0 finished; 2 something in the arguments, the files or on the disk is wrong (a line says what);
    130 after Ctrl-C and 143 after SIGTERM: a checkpoint was saved where a step had been made, go on with --resume.
    """

    task: tyro.conf.Positional[Kind]
    """classify: a class for a text; labels: any number of labels for a text; regress: a number for a text or a pair;
    pairs: a class for two texts; tokens: a tag for each word; choice: the text that continues best; answer: the place
    in a text where the answer to a question is"""
    model: Path
    """directory of the BERT to start from"""
    train: Path
    """training file, or one of GLUE's folders"""
    out: Path
    """directory of the run"""
    resume: bool = False
    """go on with the run in --out; settings that are left out are as they were, and others are refused"""

    validation: Path | None = None
    """file to choose the best model by; of a GLUE folder its dev file"""
    split: float = 0.1
    """without --validation: share of the training examples kept for it, copies of a text on one side; 0: none, then
    the last model is kept"""
    test: Path | None = None
    """file that the kept model is measured on at the end"""

    text_column: str | None = None
    """name of the texts' column: text (of tagged words tokens)"""
    second_column: str | None = None
    """name of the second texts' column: text_b"""
    label_column: str | None = None
    """name of the labels' column: label (of tagged words tags)"""
    label_separator: str | None = None
    """labels: the sign between the labels of one text; JSON lines have lists"""

    seq_len: int = 128
    """tokens a text, [CLS] and [SEP] included; longer texts are cut, contexts of questions read in windows"""
    long_texts: Literal["cut", "parts"] = "cut"
    """classify, labels, regress: longer texts are cut, or read whole in parts of equal length, whose logits are
    averaged"""
    doc_stride: int = 128
    """answer: tokens from one window to the next"""
    max_answer: int = 30
    """answer: tokens of the longest one"""
    n_best: int = 20
    """answer: how many are told"""
    null_threshold: float = 0.0
    """answer: how much more than the best answer "no answer" must score"""

    epochs: float = 3.0
    """times that the training examples are seen"""
    batch_size: Annotated[int, tyro.conf.arg(metavar="N")] = 32
    """rows an update, over all devices and micro-batches"""
    accumulate: int = 1
    """micro-batches an update"""
    learning_rate: float | None = None
    """its peak; without it 5e-5 for a width of 768, more for narrower models (5e-5 x 768 / width, at most 2e-4)"""
    warmup: float = 0.1
    """share of the steps in which the rate rises; then it falls linearly to 0"""
    layer_decay: float = 1.0
    """factor of the rate from each layer to the one below it; 1: all alike"""
    freeze: tuple[str, ...] = ()
    """patterns of parameters that stay as they are, such as bert.embeddings bert.encoder.layer.0 'bert.**.LayerNorm'"""
    weight_decay: float = 0.01
    """of weights, not of biases and LayerNorm"""
    dropout: float | None = None
    """of hidden states and attention; without it as the model's config says"""
    precision: Literal["float32", "bfloat16"] = "float32"
    """of matrix products; parameters and sums are float32 either way"""
    seed: int = 0
    """of the head, the order, dropout and the split"""
    seeds: int = 1
    """runs, each with the next seed; their mean and spread go into eval.json, the best one's model into --out"""
    devices: int | None = None
    """how many; on a CPU as many virtual ones; without it all GPUs or TPUs, or one CPU"""

    evaluations: int = 1
    """looks at the validation examples in each epoch; the best model so far is kept"""
    patience: int = 0
    """evaluations without a better one after which a run ends; 0: never"""
    metric: str | None = None
    """figure that tells the best: accuracy (GLUE's own of a GLUE folder; f1 of entities and answers; pearson), or any
    other of eval.json"""
    buckets: int = 4
    """lengths that rows are padded to; as many programs are compiled"""
    log_every: int = 10
    """steps from one line of metrics to the next"""

    def check(self) -> None:
        """Refuses, before anything is read or written, what no run can be made of.

        Raises:
            ValueError: names the flag, what it may be, and what it is.
        """
        at_least_1 = [
            *("batch_size", "accumulate", "devices", "log_every", "seeds", "evaluations", "buckets"),
            *("doc_stride", "max_answer", "n_best"),
        ]
        ranges: dict[str, tuple[float, float, str]] = dict.fromkeys(at_least_1, (1, math.inf, "at least 1"))
        ranges |= dict.fromkeys(("dropout", "warmup", "split"), (0, 1 - 1e-9, "from 0 to below 1"))
        ranges |= {
            "epochs": (1e-9, math.inf, "above 0"),
            "layer_decay": (1e-9, 1, "above 0 and at most 1"),
            "learning_rate": (0, math.inf, "at least 0"),
            "weight_decay": (0, math.inf, "at least 0"),
            "patience": (0, math.inf, "at least 0 (0: never)"),
            "seed": (0, 2**62, "0 to 2**62"),
        }
        for name, (low, high, expected) in ranges.items():
            value = getattr(self, name)
            if value is not None and not low <= value <= high:
                raise ValueError(f"finetune: --{name.replace('_', '-')}; expected {expected}, got {value}.")
        defaults = {field.name: field.default for field in dataclasses.fields(self)}
        for name, tasks in ONLY_FOR.items():
            if self.task not in tasks and getattr(self, name) != defaults[name]:
                raise ValueError(
                    f"finetune: --{name.replace('_', '-')}; expected it with {' or '.join(tasks)} only, got the task "
                    f"{self.task}. Leave it out."
                )

    def recorded(self) -> dict[str, Any]:
        """What run.json holds: all but where the run lies."""
        values = dataclasses.asdict(self)
        for name in ("out", "resume"):
            values.pop(name)
        return {name: str(value) if isinstance(value, Path) else value for name, value in values.items()}
