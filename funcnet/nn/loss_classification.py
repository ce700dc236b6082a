"""Losses between scores and target classes or probabilities.

Letters: `B batch, C classes, S further dimensions`.
"""

import math
import warnings
from collections.abc import Sequence

import jax
import numpy as np
from jax.typing import ArrayLike, DTypeLike

from funcnet import functional as F
from funcnet.functional import checks
from funcnet.functional.linear_cross_entropy import LinearCrossEntropyOptions
from funcnet.nn.inspection.checked import IndexRange
from funcnet.nn.linear import Linear
from funcnet.nn.loss_base import Loss, WeightedLoss, class_range

__all__ = [
    "BCELoss",
    "BCEWithLogitsLoss",
    "CTCLoss",
    "CrossEntropyLoss",
    "LinearCrossEntropyLoss",
    "LinearCrossEntropyOptions",
    "NLLLoss",
    "NLLLoss2d",
]


class CrossEntropyLoss(WeightedLoss):
    """Cross-entropy `-log softmax(input)[target]` between logits and target classes or class probabilities.

    Args:
        weight: weight of each class, of shape (C,).
        size_average: deprecated; use `reduction`.
        ignore_index: target value to ignore. Targets of this value contribute neither to the loss nor to the divisor of
            the reduction 'mean'.
        reduce: deprecated; use `reduction`.
        reduction: 'mean', 'sum' or 'none'. For target classes, 'mean' divides the sum of the losses by the total weight
            of the targets that are not ignored.
        label_smoothing: fraction of the target's probability, from 0 to 1, that is spread evenly over all classes.

    State: weight, if given.
    Call: logits (B, C, *S), and target classes (B, *S) or target probabilities (B, C, *S) -> (), or (B, *S) with
        reduction='none'. Without a batch, the logits are (C,) and the target class is ().

    Example:
        >>> import jax.numpy as jnp
        >>> from funcnet import nn
        >>> nn.CrossEntropyLoss().apply({}, {}, jnp.zeros((2, 4)), jnp.array([1, 3]))[0].round(3)
        Array(1.386, dtype=float32)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.CrossEntropyLoss.html
    """

    def __init__(
        self,
        weight: jax.Array | np.ndarray | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ):
        super().__init__(weight, size_average, reduce, reduction)
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

    def index_range(self, *inputs: jax.Array) -> IndexRange | None:
        """Return the target classes and the range that they must lie in, so that `nn.checked` can check them."""
        return class_range(inputs, self.ignore_index)


class NLLLoss(WeightedLoss):
    """Negative log-likelihood `-input[target]` of target classes, given log-probabilities.

    Args:
        weight: weight of each class, of shape (C,).
        size_average: deprecated; use `reduction`.
        ignore_index: target value to ignore. Targets of this value contribute neither to the loss nor to the divisor of
            the reduction 'mean'.
        reduce: deprecated; use `reduction`.
        reduction: 'mean', 'sum' or 'none'. 'mean' divides the sum of the losses by the total weight of the targets that
            are not ignored.

    State: weight, if given.
    Call: log-probabilities (B, C, *S) and target classes (B, *S) -> (), or (B, *S) with reduction='none'.

    Example:
        >>> import jax.numpy as jnp
        >>> from funcnet import nn
        >>> nn.NLLLoss().apply({}, {}, jnp.array([[-1.0, -2.0], [-3.0, -4.0]]), jnp.array([0, 1]))[0]
        Array(2.5, dtype=float32)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.NLLLoss.html
    """

    def __init__(
        self,
        weight: jax.Array | np.ndarray | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
    ):
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index = ignore_index

    def forward(self, input: jax.Array, target: jax.Array) -> jax.Array:
        return F.nll_loss(input, target, weight=self.weight, ignore_index=self.ignore_index, reduction=self.reduction)

    def index_range(self, *inputs: jax.Array) -> IndexRange | None:
        """Return the target classes and the range that they must lie in, so that `nn.checked` can check them."""
        return class_range(inputs, self.ignore_index)


class NLLLoss2d(NLLLoss):
    """Deprecated name of `NLLLoss`. The constructor of NLLLoss2d emits a FutureWarning.

    Reference: torch.nn.NLLLoss2d.
    """

    def __init__(
        self,
        weight: jax.Array | np.ndarray | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
    ):
        warnings.warn("NLLLoss2d is deprecated. Use NLLLoss instead.", FutureWarning, stacklevel=2)
        super().__init__(weight, size_average, ignore_index, reduce, reduction)


class BCELoss(WeightedLoss):
    """Binary cross-entropy `-(target · log(input) + (1 - target) · log(1 - input))`.

    Logarithms below -100 are replaced by -100.

    Args:
        weight: weight of each element, broadcastable to the input's shape.
        size_average, reduce: deprecated; use `reduction`.
        reduction: 'mean', 'sum' or 'none'. 'mean' divides the sum of the losses by the number of elements.

    State: weight, if given.
    Call: input (*) and target (*), both in [0, 1] -> (), or (*) with reduction='none'.

    Example:
        >>> import jax.numpy as jnp
        >>> from funcnet import nn
        >>> nn.BCELoss().apply({}, {}, jnp.array([0.5, 0.5]), jnp.array([0.0, 1.0]))[0].round(3)
        Array(0.693, dtype=float32)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.BCELoss.html
    """

    def forward(self, input: jax.Array, target: jax.Array) -> jax.Array:
        return F.binary_cross_entropy(input, target, weight=self.weight, reduction=self.reduction)


class BCEWithLogitsLoss(WeightedLoss):
    """Binary cross-entropy of logits, computed without overflow or underflow.

    The loss is `-(target · log σ(input) + (1 - target) · log(1 - σ(input)))`.

    Args:
        weight: weight of each element, broadcastable to the input's shape.
        size_average, reduce: deprecated; use `reduction`.
        reduction: 'mean', 'sum' or 'none'. 'mean' divides the sum of the losses by the number of elements.
        pos_weight: weight of the term `target · log σ(input)`, broadcastable to the input's shape.

    State: weight and pos_weight, if given.
    Call: logits (*) and targets (*) in [0, 1] -> (), or (*) with reduction='none'.

    Example:
        >>> import jax.numpy as jnp
        >>> from funcnet import nn
        >>> nn.BCEWithLogitsLoss().apply({}, {}, jnp.zeros(3), jnp.array([0.0, 1.0, 1.0]))[0].round(3)
        Array(0.693, dtype=float32)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.BCEWithLogitsLoss.html
    """

    def __init__(
        self,
        weight: jax.Array | np.ndarray | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        pos_weight: jax.Array | np.ndarray | None = None,
    ):
        super().__init__(weight, size_average, reduce, reduction)
        self.register_buffer("pos_weight", pos_weight)

    def forward(self, input: jax.Array, target: jax.Array) -> jax.Array:
        return F.binary_cross_entropy_with_logits(
            input, target, self.weight, reduction=self.reduction, pos_weight=self.pos_weight
        )


class LinearCrossEntropyLoss(WeightedLoss):
    """A linear layer that computes class logits, followed by `CrossEntropyLoss`.

    Args:
        in_features: size of the input's last dimension, I.
        num_classes: number of classes, C.
        out_features: sizes S of the dimensions after the classes in the logits (B, C, *S).
        bias: if True, the linear layer has a bias.
        dtype: dtype of the parameters, float32 by default.
        reduction: 'mean', 'sum' or 'none'.
        weight: weight of each class, of shape (C,).
        ignore_index: target value to ignore; None means -100. If the targets are probabilities, ignore_index must be
            None.
        label_smoothing: fraction of the target's probability, from 0 to 1, that is spread evenly over all classes.
        options: `LinearCrossEntropyOptions` to process the batch in chunks. None means that the entire batch is
            processed at once.

    Params: linear.weight (C · ∏S, I) and linear.bias (C · ∏S,), initialised as in `Linear`.
    State: weight, if given.
    Call: input (B, I), and target classes (B, *S) or target probabilities (B, C, *S) -> (), or (B, *S) with
        reduction='none'. Without a batch, the input is (I,) and the target class is ().

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from funcnet import nn
        >>> loss = nn.LinearCrossEntropyLoss(3, 10, options=nn.LinearCrossEntropyOptions())
        >>> params, state = loss.init(jax.random.key(0))
        >>> loss.apply(params, state, jnp.zeros((2, 3)), jnp.array([1, 9]))[0].round(4)
        Array(2.3026, dtype=float32)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.LinearCrossEntropyLoss.html
    """

    def __init__(
        self,
        in_features: int,
        num_classes: int,
        *,
        out_features: tuple[int, ...] = (),
        bias: bool = False,
        dtype: DTypeLike | None = None,
        reduction: str = "mean",
        weight: jax.Array | None = None,
        ignore_index: int | None = None,
        label_smoothing: float = 0.0,
        options: LinearCrossEntropyOptions | None = None,
    ):
        where = "LinearCrossEntropyLoss"
        checks.shape_of(where, "weight", weight, (num_classes,), "weight must hold one number per class.")
        if not 0 <= label_smoothing <= 1:
            raise ValueError(f"{where}: label_smoothing is out of range; expected 0 to 1, got {label_smoothing}.")
        super().__init__(weight=weight, reduction=reduction)
        self.num_classes, self.out_features = num_classes, out_features
        self.ignore_index, self.label_smoothing, self.options = ignore_index, label_smoothing, options
        self.linear = Linear(in_features, math.prod(out_features, start=num_classes), bias=bias, dtype=dtype)

    def forward(self, input: jax.Array, target: jax.Array) -> jax.Array:
        shape = (self.num_classes, *self.out_features)
        bias = self.linear.bias
        return F.linear_cross_entropy(
            input,
            self.linear.weight.reshape(*shape, self.linear.in_features),
            target,
            linear_bias=None if bias is None else bias.reshape(shape),
            weight=self.weight,
            reduction=self.reduction,
            ignore_index=self.ignore_index,
            label_smoothing=self.label_smoothing,
            options=self.options,
        )

    def extra_repr(self) -> str:
        return (
            f"in_features={self.linear.in_features}, num_classes={self.num_classes}, "
            f"out_features={self.out_features}, bias={self.linear.bias is not None}, reduction={self.reduction}, "
            f"ignore_index={self.ignore_index}, label_smoothing={self.label_smoothing}, options={self.options}"
        )


class CTCLoss(Loss):
    """Connectionist temporal classification (CTC) loss.

    The loss is the negative logarithm of the target's probability. The target's probability is the sum of the
    probabilities of all alignments of the target with the T input frames.

    Args:
        blank: index of the blank class.
        reduction: 'mean', 'sum' or 'none'. 'mean' divides each loss by its target's length, then averages over the
            batch.
        zero_infinity: if True, infinite losses and their gradients are set to 0. A loss is infinite if the target is
            too long to be aligned with the input frames.

    Call: log-probabilities (T, B, C), targets (B, S), input lengths (B,), target lengths (B,) -> (), or (B,) with
        reduction='none'. Here, S is the length of the longest target. The targets may also be one array of shape (sum
        of the target lengths,), in which they are concatenated. The batch dimension B is optional.

    Example:
        >>> import jax.numpy as jnp
        >>> from funcnet import nn
        >>> log_probs = jnp.log(jnp.full((3, 1, 2), 0.5))
        >>> nn.CTCLoss().apply({}, {}, log_probs, jnp.array([[1]]), (3,), (1,))[0].round(4)
        Array(0.2877, dtype=float32)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.CTCLoss.html
    """

    def __init__(self, blank: int = 0, reduction: str = "mean", zero_infinity: bool = False):
        super().__init__(reduction=reduction)
        self.blank, self.zero_infinity = blank, zero_infinity

    def forward(
        self,
        log_probs: jax.Array,
        targets: jax.Array,
        input_lengths: ArrayLike | Sequence[int],
        target_lengths: ArrayLike | Sequence[int],
    ) -> jax.Array:
        return F.ctc_loss(
            log_probs, targets, input_lengths, target_lengths, self.blank, self.reduction, self.zero_infinity
        )
