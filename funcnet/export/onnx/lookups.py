"""The rule that replaces the operators of `F.embedding`, which looks up ids in a table, by one Gather."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import numpy as np

from funcnet.export.onnx.graph import Graph, OnnxNode, OnnxValue
from funcnet.export.onnx.matching import entry, made_by

__all__ = ["RULES"]


def _lookup(graph: Graph, node: OnnxNode) -> OnnxValue | None:
    """Replace the operators of an embedding by one Gather. For an id out of range, JAX returns NaN, and ONNX Runtime
    raises an error.
    """
    gather = made_by(node.inputs[1], "Gather")
    filled = entry(node, 2).scalar()
    if gather is None or filled is None or not np.isnan(filled):
        return None
    table, size = entry(gather, 0), entry(gather, 0).shape[gather.attributes["axis"]]
    limited = _before(gather.inputs[1], "Squeeze", "Min", "Max", "Unsqueeze")
    wrapped = made_by(limited, "Where")
    ids = made_by(wrapped.inputs[2], "Where") if wrapped else None
    test = made_by(ids.inputs[0], "And") if ids else None
    if wrapped is None or ids is None or test is None or entry(ids, 2).scalar() != size:
        return None
    first, last = made_by(test.inputs[0], "GreaterOrEqual"), made_by(test.inputs[1], "Less")
    x = entry(ids, 1)
    if first is None or last is None or first.inputs[0] is not x or last.inputs[0] is not x:
        return None
    if entry(first, 1).scalar() != 0 or entry(last, 1).scalar() != size:
        return None
    below = graph.add("Less", [x, first.inputs[1]], x.shape, bool)  # ONNX would count negative ids from the end
    rows = graph.add("Where", [below, graph.constant(np.asarray(size, x.dtype)), x], x.shape, x.dtype)
    return graph.add("Gather", [table, rows], node.outputs[0].shape, table.dtype, **gather.attributes)


def _before(value: OnnxValue | None, *ops: str) -> OnnxValue | None:
    """Return the input of the chain of operators that computes a value, or None if no such chain computes the value.

    `ops` lists the operators of the chain, beginning with the last one.
    """
    for op in ops:
        node = made_by(value, op)
        if node is None:
            return None
        value = node.inputs[0]
    return value


Rule = Callable[[Graph, OnnxNode], OnnxValue | None]
RULES: Mapping[str, Sequence[Rule]] = MappingProxyType({"Where": (_lookup,)})
