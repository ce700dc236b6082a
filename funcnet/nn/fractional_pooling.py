"""Fractional max pooling, as in torch/nn/modules/pooling.py.

Letters: `B batch, C channels, D depth, H height, W width`. B may be missing everywhere.
"""

from collections.abc import Sequence
from typing import Any, ClassVar

import jax

from funcnet import functional as F
from funcnet.functional import checks
from funcnet.nn.core.module import Module

__all__ = ["FractionalMaxPool2d", "FractionalMaxPool3d"]


class _FractionalMaxPool(Module):
    rank: ClassVar[int]

    def __init__(
        self,
        kernel_size: int | Sequence[int],
        output_size: int | Sequence[int] | None = None,
        output_ratio: float | Sequence[float] | None = None,
        return_indices: bool = False,
        _random_samples: jax.Array | None = None,
    ):
        super().__init__()
        name = type(self).__name__
        if (output_size is None) == (output_ratio is None):
            raise ValueError(
                f"{name}: exactly one of two arguments is needed; expected output_size or output_ratio, got "
                f"{'neither' if output_size is None else 'both'}."
            )
        self.kernel_size, self.return_indices = checks.entries(kernel_size, self.rank), return_indices
        self.register_buffer("_random_samples", _random_samples)
        self.output_size = None if output_size is None else checks.entries(output_size, self.rank)
        self.output_ratio = None if output_ratio is None else checks.entries(output_ratio, self.rank)
        if self.output_ratio is not None and not all(0 < ratio < 1 for ratio in self.output_ratio):
            raise ValueError(
                f"{name}: output_ratio is out of range; expected numbers between 0 and 1, got {output_ratio}. "
                "Give sizes by output_size."
            )

    def forward(self, input: jax.Array) -> Any:
        pool = (F.fractional_max_pool2d, F.fractional_max_pool3d)[self.rank - 2]
        samples = self._random_samples
        sizes = (self.kernel_size, self.output_size, self.output_ratio, self.return_indices)
        return pool(input, *sizes, samples, rng=self.make_rng() if samples is None else None)


class FractionalMaxPool2d(_FractionalMaxPool):
    """The maxima of windows at random, almost evenly spaced positions; in eval too.

    Args:
        kernel_size: an int for both dimensions or (height, width).
        output_size: H', W' likewise.
        output_ratio: H' / H and W' / W, between 0 and 1, in place of output_size.
        return_indices: whether to return the positions of the maxima as well, as `MaxUnpool2d` reads it.
        _random_samples: (B, C, 2), a buffer: samples to use instead of random ones, for (width, height) as in torch.

    Call: (B, C, H, W) -> (B, C, H', W'), or two of these: maxima, and their indices in the flattened plane. Needs `rng`
        unless the samples are given.

    Raises:
        ValueError: neither size nor ratio, or both; a ratio outside of 0 to 1.

    Differs from torch: indices are int32 where JAX has no int64 (without x64).

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from funcnet import nn
        >>> layer = nn.FractionalMaxPool2d(2, output_ratio=0.5)
        >>> layer.apply({}, {}, jnp.ones((1, 2, 9, 6)), rng=jax.random.key(0))[0].shape
        (1, 2, 4, 3)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.FractionalMaxPool2d.html; Graham 2014.
    """

    rank = 2


class FractionalMaxPool3d(_FractionalMaxPool):
    """The maxima of windows at random, almost evenly spaced positions; in eval too.

    Args:
        kernel_size, output_size, output_ratio, return_indices: as in `FractionalMaxPool2d`, for (depth, height, width).
        _random_samples: (B, C, 3), a buffer: the samples to use instead of random ones, for (depth, height, width).

    Call: (B, C, D, H, W) -> (B, C, D', H', W'), or two of these. Needs `rng` unless the samples are given.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from funcnet import nn
        >>> layer = nn.FractionalMaxPool3d(2, output_size=3)
        >>> layer.apply({}, {}, jnp.ones((1, 2, 9, 6, 5)), rng=jax.random.key(0))[0].shape
        (1, 2, 3, 3, 3)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.FractionalMaxPool3d.html
    """

    rank = 3
