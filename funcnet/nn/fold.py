"""Fold and Unfold, as in torch/nn/modules/fold.py.

Letters: `B batch, C channels, H height, W width, k kernel size, L blocks`. B may be missing.
"""

import jax

from funcnet import functional as F
from funcnet.functional.checks import Ints
from funcnet.nn.core.module import Module

__all__ = ["Fold", "Unfold"]


class Fold(Module):
    """Sums blocks into an image, each at the position where `Unfold` takes it.

    Args:
        output_size: of the image, (H, W); one number stands for both, here and below.
        kernel_size: of the blocks.
        dilation: steps between a block's elements.
        padding: the padding of the image on both sides, as in `Unfold`.
        stride: steps between blocks.

    Call: (B, C · kH · kW, L) -> (B, C, H, W).

    Example:
        >>> import jax.numpy as jnp
        >>> from funcnet import nn
        >>> nn.Fold((4, 5), (2, 2)).apply({}, {}, jnp.ones((1, 12, 12)))[0].shape
        (1, 3, 4, 5)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.Fold.html
    """

    def __init__(self, output_size: Ints, kernel_size: Ints, dilation: Ints = 1, padding: Ints = 0, stride: Ints = 1):
        super().__init__()
        self.output_size, self.kernel_size = output_size, kernel_size
        self.dilation, self.padding, self.stride = dilation, padding, stride

    def forward(self, input: jax.Array) -> jax.Array:
        return F.fold(input, self.output_size, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self) -> str:
        return (
            f"output_size={self.output_size}, kernel_size={self.kernel_size}, dilation={self.dilation}, "
            f"padding={self.padding}, stride={self.stride}"
        )


class Unfold(Module):
    """Every block that a sliding window sees, as a column.

    Args:
        kernel_size: of the blocks; one number stands for both dimensions, here and below.
        dilation: steps between a block's elements.
        padding: zeros on both sides.
        stride: steps between blocks.

    Call: (B, C, H, W) -> (B, C · kH · kW, L).

    Example:
        >>> import jax.numpy as jnp
        >>> from funcnet import nn
        >>> nn.Unfold((2, 3)).apply({}, {}, jnp.ones((2, 5, 3, 4)))[0].shape
        (2, 30, 4)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.Unfold.html
    """

    def __init__(self, kernel_size: Ints, dilation: Ints = 1, padding: Ints = 0, stride: Ints = 1):
        super().__init__()
        self.kernel_size, self.dilation, self.padding, self.stride = kernel_size, dilation, padding, stride

    def forward(self, input: jax.Array) -> jax.Array:
        return F.unfold(input, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, dilation={self.dilation}, padding={self.padding}, stride={self.stride}"
