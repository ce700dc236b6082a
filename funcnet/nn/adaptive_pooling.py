"""Pooling to a given output size, as in torch/nn/modules/pooling.py.

Letters: `B batch, C channels, L length, D depth, H height, W width`. The batch dimension B is always optional.
"""

from typing import Any, ClassVar

import jax

from funcnet import functional as F
from funcnet.functional.adaptive_pooling import Sizes
from funcnet.nn.module.module import Module

__all__ = [
    "AdaptiveAvgPool1d",
    "AdaptiveAvgPool2d",
    "AdaptiveAvgPool3d",
    "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d",
    "AdaptiveMaxPool3d",
]


class _AdaptiveAvgPool(Module):
    rank: ClassVar[int]

    def __init__(self, output_size: Sizes):
        super().__init__()
        self.output_size = output_size

    def forward(self, input: jax.Array) -> jax.Array:
        pool = (F.adaptive_avg_pool1d, F.adaptive_avg_pool2d, F.adaptive_avg_pool3d)[self.rank - 1]
        return pool(input, self.output_size)

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class AdaptiveAvgPool1d(_AdaptiveAvgPool):
    """Divides an input of any length into `output_size` bins, and returns the mean of each bin. Bin i covers the
    positions from ⌊i·L/n⌋ to ⌈(i + 1)·L/n⌉ - 1.

    Args:
        output_size: length of the output, n.

    Call: (B, C, L) -> (B, C, n).

    Example:
        >>> import jax.numpy as jnp
        >>> from funcnet import nn
        >>> nn.AdaptiveAvgPool1d(2).apply({}, {}, jnp.array([[[1.0, 2.0, 6.0]]]))[0]
        Array([[[1.5, 4. ]]], dtype=float32)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.AdaptiveAvgPool1d.html
    """

    rank = 1


class AdaptiveAvgPool2d(_AdaptiveAvgPool):
    """Divides an input of any size into a grid of `output_size` bins, and returns the mean of each bin.

    Args:
        output_size: an int for both dimensions, or (height, width). None in place of a size keeps the size of the
            input.

    Call: (B, C, H, W) -> (B, C, *output_size).

    Example:
        >>> import jax.numpy as jnp
        >>> from funcnet import nn
        >>> nn.AdaptiveAvgPool2d((1, None)).apply({}, {}, jnp.ones((2, 3, 7, 5)))[0].shape
        (2, 3, 1, 5)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.AdaptiveAvgPool2d.html
    """

    rank = 2


class AdaptiveAvgPool3d(_AdaptiveAvgPool):
    """Divides an input of any size into a grid of `output_size` bins, and returns the mean of each bin.

    Args:
        output_size: an int for all dimensions, or (depth, height, width). None in place of a size keeps the size of the
            input.

    Call: (B, C, D, H, W) -> (B, C, *output_size).

    Example:
        >>> import jax.numpy as jnp
        >>> from funcnet import nn
        >>> nn.AdaptiveAvgPool3d(2).apply({}, {}, jnp.ones((2, 3, 4, 5, 6)))[0].shape
        (2, 3, 2, 2, 2)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.AdaptiveAvgPool3d.html
    """

    rank = 3


class _AdaptiveMaxPool(Module):
    rank: ClassVar[int]

    def __init__(self, output_size: Sizes, return_indices: bool = False):
        super().__init__()
        self.output_size, self.return_indices = output_size, return_indices

    def forward(self, input: jax.Array) -> Any:
        pool = (F.adaptive_max_pool1d, F.adaptive_max_pool2d, F.adaptive_max_pool3d)[self.rank - 1]
        return pool(input, self.output_size, self.return_indices)

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class AdaptiveMaxPool1d(_AdaptiveMaxPool):
    """Divides an input of any length into `output_size` bins, and returns the maximum of each bin. Bin i covers the
    positions from ⌊i·L/n⌋ to ⌈(i + 1)·L/n⌉ - 1.

    Args:
        output_size: length of the output, n.
        return_indices: if True, also return the indices of the maxima, which refer to the flattened spatial dimensions.

    Call: (B, C, L) -> (B, C, n), or with return_indices a tuple (maxima, indices) of two arrays of this shape.

    Differs from torch: the indices are int32, not int64, unless JAX's x64 mode is enabled.

    Example:
        >>> import jax.numpy as jnp
        >>> from funcnet import nn
        >>> nn.AdaptiveMaxPool1d(2).apply({}, {}, jnp.array([[[1.0, 2.0, 6.0]]]))[0]
        Array([[[2., 6.]]], dtype=float32)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.AdaptiveMaxPool1d.html
    """

    rank = 1


class AdaptiveMaxPool2d(_AdaptiveMaxPool):
    """Divides an input of any size into a grid of `output_size` bins, and returns the maximum of each bin.

    Args:
        output_size: an int for both dimensions, or (height, width). None in place of a size keeps the size of the
            input.
        return_indices: as in `AdaptiveMaxPool1d`.

    Call: (B, C, H, W) -> (B, C, *output_size), or with return_indices a tuple (maxima, indices) of two
        arrays of this shape.

    Example:
        >>> import jax.numpy as jnp
        >>> from funcnet import nn
        >>> nn.AdaptiveMaxPool2d((1, None)).apply({}, {}, jnp.ones((2, 3, 7, 5)))[0].shape
        (2, 3, 1, 5)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.AdaptiveMaxPool2d.html
    """

    rank = 2


class AdaptiveMaxPool3d(_AdaptiveMaxPool):
    """Divides an input of any size into a grid of `output_size` bins, and returns the maximum of each bin.

    Args:
        output_size: an int for all dimensions, or (depth, height, width). None in place of a size keeps the size of the
            input.
        return_indices: as in `AdaptiveMaxPool1d`.

    Call: (B, C, D, H, W) -> (B, C, *output_size), or with return_indices a tuple (maxima, indices) of two
        arrays of this shape.

    Example:
        >>> import jax.numpy as jnp
        >>> from funcnet import nn
        >>> nn.AdaptiveMaxPool3d(2).apply({}, {}, jnp.ones((2, 3, 4, 5, 6)))[0].shape
        (2, 3, 2, 2, 2)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.AdaptiveMaxPool3d.html
    """

    rank = 3
