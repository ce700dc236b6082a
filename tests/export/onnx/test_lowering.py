"""The walk over a program: folding, layers, weights, and refusals by name."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from funcnet import export, nn
from funcnet.export.onnx.lowering import RULES, lower
from funcnet.export.tracing import trace
from tests.export.models import drawn
from tests.export.onnx.programs import agrees, graph_of, ops

X = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3)


def test_what_depends_on_nothing_is_computed_at_export():
    graph = graph_of(lambda x: x + jnp.sin(jnp.arange(3.0)) * 2, [X], rewritten=False)
    assert ops(graph)[-1] == "Add" and not {"Sin", "Range", "Mul"} & set(ops(graph))


def test_large_constants_are_not_computed_at_export():
    graph = graph_of(lambda x: x[0, 0] + jnp.zeros((300, 300)), [X], rewritten=True)
    assert max(v.constant.size for v in graph.read() if v.constant is not None) < 10


def test_weights_stay_as_they_are():
    weight = jnp.ones((5, 3))
    graph = lower("test", trace("test", lambda x: x @ weight.T * weight.sum(), [X], params={"w": weight}))
    (held,) = {value for value in graph.read() if value.weight}
    assert held.weight == "w" and held.shape == (5, 3) and "ReduceSum" in ops(graph)


def test_every_node_has_its_layer():
    net = nn.Sequential(nn.Linear(3, 3), nn.Sequential(nn.Tanh(), nn.GELU()))
    run = export.inference_of(net, *drawn(net))
    layers = {node.layer for node in graph_of(run, [X], rewritten=True).nodes}
    assert layers == {"0", "1.0", "1.1"}


def test_convolutions_are_those_of_all_platforms():
    """On CPU, JAX computes a depthwise convolution by shifted sums; ONNX has an operator for it."""
    net = nn.Conv2d(4, 4, 3, groups=4)
    run = export.inference_of(net, *drawn(net))
    graph = agrees(run, np.ones((2, 4, 6, 6), np.float32))
    assert ops(graph).count("Conv") == 1


@pytest.mark.parametrize(
    "run, primitive",
    [
        (lambda x: jax.lax.lgamma(x), "lgamma"),
        (lambda x: jnp.linalg.cholesky(x[:3] @ x[:3].T), "cholesky"),
        (lambda x: jnp.fft.fft(x).real, "fft"),
        (lambda x: jax.lax.cummax(x), "cummax"),
    ],
)
def test_primitives_without_a_rule_are_named(run, primitive):
    assert primitive not in RULES
    with pytest.raises(
        ValueError, match=f"to_onnx: the function uses an operation without a form .* got '{primitive}'"
    ):
        graph_of(run, [X], rewritten=False)


def test_arguments_that_are_not_used_stay():
    graph = graph_of(lambda x, y: x + 1, [X, X], rewritten=True)
    assert [value.name for value in graph.inputs] == ["x", "y"]


def test_a_reduction_by_a_function_is_named_with_its_layer():
    """Its program combines two entries; it is no call."""
    pool = lambda x: jax.lax.reduce_window(x, 0.0, lambda a, b: a * 0.5 + b, (2, 2), (2, 2), "VALID")
    with pytest.raises(ValueError, match=r"to_onnx: pool uses an operation without a form .* got 'reduce_window' of"):
        graph_of(jax.named_scope("pool")(pool), [X], rewritten=False)
