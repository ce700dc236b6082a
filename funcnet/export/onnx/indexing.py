"""Rules for reading and writing at computed indices: gather, scatter and slices with computed starts.

ONNX refuses an index out of range. JAX has modes that clip an index out of range, read `fill_value` instead, or drop
the update. The rules therefore clip the indices first. `fill_value` then replaces entries that were read at an index
out of range. An update at an index out of range is written to an additional row, which is removed afterwards.
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.lax import GatherScatterMode
from jax.typing import ArrayLike, DTypeLike

from funcnet.export.onnx.emitter import Emitter
from funcnet.export.onnx.graph import OnnxValue
from funcnet.export.onnx.ranges import at_most
from funcnet.export.onnx.shaping import padded, sliced
from funcnet.export.onnx.unsupported import GATHERED_SLICES, PARTS_OF_ROWS, SCATTERED_SLICES
from funcnet.export.tracing import Equation

__all__ = ["RULES"]


def _gather(low: Emitter, equation: Equation, x: OnnxValue, indices: OnnxValue) -> OnnxValue:
    params, aval, graph = equation.params, equation.outvars[0].aval, low.graph
    numbers, sizes = params["dimension_numbers"], params["slice_sizes"]
    batch, read = list(numbers.operand_batching_dims), list(numbers.start_index_map)
    rest = [axis for axis in range(x.rank) if axis not in (*batch, *read)]
    if indices.rank == 1:
        return _one_slice(low, equation, x, indices)
    whole = all(low.same(sizes[axis], x.shape[axis]) for axis in rest)
    if not whole or any(sizes[axis] != 1 or axis not in numbers.collapsed_slice_dims for axis in read):
        raise low.refusal(equation, GATHERED_SLICES, "of slices")
    indices, valid = _in_range(low, params["mode"], indices, [x.shape[axis] for axis in read])
    places = list(range(indices.rank - 1))  # dimensions of the indices that appear in the output
    own = list(numbers.start_indices_batching_dims)
    if not batch and len(read) == 1:  # as jnp.take: (*before, *places, *after)
        (axis,) = read
        flat = graph.squeeze(indices, [indices.rank - 1])
        if indices.full is not None:  # all indices are equal: one row, broadcast
            flat = graph.constant(indices.full)
            row = graph.add("Gather", [x, flat], (*x.shape[:axis], *x.shape[axis + 1 :]), x.dtype, axis=axis)
            kept = [i for i in range(len(aval.shape)) if i in numbers.offset_dims]
            return low.expand(graph.unsqueeze(row, [i for i in range(len(aval.shape)) if i not in kept]), aval.shape)
        shape = (*x.shape[:axis], *flat.shape, *x.shape[axis + 1 :])
        out = graph.add("Gather", [x, flat], shape, x.dtype, axis=axis)
        order = [*range(axis, axis + len(places)), *range(axis), *range(axis + len(places), out.rank)]
    else:
        data = graph.transpose(x, [*batch, *read, *rest])
        others = [place for place in places if place not in own]
        moved = graph.cast(graph.transpose(indices, [*own, *others, indices.rank - 1]), np.int64)
        shape = (*moved.shape[:-1], *(x.shape[axis] for axis in rest))
        out = graph.add("GatherND", [data, moved], shape, x.dtype, batch_dims=len(batch))
        order = [*([*own, *others].index(place) for place in places), *range(len(places), out.rank)]
    # `order` lists the dimensions as (*places, *offsets); the output has the offsets at `offset_dims`
    remaining, offsets = iter(order[: len(places)]), iter(order[len(places) :])
    out = graph.transpose(
        out, [next(offsets) if axis in numbers.offset_dims else next(remaining) for axis in range(out.rank)]
    )
    if valid is None:
        return out
    valid = graph.unsqueeze(valid, list(numbers.offset_dims))
    return low.emit("Where", equation, valid, out, graph.constant(_fill(params["fill_value"], aval.dtype)))


def _one_slice(low: Emitter, equation: Equation, x: OnnxValue, indices: OnnxValue) -> OnnxValue:
    """Gather a single slice that starts at `indices`. The dimensions in `collapsed_slice_dims` are removed."""
    params, graph = equation.params, low.graph
    numbers, sizes = params["dimension_numbers"], params["slice_sizes"]
    read = numbers.start_index_map
    # A start is in range if the whole slice is within the array, so there are n - size + 1 of them along an axis.
    indices, valid = _in_range(low, params["mode"], indices, [x.shape[axis] - sizes[axis] + 1 for axis in read])
    axes = [axis for axis in range(x.rank) if not low.same(sizes[axis], x.shape[axis])]
    if indices.known and indices.constant is not None:
        starts = dict(zip(read, indices.constant.tolist(), strict=True))
        ends = [starts.get(axis, 0) + sizes[axis] for axis in range(x.rank)]
        part = sliced(low, x, [starts.get(axis, 0) for axis in range(x.rank)], ends, [1] * x.rank)
    else:
        places = graph.cast(indices, np.int64)
        one = [graph.ints(n) for n in range(len(read) + 1)]
        # indices (n,) -> n starts of shape (1,), because a slice begins at 0 along the axes that `read` lacks
        each = [graph.add("Slice", [places, one[n], one[n + 1], one[0]], (1,), np.int64) for n in range(len(read))]
        found = dict(zip(read, each, strict=True))
        first = [found.get(axis, graph.ints(0)) for axis in axes]
        last = [
            graph.like("Add", one, low.dimensions.value(sizes[axis])) for one, axis in zip(first, axes, strict=True)
        ]
        ends = [_joined(low, first), _joined(low, last), graph.ints(*axes)]
        part = graph.add("Slice", [x, *ends], tuple(sizes), x.dtype) if axes else x
    out = graph.squeeze(part, list(numbers.collapsed_slice_dims))
    if valid is None:
        return out
    # `valid` is a scalar here: a slice that is not entirely in the array is filled entirely, as in JAX
    fill = graph.constant(_fill(params["fill_value"], out.dtype))
    return low.emit("Where", equation, valid, out, fill)


def _fill(value: ArrayLike | None, dtype: DTypeLike) -> np.ndarray:
    if value is None and jnp.issubdtype(dtype, jnp.inexact):
        value = np.nan
    elif value is None:
        value = jnp.iinfo(dtype).min if jnp.issubdtype(dtype, jnp.signedinteger) else jnp.iinfo(dtype).max
    return np.asarray(value, dtype)


def _in_range(
    low: Emitter, mode: GatherScatterMode, indices: OnnxValue, sizes: Sequence[Any]
) -> tuple[OnnxValue, OnnxValue | None]:
    """Return indices (*, n) that ONNX accepts, and booleans (*) that are False for indices out of range.

    None is returned in place of the booleans if the mode does not need them, or if all indices are known to be in
    range.
    """
    graph = low.graph
    if jnp.issubdtype(indices.dtype, jnp.unsignedinteger) or indices.dtype.itemsize < 4:
        indices = graph.cast(indices, np.int64)
    if mode == GatherScatterMode.PROMISE_IN_BOUNDS or _inside(indices, sizes):
        return indices, None
    zero = graph.constant(np.zeros((), indices.dtype))
    last = low.shape_value([size - 1 for size in sizes])
    last = graph.cast(last, indices.dtype)
    clipped = graph.like("Min", graph.like("Max", indices, zero), last)
    if mode == GatherScatterMode.CLIP:
        return clipped, None
    same = graph.add("Equal", [indices, clipped], indices.shape, bool)
    if len(sizes) == 1:
        return clipped, graph.squeeze(same, [same.rank - 1])
    numbers = graph.cast(same, np.int32)
    every = graph.add("ReduceMin", [numbers, graph.ints(same.rank - 1)], same.shape[:-1], np.int32, keepdims=0)
    return clipped, graph.cast(every, bool)


def _inside(indices: OnnxValue, sizes: Sequence[Any]) -> bool:
    """Return whether all indices are known at export to be in range."""
    if indices.known and indices.constant is not None and all(isinstance(size, int) for size in sizes):
        return bool(((indices.constant >= 0) & (indices.constant < np.asarray(sizes))).all())
    bounds = (indices.full, indices.full) if indices.full is not None else indices.bounds
    return len(sizes) == 1 and bounds is not None and at_most(0, bounds[0]) and at_most(bounds[1], sizes[0] - 1)


def _scatter(reduction: str) -> Callable[..., OnnxValue]:
    def rule(low: Emitter, equation: Equation, x: OnnxValue, indices: OnnxValue, updates: OnnxValue) -> OnnxValue:
        params, graph = equation.params, low.graph
        numbers = params["dimension_numbers"]
        written = list(numbers.scatter_dims_to_operand_dims)
        rest = [axis for axis in range(x.rank) if axis not in written]
        if numbers.operand_batching_dims or sorted(written) != sorted(numbers.inserted_window_dims):
            raise low.refusal(equation, SCATTERED_SLICES, "of slices")
        windows = list(numbers.update_window_dims)
        if not all(low.same(updates.shape[at], x.shape[axis]) for at, axis in zip(windows, rest, strict=True)):
            raise low.refusal(equation, PARTS_OF_ROWS, "of parts of rows")
        indices, valid = _in_range(low, params["mode"], indices, [x.shape[axis] for axis in written])
        indices = graph.cast(indices, np.int64)
        data = graph.transpose(x, [*written, *rest])
        size = data.shape[0]
        if valid is not None:  # updates out of range go to an additional row, which is removed afterwards
            data = padded(low, data, graph.constant(np.zeros((), x.dtype)), [(0, 1)] + [(0, 0)] * (x.rank - 1))
            one, shape = [np.arange(len(written)) == 0], indices.shape
            outside = graph.add("Or", [graph.unsqueeze(valid, [valid.rank]), graph.constant(~one[0])], shape, bool)
            indices = graph.add("Where", [outside, indices, low.dimensions.value(size)], shape, np.int64)
        places = [axis for axis in range(updates.rank) if axis not in windows]
        updates = graph.transpose(updates, [*places, *windows])
        out = graph.like("ScatterND", data, indices, updates, reduction=reduction)
        ends = [size, *data.shape[1:]]
        out = sliced(low, out, [0] * x.rank, ends, [1] * x.rank)
        return graph.transpose(out, [[*written, *rest].index(axis) for axis in range(x.rank)])

    return rule


def _starts(
    low: Emitter, starts: Sequence[OnnxValue], axes: Sequence[int], shape: Sequence[Any], sizes: Sequence[Any]
) -> list[OnnxValue]:
    """Return the starts of a slice along `axes` as int64 values (1,), clipped so that the slice is within the array."""
    graph, found = low.graph, []
    for axis in axes:
        start = graph.unsqueeze(graph.cast(starts[axis], np.int64), [0])
        most = low.dimensions.value(shape[axis] - sizes[axis])
        found.append(graph.like("Min", graph.like("Max", start, graph.ints(0)), most))
    return found


def _dynamic_slice(low: Emitter, equation: Equation, x: OnnxValue, *starts: OnnxValue) -> OnnxValue:
    sizes, graph = equation.outvars[0].aval.shape, low.graph
    axes = [axis for axis in range(x.rank) if not low.same(sizes[axis], x.shape[axis])]
    if not axes:
        return x
    first = _starts(low, starts[: x.rank], axes, x.shape, sizes)
    last = [graph.like("Add", one, low.dimensions.value(sizes[axis])) for one, axis in zip(first, axes, strict=True)]
    joined = [_joined(low, values) for values in (first, last)]
    return low.emit("Slice", equation, x, *joined, graph.ints(*axes))


def _joined(low: Emitter, values: Sequence[OnnxValue]) -> OnnxValue:
    if len(values) == 1:
        return values[0]
    return low.graph.add("Concat", values, (len(values),), np.int64, axis=0)


def _dynamic_update_slice(
    low: Emitter, equation: Equation, x: OnnxValue, update: OnnxValue, *starts: OnnxValue
) -> OnnxValue:
    axes = [axis for axis in range(x.rank) if not low.same(update.shape[axis], x.shape[axis])]
    return _updated(low, x, update, axes, _starts(low, starts, axes, x.shape, update.shape))


def _updated(
    low: Emitter, x: OnnxValue, update: OnnxValue, axes: Sequence[int], starts: Sequence[OnnxValue]
) -> OnnxValue:
    """Return x, with `update` in place of the part that begins at `starts`.

    Along each axis, the result joins the entries before the part, the update, and the entries after the part.
    """
    if not axes:
        return update
    graph, (axis, *others), (start, *more) = low.graph, axes, starts
    size = update.shape[axis]
    end = graph.like("Add", start, low.dimensions.value(size))

    def part(first: OnnxValue, last: OnnxValue, length: object) -> OnnxValue:
        shape = (*x.shape[:axis], length, *x.shape[axis + 1 :])
        return graph.add("Slice", [x, first, last, graph.ints(axis)], shape, x.dtype)

    new = _updated(low, part(start, end, size), update, others, more) if others else update
    # the lengths of the outer parts are unknown at export; their sum is known
    before, behind = part(graph.ints(0), start, x.shape[axis]), part(end, low.dimensions.value(x.shape[axis]), 0)
    return graph.add("Concat", [before, new, behind], x.shape, x.dtype, axis=axis)


RULES: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        "gather": _gather,
        "scatter": _scatter("none"),
        **{f"scatter{mark}{name}": _scatter(name) for mark in "-_" for name in ("add", "mul", "max", "min")},
        "dynamic_slice": _dynamic_slice,
        "dynamic_update_slice": _dynamic_update_slice,
    }
)
