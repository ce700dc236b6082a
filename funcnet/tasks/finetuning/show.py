"""The plots in report.png of a fine-tuning run, and a hint if the model has learned nothing."""

from collections.abc import Mapping

import numpy as np

from funcnet.heads import TrainedHead
from funcnet.heads.metrics import confusion
from funcnet.train import Matrix, Panel

__all__ = ["describe_constant", "finetuning_panels"]

Classes = tuple[list[str], list[str]]  # the true and the predicted class of all examples


def finetuning_panels(
    head: TrainedHead, metric: str, values: Mapping[str, float], classes: Classes | None
) -> list[Panel | Matrix]:
    """Return the plots of the loss, the metric, the learning rate, the throughput and, if there is one, the confusion
    matrix.

    Args:
        head: head with its labels.
        metric: name of the metric that chooses the best model.
        values: contents of eval.json. The test metric is drawn as a line.
        classes: true and predicted classes of the evaluated examples, see `TrainedHead.classes`.
    """
    tested = {"test": values[f"test_{metric}"]} if f"test_{metric}" in values else {}
    curves = {"validation": f"eval_{metric}"}
    if metric == "accuracy":
        curves = {"training": f"{head.term}_accuracy", **curves}
    found: list[Panel | Matrix] = [
        Panel("Loss", "nats", {"training": "loss", "validation": "eval_loss"}),
        Panel(metric, "", curves, lines=tested),
        Panel("Learning rate", "", {"rate": "learning_rate"}, smooth=False, from_zero=True),
        Panel("Throughput", "tokens/s", {"real tokens": "tokens_per_second"}, from_zero=True),
    ]
    if classes is not None and classes[0]:
        true, guessed = (np.array([head.labels.index(name) for name in names]) for names in classes)
        found.append(Matrix("Classes", head.labels, confusion(true, guessed, len(head.labels))))
    return found


def describe_constant(classes: Classes | None) -> str:
    """Return a hint for the user if the model predicts the same class for every text, otherwise an empty string.

    Example:
        >>> describe_constant((["good", "bad"], ["good", "good"]))
        "The model predicts 'good' for all 2 texts that it was measured on, so it has not learned to distinguish ..."
        >>> describe_constant((["good", "bad"], ["good", "bad"])), describe_constant(None)
        ('', '')
    """
    if not classes or not classes[1]:
        return ""
    true, guessed = map(set, classes)
    if len(guessed) > 1 or len(true) == 1:
        return ""
    return (
        f"The model predicts {classes[1][0]!r} for all {len(classes[1]):,} texts that it was measured on, so it has "
        "not learned to distinguish them. Train longer (--epochs 15), or with another --learning-rate (2e-5 to 5e-5 "
        "for base and large models, up to 2e-4 for small models)."
    )
