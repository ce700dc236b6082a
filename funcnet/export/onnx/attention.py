"""Rules that replace the parts of attention (two products of matrices and a Softmax) by one operator Attention.

Letters: `B batch, H heads, T queries, S keys, E features per head`.
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import numpy as np

from funcnet.export.onnx.graph import Graph, OnnxNode, OnnxValue
from funcnet.export.onnx.matching import entry, made_by

__all__ = ["RULES"]

HEADS_FIRST = [0, 2, 1, 3]  # (B, T, H, E) -> (B, H, T, E)
TURNED = [0, 1, 3, 2]


def _scores(graph: Graph, weights: OnnxValue | None) -> tuple[OnnxValue, OnnxValue, OnnxValue | None, float] | None:
    """Return (query (B, H, T, E), key (B, H, S, E), bias, scale) of attention weights.

    Return None if the weights are not a Softmax of products of queries and keys.
    """
    softmax = made_by(weights, "Softmax")
    if softmax is None or softmax.attributes["axis"] not in (3, -1) or entry(softmax, 0).rank != 4:
        return None
    value, biases = entry(softmax, 0), []
    while (total := made_by(value, "Add")) is not None:
        products = [index for index in (0, 1) if made_by(total.inputs[index], "MatMul", "Add")]
        if not products:
            return None
        value = entry(total, products[0])
        biases.append(entry(total, 1 - products[0]))
    product = made_by(value, "MatMul")
    if product is None or any(size.rank != 4 for size in (entry(product, 0), entry(product, 1))):
        return None
    query, scale = _unscaled(graph, entry(product, 0))
    key = graph.transpose(entry(product, 1), TURNED)
    bias = None
    for one in biases:
        bias = one if bias is None else graph.add("Add", [bias, one], value.shape, value.dtype)
    return query, key, bias, scale


def _unscaled(graph: Graph, query: OnnxValue) -> tuple[OnnxValue, float]:
    """Return the query without its scale, and the scale.

    If the query is not the product of an array and a number, return the query itself and 1.0.
    """
    turned = made_by(query, "Transpose")
    product = made_by(entry(turned, 0) if turned else query, "Mul")
    if product is None or (scale := entry(product, 1).scalar()) is None:
        return query, 1.0
    value = entry(product, 0)
    return (graph.transpose(value, turned.attributes["perm"]) if turned else value), float(scale)


def _attention(graph: Graph, node: OnnxNode) -> OnnxValue | None:
    """Replace the product of weights (B, H, T, S) and values (B, H, S, E) by Attention. The weights and the values may
    be transposed.
    """
    left, right, turned = entry(node, 0), entry(node, 1), False
    if left.rank != 4 or right.rank != 4:
        return None
    if (back := made_by(right, "Transpose")) is not None and back.attributes["perm"] == TURNED:
        left, right, turned = entry(back, 0), graph.transpose(left, TURNED), True
    found = _scores(graph, left)
    if found is None:
        return None
    query, key, bias, scale = found
    if bias is not None and (bias.rank < 2 or str(bias.shape[-1]) != str(key.shape[2])):
        return None
    shape = (*query.shape[:3], right.shape[3])
    inputs = [query, key, right]
    if bias is not None:
        inputs.append(_for_each_query(graph, _above_lowest(graph, bias), query))
    out = graph.add("Attention", inputs, shape, right.dtype, scale=scale)
    return graph.transpose(out, TURNED) if turned else out


def _above_lowest(graph: Graph, bias: OnnxValue) -> OnnxValue:
    """Return the attention bias, in which half of the dtype's lowest finite number replaces all lower entries.

    If the bias of every key of a query is the dtype's lowest number, ONNX Runtime returns 0 for the query, but JAX
    gives each key the same weight. If the bias is above the lowest number, ONNX Runtime also gives each key the same
    weight.
    """
    limit = graph.constant(np.asarray(np.finfo(bias.dtype).min / 2, bias.dtype))
    if bias.known and bias.constant is not None and limit.constant is not None:
        return graph.constant(np.maximum(bias.constant, limit.constant))
    return graph.like("Max", bias, limit)


def _for_each_query(graph: Graph, bias: OnnxValue, query: OnnxValue) -> OnnxValue:
    """Return the attention bias, broadcast to the shape (*, T, S).

    ONNX Runtime itself broadcasts only the first two dimensions of the bias of an Attention.
    """
    length = query.shape[2]
    if bias.rank < 2 or bias.shape[-2] == length:
        return bias
    if isinstance(length, int):
        target = graph.ints(1, 1, length, 1)
    else:
        own = graph.add("Shape", [query], (1,), np.int64, start=2, end=3)
        target = graph.add("Concat", [graph.ints(1, 1), own, graph.ints(1)], (4,), np.int64, axis=0)
    return graph.add("Expand", [bias, target], (*bias.shape[:-2], length, bias.shape[-1]), bias.dtype)


def _joined_heads(graph: Graph, node: OnnxNode) -> OnnxValue | None:
    """Remove the reshapes that split the heads before an Attention and join them after it, because the operator can do
    both.
    """
    turned = made_by(node.inputs[0], "Transpose")
    inner = made_by(turned.inputs[0], "Attention") if turned else None
    out = node.outputs[0]
    if turned is None or inner is None or turned.attributes["perm"] != HEADS_FIRST or out.rank != 3:
        return None
    inputs = []
    for value in inner.inputs[:3]:
        back = made_by(value, "Transpose")
        split = made_by(back.inputs[0], "Reshape") if back and back.attributes["perm"] == HEADS_FIRST else None
        if split is None or entry(split, 0).rank != 3:
            return None
        inputs.append(split.inputs[0])
    heads = entry(inner, 0).shape[1]
    more = inner.inputs[3:]
    settings = inner.attributes | {"q_num_heads": heads, "kv_num_heads": heads}
    return graph.add("Attention", [*inputs, *more], out.shape, out.dtype, **settings)


Rule = Callable[[Graph, OnnxNode], OnnxValue | None]
RULES: Mapping[str, Sequence[Rule]] = MappingProxyType({"MatMul": (_attention,), "Reshape": (_joined_heads,)})
