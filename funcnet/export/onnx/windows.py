"""Rules for reductions over windows, which become ONNX's pooling operators."""

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from funcnet.export.onnx.emitter import Emitter
from funcnet.export.onnx.graph import OnnxValue
from funcnet.export.onnx.reductions import combiner
from funcnet.export.onnx.shaping import padded
from funcnet.export.onnx.unsupported import BASE_DILATION, INITIAL_VALUE, MANY_DIMENSIONS, OTHER_WINDOWS
from funcnet.export.tracing import Equation

__all__ = ["RULES"]

COMBINED: Mapping[str, tuple[str, str]] = MappingProxyType({"add": ("sum", "Add"), "max": ("max", "Max")})


def _window(kind: str) -> Callable[..., OnnxValue]:
    return lambda low, equation, x: _pooled(low, equation, x, kind)


def _window_by(low: Emitter, equation: Equation, *inputs: OnnxValue) -> OnnxValue:
    """Lower `reduce_window`, which combines the result of each window with an initial value."""
    by = COMBINED.get(combiner(equation) or "")
    if by is None or len(inputs) != 2:
        raise low.refusal(equation, OTHER_WINDOWS, OTHER_WINDOWS.use)
    x, first = inputs
    kind, op = by
    # If a window reaches beyond the array, it depends on the platform whether padding has the initial value too.
    if kind == "sum" and any(map(any, equation.params["padding"])):
        raise low.refusal(equation, INITIAL_VALUE, "with padding and a first number")
    return low.graph.like(op, _pooled(low, equation, x, kind), first)


def _pooled(low: Emitter, equation: Equation, x: OnnxValue, kind: str) -> OnnxValue:
    params, aval, graph = equation.params, equation.outvars[0].aval, low.graph
    if any(n != 1 for n in params["base_dilation"]):
        raise low.refusal(equation, BASE_DILATION, "with base_dilation")
    sizes, strides, dilations = params["window_dimensions"], params["window_strides"], params["window_dilation"]
    pads = [tuple(pair) for pair in params["padding"]]
    least = _least(x.dtype) if kind == "max" else np.zeros((), x.dtype)
    # MaxPool ignores its padding, and AveragePool counts it as 0. ONNX allows only padding smaller than the window.
    entirely_padded = any(n <= max(pair) for n, pair in zip(sizes, pads, strict=True))
    if any(n <= max(pair) or min(pair) < 0 for n, pair in zip(sizes, pads, strict=True) if any(pair)):
        x, pads = padded(low, x, graph.constant(least), pads), [(0, 0)] * x.rank
    touched = [axis for axis in range(x.rank) if (sizes[axis], strides[axis], *pads[axis]) != (1, 1, 0, 0)]
    first = min([*touched, x.rank - 1])
    if x.rank - first > 3:
        raise low.refusal(equation, MANY_DIMENSIONS, f"over {x.rank - first} dimensions")
    images = low.reshape(x, (math.prod(x.shape[:first]), 1, *x.shape[first:]))
    shape = (images.shape[0], 1, *aval.shape[first:])
    settings = {
        "kernel_shape": list(sizes[first:]),
        "strides": list(strides[first:]),
        "dilations": list(dilations[first:]),
        "pads": [before for before, _ in pads[first:]] + [after for _, after in pads[first:]],
    }
    if kind == "max":
        most = graph.add("MaxPool", [images], shape, x.dtype, **settings)
        if (
            entirely_padded and x.dtype.kind not in "iu"
        ):  # ONNX Runtime returns the lowest finite number for a window that has only -inf
            lowest = graph.constant(np.finfo(x.dtype).min)
            none = graph.add("LessOrEqual", [most, lowest], shape, bool)
            most = graph.add("Where", [none, graph.constant(least), most], shape, x.dtype)
        return low.reshape(most, aval.shape)
    mean = graph.add("AveragePool", [images], shape, x.dtype, count_include_pad=1, **settings)
    count = graph.constant(np.asarray(math.prod(sizes), x.dtype))
    return low.reshape(graph.like("Mul", mean, count), aval.shape)


def _least(dtype: np.dtype) -> np.ndarray:
    return np.asarray(np.iinfo(dtype).min if dtype.kind in "iu" else -np.inf, dtype)


RULES: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {"reduce_window_max": _window("max"), "reduce_window_sum": _window("sum"), "reduce_window": _window_by}
)
