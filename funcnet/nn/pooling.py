"""Max and average pooling, as in torch/nn/modules/pooling.py.

Letters: `B batch, C channels, L length, D depth, H height, W width`. The batch dimension B is optional.
"""

from collections.abc import Sequence
from typing import Any, ClassVar

import jax

from funcnet import functional as F
from funcnet.functional.checks import Ints
from funcnet.nn.module.module import Module

__all__ = ["AvgPool1d", "AvgPool2d", "AvgPool3d", "MaxPool1d", "MaxPool2d", "MaxPool3d"]


class _MaxPool(Module):
    rank: ClassVar[int]

    def __init__(
        self,
        kernel_size: Ints,
        stride: Ints | None = None,
        padding: Ints = 0,
        dilation: Ints = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ):
        super().__init__()
        self.kernel_size, self.stride = kernel_size, kernel_size if stride is None else stride
        self.padding, self.dilation = padding, dilation
        self.return_indices, self.ceil_mode = return_indices, ceil_mode

    def forward(self, input: jax.Array) -> Any:
        pool = (F.max_pool1d, F.max_pool2d, F.max_pool3d)[self.rank - 1]
        window = (self.kernel_size, self.stride, self.padding, self.dilation)
        return pool(input, *window, ceil_mode=self.ceil_mode, return_indices=self.return_indices)

    def extra_repr(self) -> str:
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, "
            f"dilation={self.dilation}, ceil_mode={self.ceil_mode}"
        )


class MaxPool1d(_MaxPool):
    """Max pooling, which takes the largest element of each window.

    Args:
        kernel_size: size of the window.
        stride: step between windows, the kernel size by default.
        padding: number of -inf entries added on each side, at most half the kernel size.
        dilation: step between the elements of a window.
        return_indices: if True, also return the indices of the maxima, in the form that `MaxUnpool1d` expects.
        ceil_mode: if True, the last window may extend past the end of the input.

    Call: (B, C, L) -> (B, C, L'). With return_indices, the result is a tuple (maxima, indices) of two arrays of
        this shape. The indices of MaxPool2d and MaxPool3d refer to the flattened spatial dimensions.

    Differs from torch: the indices are int32, not int64, unless JAX's x64 mode is enabled.

    Example:
        >>> import jax.numpy as jnp
        >>> from funcnet import nn
        >>> nn.MaxPool1d(2).apply({}, {}, jnp.array([[[1.0, 3.0, 2.0, 0.0]]]))[0]
        Array([[[3., 2.]]], dtype=float32)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.MaxPool1d.html
    """

    rank = 1


class MaxPool2d(_MaxPool):
    """Max pooling, which takes the largest element of each window. If several elements are equally large, the first one
    gets the gradient.

    Args:
        kernel_size, stride, padding, dilation, return_indices, ceil_mode: as in `MaxPool1d`. kernel_size, stride,
            padding and dilation are one int for both dimensions, or (height, width).

    Call: (B, C, H, W) -> (B, C, H', W').

    Example:
        >>> import jax.numpy as jnp
        >>> from funcnet import nn
        >>> nn.MaxPool2d(3, stride=2, padding=1).apply({}, {}, jnp.ones((1, 2, 8, 8)))[0].shape
        (1, 2, 4, 4)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.MaxPool2d.html
    """

    rank = 2


class MaxPool3d(_MaxPool):
    """Max pooling, which takes the largest element of each window. If several elements are equally large, the first one
    gets the gradient.

    Args:
        kernel_size, stride, padding, dilation, return_indices, ceil_mode: as in `MaxPool1d`. kernel_size, stride,
            padding and dilation are one int for all dimensions, or (depth, height, width).

    Call: (B, C, D, H, W) -> (B, C, D', H', W').

    Example:
        >>> import jax.numpy as jnp
        >>> from funcnet import nn
        >>> nn.MaxPool3d(2).apply({}, {}, jnp.ones((1, 2, 4, 4, 4)))[0].shape
        (1, 2, 2, 2, 2)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.MaxPool3d.html
    """

    rank = 3


class _AvgPool(Module):
    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool1d(_AvgPool):
    """Average pooling, which takes the mean of each window.

    Args:
        kernel_size: size of the window.
        stride: step between windows, the kernel size by default.
        padding: number of zeros added on each side, at most half the kernel size.
        ceil_mode: if True, the last window may extend past the end of the input.
        count_include_pad: if True, the divisor of each mean counts the padding in the window too.

    Call: (B, C, L) -> (B, C, L').

    Example:
        >>> import jax.numpy as jnp
        >>> from funcnet import nn
        >>> nn.AvgPool1d(2).apply({}, {}, jnp.array([[[1.0, 3.0, 2.0, 0.0]]]))[0]
        Array([[[2., 1.]]], dtype=float32)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.AvgPool1d.html
    """

    def __init__(
        self,
        kernel_size: Ints,
        stride: Ints | None = None,
        padding: Ints = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ):
        super().__init__()
        sizes = (kernel_size, kernel_size if stride is None else stride, padding)
        self.kernel_size, self.stride, self.padding = (tuple(s) if isinstance(s, Sequence) else (s,) for s in sizes)
        self.ceil_mode, self.count_include_pad = ceil_mode, count_include_pad

    def forward(self, input: jax.Array) -> jax.Array:
        return F.avg_pool1d(input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad)


class _AvgPoolDivided(_AvgPool):
    rank: ClassVar[int]

    def __init__(
        self,
        kernel_size: Ints,
        stride: Ints | None = None,
        padding: Ints = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ):
        super().__init__()
        self.kernel_size, self.stride = kernel_size, kernel_size if stride is None else stride
        self.padding, self.ceil_mode = padding, ceil_mode
        self.count_include_pad, self.divisor_override = count_include_pad, divisor_override

    def forward(self, input: jax.Array) -> jax.Array:
        pool = (F.avg_pool2d, F.avg_pool3d)[self.rank - 2]
        return pool(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
            self.divisor_override,
        )


class AvgPool2d(_AvgPoolDivided):
    """Average pooling, which takes the mean of each window.

    Args:
        kernel_size, stride, padding, ceil_mode, count_include_pad: as in `AvgPool1d`. kernel_size, stride and padding
            are one int for both dimensions, or (height, width).
        divisor_override: divisor of each mean, in place of the size of the window.

    Call: (B, C, H, W) -> (B, C, H', W').

    Example:
        >>> import jax.numpy as jnp
        >>> from funcnet import nn
        >>> nn.AvgPool2d(2).apply({}, {}, jnp.ones((1, 2, 4, 6)))[0].shape
        (1, 2, 2, 3)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.AvgPool2d.html
    """

    rank = 2


class AvgPool3d(_AvgPoolDivided):
    """Average pooling, which takes the mean of each window.

    Args:
        kernel_size, stride, padding, ceil_mode, count_include_pad: as in `AvgPool1d`. kernel_size, stride and padding
            are one int for all dimensions, or (depth, height, width).
        divisor_override: divisor of each mean, in place of the size of the window.

    Call: (B, C, D, H, W) -> (B, C, D', H', W').

    Example:
        >>> import jax.numpy as jnp
        >>> from funcnet import nn
        >>> nn.AvgPool3d(2).apply({}, {}, jnp.ones((1, 2, 4, 4, 6)))[0].shape
        (1, 2, 2, 2, 3)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.AvgPool3d.html
    """

    rank = 3
