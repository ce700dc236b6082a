"""Attention: recognised with heads before or after the sequence, with biases and scales; results are those of JAX."""

import jax.numpy as jnp
import numpy as np
import pytest

from funcnet import functional as F
from funcnet.functional.attention_core import attend
from tests.export.onnx.programs import agrees, graph_of, ops

RANDOM = np.random.default_rng(0)
Q, K, V = (RANDOM.normal(size=(2, n, 3, 4)).astype(np.float32) for n in (5, 6, 6))
BIAS = RANDOM.normal(size=(2, 1, 1, 6)).astype(np.float32)
ROWS = RANDOM.normal(size=(2, 3, 5, 6)).astype(np.float32)


def first(array):
    return np.ascontiguousarray(array.swapaxes(1, 2))


@pytest.mark.parametrize("scale", [None, 1.0, 0.3])
def test_heads_last(scale):
    graph = agrees(lambda q, k, v: attend(q, k, v, scale=scale, heads_last=True)[0], Q, K, V)
    assert ops(graph).count("Attention") == 1 and "Softmax" not in ops(graph)


@pytest.mark.parametrize(
    "added", [(BIAS,), (ROWS,), (ROWS, BIAS), (np.float32(2),)], ids=["keys", "rows", "two", "one"]
)
def test_biases(added):
    graph = agrees(lambda q, k, v, *added: attend(q, k, v, *added, heads_last=True)[0], Q, K, V, *added)
    assert ops(graph).count("Attention") == (np.ndim(added[0]) > 0)


def test_a_bias_that_hides_keys():
    """The lowest finite number at hidden keys; where all keys are hidden, each gets the same weight."""
    hidden = np.zeros((2, 1, 1, 6), np.float32)
    hidden[0, ..., 4:] = hidden[1] = np.finfo(np.float32).min
    agrees(lambda q, k, v, bias: attend(q, k, v, bias, heads_last=True)[0], Q, K, V, hidden)


def test_heads_first():
    run = lambda q, k, v: F.scaled_dot_product_attention(q, k, v)
    graph = agrees(run, first(Q), first(K), first(V))
    assert "Attention" in ops(graph)


def test_projections_before_and_after():
    """Heads that are split from the last dimension and joined again stay there: no Transpose of activations is left."""
    weights = [jnp.asarray(RANDOM.normal(size=(12, 12)) / 12**0.5, jnp.float32) for _ in range(3)]

    def run(x):
        q, k, v = ((x @ w).reshape(*x.shape[:2], 3, 4) for w in weights)
        return attend(q, k, v, heads_last=True)[0].reshape(x.shape)

    x, more = (RANDOM.normal(size=(n, n + 3, 12)).astype(np.float32) for n in (2, 4))
    graph = agrees(run, x)
    assert ops(graph) == ["MatMul", "MatMul", "MatMul", "Attention"]
    assert graph.nodes[-1].attributes["q_num_heads"] == 3
    assert ops(agrees(run, x, dynamic="b, t, _", others=[more])) == ["MatMul", "MatMul", "MatMul", "Attention"]


def test_symbolic_length_with_a_bias_of_keys():
    run = lambda q, k, v, bias: attend(q, k, v, bias, heads_last=True)[0]
    dynamic = ["b, t, ...", "b, s, ...", "b, s, ...", "b, _, _, s"]
    others = [np.concatenate([array, array]) for array in (Q, K, V, BIAS)]
    graph = agrees(run, Q, K, V, BIAS, dynamic=dynamic, others=others)
    assert "Attention" in ops(graph) and "Expand" in ops(graph)


def test_weights_that_are_returned_are_computed_too():
    graph = agrees(lambda q, k, v: attend(q, k, v, heads_last=True), Q, K, V)
    assert "Softmax" in ops(graph)


def test_hidden_rows_keep_their_own_softmax():
    """Rows without keys become 0, which no operator of ONNX does."""
    mask = np.full((5, 6), -np.inf, np.float32)
    mask[1:, 2] = 0
    run = lambda q, k, v, mask: attend(q, k, v, mask, hidden_row=0.0, heads_last=True)[0]
    graph = agrees(run, Q, K, V, mask)
    assert "Attention" not in ops(graph)


def test_other_products_are_no_attention():
    graph = graph_of(lambda q, k: jnp.einsum("bqhe,bkhe->bhqk", q, k), [Q, K], rewritten=True)
    assert "Attention" not in ops(graph)
