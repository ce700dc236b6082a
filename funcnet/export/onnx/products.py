"""The rule for products of matrices, `dot_general`."""

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from funcnet.export.onnx.emitter import Emitter
from funcnet.export.onnx.graph import OnnxValue
from funcnet.export.tracing import Equation

__all__ = ["RULES"]


def _dot_general(low: Emitter, equation: Equation, a: OnnxValue, b: OnnxValue) -> OnnxValue:
    """Lower `dot_general` to MatMul, with inputs of shape (*batch, free, contracted) and (*batch, contracted, free)."""
    (contracted_a, contracted_b), (batch_a, batch_b) = equation.params["dimension_numbers"]
    aval, graph = equation.outvars[0].aval, low.graph
    free_a = [axis for axis in range(a.rank) if axis not in (*contracted_a, *batch_a)]
    free_b = [axis for axis in range(b.rank) if axis not in (*contracted_b, *batch_b)]
    dtype = aval.dtype
    a, b = graph.cast(a, dtype), graph.cast(b, dtype)
    if not batch_a and b.rank == 2 and len(contracted_b) == 1:  # a layer's product: (*, K) times a matrix
        a = graph.transpose(a, [*free_a, *contracted_a])
        b = graph.transpose(b, [*contracted_b, *free_b])
        return graph.add("MatMul", [a, b], aval.shape, dtype)
    batch = [a.shape[axis] for axis in batch_a]
    left = _matrix(low, graph.transpose(a, [*batch_a, *free_a, *contracted_a]), len(batch_a), len(free_a))
    right = _matrix(low, graph.transpose(b, [*batch_b, *contracted_b, *free_b]), len(batch_b), len(contracted_b))
    shape = (*batch, left.shape[-2], right.shape[-1])
    return low.reshape(graph.add("MatMul", [left, right], shape, dtype), aval.shape)


def _matrix(low: Emitter, value: OnnxValue, batch: int, rows: int) -> OnnxValue:
    """Reshape a value (*batch, *rows, *columns) to a batch of matrices (*batch, rows, columns)."""
    sizes, split = value.shape, batch + rows
    return low.reshape(value, (*sizes[:batch], math.prod(sizes[batch:split]), math.prod(sizes[split:])))


RULES: Mapping[str, Callable[..., Any]] = MappingProxyType({"dot_general": _dot_general})
