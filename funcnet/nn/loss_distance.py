"""Losses on distances between embeddings. Letters: `B batch, D width`."""

from collections.abc import Callable

import jax

from funcnet import functional as F
from funcnet.nn.distance import PairwiseDistance
from funcnet.nn.loss_base import Loss

__all__ = ["CosineEmbeddingLoss", "TripletMarginLoss", "TripletMarginWithDistanceLoss"]


class CosineEmbeddingLoss(Loss):
    """Loss of pairs of embeddings, computed from cos, the cosine similarity of a pair.

    The loss is `1 - cos` for similar pairs (target 1) and `max(0, cos - margin)` for dissimilar pairs (target -1).

    Args:
        margin: largest cosine similarity at which a dissimilar pair has zero loss.
        size_average, reduce: deprecated; use `reduction`.
        reduction: 'mean', 'sum' or 'none'.

    Call: embeddings (B, D) and (B, D), and targets 1 or -1 (B,) -> (), or (B,) with reduction='none'. The batch
        dimension B is optional.

    Example:
        >>> import jax.numpy as jnp
        >>> from funcnet import nn
        >>> nn.CosineEmbeddingLoss().apply({}, {}, jnp.eye(2), jnp.ones((2, 2)), jnp.array([1, -1]))[0].round(3)
        Array(0.5, dtype=float32)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.CosineEmbeddingLoss.html
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
        return F.cosine_embedding_loss(input1, input2, target, margin=self.margin, reduction=self.reduction)


class TripletMarginLoss(Loss):
    """Triplet loss `max(0, d(anchor, positive) - d(anchor, negative) + margin)`, where d is the p-norm distance.

    Args:
        margin: positive number by which d(anchor, negative) must exceed d(anchor, positive) for a loss of 0.
        p: order of the norm.
        eps: constant added to each element of the difference between two embeddings.
        swap: if True, the smaller of d(anchor, negative) and d(positive, negative) replaces d(anchor, negative).
        size_average, reduce: deprecated; use `reduction`.
        reduction: 'mean', 'sum' or 'none'.

    Call: anchor, positive and negative, each (*, D) -> (), or (*) with reduction='none'.

    Example:
        >>> import jax.numpy as jnp
        >>> from funcnet import nn
        >>> nn.TripletMarginLoss().apply({}, {}, jnp.zeros((1, 2)), jnp.ones((1, 2)), -jnp.ones((1, 2)))[0].round(3)
        Array(1., dtype=float32)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.TripletMarginLoss.html
    """

    def __init__(
        self,
        margin: float = 1.0,
        p: float = 2.0,
        eps: float = 1e-6,
        swap: bool = False,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ):
        super().__init__(size_average, reduce, reduction)
        if margin <= 0:
            raise ValueError(f"TripletMarginLoss: margin is not positive; expected more than 0, got {margin}.")
        self.margin, self.p, self.eps, self.swap = margin, p, eps, swap

    def forward(self, anchor: jax.Array, positive: jax.Array, negative: jax.Array) -> jax.Array:
        return F.triplet_margin_loss(
            anchor,
            positive,
            negative,
            margin=self.margin,
            p=self.p,
            eps=self.eps,
            swap=self.swap,
            reduction=self.reduction,
        )


class TripletMarginWithDistanceLoss(Loss):
    """Triplet loss `max(0, d(anchor, positive) - d(anchor, negative) + margin)` with any distance d.

    Args:
        distance_function: function or module that computes d of two arrays, `PairwiseDistance()` by default. A module
            becomes a submodule of the loss.
        margin: positive number by which d(anchor, negative) must exceed d(anchor, positive) for a loss of 0.
        swap: if True, the smaller of d(anchor, negative) and d(positive, negative) replaces d(anchor, negative).
        reduction: 'mean', 'sum' or 'none'.

    Call: anchor, positive and negative, in any shapes that distance_function accepts -> (), or the shape of the
        distances with reduction='none'.

    Example:
        >>> import jax.numpy as jnp
        >>> from funcnet import nn
        >>> loss = nn.TripletMarginWithDistanceLoss(distance_function=lambda x, y: jnp.abs(x - y).sum(-1), margin=3.0)
        >>> loss.apply({}, {}, jnp.zeros((1, 2)), jnp.ones((1, 2)), jnp.full((1, 2), 2.0))[0]
        Array(1., dtype=float32)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.TripletMarginWithDistanceLoss.html
    """

    distance_function: Callable[[jax.Array, jax.Array], jax.Array]

    def __init__(
        self,
        *,
        distance_function: Callable[[jax.Array, jax.Array], jax.Array] | None = None,
        margin: float = 1.0,
        swap: bool = False,
        reduction: str = "mean",
    ):
        super().__init__(reduction=reduction)
        if margin <= 0:
            raise ValueError(
                f"TripletMarginWithDistanceLoss: margin is not positive; expected more than 0, got {margin}."
            )
        self.distance_function = PairwiseDistance() if distance_function is None else distance_function
        self.margin, self.swap = margin, swap

    def forward(self, anchor: jax.Array, positive: jax.Array, negative: jax.Array) -> jax.Array:
        return F.triplet_margin_with_distance_loss(
            anchor,
            positive,
            negative,
            distance_function=self.distance_function,
            margin=self.margin,
            swap=self.swap,
            reduction=self.reduction,
        )
