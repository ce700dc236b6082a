"""Products of vectors and matrices, and torch's older names of functions that are also in `torch.linalg`."""

from funcnet.porting.rule_engine.rule import rule

__all__ = ["ROWS"]

_SUMS = tuple(
    row
    for name, first, second, product in (
        ("addmm", "mat1", "mat2", "mat1 @ mat2"),
        ("addmv", "mat", "vec", "mat @ vec"),
        ("addr", "vec1", "vec2", "jnp.outer(vec1, vec2)"),
        ("baddbmm", "batch1", "batch2", "batch1 @ batch2"),
        ("addbmm", "batch1", "batch2", "(batch1 @ batch2).sum(axis=0)"),
    )
    for whole in (product if product.endswith(")") else f"({product})",)
    for row in (
        rule(f"both.{name}(input, {first}, {second}, *, beta=1, alpha=1)", f"input + {product}"),
        rule(f"both.{name}(input, {first}, {second}, *, beta=1, alpha=1)", product,
             when="beta.equals(0, 0.0) and not known(input.is_only('none'))"),
        rule(f"both.{name}(input, {first}, {second}, *, beta=1, alpha=1)", f"alpha * {whole}",
             when="beta.equals(0, 0.0) and not known(input.is_only('none'))"),
        rule(f"both.{name}(input, {first}, {second}, *, beta=1, alpha=1)", f"input + alpha * {whole}"),
        rule(f"both.{name}(input, {first}, {second}, *, beta=1, alpha=1)", f"beta * input + {product}"),
        rule(f"both.{name}(input, {first}, {second}, *, beta=1, alpha=1)", f"beta * input + alpha * {whole}"),
        rule(f"both.{name}(beta, input, alpha, {first}, {second})", f"beta * input + alpha * {whole}"),
        rule(f"both.{name}(beta, input, {first}, {second})", f"beta * input + {product}"),
    )
)  # fmt: skip

_PRODUCTS = (
    rule("both.matmul(input, other)", "input @ other"),
    rule("torch.linalg.matmul(input, other)", "input @ other"),
    rule("Tensor.__matmul__(input, other)", "input @ other"),
    rule("both.mm(input, mat2)", "input @ mat2"),
    rule("both.bmm(input, mat2)", "input @ mat2"),
    *(
        rule(f"both.{name}(input, mat2, out_dtype)", "jnp.matmul(input, mat2, preferred_element_type=out_dtype)")
        for name in ("mm", "bmm")
    ),
    rule("both.mv(input, vec)", "input @ vec"),
    rule("both.dot(input, tensor)", "input @ tensor"),
    rule("both.vdot(input, other)", "jnp.vdot(input, other)"),
    rule("both.inner(input, other)", "jnp.inner(input, other)"),
    rule("both.outer(input, vec2)", "jnp.outer(input, vec2)"),
    rule("both.ger(input, vec2)", "jnp.outer(input, vec2)"),
    rule("both.kron(input, other)", "jnp.kron(input, other)"),
    rule("torch.linalg.vecdot(x, y, *, dim=-1)", "jnp.linalg.vecdot(x, y, axis=dim)", when="known(x.shape == y.shape)"),
    rule("torch.linalg.vecdot(x, y, *, dim=-1)", "(x * y).sum(axis=dim)", when="known(x.is_floating)"),
    rule("torch.linalg.vecdot(x, y, *, dim=-1)", "(x.conj() * y).sum(axis=dim)"),
    rule("torch.chain_matmul(*matrices)", "jnp.linalg.multi_dot(matrices)", when="known(matrices.count > 1)"),
    rule("torch.chain_matmul(matrices)", "matrices", when="known(matrices.is_tensor)"),
    rule("torch.chain_matmul(matrices)", "jnp.linalg.multi_dot(matrices)"),
    rule("torch.linalg.multi_dot(tensors)", "jnp.linalg.multi_dot(tensors)"),
    rule("torch.einsum(equation, operands)", "jnp.einsum(equation, *operands)",
         when="known(equation.is_only('str') and operands.is_only('list', 'tuple'))"),
    rule("torch.einsum(*operands)", "jnp.einsum(*operands)"),
    rule("torch.tensordot(a, b, dims=2)", "jnp.tensordot(a, b, axes=dims)"),
    *_SUMS,
)  # fmt: skip

_DISTANCES = (
    rule("torch.cdist(x1, x2, p=2.0, compute_mode='use_mm_for_euclid_dist_if_necessary')", "tl.cdist(x1, x2, p=p)",
         when="compute_mode.is_given or True", kind="semantic", note="At a distance of 0, the gradient is 0."),
    rule("both.cross(input, other, dim=None)", "tl.cross(input, other, dim)", kind="semantic",
         note="Without dim, torch takes the first dimension of size 3."),
    rule("torch.linalg.cross(input, other, *, dim=-1)", "jnp.cross(input, other, axis=dim)"),
    rule("torch.norm_except_dim(v, pow=2, dim=0)", kind="register",
         note="Write tl.norm(v, pow, dim=..., keepdim=True) with all dimensions but dim."),
)  # fmt: skip

_OLDER = (
    rule("both.cholesky(input, upper=False)", "jnp.linalg.cholesky(input, upper=upper)"),
    rule("both.cholesky_inverse(input, upper=False)", "tl.cholesky_inverse(input, upper=upper)"),
    rule("both.cholesky_solve(input, input2, upper=False)", "tl.cholesky_solve(input, input2, upper=upper)"),
    rule("both.det(input)", "jnp.linalg.det(input)"),
    rule("both.logdet(input)", "tl.logdet(input)"),
    rule("both.slogdet(input)", "jnp.linalg.slogdet(input)", result="tuple"),
    rule("both.inverse(input)", "jnp.linalg.inv(input)"),
    rule("both.pinverse(input, rcond=1e-15)", "jnp.linalg.pinv(input, rcond)"),
    rule("both.qr(input, some=True)", "tl.linalg.qr(input)", when="some.equals(True)", result="tuple"),
    rule("both.qr(input, some=True)", "tl.linalg.qr(input, mode='complete')", when="some.equals(False)",
         result="tuple"),
    rule("both.svd(input, some=True, compute_uv=True)", "tl.svd(input, some=some, compute_uv=compute_uv)",
         kind="semantic", note="The third result is V, not its transpose.", result="tuple"),
    rule("torch.svd_lowrank(A, q=6, niter=2, M=None)", "tl.svd_lowrank(A, q, niter, M, rng=rng)", kind="structural",
         result="tuple"),
    rule("torch.pca_lowrank(A, q=None, center=True, niter=2)", "tl.pca_lowrank(A, q, center, niter, rng=rng)",
         kind="structural", result="tuple"),
    rule("torch.lobpcg", kind="register",
         note="Write jnp.linalg.eigh, or jax.experimental.sparse.linalg.lobpcg_standard."),
    rule("both.geqrf(input)", "tl.geqrf(input)", result="tuple"),
    rule("both.orgqr(input, input2)", "tl.linalg.householder_product(input, input2)"),
    rule("both.ormqr(input, input2, input3, left=True, transpose=False)",
         "tl.ormqr(input, input2, input3, left=left, transpose=transpose)"),
    rule("both.lu(A, pivot=True, get_infos=False)", "tl.linalg.lu_factor(A)",
         when="pivot.equals(True) and get_infos.equals(False)", result="tuple"),
    rule("both.lu(A, pivot=True, get_infos=False)", "tl.linalg.lu_factor_ex(A)",
         when="pivot.equals(True) and get_infos.equals(True)", result="tuple"),
    rule("both.lu_solve(input, LU_data, LU_pivots)", "tl.linalg.lu_solve(LU_data, LU_pivots, input)"),
    rule("torch.lu_unpack(LU_data, LU_pivots, unpack_data=True, unpack_pivots=True)",
         "tl.lu_unpack(LU_data, LU_pivots)", result="tuple"),
    rule("both.triangular_solve(input, A, upper=True, transpose=False, unitriangular=False)",
         "tl.triangular_solve(input, A, upper=upper, transpose=transpose, unitriangular=unitriangular)",
         result="tuple"),
    rule("both.matrix_exp(input)", "jax.scipy.linalg.expm(input)"),
    rule("torch.linalg.matrix_exp(A)", "jax.scipy.linalg.expm(A)"),
    rule("both.matrix_power(input, n)", "jnp.linalg.matrix_power(input, n)"),
    *(
        rule(f"torch.{name}", kind="register", note=f"torch removed it. Write {ours}.")
        for name, ours in (("eig", "jnp.linalg.eig"), ("symeig", "jnp.linalg.eigh"), ("lstsq", "jnp.linalg.lstsq"),
                           ("solve", "jnp.linalg.solve"), ("matrix_rank", "jnp.linalg.matrix_rank"))
    ),
)  # fmt: skip

ROWS = (*_PRODUCTS, *_DISTANCES, *_OLDER)
