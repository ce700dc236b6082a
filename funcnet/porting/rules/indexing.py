"""Functions that select, count or write entries by an index or a mask."""

from funcnet.porting.rule_engine.rule import rule

__all__ = ["ROWS"]

_EAGER = "The size of the result depends on the data."

_PICKED = (
    rule(
        "both.gather(input, dim, index, *, sparse_grad=False)",
        "tl.gather(input, dim, index)",
        kind="semantic",
        note="jnp.take_along_axis broadcasts the index.",
    ),
    rule(
        "both.index_select(input, dim, index)",
        "jnp.take(input, index, axis=dim)",
        when="known(input.ndim > 0 and index.ndim == 1)",
    ),
    rule("both.index_select(input, dim, index)", "tl.index_select(input, dim, index)"),
    rule("both.take(input, index)", "jnp.take(input, index)"),
    rule(
        "both.take_along_dim(input, indices, dim=None)",
        "jnp.take(input, indices.ravel())",
        when="known(dim.is_only('none'))",
    ),
    rule("both.take_along_dim(input, indices, dim=None)", "jnp.take_along_axis(input, indices, axis=dim)"),
    rule(
        "both.masked_select(input, mask)",
        "input[mask]",
        level="eager only",
        note=_EAGER,
        when="known(input.shape == mask.shape)",
    ),
    rule("both.masked_select(input, mask)", "tl.masked_select(input, mask)", level="eager only", note=_EAGER),
    rule("torch.where(condition)", "jnp.nonzero(condition)", level="eager only", note=_EAGER, result="tuple"),
    rule(
        "both.nonzero(input, *, as_tuple=False)",
        "jnp.argwhere(input)",
        level="eager only",
        note=_EAGER,
        when="as_tuple.equals(False)",
        kind="semantic",
    ),
    rule(
        "both.nonzero(input, *, as_tuple=False)",
        "jnp.nonzero(jnp.atleast_1d(input))",
        level="eager only",
        note=_EAGER,
        when="as_tuple.equals(True) and known(input.ndim == 0)",
        result="tuple",
    ),
    rule(
        "both.nonzero(input, *, as_tuple=False)",
        "jnp.nonzero(input)",
        level="eager only",
        note=_EAGER,
        when="as_tuple.equals(True)",
        result="tuple",
    ),
    rule("both.argwhere(input)", "jnp.argwhere(input)", level="eager only", note=_EAGER),
    rule(
        "both.nonzero_static(input, *, size, fill_value=-1)",
        "jnp.full((size, input.ndim), fill_value)",
        when="known(0 in input.shape)",
    ),
    rule("both.nonzero_static(input, *, size, fill_value=-1)", "jnp.argwhere(input, size=size, fill_value=fill_value)"),
    rule("torch.unravel_index(indices, shape)", "jnp.unravel_index(indices, shape)", result="tuple"),
    rule(
        "torch.bucketize(input, boundaries, *, out_int32=False, right=False)",
        "jnp.searchsorted(boundaries, input)",
        when="right.equals(False) and out_int32.equals(True, False)",
    ),
    rule(
        "torch.bucketize(input, boundaries, *, out_int32=False, right=False)",
        "jnp.searchsorted(boundaries, input, side='right')",
        when="right.equals(True) and out_int32.equals(True, False)",
    ),
    rule(
        "torch.bucketize(input, boundaries, *, out_int32=False, right=False)",
        "tl.searchsorted(boundaries, input, out_int32=out_int32, right=right)",
    ),
    rule(
        "torch.searchsorted(sorted_sequence, input, *, out_int32=False, right=False, side=None, sorter=None)",
        "tl.searchsorted(sorted_sequence, input, out_int32=out_int32, right=right, side=side, sorter=sorter)",
    ),
)

_WRITTEN = (
    rule("both.scatter(input, dim, index, src, *, reduce=None)", "tl.scatter(input, dim, index, src, reduce=reduce)"),
    rule(
        "both.scatter(input, dim, index, value, *, reduce=None)", "tl.scatter(input, dim, index, value, reduce=reduce)"
    ),
    rule("both.scatter_add(input, dim, index, src)", "tl.scatter_add(input, dim, index, src)"),
    rule(
        "both.scatter_reduce(input, dim, index, src, reduce, *, include_self=True)",
        "tl.scatter_reduce(input, dim, index, src, reduce, include_self=include_self)",
    ),
    rule(
        "both.index_add(input, dim, index, source, *, alpha=1)", "tl.index_add(input, dim, index, source, alpha=alpha)"
    ),
    rule("both.index_copy(input, dim, index, source)", "tl.index_copy(input, dim, index, source)"),
    rule("both.index_fill(input, dim, index, value)", "tl.index_fill(input, dim, index, value)"),
    rule(
        "both.index_reduce(input, dim, index, source, reduce, *, include_self=True)",
        "tl.index_reduce(input, dim, index, source, reduce, include_self=include_self)",
    ),
    rule(
        "both.index_put(input, indices, values, accumulate=False)",
        "tl.index_put(input, indices, values, accumulate=accumulate)",
    ),
    rule("both.put(input, index, source, accumulate=False)", "tl.put(input, index, source, accumulate=accumulate)"),
    rule(
        "both.masked_fill(input, mask, value)",
        "jnp.where(mask, value, input)",
        when="known(value.is_only('int', 'float') and input.is_floating"
        " or value.is_only('int') and input.is_integral or value.is_only('bool') and input.is_boolean)",
    ),
    rule("both.masked_fill(input, mask, value)", "tl.masked_fill(input, mask, value)"),
    rule("both.masked_scatter(input, mask, source)", "tl.masked_scatter(input, mask, source)"),
    rule(
        "torch.segment_reduce(data, reduce, *, lengths=None, indices=None, offsets=None, axis=0, unsafe=False,"
        " initial=None)",
        kind="register",
        note="Write jax.ops.segment_sum or another function of jax.ops.",
    ),
)

ROWS = (*_PICKED, *_WRITTEN)
