"""Functions of torch.linalg that have no simple equivalent in jax.numpy: `tl.linalg.solve(A, B)`."""

from funcnet.torchlike.decompositions import cholesky_ex, eig, eigh, lu, lu_factor, lu_factor_ex, qr, svd
from funcnet.torchlike.norms import matrix_norm, matrix_rank, norm, pinv, vander
from funcnet.torchlike.reflections import householder_product
from funcnet.torchlike.solving import inv_ex, lstsq, lu_solve, solve, solve_ex, solve_triangular

__all__ = [
    "cholesky_ex",
    "eig",
    "eigh",
    "householder_product",
    "inv_ex",
    "lstsq",
    "lu",
    "lu_factor",
    "lu_factor_ex",
    "lu_solve",
    "matrix_norm",
    "matrix_rank",
    "norm",
    "pinv",
    "qr",
    "solve",
    "solve_ex",
    "solve_triangular",
    "svd",
    "vander",
]
