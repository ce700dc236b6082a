"""Decompositions of matrices: QR, SVD, eigenvectors, LU, and Cholesky with a check that the factor exists.

Letters: `B batch dimensions (any number), M rows, N columns, K = min(M, N)`.
"""

from typing import Any

import jax
import jax.numpy as jnp

from funcnet.torchlike.results import LU, QR, SVD, CheckedLUFactor, CholeskyFactor, LUFactor

__all__ = [
    "check_matrix", "cholesky_ex", "eig", "eigh", "lu", "lu_factor", "lu_factor_ex", "lu_unpack", "qr", "svd",
    "svd_of_torch",
]  # fmt: skip


def qr(A: jax.Array, mode: str = "reduced") -> QR:
    """Compute `A = Q R` with orthonormal columns in Q and an upper triangular R.

    Args:
        A: floating-point or complex array of shape (*B, M, N).
        mode: "reduced" for Q of shape (*B, M, K), "complete" for (*B, M, M), or "r" for R alone.

    Returns:
        (Q, R) with the dtype of A. For the mode "r", Q is empty. R has shape (*B, K, N), or (*B, M, N) for "complete".

    Raises:
        ValueError: if A is not a matrix, or the mode is unknown.

    Differs from jax.numpy:
        `jnp.linalg.qr` has no gradient for more columns than rows. `qr` has one. With the mode "r", and with "complete"
        for more rows than columns, neither `qr` nor `jnp.linalg.qr` has a gradient.

    Example:
        >>> [part.shape for part in qr(jnp.eye(2, 3))]
        [(2, 2), (2, 3)]

    Reference: torch.linalg.qr.
    """
    where = "tl.linalg.qr"
    check_matrix(where, A)
    if mode not in ("reduced", "complete", "r"):
        raise ValueError(f"{where}: mode is unknown; expected 'reduced', 'complete' or 'r', got {mode!r}.")
    rows, columns = A.shape[-2:]
    if mode == "r":
        return QR(jnp.zeros(0, A.dtype), jnp.linalg.qr(A, mode="r"))
    if rows >= columns:
        return QR(*jnp.linalg.qr(A, mode=mode))
    q, _ = jnp.linalg.qr(A[..., :rows], mode="reduced")  # the first columns determine Q
    return QR(q, jnp.triu(q.mT.conj() @ A))


def svd(A: jax.Array, full_matrices: bool = True) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Compute `A = U diag(S) Vh`, where U has orthonormal columns and Vh has orthonormal rows.

    Args:
        A: floating-point or complex array of shape (*B, M, N).
        full_matrices: whether U has shape (*B, M, M) and Vh (*B, N, N). If False, U has shape (*B, M, K) and Vh (*B, K,
            N).

    Returns:
        (U, S, Vh). S has shape (*B, K). The entries of S are real and in decreasing order. The gradient ignores the
        columns of U and the rows of Vh that do not belong to an entry of S.

    Raises:
        ValueError: if A is not a matrix.

    Differs from jax.numpy:
        `jnp.linalg.svd` has no gradient for full matrices. `svd` has a gradient for full matrices, as in torch.

    Example:
        >>> [part.shape for part in svd(jnp.eye(2, 3))]
        [(2, 2), (2,), (3, 3)]

    Reference: torch.linalg.svd.
    """
    check_matrix("tl.linalg.svd", A)
    found: Any = jnp.linalg.svd(A, full_matrices=False)
    count = min(A.shape[-2:])
    if not full_matrices or A.shape[-2] == A.shape[-1]:
        return found
    u, _, vh = jnp.linalg.svd(jax.lax.stop_gradient(A), full_matrices=True)
    u = jnp.concatenate([found.U, u[..., count:]], axis=-1)
    return type(found)(u, found.S, jnp.concatenate([found.Vh, vh[..., count:, :]], axis=-2))


def svd_of_torch(input: jax.Array, some: bool = True, compute_uv: bool = True) -> SVD:
    """Compute `input = U diag(S) Vᴴ`, and return V instead of Vᴴ as the last result. This is `tl.svd`.

    Args:
        input: floating-point or complex array of shape (*B, M, N).
        some: whether U and V have only K columns.
        compute_uv: whether U and V are computed. If False, U and V are zeros of shape (*B, M, M) and (*B, N, N).

    Returns:
        (U, S, V).

    Raises:
        ValueError: if the input is not a matrix.

    Example:
        >>> [part.shape for part in svd_of_torch(jnp.eye(2, 3))]
        [(2, 2), (2,), (3, 2)]

    Reference: torch.svd.
    """
    check_matrix("tl.svd", input)
    if not compute_uv:
        rows, columns = input.shape[-2:]
        empty = [jnp.zeros((*input.shape[:-2], n, n), input.dtype) for n in (rows, columns)]
        return SVD(empty[0], jnp.linalg.svdvals(input), empty[1])
    u, s, vh = svd(input, not some)
    return SVD(u, s, vh.mT.conj())


@jax.custom_jvp
def eig(A: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Compute the eigenvalues and eigenvectors of a square matrix that need not be symmetric.

    Args:
        A: floating-point or complex array of shape (*B, N, N).

    Returns:
        (eigenvalues, eigenvectors), both complex, of shapes (*B, N) and (*B, N, N). The eigenvectors are the columns of
        the second result, and have length 1.

    Raises:
        ValueError: if A is not a square matrix.

    Differs from jax.numpy:
        `jnp.linalg.eig` has no gradient for eigenvectors. `eig` has the same gradient as torch's function.

    Example:
        >>> eig(jnp.array([[0.0, -1.0], [1.0, 0.0]]))[0].tolist()
        [1j, -1j]

    Reference: torch.linalg.eig.
    """
    return jnp.linalg.eig(A)


@eig.defjvp
def _eig_jvp(primals: tuple[jax.Array], tangents: tuple[jax.Array]) -> tuple:
    (A,), (dA,) = primals, tangents
    found = eig(A)
    values, vectors = found
    turned = jnp.linalg.solve(vectors, dA.astype(vectors.dtype) @ vectors)
    gap = values[..., None, :] - values[..., :, None]
    same = jnp.eye(values.shape[-1], dtype=bool)
    moved = vectors @ jnp.where(same, 0, turned / jnp.where(same, 1, gap))
    # the length of an eigenvector stays 1
    along = (vectors.conj() * moved).sum(-2, keepdims=True).real
    moved_values: Any = type(found)
    return found, moved_values(jnp.diagonal(turned, axis1=-2, axis2=-1), moved - vectors * along.astype(vectors.dtype))


def eigh(A: jax.Array, UPLO: str = "L") -> tuple[jax.Array, jax.Array]:
    """Compute the eigenvalues and eigenvectors of a real symmetric or complex Hermitian matrix.

    Args:
        A: floating-point or complex array of shape (*B, N, N).
        UPLO: the triangle that is read, "L" or "U".

    Returns:
        (eigenvalues, eigenvectors), of shapes (*B, N) and (*B, N, N). The eigenvalues are real and in increasing order.
        The eigenvectors are the columns of the second result, and have length 1.

    Raises:
        ValueError: if A is not a square matrix, or UPLO is neither "L" nor "U".

    Differs from jax.numpy:
        `jnp.linalg.eigh` reads both triangles of A, and uses their mean.

    Example:
        >>> eigh(jnp.array([[2.0, 9.0], [0.0, 1.0]]))[0].tolist()
        [1.0, 2.0]

    Reference: torch.linalg.eigh.
    """
    check_matrix("tl.linalg.eigh", A)
    if UPLO not in ("L", "U"):
        raise ValueError(f"tl.linalg.eigh: UPLO is unknown; expected 'L' or 'U', got {UPLO!r}.")
    half = jnp.tril(A, -1) if UPLO == "L" else jnp.triu(A, 1)
    read = jnp.where(jnp.eye(A.shape[-1], dtype=bool), A, half + half.mT.conj())
    mean = (A + A.mT.conj()) / 2  # torch's gradient is the gradient of the mean
    return jnp.linalg.eigh(mean + jax.lax.stop_gradient(read - mean), UPLO)


def cholesky_ex(A: jax.Array, upper: bool = False) -> CholeskyFactor:
    """Compute the Cholesky decomposition, and report whether it exists.

    Args:
        A: floating-point or complex array of shape (*B, N, N).
        upper: whether the factor is upper triangular.

    Returns:
        (factor, info). `info` has shape (*B) and dtype int32. `info` is 0 for a positive definite matrix.

    Raises:
        ValueError: if A is not a square matrix.

    Differs from torch:
        If the matrix is not positive definite, `info` is 1, and the factor contains NaN. In torch, `info` is the size
        of the first leading minor that is not positive definite.

    Example:
        >>> cholesky_ex(jnp.diag(jnp.array([4.0, -1.0])))[1].item()
        1

    Reference: torch.linalg.cholesky_ex.
    """
    check_matrix("tl.linalg.cholesky_ex", A)
    factor = jnp.linalg.cholesky(A, upper=upper)
    return CholeskyFactor(factor, jnp.isnan(factor).any((-2, -1)).astype(jnp.int32))


def lu_factor(A: jax.Array) -> LUFactor:
    """Compute `A = P L U` in compact form.

    Args:
        A: floating-point or complex array of shape (*B, M, N).

    Returns:
        (LU, pivots). LU contains U on and above the diagonal, and L below the diagonal. `pivots` has shape (*B, K) and
        dtype int32. Row i was exchanged with the row whose number is entry i of `pivots`. Rows and entries are counted
        from 1.

    Raises:
        ValueError: if A is not a matrix.

    Differs from jax.scipy:
        `jax.scipy.linalg.lu_factor` counts the pivots from 0.

    Example:
        >>> lu_factor(jnp.array([[0.0, 1.0], [2.0, 3.0]]))[1].tolist()
        [2, 2]

    Reference: torch.linalg.lu_factor.
    """
    check_matrix("tl.linalg.lu_factor", A)
    factors, pivots, _ = jax.lax.linalg.lu(A)
    return LUFactor(factors, pivots + 1)


def lu_factor_ex(A: jax.Array) -> CheckedLUFactor:
    """Compute the results of `lu_factor`, and report whether a pivot is 0.

    Args:
        A: floating-point or complex array of shape (*B, M, N).

    Returns:
        (LU, pivots, info). `info` has shape (*B) and dtype int32. `info` is the number of the first pivot that is 0,
        counted from 1, or 0 if no pivot is 0.

    Raises:
        ValueError: if A is not a matrix.

    Example:
        >>> lu_factor_ex(jnp.array([[1.0, 1.0], [1.0, 1.0]]))[2].item()
        2

    Reference: torch.linalg.lu_factor_ex.
    """
    check_matrix("tl.linalg.lu_factor_ex", A)
    factors, pivots = lu_factor(A)
    zero = jnp.diagonal(factors, axis1=-2, axis2=-1) == 0
    info = jnp.where(zero.any(-1), zero.argmax(-1) + 1, 0) if zero.shape[-1] else jnp.zeros(zero.shape[:-1])
    return CheckedLUFactor(factors, pivots, info.astype(jnp.int32))


def lu_unpack(LU_data: jax.Array, LU_pivots: jax.Array) -> LU:
    """Return P, L and U from the results of `lu_factor`.

    Args:
        LU_data: array of shape (*B, M, N).
        LU_pivots: integers of shape (*B, K), counted from 1.

    Returns:
        (P, L, U), of shapes (*B, M, M), (*B, M, K) and (*B, K, N).

    Raises:
        ValueError: if LU_data is not a matrix.

    Example:
        >>> p, l, u = lu_unpack(*lu_factor(jnp.array([[0.0, 1.0], [2.0, 3.0]])))
        >>> (p @ l @ u).tolist()
        [[0.0, 1.0], [2.0, 3.0]]

    Reference: torch.lu_unpack.
    """
    check_matrix("tl.lu_unpack", LU_data)
    rows, columns = LU_data.shape[-2:]
    count = min(rows, columns)
    order = jax.lax.linalg.lu_pivots_to_permutation(LU_pivots - 1, rows)
    permutation = jnp.eye(rows, dtype=LU_data.dtype)[order].mT
    lower = jnp.tril(LU_data[..., :count], -1) + jnp.eye(rows, count, dtype=LU_data.dtype)
    return LU(permutation, lower, jnp.triu(LU_data[..., :count, :]))


def lu(A: jax.Array) -> LU:
    """Compute `A = P L U`, with a permutation P, a unit lower triangular L, and an upper triangular U.

    Args:
        A: floating-point or complex array of shape (*B, M, N).

    Returns:
        (P, L, U), of shapes (*B, M, M), (*B, M, K) and (*B, K, N).

    Raises:
        ValueError: if A is not a matrix.

    Differs from jax.scipy: `jax.scipy.linalg.lu` does not accept batch dimensions.

    Example:
        >>> p, l, u = lu(jnp.array([[0.0, 1.0], [2.0, 3.0]]))
        >>> (p @ l @ u).tolist()
        [[0.0, 1.0], [2.0, 3.0]]

    Reference: torch.linalg.lu.
    """
    check_matrix("tl.linalg.lu", A)
    return lu_unpack(*lu_factor(A))


def check_matrix(where: str, A: jax.Array) -> None:
    """Raise an error if an array has fewer than two dimensions.

    Args:
        where: name of the calling function, for the error message.
        A: the array.

    Raises:
        ValueError: if the array is not a matrix.

    >>> check_matrix("tl.linalg.qr", jnp.eye(2))
    """
    if A.ndim < 2:
        raise ValueError(f"{where}: the argument is not a matrix; expected at least two dimensions, got {A.shape}.")
