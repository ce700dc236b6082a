"""ReLU and its variants, as in torch/nn/modules/activation.py.

The functions of `functional/relu.py` compute these activations. (*) means any shape.
"""

from typing import Any

import jax
from jax.typing import DTypeLike

from funcnet import functional as F
from funcnet.nn import init as initialisers
from funcnet.nn.activation import InPlace
from funcnet.nn.core.parameter import Parameter
from funcnet.nn.module.module import Module

__all__ = ["CELU", "ELU", "SELU", "LeakyReLU", "PReLU", "RReLU", "ReLU", "Threshold"]


class ReLU(InPlace):
    """Applies `max(x, 0)` element-wise.

    Args:
        inplace: accepted for compatibility with torch, but without effect, because arrays are immutable.

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


class Threshold(InPlace):
    """Keeps each element above the threshold and replaces all others by `value`.

    Args:
        threshold: elements greater than this number are kept.
        value: replacement for all other elements.
        inplace: accepted for compatibility with torch, but without effect, because arrays are immutable.

    Call: (*) -> (*).

    Example:
        >>> import jax.numpy as jnp
        >>> from funcnet import nn
        >>> nn.Threshold(0.5, 20.0).apply({}, {}, jnp.array([0.5, 1.0]))[0]
        Array([20.,  1.], dtype=float32)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.Threshold.html
    """

    def __init__(self, threshold: float, value: float, inplace: bool = False):
        super().__init__(inplace)
        self.threshold = threshold
        self.value = value

    def forward(self, input: jax.Array) -> jax.Array:
        return F.threshold(input, self.threshold, self.value)

    def extra_repr(self) -> str:
        return self.shown(f"threshold={self.threshold}, value={self.value}")


class LeakyReLU(InPlace):
    """Keeps positive elements and multiplies all others by `negative_slope`.

    Args:
        negative_slope: slope for elements that are not positive, any number.
        inplace: accepted for compatibility with torch, but without effect, because arrays are immutable.

    Call: (*) -> (*).

    Example:
        >>> import jax.numpy as jnp
        >>> from funcnet import nn
        >>> nn.LeakyReLU(0.5).apply({}, {}, jnp.array([-2.0, 2.0]))[0]
        Array([-1.,  2.], dtype=float32)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.LeakyReLU.html
    """

    def __init__(self, negative_slope: float = 0.01, inplace: bool = False):
        super().__init__(inplace)
        self.negative_slope = negative_slope

    def forward(self, input: jax.Array) -> jax.Array:
        return F.leaky_relu(input, self.negative_slope)

    def extra_repr(self) -> str:
        return self.shown(f"negative_slope={self.negative_slope}")


class PReLU(Module):
    """Keeps positive elements and multiplies all others by a learnable slope.

    Either all channels share one slope, or each channel has its own slope.

    Args:
        num_parameters: number of slopes, either 1 or the number of channels (dimension 1).
        init: initial value of the slopes.
        dtype: dtype of the slopes, float32 by default.

    Call: (*) -> (*).

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from funcnet import nn
        >>> layer = nn.PReLU(2)
        >>> params, state = layer.init(jax.random.key(0))
        >>> layer.apply(params, state, jnp.array([[-2.0, 2.0]]))[0]
        Array([[-0.5,  2. ]], dtype=float32)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.PReLU.html
    """

    weight: Any

    def __init__(self, num_parameters: int = 1, init: float = 0.25, *, dtype: DTypeLike | None = None):
        super().__init__()
        self.num_parameters = num_parameters
        self.start = init  # torch's attribute is called init, which is a method here
        self.weight = Parameter((num_parameters,), dtype=dtype)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        initialisers.constant_(self.weight, self.start)

    def forward(self, input: jax.Array) -> jax.Array:
        return F.prelu(input, self.weight)

    def extra_repr(self) -> str:
        return f"num_parameters={self.num_parameters}"


class RReLU(InPlace):
    """Keeps positive elements and multiplies all others by a slope.

    In training, each element has its own random slope between `lower` and `upper`. In eval, every slope is the mean
    of `lower` and `upper`.

    Args:
        lower: smallest slope.
        upper: largest slope.
        inplace: accepted for compatibility with torch, but without effect, because arrays are immutable.

    Call: (*) -> (*).

    Example:
        >>> import jax.numpy as jnp
        >>> from funcnet import nn
        >>> nn.RReLU(0.25, 0.75).apply({}, {}, jnp.array([-1.0, 2.0]))[0]
        Array([-0.5,  2. ], dtype=float32)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.RReLU.html
    """

    def __init__(self, lower: float = 1.0 / 8, upper: float = 1.0 / 3, inplace: bool = False):
        super().__init__(inplace)
        self.lower = lower
        self.upper = upper

    def forward(self, input: jax.Array) -> jax.Array:
        rng = self.make_rng() if self.training and self.lower != self.upper else None
        return F.rrelu(input, self.lower, self.upper, self.training, rng=rng)

    def extra_repr(self) -> str:
        return self.shown(f"lower={self.lower}, upper={self.upper}")


class ELU(InPlace):
    """Keeps positive elements and replaces any other x by `alpha · (exp(x) - 1)`.

    Args:
        alpha: scale of the negative part, which tends to -alpha for x → -∞.
        inplace: accepted for compatibility with torch, but without effect, because arrays are immutable.

    Call: (*) -> (*).

    Example:
        >>> import jax.numpy as jnp
        >>> from funcnet import nn
        >>> nn.ELU(0.5).apply({}, {}, jnp.array([-100.0, 2.0]))[0]
        Array([-0.5,  2. ], dtype=float32)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.ELU.html
    """

    def __init__(self, alpha: float = 1.0, inplace: bool = False):
        super().__init__(inplace)
        self.alpha = alpha

    def forward(self, input: jax.Array) -> jax.Array:
        return F.elu(input, self.alpha)

    def extra_repr(self) -> str:
        return self.shown(f"alpha={self.alpha}")


class CELU(InPlace):
    """Applies `max(x, 0) + min(0, alpha · (exp(x / alpha) - 1))` element-wise.

    Args:
        alpha: nonzero scale of the negative part, which tends to -alpha for x → -∞ if alpha is positive.
        inplace: accepted for compatibility with torch, but without effect, because arrays are immutable.

    Call: (*) -> (*).

    Example:
        >>> import jax.numpy as jnp
        >>> from funcnet import nn
        >>> nn.CELU(0.5).apply({}, {}, jnp.array([-100.0, 2.0]))[0]
        Array([-0.5,  2. ], dtype=float32)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.CELU.html
    """

    def __init__(self, alpha: float = 1.0, inplace: bool = False):
        super().__init__(inplace)
        self.alpha = alpha

    def forward(self, input: jax.Array) -> jax.Array:
        return F.celu(input, self.alpha)

    def extra_repr(self) -> str:
        return self.shown(f"alpha={self.alpha}")


class SELU(InPlace):
    """Applies `1.0507 · ELU(x)` with alpha = 1.6733. These constants keep the mean 0 and the variance 1 of activations
    from layer to layer.

    Args:
        inplace: accepted for compatibility with torch, but without effect, because arrays are immutable.

    Call: (*) -> (*).

    Example:
        >>> import jax.numpy as jnp
        >>> from funcnet import nn
        >>> print(nn.SELU().apply({}, {}, jnp.array([-100.0, 1.0]))[0])
        [-1.7580993  1.050701 ]

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.SELU.html
    """

    def forward(self, input: jax.Array) -> jax.Array:
        return F.selu(input)
