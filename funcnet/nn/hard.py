"""The hard activations, as in torch/nn/modules/activation.py.

The functions of `functional/hard.py` compute these activations. (*) means any shape.
"""

import warnings

import jax

from funcnet import functional as F
from funcnet.nn.activation import InPlace
from funcnet.nn.module.module import Module

__all__ = ["Hardshrink", "Hardsigmoid", "Hardswish", "Hardtanh", "ReLU6", "Softshrink"]


class Hardtanh(InPlace):
    """Applies `min(max(x, min_val), max_val)` elementwise.

    Args:
        min_val: lower bound of the output.
        max_val: upper bound of the output, which must be greater than min_val.
        inplace: accepted for compatibility with torch but without effect, because arrays never change in place.
        min_value, max_value: deprecated names of min_val and max_val, as in torch.

    Call: (*) -> (*).

    Example:
        >>> import jax.numpy as jnp
        >>> from funcnet import nn
        >>> nn.Hardtanh().apply({}, {}, jnp.array([-2.0, 0.5]))[0]
        Array([-1. ,  0.5], dtype=float32)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.Hardtanh.html
    """

    def __init__(
        self,
        min_val: float = -1.0,
        max_val: float = 1.0,
        inplace: bool = False,
        min_value: float | None = None,
        max_value: float | None = None,
    ):
        super().__init__(inplace)
        if min_value is not None or max_value is not None:
            warnings.warn(
                "Hardtanh: min_value and max_value are deprecated; use min_val and max_val instead.", FutureWarning, 2
            )
        self.min_val = min_val if min_value is None else min_value
        self.max_val = max_val if max_value is None else max_value
        if self.max_val <= self.min_val:
            raise ValueError(
                f"{type(self).__name__}: the bounds are out of order; expected min_val < max_val, got {self.min_val} "
                f"and {self.max_val}."
            )

    def forward(self, input: jax.Array) -> jax.Array:
        return F.hardtanh(input, self.min_val, self.max_val)

    def extra_repr(self) -> str:
        return self.shown(f"min_val={self.min_val}, max_val={self.max_val}")


class ReLU6(Hardtanh):
    """Applies `min(max(x, 0), 6)` elementwise.

    Args:
        inplace: accepted for compatibility with torch but without effect, because arrays never change in place.

    Call: (*) -> (*).

    Example:
        >>> import jax.numpy as jnp
        >>> from funcnet import nn
        >>> nn.ReLU6().apply({}, {}, jnp.array([-1.0, 7.0]))[0]
        Array([0., 6.], dtype=float32)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.ReLU6.html
    """

    def __init__(self, inplace: bool = False):
        super().__init__(0.0, 6.0, inplace)

    def extra_repr(self) -> str:
        return self.shown()


class Hardsigmoid(InPlace):
    """Applies `relu6(x + 3) / 6` elementwise.

    Args:
        inplace: accepted for compatibility with torch but without effect, because arrays never change in place.

    Call: (*) -> (*).

    Example:
        >>> import jax.numpy as jnp
        >>> from funcnet import nn
        >>> nn.Hardsigmoid().apply({}, {}, jnp.array([-4.0, 0.0]))[0]
        Array([0. , 0.5], dtype=float32)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.Hardsigmoid.html
    """

    def forward(self, input: jax.Array) -> jax.Array:
        return F.hardsigmoid(input)

    def extra_repr(self) -> str:
        return ""  # torch does not show inplace here


class Hardswish(InPlace):
    """Applies `x · relu6(x + 3) / 6` elementwise.

    Args:
        inplace: accepted for compatibility with torch but without effect, because arrays never change in place.

    Call: (*) -> (*).

    Example:
        >>> import jax.numpy as jnp
        >>> from funcnet import nn
        >>> nn.Hardswish().apply({}, {}, jnp.array([-4.0, 4.0]))[0]
        Array([-0.,  4.], dtype=float32)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.Hardswish.html
    """

    def forward(self, input: jax.Array) -> jax.Array:
        return F.hardswish(input)

    def extra_repr(self) -> str:
        return ""  # torch does not show inplace here


class Hardshrink(Module):
    """Keeps each element x with |x| greater than `lambd`, and replaces all others by 0.

    Args:
        lambd: threshold for |x|, any number.

    Call: (*) -> (*).

    Example:
        >>> import jax.numpy as jnp
        >>> from funcnet import nn
        >>> nn.Hardshrink().apply({}, {}, jnp.array([-1.0, 0.5]))[0]
        Array([-1.,  0.], dtype=float32)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.Hardshrink.html
    """

    def __init__(self, lambd: float = 0.5):
        super().__init__()
        self.lambd = lambd

    def forward(self, input: jax.Array) -> jax.Array:
        return F.hardshrink(input, self.lambd)

    def extra_repr(self) -> str:
        return f"{self.lambd}"


class Softshrink(Module):
    """Moves each element x towards 0 by `lambd`. If |x| is at most `lambd`, the result is 0.

    Args:
        lambd: distance by which x moves, at least 0.

    Call: (*) -> (*).

    Example:
        >>> import jax.numpy as jnp
        >>> from funcnet import nn
        >>> nn.Softshrink().apply({}, {}, jnp.array([-2.0, 0.5]))[0]
        Array([-1.5,  0. ], dtype=float32)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.Softshrink.html
    """

    def __init__(self, lambd: float = 0.5):
        super().__init__()
        self.lambd = lambd

    def forward(self, input: jax.Array) -> jax.Array:
        return F.softshrink(input, self.lambd)

    def extra_repr(self) -> str:
        return f"{self.lambd}"
