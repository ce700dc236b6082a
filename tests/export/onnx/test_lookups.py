"""Embeddings become one Gather; other lookups keep what JAX does out of range."""

import jax.numpy as jnp
import numpy as np

from funcnet import functional as F
from tests.export.onnx.programs import agrees, ops

TABLE = jnp.asarray(np.random.default_rng(0).normal(size=(7, 3)), jnp.float32)
IDS = np.array([[0, 6, 3], [2, 2, 5]], np.int32)


def test_an_embedding_is_one_gather():
    assert ops(agrees(lambda ids: F.embedding(ids, TABLE), IDS)) == ["Less", "Where", "Gather"]
    assert ops(agrees(lambda ids: F.embedding(ids, TABLE), IDS.astype(np.uint8)))[-1] == "Gather"


def test_known_ids_need_no_test():
    assert ops(agrees(lambda x: x + F.embedding(jnp.arange(5), TABLE), np.ones((5, 3), np.float32))) == [
        "Gather",
        "Add",
    ]


def test_positions_with_a_limit_need_no_test():
    run = lambda x: x + F.embedding(jnp.arange(x.shape[0]), TABLE)
    x, more = np.ones((5, 3), np.float32), np.ones((9, 3), np.float32)
    graph = agrees(run, x, dynamic="n, _", others=[more])  # beyond the table, the positions give NaN
    assert "Where" in ops(graph)


def test_other_lookups_are_left():
    assert "Where" in ops(agrees(lambda ids: jnp.take(TABLE, ids, 0), IDS + 3))
