"""Fold and Unfold, as in torch/nn/modules/fold.py.

Letters: `B batch, C channels, H height, W width, kH and kW kernel size, L blocks`. The batch dimension B is optional.
"""

import jax

from funcnet import functional as F
from funcnet.functional.checks import Ints
from funcnet.nn.module.module import Module

__all__ = ["Fold", "Unfold"]


class Fold(Module):
    """Sums blocks into an image. Each block is added at the position from which `Unfold` would extract it.

    Args:
        output_size: size of the image, (H, W). Every argument of Fold may be a single int for both dimensions.
        kernel_size: size of the blocks.
        dilation: distance between the elements of a block.
        padding: number of zeros that `Unfold` would add on each side of the image.
        stride: distance between neighbouring blocks.

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
    """Extracts each block that a sliding window covers, and returns the blocks as columns.

    Args:
        kernel_size: size of the blocks. Every argument of Unfold may be a single int for both dimensions.
        dilation: distance between the elements of a block.
        padding: number of zeros added on each side.
        stride: distance between neighbouring blocks.

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
