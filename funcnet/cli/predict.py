"""`funcnet predict` and `funcnet evaluate`: apply a fine-tuned model to a file."""

import dataclasses
from pathlib import Path
from typing import Annotated

import tyro

from funcnet.files import require_folder, require_other
from funcnet.settings import Range, check_ranges, with_helps

__all__ = ["Evaluate", "Predict", "run_evaluate", "run_predict"]


@with_helps
@dataclasses.dataclass(frozen=True)
class PredictionSettings:
    """Settings of `funcnet predict` and `funcnet evaluate`."""

    batch_size: Annotated[int, Range(1)] = 32
    """Number of texts per batch."""
    null_threshold: float | None = None
    """For the task "answer": the prediction is "no answer" if the score of "no answer" exceeds the score of the best
    answer by more than this margin. The default is the value found in training."""


@with_helps
@dataclasses.dataclass(frozen=True)
class Predict:
    """Predict the labels or answers of the texts in a file with a fine-tuned model.

    The command writes one JSON object per text, with probabilities. For the task "answer", the object also has the best
    answers. Their number is the --n-best with which `funcnet finetune` ran.
    """

    directory: tyro.conf.Positional[Path]
    """Output directory of `funcnet finetune`, its int8 model from `funcnet quantize`, or a Hugging Face directory with
    a fine-tuned BERT.
    """
    file: tyro.conf.Positional[Path]
    """File with texts in the same format as the training file, with or without labels, or with one text per line
    (.txt). Empty lines are skipped. If the model tags words, each line of text is split at spaces and punctuation."""
    out: Path | None = None
    """File to write. A name that ends in .csv gives a table; other names give JSON lines. The default is standard
    output."""
    options: PredictionSettings = PredictionSettings()


@with_helps
@dataclasses.dataclass(frozen=True)
class Evaluate:
    """Evaluate a fine-tuned model on a labelled file, and print the metrics of its task as JSON."""

    directory: tyro.conf.Positional[Path]
    """Output directory of `funcnet finetune`, its int8 model from `funcnet quantize`, or a Hugging Face directory with
    a fine-tuned BERT.
    """
    file: tyro.conf.Positional[Path]
    """File with labelled texts in the same format as the training file."""
    out: Path | None = None
    """File to which the metrics are written, in addition to standard output."""
    options: PredictionSettings = PredictionSettings()


def run_predict(arguments: Predict) -> int:
    """Run `funcnet predict`; return the exit code."""
    from funcnet.tasks.finetuning.predict import predict, write_predictions

    _check(arguments, "predict", (".csv", ".jsonl", ".ndjson", ".json"))
    predictions, _ = predict(arguments.directory, arguments.file, **dataclasses.asdict(arguments.options))
    write_predictions(predictions, arguments.out)
    return 0


def run_evaluate(arguments: Evaluate) -> int:
    """Run `funcnet evaluate`; return the exit code."""
    from funcnet.tasks.finetuning.predict import evaluate, write_figures

    _check(arguments, "evaluate", (".json",))
    figures = evaluate(arguments.directory, arguments.file, **dataclasses.asdict(arguments.options))
    write_figures(figures, arguments.out)
    return 0


def _check(arguments: Predict | Evaluate, command: str, suffixes: tuple[str, ...]) -> None:
    check_ranges(arguments, command)
    if arguments.out is not None:
        require_folder(arguments.out, f"{command}: --out")
        require_other(arguments.out, [arguments.file], f"{command}: --out")
        if arguments.out.suffix.lower() not in ("", *suffixes):
            raise ValueError(
                f"{command}: --out {arguments.out} has the wrong suffix; expected a name that ends in "
                f"{' or '.join(suffixes)}, got {arguments.out.suffix!r}."
            )
