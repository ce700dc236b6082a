"""The best evaluation of a run so far, and early stopping."""

from collections.abc import Mapping, Sequence
from typing import Any

from funcnet.train.task import Best

__all__ = ["BestModel", "goodness"]


class BestModel:
    """Compares the evaluations of a run. A resumed run starts with the evaluations in metrics.jsonl (`rows`). Rows
    after its `step` are ignored, because the run repeats them.

    >>> best = BestModel(Best("accuracy", patience=1), [], 0)
    >>> best.update({"accuracy": 0.5, "loss": 1.0}), best.update({"accuracy": 0.5, "loss": 2.0}), best.should_stop()
    (True, False, True)
    """

    def __init__(self, best: Best, rows: Sequence[Mapping[str, Any]], step: int):
        self.best = best
        evaluated = [row for row in rows if row["step"] <= step and f"eval_{best.metric}" in row]
        self._history = [goodness(best, row, "eval_") for row in evaluated]

    def update(self, figures: Mapping[str, float]) -> bool:
        """Add an evaluation (values without the prefix `eval_`). Return whether it is better than all earlier ones."""
        found = goodness(self.best, figures)
        is_better = not self._history or found > max(self._history)
        self._history.append(found)
        return is_better

    def should_stop(self) -> bool:
        """Return whether the metric has not improved for `patience` evaluations. A lower loss does not count as an
        improvement.
        """
        figures = [figure for figure, _ in self._history]
        patience = self.best.patience
        return bool(patience and figures) and len(figures) - 1 - figures.index(max(figures)) >= patience


def goodness(best: Best, figures: Mapping[str, float], prefix: str = "") -> tuple[float, float]:
    """Return a sort key for evaluations: the metric, then the negative loss. A larger key is better. The names of the
    values begin with `prefix`.
    """
    value, loss = figures[prefix + best.metric], figures.get(f"{prefix}loss", 0.0)
    return value if best.largest else -value, -loss
