"""Norms, distances and the cross product."""

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from funcnet.functional import checks
from funcnet.functional.vector_norm import vector_norm
from funcnet.torchlike.arguments import Dims, axes_of, axis_of, common_dtype, line

__all__ = ["cdist", "cross", "norm", "renorm"]


def norm(
    input: jax.Array,
    p: float | str | None = "fro",
    dim: Dims = None,
    keepdim: bool = False,
    dtype: DTypeLike | None = None,
) -> jax.Array:
    """Compute the p-norm of all entries, or over some dimensions. A norm of 0 has the gradient 0.

    Args:
        input: floating-point or complex array.
        p: order of the norm: any number, ±inf, "fro" (the same as 2) or "nuc" (the sum of the singular values). For
            `p=0`, the norm is the number of entries that are not 0.
        dim: dimensions to reduce. None and () mean all dimensions. "nuc" needs two dimensions.
        keepdim: whether the dimensions are kept with size 1.
        dtype: dtype to which the input is converted first.

    Returns:
        An array with the dtype of the input, real if the input is complex. The sums are computed in float32 or a wider
        dtype.

    Raises:
        ValueError: if the input has no such dimension, p is unknown, or "nuc" does not get two dimensions.
        TypeError: if the input contains integers.

    Differs from torch:
        For every order p except 0, 1, 2 and ±inf, the entries are divided by the dominant entry before they are raised
        to the power p, so that the powers do not overflow or underflow. The gradient at 0 is 0 for every p, whereas
        torch's gradient is NaN for some p. The gradient of `jnp.linalg.norm` at 0 is NaN.

    Example:
        >>> norm(jnp.array([3.0, 4.0])).item(), jax.grad(norm)(jnp.zeros(2)).tolist()
        (5.0, [0.0, 0.0])

    Reference: torch.norm.
    """
    where = "tl.norm"
    input = input if dtype is None else input.astype(dtype)
    axes = axes_of(where, dim, input.ndim)
    if p == "nuc":
        if len(axes) != 2:
            raise ValueError(f"{where}: p='nuc' is a norm of matrices; expected two dimensions, got {axes}.")
        singular = jnp.linalg.svd(jnp.moveaxis(input, axes, (-2, -1)), compute_uv=False).sum(-1)
        return jnp.expand_dims(singular, axes) if keepdim else singular
    if isinstance(p, str) and p != "fro":
        raise ValueError(f"{where}: p is unknown; expected a number, 'fro' or 'nuc', got {p!r}.")
    power = 2.0 if p is None or isinstance(p, str) else float(p)
    if jnp.iscomplexobj(input):
        input = jnp.abs(input)
    input = checks.floating(where, "input", input)
    wide = line(input).astype(checks.wide_dtype(input))
    out = vector_norm(wide, power, axes or (0,)).astype(input.dtype)
    if input.ndim == 0:
        return out.reshape(())
    return out if keepdim else out.squeeze(axes)


def cdist(x1: jax.Array, x2: jax.Array, p: float = 2.0, compute_mode: str | None = None) -> jax.Array:
    """Compute the p-norm distances between all rows of two matrices. The gradient of a distance of 0 is 0.

    Args:
        x1: floating-point array of shape (…, N, D).
        x2: floating-point array of shape (…, M, D).
        p: order of the norm, at least 0.
        compute_mode: ignored.

    Returns:
        An array of shape (…, N, M). For p = inf, every entry with the largest difference receives the full gradient.

    Raises:
        ValueError: if the shapes do not fit, or p is negative.
        TypeError: if an input is not floating-point.

    Differs from torch:
        For p = 2 and more than 25 rows, torch computes the distances from products, which is less accurate. `cdist`
        always computes the distances from differences.

    Example:
        >>> cdist(jnp.array([[0.0, 0.0]]), jnp.array([[3.0, 4.0], [0.0, 1.0]])).tolist()
        [[5.0, 1.0]]

    Reference: torch.cdist.
    """
    where = "tl.cdist"
    x1, x2 = checks.floating(where, "x1", x1), checks.floating(where, "x2", x2)
    if x1.ndim < 2 or x2.ndim < 2 or x1.shape[-1] != x2.shape[-1]:
        raise ValueError(
            f"{where}: the shapes do not fit; expected (…, N, D) and (…, M, D), got {x1.shape}, {x2.shape}."
        )
    if not p >= 0:
        raise ValueError(f"{where}: p is negative; expected at least 0, got {p}.")
    dtype = common_dtype(x1, x2)
    wide = checks.wide_dtype(jnp.zeros(0, dtype))
    away = x1.astype(wide)[..., :, None, :] - x2.astype(wide)[..., None, :, :]
    if away.size == 0:
        return jnp.zeros(away.shape[:-1], dtype)
    return vector_norm(away, float(p), -1, False).squeeze(-1).astype(dtype)


def cross(input: jax.Array, other: jax.Array, dim: int | None = None) -> jax.Array:
    """Compute the cross product of vectors with three entries.

    Args:
        input: array in which `dim` has size 3.
        other: array of the same rank. Dimensions of size 1 are broadcast.
        dim: dimension of the vectors. None means the first dimension of size 3 in the input.

    Returns:
        An array of the broadcast shape and the common dtype.

    Raises:
        ValueError: if the ranks differ, or `dim` does not have size 3.

    Differs from jax.numpy:
        `jnp.cross` uses the last dimension by default, like torch.linalg.cross.

    Example:
        >>> cross(jnp.array([1, 0, 0]), jnp.array([0, 1, 0])).tolist()
        [0, 0, 1]

    Reference: torch.cross.
    """
    where = "tl.cross"
    if input.ndim != other.ndim:
        raise ValueError(f"{where}: the ranks differ; expected the same, got {input.shape} and {other.shape}.")
    if dim is None:
        if 3 not in input.shape:
            raise ValueError(f"{where}: no dimension has size 3; expected one, got shape {input.shape}.")
        dim = input.shape.index(3)
    axis = axis_of(where, dim, input.ndim)
    if input.ndim == 0 or input.shape[axis] != 3 or other.shape[axis] != 3:
        raise ValueError(f"{where}: dimension {axis} must have size 3; got shapes {input.shape} and {other.shape}.")
    dtype = common_dtype(input, other)
    first, second = jnp.broadcast_arrays(input.astype(dtype), other.astype(dtype))
    return jnp.cross(first, second, axis=axis)


def renorm(input: jax.Array, p: float, dim: int, maxnorm: float) -> jax.Array:
    """Scale the slices along a dimension so that the p-norm of each slice is at most `maxnorm`.

    Args:
        input: floating-point or complex array of at least two dimensions.
        p: order of the norm, above 0.
        dim: dimension along which the slices are numbered.
        maxnorm: largest norm, at least 0.

    Returns:
        An array with the shape and the dtype of the input.

    Raises:
        ValueError: if the input has fewer than two dimensions, p is not positive, or `maxnorm` is negative.

    Example:
        >>> renorm(jnp.array([[3.0, 4.0], [0.3, 0.4]]), 2, 0, 1.0).round(3).tolist()
        [[0.6..., 0.8...], [0.3..., 0.4...]]

    Reference: torch.renorm.
    """
    where = "tl.renorm"
    if input.ndim < 2 or not p > 0 or maxnorm < 0:
        raise ValueError(
            f"{where}: the arguments are out of range; expected two dimensions or more, p > 0 and maxnorm >= 0, got "
            f"shape {input.shape}, p={p} and maxnorm={maxnorm}."
        )
    axis = axis_of(where, dim, input.ndim)
    size = jnp.abs(input) if jnp.iscomplexobj(input) else input
    wide = size.astype(checks.wide_dtype(size))
    length = vector_norm(wide, float(p), tuple(d for d in range(input.ndim) if d != axis))
    factor = jnp.where(length > maxnorm, maxnorm / (length + 1e-7), 1)  # torch's 1e-7
    return input * factor.astype(size.dtype).astype(input.dtype)
