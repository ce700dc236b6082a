"""BatchNorm1d, BatchNorm2d, BatchNorm3d and SyncBatchNorm, as in torch/nn/modules/batchnorm.py.

Letters: `B batch, C channels, S spatial dimensions, L length, D depth, H height, W width`. A subclass that computes a
variant of BatchNorm overrides `forward`. A subclass that accepts inputs of other ranks overrides `check_input`.
"""

import copy
from typing import Any

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from funcnet.functional.batchnorm import AxisName, Groups, batch_norm_and_count
from funcnet.nn import init
from funcnet.nn.core.module_tree import children, join
from funcnet.nn.core.parameter import Buffer, Parameter
from funcnet.nn.module.module import Module

__all__ = ["BatchNorm", "BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "RunningNorm", "SyncBatchNorm"]


class RunningNorm(Module):
    """Base class of the BatchNorm and InstanceNorm layers, which creates their parameters and buffers."""

    ranks: tuple[int, ...] = ()  # allowed ranks of the input
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
        dtype: DTypeLike | None = None,
    ):
        super().__init__()
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.affine, self.track_running_stats = affine, track_running_stats
        self.register_parameter("weight", Parameter(num_features, dtype=dtype) if affine else None)
        self.register_parameter("bias", Parameter(num_features, dtype=dtype) if affine and bias else None)
        # Running statistics are at least float32, because bfloat16 with 8 bits of precision would lose small updates.
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
                f"input of shape {input.shape}. Use the BatchNorm class for inputs of that rank, or reshape the input."
            )
        if input.ndim < 2:
            raise ValueError(
                f"{type(self).__name__}: the input has the wrong rank; expected at least 2D input, got {input.ndim}D "
                f"input of shape {input.shape}. Add a batch dimension."
            )
        if self.num_features and input.shape[1] != self.num_features:  # lazy layers have num_features = 0
            raise ValueError(
                f"{type(self).__name__}: expected {self.num_features} channels in dimension 1, got {input.shape[1]} "
                f"in an input of shape {input.shape}. The channel dimension must be dimension 1, as in torch."
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
            # with this weight for the new batch, the running statistics are the means over all batches so far
            momentum = 1 / (self.num_batches_tracked + 1).astype(self.running_mean.dtype)
        # `track_running_stats` may be set to False later. As in torch, the statistics then stay, and are used in eval.
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
            axis_name=axis_name if self.training else None,  # in eval, no device waits for others, as in torch
            axis_index_groups=axis_index_groups,
        )
        if tracks:
            self.running_mean, self.running_var = mean, var
            self.num_batches_tracked += _as_batch(mask, count, self.num_batches_tracked.dtype)
        return y


class BatchNorm1d(BatchNorm):
    """Normalises each channel over the batch: ``y = (x - mean) / sqrt(var + eps) · weight + bias``.

    In training, the layer normalises with the mean and the (biased) variance of the batch. The running statistics also
    move towards the mean and the unbiased variance of the batch in training. In eval, the layer normalises with the
    running statistics, or with the statistics of the batch if `track_running_stats` is False.

    Args:
        num_features: number of channels, C.
        eps: value added to the variance, to avoid division by zero.
        momentum: weight of the current batch in the new running statistics. If momentum is None, the running statistics
            are plain averages over all training batches.
        affine: if True, the layer has learnable weight and bias.
        track_running_stats: if True, the layer keeps running statistics of the training batches.
        bias: if False, the layer has no bias even if `affine` is True.
        dtype: dtype of the params; float32 by default.

    Params: weight (C,), initially ones; bias (C,), initially zeros.
    State: running_mean (C,), initially zeros; running_var (C,), initially ones; num_batches_tracked (), initially 0.
    Call: (B, C) or (B, C, L) -> the same shape and dtype. The keyword `mask` is a boolean array that broadcasts to
        (B, L). Positions where the mask is False are excluded from the statistics. For the keywords `axis_name` and
        `axis_index_groups`, see `SyncBatchNorm`.

    Raises:
        ValueError: if the input has a wrong rank or number of channels, or has only one value per channel in training.
        TypeError: if the input is not floating-point.

    Differs from torch: the statistics are float32 even for bfloat16 layers and inputs. A batch that `mask` excludes
        entirely is normalised with the running statistics and leaves all buffers unchanged. With `momentum=None`, a
        batch that `mask` excludes entirely does not count in the averages, because `num_batches_tracked` does not
        change either.

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
    """Normalises each channel of a batch of images, with the mean and the variance over all images and positions.

    Args:
        num_features, eps, momentum, affine, track_running_stats, bias, dtype: as in `BatchNorm1d`.

    Params and State: as in `BatchNorm1d`.
    Call: (B, C, H, W) -> the same shape and dtype. The keyword `mask` is a boolean array that broadcasts to (B, H, W).

    Differs from torch: in the same ways as `BatchNorm1d`.

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
    """Normalises each channel of a batch of volumes, with the mean and the variance over all volumes and positions.

    Args:
        num_features, eps, momentum, affine, track_running_stats, bias, dtype: as in `BatchNorm1d`.

    Params and State: as in `BatchNorm1d`.
    Call: (B, C, D, H, W) -> the same shape and dtype. The keyword `mask` is a boolean array that broadcasts to
        (B, D, H, W).

    Differs from torch: in the same ways as `BatchNorm1d`.

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
    """BatchNorm for a batch that is split over devices. In training, each device normalises its part with the
    statistics of the entire batch.

    With `mask`, devices may contribute different numbers of examples. Every example has the same weight in the
    statistics. Gradients flow through the statistics of all devices. Under `jit` with a sharded batch and no named
    axis, a plain BatchNorm already computes the statistics of the entire batch.

    Args:
        num_features, eps, momentum, affine, track_running_stats: as in `BatchNorm1d`.
        axis_name: name or names of the mapped axes over which the batch is split, as bound by `vmap(axis_name=…)`,
            `pmap` or `shard_map`. If no axis in `axis_name` is bound, the layer works as a plain BatchNorm, like
            torch's SyncBatchNorm without a process group.
        axis_index_groups: list of lists of device indices. The devices in one inner list compute their statistics
            together. `vmap` does not support axis_index_groups.
        bias, dtype: as in `BatchNorm1d`.

    Params and State: as in `BatchNorm1d`.
    Call: (B, C, *S) -> the same shape and dtype. The keyword `mask` works as in `BatchNorm1d`.

    Differs from torch: `axis_name` and `axis_index_groups` replace `process_group`. `BatchNorm1d` lists the other
        differences.

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
        dtype: DTypeLike | None = None,
    ):
        super().__init__(num_features, eps, momentum, affine, track_running_stats, bias=bias, dtype=dtype)
        self.axis_name, self.axis_index_groups = axis_name, axis_index_groups

    def forward(self, input: jax.Array, *, mask: jax.Array | None = None) -> jax.Array:  # type: ignore[override]
        return super().forward(input, mask=mask, axis_name=self.axis_name, axis_index_groups=self.axis_index_groups)

    @classmethod
    def convert_sync_batchnorm(
        cls, module: Module, axis_name: AxisName = None, axis_index_groups: Groups = None
    ) -> Module:
        """Convert every BatchNorm layer in the description `module` to a SyncBatchNorm. As in torch, `module` itself
        changes.

        The conversion keeps parameters, buffers, ties, names and `requires_grad` flags, so existing params and state
        still fit the converted description.

        Args:
            module: description to convert.
            axis_name, axis_index_groups: as in `SyncBatchNorm`.

        Returns:
            `module`, or a new SyncBatchNorm if `module` itself is a BatchNorm.

        Raises:
            ValueError: if a subclass of BatchNorm defines methods that the conversion would lose. A constructor,
                `reset_parameters`, `ranks` and `extra_repr` of a subclass do not raise this error. The conversion keeps
                instance attributes and the class of each subclass of SyncBatchNorm.

        Differs from torch: torch's conversion silently drops the methods that a subclass of BatchNorm defines.

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
                f"{cls.__name__}.convert_sync_batchnorm: {path or 'the root'} ({type(old).__name__}) defines "
                f"{', '.join(lost)}, which the conversion would lose. Leave the module as it is and call it with "
                "axis_name=…, or derive its class from SyncBatchNorm."
            )
        new: Any = copy.copy(old)
        new.__class__ = cls
        new.axis_name, new.axis_index_groups = axis_name, axis_index_groups
        return new


_NO_LOSS = {"reset_parameters", "extra_repr", "ranks"}  # may be lost, because they affect only construction and display


def _as_batch(mask: jax.Array | None, count: jax.Array, dtype: DTypeLike) -> jax.Array:
    """Return the array 0 if `mask` excludes the entire batch on every device, and the array 1 otherwise.

    BatchNorm adds the result to `num_batches_tracked`. If `mask` is None, the result is 1 even for an empty batch, as
    in torch.
    """
    return jnp.ones((), dtype) if mask is None else (count > 0).astype(dtype)
