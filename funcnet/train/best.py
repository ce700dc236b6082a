"""Which evaluation of a run was the best so far, and whether the run has gone on long enough since."""

from collections.abc import Mapping, Sequence
from typing import Any

from funcnet.train.task import Best

__all__ = ["BestModel", "goodness"]


class BestModel:
    """Compares evaluations; a resumed run begins with those that metrics.jsonl holds.

    Args:
        best: what decides.
        rows: of metrics.jsonl.
        step: rows of later steps do not count: the run repeats them.

    Example:
        >>> best = BestModel(Best("accuracy", patience=1), [], 0)
        >>> best.takes({"accuracy": 0.5, "loss": 1.0}), best.takes({"accuracy": 0.5, "loss": 2.0}), best.is_enough()
        (True, False, True)
    """

    def __init__(self, best: Best, rows: Sequence[Mapping[str, Any]], step: int):
        self.best = best
        evaluated = [row for row in rows if row["step"] <= step and f"eval_{best.metric}" in row]
        self._history = [goodness(best, row, "eval_") for row in evaluated]

    def takes(self, figures: Mapping[str, float]) -> bool:
        """Whether an evaluation is better than all before it; from now on it is one of those."""
        found = goodness(self.best, figures)
        is_better = not self._history or found > max(self._history)
        self._history.append(found)
        return is_better

    def is_enough(self) -> bool:
        """Whether the best figure is `patience` evaluations ago; a lower loss alone does not count here."""
        figures = [figure for figure, _ in self._history]
        patience = self.best.patience
        return bool(patience and figures) and len(figures) - 1 - figures.index(max(figures)) >= patience


def goodness(best: Best, figures: Mapping[str, float], prefix: str = "") -> tuple[float, float]:
    """What makes evaluations comparable, larger is better: the figure, then the loss with its sign changed.

    >>> goodness(Best("accuracy"), {"eval_accuracy": 1.0, "eval_loss": 0.25}, "eval_")
    (1.0, -0.25)
    """
    value, loss = figures[prefix + best.metric], figures.get(f"{prefix}loss", 0.0)
    return value if best.largest else -value, -loss
