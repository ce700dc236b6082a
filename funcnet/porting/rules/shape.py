"""Shapes and views: arrays with the same entries in a different shape or order.

JAX has no views: a change of one array never changes another one. `transforms/views.py` handles views that are changed.
"""

from funcnet.porting.rule_engine.rule import Rule, rule

__all__ = ["LISTED", "ROWS", "UNPACK"]

UNPACK = "Write *tensors if it is a list."
LISTED = "tensors.is_only('list', 'tuple') or tensors.text.startswith(('[', '('))"

_SCALAR = "known(input.ndim == 0)"  # torch takes dimension 0 of a scalar. NumPy does not.

# Condition that no size is -1, with which torch keeps the size of a dimension.
_PLAIN = (
    "'-1' not in shape.text and "
    "(known(shape.count > 1) or shape.text.startswith(('(', '[')) or shape.text.endswith('.shape'))"
)


def _several(name: str, target: str) -> tuple[tuple[Rule, ...], ...]:
    """Return the rules of a torch function whose arguments are either several tensors or one list of tensors."""
    return (
        rule(f"{name}(*tensors)", f"{target}(*tensors)", when="known(tensors.is_tensor)"),
        rule(f"{name}(tensors)", f"{target}(*tensors)", result="tuple", when=LISTED, note=UNPACK),
        rule(f"{name}(*tensors)", f"{target}(*tensors)", result="tuple"),
    )


_VIEWS = (
    rule("Tensor.view(input, dtype)", "input.view(dtype)", when="known(dtype.is_only('dtype'))"),
    rule("Tensor.view(input, *shape)", "input.reshape(*shape)"),
    rule("torch.view_copy(input, dtype)", "input.view(dtype)", when="known(dtype.is_only('dtype'))"),
    rule("torch.view_copy(input, shape)", "input.reshape(shape)"),
    rule("Tensor.reshape(input, *shape)", "input.reshape(*shape)"),
    rule("torch.reshape(input, shape)", "input.reshape(shape)"),
    rule("Tensor.view_as(input, other)", "input.reshape(other.shape)"),
    rule("Tensor.reshape_as(input, other)", "input.reshape(other.shape)"),
    rule("both.ravel(input)", "input.ravel()"),
    rule(
        "both.flatten(input, start_dim=0, end_dim=-1)",
        "input.ravel()",
        when="start_dim.equals(0) and end_dim.equals(-1)",
    ),
    rule(
        "both.flatten(input, start_dim=0, end_dim=-1)",
        "input.reshape(input.shape[0], -1)",
        when="known(start_dim.equals(1) and end_dim.equals(-1) and input.ndim > 1 and 0 not in input.shape)",
    ),
    rule("both.flatten(input, start_dim=0, end_dim=-1)", "tl.flatten(input, start_dim, end_dim)"),
    rule("both.unflatten(input, dim, sizes)", "tl.unflatten(input, dim, sizes)"),
    rule("both.unsqueeze(input, dim)", "jnp.expand_dims(input, dim)"),
    rule("torch.unsqueeze_copy(input, dim)", "jnp.expand_dims(input, dim)"),
    rule("both.squeeze(input)", "input.squeeze()"),
    rule(
        "both.squeeze(input, dim)",
        "tl.squeeze(input, dim)",
        kind="semantic",
        note="A dimension of another size than 1 stays.",
    ),
    rule("torch.squeeze_copy(input)", "input.squeeze()"),
    rule("torch.squeeze_copy(input, dim)", "tl.squeeze(input, dim)", kind="semantic"),
    *_several("torch.atleast_1d", "jnp.atleast_1d"),
    *_several("torch.atleast_2d", "jnp.atleast_2d"),
    *_several("torch.atleast_3d", "jnp.atleast_3d"),
    rule(
        "both.as_strided(input, size, stride, storage_offset=None)",
        "tl.as_strided(input, size, stride, storage_offset)",
        kind="semantic",
        note="The strides are those of an array in row-major order, not of torch's storage.",
    ),
    rule(
        "torch.as_strided_copy(input, size, stride, storage_offset=None)",
        "tl.as_strided(input, size, stride, storage_offset)",
        kind="semantic",
    ),
    rule(
        "both.as_strided_scatter(input, src, size, stride, storage_offset=None)",
        "tl.as_strided_scatter(input, src, size, stride, storage_offset)",
        kind="semantic",
    ),
    rule("Tensor.unfold(input, dimension, size, step)", "tl.unfold(input, dimension, size, step)"),
    rule("torch.unfold_copy(input, dimension, size, step)", "tl.unfold(input, dimension, size, step)"),
    rule("torch.alias_copy(input)", "input"),
)

_ORDER = (
    rule("Tensor.permute(input, *dims)", "input.transpose(*dims)"),
    rule("torch.permute(input, dims)", "input.transpose(dims)"),
    rule("torch.permute_copy(input, dims)", "input.transpose(dims)"),
    rule("both.transpose(input, dim0, dim1)", "input", when=f"{_SCALAR} and dim0.is_given and dim1.is_given"),
    rule(
        "both.transpose(input, dim0, dim1)",
        "input.mT",
        when="known(dim0.equals(-1) and dim1.equals(-2) or dim0.equals(-2) and dim1.equals(-1))",
    ),
    rule(
        "both.transpose(input, dim0, dim1)",
        "input.T",  # a parameter always has the number of dimensions that the run saw
        when="input.kinds == {'parameter'} and input.ndim == 2 and "
        "known(dim0.equals(0) and dim1.equals(1) or dim0.equals(1) and dim1.equals(0))",
    ),
    rule(
        "both.transpose(input, dim0, dim1)",
        "input.swapaxes(dim0, dim1)",
        kind="semantic",
        note="The arguments of JAX's transpose are the new order of all axes.",
    ),
    rule("both.transpose(input, *dims)", "input.swapaxes(*dims)"),  # `x.transpose(*self.dims)`
    rule("torch.transpose_copy(input, dim0, dim1)", "input", when=f"{_SCALAR} and dim0.is_given and dim1.is_given"),
    rule("torch.transpose_copy(input, dim0, dim1)", "input.swapaxes(dim0, dim1)"),
    rule("both.swapaxes(input, axis0, axis1)", "input.swapaxes(axis0, axis1)"),
    rule("both.swapdims(input, dim0, dim1)", "input.swapaxes(dim0, dim1)"),
    rule("both.t(input)", "input.T"),
    rule("torch.t_copy(input)", "input.T"),
    rule("Tensor.T", "input.T"),
    rule("Tensor.mT", "input.mT"),
    rule("Tensor.H", "input.conj().T"),
    rule("Tensor.mH", "input.conj().mT"),
    rule("both.adjoint(input)", "input.mT", when="known(input.is_floating)"),
    rule("both.adjoint(input)", "input.conj().mT"),
    rule(
        "both.movedim(input, source, destination)",
        "input",
        when=f"{_SCALAR} and source.is_given and destination.is_given",
    ),
    rule("both.movedim(input, source, destination)", "jnp.moveaxis(input, source, destination)"),
    rule("both.moveaxis(input, source, destination)", "jnp.moveaxis(input, source, destination)"),
    rule("both.roll(input, shifts, dims=())", "jnp.roll(input, shifts)", when="known(dims.equals((), []))"),
    rule("both.roll(input, shifts, dims=())", "jnp.roll(input, shifts, axis=dims)", when="dims.is_axis"),
    rule("both.roll(input, shifts, dims=())", "jnp.roll(input, shifts, axis=tl.axes(dims))"),
    rule("both.flip(input, *dims)", "input", when=f"{_SCALAR} or known(dims.equals((), []))"),
    rule("both.flip(input, *dims)", "jnp.flip(input, axis=dims)", when="known(dims.count > 1) or dims.is_axis"),
    rule("both.flip(input, *dims)", "jnp.flip(input, axis=tuple(dims))", when="known(dims.is_only('list'))"),
    rule("both.flip(input, *dims)", "jnp.flip(input, axis=dims)"),
    rule("both.fliplr(input)", "jnp.fliplr(input)"),
    rule("both.flipud(input)", "jnp.flipud(input)"),
    rule("both.rot90(input, k=1, dims=(0, 1))", "jnp.rot90(input, k, axes=dims)"),
)

_SIZES = (
    rule("Tensor.size(input, dim=None)", "input.shape", when="known(dim.is_only('none'))", result="tuple"),
    rule("Tensor.size(input, dim=None)", "input.shape[dim]", result="int"),
    rule("Tensor.dim(input)", "input.ndim", result="int"),
    rule("Tensor.ndimension(input)", "input.ndim", result="int"),
    rule("both.numel(input)", "input.size", result="int"),
    rule("Tensor.nelement(input)", "input.size", result="int"),
    rule("torch.Size(sizes)", "tuple(sizes)", result="tuple"),
    rule("both.is_same_size(input, other)", "input.shape == other.shape", result="bool"),
    rule(
        "Tensor.is_contiguous(input, memory_format=None)",
        "True",
        when="input.is_given",
        result="bool",
        kind="semantic",
        note="Arrays have no strides.",
    ),
    rule(
        "Tensor.stride(input, dim=None)",
        kind="register",
        note="Arrays have no strides. Compute with the shape instead.",
    ),
    rule(
        "Tensor.storage_offset(input)",
        "0",
        when="input.is_given",
        result="int",
        kind="semantic",
        note="An array is not a view of another one.",
    ),
    rule("Tensor.dim_order(input, ambiguity_check=False)", kind="register", note="Arrays have no order in memory."),
    *(
        rule(f"Tensor.{name}(input)", kind="register", note="Arrays have no storage. Use the array itself.")
        for name in ("storage", "untyped_storage", "storage_type", "data_ptr", "const_data_ptr", "is_shared")
    ),
    rule("Tensor.is_set_to(input, tensor)", kind="register", note="Arrays have no storage. Compare the entries."),
    rule("Tensor.set_(input, *source)", kind="register", note="Arrays have no storage. Assign the array to the name."),
    rule("Tensor.resize(input, *shape)", kind="register", note="Write reshape, or jnp.resize for another size."),
    rule("Tensor.resize_as(input, other)", kind="register", note="Write reshape, or jnp.resize for another size."),
    rule(
        "Tensor.resize_(input, *shape)",
        "jnp.resize(input, shape)",
        kind="semantic",
        note="torch leaves new entries undefined. Here the entries repeat.",
    ),
    rule("both.resize_as_(input, other)", "jnp.resize(input, other.shape)", kind="semantic"),
)

_GROWN = (
    rule(
        "Tensor.expand(input, *shape)",
        "jnp.broadcast_to(input, shape)",
        when=_PLAIN,
    ),
    rule("Tensor.expand(input, *shape, implicit=False)", "tl.expand(input, *shape)"),
    rule("Tensor.expand_as(input, other)", "jnp.broadcast_to(input, other.shape)"),
    rule("torch.expand_copy(input, shape, *, implicit=False)", "tl.expand(input, shape)"),
    rule(
        "Tensor.broadcast_to(input, *shape)",
        "jnp.broadcast_to(input, shape)",
        when=_PLAIN,
    ),
    rule("Tensor.broadcast_to(input, *shape)", "tl.expand(input, *shape)"),
    rule("torch.broadcast_to(input, shape)", "jnp.broadcast_to(input, shape)", when=_PLAIN),
    rule("torch.broadcast_to(input, shape)", "tl.expand(input, shape)"),
    rule("torch.broadcast_tensors(*tensors)", "jnp.broadcast_arrays(*tensors)", result="tuple"),
    rule("torch.broadcast_shapes(*shapes)", "jnp.broadcast_shapes(*shapes)", result="tuple"),
    rule(
        "Tensor.repeat(input, *repeats)",
        "jnp.tile(input, repeats)",
        kind="semantic",
        note="JAX's repeat is torch's repeat_interleave.",
    ),
    rule("Tensor.tile(input, *dims)", "jnp.tile(input, dims)"),
    rule("torch.tile(input, dims)", "jnp.tile(input, dims)"),
    rule(
        "torch.repeat_interleave(repeats, *, dim=None, output_size=None)",
        "jnp.repeat(jnp.arange(repeats.size), repeats, total_repeat_length=output_size)",
        when="output_size.is_given",
    ),
    rule(
        "torch.repeat_interleave(repeats, *, dim=None)",
        "jnp.repeat(jnp.arange(repeats.size), repeats)",
        level="eager only",
        note="The size of the result depends on the data. Pass output_size.",
    ),
    rule(
        "both.repeat_interleave(input, repeats, dim=None)",
        "jnp.repeat(input, repeats, axis=dim)",
        when="known(repeats.is_tensor)",
        level="eager only",
        note="The size of the result depends on the data. Pass output_size.",
    ),
    rule(
        "both.repeat_interleave(input, repeats, dim=None, *, output_size=None)",
        "jnp.repeat(input, repeats, axis=dim, total_repeat_length=output_size)",
    ),
    rule("Tensor.sum_to_size(input, *shape)", "tl.sum_to_size(input, *shape)"),
    rule("torch.constant_pad_nd(input, pad, value=0)", "F.pad(input, pad, value=value)"),
)

ROWS = (*_VIEWS, *_ORDER, *_SIZES, *_GROWN)
