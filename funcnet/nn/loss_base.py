"""What the loss modules share."""

from typing import Any

import jax.numpy as jnp

from funcnet.functional import checks
from funcnet.nn.core.checked import IndexRange
from funcnet.nn.core.module import Module

__all__ = ["Loss", "WeightedLoss", "class_range"]


class Loss(Module):
    """A module with a `reduction`, from torch's old names `size_average` and `reduce` where they are given."""

    def __init__(self, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean"):
        super().__init__()
        # The warning about the old names points at the line that creates the layer: one frame up for each constructor.
        builders = sum("__init__" in vars(kind) for kind in type(self).__mro__ if issubclass(kind, Loss))
        self.reduction = checks.reduction_name(type(self).__name__, reduction, size_average, reduce, 2 + builders)


class WeightedLoss(Loss):
    """A loss with a buffer `weight`, or None."""

    def __init__(
        self,
        weight: Any = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ):
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)


def class_range(inputs: tuple[Any, ...], ignored: int | None = None) -> IndexRange | None:
    """What `nn.checked` checks of a loss's arguments: the targets, where they are classes and not probabilities."""
    if len(inputs) < 2:  # a subclass with arguments of its own
        return None
    input, target = map(jnp.asarray, inputs[:2])
    if not jnp.issubdtype(target.dtype, jnp.integer):
        return None
    return IndexRange("target", target, input.shape[0 if input.ndim == 1 else 1], ignored)
