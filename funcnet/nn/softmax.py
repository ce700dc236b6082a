"""Softmax and related functions as modules, as in torch/nn/modules/activation.py. (*) means any shape."""

import jax

from funcnet import functional as F
from funcnet.nn.module.module import Module

__all__ = ["LogSoftmax", "Softmax", "Softmax2d", "Softmin"]


class _AlongDim(Module):
    def __init__(self, dim: int | None = None):
        super().__init__()
        self.dim = dim

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class Softmax(_AlongDim):
    """Applies `exp(x) / sum(exp(x))` along one dimension.

    Args:
        dim: dimension along which the result sums to 1. With dim=None, the dimension is 0 for inputs of 0, 1 or 3
            dimensions and 1 for all others, as in torch.

    Call: (*) -> (*).

    Example:
        >>> import jax.numpy as jnp
        >>> from funcnet import nn
        >>> nn.Softmax(dim=-1).apply({}, {}, jnp.zeros((1, 4)))[0]
        Array([[0.25, 0.25, 0.25, 0.25]], dtype=float32)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.Softmax.html
    """

    def forward(self, input: jax.Array) -> jax.Array:
        return F.softmax(input, self.dim)


class LogSoftmax(_AlongDim):
    """Applies `x - log(sum(exp(x)))`, the logarithm of `Softmax`, along one dimension.

    Args:
        dim: dimension to sum over. With dim=None, the dimension is 0 for inputs of 0, 1 or 3 dimensions and 1 for all
            others, as in torch.

    Call: (*) -> (*).

    Example:
        >>> import jax.numpy as jnp
        >>> from funcnet import nn
        >>> nn.LogSoftmax(dim=-1).apply({}, {}, jnp.zeros((1, 1)))[0]
        Array([[0.]], dtype=float32)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.LogSoftmax.html
    """

    def forward(self, input: jax.Array) -> jax.Array:
        return F.log_softmax(input, self.dim)


class Softmin(_AlongDim):
    """Applies `exp(-x) / sum(exp(-x))`, the `Softmax` of the negated input, along one dimension.

    Args:
        dim: dimension along which the result sums to 1. With dim=None, the dimension is 0 for inputs of 0, 1 or 3
            dimensions and 1 for all others, as in torch.

    Call: (*) -> (*).

    Example:
        >>> import jax.numpy as jnp
        >>> from funcnet import nn
        >>> nn.Softmin(dim=-1).apply({}, {}, jnp.zeros((1, 4)))[0]
        Array([[0.25, 0.25, 0.25, 0.25]], dtype=float32)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.Softmin.html
    """

    def forward(self, input: jax.Array) -> jax.Array:
        return F.softmin(input, self.dim)


class Softmax2d(Module):
    """Applies `Softmax` over the channels at each position of an image.

    Call: (B, C, H, W) or (C, H, W) -> the same shape.

    Example:
        >>> import jax.numpy as jnp
        >>> from funcnet import nn
        >>> nn.Softmax2d().apply({}, {}, jnp.zeros((2, 1, 1)))[0].ravel()
        Array([0.5, 0.5], dtype=float32)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.Softmax2d.html
    """

    def forward(self, input: jax.Array) -> jax.Array:
        if input.ndim not in (3, 4):
            raise ValueError(
                "Softmax2d: input has the wrong rank; expected (batch, channel, height, width) or (channel, height, "
                f"width), got {input.shape}. Add or drop a dimension, or use nn.Softmax(dim)."
            )
        return F.softmax(input, -3)
