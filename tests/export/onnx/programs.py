"""Run the ONNX export of a small function, for the tests of its rules."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
import onnxruntime

from funcnet.export.onnx import writing
from funcnet.export.onnx.graph import Graph
from funcnet.export.onnx.lowering import lower
from funcnet.export.onnx.rewriting import rewrite
from funcnet.export.tracing import trace

__all__ = ["agrees", "graph_of", "ops", "run"]


def graph_of(function: Callable[..., Any], arrays: Sequence[Any], dynamic: Any = None, *, rewritten: bool) -> Graph:
    """The graph of a function, before or after the rewriting."""
    graph = lower("to_onnx", trace("to_onnx", function, arrays, dynamic))
    if rewritten:
        rewrite(graph)
    return graph


def ops(graph: Graph) -> list[str]:
    return [node.op for node in graph.nodes]


def run(graph: Graph, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """What ONNX Runtime computes, without its own optimisations, so that each operator is the one in the graph."""
    writing.with_names(graph)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    model = writing.model_of(graph).SerializeToString()
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return session.run(None, dict(zip([one.name for one in session.get_inputs()], arrays, strict=True)))


def agrees(
    function: Callable[..., Any],
    *arrays: Any,
    dynamic: Any = None,
    others: Sequence[Any] | None = None,
    tolerance: float = 1e-6,
) -> Graph:
    """Check the graph of a function, with and without rewriting, against JAX; `others` have other sizes."""
    given = [np.asarray(array) for array in (arrays if others is None else others)]
    expected = jax.tree.leaves(jax.jit(function)(*given))
    for rewritten in (False, True):
        graph = graph_of(function, arrays, dynamic, rewritten=rewritten)
        got = run(graph, given)
        assert len(got) == len(expected)
        for one, other in zip(got, expected, strict=True):
            other = np.asarray(other)
            assert one.dtype == other.dtype and one.shape == other.shape, (one.dtype, one.shape)
            if other.dtype.kind == "f":
                scale = np.abs(other[np.isfinite(other)]).max(initial=1e-30)
                np.testing.assert_allclose(one, other, rtol=0, atol=tolerance * scale)
            else:
                np.testing.assert_array_equal(one, other)
    return graph
