"""The best evaluation of a run so far, and early stopping."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from funcnet.train.task_interface import Best

__all__ = ["BestModel", "goodness"]


class BestModel:
    """Compares the evaluations of a run to find the best one.

    For a resumed run, `rows` are the rows of metrics.jsonl, and `step` is the step after which the run continues. Rows
    of steps after `step` are ignored, because the run repeats these steps.

    >>> best = BestModel(Best("accuracy", patience=1), [], 0)
    >>> best.update({"accuracy": 0.5, "loss": 1.0}), best.update({"accuracy": 0.5, "loss": 2.0}), best.should_stop()
    (True, False, True)
    """

    def __init__(self, best: Best, rows: Sequence[Mapping[str, Any]], step: int):
        self.best = best
        evaluated = [row for row in rows if row["step"] <= step and f"eval_{best.metric}" in row]
        self._history = [goodness(best, row, "eval_") for row in evaluated]

    def update(self, figures: Mapping[str, float]) -> bool:
        """Add an evaluation, {metric without `eval_`: value}. Return whether this evaluation is better than all earlier
        evaluations of the run.
        """
        found = goodness(self.best, figures)
        is_better = not self._history or found > max(self._history)
        self._history.append(found)
        return is_better

    def should_stop(self) -> bool:
        """Return whether none of the last `patience` evaluations has improved the metric. A lower loss does not count
        as an improvement. With a `patience` of 0, return False.
        """
        figures = [figure for figure, _ in self._history]
        patience = self.best.patience
        return bool(patience and figures) and len(figures) - 1 - figures.index(max(figures)) >= patience


def goodness(best: Best, figures: Mapping[str, float], prefix: str = "") -> tuple[float, float]:
    """Return a sort key for evaluations. A larger key is better.

    The key is (metric, -loss), or (-metric, -loss) if a smaller value of the metric is better. NaN is worse than every
    number. All names in `figures` begin with `prefix`.

    Raises:
        ValueError: if the metric of `best` is missing.

    >>> goodness(Best("accuracy"), {"accuracy": 0.5, "loss": float("nan")})
    (0.5, -inf)
    """
    name = prefix + best.metric
    if name not in figures:
        known = ", ".join(figures)
        raise ValueError(f"train.Best: metric is unknown; expected one of {known}, got {name!r}.")
    value, loss = figures[name], figures.get(f"{prefix}loss", 0.0)
    keys = (value if best.largest else -value, -loss)
    return (-math.inf if math.isnan(keys[0]) else keys[0], -math.inf if math.isnan(keys[1]) else keys[1])
