"""sort and top_k, with equal entries."""

import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from tests.export.onnx.programs import agrees, graph_of

X = np.random.default_rng(0).integers(0, 4, (3, 8)).astype(np.float32)  # many are equal


@pytest.mark.parametrize("axis", [0, 1])
def test_sort(axis):
    agrees(lambda x: (jnp.sort(x, axis), jnp.argsort(x, axis, stable=True)), X)
    agrees(lambda x: jnp.sort(x.astype(jnp.int32), axis), X)


def test_booleans():
    agrees(lambda x: jnp.argsort(x > 1, axis=1, stable=True), X)


def test_top_k():
    agrees(lambda x: lax.top_k(x, 3), X)


def test_symbolic():
    agrees(lambda x: jnp.sort(x, 1), X, dynamic="_, n", others=[np.concatenate([X, X + 1], 1)])


def test_several_keys_are_refused():
    with pytest.raises(ValueError, match="'sort' with 2 keys"):
        graph_of(lambda x: lax.sort((x, x + 1), num_keys=2), [X], rewritten=False)
