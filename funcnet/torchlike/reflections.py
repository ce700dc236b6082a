"""Orthogonal matrices as products of Householder reflections.

Letters: `B batch dimensions (any number), M rows, N columns, K = min(M, N), k reflections`.
"""

import jax
import jax.numpy as jnp

from funcnet.torchlike.decompositions import check_matrix
from funcnet.torchlike.results import Reflections

__all__ = ["geqrf", "householder_product", "ormqr"]


def geqrf(input: jax.Array) -> Reflections:
    """Compute the QR decomposition in the form of Householder reflections.

    Args:
        input: floating-point or complex array of shape (*B, M, N).

    Returns:
        (a, tau). `a` contains R on and above the diagonal, and the vectors of the reflections below the diagonal.
        `tau`, of shape (*B, K), contains the factors of the reflections.

    Raises:
        ValueError: if the input is not a matrix.

    Example:
        >>> [part.shape for part in geqrf(jnp.eye(3, 2))]
        [(3, 2), (2,)]

    Reference: torch.geqrf.
    """
    check_matrix("tl.geqrf", input)
    reflections, tau = jnp.linalg.qr(input, mode="raw")
    return Reflections(reflections.mT, tau)


def householder_product(A: jax.Array, tau: jax.Array) -> jax.Array:
    """Compute the first N columns of the product of Householder reflections.

    Args:
        A: floating-point or complex array of shape (*B, M, N) with M ≥ N. Column i contains the vector of reflection i
            below the diagonal.
        tau: the factors of the reflections, an array of shape (*B, k) with k ≤ N.

    Returns:
        An array with the shape and dtype of A.

    Raises:
        ValueError: if the shapes do not fit.

    Differs from jax.lax: `jax.lax.linalg.householder_product` has no gradient.

    Example:
        >>> householder_product(jnp.eye(2), jnp.zeros(2)).tolist()
        [[1.0, 0.0], [0.0, 1.0]]

    Reference: torch.linalg.householder_product.
    """
    check_matrix("tl.linalg.householder_product", A)
    columns = jnp.eye(A.shape[-2], A.shape[-1], dtype=A.dtype)
    return _reflected(A, tau, jnp.broadcast_to(columns, A.shape), last_first=True, adjoint=False)


def ormqr(
    input: jax.Array, input2: jax.Array, input3: jax.Array, left: bool = True, transpose: bool = False
) -> jax.Array:
    """Multiply a matrix by the square matrix Q, the product of Householder reflections.

    Args:
        input: array of shape (*B, M, k). Column i contains the vector of reflection i below the diagonal.
        input2: the factors of the reflections, an array of shape (*B, k).
        input3: the matrix, which has M rows if `left` is True, and M columns otherwise.
        left: whether the result is Q · input3 instead of input3 · Q.
        transpose: whether Q is conjugated and transposed.

    Returns:
        An array with the shape of `input3`.

    Raises:
        ValueError: if the shapes do not fit.

    Example:
        >>> ormqr(jnp.eye(2), jnp.zeros(2), jnp.ones((2, 1))).tolist()
        [[1.0], [1.0]]

    Reference: torch.ormqr.
    """
    where = "tl.ormqr"
    check_matrix(where, input)
    if input3.ndim < 2 or input3.shape[-2 if left else -1] != input.shape[-2]:
        wanted = f"{input.shape[-2]} {'rows' if left else 'columns'}"
        raise ValueError(f"{where}: the shapes do not fit; expected input3 with {wanted}, got {input3.shape}.")
    if left:
        return _reflected(input, input2, input3, last_first=not transpose, adjoint=transpose)
    turned = _reflected(input, input2, input3.mT.conj(), last_first=transpose, adjoint=not transpose)
    return turned.mT.conj()


def _reflected(vectors: jax.Array, tau: jax.Array, x: jax.Array, *, last_first: bool, adjoint: bool) -> jax.Array:
    """Apply the reflections `1 - tau v vᴴ` to the columns of x, one after another."""
    count = tau.shape[-1]
    if count == 0:
        return x
    unit = jnp.eye(vectors.shape[-2], vectors.shape[-1], dtype=vectors.dtype)[:, :count]
    below = jnp.tril(vectors[..., :count], -1) + unit

    def step(x: jax.Array, one: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, None]:
        vector, factor = one
        along = (vector.conj()[..., None, :] @ x) * factor[..., None, None]
        return x - vector[..., None] * along, None

    factors = tau.conj() if adjoint else tau
    return jax.lax.scan(step, x, (jnp.moveaxis(below, -1, 0), jnp.moveaxis(factors, -1, 0)), reverse=last_first)[0]
