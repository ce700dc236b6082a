"""What is decided at export: tests of constants, positions and sizes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from funcnet.export.onnx.lowering import lower
from funcnet.export.onnx.rewriting import rewrite
from funcnet.export.tracing import trace
from tests.export.onnx.programs import agrees, ops

X = np.ones((4, 3), np.float32)
MORE = np.ones((6, 3), np.float32)


@pytest.mark.parametrize(
    "run",
    [
        lambda x: jnp.where(jnp.arange(x.shape[0])[:, None] >= 0, x, 0.0),
        lambda x: jnp.where(jnp.arange(x.shape[0])[:, None] < x.shape[0], x, 0.0),
        lambda x: jnp.where(jnp.zeros(x.shape) > 1, 0.0, x),
        lambda x: x * jnp.ones(x.shape),
    ],
)
def test_what_is_certain_costs_nothing(run):
    assert "Where" not in ops(agrees(run, X, dynamic="n, _", others=[MORE]))


@pytest.mark.parametrize("limit", [3, 5])
def test_what_is_uncertain_is_computed(limit):
    run = lambda x: jnp.where(jnp.arange(x.shape[0])[:, None] < limit, x, 0.0)
    assert "Where" in ops(agrees(run, X, dynamic="n, _", others=[MORE]))


def test_a_narrowing_cast_has_no_known_bounds():
    run = lambda x: (jnp.arange(x.shape[0]).astype(jnp.int8) < 0, jnp.arange(x.shape[0]).astype(jnp.uint8) < 200)
    agrees(run, X, dynamic="n, _", others=[np.ones((300, 3), np.float32)])


def test_a_widening_cast_keeps_the_bounds():
    run = lambda x: jnp.where(jnp.arange(x.shape[0], dtype=jnp.int32).astype(jnp.int64)[:, None] >= 0, x, 0.0)
    with jax.enable_x64(True):
        assert "Where" not in ops(agrees(run, X, dynamic="n, _", others=[MORE]))


def test_constraints_decide():
    run = lambda x: jnp.where(jnp.arange(x.shape[0])[:, None] < 8, x, 0.0)
    for constraints, left in ((["n <= 8"], False), (["n <= 9"], True)):
        graph = lower("test", trace("test", run, [X], "n, _", constraints))
        rewrite(graph)
        assert ("Where" in ops(graph)) == left


def test_sums_with_zero_and_products_with_one():
    assert ops(agrees(lambda x: (x + jnp.zeros(x.shape, x.dtype), x * 1), X.astype(np.int32), dynamic="n, _")) == []
    assert "Add" in ops(agrees(lambda x: x + jnp.zeros(x.shape), X, dynamic="n, _"))  # -0.0 + 0.0 is 0.0
