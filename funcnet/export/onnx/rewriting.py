"""Rewrite a graph into fewer and larger operators.

A rule looks at one node and the nodes before it, and returns a value that replaces the node's output, or None. Rules
run in the order of the nodes until nothing changes, at most 20 times. Nodes whose outputs nothing reads are removed.
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from funcnet.export.onnx import attention, fusion, lookups, simplification
from funcnet.export.onnx.graph import Graph, OnnxNode, OnnxValue

__all__ = ["RULES", "rewrite"]

Rule = Callable[[Graph, OnnxNode], OnnxValue | None]
MOST_ROUNDS = 20
SMALL = 64  # entries; larger constants are not compared
FAMILIES = (simplification.RULES, fusion.RULES, lookups.RULES, attention.RULES)
RULES: Mapping[str, Sequence[Rule]] = MappingProxyType(
    {
        op: tuple(rule for family in FAMILIES for rule in family.get(op, ()))
        for op in dict.fromkeys(op for family in FAMILIES for op in family)
    }
)


def rewrite(graph: Graph, rules: Mapping[str, Sequence[Rule]] = RULES) -> None:
    """Rewrite a graph, and the graphs inside it, in place.

    Example:
        >>> import numpy as np
        >>> graph = Graph(inputs=[OnnxValue((2, 3), np.dtype(np.float32))])
        >>> back = graph.transpose(graph.transpose(graph.inputs[0], (1, 0)), (1, 0))
        >>> graph.outputs = [graph.like("Exp", back)]
        >>> rewrite(graph)
        >>> [node.op for node in graph.nodes]
        ['Exp']
    """
    for node in graph.nodes:
        for inner in node.graphs():
            rewrite(inner, rules)
    for _ in range(MOST_ROUNDS):
        if not _round(graph, rules):
            break
    _share(graph)


def _round(graph: Graph, rules: Mapping[str, Sequence[Rule]]) -> bool:
    """Apply the rules to every node once, and return whether anything changed."""
    nodes, graph.nodes = graph.nodes, []
    replaced: dict[OnnxValue, OnnxValue] = {}
    changed = False
    for node in nodes:
        node.inputs = [value if value is None else replaced.get(value, value) for value in node.inputs]
        for inner in node.graphs():
            _replace(inner, replaced)
        graph.layer = node.layer
        for rule in rules.get(node.op, ()):
            new = rule(graph, node)
            if new is not None:
                changed = True
                if new is not node.outputs[0]:
                    replaced[node.outputs[0]] = new
                    break
        else:
            graph.nodes.append(node)
    graph.outputs = [replaced.get(value, value) for value in graph.outputs]
    _remove_dead(graph)
    return changed


def _replace(graph: Graph, replaced: Mapping[OnnxValue, OnnxValue]) -> None:
    for node in graph.nodes:
        node.inputs = [value if value is None else replaced.get(value, value) for value in node.inputs]
        for inner in node.graphs():
            _replace(inner, replaced)
    graph.outputs = [replaced.get(value, value) for value in graph.outputs]


def _share(graph: Graph) -> None:
    """Merge nodes that apply the same operation to the same inputs."""
    seen: dict[Any, OnnxNode] = {}
    replaced: dict[OnnxValue, OnnxValue] = {}
    for node in graph.nodes:
        node.inputs = [value if value is None else replaced.get(value, value) for value in node.inputs]
        for inner in node.graphs():
            _replace(inner, replaced)
        if node.graphs() or len(node.outputs) != 1:
            continue
        key = (node.op, node.domain, tuple(map(_identity, node.inputs)), repr(sorted(node.attributes.items())))
        first = seen.setdefault(key, node)
        if first is not node:
            replaced[node.outputs[0]] = first.outputs[0]
    graph.outputs = [replaced.get(value, value) for value in graph.outputs]
    _remove_dead(graph)


def _identity(value: OnnxValue | None) -> Any:
    if value is None or not value.known or value.constant is None or value.constant.size > SMALL:
        return value
    return value.shape, value.dtype.str, value.constant.tobytes()


def _remove_dead(graph: Graph) -> None:
    needed, kept = set(graph.outputs), []
    for node in reversed(graph.nodes):
        if needed.intersection(node.outputs):
            kept.append(node)
            needed.update(value for value in node.inputs if value is not None)
            for inner in node.graphs():
                _remove_dead(inner)
                needed.update(inner.free())
    graph.nodes = kept[::-1]
