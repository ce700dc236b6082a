"""Solutions of linear systems with LU, triangular matrices or Cholesky factors, and least squares.

Letters: `… batch dimensions (any number), M equations, N unknowns, K right-hand sides`. Batch dimensions are broadcast.
"""

import jax
import jax.numpy as jnp

from funcnet.torchlike.decompositions import check_matrix, lu_factor_ex
from funcnet.torchlike.norms import matrix_rank, pinv
from funcnet.torchlike.results import CheckedInverse, CheckedSolution, LeastSquares, TriangularSolution

__all__ = [
    "cholesky_inverse",
    "cholesky_solve",
    "inv_ex",
    "lstsq",
    "lu_solve",
    "solve",
    "solve_ex",
    "solve_triangular",
    "triangular_solve",
]  # fmt: skip


def solve(A: jax.Array, B: jax.Array, left: bool = True) -> jax.Array:
    """Solve `A X = B`, or `X A = B`.

    Args:
        A: floating-point or complex array of shape (…, N, N).
        B: one vector (N,), vectors of shape (…, N) with the same batch as A, or matrices (…, N, K).
        left: whether A is on the left. If False, solve `X A = B`.

    Returns:
        X, which has the shape of B after its batch dimensions are broadcast.

    Raises:
        ValueError: if the shapes do not fit.

    Differs from jax.numpy:
        `jnp.linalg.solve` treats a B of two or more dimensions as matrices, so it does not accept a batch of vectors.

    Example:
        >>> solve(2 * jnp.ones((3, 1, 1)), jnp.ones((3, 1))).shape
        (3, 1)

    Reference: torch.linalg.solve.
    """
    where = "tl.linalg.solve"
    is_vector = B.ndim == 1 or (B.ndim == A.ndim - 1 and B.shape == A.shape[:-1])
    _square(where, A)
    if is_vector:
        if not left:
            raise ValueError(f"{where}: left=False needs a matrix; expected (…, K, N), got {B.shape}.")
        return jnp.linalg.solve(A, B[..., None])[..., 0]
    return jnp.linalg.solve(A, B) if left else jnp.linalg.solve(A.mT, B.mT).mT


def solve_ex(A: jax.Array, B: jax.Array, left: bool = True) -> CheckedSolution:
    """Solve as `solve` does, and report whether A is singular.

    Args:
        A: floating-point or complex array of shape (…, N, N).
        B: vectors or matrices, as in `solve`.
        left: whether A is on the left. If False, solve `X A = B`.

    Returns:
        (X, info). `info` has shape (…) and dtype int32. `info` is 0 for a matrix that has an inverse.

    Raises:
        ValueError: if the shapes do not fit.

    Example:
        >>> solve_ex(jnp.zeros((1, 1)), jnp.ones(1))[1].item()
        1

    Reference: torch.linalg.solve_ex.
    """
    where = "tl.linalg.solve_ex"
    _square(where, A)
    if B.ndim == 1 and not left:
        raise ValueError(f"{where}: left=False needs a matrix; expected (…, K, N), got {B.shape}.")
    return CheckedSolution(solve(A, B, left), lu_factor_ex(A).info)


def inv_ex(A: jax.Array) -> CheckedInverse:
    """Compute the inverse, and report whether it exists.

    Args:
        A: floating-point or complex array of shape (…, N, N).

    Returns:
        (inverse, info). `info` has shape (…) and dtype int32. `info` is 0 for a matrix that has an inverse.

    Raises:
        ValueError: if A is not a square matrix.

    Example:
        >>> inv_ex(2 * jnp.eye(1))[0].tolist()
        [[0.5]]

    Reference: torch.linalg.inv_ex.
    """
    _square("tl.linalg.inv_ex", A)
    return CheckedInverse(jnp.linalg.inv(A), lu_factor_ex(A).info)


def solve_triangular(
    A: jax.Array, B: jax.Array, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> jax.Array:
    """Solve `A X = B`, or `X A = B`, for X, given a triangular A.

    Args:
        A: floating-point or complex array of shape (…, N, N). Only the triangle that `upper` chooses is read.
        B: array of shape (…, N, K), or (…, K, N) if A is on the right.
        upper: whether A is upper triangular.
        left: whether A is on the left. If False, solve `X A = B`.
        unitriangular: whether the diagonal is assumed to be ones and is not read.

    Returns:
        X, which has the shape of B after its batch dimensions are broadcast.

    Raises:
        ValueError: if the shapes do not fit.

    Example:
        >>> solve_triangular(jnp.array([[2.0, 9.0], [1.0, 1.0]]), jnp.ones((2, 1)), upper=False).tolist()
        [[0.5], [0.5]]

    Reference: torch.linalg.solve_triangular.
    """
    _square("tl.linalg.solve_triangular", A)
    batch = jnp.broadcast_shapes(A.shape[:-2], B.shape[:-2])
    A, B = (jnp.broadcast_to(one, (*batch, *one.shape[-2:])) for one in (A, B))
    if B.size == 0:
        return B
    return jax.lax.linalg.triangular_solve(A, B, left_side=left, lower=not upper, unit_diagonal=unitriangular)


def triangular_solve(
    input: jax.Array, A: jax.Array, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> TriangularSolution:
    """Solve `A X = input` for a triangular A, with the argument order of torch's older function.

    Args:
        input: array of shape (…, N, K).
        A: array of shape (…, N, N). Only the triangle that `upper` chooses is read.
        upper: whether A is upper triangular.
        transpose: whether A is transposed before it is used.
        unitriangular: whether the diagonal is assumed to be ones and is not read.

    Returns:
        (X, A).

    Raises:
        ValueError: if the shapes do not fit.

    Example:
        >>> triangular_solve(jnp.ones((1, 1)), 2 * jnp.ones((1, 1))).solution.tolist()
        [[0.5]]

    Reference: torch.triangular_solve.
    """
    _square("tl.triangular_solve", A)
    found = solve_triangular(A.mT if transpose else A, input, upper=upper != transpose, unitriangular=unitriangular)
    return TriangularSolution(found, A)


def cholesky_solve(input: jax.Array, input2: jax.Array, upper: bool = False) -> jax.Array:
    """Solve `A X = input`, given the Cholesky factor of A.

    Args:
        input: array of shape (…, N, K).
        input2: the Cholesky factor of A, of shape (…, N, N).
        upper: whether the factor is upper triangular.

    Returns:
        X, in the shape of the input after broadcasting.

    Raises:
        ValueError: if the shapes do not fit.

    Example:
        >>> cholesky_solve(jnp.ones((1, 1)), 2 * jnp.ones((1, 1))).tolist()
        [[0.25]]

    Reference: torch.cholesky_solve.
    """
    return _by_factor(input, input2.mT.conj() if upper else input2)


@jax.custom_jvp
def _by_factor(B: jax.Array, lower: jax.Array) -> jax.Array:
    half = solve_triangular(lower, B, upper=False)
    return solve_triangular(lower.mT.conj(), half, upper=True)


@_by_factor.defjvp
def _by_factor_jvp(primals: tuple[jax.Array, ...], tangents: tuple[jax.Array, ...]) -> tuple[jax.Array, jax.Array]:
    """Differentiate `(L Lᴴ)⁻¹ B` with respect to all entries of L, including those that are not read, as torch does."""
    (B, lower), (dB, moved) = primals, tangents
    found = _by_factor(B, lower)
    half = moved @ lower.mT.conj()
    return found, _by_factor(dB - (half + half.mT.conj()) @ found, lower)


def cholesky_inverse(input: jax.Array, upper: bool = False) -> jax.Array:
    """Compute the inverse of a matrix, given its Cholesky factor.

    Args:
        input: the Cholesky factor, of shape (…, N, N).
        upper: whether the factor is upper triangular.

    Returns:
        The inverse, of shape (…, N, N).

    Raises:
        ValueError: if the factor is not square.

    Example:
        >>> cholesky_inverse(2 * jnp.ones((1, 1))).tolist()
        [[0.25]]

    Reference: torch.cholesky_inverse.
    """
    return cholesky_solve(jnp.eye(input.shape[-1], dtype=input.dtype), input, upper)


def lu_solve(LU: jax.Array, pivots: jax.Array, B: jax.Array, *, left: bool = True, adjoint: bool = False) -> jax.Array:
    """Solve `A X = B`, or `X A = B`, given the results of `tl.linalg.lu_factor`.

    Args:
        LU: array of shape (…, N, N).
        pivots: integers of shape (…, N), counted from 1.
        B: array of shape (…, N, K), or (…, K, N) if A is on the right.
        left: whether A is on the left. If False, solve `X A = B`.
        adjoint: whether A is conjugated and transposed.

    Returns:
        X, which has the shape of B after its batch dimensions are broadcast.

    Raises:
        ValueError: if the shapes do not fit.

    Example:
        >>> lu_solve(2 * jnp.ones((1, 1)), jnp.ones(1, int), jnp.ones((1, 1))).tolist()
        [[0.5]]

    Reference: torch.linalg.lu_solve.
    """
    _square("tl.linalg.lu_solve", LU)
    if not left:
        return lu_solve(LU, pivots, B.mT.conj(), adjoint=not adjoint).mT.conj()
    batch = jnp.broadcast_shapes(LU.shape[:-2], B.shape[:-2])
    B = jnp.broadcast_to(B, (*batch, *B.shape[-2:]))
    order = jax.lax.linalg.lu_pivots_to_permutation(pivots - 1, LU.shape[-1])[..., None]
    if not adjoint:
        half = solve_triangular(LU, jnp.take_along_axis(B, order, -2), upper=False, unitriangular=True)
        return solve_triangular(LU, half, upper=True)
    half = solve_triangular(LU.mT.conj(), B, upper=False)
    half = solve_triangular(LU.mT.conj(), half, upper=True, unitriangular=True)
    return jnp.take_along_axis(half, jnp.argsort(order, -2), -2)


def lstsq(A: jax.Array, B: jax.Array, rcond: float | None = None, *, driver: str | None = None) -> LeastSquares:
    """Compute the X that minimises `‖A X - B‖`. If several X give the minimum, compute the X with the smallest norm.

    Args:
        A: floating-point or complex array of shape (…, M, N).
        B: array of shape (…, M, K), or vectors of shape (…, M).
        rcond: singular values below `rcond` times the largest one count as 0. None means max(M, N) · eps.
        driver: "gelsy" (the default), "gels", "gelsd" or "gelss". The driver only determines which parts of the result
            are empty.

    Returns:
        (solution, residuals, rank, singular_values). The solution has shape (…, N, K) or (…, N). If M > N and the
        driver is not "gelsy", the residuals are the sums of squares of A X - B. Otherwise, the residuals are empty.
        With the driver "gels", `rank` is empty. With "gelsy" and "gels", `singular_values` is empty.

    Raises:
        ValueError: if A is not a matrix.

    Differs from torch:
        With every driver, the rank is computed from the singular values. If a matrix does not have full rank, torch
        leaves the residuals empty.

    Example:
        >>> lstsq(jnp.ones((2, 1)), jnp.array([[1.0], [3.0]])).solution.round(4).tolist()
        [[2.0]]

    Reference: torch.linalg.lstsq.
    """
    check_matrix("tl.linalg.lstsq", A)
    is_vector = B.ndim == 1 or (B.ndim == A.ndim - 1 and B.shape == A.shape[:-1])
    columns = B[..., None] if is_vector else B
    rows, count = A.shape[-2:]
    solution = pinv(A, rtol=rcond) @ columns
    missing = jnp.zeros(0, jnp.finfo(A.dtype).dtype)
    has_residuals = rows > count and driver not in (None, "gelsy")
    residuals = (jnp.abs(A @ solution - columns) ** 2).sum(-2) if has_residuals else missing
    rank = jnp.zeros(0, jnp.int32) if driver == "gels" else matrix_rank(A, rtol=rcond)
    singular = jnp.linalg.svdvals(A) if driver in ("gelsd", "gelss") else missing
    return LeastSquares(
        solution[..., 0] if is_vector else solution,
        residuals,
        jax.lax.stop_gradient(rank),
        jax.lax.stop_gradient(singular),
    )


def _square(where: str, A: jax.Array) -> None:
    if A.ndim < 2 or A.shape[-1] != A.shape[-2]:
        raise ValueError(f"{where}: the matrix is not square; expected (…, N, N), got {A.shape}.")
