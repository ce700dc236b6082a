"""Norms of matrices, rank, pseudoinverse, and other functions of singular values.

Letters: `B batch dimensions (any number), M rows, N columns`.
"""

import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike, DTypeLike

from funcnet.torchlike.arguments import Dims, axes_of, axis_of, index_dtype, line
from funcnet.torchlike.arithmetic import abs as size_of
from funcnet.torchlike.decompositions import check_matrix
from funcnet.torchlike.linear_algebra import norm as vector_norm

__all__ = ["logdet", "matrix_norm", "matrix_rank", "norm", "pinv", "vander"]

Order = float | str | None


def norm(
    A: jax.Array, ord: Order = None, dim: Dims = None, keepdim: bool = False, dtype: DTypeLike | None = None
) -> jax.Array:
    """Compute a norm of vectors or of matrices. A norm of 0 has the gradient 0.

    Args:
        A: floating-point or complex array.
        ord: order of the norm. None means the 2-norm of all entries along `dim`, for any number of dimensions.
        dim: one dimension for a norm of vectors, or two for a norm of matrices. None means all.
        keepdim: whether the dimensions stay with size 1.
        dtype: dtype to which A is converted first.

    Returns:
        An array with the dtype of A, real if A is complex.

    Raises:
        ValueError: if the order is unknown, or a matrix norm does not get two dimensions.

    Differs from jax.numpy:
        The gradient of `jnp.linalg.norm` at 0 is NaN.

    Example:
        >>> norm(jnp.array([[3.0, 0.0], [0.0, 4.0]])).item(), norm(jnp.array([[3.0, 0.0], [0.0, 4.0]]), 2).item()
        (5.0, 4.0)

    Reference: torch.linalg.norm.
    """
    if ord is None:
        return vector_norm(A, 2, dim, keepdim, dtype)
    axes = axes_of("tl.linalg.norm", dim, A.ndim)
    if len(axes) == 1 or A.ndim == 0:
        return vector_norm(A, ord, axes or None, keepdim, dtype)
    return _of_matrices("tl.linalg.norm", A, ord, axes if dim is None else dim, keepdim, dtype)


def matrix_norm(
    A: jax.Array,
    ord: float | str = "fro",
    dim: Sequence[int] = (-2, -1),
    keepdim: bool = False,
    dtype: DTypeLike | None = None,
) -> jax.Array:
    """Compute a norm of matrices. A norm of 0 has the gradient 0.

    Args:
        A: floating-point or complex array.
        ord: "fro" (the root of the sum of squares), "nuc" (the sum of the singular values), 2 or -2 (the largest or the
            smallest singular value), 1 or -1 (the largest or the smallest column sum of absolute values), inf or -inf
            (the largest or the smallest row sum of absolute values).
        dim: the dimensions of the rows and of the columns.
        keepdim: whether the dimensions stay with size 1.
        dtype: dtype to which A is converted first.

    Returns:
        An array with the dtype of A, real if A is complex.

    Raises:
        ValueError: if the order is unknown, or the number of dimensions is not two.

    Example:
        >>> matrix_norm(jnp.array([[1.0, -2.0], [3.0, 4.0]]), 1).item()
        6.0

    Reference: torch.linalg.matrix_norm.
    """
    return _of_matrices("tl.linalg.matrix_norm", A, ord, dim, keepdim, dtype)


def _of_matrices(
    where: str, A: jax.Array, ord: float | str, dim: Any, keepdim: bool, dtype: DTypeLike | None
) -> jax.Array:
    A = A if dtype is None else A.astype(dtype)
    given = tuple(dim)
    if len(given) != 2 or A.ndim < 2:
        raise ValueError(f"{where}: a matrix has two dimensions; expected two in dim, got {given} for {A.shape}.")
    axes = tuple(axis_of(where, one, A.ndim) for one in given)
    if ord == "fro":
        return vector_norm(A, 2, axes, keepdim)
    if ord not in ("nuc", 1, -1, 2, -2, math.inf, -math.inf):
        raise ValueError(f"{where}: ord is unknown; expected 'fro', 'nuc', ±1, ±2 or ±inf, got {ord!r}.")
    matrix = jnp.moveaxis(A, axes, (-2, -1))
    of_rows = -1 if ord in (math.inf, -math.inf) else -2
    parts = jnp.linalg.svdvals(matrix) if ord in ("nuc", 2, -2) else size_of(matrix).sum(of_rows)
    found = parts.sum(-1) if isinstance(ord, str) else parts.max(-1) if ord > 0 else parts.min(-1)
    return jnp.expand_dims(found, axes) if keepdim else found


def matrix_rank(
    A: jax.Array,
    *,
    atol: float | jax.Array | None = None,
    rtol: float | jax.Array | None = None,
    hermitian: bool = False,
) -> jax.Array:
    """Count the singular values above the larger of two limits, `atol` and `rtol · largest singular value`.

    Args:
        A: floating-point or complex array of shape (*B, M, N).
        atol: absolute tolerance, a number or an array of shape (*B). None means 0.
        rtol: relative tolerance. None means max(M, N) · eps, or 0 if `atol` is above 0.
        hermitian: whether A is real symmetric or complex Hermitian. If True, the absolute eigenvalues replace the
            singular values.

    Returns:
        Integers of shape (*B).

    Raises:
        ValueError: if A is not a matrix.

    Example:
        >>> matrix_rank(jnp.diag(jnp.array([1.0, 0.1])), atol=0.5).item()
        1

    Reference: torch.linalg.matrix_rank.
    """
    found = _singular("tl.linalg.matrix_rank", A, hermitian)
    if found.shape[-1] == 0:
        return jnp.zeros(A.shape[:-2], index_dtype())
    return (found > _tolerance(A, found, atol, rtol)[..., None]).sum(-1, dtype=index_dtype())


def pinv(
    A: jax.Array,
    *,
    atol: float | jax.Array | None = None,
    rtol: float | jax.Array | None = None,
    hermitian: bool = False,
) -> jax.Array:
    """Compute the pseudoinverse. Singular values that do not exceed the tolerance count as 0.

    Args:
        A: floating-point or complex array of shape (*B, M, N).
        atol, rtol: tolerances, as in `matrix_rank`.
        hermitian: whether A is real symmetric or complex Hermitian.

    Returns:
        An array of shape (*B, N, M).

    Raises:
        ValueError: if A is not a matrix.

    Differs from jax.numpy:
        `jnp.linalg.pinv` has no absolute tolerance, and its relative tolerance is 10 times as large.

    Example:
        >>> pinv(jnp.diag(jnp.array([2.0, 0.1])), atol=0.5).tolist()
        [[0.5, 0.0], [0.0, 0.0]]

    Reference: torch.linalg.pinv.
    """
    where = "tl.linalg.pinv"
    found = jax.lax.stop_gradient(_singular(where, A, hermitian))
    if found.shape[-1] == 0:
        return jnp.zeros((*A.shape[:-2], A.shape[-1], A.shape[-2]), A.dtype)
    largest = found.max(-1)
    relative = _tolerance(A, found, atol, rtol) / jnp.where(largest == 0, 1, largest)
    return jnp.linalg.pinv(A, rtol=relative, hermitian=hermitian)


def logdet(input: jax.Array) -> jax.Array:
    """Compute the logarithm of the determinant. A negative determinant gives NaN, and a determinant of 0 gives -inf.

    Args:
        input: floating-point or complex array of shape (*B, N, N).

    Returns:
        An array of shape (*B).

    Raises:
        ValueError: if the input is not a square matrix.

    Example:
        >>> logdet(jnp.array([[2.0, 0.0], [0.0, 0.5]])).item()
        0.0

    Reference: torch.logdet.
    """
    sign, log = jnp.linalg.slogdet(input)
    if jnp.iscomplexobj(input):
        return log.astype(sign.dtype) + jnp.log(sign)
    return jnp.where(sign < 0, jnp.nan, log)


def vander(x: jax.Array, N: int | None = None) -> jax.Array:
    """Return the powers 0, 1, …, N - 1 of each entry.

    Args:
        x: array of shape (*B, n). A scalar is treated as an array of shape (1,).
        N: number of powers of each entry, which is the number of columns of the result. None means n.

    Returns:
        An array of shape (*B, n, N).

    Example:
        >>> vander(jnp.array([2, 3])).tolist()
        [[1, 2], [1, 3]]

    Reference: torch.linalg.vander.
    """
    x = line(x)
    count = x.shape[-1] if N is None else N
    factors = jnp.broadcast_to(x[..., None], (*x.shape, max(count - 1, 0)))
    return jnp.concatenate([jnp.ones_like(x[..., None]), jnp.cumprod(factors, axis=-1)], axis=-1)[..., :count]


def _singular(where: str, A: jax.Array, hermitian: bool) -> jax.Array:
    check_matrix(where, A)
    return jnp.abs(jnp.linalg.eigvalsh(A)) if hermitian else jnp.linalg.svdvals(A)


def _tolerance(A: jax.Array, singular: jax.Array, atol: ArrayLike | None, rtol: ArrayLike | None) -> jax.Array:
    least = jnp.zeros((), singular.dtype) if atol is None else jnp.asarray(atol, singular.dtype)
    default = max(A.shape[-2:]) * jnp.finfo(A.dtype).eps
    if rtol is None:
        rtol = jnp.where(least > 0, 0, default)
    return jnp.maximum(least, jnp.asarray(rtol, singular.dtype) * singular.max(-1))
