"""Batch and instance normalisation that infer num_features from the example input given to `init`, as in torch.

Letters: `B batch, C channels, L length, D depth, H height, W width`.
"""

import jax
from jax.typing import DTypeLike

from funcnet.nn.batchnorm import BatchNorm1d, BatchNorm2d, BatchNorm3d, RunningNorm
from funcnet.nn.core.module_tree import leaves
from funcnet.nn.instancenorm import InstanceNorm1d, InstanceNorm2d, InstanceNorm3d

__all__ = [
    "LazyBatchNorm1d",
    "LazyBatchNorm2d",
    "LazyBatchNorm3d",
    "LazyInstanceNorm1d",
    "LazyInstanceNorm2d",
    "LazyInstanceNorm3d",
]


class _Lazy(RunningNorm):
    """Base class of lazy normalisation layers, whose parameters and buffers get their shapes from an example input."""

    def __init__(
        self,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        *,
        bias: bool = True,
        dtype: DTypeLike | None = None,
    ):
        super().__init__(0, eps, momentum, affine, track_running_stats, bias=bias, dtype=dtype)
        for name, leaf in leaves(self):
            if leaf.shape == (0,):
                setattr(self, name, type(leaf)(None, leaf.init, dtype=leaf.dtype))

    def lazy_shapes(self, input: jax.Array, *args: object, **kwargs: object) -> dict[str, tuple[int, ...]]:
        self.check_input(input)
        channels = input.shape[self.channel_dimension(input)]
        return dict.fromkeys(("weight", "bias", "running_mean", "running_var"), (channels,))


class LazyBatchNorm1d(_Lazy, BatchNorm1d):
    """A BatchNorm1d that infers num_features from the example input given to `init`.

    Args:
        eps, momentum, bias, dtype: as in `BatchNorm1d`.
        affine: if True (the default of this class, as in torch), the layer has learnable weight and bias.
        track_running_stats: if True (the default of this class, as in torch), the layer keeps running statistics.

    Params and State: as in `BatchNorm1d`, with shapes that `init(rng, *example_inputs)` infers from an example input.
    Call: (B, C) or (B, C, L) -> the same shape and dtype.

    Differs from torch: the layer stays a LazyBatchNorm1d and does not become a BatchNorm1d, because running a
        description does not change it.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from funcnet import nn
        >>> layer = nn.LazyBatchNorm1d()
        >>> params, state = layer.init(jax.random.key(0), jnp.ones((2, 3, 4)))
        >>> params["weight"].shape, state["running_var"].shape
        ((3,), (3,))

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.LazyBatchNorm1d.html
    """


class LazyBatchNorm2d(_Lazy, BatchNorm2d):
    """A BatchNorm2d that infers num_features from the example input given to `init`.

    Args:
        eps, momentum, affine, track_running_stats, bias, dtype: as in `LazyBatchNorm1d`.

    Params and State: as in `BatchNorm2d`, with shapes that `init(rng, *example_inputs)` infers from an example input.
    Call: (B, C, H, W) -> the same shape and dtype.

    Differs from torch: in the same way as `LazyBatchNorm1d`.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from funcnet import nn
        >>> params, state = nn.LazyBatchNorm2d().init(jax.random.key(0), jnp.ones((2, 3, 4, 4)))
        >>> params["weight"].shape
        (3,)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.LazyBatchNorm2d.html
    """


class LazyBatchNorm3d(_Lazy, BatchNorm3d):
    """A BatchNorm3d that infers num_features from the example input given to `init`.

    Args:
        eps, momentum, affine, track_running_stats, bias, dtype: as in `LazyBatchNorm1d`.

    Params and State: as in `BatchNorm3d`, with shapes that `init(rng, *example_inputs)` infers from an example input.
    Call: (B, C, D, H, W) -> the same shape and dtype.

    Differs from torch: in the same way as `LazyBatchNorm1d`.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from funcnet import nn
        >>> params, state = nn.LazyBatchNorm3d().init(jax.random.key(0), jnp.ones((2, 3, 2, 4, 4)))
        >>> params["weight"].shape
        (3,)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.LazyBatchNorm3d.html
    """


class LazyInstanceNorm1d(_Lazy, InstanceNorm1d):
    """An InstanceNorm1d that infers num_features from the example input given to `init`.

    Args:
        eps, momentum, bias, dtype: as in `InstanceNorm1d`.
        affine: if True (the default of this class, as in torch), the layer has learnable weight and bias.
        track_running_stats: if True (the default of this class, as in torch), the layer keeps running statistics.

    Params and State: as in `InstanceNorm1d`, with shapes that `init(rng, *example_inputs)` infers from an example
        input.
    Call: (B, C, L) or (C, L) -> the same shape and dtype.

    Differs from torch: the layer stays a LazyInstanceNorm1d and does not become an InstanceNorm1d, because running a
        description does not change it.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from funcnet import nn
        >>> layer = nn.LazyInstanceNorm1d()
        >>> params, state = layer.init(jax.random.key(0), jnp.ones((2, 3, 4)))
        >>> params["weight"].shape, state["running_var"].shape
        ((3,), (3,))

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.LazyInstanceNorm1d.html
    """


class LazyInstanceNorm2d(_Lazy, InstanceNorm2d):
    """An InstanceNorm2d that infers num_features from the example input given to `init`.

    Args:
        eps, momentum, affine, track_running_stats, bias, dtype: as in `LazyInstanceNorm1d`.

    Params and State: as in `InstanceNorm2d`, with shapes that `init(rng, *example_inputs)` infers from an example
        input.
    Call: (B, C, H, W) or (C, H, W) -> the same shape and dtype.

    Differs from torch: in the same way as `LazyInstanceNorm1d`.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from funcnet import nn
        >>> params, state = nn.LazyInstanceNorm2d().init(jax.random.key(0), jnp.ones((2, 3, 4, 4)))
        >>> params["weight"].shape
        (3,)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.LazyInstanceNorm2d.html
    """


class LazyInstanceNorm3d(_Lazy, InstanceNorm3d):
    """An InstanceNorm3d that infers num_features from the example input given to `init`.

    Args:
        eps, momentum, affine, track_running_stats, bias, dtype: as in `LazyInstanceNorm1d`.

    Params and State: as in `InstanceNorm3d`, with shapes that `init(rng, *example_inputs)` infers from an example
        input.
    Call: (B, C, D, H, W) or (C, D, H, W) -> the same shape and dtype.

    Differs from torch: in the same way as `LazyInstanceNorm1d`.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from funcnet import nn
        >>> params, state = nn.LazyInstanceNorm3d().init(jax.random.key(0), jnp.ones((2, 3, 2, 4, 4)))
        >>> params["weight"].shape
        (3,)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.LazyInstanceNorm3d.html
    """
