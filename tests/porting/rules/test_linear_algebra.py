"""Rules of linear algebra against torch: the database's samples, and calls that it lacks."""

import pytest
import torch

from .exceptions_linear_algebra import EXCEPTIONS
from .op_samples import OPERATORS, agree, cases, check_with

NAMES = [name for name in OPERATORS if name.startswith("linalg.")] + [
    "addbmm", "addmm", "addmm/decomposed", "addmv", "addr", "baddbmm", "bmm", "cdist", "cholesky", "cholesky_inverse",
    "cholesky_solve", "cross", "dot", "einsum", "geqrf", "inner", "kron", "logdet", "lu", "lu_solve", "lu_unpack",
    "matmul", "matrix_exp", "mm", "mv", "ormqr", "outer", "pca_lowrank", "pinverse", "qr", "svd", "svd_lowrank",
    "tensordot", "triangular_solve", "vdot",
]  # fmt: skip
REGISTERED = ("linalg.ldl_factor", "linalg.ldl_factor_ex", "linalg.ldl_solve")

DIRECT = (
    # einsum, in all of its three forms
    "torch.einsum('ij,kj->ik', a, b)", "torch.einsum('ij,kj->ik', [a, b])", "torch.einsum('ij', a)",
    "torch.einsum(a, [0, 1], b, [2, 1], [0, 2])", "torch.einsum('...ij,...jk', s, s)", "torch.einsum('ij -> i', a)",
    "torch.einsum('ii->i', s)", "torch.einsum('ii', s)", "torch.einsum('bij,bjk->bik', c, c.mT)",
    # sums with products
    "torch.addmm(s, a.T, a, alpha=2)", "torch.addmm(s, a.T, a, beta=0.5)", "torch.addmm(s, a.T, a, beta=0, alpha=3)",
    "s.addmm(a.T, a, beta=0)", "torch.baddbmm(c, c, s.expand(2, 4, 4), beta=0.5, alpha=2)",
    "v.addmv(s, v, beta=2, alpha=0.5)", "torch.addr(s, v, v, beta=2.0)", "torch.addbmm(s, c.mT, c, alpha=0.5)",
    # products
    "torch.ger(v, v)", "a.matmul(v)", "torch.linalg.matmul(a, s)", "torch.chain_matmul(a, s, s)", "v.outer(v)",
    "torch.linalg.multi_dot([a, s, s])", "torch.linalg.multi_dot((a, s))", "torch.linalg.vecdot(a, b)",
    "torch.linalg.vecdot(c, a)", "torch.linalg.vecdot(z, z)", "torch.vdot(z, z)",
    "torch.tensordot(a, b, dims=([0, 1], [0, 1]))",
    "torch.tensordot(a, s, 1)", "s.kron(v)", "torch.inner(a, v)", "torch.mm(a, a.t())", "torch.mv(s, v)",
    "torch.cdist(a, b, 1.0)", "torch.cdist(a, b, compute_mode='donot_use_mm_for_euclid_dist')",
    "torch.cross(d, d + d.flip(0), dim=1)", "torch.cross(d, d.flip(0))", "torch.linalg.cross(d, d.flip(0))",
    # older names
    "torch.inverse(s)", "s.inverse()", "s.det()", "torch.det(s)", "s.logdet()", "torch.logdet(-d)", "s.slogdet()[1]",
    "a.pinverse()", "torch.pinverse(a, 1e-3)", "s.cholesky(upper=True)",
    "torch.cholesky_inverse(torch.linalg.cholesky(s))",
    "torch.linalg.cholesky_ex(s)", "torch.qr(a.T)", "torch.qr(a)", "torch.qr(t, some=False)[1]",
    "torch.svd(a)[1]", "torch.svd(t, compute_uv=False)", "a.svd().S", "torch.matrix_exp(s)", "s.matrix_exp()",
    "s.matrix_power(-2)", "torch.matrix_power(s, 3)", "torch.lu(t)", "torch.linalg.lu_factor(s)",
    "torch.lu_unpack(s, p)", "torch.linalg.lu(a)", "torch.linalg.lu(c)",
    "torch.triangular_solve(a.T, s)", "torch.triangular_solve(a.T, s, upper=False, transpose=True)",
    "torch.geqrf(t)", "torch.orgqr(a.T, v[:3])", "torch.ormqr(a.T, v[:3], s)", "torch.trace(s)",
    "torch.ormqr(a.T, v[:3], s, left=False, transpose=True)",
    # torch.linalg
    "torch.linalg.solve(s, v)", "torch.linalg.solve(s, a, left=False)", "torch.linalg.solve(c @ c.mT, c)",
    "torch.linalg.solve(c @ c.mT + i, a[:2, :3])", "torch.linalg.solve_ex(s, v)", "torch.linalg.inv_ex(s)",
    "torch.linalg.solve_triangular(s, a.T, upper=False)", "torch.linalg.solve_triangular(s, a, upper=True, left=False)",
    "torch.linalg.eigh(s + s.T)[0]", "torch.linalg.eigh(s + s.T, UPLO='U').eigenvectors.abs()",
    "torch.linalg.eigvalsh(s.tril())", "torch.sum(torch.abs(torch.linalg.eigvals(e)))",
    "torch.sum(torch.abs(torch.linalg.eig(e).eigenvectors) * v)", "torch.linalg.svd(a, full_matrices=False).S",
    "torch.linalg.svd(a).S", "torch.linalg.svd(a).U.abs()", "torch.linalg.svd(a, False)[2].abs()",
    "torch.abs(torch.linalg.svd(a)[2])", "torch.linalg.svdvals(a)", "torch.linalg.qr(a.T).R", "torch.linalg.qr(a).Q",
    "torch.linalg.qr(t, mode='r')[1]", "torch.linalg.qr(t, 'complete')[0]",
    "torch.linalg.det(s)", "torch.linalg.det(d * 0)", "torch.linalg.slogdet(s)[1]",
    "torch.linalg.lstsq(a.T, v)", "torch.linalg.lstsq(a.T, s, driver='gelsd')",
    "torch.linalg.lstsq(a, b, driver='gels').solution",
    "torch.linalg.matrix_rank(s, atol=1.0)", "torch.linalg.matrix_rank(s, 0.1)",
    "torch.linalg.matrix_rank(s + s.T, hermitian=True)",
    "torch.linalg.pinv(a, atol=0.1)", "torch.linalg.pinv(s + s.T, hermitian=True)", "torch.linalg.pinv(a, 1e-3)",
    "torch.linalg.pinv(v[:, None] @ v[None])", "torch.linalg.norm(a * 0)", "torch.linalg.norm(a, 2)",
    "torch.linalg.norm(v, 1)",
    "torch.linalg.norm(c, dim=1)", "torch.linalg.norm(c, 'nuc', dim=(0, 2), keepdim=True)",
    "torch.linalg.vector_norm(c, 3, dim=(0, 1))", "torch.linalg.matrix_norm(c, float('-inf'))", "torch.linalg.cond(s)",
    "torch.linalg.matrix_norm(a, 1)", "torch.linalg.vander(v)", "torch.linalg.vander(v * 0, N=2)",
    "torch.linalg.diagonal(c)",
    "torch.linalg.tensorinv(s.reshape(2, 2, 4), ind=2)", "torch.linalg.tensorsolve(s.reshape(2, 2, 4), a[:2, :2])",
    "torch.linalg.matrix_exp(s)", "torch.linalg.householder_product(a.T, v[:3])",
    "torch.linalg.cholesky(s, upper=True)",
    "torch.svd_lowrank(t @ t.T, q=3)[1]", "torch.pca_lowrank(t, q=2)[1]",
    "torch.abs(torch.svd_lowrank(t, q=3, M=t * 0.5)[2])", "torch.abs(torch.pca_lowrank(t, center=False)[0])",
    "torch.bilinear(a, b, c.mT @ c, None)",
)  # fmt: skip


@pytest.fixture(scope="module")
def tensors():
    torch.manual_seed(0)
    a, b, e = (torch.randn(*shape, dtype=torch.float64) for shape in ((3, 4), (3, 4), (4, 4)))
    c, d, v = (torch.randn(*shape, dtype=torch.float64) for shape in ((2, 3, 4), (3, 3), (4,)))
    z = torch.randn(2, 3, dtype=torch.complex128).flatten()
    i = torch.eye(3, dtype=torch.float64)
    s = e @ e.T + torch.eye(4, dtype=torch.float64)
    smooth = {"a": a, "b": b, "c": c, "d": d, "e": e, "s": s, "v": v}
    return {name: tensor.requires_grad_() for name, tensor in smooth.items()} | {
        "z": z,
        "i": i,
        "t": torch.randn(4, 3, dtype=torch.float64),
        "p": torch.tensor([2, 2, 4, 4], dtype=torch.int32),
    }


@pytest.mark.parametrize("text", DIRECT)
def test_call(text, tensors):
    assert check_with(text, tensors) is None


@pytest.mark.slow
@pytest.mark.parametrize(("name", "form"), cases(NAMES))
def test_database(name, form):
    agree(name, form, EXCEPTIONS, REGISTERED)
