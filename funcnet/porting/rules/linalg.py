"""The functions of `torch.linalg`."""

from funcnet.porting.rule_engine.rule import rule

__all__ = ["ROWS"]

_ONE_TRIANGLE = "torch reads one triangle. By default, JAX takes the mean of both."
_NO_LDL = "JAX has no LDL decomposition. Write jnp.linalg.cholesky, or jax.scipy.linalg.lu."


def _named(signature: str, template: str, **options: str) -> tuple:
    """Return the rules for a function of `torch.linalg` that returns a named tuple of tensors."""
    return rule(f"torch.linalg.{signature}", template, result="tuple", **options)


_DECOMPOSITIONS = (
    rule("torch.linalg.cholesky(A, *, upper=False)", "jnp.linalg.cholesky(A, upper=upper)"),
    _named("cholesky_ex(A, *, upper=False, check_errors=False)", "tl.linalg.cholesky_ex(A, upper=upper)"),
    _named("qr(A, mode='reduced')", "jnp.linalg.qr(A)",
           when="known(mode.equals('reduced') and A.shape[-2] >= A.shape[-1])"),
    _named("qr(A, mode='reduced')", "tl.linalg.qr(A, mode=mode)"),
    _named("svd(A, full_matrices=True, *, driver=None)", "jnp.linalg.svd(A, full_matrices=False)",
           when="full_matrices.equals(False) and (driver.is_given or True)"),
    _named("svd(A, full_matrices=True, *, driver=None)", "tl.linalg.svd(A, full_matrices=full_matrices)",
           kind="semantic",
           when="driver.is_given or True", note="jnp.linalg.svd has no gradient with all singular vectors."),
    rule("torch.linalg.svdvals(A, *, driver=None)", "jnp.linalg.svdvals(A)", when="driver.is_given or True"),
    _named("eig(A)", "tl.linalg.eig(A)", kind="semantic", note="jnp.linalg.eig has no gradient for eigenvectors."),
    rule("torch.linalg.eigvals(A)", "jnp.linalg.eigvals(A)"),
    _named("eigh(A, UPLO='L')", "tl.linalg.eigh(A, UPLO)", kind="semantic", note=_ONE_TRIANGLE),
    rule("torch.linalg.eigvalsh(A, UPLO='L')", "tl.linalg.eigh(A, UPLO)[0]", kind="semantic",
         note=_ONE_TRIANGLE),
    _named("lu(A, *, pivot=True)", "jax.scipy.linalg.lu(A)", when="pivot.equals(True) and known(A.ndim == 2)"),
    _named("lu(A, *, pivot=True)", "tl.linalg.lu(A)", when="pivot.equals(True)"),
    _named("lu_factor(A, *, pivot=True)", "tl.linalg.lu_factor(A)", when="pivot.equals(True)"),
    _named("lu_factor_ex(A, *, pivot=True, check_errors=False)", "tl.linalg.lu_factor_ex(A)",
           when="pivot.equals(True)"),
    rule("torch.linalg.ldl_factor", kind="register", note=_NO_LDL),
    rule("torch.linalg.ldl_factor_ex", kind="register", note=_NO_LDL),
    rule("torch.linalg.ldl_solve", kind="register", note="Write jnp.linalg.solve with the matrix itself."),
    rule("torch.linalg.householder_product(A, tau)", "tl.linalg.householder_product(A, tau)"),
)  # fmt: skip

_SOLVERS = (
    rule("torch.linalg.solve(A, B, *, left=True)", "jnp.linalg.solve(A, B)",
         when="left.equals(True) and known(B.ndim == 1 or A.ndim == B.ndim and A.shape[:-1] != B.shape)"),
    rule("torch.linalg.solve(A, B, *, left=True)", "tl.linalg.solve(A, B, left=left)", kind="semantic",
         note="jnp.linalg.solve does not take a batch of vectors."),
    _named("solve_ex(A, B, *, left=True, check_errors=False)", "tl.linalg.solve_ex(A, B, left=left)"),
    rule("torch.linalg.solve_triangular(A, B, *, upper, left=True, unitriangular=False)",
         "tl.linalg.solve_triangular(A, B, upper=upper, left=left, unitriangular=unitriangular)"),
    rule("torch.linalg.lu_solve(LU, pivots, B, *, left=True, adjoint=False)",
         "tl.linalg.lu_solve(LU, pivots, B, left=left, adjoint=adjoint)"),
    _named("lstsq(A, B, rcond=None, *, driver=None)", "tl.linalg.lstsq(A, B, rcond, driver=driver)"),
    rule("torch.linalg.inv(A)", "jnp.linalg.inv(A)"),
    _named("inv_ex(A, *, check_errors=False)", "tl.linalg.inv_ex(A)"),
    rule("torch.linalg.pinv(A, *, hermitian=False)", "jnp.linalg.pinv(A, hermitian=hermitian)"),
    rule("torch.linalg.pinv(A, rcond, hermitian=False)", "tl.linalg.pinv(A, rtol=rcond, hermitian=hermitian)"),
    rule("torch.linalg.pinv(A, *, atol=None, rtol=None, hermitian=False)",
         "tl.linalg.pinv(A, atol=atol, rtol=rtol, hermitian=hermitian)"),
    rule("torch.linalg.tensorinv(A, ind=2)", "jnp.linalg.tensorinv(A, ind)"),
    rule("torch.linalg.tensorsolve(A, B, dims=None)", "jnp.linalg.tensorsolve(A, B, axes=dims)"),
)  # fmt: skip

_NUMBERS = (
    rule("torch.linalg.det(A)", "jnp.linalg.det(A)"),
    _named("slogdet(A)", "jnp.linalg.slogdet(A)"),
    rule("torch.linalg.matrix_power(A, n)", "jnp.linalg.matrix_power(A, n)"),
    rule("torch.linalg.matrix_rank(A, tol, hermitian=False)",
         "tl.linalg.matrix_rank(A, atol=tol, rtol=0.0, hermitian=hermitian)"),
    rule("torch.linalg.matrix_rank(A, *, atol=None, rtol=None, hermitian=False)",
         "tl.linalg.matrix_rank(A, atol=atol, rtol=rtol, hermitian=hermitian)"),
    rule("torch.linalg.cond(A, p=None)", "jnp.linalg.cond(A, p)"),
    rule("torch.linalg.norm(A, ord=None, dim=None, keepdim=False, *, dtype=None)",
         "tl.linalg.norm(A, ord, dim=dim, keepdim=keepdim, dtype=dtype)", kind="semantic",
         note="At 0, the gradient of jnp.linalg.norm is NaN."),
    rule("torch.linalg.vector_norm(x, ord=2, dim=None, keepdim=False, *, dtype=None)",
         "tl.norm(x, ord, dim=dim, keepdim=keepdim, dtype=dtype)", kind="semantic",
         note="At 0, the gradient of jnp.linalg.norm is NaN."),
    rule("torch.linalg.matrix_norm(A, ord='fro', dim=(-2, -1), keepdim=False, *, dtype=None)",
         "tl.linalg.matrix_norm(A, ord, dim=dim, keepdim=keepdim, dtype=dtype)", kind="semantic",
         note="At 0, the gradient of jnp.linalg.norm is NaN."),
)  # fmt: skip

_VIEWS = (
    rule("torch.linalg.diagonal(A, *, offset=0, dim1=-2, dim2=-1)", "A.diagonal(offset, axis1=dim1, axis2=dim2)"),
    rule("torch.linalg.vander(x, *, N=None)", "tl.linalg.vander(x, N=N)", kind="semantic",
         note="jnp.vander takes one vector, with decreasing powers."),
    rule("torch.linalg.LinAlgError", "np.linalg.LinAlgError", result="class"),
    rule("torch.linalg.common_notes", kind="register", note="It is a text of torch's documentation."),
)  # fmt: skip

ROWS = (*_DECOMPOSITIONS, *_SOLVERS, *_NUMBERS, *_VIEWS)
