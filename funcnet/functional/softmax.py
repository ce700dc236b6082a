"""Softmax and its relatives log_softmax, softmin and gumbel_softmax, all computed in at least float32.

Those over the last dimension in float32 are computed on CPU by the kernels of `funcnet.operators.native`.
"""

import warnings
from typing import Any

import jax
import jax.numpy as jnp

from funcnet.functional import checks
from funcnet.operators import native

__all__ = ["gumbel_softmax", "log_softmax", "softmax", "softmin"]


def softmax(input: jax.Array, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> jax.Array:
    """Compute `exp(x) / Σ exp(x)` over one dimension, in at least float32.

    Args:
        input: floating-point array of any shape. Any dtype is accepted if `dtype` is given.
        dim: the dimension along which the result sums to 1. None follows torch's deprecated rule: 0 for inputs of 0, 1
            or 3 dimensions, otherwise 1.
        _stacklevel: accepted as in torch, and ignored.
        dtype: dtype to which the input is cast first.

    Returns:
        An array of the input's shape, in the input's dtype or `dtype`. Where all entries along `dim` are -inf, the
        result is NaN.

    Raises:
        ValueError: if `dim` is out of range.
        TypeError: if the input is not floating-point and `dtype` is None.

    Example:
        >>> softmax(jnp.array([0.0, 0.0]), dim=0)
        Array([0.5, 0.5], dtype=float32)

    Reference: torch.nn.functional.softmax.
    """
    return _softmax("F.softmax", jax.nn.softmax, input, dim, dtype)


def log_softmax(input: jax.Array, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> jax.Array:
    """Compute `x - log Σ exp(x)` over one dimension, in at least float32.

    Args:
        input: floating-point array of any shape. Any dtype is accepted if `dtype` is given.
        dim: the dimension along which the exponentials of the result sum to 1; None as in `softmax`.
        _stacklevel: accepted as in torch, and ignored.
        dtype: dtype to which the input is cast first.

    Returns:
        An array of the input's shape, in the input's dtype or `dtype`.

    Raises:
        ValueError: if `dim` is out of range.
        TypeError: if the input is not floating-point and `dtype` is None.

    Example:
        >>> print(log_softmax(jnp.array([0.0, 0.0]), dim=0))
        [-0.6931472 -0.6931472]

    Reference: torch.nn.functional.log_softmax.
    """
    return _softmax("F.log_softmax", jax.nn.log_softmax, input, dim, dtype)


def softmin(input: jax.Array, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> jax.Array:
    """Compute `exp(-x) / Σ exp(-x)` over one dimension, in at least float32.

    Args:
        input: floating-point array of any shape. Any dtype except bool is accepted if `dtype` is given.
        dim: the dimension along which the result sums to 1; None as in `softmax`.
        _stacklevel: accepted as in torch, and ignored.
        dtype: dtype to which the negated input is cast first.

    Returns:
        An array of the input's shape, in the input's dtype or `dtype`.

    Raises:
        ValueError: if `dim` is out of range.
        TypeError: if the input is boolean, or is not floating-point and `dtype` is None.

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
    """Draw a differentiable sample of a category: `softmax((logits + g) / tau)`, where g is drawn from the Gumbel
    distribution.

    Args:
        logits: floating-point array of any shape, log-probabilities up to a constant.
        tau: temperature. A lower temperature gives results closer to one-hot.
        hard: if True, return a one-hot sample with the gradient of the soft sample (straight-through).
        eps: accepted as in torch, and ignored.
        dim: the dimension along which the result sums to 1.
        rng: a random key.

    Returns:
        An array of the shape and dtype of the logits.

    Raises:
        ValueError: if `dim` is out of range, or `rng` is None.
        TypeError: if the logits are not floating-point.

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
        warnings.warn("F.gumbel_softmax: eps has no effect. Omit it.", DeprecationWarning, 3)
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
        warnings.warn(
            f"{where}: dim is missing; expected a dimension, got None for an input of shape {input.shape}. As in "
            f"torch, dimension {dim} is used. Pass dim={dim} or dim=-1.",
            stacklevel=4,  # the wrapper of the public name is a level
        )
    ndim = max(input.ndim, 1)
    if not -ndim <= dim < ndim:
        raise ValueError(f"{where}: dim is out of range; expected {-ndim} to {ndim - 1}, got {dim}.")
    if input.size == 0:
        return input
    x = input.astype(checks.wide_dtype(input))
    if dim in (-1, ndim - 1) and input.ndim and native.is_used("kernels", input):
        return (native.softmax if function is jax.nn.softmax else native.log_softmax)(x)
    return function(x.reshape(x.shape or (1,)), axis=dim).reshape(input.shape).astype(input.dtype)
