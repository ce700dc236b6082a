"""Functions that join or split arrays, or read or write a part of an array."""

from funcnet.porting.rule_engine.rule import rule
from funcnet.porting.rules.shape import LISTED, UNPACK

__all__ = ["ROWS"]

_JOINS = (
    rule("torch.cat(tensors, dim=0)", "jnp.concatenate(tensors, axis=dim)"),
    rule("torch.concat(tensors, dim=0)", "jnp.concatenate(tensors, axis=dim)"),
    rule("torch.concatenate(tensors, dim=0)", "jnp.concatenate(tensors, axis=dim)"),
    rule("torch.stack(tensors, dim=0)", "jnp.stack(tensors, axis=dim)"),
    rule("torch.hstack(tensors)", "jnp.hstack(tensors)"),
    rule("torch.vstack(tensors)", "jnp.vstack(tensors)"),
    rule("torch.row_stack(tensors)", "jnp.vstack(tensors)"),
    rule("torch.dstack(tensors)", "jnp.dstack(tensors)"),
    rule("torch.column_stack(tensors)", "jnp.column_stack(tensors)"),
    rule("torch.block_diag(*tensors)", "jax.scipy.linalg.block_diag(*tensors)"),
    rule(
        "torch.meshgrid(*tensors, indexing='ij')",
        "jnp.meshgrid(*tensors, indexing=indexing)",
        when="known(tensors.is_tensor)",
        result="tuple",
        kind="semantic",
        note="JAX's default is 'xy'.",
    ),
    rule(
        "torch.meshgrid(tensors, *, indexing='ij')",
        "jnp.meshgrid(*tensors, indexing=indexing)",
        when=LISTED,
        result="tuple",
        kind="semantic",
        note=UNPACK,
    ),
    rule(
        "torch.meshgrid(*tensors, indexing='ij')",
        "jnp.meshgrid(*tensors, indexing=indexing)",
        result="tuple",
        kind="semantic",
    ),
    rule("torch.cartesian_prod(*tensors)", "tl.cartesian_prod(*tensors)"),
    rule("torch.combinations(input, r=2, with_replacement=False)", "tl.combinations(input, r, with_replacement)"),
)

_PARTS = (
    rule(
        "torch.split(tensor, split_size_or_sections, dim=0)",
        "tl.split(tensor, split_size_or_sections, dim=dim)",
        result="tuple",
        kind="semantic",
        note="The argument of jnp.split is the number of parts, or the cuts.",
    ),
    rule(
        "Tensor.split(input, split_size, dim=0)",
        "tl.split(input, split_size, dim=dim)",
        result="tuple",
        kind="semantic",
    ),
    rule("torch.split_copy(input, split_size, dim=0)", "tl.split(input, split_size, dim=dim)", result="tuple"),
    rule("both.unsafe_split(input, split_size, dim=0)", "tl.split(input, split_size, dim=dim)", result="tuple"),
    rule("both.split_with_sizes(input, split_sizes, dim=0)", "tl.split(input, split_sizes, dim=dim)", result="tuple"),
    rule(
        "torch.split_with_sizes_copy(input, split_sizes, dim=0)",
        "tl.split(input, split_sizes, dim=dim)",
        result="tuple",
    ),
    rule(
        "both.unsafe_split_with_sizes(input, split_sizes, dim=0)",
        "tl.split(input, split_sizes, dim=dim)",
        result="tuple",
    ),
    rule(
        "both.chunk(input, chunks, dim=0)",
        "tl.chunk(input, chunks, dim=dim)",
        result="tuple",
        kind="semantic",
        note="jnp.array_split makes other sizes if the number does not divide the dimension.",
    ),
    rule("both.unsafe_chunk(input, chunks, dim=0)", "tl.chunk(input, chunks, dim=dim)", result="tuple"),
    rule(
        "both.tensor_split(input, indices_or_sections, dim=0)",
        "tl.tensor_split(input, indices_or_sections, dim=dim)",
        result="tuple",
    ),
    rule("both.tensor_split(input, sections, dim=0)", "tl.tensor_split(input, sections, dim=dim)", result="tuple"),
    rule("both.tensor_split(input, indices, dim=0)", "tl.tensor_split(input, indices, dim=dim)", result="tuple"),
    *(
        row
        for name in ("hsplit", "vsplit", "dsplit")
        for row in (
            rule(f"both.{name}(input, indices_or_sections)", f"jnp.{name}(input, indices_or_sections)", result="tuple"),
            rule(f"both.{name}(input, sections)", f"jnp.{name}(input, sections)", result="tuple"),
            rule(f"both.{name}(input, indices)", f"jnp.{name}(input, indices)", result="tuple"),
        )
    ),
    rule("both.unbind(input, dim=0)", "jnp.unstack(input, axis=dim)", result="tuple"),
    rule("torch.unbind_copy(input, dim=0)", "jnp.unstack(input, axis=dim)", result="tuple"),
    rule("both.narrow(input, dim, start, length)", "jax.lax.dynamic_slice_in_dim(input, start, length, axis=dim)"),
    rule("both.narrow_copy(input, dim, start, length)", "jax.lax.dynamic_slice_in_dim(input, start, length, axis=dim)"),
    rule(
        "both.select(input, dim, index)",
        "jax.lax.index_in_dim(input, index, axis=dim, keepdims=False)",
        when="known(index.is_only('int'))",
    ),
    rule("both.select(input, dim, index)", "jax.lax.dynamic_index_in_dim(input, index, axis=dim, keepdims=False)"),
    rule(
        "torch.select_copy(input, dim, index)", "jax.lax.dynamic_index_in_dim(input, index, axis=dim, keepdims=False)"
    ),
    rule(
        "torch.slice_copy(input, dim=0, start=None, end=None, step=1)",
        "jax.lax.slice_in_dim(input, start, end, step, axis=dim)",
    ),
    rule(
        "both.slice_inverse(input, src, dim=0, start=None, end=None, step=1)",
        kind="register",
        note="Write jnp.zeros_like(src) and set the slice.",
    ),
    rule("both.select_scatter(input, src, dim, index)", "tl.select_scatter(input, src, dim, index)"),
    rule(
        "both.slice_scatter(input, src, dim=0, start=None, end=None, step=1)",
        "tl.slice_scatter(input, src, dim, start, end, step)",
    ),
    rule(
        "both.diagonal_scatter(input, src, offset=0, dim1=0, dim2=1)",
        "tl.diagonal_scatter(input, src, offset, dim1, dim2)",
    ),
)

_DIAGONALS = (
    rule("both.tril(input, diagonal=0)", "jnp.tril(input, k=diagonal)"),
    rule("both.triu(input, diagonal=0)", "jnp.triu(input, k=diagonal)"),
    rule("both.diagonal(input, offset=0, dim1=0, dim2=1)", "jnp.diagonal(input, offset, axis1=dim1, axis2=dim2)"),
    rule("torch.diagonal_copy(input, offset=0, dim1=0, dim2=1)", "jnp.diagonal(input, offset, axis1=dim1, axis2=dim2)"),
    rule("both.diag(input, diagonal=0)", "jnp.diag(input, k=diagonal)"),
    rule("both.diagflat(input, offset=0)", "jnp.diagflat(input, k=offset)"),
    rule("both.diag_embed(input, offset=0, dim1=-2, dim2=-1)", "tl.diag_embed(input, offset, dim1, dim2)"),
    rule(
        "Tensor.fill_diagonal_(input, fill_value, wrap=False)",
        "jnp.fill_diagonal(input, fill_value, wrap, inplace=False)",
    ),
    rule("both.trace(input)", "input.trace()"),
    rule("torch.vander(x, N=None, increasing=False)", "jnp.vander(x, N, increasing)"),
)

ROWS = (*_JOINS, *_PARTS, *_DIAGONALS)
