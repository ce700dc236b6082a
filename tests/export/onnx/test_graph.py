"""The graph: what its values know, and the targets of a Reshape."""

import jax
import numpy as np
import pytest

from funcnet.export.onnx.graph import Graph, OnnxValue, reshape_target

N, M = jax.export.symbolic_shape("n, m")


@pytest.mark.parametrize(
    "shape, wanted, target",
    [
        ((8, 6), (8, 2, 3), [0, 2, 3]),
        ((N, 6), (N, 2, 3), [0, 2, 3]),
        ((N, M, 6), (N, M, 2, 3), [0, 0, 2, 3]),
        ((N, M, 6), (N, 6 * M), [0, -1]),
        ((N, M, 6), (N * M, 6), [-1, 6]),
        ((N, M, 6), (M, N, 6), None),
        ((2, 3), (0, 3), None),
    ],
)
def test_reshape_target(shape, wanted, target):
    assert reshape_target(shape, wanted) == target


def test_scalars():
    graph = Graph()
    assert graph.constant([2.0, 2.0]).scalar() == 2 and graph.constant([2.0, 3.0]).scalar() is None
    assert np.isnan(graph.constant(np.nan).scalar()) and graph.constant(np.zeros(0)).scalar() is None
    assert OnnxValue((2,), np.dtype(np.float32), np.ones(2), weight="w").scalar() is None  # weights may be exchanged


def test_known_values_are_moved_at_once():
    graph = Graph()
    known = graph.constant(np.arange(6).reshape(2, 1, 3))
    assert graph.squeeze(graph.transpose(known, (2, 1, 0)), [1]).constant.shape == (3, 2)
    assert graph.unsqueeze(known, [0]).shape == (1, 2, 1, 3) and graph.cast(known, np.int8).dtype == np.int8
    assert not graph.nodes
    weight = OnnxValue((2, 3), np.dtype(np.float32), np.ones((2, 3)), weight="w")
    assert graph.transpose(weight, (1, 0)).op() == "Transpose"  # the file keeps the weight's own layout


def test_what_an_inner_graph_reads():
    x = OnnxValue((3,), np.dtype(np.float32))
    inner = Graph()
    inner.outputs = [inner.like("Exp", x)]
    outer = Graph(inputs=[x])
    outer.outputs = outer.add_many("If", [outer.constant(True)], [((3,), np.float32)], then_branch=inner)
    assert inner.free() == [x] and x in list(outer.read())
