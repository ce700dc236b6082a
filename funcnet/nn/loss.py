"""Losses as modules, as in torch/nn/modules/loss.py. Letters: `B batch, C classes, S further dimensions`.

`reduction` is 'mean', 'sum' or 'none' in all of them. `size_average` and `reduce` are torch's older way to say it, and
draw a DeprecationWarning.
"""

from typing import Any

import jax

from funcnet import functional as F
from funcnet.functional import checks
from funcnet.nn.module import Module

__all__ = ["BCEWithLogitsLoss", "CrossEntropyLoss", "MSELoss", "NLLLoss"]


class _Loss(Module):
    def __init__(self, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean"):
        super().__init__()
        inherited = type(self).__init__ is _Loss.__init__
        level = 3 if inherited else 4  # the warning of the old names points at the line that builds the layer
        self.reduction = checks.reduction_name(type(self).__name__, reduction, size_average, reduce, level)


class CrossEntropyLoss(_Loss):
    """-log softmax(input)[target]: the loss of logits against classes, or against probabilities of classes.

    Args:
        weight: (C,), how much each class counts.
        size_average: see the file's head.
        ignore_index: targets of this value count nothing.
        reduce: see the file's head.
        reduction: 'mean' divides by the sum of the kept targets' weights.
        label_smoothing: the share of the target spread evenly over the classes.

    State: weight, where given.
    Call: (B, C, *S), and integers (B, *S) or probabilities (B, C, *S) -> (), or (B, *S) with 'none'; (C,) and ()
        without B.

    Example:
        >>> import jax.numpy as jnp
        >>> from funcnet import nn
        >>> nn.CrossEntropyLoss().apply({}, {}, jnp.zeros((2, 4)), jnp.array([1, 3]))[0].round(3)
        Array(1.386, dtype=float32)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.CrossEntropyLoss.html
    """

    def __init__(
        self,
        weight: Any = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ):
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)
        self.ignore_index, self.label_smoothing = ignore_index, label_smoothing

    def forward(self, input: jax.Array, target: jax.Array) -> jax.Array:
        return F.cross_entropy(
            input,
            target,
            weight=self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
            label_smoothing=self.label_smoothing,
        )


class NLLLoss(_Loss):
    """-input[target]: the loss of log-probabilities against classes.

    Args:
        weight: (C,), how much each class counts.
        size_average: see the file's head.
        ignore_index: targets of this value count nothing.
        reduce: see the file's head.
        reduction: 'mean' divides by the sum of the kept targets' weights.

    State: weight, where given.
    Call: (B, C, *S) and integers (B, *S) -> (), or (B, *S) with 'none'.

    Example:
        >>> import jax.numpy as jnp
        >>> from funcnet import nn
        >>> nn.NLLLoss().apply({}, {}, jnp.array([[-1.0, -2.0], [-3.0, -4.0]]), jnp.array([0, 1]))[0]
        Array(2.5, dtype=float32)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.NLLLoss.html
    """

    def __init__(
        self,
        weight: Any = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
    ):
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)
        self.ignore_index = ignore_index

    def forward(self, input: jax.Array, target: jax.Array) -> jax.Array:
        return F.nll_loss(input, target, weight=self.weight, ignore_index=self.ignore_index, reduction=self.reduction)


class MSELoss(_Loss):
    """(input - target)².

    Args:
        size_average, reduce: see the file's head.
        reduction: 'mean' divides by the number of elements.

    Call: (*) and (*) -> (), or (*) with 'none'.

    Example:
        >>> import jax.numpy as jnp
        >>> from funcnet import nn
        >>> nn.MSELoss().apply({}, {}, jnp.array([1.0, 3.0]), jnp.array([1.0, 1.0]))[0]
        Array(2., dtype=float32)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.MSELoss.html
    """

    def forward(self, input: jax.Array, target: jax.Array) -> jax.Array:
        return F.mse_loss(input, target, reduction=self.reduction)


class BCEWithLogitsLoss(_Loss):
    """-(target · log σ(input) + (1 - target) · log(1 - σ(input))), without over- or underflow.

    Args:
        weight: broadcasts to the input; how much each element counts.
        size_average, reduce: see the file's head.
        reduction: 'mean' divides by the number of elements.
        pos_weight: broadcasts to the input; how much the first of the two terms counts.

    State: weight, pos_weight, where given.
    Call: (*) and (*) in [0, 1] -> (), or (*) with 'none'.

    Example:
        >>> import jax.numpy as jnp
        >>> from funcnet import nn
        >>> nn.BCEWithLogitsLoss().apply({}, {}, jnp.zeros(3), jnp.array([0.0, 1.0, 1.0]))[0].round(3)
        Array(0.693, dtype=float32)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.BCEWithLogitsLoss.html
    """

    def __init__(
        self,
        weight: Any = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        pos_weight: Any = None,
    ):
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)
        self.register_buffer("pos_weight", pos_weight)

    def forward(self, input: jax.Array, target: jax.Array) -> jax.Array:
        return F.binary_cross_entropy_with_logits(
            input, target, self.weight, reduction=self.reduction, pos_weight=self.pos_weight
        )
