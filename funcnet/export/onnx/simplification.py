"""Rules that remove operators which only prepare shapes, so that the other rules see one form of each computation."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from funcnet.export.onnx.graph import Graph, OnnxNode, OnnxValue, reshape_target
from funcnet.export.onnx.matching import axes_of, entry, made_by

__all__ = ["RULES"]

COMPARISONS = ("Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual", "And", "Or", "Xor")
BROADCASTING = ("Add", "Sub", "Mul", "Div", "Mod", "Min", "Max", "Pow", "Where", *COMPARISONS)
REDUCTIONS = ("ReduceSum", "ReduceMax", "ReduceMin", "ReduceMean", "ReduceProd")


def _broadcasts_itself(graph: Graph, node: OnnxNode) -> OnnxValue | None:
    """Let an operator that broadcasts read smaller inputs.

    The operator then reads the input of an Expand, or of an Unsqueeze of the first dimensions, and it reads one number
    in place of a constant array of equal entries.
    """
    changed = False
    for index, value in enumerate(node.inputs):
        smaller = None if value is None else _smaller(graph, value)
        if smaller is None:
            continue
        inputs: list[Any] = [*node.inputs]
        inputs[index] = smaller
        if _same(_broadcast([one.shape for one in inputs]), node.outputs[0].shape):
            node.inputs, changed = inputs, True
    return node.outputs[0] if changed else None


def _smaller(graph: Graph, value: OnnxValue) -> OnnxValue | None:
    """Return a smaller array that broadcasts to the value, or None if none is known."""
    if value.known and value.rank and (number := value.scalar()) is not None:
        return graph.constant(number, value.dtype)
    before = made_by(value, "Expand", "Unsqueeze")
    if before is None or (before.op == "Unsqueeze" and list(axes_of(before)) != list(range(len(axes_of(before))))):
        return None
    return before.inputs[0]


def _broadcast(shapes: Sequence[Sequence[Any]]) -> tuple[Any, ...]:
    rank, out = max(map(len, shapes)), []
    for axis in range(-rank, 0):
        sizes = [shape[axis] for shape in shapes if len(shape) >= -axis]
        out.append(next((size for size in sizes if not (isinstance(size, int) and size == 1)), 1))
    return tuple(out)


def _same(shape: Sequence[Any], other: Sequence[Any]) -> bool:
    return len(shape) == len(other) and all(type(a) is type(b) and a == b for a, b in zip(shape, other, strict=True))


def _keep_dimensions(graph: Graph, node: OnnxNode) -> OnnxValue | None:
    """Replace an Unsqueeze after a reduction along the same axes by a reduction that keeps its dimensions."""
    before = made_by(node.inputs[0], *REDUCTIONS)
    if before is None or before.attributes["keepdims"] or sorted(axes_of(before)) != sorted(axes_of(node)):
        return None
    return graph.add(before.op, before.inputs, node.outputs[0].shape, node.outputs[0].dtype, keepdims=1)


def _unsqueeze_first(graph: Graph, node: OnnxNode) -> OnnxValue | None:
    """Replace the Unsqueeze of a Max or Min of an array and a number by an Unsqueeze of the array."""
    before = made_by(node.inputs[0], "Max", "Min")
    if before is None or len(before.inputs) != 2:
        return None
    for index in (0, 1):
        value, number = entry(before, index), entry(before, 1 - index)
        if number.known and not number.rank and value.rank:
            return graph.like(before.op, graph.unsqueeze(value, axes_of(node)), number)
    return None


def _mean(graph: Graph, node: OnnxNode) -> OnnxValue | None:
    """Replace a ReduceSum and its division by the number of terms with a ReduceMean."""
    before, count = made_by(node.inputs[0], "ReduceSum"), entry(node, 1).scalar()
    if before is None or count is None:
        return None
    sizes = [entry(before, 0).shape[axis] for axis in axes_of(before)]
    if not all(isinstance(size, int) for size in sizes) or float(np.prod(sizes)) != count:
        return None
    out = node.outputs[0]
    if not _same(out.shape, before.outputs[0].shape):
        return None
    return graph.add("ReduceMean", before.inputs, out.shape, out.dtype, keepdims=before.attributes["keepdims"])


def _transposes(graph: Graph, node: OnnxNode) -> OnnxValue | None:
    """Replace two transposes by one, and remove a transpose that changes nothing."""
    order, value = node.attributes["perm"], entry(node, 0)
    if order == list(range(len(order))):
        return value
    before = made_by(value, "Transpose")
    if before is None:
        return None
    return graph.transpose(entry(before, 0), [before.attributes["perm"][axis] for axis in order])


def _reshapes(graph: Graph, node: OnnxNode) -> OnnxValue | None:
    """Replace two reshapes by one, or by none if the shape does not change. For this rule, Unsqueeze and Squeeze are
    also reshapes.
    """
    before = made_by(node.inputs[0], "Reshape", "Unsqueeze", "Squeeze")
    if before is None:
        return None
    source, shape = entry(before, 0), node.outputs[0].shape
    if _same(source.shape, shape):
        return source
    target = reshape_target(source.shape, shape)
    if node.op != "Reshape" and before.op != "Reshape":
        return None
    return None if target is None else graph.add("Reshape", [source, graph.ints(*target)], shape, source.dtype)


def _no_limit(graph: Graph, node: OnnxNode) -> OnnxValue | None:
    """Remove a maximum with -inf, and a minimum with inf."""
    limit = -np.inf if node.op == "Max" else np.inf
    for index in (0, 1):
        if entry(node, index).scalar() == limit and _same(entry(node, 1 - index).shape, node.outputs[0].shape):
            return node.inputs[1 - index]
    return None


def _double_not(graph: Graph, node: OnnxNode) -> OnnxValue | None:
    before = made_by(node.inputs[0], "Not")
    return None if before is None else before.inputs[0]


Rule = Callable[[Graph, OnnxNode], OnnxValue | None]
RULES: Mapping[str, Sequence[Rule]] = MappingProxyType(
    {
        **dict.fromkeys(BROADCASTING, (_broadcasts_itself,)),
        "Max": (_broadcasts_itself, _no_limit),
        "Min": (_broadcasts_itself, _no_limit),
        "Div": (_broadcasts_itself, _mean),
        "Unsqueeze": (_keep_dimensions, _unsqueeze_first, _reshapes),
        "Squeeze": (_reshapes,),
        "Reshape": (_reshapes,),
        "Transpose": (_transposes,),
        "Not": (_double_not,),
    }
)
