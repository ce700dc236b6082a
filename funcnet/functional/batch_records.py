"""Records of the statistics of a batch: of one device, merged from several, and exchanged between devices.

A record is (count, mean, remainder, M2), as `batchnorm.py` explains.
Letters: `B batch, C channel, S spatial dimensions, D devices`.
"""

import math
from collections.abc import Hashable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from funcnet.operators import native

__all__ = ["Groups", "exchange", "has_kernel", "local_record", "merge", "merge_all", "spread", "sum_over"]

Groups = Sequence[Sequence[int]] | None


def spread(vector: jax.Array, ndim: int) -> jax.Array:
    """Reshape a vector (C,) to (1, C, 1, …)."""
    return vector.reshape(1, -1, *(1,) * (ndim - 2))


def _record_of_images(x: jax.Array) -> tuple[jax.Array, ...]:
    """Return the record of x, merged from those of its images."""
    means, rests, squares = native.row_moments(x, x.ndim - 2)
    return merge_all(jnp.full((len(x), 1), math.prod(x.shape[2:]), x.dtype), means, rests, squares)


def local_record(x: jax.Array, mask: jax.Array | None, dtype: Any) -> tuple[jax.Array, ...]:
    """Return the record of this device's part of the batch: count (), mean (C,), remainder (C,) and M2 (C,)."""
    if mask is None and has_kernel(x):
        return _record_of_images(x)
    axes = (0, *range(2, x.ndim))
    x = x.astype(dtype)
    if mask is None:
        count = jnp.full((), x.size // max(x.shape[1], 1), dtype)
        counted = lambda values: values
    else:
        count = mask.sum(dtype=dtype)
        counted = lambda values: jnp.where(mask, values, 0)
    divisor = jnp.maximum(count, 1)
    # On a GPU, XLA would compute the mean several times, in different orders: the remainder of another rounding.
    mean = lax.optimization_barrier(counted(x).sum(axes) / divisor)
    difference = counted(x - spread(mean, x.ndim))
    rest = difference.sum(axes) / divisor
    squares = (difference * difference).sum(axes)
    squares -= jnp.where(jnp.isinf(squares), 0, count * rest * rest)  # inf - inf would be NaN
    return count, mean, rest, jnp.maximum(squares, 0)


def has_kernel(x: jax.Array) -> bool:
    """Return whether kernels compute sums over x. They do so for each image, so few positions have none."""
    positions = x.shape[2:]
    is_fixed = all(isinstance(size, int) for size in x.shape)  # no symbolic sizes of jax.export
    return is_fixed and x.size > 0 and math.prod(positions) >= 16 and native.is_used("kernels", x)


def merge(count: jax.Array, mean: jax.Array, rest: jax.Array, squares: jax.Array) -> tuple[jax.Array, ...]:
    """Replace the mean of a record by the rounded `mean + rest`, and the remainder `rest` by the error of this
    rounding.
    """
    rounded = mean + rest
    return count, rounded, (mean - rounded) + rest, squares


def merge_all(counts: jax.Array, means: jax.Array, rests: jax.Array, squares: jax.Array) -> tuple[jax.Array, ...]:
    """Merge the records of D devices, which are the counts (D, 1), and the means, remainders and M2 (D, C).

    The merging formula subtracts only means from means, and never sums from sums, which would lose precision.
    """
    count = counts.sum()
    share = counts / jnp.maximum(count, 1)
    pivot = (share * means).sum(0)
    shift = (means - pivot) + rests
    mean_shift = (share * shift).sum(0)
    around = shift - mean_shift
    return merge(count, pivot, mean_shift, (squares + counts * around * around).sum(0))


# -------------------------------------------------------------------------------------------------- the exchanges


def exchange(record: tuple[jax.Array, ...], names: tuple[Hashable, ...], groups: Groups) -> tuple[jax.Array, ...]:
    """Collect the statistics records of all devices, or with `groups`, of the devices in this device's group.

    The records are the counts (D, 1), and the means, remainders and M2 (D, C).
    """
    count, mean, rest, squares = record
    flat = jnp.concatenate([count[None], mean, rest, squares])
    if groups is not None:
        table = lax.all_gather(flat, names, axis_index_groups=groups)
    else:
        # Every device fills one row of a sum. JAX knows that the result of psum, unlike that of all_gather, is the same
        # on every device. Therefore running statistics may leave a shard_map with check_vma=True as replicated values.
        rows = jnp.arange(lax.axis_size(names), dtype=jnp.int32)
        table = lax.psum(jnp.where((rows == lax.axis_index(names))[:, None], flat, 0), names)
    channels = mean.shape[0]
    counts, means, rests, all_squares = jnp.split(table, [1, 1 + channels, 1 + 2 * channels], axis=1)
    return counts, means, rests, all_squares


def sum_over(values: jax.Array, names: tuple[Hashable, ...], groups: Groups) -> jax.Array:
    """Return the sum of the values of all devices, or with `groups`, of the devices in this device's group."""
    if not names:
        return values
    if groups is None:
        return lax.psum(values, names)
    return lax.all_gather(values, names, axis_index_groups=groups).sum(0)  # psum rejects groups of arrays that vary
