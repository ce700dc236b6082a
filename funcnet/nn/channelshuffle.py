"""ChannelShuffle, as in torch/nn/modules/channelshuffle.py. Letters: `B batch, C channels`."""

import jax

from funcnet import functional as F
from funcnet.nn.module.module import Module

__all__ = ["ChannelShuffle"]


class ChannelShuffle(Module):
    """Reorders the channels so that channels of different groups alternate. Each group of the next grouped convolution
    then gets channels from every group.

    Args:
        groups: number of groups, which must divide C.

    Call: (B, C, *) -> the same shape.

    Example:
        >>> import jax.numpy as jnp
        >>> from funcnet import nn
        >>> nn.ChannelShuffle(2).apply({}, {}, jnp.arange(4).reshape(1, 4, 1))[0].ravel()
        Array([0, 2, 1, 3], dtype=int32)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.ChannelShuffle.html
    """

    def __init__(self, groups: int):
        super().__init__()
        self.groups = groups

    def forward(self, input: jax.Array) -> jax.Array:
        return F.channel_shuffle(input, self.groups)

    def extra_repr(self) -> str:
        return f"groups={self.groups}"
