"""Symbolic sizes at run time: every form of expression."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from funcnet.export.onnx.dimensions import Dimensions
from funcnet.export.onnx.graph import Graph, OnnxValue
from tests.export.onnx.programs import agrees, run

EXPRESSIONS = {
    "2*n + 3": lambda n, m: 2 * n + 3,
    "n*m": lambda n, m: n * m,
    "n^3": lambda n, m: n * n * n,
    "n - m": lambda n, m: n - m,
    "floordiv": lambda n, m: (n + 7) // 3,
    "mod": lambda n, m: (n + 7) % 3,
    "-n mod": lambda n, m: -n % 4,
    "max": lambda n, m: jax.core.max_dim(n, m),
    "min": lambda n, m: jax.core.min_dim(n, 5),
}


@pytest.mark.parametrize("name", EXPRESSIONS)
@pytest.mark.parametrize("sizes", [(1, 1), (4, 2), (9, 13)])
def test_every_expression(name, sizes):
    n, m = jax.export.symbolic_shape("n, m")
    graph = Graph(inputs=[OnnxValue((n, m), np.dtype(np.float32), name="x")])
    graph.outputs = [Dimensions("test", graph).value(EXPRESSIONS[name](n, m))]
    (found,) = run(graph, [np.zeros(sizes, np.float32)])
    expected = {"max": max(sizes), "min": min(sizes[0], 5)}.get(name)
    assert found == [EXPRESSIONS[name](*sizes) if expected is None else expected]


def test_in_a_program():
    x, more = np.ones((4, 6), np.float32), np.arange(30, dtype=np.float32).reshape(5, 6)
    agrees(lambda x: jnp.concatenate([x, jnp.zeros((2 * x.shape[0] + 1, 6))]), x, dynamic="n, _", others=[more])
    agrees(lambda x: x.reshape(-1) * x.shape[0], x, dynamic="n, m", others=[more])


def test_a_size_that_no_input_has_is_refused():
    (n,) = jax.export.symbolic_shape("n")
    graph = Graph(inputs=[OnnxValue((2 * n,), np.dtype(np.float32), name="x")])
    with pytest.raises(ValueError, match="the symbolic size n cannot be computed"):
        Dimensions("test", graph).value(n)
