"""CosineSimilarity and PairwiseDistance, as in torch/nn/modules/distance.py. D is the size of the vectors."""

import jax

from funcnet import functional as F
from funcnet.nn.module.module import Module

__all__ = ["CosineSimilarity", "PairwiseDistance"]


class CosineSimilarity(Module):
    """The cosine of the angle between vectors: ``x1 · x2 / (max(‖x1‖, eps) · max(‖x2‖, eps))``.

    Args:
        dim: dimension that contains the entries of a vector.
        eps: lower bound on each norm, to avoid division by zero.

    Call: two inputs whose shapes broadcast -> cosines, in the broadcast shape without the dimension `dim`.

    Example:
        >>> import jax.numpy as jnp
        >>> from funcnet import nn
        >>> nn.CosineSimilarity().apply({}, {}, jnp.array([[1.0, 0.0]]), jnp.array([[2.0, 0.0]]))[0]
        Array([1.], dtype=float32)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.CosineSimilarity.html
    """

    def __init__(self, dim: int = 1, eps: float = 1e-8):
        super().__init__()
        self.dim, self.eps = dim, eps

    def forward(self, x1: jax.Array, x2: jax.Array) -> jax.Array:
        return F.cosine_similarity(x1, x2, self.dim, self.eps)


class PairwiseDistance(Module):
    """The p-norm of the difference of vectors: ``‖x1 - x2 + eps‖_p`` over the last dimension.

    Args:
        p: order of the norm, any number including ±inf.
        eps: value added to every element of x1 - x2.
        keepdim: if True, the last dimension is kept with size 1.

    Call: two inputs (…, D) whose shapes broadcast -> (…), or (…, 1) with keepdim.

    Example:
        >>> import jax.numpy as jnp
        >>> from funcnet import nn
        >>> nn.PairwiseDistance(eps=0.0).apply({}, {}, jnp.array([[0.0, 0.0]]), jnp.array([[3.0, 4.0]]))[0]
        Array([5.], dtype=float32)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.PairwiseDistance.html
    """

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False):
        super().__init__()
        self.norm, self.eps, self.keepdim = p, eps, keepdim

    def forward(self, x1: jax.Array, x2: jax.Array) -> jax.Array:
        return F.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)
