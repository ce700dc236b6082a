"""Constant, zero, reflection, replication and circular padding, as in torch/nn/modules/padding.py.

Letters: `B batch, C channels, L length, D depth, H height, W width`. The batch dimension B is optional.
"""

from typing import ClassVar

import jax

from funcnet import functional as F
from funcnet.functional import checks
from funcnet.functional.checks import Ints
from funcnet.nn.module.module import Module

__all__ = [
    "CircularPad1d",
    "CircularPad2d",
    "CircularPad3d",
    "ConstantPad1d",
    "ConstantPad2d",
    "ConstantPad3d",
    "ReflectionPad1d",
    "ReflectionPad2d",
    "ReflectionPad3d",
    "ReplicationPad1d",
    "ReplicationPad2d",
    "ReplicationPad3d",
    "ZeroPad1d",
    "ZeroPad2d",
    "ZeroPad3d",
]


class _Pad(Module):
    rank: ClassVar[int]  # number of padded dimensions
    mode: ClassVar[str]

    def __init__(self, padding: Ints):
        super().__init__()
        self.padding = tuple(checks.entries(padding, 2 * self.rank))

    def forward(self, input: jax.Array) -> jax.Array:
        return F.pad(input, self.padding, self.mode)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class _ConstantPad(_Pad):
    mode = "constant"

    def __init__(self, padding: Ints, value: float):
        super().__init__(padding)
        self.value = value

    def forward(self, input: jax.Array) -> jax.Array:
        return F.pad(input, self.padding, self.mode, self.value)

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class _ZeroPad(_Pad):
    mode = "constant"


class _CircularPad(_Pad):
    mode = "circular"

    def forward(self, input: jax.Array) -> jax.Array:
        if input.ndim not in (self.rank + 1, self.rank + 2):
            raise ValueError(
                f"{type(self).__name__}: input has the wrong rank; expected {self.rank + 1} or {self.rank + 2} "
                f"dimensions, got shape {input.shape}."
            )
        return super().forward(input)


class ConstantPad1d(_ConstantPad):
    """Pads the input with a constant value.

    Args:
        padding: one int for both sides, or (left, right). Negative padding crops the input.
        value: value to fill the padding with.

    Call: (B, C, L) -> (B, C, L').

    Example:
        >>> import jax.numpy as jnp
        >>> from funcnet import nn
        >>> nn.ConstantPad1d((2, 1), 3.5).apply({}, {}, jnp.array([[1.0, 2.0, 3.0]]))[0]
        Array([[3.5, 3.5, 1. , 2. , 3. , 3.5]], dtype=float32)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.ConstantPad1d.html
    """

    rank = 1


class ConstantPad2d(_ConstantPad):
    """Pads the input with a constant value.

    Args:
        padding: one int for all sides, or (left, right, top, bottom). Negative padding crops the input.
        value: value to fill the padding with.

    Call: (B, C, H, W) -> (B, C, H', W').

    Example:
        >>> import jax.numpy as jnp
        >>> from funcnet import nn
        >>> nn.ConstantPad2d((1, 1, 2, 0), 3.5).apply({}, {}, jnp.ones((1, 2, 3, 4)))[0].shape
        (1, 2, 5, 6)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.ConstantPad2d.html
    """

    rank = 2


class ConstantPad3d(_ConstantPad):
    """Pads the input with a constant value.

    Args:
        padding: one int for all sides, or (left, right, top, bottom, front, back). Negative padding crops the input.
        value: value to fill the padding with.

    Call: (B, C, D, H, W) -> (B, C, D', H', W').

    Example:
        >>> import jax.numpy as jnp
        >>> from funcnet import nn
        >>> nn.ConstantPad3d((1, 1, 2, 0, 0, 1), 3.5).apply({}, {}, jnp.ones((1, 2, 3, 3, 4)))[0].shape
        (1, 2, 4, 5, 6)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.ConstantPad3d.html
    """

    rank = 3


class ZeroPad1d(_ZeroPad):
    """Pads the input with zeros.

    Args:
        padding: one int for both sides, or (left, right). Negative padding crops the input.

    Call: (B, C, L) -> (B, C, L').

    Example:
        >>> import jax.numpy as jnp
        >>> from funcnet import nn
        >>> nn.ZeroPad1d((2, 1)).apply({}, {}, jnp.array([[1.0, 2.0, 3.0]]))[0]
        Array([[0., 0., 1., 2., 3., 0.]], dtype=float32)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.ZeroPad1d.html
    """

    rank = 1


class ZeroPad2d(_ZeroPad):
    """Pads the input with zeros.

    Args:
        padding: one int for all sides, or (left, right, top, bottom). Negative padding crops the input.

    Call: (B, C, H, W) -> (B, C, H', W').

    Example:
        >>> import jax.numpy as jnp
        >>> from funcnet import nn
        >>> nn.ZeroPad2d((1, 1, 2, 0)).apply({}, {}, jnp.ones((1, 2, 3, 4)))[0].shape
        (1, 2, 5, 6)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.ZeroPad2d.html
    """

    rank = 2


class ZeroPad3d(_ZeroPad):
    """Pads the input with zeros.

    Args:
        padding: one int for all sides, or (left, right, top, bottom, front, back). Negative padding crops the input.

    Call: (B, C, D, H, W) -> (B, C, D', H', W').

    Example:
        >>> import jax.numpy as jnp
        >>> from funcnet import nn
        >>> nn.ZeroPad3d((1, 1, 2, 0, 0, 1)).apply({}, {}, jnp.ones((1, 2, 3, 3, 4)))[0].shape
        (1, 2, 4, 5, 6)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.ZeroPad3d.html
    """

    rank = 3


class _ReflectionPad(_Pad):
    mode = "reflect"


class ReflectionPad1d(_ReflectionPad):
    """Pads the input with its reflection, without repeating the edge values.

    Args:
        padding: one int for both sides, or (left, right). The padding on each side must be less than the size of the
            padded dimension. Negative padding crops the input.

    Call: (B, C, L) -> (B, C, L').

    Example:
        >>> import jax.numpy as jnp
        >>> from funcnet import nn
        >>> nn.ReflectionPad1d((2, 1)).apply({}, {}, jnp.array([[1.0, 2.0, 3.0]]))[0]
        Array([[3., 2., 1., 2., 3., 2.]], dtype=float32)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.ReflectionPad1d.html
    """

    rank = 1


class ReflectionPad2d(_ReflectionPad):
    """Pads the input with its reflection, without repeating the edge values.

    Args:
        padding: one int for all sides, or (left, right, top, bottom). The padding on each side must be less than the
            size of the padded dimension. Negative padding crops the input.

    Call: (B, C, H, W) -> (B, C, H', W').

    Example:
        >>> import jax.numpy as jnp
        >>> from funcnet import nn
        >>> nn.ReflectionPad2d((1, 1, 2, 0)).apply({}, {}, jnp.ones((1, 2, 3, 4)))[0].shape
        (1, 2, 5, 6)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.ReflectionPad2d.html
    """

    rank = 2


class ReflectionPad3d(_ReflectionPad):
    """Pads the input with its reflection, without repeating the edge values.

    Args:
        padding: one int for all sides, or (left, right, top, bottom, front, back). The padding on each side must be
            less than the size of the padded dimension. Negative padding crops the input.

    Call: (B, C, D, H, W) -> (B, C, D', H', W').

    Example:
        >>> import jax.numpy as jnp
        >>> from funcnet import nn
        >>> nn.ReflectionPad3d((1, 1, 2, 0, 0, 1)).apply({}, {}, jnp.ones((1, 2, 3, 3, 4)))[0].shape
        (1, 2, 4, 5, 6)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.ReflectionPad3d.html
    """

    rank = 3


class _ReplicationPad(_Pad):
    mode = "replicate"


class ReplicationPad1d(_ReplicationPad):
    """Pads the input by repeating its edge values.

    Args:
        padding: one int for both sides, or (left, right). Negative padding crops the input.

    Call: (B, C, L) -> (B, C, L').

    Example:
        >>> import jax.numpy as jnp
        >>> from funcnet import nn
        >>> nn.ReplicationPad1d((2, 1)).apply({}, {}, jnp.array([[1.0, 2.0, 3.0]]))[0]
        Array([[1., 1., 1., 2., 3., 3.]], dtype=float32)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.ReplicationPad1d.html
    """

    rank = 1


class ReplicationPad2d(_ReplicationPad):
    """Pads the input by repeating its edge values.

    Args:
        padding: one int for all sides, or (left, right, top, bottom). Negative padding crops the input.

    Call: (B, C, H, W) -> (B, C, H', W').

    Example:
        >>> import jax.numpy as jnp
        >>> from funcnet import nn
        >>> nn.ReplicationPad2d((1, 1, 2, 0)).apply({}, {}, jnp.ones((1, 2, 3, 4)))[0].shape
        (1, 2, 5, 6)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.ReplicationPad2d.html
    """

    rank = 2


class ReplicationPad3d(_ReplicationPad):
    """Pads the input by repeating its edge values.

    Args:
        padding: one int for all sides, or (left, right, top, bottom, front, back). Negative padding crops the input.

    Call: (B, C, D, H, W) -> (B, C, D', H', W').

    Example:
        >>> import jax.numpy as jnp
        >>> from funcnet import nn
        >>> nn.ReplicationPad3d((1, 1, 2, 0, 0, 1)).apply({}, {}, jnp.ones((1, 2, 3, 3, 4)))[0].shape
        (1, 2, 4, 5, 6)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.ReplicationPad3d.html
    """

    rank = 3


class CircularPad1d(_CircularPad):
    """Pads each end of the input with values from the opposite end.

    Args:
        padding: one int for both sides, or (left, right). The padding on each side must be at most the size of the
            padded dimension. Negative padding crops the input.

    Call: (B, C, L) -> (B, C, L').

    Example:
        >>> import jax.numpy as jnp
        >>> from funcnet import nn
        >>> nn.CircularPad1d((2, 1)).apply({}, {}, jnp.array([[1.0, 2.0, 3.0]]))[0]
        Array([[2., 3., 1., 2., 3., 1.]], dtype=float32)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.CircularPad1d.html
    """

    rank = 1


class CircularPad2d(_CircularPad):
    """Pads each end of the input with values from the opposite end.

    Args:
        padding: one int for all sides, or (left, right, top, bottom). The padding on each side must be at most the size
            of the padded dimension. Negative padding crops the input.

    Call: (B, C, H, W) -> (B, C, H', W').

    Example:
        >>> import jax.numpy as jnp
        >>> from funcnet import nn
        >>> nn.CircularPad2d((1, 1, 2, 0)).apply({}, {}, jnp.ones((1, 2, 3, 4)))[0].shape
        (1, 2, 5, 6)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.CircularPad2d.html
    """

    rank = 2


class CircularPad3d(_CircularPad):
    """Pads each end of the input with values from the opposite end.

    Args:
        padding: one int for all sides, or (left, right, top, bottom, front, back). The padding on each side must be at
            most the size of the padded dimension. Negative padding crops the input.

    Call: (B, C, D, H, W) -> (B, C, D', H', W').

    Example:
        >>> import jax.numpy as jnp
        >>> from funcnet import nn
        >>> nn.CircularPad3d((1, 1, 2, 0, 0, 1)).apply({}, {}, jnp.ones((1, 2, 3, 3, 4)))[0].shape
        (1, 2, 4, 5, 6)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.CircularPad3d.html
    """

    rank = 3
