"""Losses with a margin, for class scores and for labels of 1 and -1. Letters: `B batch, C classes`."""

import jax
import numpy as np

from funcnet import functional as F
from funcnet.nn.inspection.checked import IndexRange
from funcnet.nn.loss_base import Loss, WeightedLoss, class_range

__all__ = [
    "HingeEmbeddingLoss",
    "MarginRankingLoss",
    "MultiLabelMarginLoss",
    "MultiLabelSoftMarginLoss",
    "MultiMarginLoss",
    "SoftMarginLoss",
]


class HingeEmbeddingLoss(Loss):
    """Hinge loss on the distance between the two elements of each pair.

    The loss is `input` for similar pairs (target 1) and `max(0, margin - input)` for dissimilar pairs (target -1).

    Args:
        margin: smallest distance at which a dissimilar pair has zero loss.
        size_average, reduce: deprecated; use `reduction`.
        reduction: 'mean', 'sum' or 'none'.

    Call: distances (*) and targets 1 or -1 (*) -> (), or (*) with reduction='none'.

    Example:
        >>> import jax.numpy as jnp
        >>> from funcnet import nn
        >>> nn.HingeEmbeddingLoss().apply({}, {}, jnp.array([0.25, 0.5]), jnp.array([1, -1]))[0]
        Array(0.375, dtype=float32)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.HingeEmbeddingLoss.html
    """

    def __init__(
        self,
        margin: float = 1.0,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ):
        super().__init__(size_average, reduce, reduction)
        self.margin = margin

    def forward(self, input: jax.Array, target: jax.Array) -> jax.Array:
        return F.hinge_embedding_loss(input, target, margin=self.margin, reduction=self.reduction)


class MarginRankingLoss(Loss):
    """Ranking loss `max(0, -target · (input1 - input2) + margin)`.

    A target of 1 means that input1 should be larger than input2, and -1 means that input1 should be smaller.

    Args:
        margin: smallest difference between the inputs at which a correctly ranked pair has zero loss.
        size_average, reduce: deprecated; use `reduction`.
        reduction: 'mean', 'sum' or 'none'.

    Call: two inputs (*) and targets 1 or -1 (*) -> (), or (*) with reduction='none'.

    Example:
        >>> import jax.numpy as jnp
        >>> from funcnet import nn
        >>> nn.MarginRankingLoss(0.5).apply({}, {}, jnp.ones(1), jnp.full(1, 3.0), jnp.array([1]))[0]
        Array(2.5, dtype=float32)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.MarginRankingLoss.html
    """

    def __init__(
        self,
        margin: float = 0.0,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ):
        super().__init__(size_average, reduce, reduction)
        self.margin = margin

    def forward(self, input1: jax.Array, input2: jax.Array, target: jax.Array) -> jax.Array:
        return F.margin_ranking_loss(input1, input2, target, margin=self.margin, reduction=self.reduction)


class SoftMarginLoss(Loss):
    """Logistic loss `log(1 + exp(-target · input))` for labels of 1 and -1.

    Args:
        size_average, reduce: deprecated; use `reduction`.
        reduction: 'mean', 'sum' or 'none'.

    Call: scores (*) and targets 1 or -1 (*) -> (), or (*) with reduction='none'.

    Example:
        >>> import jax.numpy as jnp
        >>> from funcnet import nn
        >>> nn.SoftMarginLoss().apply({}, {}, jnp.zeros(2), jnp.array([1, -1]))[0].round(3)
        Array(0.693, dtype=float32)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.SoftMarginLoss.html
    """

    def forward(self, input: jax.Array, target: jax.Array) -> jax.Array:
        return F.soft_margin_loss(input, target, reduction=self.reduction)


class MultiLabelSoftMarginLoss(WeightedLoss):
    """Binary cross-entropy `-(target · log σ(input) + (1 - target) · log σ(-input))`, averaged over the classes.

    Args:
        weight: weight of each class, of shape (C,).
        size_average, reduce: deprecated; use `reduction`.
        reduction: 'mean', 'sum' or 'none'.

    State: weight, if given.
    Call: logits (*, C) and targets 1 or 0 (*, C) -> (), or (*) with reduction='none'.

    Example:
        >>> import jax.numpy as jnp
        >>> from funcnet import nn
        >>> nn.MultiLabelSoftMarginLoss().apply({}, {}, jnp.zeros((1, 2)), jnp.array([[1, 0]]))[0].round(3)
        Array(0.693, dtype=float32)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.MultiLabelSoftMarginLoss.html
    """

    def forward(self, input: jax.Array, target: jax.Array) -> jax.Array:
        return F.multilabel_soft_margin_loss(input, target, weight=self.weight, reduction=self.reduction)


class MultiMarginLoss(WeightedLoss):
    """Multi-class hinge loss: the sum of `max(0, margin - input[target] + input[c])ᵖ / C` over all other classes c.

    Args:
        p: exponent, 1 or 2.
        margin: number by which the score of the target class must exceed every other score for a loss of 0.
        weight: weight of each class, of shape (C,).
        size_average, reduce: deprecated; use `reduction`.
        reduction: 'mean', 'sum' or 'none'.

    State: weight, if given.
    Call: scores (B, C) and target classes (B,) -> (), or (B,) with reduction='none'. Without a batch, the scores are
        (C,) and the target class is ().

    Example:
        >>> import jax.numpy as jnp
        >>> from funcnet import nn
        >>> nn.MultiMarginLoss().apply({}, {}, jnp.array([[0.0, 2.0, 1.5, -1.0]]), jnp.array([1]))[0]
        Array(0.125, dtype=float32)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.MultiMarginLoss.html
    """

    def __init__(
        self,
        p: int = 1,
        margin: float = 1.0,
        weight: jax.Array | np.ndarray | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ):
        super().__init__(weight, size_average, reduce, reduction)
        if p not in (1, 2):
            raise ValueError(f"MultiMarginLoss: p is not supported; expected 1 or 2, got {p!r}.")
        if weight is not None and weight.ndim != 1:
            raise ValueError(f"MultiMarginLoss: weight has the wrong rank; expected (classes,), got {weight.shape}.")
        self.p, self.margin = p, margin

    def forward(self, input: jax.Array, target: jax.Array) -> jax.Array:
        return F.multi_margin_loss(
            input, target, p=self.p, margin=self.margin, weight=self.weight, reduction=self.reduction
        )

    def index_range(self, *inputs: jax.Array) -> IndexRange | None:
        """Return the target classes and the range that they must lie in, so that `nn.checked` can check them."""
        return class_range(inputs)


class MultiLabelMarginLoss(Loss):
    """Multi-label hinge loss.

    The loss is the sum of `max(0, 1 - input[t] + input[c]) / C` over all target classes t and all other classes c.

    Args:
        size_average, reduce: deprecated; use `reduction`.
        reduction: 'mean', 'sum' or 'none'.

    Call: scores (B, C) and target class ids (B, C) -> (), or (B,) with reduction='none'. In each row, the ids before
        the first -1 are the target classes, and later ids are ignored. The batch dimension B is optional.

    Example:
        >>> import jax.numpy as jnp
        >>> from funcnet import nn
        >>> target = jnp.array([3, 0, -1, 1])
        >>> print(nn.MultiLabelMarginLoss().apply({}, {}, jnp.array([0.25, 0.5, 0.5, 0.75]), target)[0])
        1.0

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.MultiLabelMarginLoss.html
    """

    def forward(self, input: jax.Array, target: jax.Array) -> jax.Array:
        return F.multilabel_margin_loss(input, target, reduction=self.reduction)
