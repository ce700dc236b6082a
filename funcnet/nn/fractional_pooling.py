"""Fractional max pooling, as in torch/nn/modules/pooling.py.

Letters: `B batch, C channels, D depth, H height, W width`. The batch dimension B is always optional.
"""

from collections.abc import Sequence
from typing import Any, ClassVar

import jax

from funcnet import functional as F
from funcnet.functional import checks
from funcnet.nn.module.module import Module

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
                f"{name}: exactly one of two arguments is required; expected output_size or output_ratio, got "
                f"{'neither' if output_size is None else 'both'}."
            )
        self.kernel_size, self.return_indices = checks.entries(kernel_size, self.rank), return_indices
        self.register_buffer("_random_samples", _random_samples)
        self.output_size = None if output_size is None else checks.entries(output_size, self.rank)
        self.output_ratio = None if output_ratio is None else checks.entries(output_ratio, self.rank)
        if self.output_ratio is not None and not all(0 < ratio < 1 for ratio in self.output_ratio):
            raise ValueError(
                f"{name}: output_ratio is out of range; expected numbers between 0 and 1, got {output_ratio}. To pass "
                "absolute sizes, use output_size."
            )

    def forward(self, input: jax.Array) -> Any:
        pool = (F.fractional_max_pool2d, F.fractional_max_pool3d)[self.rank - 2]
        samples = self._random_samples
        sizes = (self.kernel_size, self.output_size, self.output_ratio, self.return_indices)
        return pool(input, *sizes, samples, rng=self.make_rng() if samples is None else None)


class FractionalMaxPool2d(_FractionalMaxPool):
    """Returns the maximum of each window. The windows are at random, almost evenly spaced positions, in training and in
    eval.

    Args:
        kernel_size: size of the window, as an int for both dimensions or (height, width).
        output_size: size of the output, (H', W'), or an int for both dimensions.
        output_ratio: ratios (H' / H, W' / W) between 0 and 1, or one ratio for both, instead of output_size.
        return_indices: if True, also return the indices of the maxima, in the form that `MaxUnpool2d` expects.
        _random_samples: array (B, C, 2) of numbers in [0, 1), which determine the positions of the windows instead of
            random numbers. The last dimension holds one number for the width and one for the height, in torch's order.
            The layer stores the array as a buffer.

    Call: (B, C, H, W) -> (B, C, H', W'), or with return_indices a tuple (maxima, indices) of two arrays of this shape.
        The indices refer to the flattened plane of H · W positions. `apply` requires `rng` unless `_random_samples` is
        given.

    Raises:
        ValueError: if neither or both of output_size and output_ratio are given, or a ratio is not between 0 and 1.

    Differs from torch: the indices are int32, not int64, unless JAX's x64 mode is enabled.

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
    """Returns the maximum of each window. The windows are at random, almost evenly spaced positions, in training and in
    eval.

    Args:
        kernel_size, output_size, output_ratio, return_indices: as in `FractionalMaxPool2d`, but for
            (depth, height, width).
        _random_samples: array (B, C, 3) of numbers in [0, 1), which determine the positions of the windows instead of
            random numbers. The last dimension holds one number each for depth, height and width. The layer stores the
            array as a buffer.

    Call: (B, C, D, H, W) -> (B, C, D', H', W'), or with return_indices a tuple (maxima, indices) of two arrays of this
        shape. `apply` requires `rng` unless `_random_samples` is given.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from funcnet import nn
        >>> layer = nn.FractionalMaxPool3d(2, output_size=3)
        >>> layer.apply({}, {}, jnp.ones((1, 2, 9, 6, 5)), rng=jax.random.key(0))[0].shape
        (1, 2, 3, 3, 3)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.FractionalMaxPool3d.html
    """

    rank = 3
