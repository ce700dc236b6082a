"""Dropout: random zeros in training, and a scale that keeps the expectation.

Every function takes a keyword-only `rng`. The mask comes from `funcnet.random.dropout_mask`, so that tests can replace
it: JAX cannot draw torch's random numbers. `inplace` is accepted as in torch and does nothing.
"""

import jax
import jax.numpy as jnp
from jax import lax

from funcnet import random
from funcnet.functional import checks

__all__ = ["alpha_dropout", "dropout", "dropout1d", "dropout2d", "dropout3d", "feature_alpha_dropout"]

_SELU_FLOOR = -1.7580993408473766  # the limit of selu at -inf: -scale · alpha


def dropout(
    input: jax.Array, p: float = 0.5, training: bool = True, inplace: bool = False, *, rng: jax.Array | None = None
) -> jax.Array:
    """In training, zeroes every entry with probability p and multiplies the others by `1 / (1 - p)`.

    Args:
        input: any shape, floating.
        p: the probability of zero, a Python float in [0, 1]; 1 gives zeros, not NaN.
        training: whether to drop; if not, the input is returned.
        inplace: ignored.
        rng: a key; needed in training if 0 < p < 1.

    Returns:
        As the input.

    Raises:
        ValueError: p outside [0, 1], or no `rng` where one is needed.
        TypeError: integers, where something is random.

    Example:
        >>> dropout(jnp.ones(4), 0.5, training=False)
        Array([1., 1., 1., 1.], dtype=float32)
        >>> sorted(set(dropout(jnp.ones(100), 0.5, rng=jax.random.key(0)).tolist()))
        [0.0, 2.0]

    Reference: torch.nn.functional.dropout.
    """
    return _drop("F.dropout", input, p, training, rng)


def dropout1d(
    input: jax.Array, p: float = 0.5, training: bool = True, inplace: bool = False, *, rng: jax.Array | None = None
) -> jax.Array:
    """In training, zeroes whole channels with probability p and multiplies the others by `1 / (1 - p)`.

    Args:
        input: (B, C, S) or (C, S), floating.
        p, training, inplace, rng: as in `dropout`.

    Returns:
        As the input.

    Raises:
        ValueError: another rank; p outside [0, 1]; no `rng` where one is needed.
        TypeError: integers, where something is random.

    Example:
        >>> dropout1d(jnp.ones((2, 3, 4)), 0.5, rng=jax.random.key(0)).std(axis=-1).max()
        Array(0., dtype=float32)

    Reference: torch.nn.functional.dropout1d.
    """
    return _drop("F.dropout1d", input, p, training, rng, leading=1 + _rank("F.dropout1d", input, spatial=1))


def dropout2d(
    input: jax.Array, p: float = 0.5, training: bool = True, inplace: bool = False, *, rng: jax.Array | None = None
) -> jax.Array:
    """In training, zeroes whole channels with probability p and multiplies the others by `1 / (1 - p)`.

    Args:
        input: (B, C, *S), floating. Three dimensions are (B, C, S), as in torch.
        p, training, inplace, rng: as in `dropout`.

    Returns:
        As the input.

    Raises:
        ValueError: p outside [0, 1]; where something is random, fewer than two dimensions or no `rng`.
        TypeError: integers, where something is random.

    Example:
        >>> dropout2d(jnp.ones((2, 3, 4, 4)), 0.5, rng=jax.random.key(0)).std(axis=(2, 3)).max()
        Array(0., dtype=float32)

    Reference: torch.nn.functional.dropout2d.
    """
    return _drop("F.dropout2d", input, p, training, rng, leading=2)


def dropout3d(
    input: jax.Array, p: float = 0.5, training: bool = True, inplace: bool = False, *, rng: jax.Array | None = None
) -> jax.Array:
    """In training, zeroes whole channels with probability p and multiplies the others by `1 / (1 - p)`.

    Args:
        input: (B, C, D, H, W) or (C, D, H, W), floating.
        p, training, inplace, rng: as in `dropout`.

    Returns:
        As the input.

    Raises:
        ValueError: another rank; p outside [0, 1]; no `rng` where one is needed.
        TypeError: integers, where something is random.

    Differs from torch: ranks other than four and five are refused, where torch warns.

    Example:
        >>> dropout3d(jnp.ones((3, 2, 2, 2)), 0.5, rng=jax.random.key(0)).std(axis=(1, 2, 3)).max()
        Array(0., dtype=float32)

    Reference: torch.nn.functional.dropout3d.
    """
    return _drop("F.dropout3d", input, p, training, rng, leading=1 + _rank("F.dropout3d", input, spatial=3))


def alpha_dropout(
    input: jax.Array, p: float = 0.5, training: bool = False, inplace: bool = False, *, rng: jax.Array | None = None
) -> jax.Array:
    """Dropout for selu networks: what it drops becomes selu's floor α', and `a · x + b` restores mean 0, variance 1.

    `a = 1 / sqrt((1 - p)(1 + p α'²))`, `b = -a p α'`, `α' = -1.7581`.

    Args:
        input: any shape, floating.
        p: the probability of being dropped, a Python float in [0, 1]; 1 gives zeros.
        training: whether to drop; if not, the input is returned. False by default, as in torch.
        inplace: ignored.
        rng: a key; needed in training if 0 < p < 1.

    Returns:
        As the input.

    Raises:
        ValueError: p outside [0, 1], or no `rng` where one is needed.
        TypeError: integers, where something is random.

    Example:
        >>> alpha_dropout(jnp.zeros(1000), 0.1, training=True, rng=jax.random.key(0)).round(3).max()
        Array(0.162, dtype=float32)

    Reference: torch.nn.functional.alpha_dropout; Klambauer et al. 2017.
    """
    return _drop("F.alpha_dropout", input, p, training, rng, floor=_SELU_FLOOR)


def feature_alpha_dropout(
    input: jax.Array, p: float = 0.5, training: bool = False, inplace: bool = False, *, rng: jax.Array | None = None
) -> jax.Array:
    """`alpha_dropout` of whole channels.

    Args:
        input: (B, C, *S), floating.
        p, training, inplace, rng: as in `alpha_dropout`.

    Returns:
        As the input.

    Raises:
        ValueError: p outside [0, 1]; where something is random, fewer than two dimensions or no `rng`.
        TypeError: integers, where something is random.

    Example:
        >>> feature_alpha_dropout(jnp.ones((2, 3, 4)), 0.5, True, rng=jax.random.key(0)).std(axis=-1).max()
        Array(0., dtype=float32)

    Reference: torch.nn.functional.feature_alpha_dropout.
    """
    return _drop("F.feature_alpha_dropout", input, p, training, rng, leading=2, floor=_SELU_FLOOR)


def _rank(where: str, input: jax.Array, spatial: int) -> bool:
    """Whether the input has a batch dimension; ValueError unless it is (batch, channel, *spatial) or (channel,
    *spatial)."""
    if jnp.ndim(input) not in (spatial + 1, spatial + 2):
        raise ValueError(
            f"{where}: input has the wrong rank; expected {spatial + 2} dimensions (batch, channel, *spatial) or "
            f"{spatial + 1} without the batch, got {jnp.shape(input)}."
        )
    return jnp.ndim(input) == spatial + 2


def _drop(
    where: str,
    input: jax.Array,
    p: float,
    training: bool,
    rng: jax.Array | None,
    leading: int | None = None,
    floor: float = 0.0,
) -> jax.Array:
    """The common part: draws for the `leading` dimensions, or for all; `floor` replaces what is dropped."""
    if not 0 <= p <= 1:
        raise ValueError(f"{where}: p is no probability; expected 0 to 1, got {p}.")
    input = jnp.asarray(input)
    if not training or p == 0:
        return input  # of any dtype and rank, as in torch
    if p == 1:
        return input * jnp.zeros((), input.dtype)
    input = checks.floating(where, "input", input)
    leading = input.ndim if leading is None else leading
    if input.ndim < leading:
        raise ValueError(
            f"{where}: input has too few dimensions; expected (batch, channel, *spatial), got {input.shape}."
        )
    shape = (*input.shape[:leading], *(1,) * (input.ndim - leading))
    kept = random.dropout_mask(checks.key(where, rng), shape, p)
    nothing = lax.stop_gradient(input) * 0  # as in torch, NaN where the input is no finite number
    if floor == 0:
        return jnp.where(kept, input * (1 / (1 - p)), nothing)
    a = ((1 - p) * (1 + p * floor**2)) ** -0.5
    return jnp.where(kept, input, nothing + floor) * a - a * p * floor
