"""ConvTranspose1d, ConvTranspose2d and ConvTranspose3d, as in torch/nn/modules/conv.py.

Letters: `B batch, C channels, L length, D depth, H height, W width, k kernel size (kD, kH and kW per dimension)`.
"""

from collections.abc import Sequence

import jax
from jax.typing import DTypeLike

from funcnet import functional as F
from funcnet.functional.checks import Ints
from funcnet.nn.conv import Convolution

__all__ = ["ConvTranspose", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"]


class ConvTranspose(Convolution):
    def __init__(
        self,
        in_channels: int,
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
        if padding_mode != "zeros":
            raise ValueError(
                f"{type(self).__name__}: only zero padding is supported; expected padding_mode='zeros', got "
                f"{padding_mode!r}. Omit the argument."
            )
        Convolution.__init__(
            self, in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, dtype=dtype
        )
        self.padding = self.sizes("padding", self.padding)
        self.output_padding = self.sizes("output_padding", output_padding)

    def weight_shape(self, in_channels: int) -> tuple[int, ...]:
        return in_channels, self.out_channels // self.groups, *self.kernel_size

    def forward(self, input: jax.Array, output_size: Sequence[int] | None = None) -> jax.Array:
        convolve = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[self.rank - 1]
        extra = self.output_padding if output_size is None else self._extra(input, output_size)
        return convolve(input, self.weight, self.bias, self.stride, self.padding, extra, self.groups, self.dilation)

    def _extra(self, input: jax.Array, output_size: Sequence[int]) -> tuple[int, ...]:
        """Return the output_padding for which the output has the size `output_size`. This size is given as spatial
        sizes or as a complete shape.
        """
        where, rank, wanted = type(self).__name__, self.rank, tuple(output_size)
        if len(wanted) == input.ndim:
            wanted = wanted[-rank:]
        if len(wanted) != rank:
            raise ValueError(
                f"{where}: output_size has the wrong length; expected {rank} spatial size(s), or {input.ndim} sizes "
                f"for an input of shape {input.shape}, got {tuple(output_size)}."
            )
        least = tuple(
            (n - 1) * s - 2 * p + d * (k - 1) + 1
            for n, s, p, d, k in zip(
                input.shape[-rank:], self.stride, self.padding, self.dilation, self.kernel_size, strict=True
            )
        )
        most = tuple(n + s - 1 for n, s in zip(least, self.stride, strict=True))
        if any(not low <= n <= high for low, n, high in zip(least, wanted, most, strict=True)):
            raise ValueError(
                f"{where}: output_size is impossible for this input; expected sizes from {least} to {most}, got "
                f"{wanted} for an input of shape {input.shape}. Change the stride, the padding or the kernel size."
            )
        return tuple(n - low for n, low in zip(wanted, least, strict=True))


class ConvTranspose1d(ConvTranspose):
    """Transposed convolution over one dimension, the derivative of a Conv1d with respect to its input.

    Args:
        in_channels: number of channels of the input.
        out_channels: number of channels of the output.
        kernel_size: size of the kernel, k.
        stride: distance in the output between neighbouring elements of the input.
        padding: number of elements cropped from each side of the output.
        output_padding: number of elements added to the right side of the output. output_padding must be smaller than
            stride or smaller than dilation.
        groups: number of groups into which the input channels and the output channels are split. Each group of output
            channels depends only on the corresponding group of input channels.
        bias: if True, add a learnable bias to each output channel.
        dilation: distance between the elements of the kernel.
        padding_mode: must be 'zeros'. padding_mode exists only so that the arguments have the same order as in torch.
        dtype: dtype of the params; float32 by default.

    Params: weight (in_channels, out_channels / groups, k) and bias (out_channels,), both drawn from U(±1/√fan_in) with
        fan_in = out_channels / groups · k.
    Call: (B, in_channels, L) -> (B, out_channels, L') with L' = (L - 1) · stride - 2 · padding + dilation · (k - 1) +
        output_padding + 1. B is optional. The optional input `output_size`, the spatial sizes or the complete shape of
        the output, replaces output_padding.

    Raises:
        ValueError: if no output_padding smaller than the stride gives `output_size`, or `padding_mode` is not 'zeros'.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from funcnet import nn
        >>> layer = nn.ConvTranspose1d(4, 2, 3, stride=2, padding=1)
        >>> params, state = layer.init(jax.random.key(0))
        >>> layer.apply(params, state, jnp.ones((1, 4, 3)), output_size=(6,))[0].shape
        (1, 2, 6)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.ConvTranspose1d.html
    """

    rank = 1


class ConvTranspose2d(ConvTranspose):
    """Transposed convolution over two dimensions, the derivative of a Conv2d with respect to its input.

    Args:
        in_channels, out_channels, kernel_size, stride, padding, output_padding, groups, bias, dilation, padding_mode,
            dtype: as in `ConvTranspose1d`. kernel_size, stride, padding, output_padding and dilation are one int for
            both dimensions, or (height, width).

    Params: weight (in_channels, out_channels / groups, kH, kW) and bias (out_channels,), both drawn from
        U(±1/√fan_in) with fan_in = out_channels / groups · kH · kW.
    Call: (B, in_channels, H, W) -> (B, out_channels, H', W'). B is optional. The optional input `output_size`, the
        spatial sizes or the complete shape of the output, replaces output_padding.

    Raises:
        ValueError: if no output_padding smaller than the stride gives `output_size`, or `padding_mode` is not 'zeros'.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from funcnet import nn
        >>> layer = nn.ConvTranspose2d(4, 2, 3, stride=2, padding=1)
        >>> params, state = layer.init(jax.random.key(0))
        >>> layer.apply(params, state, jnp.ones((1, 4, 3, 3)), output_size=(6, 6))[0].shape
        (1, 2, 6, 6)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.ConvTranspose2d.html
    """

    rank = 2


class ConvTranspose3d(ConvTranspose):
    """Transposed convolution over three dimensions, the derivative of a Conv3d with respect to its input.

    Args:
        in_channels, out_channels, kernel_size, stride, padding, output_padding, groups, bias, dilation, padding_mode,
            dtype: as in `ConvTranspose1d`. kernel_size, stride, padding, output_padding and dilation are one int for
            all dimensions, or (depth, height, width).

    Params: weight (in_channels, out_channels / groups, kD, kH, kW) and bias (out_channels,), both drawn from
        U(±1/√fan_in) with fan_in = out_channels / groups · kD · kH · kW.
    Call: (B, in_channels, D, H, W) -> (B, out_channels, D', H', W'). B is optional. The optional input `output_size`,
        the spatial sizes or the complete shape of the output, replaces output_padding.

    Raises:
        ValueError: if no output_padding smaller than the stride gives `output_size`, or `padding_mode` is not 'zeros'.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from funcnet import nn
        >>> layer = nn.ConvTranspose3d(4, 2, 3, stride=2, padding=1)
        >>> params, state = layer.init(jax.random.key(0))
        >>> layer.apply(params, state, jnp.ones((1, 4, 3, 3, 3)), output_size=(6, 6, 6))[0].shape
        (1, 2, 6, 6, 6)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.ConvTranspose3d.html
    """

    rank = 3
