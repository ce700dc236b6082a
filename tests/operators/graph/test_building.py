"""`backward`: its arguments, its errors, and what it opens."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from funcnet import functional as F
from funcnet import nn, operators
from funcnet.operators.graph import backward

X = jnp.arange(6.0).reshape(2, 3)
W = jnp.ones((4, 3))


def names(graph) -> list[str]:
    return [node.name for node in graph]


def test_results_are_those_of_the_function():
    net = nn.Sequential(nn.Linear(3, 4), nn.GELU(), nn.LayerNorm(4), nn.Dropout(0.5))
    params, state = net.init(jax.random.key(0))
    run = lambda params, x: net.apply(params, state, x, training=True, rng=jax.random.key(1))[0]
    graph = backward(run)(params, X)
    np.testing.assert_allclose(graph.results, run(params, X), rtol=1e-6)
    assert names(graph)[:4] == ["MulBackward0", "NativeLayerNormBackward0", "AccumulateGrad", "AccumulateGrad"]


def test_leaves_have_the_paths_of_the_arguments():
    graph = backward(lambda params, x, *more, scale: (params["a"]["w"] * x + more[1]) * scale)(
        {"a": {"w": X}}, X, 1.0, X, scale=X
    )
    assert {node.path for node in graph if node.path} == {"params['a']['w']", "x", "more[1]", "scale"}
    assert backward(jnp.sin)(X).nodes[-1].path == "x"


def test_argnums():
    product = lambda x, w: F.linear(x, w)
    assert [node.path for node in backward(product, argnums=1)(X, W) if node.path] == ["w"]
    assert [node.path for node in backward(product, argnums=(-2,))(X, W) if node.path] == ["x"]
    first = backward(product, argnums=1)(X, W).nodes[0]
    assert first.next_functions[0] is None and set(first.saved) == {"self"}


def test_integers_and_keys_require_no_gradient():
    run = lambda ids, table, key: F.dropout(F.embedding(ids, table), 0.5, rng=key)
    graph = backward(run)(jnp.array([0, 1]), W, jax.random.key(0))
    assert names(graph) == ["MulBackward0", "EmbeddingBackward0", "AccumulateGrad"]


def test_several_results():
    graph = backward(lambda x: {"a": x.sum(), "b": (jnp.exp(x), jnp.arange(3))})(X)
    assert [node.name for node, _ in graph.roots] == ["SumBackward0", "ExpBackward0"]
    assert names(graph) == ["ExpBackward0", "SumBackward0", "AccumulateGrad"]
    assert set(graph.results) == {"a", "b"}


def test_loops_and_other_programs_are_open():
    def run(x):
        carry, rows = jax.lax.scan(lambda c, row: (jnp.tanh(c) + row, c), jnp.zeros(3), x)
        return carry.sum() + rows.sum()

    assert names(backward(run)(X)).count("TanhBackward0") == 1  # the tanh of zeros requires no gradient
    choose = lambda x: jax.lax.cond(True, jnp.exp, jnp.sin, x)
    assert names(backward(choose)(X)) == ["ExpBackward0", "AccumulateGrad"]
    assert names(backward(jax.jit(lambda x: jnp.exp(x)))(X)) == ["ExpBackward0", "AccumulateGrad"]
    assert names(backward(jax.checkpoint(lambda x: jnp.exp(x)))(X)) == ["ExpBackward0", "AccumulateGrad"]
    repeat = lambda x: jax.lax.fori_loop(0, 3, lambda _, y: jnp.sin(y), x)
    assert names(backward(repeat)(X)) == ["SinBackward0"] * 3 + ["AccumulateGrad"]


def test_a_constant_relu_needs_no_gradient():
    assert names(backward(lambda x: x * jax.nn.relu(X))(X)) == ["MulBackward0", "AccumulateGrad"]


def test_a_program_that_was_compiled_before_is_recorded():
    run = jax.jit(lambda x, w: F.relu(F.linear(x, w)))
    run(X, W)
    assert names(backward(run)(X, W))[:2] == ["ReluBackward0", "MmBackward0"]
    run(X, W)


def test_operators_have_a_node():
    twice = operators.define("graph_test::twice_as(Tensor self, Tensor other) -> Tensor", dims="..., ... -> ...")
    twice.reference(lambda self, other: 2 * self + other)
    twice.derivative(self="2 * grad", other="grad")
    graph = backward(lambda x: twice(jnp.exp(x), X))(X)
    assert names(graph) == ["TwiceAsBackward", "ExpBackward0", "AccumulateGrad"]
    assert set(graph.nodes[0].saved) == {"self", "other", "result"} and not graph.nodes[0].is_torchs
    assert graph.nodes[0].next_functions[1] is None


def test_an_unknown_primitive_is_marked():
    node = backward(lambda x: jax.lax.cumlogsumexp(x))(X).nodes[0]
    assert node.name == "CumlogsumexpBackward" and not node.is_torchs


@pytest.mark.every_row
@pytest.mark.parametrize(
    ("function", "arguments", "error", "message"),
    [
        (lambda x: jnp.argmax(x), (X,), ValueError, "nothing that has a gradient; .* got int32"),
        (lambda x: jax.lax.stop_gradient(x), (X,), ValueError, "no result depends on an argument"),
        (lambda x: x, (jnp.arange(3),), ValueError, "nothing that has a gradient"),
        (lambda x, mode: x, (X, "train"), TypeError, "mode is not an array; .* got str. .*functools.partial"),
        (lambda x: x["a"], ({"a": object()},), TypeError, r"x\['a'\] is not an array; .* got object"),
    ],
)
def test_errors(function, arguments, error, message):
    with pytest.raises(error, match=message):
        backward(function)(*arguments)


def test_errors_of_argnums_and_of_abstract_values():
    with pytest.raises(ValueError, match=r"argnums names a missing argument; expected numbers below 2, .* got 2"):
        backward(F.linear, argnums=(0, 2))(X, W)
    with pytest.raises(TypeError, match=r"x has no values; .* outside of jit, grad and vmap"):
        jax.jit(lambda x: backward(jnp.sin)(x).results)(X)


def test_a_partial_function_has_its_names():
    graph = backward(functools.partial(lambda scale, x: x * scale, 2.0))(X)
    assert [node.path for node in graph if node.path] == ["x"]
