"""Max unpooling, as in torch/nn/modules/pooling.py.

Letters: `B batch, C channels, L length, D depth, H height, W width`. The batch dimension B is optional.
"""

from collections.abc import Sequence
from typing import ClassVar

import jax

from funcnet import functional as F
from funcnet.functional import checks
from funcnet.functional.checks import Ints
from funcnet.nn.module.module import Module

__all__ = ["MaxUnpool1d", "MaxUnpool2d", "MaxUnpool3d"]


class _MaxUnpool(Module):
    rank: ClassVar[int]

    def __init__(self, kernel_size: Ints, stride: Ints | None = None, padding: Ints = 0):
        super().__init__()
        sizes = (kernel_size, kernel_size if stride is None else stride, padding)
        self.kernel_size, self.stride, self.padding = (checks.entries(size, self.rank) for size in sizes)

    def forward(self, input: jax.Array, indices: jax.Array, output_size: Sequence[int] | None = None) -> jax.Array:
        unpool = (F.max_unpool1d, F.max_unpool2d, F.max_unpool3d)[self.rank - 1]
        return unpool(input, indices, self.kernel_size, self.stride, self.padding, output_size)

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class MaxUnpool1d(_MaxUnpool):
    """Puts each maximum back where ``MaxPool1d(…, return_indices=True)`` found it, and fills the rest with zeros.

    Args:
        kernel_size: kernel size of the pooling to undo.
        stride: stride of the pooling to undo, the kernel size by default.
        padding: padding of the pooling to undo.

    Call: (B, C, L), indices of the same shape -> (B, C, L'), with `L' = (L - 1) · stride - 2 · padding + kernel_size`.
        Inputs of several lengths are pooled to the same length L. The optional third input, `output_size`, is the
        length to restore.

    Example:
        >>> import jax.numpy as jnp
        >>> from funcnet import nn
        >>> (y, indices), _ = nn.MaxPool1d(2, return_indices=True).apply({}, {}, jnp.array([[[1.0, 3.0, 2.0, 0.0]]]))
        >>> nn.MaxUnpool1d(2).apply({}, {}, y, indices)[0]
        Array([[[0., 3., 2., 0.]]], dtype=float32)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.MaxUnpool1d.html
    """

    rank = 1


class MaxUnpool2d(_MaxUnpool):
    """Puts each maximum back where ``MaxPool2d(…, return_indices=True)`` found it, and fills the rest with zeros.

    Args:
        kernel_size, stride, padding: as in `MaxUnpool1d`. kernel_size, stride and padding are an int for both
            dimensions, or (height, width).

    Call: (B, C, H, W), indices of the same shape -> (B, C, H', W'). The optional third input, `output_size`, is the
        size to restore.

    Example:
        >>> import jax.numpy as jnp
        >>> from funcnet import nn
        >>> (y, indices), _ = nn.MaxPool2d(2, return_indices=True).apply({}, {}, jnp.ones((1, 2, 5, 4)))
        >>> nn.MaxUnpool2d(2).apply({}, {}, y, indices, output_size=(5, 4))[0].shape
        (1, 2, 5, 4)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.MaxUnpool2d.html
    """

    rank = 2


class MaxUnpool3d(_MaxUnpool):
    """Puts each maximum back where ``MaxPool3d(…, return_indices=True)`` found it, and fills the rest with zeros.

    Args:
        kernel_size, stride, padding: as in `MaxUnpool1d`. kernel_size, stride and padding are an int for all
            dimensions, or (depth, height, width).

    Call: (B, C, D, H, W), indices of the same shape -> (B, C, D', H', W'). The optional third input, `output_size`, is
        the size to restore.

    Example:
        >>> import jax.numpy as jnp
        >>> from funcnet import nn
        >>> (y, indices), _ = nn.MaxPool3d(2, return_indices=True).apply({}, {}, jnp.ones((1, 2, 4, 4, 4)))
        >>> nn.MaxUnpool3d(2).apply({}, {}, y, indices)[0].shape
        (1, 2, 4, 4, 4)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.MaxUnpool3d.html
    """

    rank = 3
