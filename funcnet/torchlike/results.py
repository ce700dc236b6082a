"""Named tuples that matrix functions return, with torch's field names."""

from typing import NamedTuple

import jax

__all__ = [
    "LU",
    "QR",
    "SVD",
    "CheckedInverse",
    "CheckedLUFactor",
    "CheckedSolution",
    "CholeskyFactor",
    "LUFactor",
    "LeastSquares",
    "Reflections",
    "TriangularSolution",
]  # fmt: skip


class QR(NamedTuple):
    """The result of `tl.linalg.qr`."""

    Q: jax.Array
    R: jax.Array


class SVD(NamedTuple):
    """The result of `tl.svd`."""

    U: jax.Array
    S: jax.Array
    V: jax.Array


class LU(NamedTuple):
    """The result of `tl.linalg.lu` or `tl.lu_unpack`."""

    P: jax.Array
    L: jax.Array
    U: jax.Array


class LUFactor(NamedTuple):
    """The result of `tl.linalg.lu_factor`."""

    LU: jax.Array
    pivots: jax.Array


class CheckedLUFactor(NamedTuple):
    """The result of `tl.linalg.lu_factor_ex`."""

    LU: jax.Array
    pivots: jax.Array
    info: jax.Array


class CholeskyFactor(NamedTuple):
    """The result of `tl.linalg.cholesky_ex`."""

    L: jax.Array
    info: jax.Array


class CheckedInverse(NamedTuple):
    """The result of `tl.linalg.inv_ex`."""

    inverse: jax.Array
    info: jax.Array


class CheckedSolution(NamedTuple):
    """The result of `tl.linalg.solve_ex`."""

    result: jax.Array
    info: jax.Array


class TriangularSolution(NamedTuple):
    """The result of `tl.triangular_solve`."""

    solution: jax.Array
    cloned_coefficient: jax.Array


class Reflections(NamedTuple):
    """The result of `tl.geqrf`."""

    a: jax.Array
    tau: jax.Array


class LeastSquares(NamedTuple):
    """The result of `tl.linalg.lstsq`."""

    solution: jax.Array
    residuals: jax.Array
    rank: jax.Array
    singular_values: jax.Array
