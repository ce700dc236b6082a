"""The hard activations, as in torch/nn/modules/activation.py; their mathematics is in `functional/hard.py`."""

import warnings

import jax

from funcnet import functional as F
from funcnet.nn.activation import InPlace
from funcnet.nn.core.module import Module

__all__ = ["Hardshrink", "Hardsigmoid", "Hardswish", "Hardtanh", "ReLU6", "Softshrink"]


class Hardtanh(InPlace):
    """min(max(x, min_val), max_val), element by element.

    Args:
        min_val: the lower bound.
        max_val: the upper bound, above the lower one.
        inplace: accepted for compatibility with torch; arrays do not change in place.
        min_value, max_value: torch's old names of the bounds.

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
            warnings.warn("Hardtanh: min_value and max_value are old names; write min_val, max_val.", FutureWarning, 2)
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
    """min(max(x, 0), 6), element by element.

    Args:
        inplace: accepted for compatibility with torch; arrays do not change in place.

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
    """relu6(x + 3) / 6, element by element.

    Args:
        inplace: accepted for compatibility with torch; arrays do not change in place.

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
    """x · relu6(x + 3) / 6, element by element.

    Args:
        inplace: accepted for compatibility with torch; arrays do not change in place.

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
    """x where its magnitude is above lambd, 0 elsewhere.

    Args:
        lambd: any number.

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
    """x moved towards 0 by lambd, and 0 where |x| is at most lambd.

    Args:
        lambd: the distance, at least 0.

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
