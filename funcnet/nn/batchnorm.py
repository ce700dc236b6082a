"""BatchNorm1d, BatchNorm2d, BatchNorm3d and SyncBatchNorm, as in torch/nn/modules/batchnorm.py.

Letters: `B batch, C channels, S spatial dimensions`. To write a variant, override `forward`, or
`check_input` for other ranks.
"""

import copy
from collections.abc import Hashable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from funcnet.functional.batchnorm import batch_norm_and_count
from funcnet.nn import init
from funcnet.nn.core.module import Module
from funcnet.nn.core.parameter import Buffer, Parameter
from funcnet.nn.core.parts import children, join

__all__ = ["BatchNorm", "BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "RunningNorm", "SyncBatchNorm"]

AxisName = Hashable | Sequence[Hashable] | None
Groups = Sequence[Sequence[int]] | None


class RunningNorm(Module):
    """What batch and instance normalisation share: leaves and their starts."""

    ranks: tuple[int, ...] = ()  # that the input may have
    _version = 2
    running_mean: Any
    running_var: Any

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        *,
        bias: bool = True,
        dtype: Any = None,
    ):
        super().__init__()
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.affine, self.track_running_stats = affine, track_running_stats
        self.register_parameter("weight", Parameter(num_features, dtype=dtype) if affine else None)
        self.register_parameter("bias", Parameter(num_features, dtype=dtype) if affine and bias else None)
        # Not in bfloat16, whose 8 bits would lose momentum's small steps.
        wide = dtype if dtype is not None and jnp.finfo(dtype).bits > 32 else jnp.float32
        tracked = track_running_stats
        self.register_buffer("running_mean", Buffer(num_features, init.zeros(), dtype=wide) if tracked else None)
        self.register_buffer("running_var", Buffer(num_features, init.ones(), dtype=wide) if tracked else None)
        self.register_buffer("num_batches_tracked", Buffer((), init.zeros(), dtype="int64") if tracked else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def absent_before(self, version: int) -> tuple[str, ...]:
        return ("num_batches_tracked",) if version < 2 else ()

    def channel_dimension(self, input: jax.Array) -> int:
        return 1

    def check_input(self, input: jax.Array) -> None:
        raise NotImplementedError

    def extra_repr(self) -> str:
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
            f"bias={self.bias is not None}, track_running_stats={self.track_running_stats}"
        )


class BatchNorm(RunningNorm):
    def check_input(self, input: jax.Array) -> None:
        if self.ranks and input.ndim not in self.ranks:
            expected = " or ".join(f"{rank}D" for rank in self.ranks)
            raise ValueError(
                f"{type(self).__name__}: the input has the wrong rank; expected {expected} input, got {input.ndim}D "
                f"input of shape {input.shape}. Take the BatchNorm of that rank, or reshape the input."
            )
        if input.ndim < 2:
            raise ValueError(
                f"{type(self).__name__}: the input has the wrong rank; expected at least 2D input, got {input.ndim}D "
                f"input of shape {input.shape}. Add the batch's dimension."
            )
        if self.num_features and input.shape[1] != self.num_features:  # a lazy one has 0 of them
            raise ValueError(
                f"{type(self).__name__}: expected {self.num_features} channels in dimension 1, got {input.shape[1]} "
                f"in an input of shape {input.shape}. The channels are dimension 1, after the batch, as in torch."
            )

    def forward(
        self,
        input: jax.Array,
        *,
        mask: jax.Array | None = None,
        axis_name: AxisName = None,
        axis_index_groups: Groups = None,
    ) -> jax.Array:
        self.check_input(input)
        tracks = self.training and self.track_running_stats and self.num_batches_tracked is not None
        momentum: Any = 0.0 if self.momentum is None else self.momentum
        if tracks and self.momentum is None:
            momentum = 1 / (self.num_batches_tracked + 1).astype(self.running_mean.dtype)
        keeps = not self.training or self.track_running_stats
        y, mean, var, count = batch_norm_and_count(
            input,
            self.running_mean if keeps else None,
            self.running_var if keeps else None,
            self.weight,
            self.bias,
            self.training or (self.running_mean is None and self.running_var is None),
            momentum,
            self.eps,
            mask=mask,
            axis_name=axis_name if self.training else None,
            axis_index_groups=axis_index_groups,
        )
        if tracks:
            self.running_mean, self.running_var = mean, var
            self.num_batches_tracked += _as_batch(mask, count, self.num_batches_tracked.dtype)
        return y


class BatchNorm1d(BatchNorm):
    """Normalises every channel over the batch: ``y = (x - mean) / sqrt(var + eps) · weight + bias``.

    In training, mean and (biased) variance are the batch's, and the running statistics move towards them, the variance
    by its unbiased value. In eval the running statistics normalise; without them, the batch's.

    Args:
        num_features: C.
        eps: added to the variance.
        momentum: the weight of the new value; None makes the running statistics plain averages of all batches.
        affine: whether there are weight and bias.
        track_running_stats: whether there are running statistics.
        bias: whether there is a bias, where there is a weight.
        dtype: of the params, float32 by default.

    Params: weight (C,), ones; bias (C,), zeros.
    State: running_mean (C,), zeros; running_var (C,), ones; num_batches_tracked (), 0.
    Call: (B, C) or (B, C, L) -> the same shape and dtype. Keywords: `mask`, booleans that broadcast to (B, L): what is
        False is not counted; `axis_name`, `axis_index_groups`: see `SyncBatchNorm`.

    Raises:
        ValueError: another rank, other channels, or training on one value per channel.
        TypeError: integers.

    Differs from torch: statistics are float32 for bfloat16 layers and inputs too. A batch that `mask` hides entirely
        leaves all the buffers, `num_batches_tracked` among them, so that it does not enter a plain average, and is
        normalised by the running statistics.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from funcnet import nn
        >>> layer = nn.BatchNorm1d(1)
        >>> params, state = layer.init(jax.random.key(0))
        >>> y, state = layer.apply(params, state, jnp.array([[1.0], [3.0]]), training=True)
        >>> y.ravel().round(3), state["running_mean"], state["running_var"]
        (Array([-1.,  1.], dtype=float32), Array([0.2], dtype=float32), Array([1.1], dtype=float32))

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.BatchNorm1d.html; Ioffe and Szegedy 2015.
    """

    ranks = (2, 3)


class BatchNorm2d(BatchNorm):
    """Normalises every channel of images over the batch and all positions.

    Args:
        num_features, eps, momentum, affine, track_running_stats, bias, dtype: as in `BatchNorm1d`.

    Params and State: as in `BatchNorm1d`.
    Call: (B, C, H, W) -> the same shape and dtype; `mask` broadcasts to (B, H, W).

    Differs from torch: as `BatchNorm1d`.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from funcnet import nn
        >>> layer = nn.BatchNorm2d(3)
        >>> params, state = layer.init(jax.random.key(0))
        >>> y, state = layer.apply(params, state, jnp.ones((2, 3, 4, 4)), training=True)
        >>> y.shape, int(state["num_batches_tracked"])
        ((2, 3, 4, 4), 1)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.BatchNorm2d.html
    """

    ranks = (4,)


class BatchNorm3d(BatchNorm):
    """Normalises every channel of volumes over the batch and all positions.

    Args:
        num_features, eps, momentum, affine, track_running_stats, bias, dtype: as in `BatchNorm1d`.

    Params and State: as in `BatchNorm1d`.
    Call: (B, C, D, H, W) -> the same shape and dtype; `mask` broadcasts to (B, D, H, W).

    Differs from torch: as `BatchNorm1d`.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from funcnet import nn
        >>> layer = nn.BatchNorm3d(3)
        >>> params, state = layer.init(jax.random.key(0))
        >>> layer.apply(params, state, jnp.ones((2, 3, 2, 4, 4)), training=True)[0].shape
        (2, 3, 2, 4, 4)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.BatchNorm3d.html
    """

    ranks = (5,)


class SyncBatchNorm(BatchNorm):
    """BatchNorm whose batch is spread over devices: in training the statistics are those of all of them together.

    Devices may count different numbers of examples (`mask`): every example has the same weight. Gradients
    flow through the statistics of all devices.
    Under `jit` with a sharded batch and no named axis, BatchNorm sees the whole batch anyway.

    Args:
        num_features, eps, momentum, affine, track_running_stats: as in `BatchNorm1d`.
        axis_name: the axis of `vmap(axis_name=…)`, `pmap` or `shard_map` over which the batch is spread, or several.
            Where none of them is bound this is BatchNorm, like torch without a process group.
        axis_index_groups: lists of device numbers; those of one list share their statistics (not under vmap).
        bias, dtype: as in `BatchNorm1d`.

    Params and State: as in `BatchNorm1d`.
    Call: (B, C, *S) -> the same shape and dtype; keyword `mask` as in `BatchNorm1d`.

    Differs from torch: `axis_name` and `axis_index_groups` take the place of `process_group`; otherwise as
        `BatchNorm1d`.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from funcnet import nn
        >>> layer = nn.SyncBatchNorm(1, affine=False, axis_name="batch")
        >>> params, state = layer.init(jax.random.key(0))
        >>> shards = jnp.array([[[1.0]], [[3.0]]])  # two devices with one example each
        >>> run = lambda x: layer.apply(params, state, x, training=True)[0]
        >>> jax.vmap(run, axis_name="batch")(shards).ravel().round(3)
        Array([-1.,  1.], dtype=float32)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.SyncBatchNorm.html
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        axis_name: AxisName = None,
        axis_index_groups: Groups = None,
        *,
        bias: bool = True,
        dtype: Any = None,
    ):
        super().__init__(num_features, eps, momentum, affine, track_running_stats, bias=bias, dtype=dtype)
        self.axis_name, self.axis_index_groups = axis_name, axis_index_groups

    def forward(self, input: jax.Array, *, mask: jax.Array | None = None) -> jax.Array:  # type: ignore[override]
        return super().forward(input, mask=mask, axis_name=self.axis_name, axis_index_groups=self.axis_index_groups)

    @classmethod
    def convert_sync_batchnorm(
        cls, module: Module, axis_name: AxisName = None, axis_index_groups: Groups = None
    ) -> Module:
        """Makes a SyncBatchNorm of every BatchNorm in a description, which changes in place, as in torch.

        Leaves, ties, frozen marks and names stay, so params and state that fitted before fit after.

        Args:
            module: the description.
            axis_name, axis_index_groups: as in `SyncBatchNorm`.

        Returns:
            `module`, or a new SyncBatchNorm if it is a BatchNorm itself.

        Raises:
            ValueError: a subclass of BatchNorm with methods of its own, which the conversion would lose. Its attributes
                stay. Another constructor, start, `ranks` or `extra_repr` is accepted, and so is a SyncBatchNorm.

        Differs from torch: torch drops what a subclass adds, without a warning.

        >>> from funcnet import nn
        >>> net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU())
        >>> nn.SyncBatchNorm.convert_sync_batchnorm(net, "batch")[1]
        SyncBatchNorm(8, eps=1e-05, momentum=0.1, affine=True, bias=True, track_running_stats=True)
        """
        done: dict[int, Module] = {}

        def convert(old: Module, path: str) -> Module:
            if id(old) not in done:
                new = cls._from(old, path, axis_name, axis_index_groups) if isinstance(old, BatchNorm) else old
                done[id(old)] = new
                for name, child in children(old):
                    setattr(new, name, convert(child, join(path, name)))
            return done[id(old)]

        return convert(module, "")

    @classmethod
    def _from(cls, old: BatchNorm, path: str, axis_name: AxisName, axis_index_groups: Groups) -> "SyncBatchNorm":
        if isinstance(old, SyncBatchNorm):
            cls = type(old)
        kept = {*BatchNorm1d.__mro__, *BatchNorm2d.__mro__, *BatchNorm3d.__mro__, *cls.__mro__}
        own = {name for kind in type(old).__mro__ if kind not in kept for name in vars(kind)}
        lost = sorted(n for n in own - _NO_LOSS if n == "__call__" or not (n.startswith("__") and n.endswith("__")))
        if lost:
            raise ValueError(
                f"{cls.__name__}.convert_sync_batchnorm: {path or 'the root'} ({type(old).__name__}) has "
                f"{', '.join(lost)} of its own, which conversion would lose. Call it with axis_name=…, or derive it "
                "from SyncBatchNorm, which stays as it is but for its axes."
            )
        new: Any = copy.copy(old)
        new.__class__ = cls
        new.axis_name, new.axis_index_groups = axis_name, axis_index_groups
        return new


_NO_LOSS = {"reset_parameters", "extra_repr", "ranks"}  # of a subclass: only used in the constructor or for display


def _as_batch(mask: jax.Array | None, count: jax.Array, dtype: Any) -> jax.Array:
    """1 if this is a batch that moves the running statistics, 0 if a mask hides all of it, on every device.

    Without a mask it is 1, as in torch, where an empty batch leaves the statistics and counts all the same.
    """
    return jnp.ones((), dtype) if mask is None else (count > 0).astype(dtype)
