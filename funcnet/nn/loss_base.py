"""Base classes of the loss modules."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from funcnet.functional import checks
from funcnet.nn.inspection.checked import IndexRange
from funcnet.nn.module.module import Module

__all__ = ["Loss", "WeightedLoss", "class_range"]


class Loss(Module):
    """Base class of all losses. It sets `reduction` from torch's arguments `size_average`, `reduce` and `reduction`."""

    def __init__(self, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean"):
        super().__init__()
        # The DeprecationWarning points at the line that creates the loss. Each constructor in between adds one frame.
        builders = sum("__init__" in vars(kind) for kind in type(self).__mro__ if issubclass(kind, Loss))
        self.reduction = checks.reduction_name(type(self).__name__, reduction, size_average, reduce, 2 + builders)


class WeightedLoss(Loss):
    """Base class of losses with a buffer `weight`, which may be None."""

    def __init__(
        self,
        weight: jax.Array | np.ndarray | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ):
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)


def class_range(inputs: tuple[Any, ...], ignored: int | None = None) -> IndexRange | None:
    """Return the target classes and the range that they must lie in, so that `nn.checked` can check them. Return None
    if the targets are probabilities or missing.
    """
    if len(inputs) < 2:  # in a subclass whose forward takes other arguments
        return None
    input, target = map(jnp.asarray, inputs[:2])
    if not jnp.issubdtype(target.dtype, jnp.integer):
        return None
    return IndexRange("target", target, input.shape[0 if input.ndim == 1 else 1], ignored)
