"""Histograms and combinations."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np

from funcnet.functional import checks
from funcnet.torchlike.arguments import common_dtype

__all__ = ["cartesian_prod", "combinations", "histc"]


def histc(input: jax.Array, bins: int = 100, min: float = 0, max: float = 0) -> jax.Array:
    """Count the entries in bins of equal width.

    Args:
        input: floating-point array of any shape.
        bins: number of bins, at least 1.
        min: lower end of the first bin.
        max: upper end of the last bin, which includes this value. If `max` equals `min`, the bins extend from the
            smallest to the largest entry.

    Returns:
        An array of shape (bins,) with the dtype of the input. Entries outside the bins, and NaN, are not counted.

    Raises:
        ValueError: if `bins` is less than 1, or `max` is below `min`.
        TypeError: if the input is not floating-point.

    Differs from jax.numpy:
        `jnp.histogram` has different default ends, and its counts have a different dtype.

    Example:
        >>> histc(jnp.array([1.0, 2.0, 1.0]), 4, 0, 3).tolist()
        [0.0, 2.0, 1.0, 0.0]

    Reference: torch.histc.
    """
    where = "tl.histc"
    flat = checks.floating(where, "input", input).reshape(-1)
    if bins < 1 or max < min:
        raise ValueError(
            f"{where}: the bins are out of range; expected bins >= 1 and max >= min, got {bins}, {min}, {max}."
        )
    wide = flat.astype(checks.wide_dtype(flat))
    low, high = jnp.asarray(min, wide.dtype), jnp.asarray(max, wide.dtype)
    if min == max and wide.size:
        low, high = wide.min(), wide.max()
    low, high = jnp.where(low == high, low - 1, low), jnp.where(low == high, high + 1, high)
    inside = (wide >= low) & (wide <= high)
    places = ((wide - low) / (high - low) * bins).astype(np.int32)
    places = jnp.where(inside, jnp.minimum(places, bins - 1), bins)
    return jnp.zeros(bins, wide.dtype).at[places].add(1, mode="drop").astype(input.dtype)


def combinations(input: jax.Array, r: int = 2, with_replacement: bool = False) -> jax.Array:
    """Return all combinations of r entries, in the order of `itertools.combinations`.

    Args:
        input: array of shape (N,).
        r: number of entries of a combination, at least 0.
        with_replacement: whether an entry may occur several times in a combination.

    Returns:
        An array of shape (number of combinations, r), or (0,) for r = 0.

    Raises:
        ValueError: if the input does not have one dimension, or r is negative.

    Example:
        >>> combinations(jnp.array([1, 2, 3])).tolist()
        [[1, 2], [1, 3], [2, 3]]

    Reference: torch.combinations.
    """
    if input.ndim != 1 or r < 0:
        raise ValueError(
            f"tl.combinations: an argument does not fit; expected (N,) and r >= 0, got {input.shape}, {r}."
        )
    if r == 0:
        return jnp.zeros(0, input.dtype)
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    return input[np.asarray(list(choose(range(input.size), r)), np.int32).reshape(-1, r)]


def cartesian_prod(*tensors: jax.Array) -> jax.Array:
    """Return the Cartesian product of arrays.

    Each row of the result has one entry of each array. The rows are in the order of `itertools.product`.

    Args:
        tensors: arrays of shape (N,), where N may differ between the arrays.

    Returns:
        An array of shape (product of the sizes, number of arrays). A single array is returned unchanged.

    Raises:
        ValueError: if no array is given, or an array does not have one dimension.

    Example:
        >>> cartesian_prod(jnp.array([1, 2]), jnp.array([3, 4])).tolist()
        [[1, 3], [1, 4], [2, 3], [2, 4]]

    Reference: torch.cartesian_prod.
    """
    if not tensors or any(tensor.ndim != 1 for tensor in tensors):
        shapes = [tensor.shape for tensor in tensors]
        raise ValueError(
            f"tl.cartesian_prod: an array has the wrong rank; expected arrays of shape (N,), got {shapes}."
        )
    if len(tensors) == 1:
        return tensors[0]
    dtype = common_dtype(*tensors)
    grids = jnp.meshgrid(*(tensor.astype(dtype) for tensor in tensors), indexing="ij")
    return jnp.stack(grids, -1).reshape(-1, len(tensors))
