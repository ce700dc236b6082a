"""Identity, Linear, Bilinear and LazyLinear, as in torch/nn/modules/linear.py."""

import math
from typing import Any

import jax

from funcnet import functional as F
from funcnet.nn import init
from funcnet.nn.module import Module
from funcnet.nn.parameter import Parameter

__all__ = ["Bilinear", "Identity", "LazyLinear", "Linear"]


class Identity(Module):
    """Gives its input back; takes and ignores any arguments.

    Example:
        >>> from funcnet import nn
        >>> nn.Identity(54, unused=True)
        Identity()

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.Identity.html
    """

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__()

    def forward(self, input: jax.Array) -> jax.Array:
        return input


class Linear(Module):
    """y = x Wᵀ + b.

    Args:
        in_features: size of the input's last dimension.
        out_features: size of the output's last dimension.
        bias: whether to add b.

    Params: weight (out_features, in_features), bias (out_features,), both U(±1/√in_features).
    Call: (…, in_features) -> (…, out_features).

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from funcnet import nn
        >>> layer = nn.Linear(3, 5)
        >>> params, state = layer.init(jax.random.key(0))
        >>> layer.apply(params, state, jnp.ones((2, 3)))[0].shape
        (2, 5)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.Linear.html
    """

    def __init__(self, in_features: int, out_features: int, bias: bool = True):
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.weight = Parameter((out_features, in_features), init.kaiming_uniform(a=math.sqrt(5)))
        bound = 1 / math.sqrt(in_features) if in_features > 0 else 0.0
        self.register_parameter("bias", Parameter((out_features,), init.uniform(-bound, bound)) if bias else None)

    def forward(self, input: jax.Array) -> jax.Array:
        return F.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"
