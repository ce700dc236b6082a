"""PixelShuffle and PixelUnshuffle, as in torch/nn/modules/pixelshuffle.py.

Letters: `C channels, H height, W width`.
"""

import jax

from funcnet import functional as F
from funcnet.nn.module.module import Module

__all__ = ["PixelShuffle", "PixelUnshuffle"]


class PixelShuffle(Module):
    """Rearranges the values of every r² channels into blocks of r × r pixels of one channel.

    Args:
        upscale_factor: factor r by which height and width grow.

    Call: (*, C · r², H, W) -> (*, C, H · r, W · r).

    Example:
        >>> import jax.numpy as jnp
        >>> from funcnet import nn
        >>> nn.PixelShuffle(3).apply({}, {}, jnp.ones((1, 9, 4, 4)))[0].shape
        (1, 1, 12, 12)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.PixelShuffle.html
    """

    def __init__(self, upscale_factor: int):
        super().__init__()
        self.upscale_factor = upscale_factor

    def forward(self, input: jax.Array) -> jax.Array:
        return F.pixel_shuffle(input, self.upscale_factor)

    def extra_repr(self) -> str:
        return f"upscale_factor={self.upscale_factor}"


class PixelUnshuffle(Module):
    """Rearranges each channel's blocks of r × r pixels into r² channels. This is the inverse of `PixelShuffle`.

    Args:
        downscale_factor: factor r by which height and width shrink.

    Call: (*, C, H · r, W · r) -> (*, C · r², H, W).

    Example:
        >>> import jax.numpy as jnp
        >>> from funcnet import nn
        >>> nn.PixelUnshuffle(3).apply({}, {}, jnp.ones((1, 1, 12, 12)))[0].shape
        (1, 9, 4, 4)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.PixelUnshuffle.html
    """

    def __init__(self, downscale_factor: int):
        super().__init__()
        self.downscale_factor = downscale_factor

    def forward(self, input: jax.Array) -> jax.Array:
        return F.pixel_unshuffle(input, self.downscale_factor)

    def extra_repr(self) -> str:
        return f"downscale_factor={self.downscale_factor}"
