"""Means of metrics over the elements of one step, and over all steps since the last line of the log."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from funcnet.tree import PyTree

__all__ = ["RunningMeans", "means", "share"]

LATEST = ("learning_rate",)  # metrics whose last value is logged instead of their mean


def share(total: Any, count: Any, maximum: Callable[..., Any] = jnp.maximum) -> Any:
    """Return `total / count`, or `total` if the count is 0.

    Args:
        total: scalar, the sum.
        count: scalar, the number of summed elements.
        maximum: `jnp.maximum` for arrays on a device, or `np.maximum` for arrays on the host.
    """
    return total / maximum(count, 1).astype(total.dtype)


def means(
    sums: Mapping[str, Mapping[str, Any]], totals: Mapping[str, Any], maximum: Callable[..., Any] = jnp.maximum
) -> dict[str, Any]:
    """Return the mean metrics of a step, `{"loss": sum of the terms' losses, "{term}_{metric}": mean}`.

    Args:
        sums: {term: {metric: sum}}. If there is only one term, its name may be "". The names of the metrics then have
            no prefix.
        totals: {term: count}.
        maximum: see `share`.

    Example:
        >>> means({"fit": {"loss": np.float32(6)}}, {"fit": np.float32(3)}, np.maximum)
        {'loss': np.float32(2.0), 'fit_loss': np.float32(2.0)}
    """
    shares = {
        (term, metric): share(value, totals[term], maximum)
        for term, terms in sums.items()
        for metric, value in terms.items()
    }
    named = {f"{term}_{metric}" if term else metric: value for (term, metric), value in shares.items()}
    return {"loss": sum(shares[term, "loss"] for term in sums), **named}


class RunningMeans:
    """The means of the metrics since the last line of the log, in float64 on the host. Skipped steps, and steps whose
    loss is not finite, are counted, but their metrics do not enter the means.

    Args:
        record: the result of the method `record` in an earlier process of the run, from which the means continue. With
            None, the means start without any steps.

    Attributes:
        has_steps: whether there are steps whose means `take` has not returned yet.

    Example:
        >>> def metrics(total, count):
        ...     return {"sums": {"fit": {"loss": total}}, "counts": {"fit": count}, "grad_norm": count}
        >>> running = RunningMeans()
        >>> _ = running.add(metrics(6.0, 3.0))
        >>> running = RunningMeans(running.record())  # a run that is resumed
        >>> running.add(metrics(1.0, 1.0))
        {'loss': 1.0, 'fit_loss': 1.0, 'grad_norm': 1.0}
        >>> running.take(), running.record()
        ({'loss': 1.75, 'fit_loss': 1.75, 'grad_norm': 2.0}, None)
    """

    def __init__(self, record: Mapping[str, Any] | None = None):
        record = record or {"added": None, "steps": 0}
        self._added: dict[str, Any] | None = None if record["added"] is None else _wide(record["added"])
        self._steps: int = record["steps"]
        self._skipped: int = record.get("skipped", 0)  # steps
        self._nonfinite: int = record.get("nonfinite", 0)  # steps that were not skipped

    @property
    def has_steps(self) -> bool:
        return bool(self._steps or self._skipped or self._nonfinite)

    def add(self, metrics: Mapping[str, Any]) -> dict[str, float]:
        """Add the metrics of a step.

        Args:
            metrics: the metrics that a step returned. `sums` and `counts`, if there are any, are added separately, so
                that their means are weighted by the counts. Every metric except `sums` and `counts` is a scalar. If
                `skipped` is 1, or the loss is not finite, the step is only counted.

        Returns:
            {name: value}, the metrics of this step alone, not averaged over earlier steps.
        """
        values = _wide(jax.device_get(dict(metrics)))
        own = _values(values, 1)
        if values.pop("skipped", 0):
            self._skipped += 1
            return own
        if not math.isfinite(own.get("loss", 0.0)):
            self._nonfinite += 1
            return own
        if self._added is None:
            self._added = values
        else:
            latest = {name: values[name] for name in LATEST if name in values}
            self._added = jax.tree.map(np.add, self._added, values) | latest
        self._steps += 1
        return own

    def take(self) -> dict[str, float]:
        """Return {name: mean of the metric} over the steps since the last call of this method. If steps were skipped,
        the dict also has their number under the name `skipped_steps`. `nonfinite_steps` is the number of other steps
        whose loss was not finite.
        """
        values = {} if self._added is None else _values(self._added, self._steps)
        counts = {f"{name}_steps": float(count) for name, count in self._counts().items()}
        self._added, self._steps, self._skipped, self._nonfinite = None, 0, 0, 0
        return {**values, **counts}

    def record(self) -> dict[str, Any] | None:
        """Return the sums of the metrics over the steps since the last call of `take`, as JSON. Return None if there
        are no such steps.
        """
        if not self.has_steps:
            return None
        added = None if self._added is None else jax.tree.map(float, self._added)
        return {"added": added, "steps": self._steps, **self._counts()}

    def _counts(self) -> dict[str, int]:
        counts = {"skipped": self._skipped, "nonfinite": self._nonfinite}
        return {name: count for name, count in counts.items() if count}


def _wide(metrics: PyTree) -> Any:
    return jax.tree.map(np.float64, metrics)


def _values(added: Mapping[str, Any], steps: int) -> dict[str, float]:
    of_terms = means(added["sums"], added["counts"], np.maximum) if "sums" in added else {}
    others = {
        name: value if name in LATEST else value / steps
        for name, value in added.items()
        if name not in ("sums", "counts")
    }
    return {name: float(value) for name, value in {**of_terms, **others}.items()}
