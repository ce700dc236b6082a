"""Conv1d, Conv2d and Conv3d, as in torch/nn/modules/conv.py.

Letters: `B batch, C channels, L length, D depth, H height, W width, k kernel size (kD, kH and kW per dimension)`.
"""

import math
from typing import Any, ClassVar

import jax
from jax.typing import DTypeLike

from funcnet import functional as F
from funcnet.functional import checks
from funcnet.functional.checks import Ints
from funcnet.nn import init
from funcnet.nn.core.parameter import Parameter
from funcnet.nn.module.module import Module
from funcnet.nn.module.sharding import rules

__all__ = ["Conv1d", "Conv2d", "Conv3d", "Convolution"]


class Convolution(Module):
    sharding_rules = rules({"weight": (("tensor", "fsdp"),), "bias": ("tensor",)})
    rank: ClassVar[int]  # number of spatial dimensions
    output_padding: tuple[int, ...] = ()  # used by transposed convolutions
    weight: Any
    bias: Any
    padding: Any  # ints, "same" or "valid"

    def __init__(
        self,
        in_channels: int,
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
        super().__init__()
        self.in_channels, self.out_channels, self.groups = in_channels, out_channels, groups
        self.kernel_size = self.sizes("kernel_size", kernel_size)
        self.stride, self.dilation = self.sizes("stride", stride), self.sizes("dilation", dilation)
        self.padding = padding if isinstance(padding, str) else self.sizes("padding", padding)
        self.padding_mode = padding_mode
        self._check()
        self.weight = Parameter(self.weight_shape(in_channels), dtype=dtype)
        self.register_parameter("bias", Parameter(out_channels, dtype=dtype) if bias else None)
        self.reset_parameters()

    def weight_shape(self, in_channels: int) -> tuple[int, ...]:
        return self.out_channels, in_channels // self.groups, *self.kernel_size

    def sizes(self, name: str, value: Ints) -> tuple[int, ...]:
        return checks.as_tuple(type(self).__name__, name, value, self.rank)

    def _check(self) -> None:
        where = type(self).__name__
        if self.groups <= 0:
            raise ValueError(f"{where}: groups must be a positive integer, got {self.groups}.")
        for name in ("in_channels", "out_channels"):
            if getattr(self, name) % self.groups:
                raise ValueError(
                    f"{where}: {name} must be divisible by groups; got {getattr(self, name)} channels and "
                    f"groups={self.groups}."
                )
        if isinstance(self.padding, str) and self.padding not in ("same", "valid"):
            raise ValueError(f"{where}: expected padding 'same', 'valid' or numbers, got {self.padding!r}.")
        if self.padding == "same" and any(s != 1 for s in self.stride):
            raise ValueError(
                f"{where}: padding='same' is not supported for strided convolutions; expected stride 1, got "
                f"{self.stride}. Pass padding as numbers."
            )
        modes = ("zeros", "reflect", "replicate", "circular")
        if self.padding_mode not in modes:
            raise ValueError(f"{where}: padding_mode must be one of {modes}, got {self.padding_mode!r}.")

    def reset_parameters(self) -> None:
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in = math.prod(self.weight.shape[1:])
            bound = 1 / math.sqrt(fan_in) if fan_in > 0 else 0.0
            init.uniform_(self.bias, -bound, bound)

    def _pads(self) -> list[int]:
        """Return the padding in the order of `F.pad`: the left and the right padding of each dimension, the last
        dimension first.
        """
        where = type(self).__name__
        pairs = checks.padding_pairs(where, self.padding, self.kernel_size, self.stride, self.dilation)
        return [amount for pair in reversed(pairs) for amount in pair]

    def forward(self, input: jax.Array) -> jax.Array:
        return self._conv_forward(input, self.weight, self.bias)

    def _conv_forward(self, input: jax.Array, weight: jax.Array, bias: jax.Array | None) -> jax.Array:
        """Convolve `input` with `weight` and add `bias`. Subclasses may override this method, as in torch."""
        convolve = (F.conv1d, F.conv2d, F.conv3d)[self.rank - 1]
        padding: Any = self.padding
        if self.padding_mode != "zeros":
            input, padding = F.pad(input, self._pads(), mode=self.padding_mode), 0
        return convolve(input, weight, bias, self.stride, padding, self.dilation, self.groups)

    def extra_repr(self) -> str:
        parts = [f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"]
        if self.padding != (0,) * self.rank:
            parts.append(f"padding={self.padding}")
        if self.dilation != (1,) * self.rank:
            parts.append(f"dilation={self.dilation}")
        if any(self.output_padding):
            parts.append(f"output_padding={self.output_padding}")
        if self.groups != 1:
            parts.append(f"groups={self.groups}")
        if self.bias is None:
            parts.append("bias=False")
        if self.padding_mode != "zeros":
            parts.append(f"padding_mode={self.padding_mode}")
        return ", ".join(parts)


class Conv1d(Convolution):
    """Cross-correlation over one dimension.

    Args:
        in_channels: number of channels of the input.
        out_channels: number of channels of the output.
        kernel_size: size of the kernel, k.
        stride: distance between neighbouring windows.
        padding: amount of padding on each side. 'same' keeps the length and requires stride 1. 'valid' adds no padding.
        dilation: distance between the elements of a window.
        groups: number of groups into which the input channels and the output channels are split. Each group of output
            channels depends only on the corresponding group of input channels.
        bias: if True, add a learnable bias to each output channel.
        padding_mode: kind of padding, one of 'zeros', 'reflect', 'replicate' or 'circular'.
        dtype: dtype of the params; float32 by default.

    Params: weight (out_channels, in_channels / groups, k) and bias (out_channels,), both drawn from U(±1/√fan_in) with
        fan_in = in_channels / groups · k.
    Call: (B, in_channels, L) -> (B, out_channels, L') with L' = ⌊(L + 2·padding - dilation·(k - 1) - 1) / stride⌋ + 1.
        B is optional.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from funcnet import nn
        >>> layer = nn.Conv1d(3, 8, 5, stride=2)
        >>> params, state = layer.init(jax.random.key(0))
        >>> layer.apply(params, state, jnp.ones((2, 3, 25)))[0].shape
        (2, 8, 11)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.Conv1d.html
    """

    rank = 1


class Conv2d(Convolution):
    """Cross-correlation over two dimensions.

    Args:
        in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode, dtype: as in
            `Conv1d`. kernel_size, stride, padding and dilation are one int for both dimensions, or (height, width).

    Params: weight (out_channels, in_channels / groups, kH, kW) and bias (out_channels,), both drawn from
        U(±1/√fan_in) with fan_in = in_channels / groups · kH · kW.
    Call: (B, in_channels, H, W) -> (B, out_channels, H', W'). B is optional.

    `padding` means the same as in torch. XLA's own "SAME" padding is not used, because at stride 2 it differs from
    torch's `padding=k//2`.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from funcnet import nn
        >>> layer = nn.Conv2d(3, 8, 3, stride=2, padding=1)
        >>> params, state = layer.init(jax.random.key(0))
        >>> layer.apply(params, state, jnp.ones((2, 3, 8, 8)))[0].shape
        (2, 8, 4, 4)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.Conv2d.html
    """

    rank = 2


class Conv3d(Convolution):
    """Cross-correlation over three dimensions.

    Args:
        in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode, dtype: as in
            `Conv1d`. kernel_size, stride, padding and dilation are one int for all dimensions, or (depth, height,
            width).

    Params: weight (out_channels, in_channels / groups, kD, kH, kW) and bias (out_channels,), both drawn from
        U(±1/√fan_in) with fan_in = in_channels / groups · kD · kH · kW.
    Call: (B, in_channels, D, H, W) -> (B, out_channels, D', H', W'). B is optional.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from funcnet import nn
        >>> layer = nn.Conv3d(1, 2, 3, padding="same")
        >>> params, state = layer.init(jax.random.key(0))
        >>> layer.apply(params, state, jnp.ones((2, 1, 4, 4, 4)))[0].shape
        (2, 2, 4, 4, 4)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.Conv3d.html
    """

    rank = 3
