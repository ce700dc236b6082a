"""Softmax and its relatives log_softmax, softmin and gumbel_softmax, all computed in at least float32."""

import warnings
from typing import Any

import jax
import jax.numpy as jnp

from funcnet.functional import checks

__all__ = ["gumbel_softmax", "log_softmax", "softmax", "softmin"]


def softmax(input: jax.Array, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> jax.Array:
    """`exp(x) / Σ exp(x)` over one dimension, in at least float32.

    Args:
        input: any shape, floating (or any, with a `dtype`).
        dim: the dimension whose entries then sum to 1. None is torch's old rule: 0 for 0, 1 or 3 dimensions, else 1.
        _stacklevel: torch's, ignored.
        dtype: what to convert the input to first.

    Returns:
        As the input, or of `dtype`. A row that is -inf throughout is NaN.

    Raises:
        ValueError: there is no dimension `dim`.
        TypeError: integers without a `dtype`.

    Example:
        >>> softmax(jnp.array([0.0, 0.0]), dim=0)
        Array([0.5, 0.5], dtype=float32)

    Reference: torch.nn.functional.softmax.
    """
    return _softmax("F.softmax", jax.nn.softmax, input, dim, dtype)


def log_softmax(input: jax.Array, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> jax.Array:
    """`x - log Σ exp(x)` over one dimension, in at least float32.

    Args:
        input: any shape, floating (or any, with a `dtype`).
        dim: the dimension whose exponentials then sum to 1; None as in `softmax`.
        _stacklevel: torch's, ignored.
        dtype: what to convert the input to first.

    Returns:
        As the input, or of `dtype`.

    Raises:
        ValueError: there is no dimension `dim`.
        TypeError: integers without a `dtype`.

    Example:
        >>> print(log_softmax(jnp.array([0.0, 0.0]), dim=0))
        [-0.6931472 -0.6931472]

    Reference: torch.nn.functional.log_softmax.
    """
    return _softmax("F.log_softmax", jax.nn.log_softmax, input, dim, dtype)


def softmin(input: jax.Array, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> jax.Array:
    """`exp(-x) / Σ exp(-x)` over one dimension, in at least float32.

    Args:
        input: any shape, floating (or any numbers, with a `dtype`).
        dim: the dimension whose entries then sum to 1; None as in `softmax`.
        _stacklevel: torch's, ignored.
        dtype: what to convert the negated input to first.

    Returns:
        As the input, or of `dtype`.

    Raises:
        ValueError: there is no dimension `dim`.
        TypeError: booleans, or integers without a `dtype`.

    Example:
        >>> print(softmin(jnp.array([0.0, 0.0, 100.0]), dim=0))
        [0.5 0.5 0. ]

    Reference: torch.nn.functional.softmin.
    """
    return _softmax("F.softmin", jax.nn.softmax, -checks.numbers("F.softmin", "input", input), dim, dtype)


def gumbel_softmax(
    logits: jax.Array,
    tau: float = 1,
    hard: bool = False,
    eps: float = 1e-10,
    dim: int = -1,
    *,
    rng: jax.Array | None = None,
) -> jax.Array:
    """`softmax((logits + g) / tau)` with g drawn from the Gumbel distribution: a differentiable draw of a category.

    Args:
        logits: any shape, floating: log-probabilities, up to a constant.
        tau: the temperature; the lower, the nearer to one-hot.
        hard: whether to return the one-hot draw itself, with the gradient of the soft one (straight through).
        eps: torch's, without effect.
        dim: the dimension whose entries then sum to 1.
        rng: a key.

    Returns:
        As the logits.

    Raises:
        ValueError: there is no dimension `dim`, or no `rng`.
        TypeError: integers.

    Example:
        >>> draw = gumbel_softmax(jnp.array([[0.0, 90.0], [90.0, 0.0]]), hard=True, rng=jax.random.key(0))
        >>> print(draw)
        [[0. 1.]
         [1. 0.]]

    Reference: torch.nn.functional.gumbel_softmax; Jang et al. 2017, Maddison et al. 2017.
    """
    logits = checks.floating("F.gumbel_softmax", "logits", logits)
    rng = checks.key("F.gumbel_softmax", rng)
    if eps != 1e-10:
        warnings.warn("F.gumbel_softmax: eps has no effect; leave it out.", DeprecationWarning, 2)
    wide = logits.astype(checks.wide_dtype(logits))
    noise = jax.random.gumbel(rng, wide.shape, wide.dtype)
    soft = _softmax("F.gumbel_softmax", jax.nn.softmax, (wide + noise) / tau, dim, None)
    if not hard:
        return soft.astype(logits.dtype)
    row = soft.reshape(soft.shape or (1,))
    one = jax.nn.one_hot(row.argmax(dim), row.shape[dim], dtype=soft.dtype, axis=dim).reshape(soft.shape)
    return (one - jax.lax.stop_gradient(soft) + soft).astype(logits.dtype)


def _softmax(where: str, function: Any, input: jax.Array, dim: int | None, dtype: Any) -> jax.Array:
    input = jnp.asarray(input) if dtype is None else jnp.asarray(input).astype(dtype)
    input = checks.floating(where, "input", input)
    if dim is None:
        dim = 0 if input.ndim in (0, 1, 3) else 1
    ndim = max(input.ndim, 1)
    if not -ndim <= dim < ndim:
        raise ValueError(f"{where}: there is no such dimension; expected {-ndim} to {ndim - 1}, got {dim}.")
    if input.size == 0:
        return input
    x = input.astype(checks.wide_dtype(input))
    return function(x.reshape(x.shape or (1,)), axis=dim).reshape(input.shape).astype(input.dtype)
