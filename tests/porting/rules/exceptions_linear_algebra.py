"""Entries of the database that are not compared: linear algebra, Fourier transforms, windows, special functions.

`EXCEPTIONS` has {"name (form)": reason}. `test_linear_algebra.py` compares these functions in another way.
"""

__all__ = ["EXCEPTIONS"]

_ORDER = "The database calls the function through a wrapper with other arguments, so the text of the call is not valid."
_SIGNS = "Eigenvectors and singular vectors are defined up to a factor of length 1, and LAPACK chooses another one."

EXCEPTIONS = {
    "einsum (function)": _ORDER,
    "linalg.pinv/singular (function)": _ORDER,
    "special.polygamma/special_polygamma_n_0 (function)": _ORDER,
    "pca_lowrank (function)": _ORDER,
    "svd_lowrank (function)": _ORDER,
    "linalg.eig (function)": _SIGNS,
    "linalg.eigh (function)": _SIGNS,
    "linalg.svd (function)": _SIGNS,
    "linalg.pinv/hermitian (function)": "The samples are not symmetric. torch reads one triangle, and JAX the mean of "
    "both.",
    "svd (function)": _SIGNS,
    "svd (method)": _SIGNS,
    "linalg.tensorsolve (function)": "torch reshapes a right-hand side whose shape does not fit. JAX raises an error.",
    "to_sparse (method)": "The result of torch is sparse.",
    "sparse.mm/reduce (function)": "The samples are sparse.",
    "sparse.sampled_addmm (function)": "The samples are sparse.",
    "tensordot (function)": "torch broadcasts contracted dimensions of size 1. JAX raises an error.",
    "linalg.det (function)": "JAX raises an error for a matrix without rows.",
}
