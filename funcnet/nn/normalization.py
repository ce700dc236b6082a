"""LayerNorm, GroupNorm, RMSNorm and local response normalisation, as in torch/nn/modules/normalization.py."""

from collections.abc import Sequence

import jax
from jax.typing import DTypeLike

from funcnet import functional as F
from funcnet.functional.normalization import cross_map_lrn
from funcnet.nn import init
from funcnet.nn.core.parameter import Parameter
from funcnet.nn.module.module import Module

__all__ = ["CrossMapLRN2d", "GroupNorm", "LayerNorm", "LocalResponseNorm", "RMSNorm"]


def _as_shape(normalized_shape: int | Sequence[int]) -> tuple[int, ...]:
    return tuple(normalized_shape) if isinstance(normalized_shape, Sequence) else (int(normalized_shape),)


class LayerNorm(Module):
    """Normalises each example over its last dimensions: ``y = (x - mean) / sqrt(var + eps) · weight + bias``.

    Args:
        normalized_shape: sizes of the last dimensions, over which the layer normalises. An int n means (n,), the size
            of the last dimension.
        eps: constant added to the (biased) variance. BERT uses 1e-12.
        elementwise_affine: if True, the layer has a learnable weight and bias.
        bias: if False, the layer has no bias.
        dtype: dtype of the parameters, float32 by default.

    Params: weight (*normalized_shape), initialised to ones; bias (*normalized_shape), initialised to zeros.
    Call: (*, *normalized_shape) -> the same shape and dtype. The statistics are computed in at least float32.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from funcnet import nn
        >>> layer = nn.LayerNorm(4)
        >>> params, state = layer.init(jax.random.key(0))
        >>> layer.apply(params, state, jnp.array([[1.0, 1.0, 3.0, 3.0]]))[0].round(3)
        Array([[-1., -1.,  1.,  1.]], dtype=float32)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.LayerNorm.html
    """

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        *,
        dtype: DTypeLike | None = None,
    ):
        super().__init__()
        self.normalized_shape, self.eps = _as_shape(normalized_shape), eps
        self.elementwise_affine = elementwise_affine
        shape = self.normalized_shape
        self.register_parameter("weight", Parameter(shape, dtype=dtype) if elementwise_affine else None)
        self.register_parameter("bias", Parameter(shape, dtype=dtype) if elementwise_affine and bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        _ones_and_zeros(self)

    def forward(self, input: jax.Array) -> jax.Array:
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}, "
            f"bias={self.bias is not None}"
        )


class GroupNorm(Module):
    """Normalises each group of channels of each example, with the mean and the variance over all channels and positions
    of the group.

    Args:
        num_groups: number of groups that the channels are split into.
        num_channels: number of channels, divisible by `num_groups`.
        eps: constant added to the (biased) variance.
        affine: if True, the layer has a learnable weight and bias, with one entry per channel.
        bias: if False, the layer has no bias.
        dtype: dtype of the parameters, float32 by default.

    Params: weight (num_channels,), initialised to ones; bias (num_channels,), initialised to zeros.
    Call: (B, num_channels, *) -> the same shape and dtype. The statistics are computed in at least float32.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from funcnet import nn
        >>> layer = nn.GroupNorm(2, 6)
        >>> params, state = layer.init(jax.random.key(0))
        >>> layer.apply(params, state, jnp.ones((5, 6, 7)))[0].shape
        (5, 6, 7)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.GroupNorm.html
    """

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        *,
        bias: bool = True,
        dtype: DTypeLike | None = None,
    ):
        super().__init__()
        if num_channels % num_groups:
            raise ValueError(
                f"GroupNorm: num_channels must be divisible by num_groups; got {num_channels} channels in "
                f"{num_groups} groups."
            )
        self.num_groups, self.num_channels, self.eps, self.affine = num_groups, num_channels, eps, affine
        self.register_parameter("weight", Parameter(num_channels, dtype=dtype) if affine else None)
        self.register_parameter("bias", Parameter(num_channels, dtype=dtype) if affine and bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        _ones_and_zeros(self)

    def forward(self, input: jax.Array) -> jax.Array:
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, "
            f"bias={self.bias is not None}"
        )


class RMSNorm(Module):
    """Divides each example by its root mean square: ``y = x / sqrt(mean(x²) + eps) · weight``.

    Args:
        normalized_shape: sizes of the last dimensions, over which the mean is taken. An int n means (n,), the size of
            the last dimension.
        eps: constant added to the mean square. None means the machine epsilon of the dtype in which the layer computes.
            The layer computes in float32 for bfloat16 inputs.
        elementwise_affine: if True, the layer has a learnable weight.
        dtype: dtype of the parameters, float32 by default.

    Params: weight (*normalized_shape), initialised to ones.
    Call: (*, *normalized_shape) -> the same shape and dtype. The mean is computed in at least float32.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from funcnet import nn
        >>> layer = nn.RMSNorm(2)
        >>> params, state = layer.init(jax.random.key(0))
        >>> layer.apply(params, state, jnp.array([[3.0, -3.0]]))[0].round(3)
        Array([[ 1., -1.]], dtype=float32)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.RMSNorm.html
    """

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float | None = None,
        elementwise_affine: bool = True,
        *,
        dtype: DTypeLike | None = None,
    ):
        super().__init__()
        self.normalized_shape, self.eps = _as_shape(normalized_shape), eps
        self.elementwise_affine = elementwise_affine
        weight = Parameter(self.normalized_shape, dtype=dtype) if elementwise_affine else None
        self.register_parameter("weight", weight)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        if self.weight is not None:
            init.ones_(self.weight)

    def forward(self, x: jax.Array) -> jax.Array:
        return F.rms_norm(x, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


class LocalResponseNorm(Module):
    """Divides each channel by a function of its neighbours: ``y = x / (k + alpha · mean(x²))^beta``.

    The mean is taken over `size` neighbouring channels, starting `size // 2` channels before the current one.
    Neighbours before the first channel and after the last channel count as zeros.

    Args:
        size: number of neighbouring channels.
        alpha, beta, k: constants of the formula.

    Call: (B, C, *S) -> the same shape and dtype. The input must have at least one spatial dimension.

    Example:
        >>> import jax.numpy as jnp
        >>> from funcnet import nn
        >>> nn.LocalResponseNorm(1, alpha=1.0, beta=1.0).apply({}, {}, jnp.ones((1, 2, 1)))[0].ravel()
        Array([0.5, 0.5], dtype=float32)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.LocalResponseNorm.html
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0):
        super().__init__()
        self.size, self.alpha, self.beta, self.k = size, alpha, beta, k

    def forward(self, input: jax.Array) -> jax.Array:
        return F.local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"


class CrossMapLRN2d(Module):
    """Local response normalisation of images, as in torch's older class of this name. The docstring of
    `funcnet.functional.normalization.cross_map_lrn` gives the formula.

    Args:
        size, alpha, beta, k: as in `LocalResponseNorm`.

    Call: (B, C, H, W) -> the same shape and dtype.

    Differs from torch: the gradient is the exact derivative of the output. The gradient of torch's CrossMapLRN2d is not
        exact.

    Example:
        >>> import jax.numpy as jnp
        >>> from funcnet import nn
        >>> nn.CrossMapLRN2d(1, alpha=1.0, beta=1.0).apply({}, {}, jnp.ones((1, 1, 1, 1)))[0].ravel()
        Array([0.5], dtype=float32)
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1):
        super().__init__()
        self.size, self.alpha, self.beta, self.k = size, alpha, beta, k

    def forward(self, input: jax.Array) -> jax.Array:
        return cross_map_lrn(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"


def _ones_and_zeros(layer: LayerNorm | GroupNorm) -> None:
    if layer.weight is not None:
        init.ones_(layer.weight)
    if layer.bias is not None:
        init.zeros_(layer.bias)
