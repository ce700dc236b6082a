"""InstanceNorm1d, InstanceNorm2d and InstanceNorm3d, as in torch/nn/modules/instancenorm.py.

Letters: `B batch, C channels, L length, D depth, H height, W width`. B may be missing everywhere.
"""

import warnings
from typing import Any

import jax
import jax.numpy as jnp

from funcnet import functional as F
from funcnet.nn.batchnorm import RunningNorm

__all__ = ["InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d"]


class _InstanceNorm(RunningNorm):
    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        *,
        bias: bool = True,
        dtype: Any = None,
    ):
        super().__init__(num_features, eps, momentum, affine, track_running_stats, bias=bias, dtype=dtype)

    def channel_dimension(self, input: jax.Array) -> int:
        return input.ndim - self.ranks[0]

    def check_input(self, input: jax.Array) -> None:
        name = type(self).__name__
        if input.ndim not in self.ranks:
            expected = " or ".join(f"{rank}D" for rank in self.ranks)
            raise ValueError(
                f"{name}: the input has the wrong rank; expected {expected} input, got {input.ndim}D input of shape "
                f"{input.shape}. Take the InstanceNorm of that rank, or reshape the input."
            )
        at = self.channel_dimension(input)
        if not self.num_features or input.shape[at] == self.num_features:  # a lazy one has 0 of them
            return
        if self.affine:
            raise ValueError(
                f"{name}: expected {self.num_features} channels in dimension {at}, got {input.shape[at]} in an input "
                f"of shape {input.shape}. The channels are dimension 1, after the batch, as in torch."
            )
        warnings.warn(
            f"{name}: num_features={self.num_features} is not the input's {input.shape[at]} channels, and is not used "
            "since affine=False.",
            stacklevel=3,
        )

    def forward(self, input: jax.Array) -> jax.Array:
        input = jnp.asarray(input)
        self.check_input(input)
        y, mean, var = F.instance_norm(
            input if input.ndim > self.ranks[0] else input[None],
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training or not self.track_running_stats,
            0.0 if self.momentum is None else self.momentum,
            self.eps,
        )
        if self.training and mean is not None:
            self.running_mean, self.running_var = mean, var
        return y.reshape(input.shape)


class InstanceNorm1d(_InstanceNorm):
    """Normalises every channel of every example: ``y = (x - mean) / sqrt(var + eps) · weight + bias``.

    Mean and (biased) variance are those of the channel's positions.

    Args:
        num_features: C.
        eps: added to the (biased) variance.
        momentum: the weight of the new value in the running statistics; None leaves them.
        affine: whether there are weight and bias.
        track_running_stats: whether there are running statistics, by which eval then normalises. They are averages over
            the batch of the examples' means and unbiased variances.
        bias: whether there is a bias, where there is a weight.
        dtype: of the params, float32 by default.

    Params: weight (C,), ones; bias (C,), zeros, if affine.
    State: running_mean (C,), zeros; running_var (C,), ones; num_batches_tracked (), always 0, if tracked.
    Call: (B, C, L) or (C, L) -> the same shape and dtype; statistics in at least float32.

    Raises:
        ValueError: another rank, other channels where they count, or training on one position per channel.
        TypeError: integers.

    Differs from torch: statistics are float32 for bfloat16 layers and inputs too.

    Example:
        >>> import jax.numpy as jnp
        >>> from funcnet import nn
        >>> nn.InstanceNorm1d(1).apply({}, {}, jnp.array([[[1.0, 3.0]]]))[0].round(3)
        Array([[[-1.,  1.]]], dtype=float32)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.InstanceNorm1d.html; Ulyanov et al. 2016.
    """

    ranks = (2, 3)


class InstanceNorm2d(_InstanceNorm):
    """Normalises every channel of every image over its positions.

    Args:
        num_features, eps, momentum, affine, track_running_stats, bias, dtype: as in `InstanceNorm1d`.

    Params and State: as in `InstanceNorm1d`.
    Call: (B, C, H, W) or (C, H, W) -> the same shape and dtype.

    Differs from torch: as `InstanceNorm1d`.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from funcnet import nn
        >>> layer = nn.InstanceNorm2d(3, affine=True)
        >>> params, state = layer.init(jax.random.key(0))
        >>> layer.apply(params, state, jnp.ones((2, 3, 4, 4)))[0].shape
        (2, 3, 4, 4)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.InstanceNorm2d.html
    """

    ranks = (3, 4)


class InstanceNorm3d(_InstanceNorm):
    """Normalises every channel of every volume over its positions.

    Args:
        num_features, eps, momentum, affine, track_running_stats, bias, dtype: as in `InstanceNorm1d`.

    Params and State: as in `InstanceNorm1d`.
    Call: (B, C, D, H, W) or (C, D, H, W) -> the same shape and dtype.

    Differs from torch: as `InstanceNorm1d`.

    Example:
        >>> import jax.numpy as jnp
        >>> from funcnet import nn
        >>> nn.InstanceNorm3d(3).apply({}, {}, jnp.ones((2, 3, 2, 4, 4)))[0].shape
        (2, 3, 2, 4, 4)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.InstanceNorm3d.html
    """

    ranks = (4, 5)
