"""The pictures of a fine-tuning run's report.png, and a word about a model that has learnt nothing."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from funcnet.tasks.finetuning.data import Part
from funcnet.tasks.finetuning.metrics import confusion
from funcnet.tasks.finetuning.task import Task
from funcnet.tasks.finetuning.text_task import TextTask
from funcnet.train import Matrix, Panel

__all__ = ["panels", "tell_constant"]


def panels(
    task: Task,
    metric: str,
    values: Mapping[str, float],
    shown: tuple[Part, Sequence[Mapping[str, Any]]] | None,
) -> list[Panel | Matrix]:
    """Loss, the figure that tells the best, rate and throughput; of one class a text, what is taken for what.

    Args:
        metric: its name.
        values: of eval.json; the test figure is drawn across.
        shown: (a part, the predictions for it).
    """
    tested = {"test": values[f"test_{metric}"]} if f"test_{metric}" in values else {}
    term = "label" if isinstance(task, TextTask) else "tag" if task.name == "tokens" else "choice"
    curves = {"validation": f"eval_{metric}"}
    if metric == "accuracy":
        curves = {"training": f"{term}_accuracy", **curves}
    found: list[Panel | Matrix] = [
        Panel("Loss", "nats", {"training": "loss", "validation": "eval_loss"}),
        Panel(metric, "", curves, lines=tested),
        Panel("Learning rate", "", {"rate": "learning_rate"}, smooth=False, from_zero=True),
        Panel("Throughput", "tokens/s", {"real tokens": "tokens_per_second"}, from_zero=True),
    ]
    if isinstance(task, TextTask) and task.labels and not task.several and shown is not None and shown[1]:
        part, predictions = shown
        known = {name: number for number, name in enumerate(task.labels)}
        true, guessed = (np.array([known[name] for name in names]) for names in _names(part, predictions))
        found.append(Matrix("Classes", task.labels, confusion(true, guessed, len(task.labels))))
    return found


def tell_constant(part: Part, predictions: Sequence[Mapping[str, Any]]) -> str | None:
    """What to say of a model that says the same class of every text, where not all are of one; None of any other.

    Args:
        part: the examples.
        predictions: for them, of any task.

    Example:
        >>> from funcnet.tasks.finetuning.examples import TextExample
        >>> part = Part([TextExample("fine", None, "good", ""), TextExample("awful", None, "bad", "")], None)
        >>> tell_constant(part, [{"label": "good"}, {"label": "good"}])
        "The model says 'good' of all 2 texts that it was measured on: it has not learnt to tell them apart. ..."
        >>> tell_constant(part, [{"label": "good"}, {"label": "bad"}])
    """
    if not predictions or not isinstance(predictions[0].get("label"), str):
        return None
    true, guessed = map(set, _names(part, predictions))
    if len(guessed) > 1 or len(true) == 1:
        return None
    return (
        f"The model says {predictions[0]['label']!r} of all {len(predictions):,} texts that it was measured on: it has "
        "not learnt to tell them apart. Train longer (--epochs 15), or at another rate (--learning-rate: 2e-5 to 5e-5 "
        "for base and large, up to 2e-4 for small models)."
    )


def _names(part: Part, predictions: Sequence[Mapping[str, Any]]) -> tuple[list[str], list[str]]:
    return [example.label for example in part.examples], [prediction["label"] for prediction in predictions]
