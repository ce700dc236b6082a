"""Distances and angles between vectors. Letters: `N rows, D entries of a vector`.

The computation uses at least float32. For equal vectors, the norm of the difference has no derivative. As in torch, the
gradient for equal vectors is 0.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from funcnet.functional import checks
from funcnet.functional.vector_norm import norm_slope, vector_norm

__all__ = ["cosine_similarity", "pairwise_distance", "pdist"]


def cosine_similarity(x1: jax.Array, x2: jax.Array, dim: int = 1, eps: float = 1e-8) -> jax.Array:
    """Compute `x1 · x2 / (max(‖x1‖, eps) · max(‖x2‖, eps))` along one dimension.

    Args:
        x1: floating-point array of any shape.
        x2: array of the same dtype, whose shape broadcasts with that of `x1`.
        dim: dimension of the broadcast shape along which the vectors extend.
        eps: lower bound on each norm, to avoid division by zero. As in torch, the derivative of a norm is computed
            without this bound.

    Returns:
        The cosine similarities, which lie in [-1, 1]. The result has the broadcast shape without `dim`.

    Raises:
        ValueError: if the shapes do not broadcast, or `dim` is out of range.
        TypeError: if the inputs are not floating-point, or their dtypes differ.

    Example:
        >>> cosine_similarity(jnp.array([[1.0, 0.0], [0.0, 3.0]]), jnp.array([[2.0, 0.0]]))
        Array([1., 0.], dtype=float32)

    Reference: torch.nn.functional.cosine_similarity.
    """
    where = "F.cosine_similarity"
    x1, x2 = _two(where, x1, x2)
    ndim = max(x1.ndim, 1)  # a scalar is a vector of one entry
    if not -ndim <= dim < ndim:
        raise ValueError(f"{where}: dim is out of range; expected {-ndim} to {ndim - 1}, got {dim}.")
    wide, shape = checks.wide_dtype(x1), x1.shape or (1,)
    first, second = (_unit(x.astype(wide).reshape(shape), dim, eps) for x in (x1, x2))
    return (first * second).sum(dim).astype(x1.dtype)


@functools.partial(jax.custom_jvp, nondiff_argnums=(1, 2))
def _unit(x: jax.Array, dim: int, eps: float) -> jax.Array:
    """Return `x / max(norm, eps)`, where norm is the Euclidean norm along `dim`. As in torch, the derivative of
    `max(norm, eps)` is that of the norm, even where eps is larger.
    """
    return x / jnp.maximum(vector_norm(x, 2.0, dim), eps)


@_unit.defjvp
def _unit_jvp(
    dim: int, eps: float, primals: tuple[jax.Array, ...], tangents: tuple[jax.Array, ...]
) -> tuple[jax.Array, jax.Array]:
    (x,), (dx,) = primals, tangents
    unit, norm = _unit(x, dim, eps), vector_norm(x, 2.0, dim)
    slope = jnp.where(norm == 0, 0, x / jnp.where(norm == 0, 1, norm))
    slack = jnp.where(jnp.isinf(norm), 0, norm - lax.stop_gradient(norm))  # 0, except for its derivative
    divisor = lax.stop_gradient(jnp.maximum(norm, eps)) + slack
    return unit, (dx - unit * (slope * dx).sum(dim, keepdims=True)) / divisor


def pairwise_distance(
    x1: jax.Array, x2: jax.Array, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
) -> jax.Array:
    """Compute `‖x1 - x2 + eps‖_p` over the last dimension.

    Args:
        x1: floating-point array of shape (…, D).
        x2: array of the same dtype, whose shape broadcasts with that of `x1`.
        p: order of the norm, any number including ±inf.
        eps: number added to every difference, to keep the gradient finite for equal vectors.
        keepdim: if True, keep the last dimension with size 1.

    Returns:
        An array of shape (…) or (…, 1).

    Raises:
        ValueError: if the shapes do not broadcast, or both inputs are scalars.
        TypeError: if the inputs are not floating-point, or their dtypes differ.

    Example:
        >>> pairwise_distance(jnp.array([[0.0, 0.0]]), jnp.array([[3.0, 4.0]])).round(3)
        Array([5.], dtype=float32)

    Reference: torch.nn.functional.pairwise_distance.
    """
    where = "F.pairwise_distance"
    x1, x2 = _two(where, x1, x2)
    if x1.ndim == 0:
        raise ValueError(f"{where}: the inputs are scalars; expected vectors (…, D), got ().")
    wide = checks.wide_dtype(x1)
    distance = vector_norm(x1.astype(wide) - x2.astype(wide) + eps, float(p), -1)
    return (distance if keepdim else distance.squeeze(-1)).astype(x1.dtype)


def pdist(input: jax.Array, p: float = 2.0) -> jax.Array:
    """Compute the p-norm distances between all pairs of rows, in the order (0, 1), (0, 2), …, (1, 2), ….

    Args:
        input: floating-point array of shape (N, D).
        p: order of the norm, at least 0. With p = 0, the distance of two rows is the number of entries in which they
            differ.

    Returns:
        An array of shape (N · (N - 1) / 2,). For p = inf, every entry with the largest difference receives the full
        gradient.

    Raises:
        ValueError: if the input does not have two dimensions, or p is negative.
        TypeError: if the input is not floating-point.

    Example:
        >>> pdist(jnp.array([[0.0, 0.0], [3.0, 4.0], [0.0, 1.0]])).round(3)
        Array([5.   , 1.   , 4.243], dtype=float32)

    Reference: torch.nn.functional.pdist.
    """
    input = checks.floating("F.pdist", "input", input)
    if input.ndim != 2:
        raise ValueError(f"F.pdist: input has the wrong rank; expected (N, D), got {input.shape}.")
    if not p >= 0:
        raise ValueError(f"F.pdist: p is negative; expected at least 0, got {p}.")
    rows, columns = np.triu_indices(input.shape[0], 1)
    if input.shape[1] == 0 or rows.size == 0:
        return jnp.zeros(rows.size, input.dtype)
    return _distances(input.astype(checks.wide_dtype(input)), float(p))[rows, columns].astype(input.dtype)


@functools.partial(jax.custom_jvp, nondiff_argnums=(1,))
def _distances(x: jax.Array, p: float) -> jax.Array:
    """Return the distances (N, N) between all pairs of rows. XLA computes the distances without storing the N²
    difference vectors.
    """
    return vector_norm(x[:, None] - x[None], p, -1, False).squeeze(-1)


@_distances.defjvp
def _distances_jvp(
    p: float, primals: tuple[jax.Array, ...], tangents: tuple[jax.Array, ...]
) -> tuple[jax.Array, jax.Array]:
    """Compute the tangents (N, N) for a change of the first vector of each pair, row by row, and add their transpose.

    The transpose contains the tangents for a change of the second vector. On CPU, the loop over rows takes a twentieth
    of the time of one sum over N² slopes, and stores N slopes instead of N².
    """
    (x,), (dx,) = primals, tangents
    distances = _distances(x, p)

    @jax.checkpoint
    def row(given: tuple[jax.Array, ...]) -> jax.Array:
        one, moved, far = given
        return jnp.dot(norm_slope(one - x, far[:, None], p, -1, False), moved, precision="highest")

    half = lax.map(row, (x, dx, distances))
    return distances, half + half.T


def _two(where: str, x1: jax.Array, x2: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Broadcast `x1` and `x2` to a common shape, or raise an error."""
    x1, x2 = checks.floating(where, "x1", x1), checks.floating(where, "x2", x2)
    checks.one_dtype(where, x1=x1, x2=x2)
    try:
        shape = jnp.broadcast_shapes(x1.shape, x2.shape)
    except ValueError:
        raise ValueError(
            f"{where}: the shapes do not broadcast; expected sizes that are equal or 1, got {x1.shape} and {x2.shape}."
        ) from None
    return jnp.broadcast_to(x1, shape), jnp.broadcast_to(x2, shape)
