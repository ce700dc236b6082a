"""Convolutions that infer in_channels from the example input given to `init`, as in torch/nn/modules/conv.py.

Letters: `B batch, C channels, L length, D depth, H height, W width`. The batch dimension B is always optional.
"""

import math

import jax
from jax.typing import DTypeLike

from funcnet.functional.checks import Ints
from funcnet.nn.conv import Conv1d, Conv2d, Conv3d, Convolution
from funcnet.nn.conv_transpose import ConvTranspose, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from funcnet.nn.core import abstract_run
from funcnet.nn.core.parameter import Parameter

__all__ = [
    "LazyConv1d",
    "LazyConv2d",
    "LazyConv3d",
    "LazyConvTranspose1d",
    "LazyConvTranspose2d",
    "LazyConvTranspose3d",
]


class _Lazy(Convolution):
    """Base class of lazy convolutions, whose parameters get their shapes from an example input."""

    def _forget_shapes(self) -> None:
        self.weight = Parameter(None, self.weight.init, dtype=self.weight.dtype)
        if self.bias is not None:
            self.bias = Parameter(None, abstract_run.init_bias, dtype=self.bias.dtype)

    def lazy_shapes(self, input: jax.Array, *args: object, **kwargs: object) -> dict[str, tuple[int, ...]]:
        where, rank = type(self).__name__, self.rank
        if input.ndim not in (rank + 1, rank + 2):
            raise ValueError(
                f"{where}: input has the wrong rank; expected {rank + 2} dimensions (batch, channel, *spatial) or "
                f"{rank + 1} without a batch dimension, got shape {input.shape}."
            )
        channels = input.shape[-rank - 1]
        if channels % self.groups:
            raise ValueError(
                f"{where}: in_channels must be divisible by groups; got {channels} channels in an input of shape "
                f"{input.shape} and groups={self.groups}."
            )
        shape = self.weight_shape(channels)
        return {"weight": shape, "bias": abstract_run.BiasShape((self.out_channels,), math.prod(shape[1:]))}


class _LazyConv(_Lazy):
    def __init__(
        self,
        out_channels: int,
        kernel_size: Ints,
        stride: Ints = 1,
        padding: Ints | str = 0,
        dilation: Ints = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        *,
        dtype: DTypeLike | None = None,
    ):
        super().__init__(
            0, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode, dtype=dtype
        )
        self._forget_shapes()


class _LazyConvTranspose(_Lazy, ConvTranspose):
    def __init__(
        self,
        out_channels: int,
        kernel_size: Ints,
        stride: Ints = 1,
        padding: Ints = 0,
        output_padding: Ints = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Ints = 1,
        padding_mode: str = "zeros",
        *,
        dtype: DTypeLike | None = None,
    ):
        super().__init__(
            0,
            out_channels,
            kernel_size,
            stride,
            padding,
            output_padding,
            groups,
            bias,
            dilation,
            padding_mode,
            dtype=dtype,
        )
        self._forget_shapes()


class LazyConv1d(_LazyConv, Conv1d):
    """A Conv1d that infers in_channels from the example input given to `init`.

    Args:
        out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode, dtype: as in
            `Conv1d`.

    Params: as in `Conv1d`, with shapes that `init(rng, *example_inputs)` infers from an example input.
    Call: (B, C, L) -> (B, out_channels, L').

    Differs from torch: the layer stays a LazyConv1d and does not become a Conv1d, because running a description does
        not change it.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from funcnet import nn
        >>> params, state = nn.LazyConv1d(8, 5).init(jax.random.key(0), jnp.ones((2, 3, 9)))
        >>> params["weight"].shape
        (8, 3, 5)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.LazyConv1d.html
    """


class LazyConv2d(_LazyConv, Conv2d):
    """A Conv2d that infers in_channels from the example input given to `init`.

    Args:
        out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode, dtype: as in
            `Conv2d`.

    Params: as in `Conv2d`, with shapes that `init(rng, *example_inputs)` infers from an example input.
    Call: (B, C, H, W) -> (B, out_channels, H', W').

    Differs from torch: the layer stays a LazyConv2d and does not become a Conv2d, because running a description does
        not change it.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from funcnet import nn
        >>> params, state = nn.LazyConv2d(8, 5).init(jax.random.key(0), jnp.ones((2, 3, 9, 9)))
        >>> params["weight"].shape
        (8, 3, 5, 5)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.LazyConv2d.html
    """


class LazyConv3d(_LazyConv, Conv3d):
    """A Conv3d that infers in_channels from the example input given to `init`.

    Args:
        out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode, dtype: as in
            `Conv3d`.

    Params: as in `Conv3d`, with shapes that `init(rng, *example_inputs)` infers from an example input.
    Call: (B, C, D, H, W) -> (B, out_channels, D', H', W').

    Differs from torch: the layer stays a LazyConv3d and does not become a Conv3d, because running a description does
        not change it.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from funcnet import nn
        >>> params, state = nn.LazyConv3d(8, 5).init(jax.random.key(0), jnp.ones((2, 3, 9, 9, 9)))
        >>> params["weight"].shape
        (8, 3, 5, 5, 5)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.LazyConv3d.html
    """


class LazyConvTranspose1d(_LazyConvTranspose, ConvTranspose1d):
    """A ConvTranspose1d that infers in_channels from the example input given to `init`.

    Args:
        out_channels, kernel_size, stride, padding, output_padding, groups, bias, dilation, padding_mode, dtype: as in
            `ConvTranspose1d`.

    Params: as in `ConvTranspose1d`, with shapes that `init(rng, *example_inputs)` infers from an example input.
    Call: (B, C, L) -> (B, out_channels, L').

    Differs from torch: the layer stays a LazyConvTranspose1d and does not become a ConvTranspose1d, because running a
        description does not change it.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from funcnet import nn
        >>> params, state = nn.LazyConvTranspose1d(8, 5).init(jax.random.key(0), jnp.ones((2, 3, 9)))
        >>> params["weight"].shape
        (3, 8, 5)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.LazyConvTranspose1d.html
    """


class LazyConvTranspose2d(_LazyConvTranspose, ConvTranspose2d):
    """A ConvTranspose2d that infers in_channels from the example input given to `init`.

    Args:
        out_channels, kernel_size, stride, padding, output_padding, groups, bias, dilation, padding_mode, dtype: as in
            `ConvTranspose2d`.

    Params: as in `ConvTranspose2d`, with shapes that `init(rng, *example_inputs)` infers from an example input.
    Call: (B, C, H, W) -> (B, out_channels, H', W').

    Differs from torch: the layer stays a LazyConvTranspose2d and does not become a ConvTranspose2d, because running a
        description does not change it.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from funcnet import nn
        >>> params, state = nn.LazyConvTranspose2d(8, 5).init(jax.random.key(0), jnp.ones((2, 3, 9, 9)))
        >>> params["weight"].shape
        (3, 8, 5, 5)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.LazyConvTranspose2d.html
    """


class LazyConvTranspose3d(_LazyConvTranspose, ConvTranspose3d):
    """A ConvTranspose3d that infers in_channels from the example input given to `init`.

    Args:
        out_channels, kernel_size, stride, padding, output_padding, groups, bias, dilation, padding_mode, dtype: as in
            `ConvTranspose3d`.

    Params: as in `ConvTranspose3d`, with shapes that `init(rng, *example_inputs)` infers from an example input.
    Call: (B, C, D, H, W) -> (B, out_channels, D', H', W').

    Differs from torch: the layer stays a LazyConvTranspose3d and does not become a ConvTranspose3d, because running a
        description does not change it.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from funcnet import nn
        >>> params, state = nn.LazyConvTranspose3d(8, 5).init(jax.random.key(0), jnp.ones((2, 3, 9, 9, 9)))
        >>> params["weight"].shape
        (3, 8, 5, 5, 5)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.LazyConvTranspose3d.html
    """
