"""Variance and standard deviation, alone or with the mean.

All functions in this file take these arguments:

    input: floating-point or complex array.
    dim: dimensions to reduce. None and () mean all dimensions. A bool passed as `dim` is read as `unbiased`.
    unbiased: True means the correction 1 (torch's default), and False means 0.
    keepdim: whether the dimensions stay with size 1.
    correction: number in the formulas. None means that `unbiased` determines the correction.

In the formulas of the variance, N is the number of entries that are reduced to one entry of the result. The sums are
computed in float32 or a wider dtype. If N is not above the correction, the variance is infinite, or NaN if all entries
are equal.
"""

import math
from typing import Any

import jax
import jax.numpy as jnp

from funcnet.functional import checks
from funcnet.torchlike.arguments import Dims, axes_of

__all__ = ["std", "std_mean", "var", "var_mean"]


def var(
    input: jax.Array,
    dim: Dims | bool = None,
    unbiased: bool = True,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> jax.Array:
    """Compute the variance `Σ|x - mean|² / max(0, N - correction)`.

    Args:
        input, dim, unbiased, keepdim, correction: see the docstring of moments.py.

    Returns:
        An array with the dtype of the input, real if the input is complex.

    Raises:
        ValueError: if the input has no such dimension.
        TypeError: if the input holds integers.

    Differs from torch:
        If N is below the correction, the gradient is NaN, whereas torch divides by a negative number. If N is above 1,
        `jnp.var(input, dim, ddof=1, keepdims=keepdim)` gives the same result.

    Example:
        >>> var(jnp.array([1.0, 2.0, 3.0])).item(), var(jnp.array([1.0, 2.0, 4.0, 5.0]), 0, unbiased=False).item()
        (1.0, 2.5)

    Reference: torch.var.
    """
    return _moments("tl.var", input, dim, unbiased, keepdim, correction)[0]


def std(
    input: jax.Array,
    dim: Dims | bool = None,
    unbiased: bool = True,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> jax.Array:
    """Compute the standard deviation `√(Σ|x - mean|² / max(0, N - correction))`.

    A standard deviation of 0 has the gradient 0.

    Args:
        input, dim, unbiased, keepdim, correction: see the docstring of moments.py.

    Returns:
        An array with the dtype of the input, real if the input is complex.

    Raises:
        ValueError: if the input has no such dimension.
        TypeError: if the input holds integers.

    Differs from jax.numpy:
        The gradient of `jnp.std` is NaN if all entries are equal.

    Example:
        >>> std(jnp.array([1.0, 2.0, 3.0])).item()
        1.0
        >>> jax.grad(std)(jnp.ones(2)).tolist()
        [0.0, 0.0]

    Reference: torch.std.
    """
    return _moments("tl.std", input, dim, unbiased, keepdim, correction, root=True)[0]


def var_mean(
    input: jax.Array,
    dim: Dims | bool = None,
    unbiased: bool = True,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> tuple[jax.Array, jax.Array]:
    """Compute the variance and the mean over the same dimensions.

    Args:
        input, dim, unbiased, keepdim, correction: see the docstring of moments.py.

    Returns:
        (variance, mean). The mean has the dtype of the input, and the variance has the same dtype as in `var`.

    Raises:
        ValueError: if the input has no such dimension.
        TypeError: if the input holds integers.

    Example:
        >>> [x.item() for x in var_mean(jnp.array([1.0, 2.0, 3.0]))]
        [1.0, 2.0]

    Reference: torch.var_mean.
    """
    return _moments("tl.var_mean", input, dim, unbiased, keepdim, correction)


def std_mean(
    input: jax.Array,
    dim: Dims | bool = None,
    unbiased: bool = True,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> tuple[jax.Array, jax.Array]:
    """Compute the standard deviation and the mean over the same dimensions.

    Args:
        input, dim, unbiased, keepdim, correction: see the docstring of moments.py.

    Returns:
        (standard deviation, mean). The mean has the dtype of the input, and the standard deviation has the same dtype
        as in `std`.

    Raises:
        ValueError: if the input has no such dimension.
        TypeError: if the input holds integers.

    Example:
        >>> [x.item() for x in std_mean(jnp.array([1.0, 2.0, 3.0]))]
        [1.0, 2.0]

    Reference: torch.std_mean.
    """
    return _moments("tl.std_mean", input, dim, unbiased, keepdim, correction, root=True)


def _moments(
    where: str,
    input: jax.Array,
    dim: Any,
    unbiased: bool,
    keepdim: bool,
    correction: float | None,
    root: bool = False,
) -> tuple[jax.Array, jax.Array]:
    """Return (variance, mean), or (standard deviation, mean) if `root` is True."""
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    is_complex = jnp.iscomplexobj(input)
    if not is_complex:
        input = checks.floating(where, "input", input)
    x = input if is_complex else input.astype(checks.wide_dtype(input))
    axes = axes_of(where, dim, x.ndim)
    count = math.prod(x.shape[axis] for axis in axes)
    freedom = float(count - (int(unbiased) if correction is None else correction))
    mean = x.mean(axes, keepdims=True)
    away = x - mean
    square = (away.real**2 + away.imag**2 if is_complex else away * away).sum(axes, keepdims=True)
    square = square / jnp.asarray(freedom if freedom > 0 else 0.0, square.dtype)
    spread = (_root(square) if root else square).astype(jnp.finfo(input.dtype).dtype)
    mean = mean.astype(input.dtype)
    return (spread, mean) if keepdim else (spread.squeeze(axes), mean.squeeze(axes))


@jax.custom_jvp
def _root(square: jax.Array) -> jax.Array:
    """Return the square root, whose gradient is 0 at 0."""
    return jnp.sqrt(square)


@_root.defjvp
def _root_jvp(primals: tuple[jax.Array, ...], tangents: tuple[jax.Array, ...]) -> tuple[jax.Array, jax.Array]:
    (square,), (d_square,) = primals, tangents
    root = _root(square)
    return root, jnp.where(root == 0, 0, d_square / (2 * jnp.where(root == 0, 1, root)))
