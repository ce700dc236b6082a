"""Looking at the nodes before a value."""

import numpy as np

from funcnet.export.onnx.graph import Graph, OnnxValue
from funcnet.export.onnx.matching import axes_of, made_by, near, other, scaled

X = OnnxValue((2, 3), np.dtype(np.float32))


def test_producers():
    graph = Graph(inputs=[X])
    out = graph.like("Exp", X)
    assert made_by(out, "Exp", "Log").op == "Exp"
    assert made_by(out, "Log") is None and made_by(X, "Exp") is None and made_by(None, "Exp") is None
    foreign = graph.like("Exp", X, domain="com.microsoft")
    assert made_by(foreign, "Exp") is None


def test_numbers():
    graph = Graph()
    half = graph.constant(np.float32(0.5))
    assert near(half, 0.5) and near(graph.constant(np.float32(2**0.5)), 2**0.5) and not near(half, 0.50001)
    assert not near(X, 0.5) and not near(None, 0.5)
    for inputs in ((X, half), (half, X)):
        node = graph.add("Mul", inputs, X.shape, X.dtype).producer
        assert scaled(node, 0.5) is X and scaled(node, 2) is None and other(node, X) is half
    assert scaled(None, 0.5) is None and other(None, X) is None


def test_axes():
    graph = Graph()
    node = graph.add("ReduceSum", [X, graph.ints(0, 1)], (), X.dtype, keepdims=0).producer
    assert list(axes_of(node)) == [0, 1]
