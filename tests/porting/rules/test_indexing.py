"""Rules of indexing against torch: the database's samples, and calls that it lacks."""

import pytest

from .exceptions_indexing import EXCEPTIONS
from .op_samples import agree, cases, check_with

NAMES = [
    "argwhere", "bucketize", "gather", "index_add", "index_copy", "index_fill", "index_put", "index_reduce/amax",
    "index_reduce/amin", "index_reduce/mean", "index_reduce/prod", "index_select", "masked_fill", "masked_scatter",
    "masked_select", "nonzero", "nonzero_static", "put", "scatter", "scatter_add", "scatter_reduce/amax",
    "scatter_reduce/amin", "scatter_reduce/mean", "scatter_reduce/prod", "scatter_reduce/sum", "searchsorted", "take",
    "take_along_dim", "unravel_index",
]  # fmt: skip

DIRECT = (
    "x.gather(1, i)", "torch.gather(x, dim=1, index=i[:1])", "x.index_select(1, j)", "torch.index_select(v, 0, j[:1])",
    "x.take(j)", "torch.take(x, i)", "torch.take_along_dim(x, i, 1)", "x.take_along_dim(i, dim=1)",
    "x.take_along_dim(i)", "torch.take_along_dim(x, i[:, :1], dim=1)", "x[m]", "x.masked_select(m)",
    "torch.masked_select(x, m[0])", "x.masked_select(m[:, :, :1])", "torch.where(m)", "torch.nonzero(m)",
    "m.nonzero(as_tuple=True)", "torch.nonzero(m, as_tuple=False)", "x.nonzero()[:, 0]", "torch.argwhere(m)",
    "torch.nonzero_static(m, size=9)", "m.nonzero_static(size=30, fill_value=7)", "torch.unravel_index(j, (2, 2))",
    "torch.bucketize(n, j.sort()[0])", "torch.bucketize(n, j.sort()[0], right=True)", "torch.bucketize(4, j.sort()[0])",
    "torch.searchsorted(j.sort()[0], n, side='right')", "torch.searchsorted(j.sort()[0], n, right=True)",
    "torch.searchsorted(torch.sort(n, 2)[0], i)", "x.scatter(1, i.argsort(1), y)",
    "x.scatter(dim=1, index=i.argsort(1), src=y)", "x.scatter(1, i, value=2.0)", "torch.scatter(x, 1, i, 2.0)",
    "n.scatter(1, i, n, reduce='add')", "x.scatter_add(1, i, y)",
    "x.scatter_reduce(1, i, y, 'mean', include_self=False)", "torch.scatter_reduce(x, 1, i, y, reduce='amax')",
    "x.index_add(1, j, y)", "x.index_add(1, j, y, alpha=2)", "x.index_copy(1, j, y)",
    "torch.index_fill(x, 1, j[:2], 0.5)", "x.index_reduce(1, j, y, 'amin')", "torch.index_put(x, (j[:2],), y)",
    "x.index_put((j[:2],), y[0])", "x.index_put([j[:2], j[:2]], v[0], accumulate=True)", "x.index_put((m,), v[0])",
    "x.index_put((m,), v[0], True)", "x.put(j, v[:3])", "x.put(j, v[:3], accumulate=True)", "x.masked_fill(m, -1.0)",
    "x.masked_fill(m, float('-inf'))", "x.masked_fill(m, v[0])", "torch.masked_fill(x, m[0], 2)", "n.masked_fill(m, 0)",
    "x.masked_fill(mask=m, value=0)", "n.masked_fill(m, True)", "x.masked_scatter(m, y)",
    "x.masked_fill(m, -torch.finfo(x.dtype).max)", "x.half().masked_fill(m, torch.finfo(torch.float16).min)",
)  # fmt: skip


@pytest.mark.parametrize("text", DIRECT)
def test_call(text, tensors):
    assert check_with(text, tensors) is None


@pytest.mark.slow
@pytest.mark.parametrize(("name", "form"), cases(NAMES))
def test_database(name, form):
    agree(name, form, EXCEPTIONS)
