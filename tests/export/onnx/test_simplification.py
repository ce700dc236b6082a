"""Operators that only prepare shapes: removed where nothing depends on them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.export.onnx.programs import agrees, ops

X = np.random.default_rng(0).normal(size=(2, 3, 4)).astype(np.float32)

PROGRAMS = {
    "a bias": (lambda x: x + jnp.arange(4.0), ["Add"]),
    "a broadcast bias": (lambda x: x + jnp.broadcast_to(x[0, 0], x.shape), ["Slice", "Add"]),
    "copies of a number": (lambda x: jnp.maximum(x, jnp.full(x.shape, 2.0)), ["Max"]),
    "a mean": (lambda x: x - x.mean(1, keepdims=True), ["ReduceMean", "Sub"]),
    "a sum that is no mean": (lambda x: x.sum(1, keepdims=True) / 5, ["ReduceSum", "Div"]),
    "transposes": (lambda x: jnp.exp(x.transpose(2, 0, 1).transpose(1, 2, 0)), ["Exp"]),
    "two transposes": (lambda x: x.transpose(2, 0, 1).transpose(2, 0, 1), ["Transpose"]),
    "reshapes": (lambda x: jnp.exp(x.reshape(6, 4).reshape(2, 3, 4)), ["Exp"]),
    "two reshapes": (lambda x: x.reshape(6, 4).reshape(3, 8), ["Reshape"]),
    "no limit": (lambda x: jnp.maximum(x, -jnp.inf), []),
    "double negation": (lambda x: ~~(x > 0), ["Greater"]),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_is_left(name):
    run, left = PROGRAMS[name]
    graph = agrees(lambda x: run(x) if left else jnp.exp(run(x)), X)
    assert ops(graph) == (left or ["Exp"])


def test_two_broadcasts_that_make_the_shape_stay():
    """Neither array has the shape of the result by itself, and a sum of broadcasts of one array has."""
    agrees(lambda x: jnp.broadcast_to(x[:1], (5, 3, 4)) + jnp.broadcast_to(x[:1, :1], (5, 3, 4)), X)
    agrees(lambda x: jnp.broadcast_to(x[:1], (5, 3, 4)) * 2.0, X)


def test_symbolic():
    more = np.concatenate([X, X])
    run = lambda x: jax.nn.relu(x.reshape(-1, 4).reshape(x.shape)) + jnp.broadcast_to(x[:, :1], x.shape)
    agrees(run, X, dynamic="n, ...", others=[more])
