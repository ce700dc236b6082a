"""Order, quantiles, norms, counts and other statistics."""

from funcnet.porting.rule_engine.rule import rule

__all__ = ["ROWS"]

_EAGER = "The size of the result depends on the data."

_SCALAR = "known(input.ndim == 0) and (dim.is_given or keepdim.is_given)"  # torch takes dimension 0 of a scalar

_ORDER = (
    rule(
        "both.sort(input, dim=-1, descending=False, stable=False)",
        "tl.sort(input, dim, descending=descending)",
        result="tuple",
        kind="semantic",
        when="stable.equals(True, False, None)",
    ),
    rule(
        "both.sort.values(input, dim=-1, descending=False)",
        "jnp.sort(input, axis=dim, descending=descending)",
        when="known(input.ndim > 0)",
    ),
    rule(
        "both.sort.indices(input, dim=-1, descending=False)",
        "jnp.argsort(input, axis=dim, descending=descending)",
        when="known(input.ndim > 0)",
    ),
    rule("both.msort(input)", "jnp.sort(input, axis=0)"),
    rule(
        "both.argsort(input, dim=-1, descending=False, stable=False)",
        "jnp.zeros((), int)",
        when="known(input.ndim == 0) and stable.equals(True, False) and (dim.is_given or descending.is_given or True)",
    ),
    rule(
        "both.argsort(input, dim=-1, descending=False, stable=False)",
        "jnp.argsort(input, axis=dim, descending=descending)",
        when="stable.equals(True, False)",
    ),
    rule(
        "both.topk(input, k, dim=-1, largest=True, sorted=True)",
        "tl.topk(input, k, dim=dim, largest=largest, sorted=sorted)",
        result="tuple",
    ),
    rule(
        "both.kthvalue(input, k, dim=-1, keepdim=False)",
        "tl.kthvalue(input, k, dim=dim, keepdim=keepdim)",
        result="tuple",
    ),
    rule("both.median(input)", "tl.median(input)"),
    rule(
        "both.median(input, dim, keepdim=False)",
        "tl.median(input, dim, keepdim=keepdim)",
        result="tuple",
        kind="semantic",
        note="jnp.median averages the two values in the middle.",
    ),
    rule("both.nanmedian(input)", "tl.nanmedian(input)"),
    rule("both.nanmedian(input, dim, keepdim=False)", "tl.nanmedian(input, dim, keepdim=keepdim)", result="tuple"),
    rule("both.mode(input, dim=-1, keepdim=False)", "tl.mode(input, dim, keepdim=keepdim)", result="tuple"),
    rule(
        "both.quantile(input, q, dim=None, keepdim=False, *, interpolation='linear')",
        "jnp.quantile(input, q, method=interpolation)",
        when=_SCALAR,
    ),
    rule(
        "both.quantile(input, q, dim=None, keepdim=False, *, interpolation='linear')",
        "jnp.quantile(input, q, axis=dim, method=interpolation, keepdims=keepdim)",
    ),
    rule(
        "both.nanquantile(input, q, dim=None, keepdim=False, *, interpolation='linear')",
        "jnp.nanquantile(input, q, method=interpolation)",
        when=_SCALAR,
    ),
    rule(
        "both.nanquantile(input, q, dim=None, keepdim=False, *, interpolation='linear')",
        "jnp.nanquantile(input, q, axis=dim, method=interpolation, keepdims=keepdim)",
    ),
)

_MOMENTS = (
    rule(
        "both.var(input, dim=None, unbiased=True, keepdim=False)",
        "tl.var(input, dim, unbiased=unbiased, keepdim=keepdim)",
    ),
    rule(
        "both.var(input, dim=None, *, correction=1, keepdim=False)",
        "tl.var(input, dim, correction=correction, keepdim=keepdim)",
    ),
    rule(
        "both.std(input, dim=None, unbiased=True, keepdim=False)",
        "tl.std(input, dim, unbiased=unbiased, keepdim=keepdim)",
        kind="semantic",
        note="torch divides by N - 1, and its gradient is 0 where the result is 0.",
    ),
    rule(
        "both.std(input, dim=None, *, correction=1, keepdim=False)",
        "tl.std(input, dim, correction=correction, keepdim=keepdim)",
        kind="semantic",
    ),
    rule(
        "torch.var_mean(input, dim=None, unbiased=True, keepdim=False)",
        "tl.var_mean(input, dim, unbiased=unbiased, keepdim=keepdim)",
        result="tuple",
    ),
    rule(
        "torch.var_mean(input, dim=None, *, correction=1, keepdim=False)",
        "tl.var_mean(input, dim, correction=correction, keepdim=keepdim)",
        result="tuple",
    ),
    rule(
        "torch.std_mean(input, dim=None, unbiased=True, keepdim=False)",
        "tl.std_mean(input, dim, unbiased=unbiased, keepdim=keepdim)",
        result="tuple",
    ),
    rule(
        "torch.std_mean(input, dim=None, *, correction=1, keepdim=False)",
        "tl.std_mean(input, dim, correction=correction, keepdim=keepdim)",
        result="tuple",
    ),
    rule(
        "both.norm(input, p='fro', dim=None, keepdim=False, dtype=None)",
        "tl.norm(input, p, dim=dim, keepdim=keepdim, dtype=dtype)",
        kind="semantic",
        note="torch's gradient is 0 where the norm is 0.",
    ),
    rule("torch.frobenius_norm(input, dim=None, keepdim=False)", "tl.norm(input, dim=dim, keepdim=keepdim)"),
    rule("torch.nuclear_norm(input, dim=(-2, -1), keepdim=False)", "tl.norm(input, 'nuc', dim=dim, keepdim=keepdim)"),
    rule("both.dist(input, other, p='fro')", "tl.norm(input - other, p)", kind="semantic"),
    rule("both.renorm(input, p, dim, maxnorm)", "tl.renorm(input, p, dim, maxnorm)"),
    rule("both.corrcoef(input)", "jnp.corrcoef(input)"),
    rule(
        "both.cov(input, *, correction=1, fweights=None, aweights=None)",
        "jnp.cov(input, ddof=correction, fweights=fweights, aweights=aweights)",
    ),
)

_COUNTS = (
    rule("both.histc(input, bins=100, min=0, max=0)", "tl.histc(input, bins, min, max)"),
    rule(
        "both.histogram(input, bins, *, range=None, weight=None, density=False)",
        "jnp.histogram(input, bins, range, weight, density)",
        result="tuple",
    ),
    rule(
        "torch.histogramdd(input, bins, *, range=None, weight=None, density=False)",
        kind="register",
        note="Write jnp.histogramdd, whose counts are integers and whose range is a pair for each dimension.",
    ),
    rule(
        "both.bincount(input, weights=None, minlength=0)",
        "jnp.bincount(input, weights.astype(float), minlength)",
        when="known(weights.is_tensor) and not known(weights.is_floating)",
        level="eager only",
        note=f"{_EAGER} Pass length.",
    ),
    rule(
        "both.bincount(input, weights=None, minlength=0)",
        "jnp.bincount(input, weights, minlength)",
        level="eager only",
        note=f"{_EAGER} Pass length.",
    ),
    rule(
        "both.unique(input, sorted=True, return_inverse=False, return_counts=False, dim=None)",
        "jnp.unique(input, return_inverse=return_inverse, return_counts=return_counts, axis=dim)",
        level="eager only",
        note=_EAGER,
        when="known(sorted.equals(True, False) and (input.is_integral or input.is_boolean))",
    ),
    rule(
        "both.unique(input, sorted=True, return_inverse=False, return_counts=False, dim=None)",
        "jnp.unique(input, return_inverse=return_inverse, return_counts=return_counts, axis=dim, equal_nan=False)",
        level="eager only",
        note=_EAGER,
        when="sorted.equals(True, False)",
    ),
    rule(
        "both.unique_consecutive(input, return_inverse=False, return_counts=False, dim=None)",
        "tl.unique_consecutive(input, return_inverse=return_inverse, return_counts=return_counts, dim=dim)",
        level="eager only",
        note=_EAGER,
    ),
    rule(
        "both.hash_tensor(input, dim=(), *, keepdim=False, mode=0)",
        kind="register",
        note="JAX has no hash of an array.",
    ),
)

ROWS = (*_ORDER, *_MOMENTS, *_COUNTS)
