"""What the loss modules share."""

from typing import Any

from funcnet.functional import checks
from funcnet.nn.core.module import Module

__all__ = ["Loss", "WeightedLoss"]


class Loss(Module):
    """A module with a `reduction`, from torch's old names `size_average` and `reduce` where they are given."""

    def __init__(self, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean"):
        super().__init__()
        # The warning of the old names points at the line that builds the layer: a frame up for every constructor.
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
