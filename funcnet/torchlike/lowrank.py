"""Singular vectors and principal components from a random projection.

Letters: `B batch dimensions (any number), m rows, n columns, q rank`.
"""

import jax
import jax.numpy as jnp

from funcnet.torchlike.decompositions import qr

__all__ = ["pca_lowrank", "svd_lowrank"]

Factors = tuple[jax.Array, jax.Array, jax.Array]


def svd_lowrank(
    A: jax.Array, q: int | None = 6, niter: int = 2, M: jax.Array | None = None, *, rng: jax.Array
) -> Factors:
    """Approximate `A - M = U diag(S) Vᴴ` with the q largest singular values.

    Args:
        A: floating-point or complex array of shape (*B, m, n).
        q: number of singular values, which should be slightly more than the rank of A. None means 6.
        niter: number of steps of the subspace iteration.
        M: array that is subtracted from A and broadcasts to the shape of A. None means 0.
        rng: key of the random projection.

    Returns:
        (U, S, V), of shapes (*B, m, q), (*B, q) and (*B, n, q).

    Raises:
        ValueError: if A is not a matrix, or q is negative or above the number of rows or columns.

    Example:
        >>> svd_lowrank(jnp.diag(jnp.array([3.0, 2.0, 0.0])), q=2, rng=jax.random.key(0))[1].round(4).tolist()
        [3.0, 2.0]

    Reference: torch.svd_lowrank; Halko, Martinsson and Tropp, Finding structure with randomness, 4.4 and 5.1.
    """
    rank = 6 if q is None else q
    _check_rank("tl.svd_lowrank", A, rank)
    A = A if M is None else A - M
    is_wide = A.shape[-2] < A.shape[-1]
    A = A.mT.conj() if is_wide else A
    basis = qr(A @ jax.random.normal(rng, (A.shape[-1], rank), A.dtype))[0]
    for _ in range(niter):
        basis = qr(A.mT.conj() @ basis)[0]
        basis = qr(A @ basis)[0]
    left, values, right = jnp.linalg.svd(basis.mT.conj() @ A, full_matrices=False)
    vectors = (basis @ left, right.mT.conj())
    first, last = vectors[::-1] if is_wide else vectors
    return first, values, last


def pca_lowrank(A: jax.Array, q: int | None = None, center: bool = True, niter: int = 2, *, rng: jax.Array) -> Factors:
    """Approximate the principal components of the rows of a matrix.

    Args:
        A: floating-point array of shape (*B, m, n).
        q: number of components. None means min(6, m, n).
        center: whether the mean of the rows is subtracted.
        niter: number of steps of the subspace iteration.
        rng: key of the random projection.

    Returns:
        (U, S, V), as `svd_lowrank` returns them. The columns of V are the principal directions.

    Raises:
        ValueError: if A is not a matrix, or q is negative or above the number of rows or columns.

    Example:
        >>> pca_lowrank(jnp.array([[0.0, 1.0], [4.0, 1.0]]), rng=jax.random.key(0))[1].round(4).tolist()
        [2.828..., 0.0]

    Reference: torch.pca_lowrank.
    """
    rank = min(6, *A.shape[-2:]) if q is None else q
    _check_rank("tl.pca_lowrank", A, rank)
    return svd_lowrank(A - A.mean(-2, keepdims=True) if center else A, rank, niter, rng=rng)


def _check_rank(where: str, A: jax.Array, rank: int) -> None:
    if A.ndim < 2 or not 0 <= rank <= min(A.shape[-2:]):
        raise ValueError(
            f"{where}: q or A does not fit; expected A of shape (…, m, n) and q from 0 to min(m, n), got q={rank} and "
            f"A of shape {A.shape}."
        )
