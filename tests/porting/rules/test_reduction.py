"""Rules of reductions, order and statistics against torch: the database's samples, and calls that it lacks."""

import pytest

from .exceptions_reduction import EXCEPTIONS
from .op_samples import agree, cases, check_with

NAMES = [
    "all", "amax", "amin", "aminmax", "any", "argmax", "argmin", "argsort", "bincount", "corrcoef", "count_nonzero",
    "cov", "cummax", "cummin", "cumprod", "cumsum", "cumulative_trapezoid", "diff", "dist", "gradient", "hash_tensor",
    "histc", "histogram", "histogramdd", "kthvalue", "logcumsumexp", "logsumexp", "max/binary",
    "max/reduction_no_dim", "max/reduction_with_dim", "mean", "median", "min/binary", "min/reduction_no_dim",
    "min/reduction_with_dim", "mode", "msort", "nanmean", "nanmedian", "nanquantile", "nansum", "norm", "norm/fro",
    "norm/inf", "norm/nuc", "prod", "quantile", "renorm", "sort", "std", "std/unbiased", "std_mean",
    "std_mean/unbiased", "sum", "topk", "trapezoid", "trapz", "unique", "unique_consecutive", "var", "var/unbiased",
    "var_mean", "var_mean/unbiased",
]  # fmt: skip
REGISTERED = ("hash_tensor", "histogramdd")

DIRECT = (
    # sums and means
    "x.sum()", "x.sum(1)", "x.sum(dim=1)", "x.sum(-1, True)", "x.sum([0, 2])", "x.sum(dim=(0, 1), keepdim=True)",
    "x.sum(())", "torch.sum(x, [])", "x.sum(axis=1, keepdims=True)", "x.sum(1, dtype=torch.float32)",
    "x.sum(dtype=torch.float32)", "n.sum()", "m.sum()", "m.sum(1)", "u.sum()", "u.sum(1)", "u.sum() - 10 * u.sum()",
    "x.sum(x.dim() - 1)", "x.sum(tuple(range(2)))", "x.sum(list(range(2)))", "x.mean((-2, -1))",
    "x.mean([1, 2], keepdim=True)", "torch.mean(x, dim=0)", "n.mean(dtype=torch.float64)", "x.prod()", "x.prod(1)",
    "n.prod(1)", "m.prod()", "u.prod(2)", "torch.prod(x, 1, keepdim=True)", "x.nansum(1)", "x.nanmean()",
    "torch.nanmean(x, (0, 1))", "x.logsumexp(1)", "torch.logsumexp(x, dim=(1, 2), keepdim=True)", "m.all()", "m.any(1)",
    "m.all(dim=(0, 1))", "x.all(dim=-1, keepdim=True)", "torch.any(m, dim=1)", "u.any(1)", "u.all()",
    "torch.count_nonzero(m)", "n.count_nonzero(dim=(0, 1))",
    # deviations
    "x.var()", "x.var(1)", "x.var(1, unbiased=False)", "x.var(False)", "x.var(unbiased=False)",
    "torch.var(x, 1, correction=0)", "x.var((0, 1), keepdim=True)", "x.var(1, False, True)",
    "torch.var(x, dim=1, correction=2, keepdim=True)", "x.std()", "x.std(1)", "x.std(-1, keepdim=True)",
    "torch.std(x, -1, False)", "x.std(dim=(1, 2), correction=0)", "(x * 0).std()", "torch.var_mean(x, 1)",
    "torch.std_mean(x, dim=1, unbiased=False)", "torch.var_mean(x, [1, 2], correction=0, keepdim=True)",
    # extremes
    "x.max()", "x.max(1)", "x.max(1)[0]", "x.max(1)[1]", "x.max(1).values", "x.max(dim=1, keepdim=True).indices",
    "torch.max(x, -1)[0]", "torch.max(x, dim=1).indices", "n.max(1)[0]", "n.max(1, True).values", "n.max(1)",
    "torch.max(x, y)", "x.max(y)", "torch.max(x, other=y)", "torch.max(x, n)", "torch.min(x, y)", "x.min()",
    "x.min(1)[0]", "n.min(-1).values", "x.min(dim=2).indices", "(x * 0).max(1)[0]", "(x * 0).max()", "(x * 0).amax(1)",
    "(x * 0).min(1).values", "torch.max(x * 0, y * 0)", "x.amax()", "x.amax((0, 1))", "x.amin([1, 2], keepdim=True)",
    "torch.aminmax(x)", "x.aminmax(dim=1, keepdim=True)", "torch.aminmax(x, dim=1).max", "x.argmax()", "x.argmax(1)",
    "x.argmin(-1, keepdim=True)", "torch.argmax(x, dim=1)", "torch.argmin(x, dim=-1, keepdim=True)",
    "x.argmax(dim=None)",
    # along a dimension
    "x.cumsum(1)", "torch.cumsum(x, dim=-1)", "m.cumsum(1)", "u.cumsum(1)", "n.cumsum(-1)",
    "n.cumsum(1, dtype=torch.float64)", "torch.cumprod(x, 1)", "u.cumprod(1)", "x.cummax(1)",
    "torch.cummax(x, 1).values", "x.cummin(-1)[0]", "x.logcumsumexp(-1)", "torch.trapezoid(x, dx=0.5, dim=1)",
    "torch.trapezoid(x, y)", "torch.cumulative_trapezoid(x, v)", "x.diff()", "torch.diff(x, n=2, dim=1, prepend=y)",
    "m.diff(dim=1)", "torch.gradient(x, spacing=0.5, dim=(1, 2))",
    "torch.gradient(v, spacing=(v.detach().cumsum(0),), edge_order=2)",
    # order
    "x.sort()", "x.sort(1)[0]", "x.sort(1, descending=True).indices", "torch.sort(x, dim=1, descending=True)[0]",
    "x.sort(dim=1, stable=True)", "torch.sort(x, stable=True, dim=0)[1]", "n.sort(1).values", "torch.msort(x)",
    "x.argsort(1, descending=True)", "torch.argsort(x, dim=1, stable=True)", "x.topk(2)", "x.topk(2, dim=1)[0]",
    "torch.topk(x, k=2, dim=1, largest=False, sorted=True)", "x.kthvalue(2)", "torch.kthvalue(x, 2, 1, True)",
    "x.median()", "x.median(1)", "torch.median(x, dim=1, keepdim=True).values", "x.nanmedian()", "x.nanmedian(1)[0]",
    "n.mode(1)[0]", "x.quantile(0.3)", "torch.quantile(x, v.detach().sigmoid(), dim=1)",
    "x.quantile(0.5, 1, keepdim=True, interpolation='lower')", "torch.nanquantile(x, 0.3, dim=-1)",
    # norms and statistics
    "x.norm()", "x.norm(2)", "x.norm(dim=-1, keepdim=True)", "x.norm(p=1, dim=(0, 1))", "torch.norm(x, 2, -1)",
    "(x * 0).norm()", "torch.norm(x, p='fro', dim=(1, 2))", "torch.norm(x, float('inf'))",
    "torch.frobenius_norm(x, (1, 2))", "torch.nuclear_norm(s)", "x.dist(y)", "torch.dist(x, y, 1)",
    "torch.dist(x, x * 1.0)", "x.renorm(2, 1, 0.5)", "torch.corrcoef(a)", "a.cov()", "torch.cov(a, correction=0)",
    # counts
    "n.flatten().bincount()", "torch.bincount(j, weights=v[:3].detach(), minlength=5)", "torch.bincount(j, j)",
    "torch.histc(v.detach(), 5, 0, 1)", "torch.histogram(v.detach(), 3)",
    "v.detach().histogram(3, range=(0.0, 1.0), density=True)", "n.unique()",
    "torch.unique(n, return_inverse=True, return_counts=True)", "torch.unique(n, dim=1)",
    "torch.sort(torch.unique(n, sorted=False))[0]", "torch.unique_consecutive(n.flatten(), return_counts=True)",
    "torch.unique(torch.log(x.detach()))",
)  # fmt: skip


@pytest.mark.parametrize("text", DIRECT)
def test_call(text, tensors):
    assert check_with(text, tensors) is None


@pytest.mark.slow
@pytest.mark.parametrize(("name", "form"), cases(NAMES))
def test_database(name, form):
    agree(name, form, EXCEPTIONS, REGISTERED)
