"""Rules for operations that move entries without computing with them."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from funcnet.export.onnx.emitter import Emitter
from funcnet.export.onnx.graph import OnnxValue
from funcnet.export.tracing import Equation

__all__ = ["RULES", "padded", "sliced", "spread"]

END = np.iinfo(np.int64).max  # as the end of a slice, this means "to the last entry"


def padded(low: Emitter, value: OnnxValue, fill: OnnxValue, pads: Sequence[tuple[int, int]]) -> OnnxValue:
    """Return the value with entries of `fill` added at both ends of each dimension. Negative `pads` remove entries."""
    if any(low_pad < 0 or high < 0 for low_pad, high in pads):
        starts = [max(-low_pad, 0) for low_pad, _ in pads]
        ends = [size - max(-high, 0) for size, (_, high) in zip(value.shape, pads, strict=True)]
        value = sliced(low, value, starts, ends, [1] * value.rank)
    pads = [(max(low_pad, 0), max(high, 0)) for low_pad, high in pads]
    if not any(any(pair) for pair in pads):
        return value
    shape = tuple(size + before + after for size, (before, after) in zip(value.shape, pads, strict=True))
    amounts = low.graph.ints(*(before for before, _ in pads), *(after for _, after in pads))
    if value.dtype == bool:  # ONNX Runtime pads numbers only
        numbers, number = low.graph.cast(value, np.int32), low.graph.cast(fill, np.int32)
        wide = low.graph.add("Pad", [numbers, amounts, number], shape, np.int32)
        return low.graph.cast(wide, bool)
    return low.graph.add("Pad", [value, amounts, fill], shape, value.dtype)


def sliced(
    low: Emitter, value: OnnxValue, starts: Sequence[Any], ends: Sequence[Any], steps: Sequence[int]
) -> OnnxValue:
    """Return the slice of a value from `starts` to `ends`, which may be symbolic sizes."""
    axes = [
        axis
        for axis, (start, end, step) in enumerate(zip(starts, ends, steps, strict=True))
        if not (_is(start, 0) and _is(end, value.shape[axis]) and step == 1)
    ]
    if not axes:
        return value
    shape = [
        size if axis not in axes else -((starts[axis] - ends[axis]) // steps[axis])
        for axis, size in enumerate(value.shape)
    ]
    lasts = [END if _is(ends[axis], value.shape[axis]) else ends[axis] for axis in axes]
    inputs = [
        value,
        low.shape_value([starts[axis] for axis in axes]),
        low.shape_value(lasts),
        low.graph.ints(*axes),
        low.graph.ints(*(steps[axis] for axis in axes)),
    ]
    return low.graph.add("Slice", inputs, tuple(shape), value.dtype)


def _is(size: object, other: object) -> bool:
    return type(size) is type(other) and bool(size == other)


def _broadcast(low: Emitter, equation: Equation, x: OnnxValue, *_: OnnxValue) -> OnnxValue:
    shape, kept = equation.params["shape"], equation.params["broadcast_dimensions"]
    return low.expand(low.graph.unsqueeze(x, [axis for axis in range(len(shape)) if axis not in kept]), shape)


def _reshape(low: Emitter, equation: Equation, x: OnnxValue, *_: OnnxValue) -> OnnxValue:
    return low.reshape(x, equation.outvars[0].aval.shape)


def _transpose(low: Emitter, equation: Equation, x: OnnxValue) -> OnnxValue:
    return low.graph.transpose(x, equation.params["permutation"])


def _squeeze(low: Emitter, equation: Equation, x: OnnxValue) -> OnnxValue:
    return low.graph.squeeze(x, equation.params["dimensions"])


def _expand_dims(low: Emitter, equation: Equation, x: OnnxValue) -> OnnxValue:
    return low.graph.unsqueeze(x, equation.params["dimensions"])


def _concatenate(low: Emitter, equation: Equation, *parts: OnnxValue) -> OnnxValue:
    return low.emit("Concat", equation, *parts, axis=equation.params["dimension"])


def _stack(low: Emitter, equation: Equation, *parts: OnnxValue) -> OnnxValue:
    axis = equation.params["axis"]
    return low.emit("Concat", equation, *(low.graph.unsqueeze(part, [axis]) for part in parts), axis=axis)


def _split(low: Emitter, equation: Equation, x: OnnxValue) -> list[OnnxValue]:
    sizes = low.graph.ints(*equation.params["sizes"])
    types = [(variable.aval.shape, variable.aval.dtype) for variable in equation.outvars]
    return low.graph.add_many("Split", [x, sizes], types, axis=equation.params["axis"])


def _slice(low: Emitter, equation: Equation, x: OnnxValue) -> OnnxValue:
    starts, ends = equation.params["start_indices"], equation.params["limit_indices"]
    return sliced(low, x, starts, ends, equation.params["strides"] or [1] * x.rank)


def _rev(low: Emitter, equation: Equation, x: OnnxValue) -> OnnxValue:
    axes = equation.params["dimensions"]
    first, last, step = (low.graph.ints(*[number] * len(axes)) for number in (-1, -END, -1))
    return low.emit("Slice", equation, x, first, last, low.graph.ints(*axes), step)


def _pad(low: Emitter, equation: Equation, x: OnnxValue, fill: OnnxValue) -> OnnxValue:
    config = equation.params["padding_config"]
    for axis, (_, _, interior) in enumerate(config):
        if interior:
            x = spread(low, x, fill, axis, interior)
    return padded(low, x, fill, [(before, after) for before, after, _ in config])


def spread(low: Emitter, x: OnnxValue, fill: OnnxValue, axis: int, interior: int) -> OnnxValue:
    """Return x with `interior` entries of `fill` between neighbouring entries along an axis."""
    size = x.shape[axis]
    wide = low.graph.unsqueeze(x, [axis + 1])
    wide = padded(low, wide, fill, [(0, interior if i == axis + 1 else 0) for i in range(wide.rank)])
    joined = low.reshape(wide, (*x.shape[:axis], size * (interior + 1), *x.shape[axis + 1 :]))
    ends = [n - interior if i == axis else n for i, n in enumerate(joined.shape)]
    return sliced(low, joined, [0] * x.rank, ends, [1] * x.rank)


def _tile(low: Emitter, equation: Equation, x: OnnxValue, *_: OnnxValue) -> OnnxValue:
    repeats: Any = equation.params.get("reps", equation.params.get("repeats"))
    x = low.graph.unsqueeze(x, list(range(len(repeats) - x.rank)))
    return low.emit("Tile", equation, x, low.shape_value(repeats))


def _iota(low: Emitter, equation: Equation, *_: OnnxValue) -> OnnxValue:
    shape, axis, dtype = equation.params["shape"], equation.params["dimension"], equation.outvars[0].aval.dtype
    kind = dtype if dtype in (np.int32, np.int64, np.float32) else np.dtype(np.int64)
    start, step = (low.graph.constant(np.asarray(number, kind)) for number in (0, 1))
    size = low.graph.cast(low.graph.squeeze(low.dimensions.value(shape[axis]), [0]), kind)
    line = low.graph.cast(low.graph.add("Range", [start, size, step], (shape[axis],), kind), dtype)
    return low.expand(low.graph.unsqueeze(line, [i for i in range(len(shape)) if i != axis]), shape)


def _dim_as_value(low: Emitter, equation: Equation) -> OnnxValue:
    value = low.graph.squeeze(low.dimensions.value(equation.params["dim"]), [0])
    return low.graph.cast(value, equation.outvars[0].aval.dtype)


RULES: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        "broadcast_in_dim": _broadcast,
        "reshape": _reshape,
        "transpose": _transpose,
        "squeeze": _squeeze,
        "expand_dims": _expand_dims,
        "concatenate": _concatenate,
        "stack": _stack,
        "split": _split,
        "slice": _slice,
        "rev": _rev,
        "pad": _pad,
        "tile": _tile,
        "iota": _iota,
        "dim_as_value": _dim_as_value,
    }
)
