"""Dropout: random zeros in training, and a scale that keeps the expectation.

Every function takes a keyword-only `rng`. The mask comes from `funcnet.random.dropout_mask`, so that tests may put
another in its place: torch's random numbers cannot be had in JAX. `inplace` is torch's and does nothing.
"""

from collections.abc import Sequence

import jax
import jax.numpy as jnp

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
        training: otherwise the input is returned.
        inplace: ignored.
        rng: a key; needed in training if 0 < p < 1.

    Returns:
        As the input.

    Raises:
        ValueError: p outside [0, 1], or no `rng` where one is needed.
        TypeError: integers.

    Example:
        >>> dropout(jnp.ones(4), 0.5, training=False)
        Array([1., 1., 1., 1.], dtype=float32)
        >>> sorted(set(dropout(jnp.ones(100), 0.5, rng=jax.random.key(0)).tolist()))
        [0.0, 2.0]

    Reference: torch.nn.functional.dropout.
    """
    input = _check("F.dropout", input, p)
    return _drop("F.dropout", input, p, training, rng, input.shape)


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
        TypeError: integers.

    Example:
        >>> dropout1d(jnp.ones((2, 3, 4)), 0.5, rng=jax.random.key(0)).std(axis=-1).max()
        Array(0., dtype=float32)

    Reference: torch.nn.functional.dropout1d.
    """
    input = checks.spatial("F.dropout1d", _check("F.dropout1d", input, p), 1)
    return _drop("F.dropout1d", input, p, training, rng, _channels(input, unbatched=input.ndim == 2))


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
        ValueError: fewer than two dimensions; p outside [0, 1]; no `rng` where one is needed.
        TypeError: integers.

    Example:
        >>> dropout2d(jnp.ones((2, 3, 4, 4)), 0.5, rng=jax.random.key(0)).std(axis=(2, 3)).max()
        Array(0., dtype=float32)

    Reference: torch.nn.functional.dropout2d.
    """
    input = _check("F.dropout2d", input, p)
    return _drop("F.dropout2d", input, p, training, rng, _feature_shape("F.dropout2d", input))


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
        TypeError: integers.

    Differs from torch: ranks other than four and five are refused, where torch warns.

    Example:
        >>> dropout3d(jnp.ones((3, 2, 2, 2)), 0.5, rng=jax.random.key(0)).std(axis=(1, 2, 3)).max()
        Array(0., dtype=float32)

    Reference: torch.nn.functional.dropout3d.
    """
    input = checks.spatial("F.dropout3d", _check("F.dropout3d", input, p), 3)
    return _drop("F.dropout3d", input, p, training, rng, _channels(input, unbatched=input.ndim == 4))


def alpha_dropout(
    input: jax.Array, p: float = 0.5, training: bool = False, inplace: bool = False, *, rng: jax.Array | None = None
) -> jax.Array:
    """Dropout for selu networks: what it drops becomes selu's floor α', and `a · x + b` restores mean 0, variance 1.

    `a = 1 / sqrt((1 - p)(1 + p α'²))`, `b = -a p α'`, `α' = -1.7581`.

    Args:
        input: any shape, floating.
        p: the probability of being dropped, a Python float in [0, 1]; 1 gives zeros.
        training: otherwise the input is returned. False by default, as in torch.
        inplace: ignored.
        rng: a key; needed in training if 0 < p < 1.

    Returns:
        As the input.

    Raises:
        ValueError: p outside [0, 1], or no `rng` where one is needed.
        TypeError: integers.

    Example:
        >>> alpha_dropout(jnp.zeros(1000), 0.1, training=True, rng=jax.random.key(0)).round(3).max()
        Array(0.162, dtype=float32)

    Reference: torch.nn.functional.alpha_dropout; Klambauer et al. 2017.
    """
    input = _check("F.alpha_dropout", input, p)
    return _alpha_drop("F.alpha_dropout", input, p, training, rng, input.shape)


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
        ValueError: fewer than two dimensions; p outside [0, 1]; no `rng` where one is needed.
        TypeError: integers.

    Example:
        >>> feature_alpha_dropout(jnp.ones((2, 3, 4)), 0.5, True, rng=jax.random.key(0)).std(axis=-1).max()
        Array(0., dtype=float32)

    Reference: torch.nn.functional.feature_alpha_dropout.
    """
    input = _check("F.feature_alpha_dropout", input, p)
    shape = _feature_shape("F.feature_alpha_dropout", input)
    return _alpha_drop("F.feature_alpha_dropout", input, p, training, rng, shape)


def _check(where: str, input: jax.Array, p: float) -> jax.Array:
    if not 0 <= p <= 1:
        raise ValueError(f"{where}: p is no probability; expected 0 to 1, got {p}. Choose the share to drop.")
    return checks.floating(where, "input", input)


def _channels(input: jax.Array, unbatched: bool) -> tuple[int, ...]:
    leading = input.shape[: 1 if unbatched else 2]
    return (*leading, *(1,) * (input.ndim - len(leading)))


def _feature_shape(where: str, input: jax.Array) -> tuple[int, ...]:
    if input.ndim < 2:
        raise ValueError(
            f"{where}: input has too few dimensions; expected (batch, channel, *spatial), got {input.shape}. "
            "Add the missing dimension."
        )
    return _channels(input, unbatched=False)


def _mask(where: str, p: float, rng: jax.Array | None, shape: Sequence[int]) -> jax.Array:
    if rng is None:
        raise ValueError(
            f"{where}: random in training; expected a key, got rng=None. Pass rng=key, another "
            "one at every call; inside a module's forward rng=self.make_rng() if self.training else None."
        )
    return random.dropout_mask(rng, shape, p)


def _drop(
    where: str, input: jax.Array, p: float, training: bool, rng: jax.Array | None, shape: Sequence[int]
) -> jax.Array:
    if not training or p == 0:
        return input
    if p == 1:
        return jnp.zeros_like(input)
    return jnp.where(_mask(where, p, rng, shape), input * (1 / (1 - p)), 0)


def _alpha_drop(
    where: str, input: jax.Array, p: float, training: bool, rng: jax.Array | None, shape: Sequence[int]
) -> jax.Array:
    if not training or p == 0:
        return input
    if p == 1:
        return jnp.zeros_like(input)
    a = ((1 - p) * (1 + p * _SELU_FLOOR**2)) ** -0.5
    kept = _mask(where, p, rng, shape)
    return jnp.where(kept, input, _SELU_FLOOR) * a - a * p * _SELU_FLOOR
