"""Dropout, which in training sets random entries to 0 and scales the others so that the expected value is the same.

Every function takes a random key as the keyword-only argument `rng`. The dropout masks are drawn with
`funcnet.random.dropout_mask`. JAX cannot draw the same random numbers as torch, so a test that compares both libraries
may replace `dropout_mask`. `inplace` exists for compatibility with torch and is ignored.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from funcnet import random
from funcnet.functional import checks
from funcnet.functional.sharding import placed

__all__ = ["alpha_dropout", "dropout", "dropout1d", "dropout2d", "dropout3d", "feature_alpha_dropout"]

_SELU_FLOOR = -1.7580993408473766  # the limit of selu at -inf, -scale · alpha


def dropout(
    input: jax.Array,
    p: random.Rate = 0.5,
    training: bool = True,
    inplace: bool = False,
    *,
    rng: jax.Array | None = None,
) -> jax.Array:
    """In training, set each entry to 0 with probability p, and multiply the others by `1 / (1 - p)`.

    Args:
        input: floating-point array of any shape.
        p: probability that an entry becomes 0, in [0, 1]: a Python float, or a traced scalar, whose range is not
            checked. With p = 1, all entries become 0, not NaN.
        training: if False, the input is returned unchanged.
        inplace: ignored.
        rng: random key, required in training if 0 < p < 1.

    Returns:
        An array of the same shape and dtype as the input.

    Raises:
        ValueError: if p is outside [0, 1], or `rng` is required but missing.
        TypeError: if `training` is an array or a string. In training with 0 < p < 1, an input that is not
            floating-point also raises a TypeError.

    Example:
        >>> dropout(jnp.ones(4), 0.5, training=False)
        Array([1., 1., 1., 1.], dtype=float32)
        >>> sorted(set(dropout(jnp.ones(100), 0.5, rng=jax.random.key(0)).tolist()))
        [0.0, 2.0]

    Reference: torch.nn.functional.dropout.
    """
    return _drop("F.dropout", input, p, training, rng)


def dropout1d(
    input: jax.Array,
    p: random.Rate = 0.5,
    training: bool = True,
    inplace: bool = False,
    *,
    rng: jax.Array | None = None,
) -> jax.Array:
    """In training, set each channel to 0 with probability p, and multiply the others by `1 / (1 - p)`.

    Args:
        input: floating-point array of shape (B, C, S) or (C, S).
        p, training, inplace, rng: as in `dropout`.

    Returns:
        An array of the same shape and dtype as the input.

    Raises:
        ValueError: if the input has the wrong rank, p is outside [0, 1], or `rng` is required but missing.
        TypeError: if `training` is an array or a string. In training with 0 < p < 1, an input that is not
            floating-point also raises a TypeError.

    Example:
        >>> dropout1d(jnp.ones((2, 3, 4)), 0.5, rng=jax.random.key(0)).std(axis=-1).max()
        Array(0., dtype=float32)

    Reference: torch.nn.functional.dropout1d.
    """
    return _drop("F.dropout1d", input, p, training, rng, leading=1 + _rank("F.dropout1d", input, spatial=1))


def dropout2d(
    input: jax.Array,
    p: random.Rate = 0.5,
    training: bool = True,
    inplace: bool = False,
    *,
    rng: jax.Array | None = None,
) -> jax.Array:
    """In training, set each channel to 0 with probability p, and multiply the others by `1 / (1 - p)`.

    Args:
        input: floating-point array of shape (B, C, *S). An input with three dimensions is read as (B, C, S), as in
            torch.
        p, training, inplace, rng: as in `dropout`.

    Returns:
        An array of the same shape and dtype as the input.

    Raises:
        ValueError: if p is outside [0, 1]. In training with 0 < p < 1, an input with fewer than two dimensions or a
            missing `rng` also raises a ValueError.
        TypeError: if `training` is an array or a string. In training with 0 < p < 1, an input that is not
            floating-point also raises a TypeError.

    Example:
        >>> dropout2d(jnp.ones((2, 3, 4, 4)), 0.5, rng=jax.random.key(0)).std(axis=(2, 3)).max()
        Array(0., dtype=float32)

    Reference: torch.nn.functional.dropout2d.
    """
    return _drop("F.dropout2d", input, p, training, rng, leading=2)


def dropout3d(
    input: jax.Array,
    p: random.Rate = 0.5,
    training: bool = True,
    inplace: bool = False,
    *,
    rng: jax.Array | None = None,
) -> jax.Array:
    """In training, set each channel to 0 with probability p, and multiply the others by `1 / (1 - p)`.

    Args:
        input: floating-point array of shape (B, C, D, H, W) or (C, D, H, W).
        p, training, inplace, rng: as in `dropout`.

    Returns:
        An array of the same shape and dtype as the input.

    Raises:
        ValueError: if the input has the wrong rank, p is outside [0, 1], or `rng` is required but missing.
        TypeError: if `training` is an array or a string. In training with 0 < p < 1, an input that is not
            floating-point also raises a TypeError.

    Differs from torch: an input that has neither four nor five dimensions is an error, whereas torch only warns.

    Example:
        >>> dropout3d(jnp.ones((3, 2, 2, 2)), 0.5, rng=jax.random.key(0)).std(axis=(1, 2, 3)).max()
        Array(0., dtype=float32)

    Reference: torch.nn.functional.dropout3d.
    """
    return _drop("F.dropout3d", input, p, training, rng, leading=1 + _rank("F.dropout3d", input, spatial=3))


def alpha_dropout(
    input: jax.Array,
    p: random.Rate = 0.5,
    training: bool = False,
    inplace: bool = False,
    *,
    rng: jax.Array | None = None,
) -> jax.Array:
    """Apply dropout for networks with selu activations. This form of dropout preserves mean 0 and variance 1.

    Dropped entries become the lower limit of selu, `α' = -1.7581`. Every entry x is then mapped to `a · x + b`, with
    `a = 1 / sqrt((1 - p)(1 + p α'²))` and `b = -a p α'`.

    Args:
        input: floating-point array of any shape.
        p: probability of dropping an entry, as in `dropout`. With p = 1, all entries become 0.
        training: if False (the default, as in torch), the input is returned unchanged.
        inplace: ignored.
        rng: random key, required in training if 0 < p < 1.

    Returns:
        An array of the same shape and dtype as the input.

    Raises:
        ValueError: if p is outside [0, 1], or `rng` is required but missing.
        TypeError: if `training` is an array or a string. In training with 0 < p < 1, an input that is not
            floating-point also raises a TypeError.

    Example:
        >>> alpha_dropout(jnp.zeros(1000), 0.1, training=True, rng=jax.random.key(0)).round(3).max()
        Array(0.162, dtype=float32)

    Reference: torch.nn.functional.alpha_dropout; Klambauer et al. 2017.
    """
    return _drop("F.alpha_dropout", input, p, training, rng, floor=_SELU_FLOOR)


def feature_alpha_dropout(
    input: jax.Array,
    p: random.Rate = 0.5,
    training: bool = False,
    inplace: bool = False,
    *,
    rng: jax.Array | None = None,
) -> jax.Array:
    """Apply `alpha_dropout` to entire channels.

    Args:
        input: floating-point array of shape (B, C, *S).
        p, training, inplace, rng: as in `alpha_dropout`.

    Returns:
        An array of the same shape and dtype as the input.

    Raises:
        ValueError: if p is outside [0, 1]. In training with 0 < p < 1, an input with fewer than two dimensions or a
            missing `rng` also raises a ValueError.
        TypeError: if `training` is an array or a string. In training with 0 < p < 1, an input that is not
            floating-point also raises a TypeError.

    Example:
        >>> feature_alpha_dropout(jnp.ones((2, 3, 4)), 0.5, True, rng=jax.random.key(0)).std(axis=-1).max()
        Array(0., dtype=float32)

    Reference: torch.nn.functional.feature_alpha_dropout.
    """
    return _drop("F.feature_alpha_dropout", input, p, training, rng, leading=2, floor=_SELU_FLOOR)


def _rank(where: str, input: jax.Array, spatial: int) -> bool:
    """Return whether the input has a batch dimension, or raise ValueError if its rank is wrong."""
    if jnp.ndim(input) not in (spatial + 1, spatial + 2):
        raise ValueError(
            f"{where}: input has the wrong rank; expected {spatial + 2} dimensions (batch, channel, *spatial) or "
            f"{spatial + 1} without the batch, got shape {jnp.shape(input)}."
        )
    return jnp.ndim(input) == spatial + 2


def _drop(
    where: str,
    input: jax.Array,
    p: random.Rate,
    training: bool,
    rng: jax.Array | None,
    leading: int | None = None,
    floor: float = 0.0,
) -> jax.Array:
    """Replace random entries of the input by `floor`, and rescale the result as `dropout` and `alpha_dropout` describe.
    The random mask has the first `leading` dimensions of the input, and is broadcast over the others; None means all
    dimensions.
    """
    checks.probability(where, "p", p)
    if isinstance(training, str | jax.Array) and not isinstance(training, jax.core.Tracer):
        raise TypeError(
            f"{where}: training has the wrong type; expected True or False, got {training!r:.40}. Pass the key by "
            "name: rng=key."
        )
    input = jnp.asarray(input)
    is_traced = isinstance(p, jax.core.Tracer)
    if not training or (not is_traced and p == 0):
        return input  # of any dtype and rank, as in torch
    if not is_traced and p == 1:
        return input * jnp.zeros((), input.dtype)
    input = checks.floating(where, "input", input)
    leading = input.ndim if leading is None else leading
    if input.ndim < leading:
        raise ValueError(
            f"{where}: input has too few dimensions; expected (batch, channel, *spatial), got {input.shape}."
        )
    shape = (*input.shape[:leading], *(1,) * (input.ndim - leading))
    where_drawn = [axis if axis < leading else None for axis in range(input.ndim)]
    kept = placed(random.dropout_mask(checks.key(where, rng), shape, p), input, where_drawn)
    nothing = lax.stop_gradient(input) * 0  # as in torch, NaN where the input is not finite
    rate: Any = lax.stop_gradient(jnp.asarray(p, checks.wide_dtype(input))) if is_traced else float(p)
    # A traced rate of 1 drops all entries, so any finite share will do.
    share: Any = jnp.where(rate < 1, 1 - rate, jnp.ones_like(rate)) if is_traced else 1 - rate
    as_factor = lambda value: value.astype(input.dtype) if is_traced else value
    if floor == 0:
        return jnp.where(kept, input * as_factor(1 / share), nothing)
    a: Any = (share * (1 + rate * floor**2)) ** -0.5
    if is_traced:
        a = jnp.where(rate < 1, a, jnp.zeros_like(a))
    return jnp.where(kept, input, nothing + floor) * as_factor(a) - as_factor(a * rate * floor)
