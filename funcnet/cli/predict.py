"""`funcnet predict` and `funcnet evaluate`: a fine-tuned model on a file."""

import dataclasses
from pathlib import Path
from typing import Annotated

import tyro

from funcnet.files import require_folder, require_other
from funcnet.settings import Range, check_ranges

__all__ = ["Evaluate", "Predict", "run_evaluate", "run_predict"]


@dataclasses.dataclass(frozen=True)
class PredictionSettings:
    """How a file is read by a fine-tuned model."""

    batch_size: Annotated[int, Range(1)] = 32
    """Texts per batch."""
    null_threshold: float | None = None
    """answer: by how much "no answer" must outscore the best answer to be given; the default is the value of the
    training."""


@dataclasses.dataclass(frozen=True)
class Predict:
    """Write the answers of a fine-tuned model for the texts in a file.

    Writes one JSON object per text, with probabilities; answers come with the n best. See `funcnet finetune`.
    """

    directory: tyro.conf.Positional[Path]
    """Run of `funcnet finetune`, or a Hugging Face directory with a fine-tuned BERT."""
    file: tyro.conf.Positional[Path]
    """Texts in the form that the model was trained on, with labels or without; or plain lines of text (.txt), of which
    empty ones are skipped. A model that tags words splits such lines at spaces and punctuation."""
    out: Path | None = None
    """File to write: JSON lines, or a table if its suffix is .csv. The default is standard output."""
    options: PredictionSettings = PredictionSettings()


@dataclasses.dataclass(frozen=True)
class Evaluate:
    """Measure a fine-tuned model on a labelled file, and print the metrics of its task as JSON."""

    directory: tyro.conf.Positional[Path]
    """Run of `funcnet finetune`, or a Hugging Face directory with a fine-tuned BERT."""
    file: tyro.conf.Positional[Path]
    """Labelled texts in the form that the model was trained on."""
    out: Path | None = None
    """File to write the metrics to."""
    options: PredictionSettings = PredictionSettings()


def run_predict(arguments: Predict) -> int:
    """Runs `funcnet predict`; returns the exit code."""
    from funcnet.tasks.finetuning.predict import predict, write_predictions

    _check(arguments, "predict")
    predictions, _ = predict(arguments.directory, arguments.file, **dataclasses.asdict(arguments.options))
    write_predictions(predictions, arguments.out)
    return 0


def run_evaluate(arguments: Evaluate) -> int:
    """Runs `funcnet evaluate`; returns the exit code."""
    from funcnet.tasks.finetuning.predict import evaluate, write_figures

    _check(arguments, "evaluate")
    figures = evaluate(arguments.directory, arguments.file, **dataclasses.asdict(arguments.options))
    write_figures(figures, arguments.out)
    return 0


def _check(arguments: Predict | Evaluate, command: str) -> None:
    check_ranges(arguments, command)
    if arguments.out is not None:
        require_folder(arguments.out, f"{command}: --out")
        require_other(arguments.out, [arguments.file], f"{command}: --out")
