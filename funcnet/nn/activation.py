"""Activations without parameters, as in torch/nn/modules/activation.py."""

import jax

from funcnet import functional as F
from funcnet.nn.module import Module

__all__ = ["GELU", "LogSoftmax", "ReLU", "ReLU6", "SiLU", "Sigmoid", "Softmax", "Tanh"]


class _InPlace(Module):
    """An activation that torch can run in place; here `inplace` only shows in `repr`."""

    def __init__(self, inplace: bool = False):
        super().__init__()
        self.inplace = inplace

    def extra_repr(self) -> str:
        return "inplace=True" if self.inplace else ""


class ReLU(_InPlace):
    """max(x, 0), element by element.

    Args:
        inplace: accepted for torch's sake; arrays do not change in place.

    Call: (*) -> (*).

    Example:
        >>> import jax.numpy as jnp
        >>> from funcnet import nn
        >>> nn.ReLU().apply({}, {}, jnp.array([-1.0, 2.0]))[0]
        Array([0., 2.], dtype=float32)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.ReLU.html
    """

    def forward(self, input: jax.Array) -> jax.Array:
        return F.relu(input)


class ReLU6(_InPlace):
    """min(max(x, 0), 6), element by element.

    Args:
        inplace: accepted for torch's sake.

    Call: (*) -> (*).

    Example:
        >>> import jax.numpy as jnp
        >>> from funcnet import nn
        >>> nn.ReLU6().apply({}, {}, jnp.array([-1.0, 7.0]))[0]
        Array([0., 6.], dtype=float32)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.ReLU6.html
    """

    def forward(self, input: jax.Array) -> jax.Array:
        return F.relu6(input)


class SiLU(_InPlace):
    """x · sigmoid(x), element by element; also called swish.

    Args:
        inplace: accepted for torch's sake.

    Call: (*) -> (*).

    Example:
        >>> import jax.numpy as jnp
        >>> from funcnet import nn
        >>> nn.SiLU().apply({}, {}, jnp.array([0.0]))[0]
        Array([0.], dtype=float32)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.SiLU.html
    """

    def forward(self, input: jax.Array) -> jax.Array:
        return F.silu(input)


class GELU(Module):
    """x · Φ(x), Φ being the distribution function of N(0, 1).

    Args:
        approximate: 'none' for the exact one by erf (torch's default, not JAX's), 'tanh' for the approximation.

    Call: (*) -> (*).

    Example:
        >>> import jax.numpy as jnp
        >>> from funcnet import nn
        >>> nn.GELU().apply({}, {}, jnp.array([0.0, 10.0]))[0]
        Array([ 0., 10.], dtype=float32)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.GELU.html
    """

    def __init__(self, approximate: str = "none"):
        super().__init__()
        self.approximate = approximate

    def forward(self, input: jax.Array) -> jax.Array:
        return F.gelu(input, approximate=self.approximate)

    def extra_repr(self) -> str:
        return f"approximate={self.approximate!r}"


class Tanh(Module):
    """tanh(x), element by element.

    Call: (*) -> (*).

    Example:
        >>> import jax.numpy as jnp
        >>> from funcnet import nn
        >>> nn.Tanh().apply({}, {}, jnp.array([0.0]))[0]
        Array([0.], dtype=float32)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.Tanh.html
    """

    def forward(self, input: jax.Array) -> jax.Array:
        return F.tanh(input)


class Sigmoid(Module):
    """1 / (1 + exp(-x)), element by element.

    Call: (*) -> (*).

    Example:
        >>> import jax.numpy as jnp
        >>> from funcnet import nn
        >>> nn.Sigmoid().apply({}, {}, jnp.array([0.0]))[0]
        Array([0.5], dtype=float32)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.Sigmoid.html
    """

    def forward(self, input: jax.Array) -> jax.Array:
        return F.sigmoid(input)


class _AlongDim(Module):
    def __init__(self, dim: int | None = None):
        super().__init__()
        self.dim = dim

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class Softmax(_AlongDim):
    """exp(x) / sum(exp(x)) along one dimension.

    Args:
        dim: along which the result sums to 1; None picks torch's old default: 0 for 0, 1 or 3 dimensions, else 1.

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
    """x - log(sum(exp(x))) along one dimension: the logarithm of `Softmax`.

    Args:
        dim: along which; None picks torch's old default: 0 for 0, 1 or 3 dimensions, else 1.

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
