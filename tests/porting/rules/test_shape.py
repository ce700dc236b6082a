"""Rules of shapes, joins and parts against torch: the database's samples, and calls that it lacks."""

import pytest

from .exceptions_shape import EXCEPTIONS
from .op_samples import agree, cases, check_with

NAMES = [
    "alias_copy", "as_strided", "as_strided/partial_views", "as_strided_copy", "as_strided_scatter", "atleast_1d",
    "atleast_2d", "atleast_3d", "block_diag", "broadcast_tensors", "broadcast_to", "cartesian_prod", "cat", "chunk",
    "column_stack", "combinations", "constant_pad_nd", "diag", "diag_embed", "diagflat", "diagonal", "diagonal_copy",
    "diagonal_scatter", "dsplit", "dstack", "expand", "expand_as", "expand_copy", "flatten", "flip", "fliplr", "flipud",
    "hsplit", "hstack", "meshgrid/list_of_tensors", "meshgrid/variadic_tensors", "movedim", "narrow", "narrow_copy",
    "permute", "permute_copy", "ravel", "repeat", "repeat_interleave", "reshape", "reshape_as", "roll", "rot90",
    "select", "select_scatter", "slice_scatter", "split", "split/list_args", "split_with_sizes",
    "split_with_sizes_copy", "squeeze", "squeeze/multiple", "squeeze_copy", "stack", "sum_to_size", "t", "t_copy",
    "tensor_split", "tile", "trace", "transpose", "transpose_copy", "tril", "triu", "unbind", "unbind_copy",
    "unflatten", "unfold", "unfold_copy", "unsafe_chunk", "unsafe_split", "unsqueeze", "unsqueeze_copy", "view",
    "view_as", "view_copy", "vsplit", "vstack",
]  # fmt: skip

DIRECT = (
    # views
    "x.float().view(torch.int32)", "x.view(2, -1)", "x.view((6, 4))", "x.view(*x.shape[:1], -1)", "x.view(size=(4, 6))",
    "x.view(x.size(0), -1)", "x.flatten(1)", "x.flatten(1, 2)", "x.flatten(0, -2)", "(x + y).flatten(1)", "x.flatten()",
    "torch.flatten(x, start_dim=1)", "x.unflatten(-1, (2, -1))", "x[:, :1].squeeze(1)", "x.squeeze(0)",
    "x[:1].squeeze()", "torch.squeeze(x[:1, :1], (0, 1))", "torch.squeeze(x[:1], dim=0)", "x.unsqueeze(dim=-1)",
    "x.view_as(y)", "torch.atleast_2d(v, v)", "torch.atleast_3d([v, a])", "torch.atleast_1d(v)",
    "v.as_strided((3, 2), (1, 1))", "x.unfold(2, 2, 1)", "torch.select_copy(x, 1, -1)", "torch.slice_copy(x, 1, 1, 3)",
    "torch.detach(x).reshape(-1)",
    # order
    "x.permute(2, 0, 1)", "x.permute((2, 0, 1))", "x.permute(dims=(2, 0, 1))", "torch.permute(x, [0, -1, 1])",
    "x.transpose(1, 2)", "x.transpose(dim0=0, dim1=-1)", "x.swapaxes(0, 1)", "x.swapdims(0, 1)",
    "torch.swapdims(x, 1, 2)", "torch.swapaxes(x, axis0=1, axis1=2)", "a.t()", "a.T", "x.mT", "z.H", "z.mH",
    "z.adjoint()", "x.adjoint()", "x.movedim((0, 1), (1, 0))", "torch.moveaxis(x, 0, 2)", "x.moveaxis(0, -1)",
    "x.roll(1)", "x.roll(1, 2)", "torch.roll(x, shifts=(1, -1), dims=(0, 2))", "x.roll([1, 2], [0, 1])", "x.flip(1)",
    "x.flip([0, 2])", "x.flip(0, -1)", "torch.flip(x, dims=(1,))", "torch.flip(x, dims=[-1])",
    "torch.rot90(x, 1, [1, 2])",
    # sizes
    "x.size()", "x.size(1)", "x.size(dim=-1)", "x.shape", "x.shape[1:]", "x.dim()", "x.ndim", "x.ndimension()",
    "x.numel()", "torch.numel(x)", "x.nelement()", "len(x)", "x.shape.numel()", "x.size().numel()",
    "torch.Size([2, 3])", "torch.Size((2,)) + x.shape", "torch.is_same_size(x, y)", "x.is_same_size(a)",
    "isinstance(x.shape, torch.Size)", "x.is_contiguous()", "x.storage_offset()",
    "torch.broadcast_shapes((2, 1), (3,))",
    # sizes that grow
    "v.expand(3, 4)", "v.expand(3, -1)", "v.expand((3, 4))", "v[:, None].expand(-1, 5)", "v.expand(size=(2, 4))",
    "v.expand(*x.shape)", "v.expand_as(x)", "v.broadcast_to((3, 4))", "torch.broadcast_to(v, (3, -1))",
    "torch.broadcast_tensors(v, x)", "torch.broadcast_tensors(*(v, x))", "torch.meshgrid(*[v, v])", "x.flip(*[0, 1])",
    "torch.atleast_2d(*[v, v])", "torch.broadcast_to(v, (3, 4))", "v.expand(x.shape)",
    "torch.meshgrid([one for one in (v, v)])", "x.roll((1, 2), (0, 1))",
    "x.repeat(2, 1, 3)", "v.repeat(2)", "v.repeat((2, 1))", "v.repeat(*[2, 1])", "x.tile(2)", "x.tile((2, 1))",
    "torch.tile(x, (2, 1, 1, 1))", "x.repeat_interleave(2, 1)", "x.repeat_interleave(2)",
    "x.repeat_interleave(j, dim=1)", "torch.repeat_interleave(x, 2, dim=1)", "torch.repeat_interleave(j)",
    "torch.repeat_interleave(j, output_size=3)", "x.repeat_interleave(j, 1, output_size=3)", "x.sum_to_size(3, 1)",
    # joins
    "torch.cat([x, y], 1)", "torch.cat((x, y), dim=-1)", "torch.concat([x, y])", "torch.concatenate([x, y], axis=2)",
    "torch.cat(x.unbind(0), 1)", "torch.stack([x, y], 1)", "torch.stack((x, y), dim=-1)", "torch.stack(tuple(x))",
    "torch.row_stack((v, v))", "torch.hstack([x, y])", "torch.dstack([a, a])", "torch.meshgrid(v, v)",
    "torch.meshgrid(v, v, indexing='xy')", "torch.meshgrid([v, v], indexing='ij')", "torch.cartesian_prod(v, v)",
    "torch.combinations(v, 3)", "torch.block_diag(a, v)",
    # parts
    "x.split(2, 2)", "x.split([1, 3], dim=-1)", "torch.split(x, 2, dim=2)", "x.split(split_size=2, dim=1)",
    "torch.split(x, split_size_or_sections=[1, 2], dim=1)", "torch.split_copy(x, 2, 1)", "x.chunk(3, 2)",
    "x.chunk(2, dim=-1)[1]", "torch.unsafe_split_with_sizes(x, [1, 2], 1)", "a.tensor_split(4, 1)",
    "torch.tensor_split(a, (1, 3), dim=1)", "torch.tensor_split(a, sections=3)",
    "torch.tensor_split(a, indices=[1, 3], dim=1)", "a.hsplit([1, 3])", "torch.hsplit(a, sections=2)", "x.unbind(1)",
    "torch.unbind(x)", "x.narrow(2, 1, 2)", "x.narrow(-1, -2, 2)", "torch.narrow(x, 1, torch.tensor(1), 2)",
    "x.select(1, -1)", "x.select(1, j[0])", "torch.select_scatter(x, x[0] * 2, 0, 1)",
    "x.transpose(*[0, 2])",
    # diagonals
    "a.tril(-1)", "a.triu(diagonal=1)", "torch.tril(x)", "x.diagonal(0, 1, 2)", "torch.diagonal(x, dim1=-2, dim2=-1)",
    "a.diag()", "torch.diag(v, 1)", "torch.diag_embed(v, -1)", "torch.diagflat(a, 1)", "s.trace()", "j.diag().trace()",
    "torch.vander(v.detach())", "torch.vander(j, 2)", "torch.vander(v.detach(), N=3, increasing=True)",
    "s.detach().fill_diagonal_(0.5)", "torch.diagonal_scatter(s, v)", "torch.slice_scatter(x, x[:, :2], 1, -2)",
    "torch.constant_pad_nd(x, (1, 2), 0.5)",
)  # fmt: skip


@pytest.mark.parametrize("text", DIRECT)
def test_call(text, tensors):
    assert check_with(text, tensors) is None


@pytest.mark.slow
@pytest.mark.parametrize(("name", "form"), cases(NAMES))
def test_database(name, form):
    agree(name, form, EXCEPTIONS)
