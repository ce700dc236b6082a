"""Constants: each once, matrices of products in panels, and views of constants as numpy makes them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from funcnet.export.wasm.rules import RULES
from funcnet.export.wasm.trace import trace
from funcnet.loops.constant_storage import PANEL, Weights, evaluated, packed
from funcnet.loops.operations import ArrayValue

X = np.random.default_rng(0).normal(size=(3, 4, 10)).astype(np.float32)


def test_equal_arrays_are_stored_once():
    weights = Weights()
    first, second = weights.whole(ArrayValue.of(X)), weights.whole(ArrayValue.of(X.copy()))
    assert first == second and weights.size == X.nbytes
    assert weights.whole(ArrayValue.of(X.reshape(-1))) != first  # another shape may lie in panels
    assert weights.data()[: X.nbytes] == X.tobytes()


def test_packed():
    panels = packed(X)
    assert panels.shape == (3, 2, 4, PANEL, 1)
    for column in range(10):
        np.testing.assert_array_equal(panels[:, column // PANEL, :, column % PANEL, 0], X[:, :, column])
    assert not panels[:, 1, :, 2:].any()


def test_packed_in_pairs():
    panels = packed(X[:, :3], 2)
    assert panels.shape == (3, 2, 2, PANEL, 2)
    for column, row in np.ndindex(10, 3):
        np.testing.assert_array_equal(panels[:, column // PANEL, row // 2, column % PANEL, row % 2], X[:, row, column])
    assert not panels[:, 1, :, 2:].any() and not panels[:, :, 1, :, 1].any()


VIEWS = {
    "transpose": lambda: jnp.transpose(X, (2, 0, 1)),
    "broadcast": lambda: jnp.broadcast_to(jnp.asarray(X)[:, None], (3, 20, 4, 10)),
    "transpose of a broadcast": lambda: jnp.broadcast_to(jnp.asarray(X)[None], (20, 3, 4, 10)).T,
}


@pytest.mark.parametrize("name", VIEWS)
def test_evaluated(name):
    y = np.zeros(jax.eval_shape(VIEWS[name]).shape, np.float32)
    block = trace(lambda y: jnp.tanh(VIEWS[name]() + y), [y], RULES)
    add = next(o for o in block.operations if o.name == "add")
    np.testing.assert_array_equal(evaluated(add.operands[0]), VIEWS[name]())
    assert evaluated(add.results[0]) is None
