"""Means of metrics: of one step from its sums and counts, and of the steps since the last line of the log."""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

__all__ = ["RunningMeans", "means", "share"]

LATEST = ("learning_rate",)  # metrics of which the log shows the last value and not the mean


def share(total: Any, count: Any, maximum: Callable[..., Any] = jnp.maximum) -> Any:
    """Return `total / count`, or `total` if the count is 0.

    Args:
        total: scalar, the sum.
        count: scalar, the number of summed elements.
        maximum: `jnp.maximum` or `np.maximum`, for arrays on a device or on the host.
    """
    return total / maximum(count, 1).astype(total.dtype)


def means(sums: Any, totals: Any, maximum: Callable[..., Any] = jnp.maximum) -> dict[str, Any]:
    """Return `{"loss": sum of the terms' losses, "{term}_{metric}": mean}`.

    Args:
        sums: {term: {metric: sum}}. If there is only one term, its name may be "". Its metrics then have no prefix.
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
    """The means of the metrics since the last line of the log, in float64 on the host.

    Args:
        record: the result of `record` in an earlier process, which the means continue. None starts with no steps.

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
        self._added: dict[str, Any] | None = None if record is None else _wide(record["added"])
        self._steps: int = 0 if record is None else record["steps"]

    def add(self, metrics: Mapping[str, Any]) -> dict[str, float]:
        """Add the metrics of a step.

        Args:
            metrics: the metrics that a step returned. `sums` and `counts`, if there are any, are added separately, so
                that their means are weighted by the counts. Every other metric is a scalar.

        Returns:
            {name: value} of this step alone.
        """
        values = _wide(jax.device_get(dict(metrics)))
        if self._added is None:
            self._added = values
        else:
            latest = {name: values[name] for name in LATEST if name in values}
            self._added = jax.tree.map(np.add, self._added, values) | latest
        self._steps += 1
        return _values(values, 1)

    def take(self) -> dict[str, float]:
        """Return {name: mean} of the steps since the last call."""
        assert self._added is not None
        values = _values(self._added, self._steps)
        self._added, self._steps = None, 0
        return values

    def record(self) -> dict[str, Any] | None:
        """Return the steps that `take` has not returned yet, as JSON, or None if there are none."""
        return None if self._added is None else {"added": jax.tree.map(float, self._added), "steps": self._steps}


def _wide(metrics: Any) -> Any:
    return jax.tree.map(np.float64, metrics)


def _values(added: Mapping[str, Any], steps: int) -> dict[str, float]:
    of_terms = means(added["sums"], added["counts"], np.maximum) if "sums" in added else {}
    others = {
        name: value if name in LATEST else value / steps
        for name, value in added.items()
        if name not in ("sums", "counts")
    }
    return {name: float(value) for name, value in {**of_terms, **others}.items()}
