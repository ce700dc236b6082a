"""Smooth activations, as in torch/nn/modules/activation.py.

The other activations are in `relu.py`, `hard.py` and `softmax.py`. (*) means any shape.
"""

import jax

from funcnet import functional as F
from funcnet.nn.module.module import Module

__all__ = [
    "GELU",
    "GLU",
    "InPlace",
    "LogSigmoid",
    "Mish",
    "SiLU",
    "Sigmoid",
    "Softplus",
    "Softsign",
    "Tanh",
    "Tanhshrink",
]


class InPlace(Module):
    """Base class of activations that torch can run in place. In funcnet, the setting `inplace` only changes the `repr`,
    because arrays never change in place.
    """

    def __init__(self, inplace: bool = False):
        super().__init__()
        self.inplace = inplace

    def shown(self, settings: str = "") -> str:
        """Return the text for `extra_repr`: `settings`, followed by "inplace=True" if `inplace` is True."""
        return ", ".join(filter(None, (settings, "inplace=True" if self.inplace else "")))

    def extra_repr(self) -> str:
        return self.shown()


class GELU(Module):
    """Applies `x · Φ(x)` elementwise, where Φ is the cumulative distribution function of N(0, 1).

    Args:
        approximate: 'none' computes the exact function with erf, and 'tanh' computes the tanh approximation. The
            default is 'none', as in torch, whereas `jax.nn.gelu` computes the tanh approximation by default.

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


class SiLU(InPlace):
    """Applies `x · sigmoid(x)` elementwise. This activation is also called swish.

    Args:
        inplace: accepted for compatibility with torch but without effect, because arrays never change in place.

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


class Mish(InPlace):
    """Applies `x · tanh(log(1 + exp(x)))` elementwise.

    Args:
        inplace: accepted for compatibility with torch but without effect, because arrays never change in place.

    Call: (*) -> (*).

    Example:
        >>> import jax.numpy as jnp
        >>> from funcnet import nn
        >>> nn.Mish().apply({}, {}, jnp.array([0.0, 200.0]))[0]
        Array([  0., 200.], dtype=float32)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.Mish.html
    """

    def forward(self, input: jax.Array) -> jax.Array:
        return F.mish(input)


class Tanh(Module):
    """Applies `tanh(x)` elementwise.

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
    """Applies `1 / (1 + exp(-x))` elementwise.

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


class LogSigmoid(Module):
    """Applies `log(1 / (1 + exp(-x)))` elementwise.

    Call: (*) -> (*).

    Example:
        >>> import jax.numpy as jnp
        >>> from funcnet import nn
        >>> print(nn.LogSigmoid().apply({}, {}, jnp.array([-200.0, 0.0]))[0])
        [-200.           -0.6931472]

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.LogSigmoid.html
    """

    def forward(self, input: jax.Array) -> jax.Array:
        return F.logsigmoid(input)


class Softplus(Module):
    """Applies `log(1 + exp(beta · x)) / beta` elementwise. If `beta · x` is above `threshold`, the result is x.

    Args:
        beta: sharpness of the bend at 0. A larger beta brings the function closer to ReLU.
        threshold: value of `beta · x` above which the function returns x itself.

    Call: (*) -> (*).

    Example:
        >>> import jax.numpy as jnp
        >>> from funcnet import nn
        >>> print(nn.Softplus().apply({}, {}, jnp.array([0.0, 200.0]))[0])
        [  0.6931472 200.       ]

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.Softplus.html
    """

    def __init__(self, beta: float = 1.0, threshold: float = 20.0):
        super().__init__()
        self.beta = beta
        self.threshold = threshold

    def forward(self, input: jax.Array) -> jax.Array:
        return F.softplus(input, self.beta, self.threshold)

    def extra_repr(self) -> str:
        return f"beta={self.beta}, threshold={self.threshold}"


class Softsign(Module):
    """Applies `x / (1 + |x|)` elementwise.

    Call: (*) -> (*).

    Example:
        >>> import jax.numpy as jnp
        >>> from funcnet import nn
        >>> nn.Softsign().apply({}, {}, jnp.array([-1.0, 3.0]))[0]
        Array([-0.5 ,  0.75], dtype=float32)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.Softsign.html
    """

    def forward(self, input: jax.Array) -> jax.Array:
        return F.softsign(input)


class Tanhshrink(Module):
    """Applies `x - tanh(x)` elementwise.

    Call: (*) -> (*).

    Example:
        >>> import jax.numpy as jnp
        >>> from funcnet import nn
        >>> print(nn.Tanhshrink().apply({}, {}, jnp.array([0.0, 10.0]))[0])
        [0. 9.]

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.Tanhshrink.html
    """

    def forward(self, input: jax.Array) -> jax.Array:
        return F.tanhshrink(input)


class GLU(Module):
    """Applies `a · sigmoid(b)`, where a and b are the two halves of the input along `dim`.

    Args:
        dim: dimension to split in half, which must have an even size.

    Call: (*, 2N, *) -> (*, N, *).

    Example:
        >>> import jax.numpy as jnp
        >>> from funcnet import nn
        >>> nn.GLU().apply({}, {}, jnp.array([4.0, 2.0, 0.0, 100.0]))[0]
        Array([2., 2.], dtype=float32)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.GLU.html
    """

    def __init__(self, dim: int = -1):
        super().__init__()
        self.dim = dim

    def forward(self, input: jax.Array) -> jax.Array:
        return F.glu(input, self.dim)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"
