"""InstanceNorm1d, InstanceNorm2d and InstanceNorm3d, as in torch/nn/modules/instancenorm.py.

Letters: `B batch, C channels, L length, D depth, H height, W width`. The batch dimension B is always optional.
"""

import warnings

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

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
        dtype: DTypeLike | None = None,
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
                f"{input.shape}. Use the InstanceNorm class for inputs of that rank, or reshape the input."
            )
        at = self.channel_dimension(input)
        if not self.num_features or input.shape[at] == self.num_features:  # lazy layers have num_features = 0
            return
        if self.affine:
            raise ValueError(
                f"{name}: expected {self.num_features} channels in dimension {at}, got {input.shape[at]} in an input "
                f"of shape {input.shape}. The channels must be in the first dimension after the batch, as in torch."
            )
        warnings.warn(
            f"{name}: num_features={self.num_features} differs from the input's {input.shape[at]} channels. "
            "num_features is ignored, because affine=False.",
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
    """Normalises each channel of each example separately: ``y = (x - mean) / sqrt(var + eps) · weight + bias``.

    The mean and the (biased) variance are taken over the positions of the channel.

    Args:
        num_features: number of channels, C.
        eps: value added to the variance, to avoid division by zero.
        momentum: weight of the current batch in the new running statistics. If momentum is None, the running statistics
            do not change.
        affine: if True, the layer has learnable weight and bias.
        track_running_stats: if True, the layer keeps running statistics and uses them in eval. In training, the running
            statistics move towards the mean and the unbiased variance of each channel, averaged over the examples of
            the batch.
        bias: if False, the layer has no bias even if `affine` is True.
        dtype: dtype of the params; float32 by default.

    Params: if `affine` is True, weight (C,), initially ones, and bias (C,), initially zeros.
    State: if `track_running_stats` is True, running_mean (C,), initially zeros; running_var (C,), initially ones; and
        num_batches_tracked (), always 0.
    Call: (B, C, L) or (C, L) -> the same shape and dtype. The statistics are computed in at least float32.

    Raises:
        ValueError: if the input has a wrong rank, if its number of channels does not match the parameters or buffers,
            or if statistics are computed from only one position per channel.
        TypeError: if the input is not floating-point.

    Warns:
        UserWarning: if `affine` is False and the number of channels differs from `num_features`.

    Differs from torch: the statistics are float32 even for bfloat16 layers and inputs.

    Example:
        >>> import jax.numpy as jnp
        >>> from funcnet import nn
        >>> nn.InstanceNorm1d(1).apply({}, {}, jnp.array([[[1.0, 3.0]]]))[0].round(3)
        Array([[[-1.,  1.]]], dtype=float32)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.InstanceNorm1d.html; Ulyanov et al. 2016.
    """

    ranks = (2, 3)


class InstanceNorm2d(_InstanceNorm):
    """Normalises each channel of each image separately, with the mean and the variance over all positions.

    Args:
        num_features, eps, momentum, affine, track_running_stats, bias, dtype: as in `InstanceNorm1d`.

    Params and State: as in `InstanceNorm1d`.
    Call: (B, C, H, W) or (C, H, W) -> the same shape and dtype.

    Differs from torch: in the same way as `InstanceNorm1d`.

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
    """Normalises each channel of each volume separately, with the mean and the variance over all positions.

    Args:
        num_features, eps, momentum, affine, track_running_stats, bias, dtype: as in `InstanceNorm1d`.

    Params and State: as in `InstanceNorm1d`.
    Call: (B, C, D, H, W) or (C, D, H, W) -> the same shape and dtype.

    Differs from torch: in the same way as `InstanceNorm1d`.

    Example:
        >>> import jax.numpy as jnp
        >>> from funcnet import nn
        >>> nn.InstanceNorm3d(3).apply({}, {}, jnp.ones((2, 3, 2, 4, 4)))[0].shape
        (2, 3, 2, 4, 4)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.InstanceNorm3d.html
    """

    ranks = (4, 5)
