"""The orthogonal parametrization of torch/nn/utils/parametrizations.py.

Letters: `n` is the number of rows and `k ≤ n` the number of columns of a tall matrix.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from funcnet.functional import checks
from funcnet.nn.core.parameter import Buffer
from funcnet.nn.module.module import Module
from funcnet.nn.utils.parametrize import parametrizable, register_parametrization

__all__ = ["orthogonal"]

MAPS = ("matrix_exp", "cayley", "householder")


def orthogonal(
    module: Module, name: str = "weight", orthogonal_map: str | None = None, *, use_trivialization: bool = True
) -> Module:
    """Parametrize a weight so that its value is an orthogonal matrix Q, or a batch of such matrices.

    A tall weight of shape (…, n, k) satisfies Qᵀ Q = I. A wide weight satisfies Q Qᵀ = I, and is computed as the
    transpose of a tall weight. Q is computed from the original, the array that is trained, with one of three maps:

    - 'matrix_exp': Q is the first k columns of exp(A);
    - 'cayley': Q is the first k columns of (I + A/2)(I - A/2)⁻¹;
    - 'householder': Q is the first k columns of H₁ H₂ … H_k, multiplied by the signs on the diagonal of the original.
      H_i is the Householder reflection that is given by the part of column i below the diagonal.

    A is the skew-symmetric (n, n) matrix L - Lᴴ. L is the lower triangle of the original, with n - k columns of zeros
    appended.

    Args:
        module: the description, which is changed in place and returned.
        name: name of the parameter.
        orthogonal_map: one of the three maps, 'matrix_exp', 'cayley' or 'householder'. The default is 'matrix_exp' for
            square or complex weights, else 'householder'.
        use_trivialization: if True, Q is multiplied by a fixed orthogonal matrix `base`. Q then starts as the
            orthogonalised weight, at the point at which the map is best conditioned. If `use_trivialization` is False,
            Q starts as the orthogonalised weight only with 'householder'.

    Params: `parametrizations.<name>.original` has the shape of the weight.
    State: with trivialization, `parametrizations.<name>.0.base` has the shape (…, n, n).

    Raises:
        ValueError: if there is no such parameter, it has fewer than two dimensions, the map is unknown, or the map is
            'householder' for a complex weight.

    Differs from torch: `base` is the identity until it is set. In torch, `base` is None until it is set.

    Example:
        >>> from funcnet import nn
        >>> layer = nn.utils.parametrizations.orthogonal(nn.Linear(3, 5, bias=False))
        >>> params, state = layer.init(jax.random.key(0))
        >>> q = layer.apply(params, state, jnp.eye(3))[0]
        >>> bool(jnp.allclose(q @ q.T, jnp.eye(3), atol=1e-6))
        True

    Reference: Lezcano-Casado, 2019, "Trivializations for Gradient-Based Optimization on Manifolds".
    """
    where = "parametrizations.orthogonal"
    weight = parametrizable(where, module, name)
    if weight.ndim < 2:
        raise ValueError(
            f"{where}: only a matrix or a batch of matrices can be orthogonal; expected {name!r} to have at least 2 "
            f"dimensions, got {weight.ndim}."
        )
    complex_weight = jnp.issubdtype(weight.dtype, jnp.complexfloating)
    if orthogonal_map is None:
        orthogonal_map = "matrix_exp" if weight.shape[-2] == weight.shape[-1] or complex_weight else "householder"
    if orthogonal_map not in MAPS:
        raise ValueError(f"{where}: orthogonal_map is unknown; expected one of {MAPS}, got {orthogonal_map!r}.")
    if complex_weight and orthogonal_map == "householder":
        raise ValueError(
            f"{where}: Householder reflections cannot parametrize complex matrices; expected 'matrix_exp' or 'cayley', "
            "got 'householder'."
        )
    made = _Orthogonal(weight, orthogonal_map, use_trivialization=use_trivialization)
    return register_parametrization(module, name, made, unsafe=True)


class _Orthogonal(Module):
    def __init__(self, weight: Any, orthogonal_map: str, *, use_trivialization: bool = True):
        super().__init__()
        self.shape, self.orthogonal_map = tuple(weight.shape), orthogonal_map
        self.use_trivialization = use_trivialization
        if use_trivialization:
            n = max(self.shape[-2:])
            self.register_buffer("base", Buffer((*self.shape[:-2], n, n), _identity, dtype=weight.dtype))

    def forward(self, X: jax.Array) -> jax.Array:
        wide = X.shape[-2] < X.shape[-1]
        dtype, X = X.dtype, _wide(jnp.swapaxes(X, -1, -2) if wide else X)
        Q = _reflections(X) if self.orthogonal_map == "householder" else _of_skew(X, self.orthogonal_map)
        if self.use_trivialization:
            Q = _wide(self.base) @ Q
        return (jnp.swapaxes(Q, -1, -2) if wide else Q).astype(dtype)

    def right_inverse(self, Q: jax.Array) -> jax.Array:
        if Q.shape != self.shape:
            raise ValueError(
                f"parametrizations.orthogonal: the value has the wrong shape; expected {self.shape}, got {Q.shape}. "
                "Assign a matrix or a batch of matrices of that shape."
            )
        wide = Q.shape[-2] < Q.shape[-1]
        dtype, Q = Q.dtype, _wide(Q)
        tall = jnp.swapaxes(Q, -1, -2) if wide else Q
        if not self.use_trivialization:
            if self.orthogonal_map != "householder":
                raise NotImplementedError(
                    "parametrizations.orthogonal: a value cannot be assigned with "
                    f"orthogonal_map={self.orthogonal_map!r} and use_trivialization=False, which have no right "
                    "inverse; expected orthogonal_map='householder' or use_trivialization=True."
                )
            packed = _packed_reflections(tall)
            return (jnp.swapaxes(packed, -1, -2) if wide else packed).astype(dtype)
        n, k = tall.shape[-2:]
        if n == k:
            close = 10.0 * n * float(jnp.finfo(Q.dtype).eps)
            product = jnp.swapaxes(tall, -1, -2).conj() @ tall
            orthogonal = jnp.allclose(product, jnp.eye(n, dtype=Q.dtype), rtol=1e-5, atol=close)
            self.base = jnp.where(orthogonal, tall, _orthogonalized(tall)).astype(dtype)
        else:
            more = jax.random.normal(self.make_rng(), (*tall.shape[:-1], n - k), Q.dtype)
            self.base = _orthogonalized(jnp.concatenate([tall, more], -1)).astype(dtype)
        # Each reflection flips a sign, so minus the identity encodes the identity.
        return jnp.broadcast_to(-jnp.eye(Q.shape[-2], Q.shape[-1], dtype=dtype), Q.shape)


def _identity(key: jax.Array, shape: tuple[int, ...], dtype: DTypeLike) -> jax.Array:
    return jnp.broadcast_to(jnp.eye(shape[-1], dtype=dtype), shape)


def _of_skew(X: jax.Array, name: str) -> jax.Array:
    """Return the first k columns of exp(A) or (I - A/2)⁻¹ (I + A/2). A is L - Lᴴ, and L is the lower triangle of X."""
    n, k = X.shape[-2:]
    lower = jnp.tril(X)
    lower = jnp.concatenate([lower, jnp.zeros((*X.shape[:-1], n - k), X.dtype)], -1)
    A = lower - jnp.swapaxes(lower, -1, -2).conj()
    if name == "matrix_exp":
        return _exponential(A)[..., :k]
    eye, half = jnp.eye(n, dtype=X.dtype), jnp.asarray(0.5, X.dtype)
    return jnp.linalg.solve(eye - half * A, (eye + half * A)[..., :k])


def _exponential(A: jax.Array) -> jax.Array:
    """Compute exp(A) by scaling and squaring, with the Padé approximant of order 13.

    The same order is used for all norms, and the matrix is scaled down by at most 2¹⁶. `jax.scipy.linalg.expm` chooses
    among five orders, takes twice as long to compile, and takes two to six times as long to run forward and backward.
    """
    eye = jnp.eye(A.shape[-1], dtype=A.dtype)
    norm = jax.lax.stop_gradient(jnp.max(jnp.sum(jnp.abs(A), -2), -1))
    squarings = jnp.clip(jnp.ceil(jnp.log2(norm / 5.37)), 0, 16)[..., None, None]
    A = A * jnp.exp2(-squarings).astype(A.dtype)
    squarings = squarings.astype(jnp.int32)
    b = [jnp.asarray(c, A.dtype) for c in _PADE]
    A2 = A @ A
    A4 = A2 @ A2
    A6 = A4 @ A2
    odd = A @ (A6 @ (b[13] * A6 + b[11] * A4 + b[9] * A2) + b[7] * A6 + b[5] * A4 + b[3] * A2 + b[1] * eye)
    even = A6 @ (b[12] * A6 + b[10] * A4 + b[8] * A2) + b[6] * A6 + b[4] * A4 + b[2] * A2 + b[0] * eye
    result = jnp.linalg.solve(even - odd, even + odd)
    square = lambda R, i: (jnp.where(i < squarings, R @ R, R), None)
    return jax.lax.scan(square, result, jnp.arange(16, dtype=jnp.int32))[0]


def _reflections(X: jax.Array) -> jax.Array:
    """Return the first k columns of H₁ H₂ … H_k, multiplied by the diagonal of X, truncated to integers.

    H_i = I - 2 v_i v_iᵀ / ‖v_i‖², where v_i is column i of X below the diagonal, with 1 on the diagonal. The product of
    all H_i is I - V T Vᵀ. V has the columns v_i, and T⁻¹ is the upper triangle of Vᵀ V with a halved diagonal. This
    form needs matrix products and one triangular solve instead of k steps, and has derivatives of every order.
    """
    n, k = X.shape[-2:]
    eye = jnp.eye(n, k, dtype=X.dtype)
    V = jnp.tril(X, -1) + eye
    gram = jnp.swapaxes(V, -1, -2) @ V
    inverse = jnp.triu(gram, 1) + gram * (jnp.asarray(0.5, X.dtype) * jnp.eye(k, dtype=X.dtype))
    top = jnp.swapaxes(V[..., :k, :], -1, -2)
    Q = eye - V @ jax.scipy.linalg.solve_triangular(inverse, top)
    signs = jax.lax.stop_gradient(jnp.diagonal(X, axis1=-2, axis2=-1)).astype(jnp.int32).astype(X.dtype)
    return Q * signs[..., None, :]


def _packed_reflections(Q: jax.Array) -> jax.Array:
    """Return an array X such that `_reflections(X)` is the orthogonal factor of Q. The columns of X are the reflection
    vectors that LAPACK returns, and the diagonal of X has the signs of the reflections.
    """
    packed, tau = jnp.linalg.qr(Q, mode="raw")
    packed = jnp.swapaxes(packed, -1, -2)
    diagonal = jnp.sign(jnp.diagonal(packed, axis1=-2, axis2=-1))
    diagonal = jnp.where(tau == 0, -diagonal, diagonal)  # LAPACK left a reflection out, and H would flip the sign
    return jnp.where(jnp.eye(Q.shape[-2], Q.shape[-1], dtype=bool), diagonal[..., None, :], packed)


def _orthogonalized(A: jax.Array) -> jax.Array:
    """Return the factor Q of A = Q R, with signs such that the diagonal of R is not negative."""
    Q, R = jnp.linalg.qr(A)
    return Q * jnp.sign(jnp.diagonal(R, axis1=-2, axis2=-1))[..., None, :]


def _wide(x: jax.Array) -> jax.Array:
    """Return a floating array `x`, cast to at least float32. Complex arrays are returned unchanged."""
    return x if jnp.issubdtype(x.dtype, jnp.complexfloating) else x.astype(checks.wide_dtype(x))


# Higham, 2005, "The Scaling and Squaring Method for the Matrix Exponential Revisited".
# The coefficients are divided by the first one.
_PADE = [
    1.0,
    1 / 2,
    3 / 25,
    11 / 600,
    11 / 5520,
    3 / 18400,
    1 / 96600,
    1 / 1932000,
    1 / 48944000,
    1 / 1585785600,
    1 / 67395888000,
    1 / 3953892096000,
    1 / 355850288640000,
    1 / 64764752532480000,
]
