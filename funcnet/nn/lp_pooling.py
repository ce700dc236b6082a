"""Power-average pooling, as in torch/nn/modules/pooling.py.

Letters: `B batch, C channels, L length, D depth, H height, W width`. The batch dimension B is optional.
"""

from typing import ClassVar

import jax

from funcnet import functional as F
from funcnet.functional.checks import Ints
from funcnet.nn.module.module import Module

__all__ = ["LPPool1d", "LPPool2d", "LPPool3d"]


class _LPPool(Module):
    rank: ClassVar[int]

    def __init__(self, norm_type: float, kernel_size: Ints, stride: Ints | None = None, ceil_mode: bool = False):
        super().__init__()
        self.norm_type, self.kernel_size, self.stride, self.ceil_mode = norm_type, kernel_size, stride, ceil_mode

    def forward(self, input: jax.Array) -> jax.Array:
        pool = (F.lp_pool1d, F.lp_pool2d, F.lp_pool3d)[self.rank - 1]
        return pool(input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode)

    def extra_repr(self) -> str:
        return (
            f"norm_type={self.norm_type}, kernel_size={self.kernel_size}, stride={self.stride}, "
            f"ceil_mode={self.ceil_mode}"
        )


class LPPool1d(_LPPool):
    """Power-average pooling ``(Σ x^p)^(1/p)`` over each window. The formula raises x itself, not |x|, to the power p.

    Args:
        norm_type: the exponent p.
        kernel_size: size of the window.
        stride: step between windows, the kernel size by default.
        ceil_mode: if True, the last window may extend past the end of the input.

    Call: (B, C, L) -> (B, C, L').

    Example:
        >>> import jax.numpy as jnp
        >>> from funcnet import nn
        >>> nn.LPPool1d(2, 2).apply({}, {}, jnp.array([[[3.0, 4.0, 0.0, 2.0]]]))[0]
        Array([[[5., 2.]]], dtype=float32)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.LPPool1d.html
    """

    rank = 1


class LPPool2d(_LPPool):
    """Power-average pooling ``(Σ x^p)^(1/p)`` over each window of two dimensions.

    Args:
        norm_type, kernel_size, stride, ceil_mode: as in `LPPool1d`. kernel_size and stride are one int for both
            dimensions, or (height, width).

    Call: (B, C, H, W) -> (B, C, H', W').

    Example:
        >>> import jax.numpy as jnp
        >>> from funcnet import nn
        >>> nn.LPPool2d(2, 2).apply({}, {}, jnp.ones((1, 2, 4, 6)))[0].shape
        (1, 2, 2, 3)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.LPPool2d.html
    """

    rank = 2


class LPPool3d(_LPPool):
    """Power-average pooling ``(Σ x^p)^(1/p)`` over each window of three dimensions.

    Args:
        norm_type, kernel_size, stride, ceil_mode: as in `LPPool1d`. kernel_size and stride are one int for all
            dimensions, or (depth, height, width).

    Call: (B, C, D, H, W) -> (B, C, D', H', W').

    Example:
        >>> import jax.numpy as jnp
        >>> from funcnet import nn
        >>> nn.LPPool3d(2, 2).apply({}, {}, jnp.ones((1, 2, 4, 4, 6)))[0].shape
        (1, 2, 2, 2, 3)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.LPPool3d.html
    """

    rank = 3
