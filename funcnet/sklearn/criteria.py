"""Loss functions of the user, with one loss for each row."""

import copy
import functools
from collections.abc import Callable, Mapping
from typing import Any

import jax

from funcnet import nn

__all__ = ["EarlyStopping", "by_row"]


@functools.lru_cache(maxsize=64)
def by_row(criterion: Any) -> Callable[[jax.Array, jax.Array], jax.Array]:
    """Return a function of (outputs, targets) that computes one loss for each row.

    Args:
        criterion: such a function, or a loss of `funcnet.nn`, a class or an instance, which is used with
            `reduction="none"`.

    Example:
        >>> import jax.numpy as jnp
        >>> by_row(nn.L1Loss)(jnp.ones((2, 3)), jnp.zeros((2, 3)))
        Array([1., 1.], dtype=float32)
    """
    if isinstance(criterion, type) and issubclass(criterion, nn.Module):
        criterion = criterion()
    if isinstance(criterion, nn.Module):
        net = copy.deepcopy(criterion)
        net.reduction = "none"
        criterion = lambda outputs, targets: net.apply(*net.init(jax.random.key(0)), outputs, targets)[0]

    def losses(outputs: jax.Array, targets: jax.Array) -> jax.Array:
        if outputs.shape != targets.shape and outputs.size == targets.size:  # (B,) and (B, 1) would broadcast
            outputs, targets = outputs.reshape(targets.shape), targets.astype(outputs.dtype)
        found: jax.Array = criterion(outputs, targets)
        if found.shape not in (outputs.shape, outputs.shape[:1]):
            raise ValueError(
                f"criterion: the losses have the wrong shape; expected one for each row, got the shape "
                f"{found.shape} for {len(outputs)} rows. Use reduction='none'."
            )
        return found.reshape(len(found), -1).mean(1)

    return losses


class EarlyStopping:
    """A callback that ends the training when a loss has not improved for some epochs.

    Args:
        monitor: "valid_loss", for which the estimator must hold out rows, or "train_loss".
        patience: number of epochs without an improvement.
        min_delta: a loss must be smaller than the best one by more than this number to be an improvement.

    Example:
        >>> stopping = EarlyStopping("train_loss", patience=2)
        >>> history = [{"train_loss": loss} for loss in (3.0, 2.0, 2.5, 2.1)]
        >>> stopping.ends(history[:3]), stopping.ends(history)
        (False, True)
    """

    def __init__(self, monitor: str = "valid_loss", patience: int = 10, min_delta: float = 0.0):
        self.monitor, self.patience, self.min_delta = monitor, patience, min_delta

    def __call__(self, estimator: Any, row: Mapping[str, Any]) -> bool:
        if self.monitor not in row:
            raise ValueError(
                f"EarlyStopping: {self.monitor!r} is not measured; expected one of {', '.join(row)}, got "
                f"{self.monitor!r}. Let the estimator hold out rows for valid_loss."
            )
        return self.ends(estimator.logged_[estimator.begun_ :])

    def ends(self, history: list[dict[str, Any]]) -> bool:
        """Return whether the training ends after these rows of `logged_`."""
        best, since = float("inf"), 0
        for row in history:
            is_better = row[self.monitor] < best - self.min_delta
            best, since = (row[self.monitor], 0) if is_better else (best, since + 1)
        return since >= self.patience
