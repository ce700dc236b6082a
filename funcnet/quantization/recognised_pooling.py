"""Rules for pooling. `funcnet.functional` pools one dimension after the other.

In a traced program, max pooling is a `reduce_window_max`, or a maximum of strided slices. Average pooling is a sum over
windows, or over whole planes, that is divided by the number of entries.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
from jax.core import ShapedArray

from funcnet.quantization.graph import LayerGraph, LayerNode, LayerValue, is_concrete, scalar_constant

__all__ = ["FOLDING", "RULES"]

Windows = dict[str, list[Any]]


def _windows(params: Mapping[str, Any]) -> Windows | None:
    """Return the settings of windows, or None if the windows are dilated or cover the batch or the channels."""
    sizes, strides, pads = (params[name] for name in ("window_dimensions", "window_strides", "padding"))
    dilated = any(n != 1 for n in (*params["base_dilation"], *params["window_dilation"]))
    if len(sizes) not in (3, 4) or dilated or tuple(sizes[:2]) != (1, 1) or any(map(any, pads[:2])):
        return None
    if tuple(strides[:2]) != (1, 1):
        return None
    return {
        "kernel_size": [int(n) for n in sizes[2:]],
        "stride": [int(n) for n in strides[2:]],
        "padding": [[int(a), int(b)] for a, b in pads[2:]],
    }


def _joined(first: Windows, second: Windows) -> Windows | None:
    """Return the windows of the one pooling that replaces two poolings in sequence, or None if there is none.

    The result is None if both poolings cover the same dimension, or if the second pooling pads a dimension that the
    first pooling covers.
    """
    pairs = list(zip(first["kernel_size"], first["stride"], second["kernel_size"], second["stride"], strict=True))
    padded = map(any, second["padding"])
    if any((a, b) != (1, 1) and ((c, d) != (1, 1) or pad) for (a, b, c, d), pad in zip(pairs, padded, strict=True)):
        return None
    return {
        "kernel_size": [a * c for a, _, c, _ in pairs],
        "stride": [b * d for _, b, _, d in pairs],
        "padding": [[a + c, b + d] for (a, b), (c, d) in zip(first["padding"], second["padding"], strict=True)],
    }


def _pool(graph: LayerGraph, op: str, x: LayerValue, windows: Windows, shape: Sequence[int]) -> LayerValue:
    """Add a pooling to the graph. If possible, merge it with the pooling that computes its input."""
    x = _whole(x, windows, shape)
    before = x.made_by(op)
    joined = None if before is None else _joined({key: before.settings[key] for key in windows}, windows)
    if before is not None and joined is not None:
        return graph.add(op, before.inputs, shape, **joined)
    return graph.add(op, [x], shape, **windows)


def _whole(x: LayerValue, windows: Mapping[str, Any], shape: Sequence[int]) -> LayerValue:
    """Return the input of the crop that computes x if no window covers an entry that the crop removes, or else x."""
    node = x.made_by("crop", "slice")
    if node is None:
        return x
    if node.op == "crop":
        begin, strides = node.settings["begin"], None
    else:
        begin, strides = (node.settings["params"][name] for name in ("start_indices", "strides"))
    if any(begin) or any(step != 1 for step in strides or ()):
        return x
    source = node.inputs[0]
    for axis, (size, cropped, count) in enumerate(zip(source.shape, x.shape, shape, strict=True)):
        if size == cropped:
            continue
        if axis < 2:
            return x
        low, high = windows["padding"][axis - 2]
        width, stride = windows["kernel_size"][axis - 2], windows["stride"][axis - 2]
        if high or (size + low - width) // stride + 1 != count:
            return x
    return source


def _max(
    graph: LayerGraph, operands: Sequence[LayerValue], params: Mapping[str, Any], aval: ShapedArray
) -> LayerValue | None:
    windows = _windows(params)
    return None if windows is None else _pool(graph, "max_pool", operands[0], windows, aval.shape)


def _sum(
    graph: LayerGraph, operands: Sequence[LayerValue], params: Mapping[str, Any], aval: ShapedArray
) -> LayerValue | None:
    windows = _windows(params)
    return None if windows is None else _pool(graph, "sum_pool", operands[0], windows, aval.shape)


def _greater(
    graph: LayerGraph, operands: Sequence[LayerValue], params: Mapping[str, Any], aval: ShapedArray
) -> LayerValue | None:
    """Recognise where(a > b or a is NaN, a, b), the maximum of two slices, as a step of max pooling."""
    which, *cases = operands
    either = which.made_by("or")
    larger, nan = (None, None) if either is None else (either.inputs[0].made_by("gt"), either.inputs[1].made_by("ne"))
    if larger is None or nan is None or len(cases) != 2 or {id(v) for v in larger.inputs} != {id(v) for v in cases}:
        return None
    a, b = larger.inputs
    if cases[1] is not a or any(v is not a for v in nan.inputs):
        return None
    for first, second in ((a, b), (b, a)):
        if (found := _next_slice(graph, first, second)) is not None:
            return found
    return None


def _next_slice(graph: LayerGraph, window: LayerValue, following: LayerValue) -> LayerValue | None:
    """Return max pooling whose windows are one entry wider than those of `window`.

    Return None if `following` is not the slice of the additional entries.
    """
    one = following.made_by("slice")
    if one is None or len(one.inputs[0].shape) not in (3, 4):
        return None
    source, start, stride, axis = one.inputs[0], *_sliced(one)
    node = window.made_by("slice", "max_pool")
    if axis < 2 or node is None or node.inputs[0] is not source:
        return None
    if any(a != b for index, (a, b) in enumerate(zip(source.shape, following.shape, strict=True)) if index != axis):
        return None
    if node.op == "slice":
        before, step, where = _sliced(node)
        width = 1
        if (before, step, where) != (start - 1, stride, axis) or before != 0:
            return None
    else:
        width = node.settings["kernel_size"][axis - 2]
        others = [n for name in ("kernel_size", "stride") for i, n in enumerate(node.settings[name]) if i != axis - 2]
        padded = any(map(any, node.settings["padding"]))
        if start != width or node.settings["stride"][axis - 2] != stride or any(n != 1 for n in others) or padded:
            return None
    spatial = len(source.shape) - 2
    windows: Windows = {"kernel_size": [1] * spatial, "stride": [1] * spatial, "padding": [[0, 0]] * spatial}
    windows["kernel_size"][axis - 2], windows["stride"][axis - 2] = width + 1, stride
    # The slices may leave out entries after the last window, which do not count.
    left = (source.shape[axis] - width - 1) // stride + 1
    if left != following.shape[axis]:
        return None
    return graph.add("max_pool", [source], following.shape, **windows)


def _sliced(node: LayerNode) -> tuple[int, int, int]:
    """Return (start, stride, axis) of a slice that is strided along exactly one axis, or else (-1, -1, -1)."""
    params = node.settings["params"]
    strides = params["strides"] or (1,) * len(params["start_indices"])
    axes = [axis for axis, stride in enumerate(strides) if stride > 1]
    others = [start for axis, start in enumerate(params["start_indices"]) if axis not in axes]
    if len(axes) != 1 or any(others):
        return -1, -1, -1
    return int(params["start_indices"][axes[0]]), int(strides[axes[0]]), axes[0]


def _average(
    graph: LayerGraph, operands: Sequence[LayerValue], params: Mapping[str, Any], aval: ShapedArray
) -> LayerValue | None:
    """Recognise sums over windows as average pooling if they are divided by the numbers of entries.

    The numbers may include the padded entries or leave them out.
    """
    total, count = operands
    node = total.made_by("sum_pool")
    if node is None or not is_concrete(count) or total.shape != aval.shape:
        return None
    counts = np.broadcast_to(np.asarray(count.constant), aval.shape)
    x, settings = node.inputs[0], dict(node.settings)
    inside = _entries(x.shape[2:], aval.shape[2:], settings)
    if np.array_equal(counts, np.broadcast_to(inside, counts.shape)):
        return graph.add("avg_pool", [x], aval.shape, **settings)
    if (counts == math.prod(settings["kernel_size"])).all():
        pads = [[0, 0], [0, 0], *settings["padding"]]
        sizes = [size + a + b for size, (a, b) in zip(x.shape, pads, strict=True)]
        padded = graph.add("pad", [x], sizes, padding=pads)
        return graph.add("avg_pool", [padded], aval.shape, **settings | {"padding": [[0, 0]] * (len(sizes) - 2)})
    return None


def _entries(sizes: Sequence[int], counts: Sequence[int], settings: Windows) -> np.ndarray:
    """Return the number of entries in each window, without padding, as an array of the spatial shape of the output."""
    total = np.ones((), np.int64)
    for index, (size, count) in enumerate(zip(sizes, counts, strict=True)):
        start = np.arange(count) * settings["stride"][index] - settings["padding"][index][0]
        inside = np.minimum(start + settings["kernel_size"][index], size) - np.maximum(start, 0)
        total = np.multiply.outer(total, inside)
    return total


def _mean(
    graph: LayerGraph, operands: Sequence[LayerValue], params: Mapping[str, Any], aval: ShapedArray
) -> LayerValue | None:
    """Recognise the mean over all spatial dimensions (a sum divided by a count) as average pooling with one window."""
    total, count = operands
    reshaped = total.made_by("reshape")
    node = (reshaped.inputs[0] if reshaped else total).made_by("reduce_sum")
    if node is None:
        return None
    x, axes = node.inputs[0], tuple(node.settings["params"]["axes"])
    if len(x.shape) not in (3, 4) or axes != tuple(range(2, len(x.shape))) or total.shape != aval.shape:
        return None
    sizes = list(x.shape[2:])
    if scalar_constant(count) != math.prod(sizes):
        return None
    settings = {"kernel_size": sizes, "stride": [1] * len(sizes), "padding": [[0, 0]] * len(sizes)}
    shape = (*x.shape[:2], *[1] * len(sizes))
    if len(sizes) == 1:
        sizes, shape, x = [1, *sizes], (*shape, 1), graph.reshape(x, (*x.shape[:2], 1, x.shape[2]))
        settings = {"kernel_size": sizes, "stride": [1, 1], "padding": [[0, 0], [0, 0]]}
    return graph.reshape(graph.add("avg_pool", [x], shape, **settings), aval.shape)


def _planes(op: str) -> "Rule":
    """Return the rule that replaces pooling over one spatial dimension by pooling over two, as LiteRT demands.

    The rule also removes a crop before the pooling if no window covers an entry that the crop removes.
    """

    def rule(
        graph: LayerGraph, operands: Sequence[LayerValue], settings: Mapping[str, Any], aval: ShapedArray
    ) -> LayerValue | None:
        (x,) = operands
        source = _whole(x, settings, aval.shape)
        if len(x.shape) != 3:
            return None if source is x else graph.add(op, [source], aval.shape, **settings)
        x = source
        one = {"kernel_size": 1, "stride": 1, "padding": [0, 0]}
        wider = {name: [number, *settings[name]] for name, number in one.items()}
        (batch, channels, size), count = x.shape, aval.shape[2]
        plane = graph.add(op, [graph.reshape(x, (batch, channels, 1, size))], (batch, channels, 1, count), **wider)
        return graph.reshape(plane, aval.shape)

    return rule


Rule = Callable[..., LayerValue | None]
RULES: Mapping[str, Sequence[Rule]] = MappingProxyType(
    {
        "div": (_average,),
        "reduce_window_max": (_max,),
        "reduce_window_sum": (_sum,),
        "select_n": (_greater,),
    }
)
"""{name of a JAX primitive: rules that the first pass applies to it}; see `recognition.py`."""

FOLDING: Mapping[str, Sequence[Rule]] = MappingProxyType(
    {"avg_pool": (_planes("avg_pool"),), "div": (_mean,), "max_pool": (_planes("max_pool"),)}
)
"""{name of an operation of the graph: rules that the second pass applies to it}; see `recognition.py`."""
