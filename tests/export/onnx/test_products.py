"""dot_general in all its forms."""

import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from tests.export.onnx.programs import agrees, ops

RANDOM = np.random.default_rng(0)
EINSUMS = [
    ("ij,jk->ik", (3, 4), (4, 5)),
    ("ij,kj->ik", (3, 4), (5, 4)),
    ("bij,jk->bik", (2, 3, 4), (4, 5)),
    ("bij,bjk->bik", (2, 3, 4), (2, 4, 5)),
    ("bqhe,bkhe->bhqk", (2, 3, 4, 5), (2, 6, 4, 5)),
    ("bhqk,bkhe->bqhe", (2, 4, 3, 6), (2, 6, 4, 5)),
    ("abc,abd->cd", (2, 3, 4), (2, 3, 5)),
    ("abc,dca->bd", (2, 3, 4), (5, 4, 2)),
    ("i,i->", (4,), (4,)),
    ("i,ij->j", (4,), (4, 5)),
    ("ij,j->i", (3, 4), (4,)),
    ("ai,bj->aibj", (2, 3), (4, 5)),
    ("bi,bi->b", (2, 3), (2, 3)),
    ("bqhe,qke->bhqk", (2, 3, 4, 5), (3, 6, 5)),
]


@pytest.mark.parametrize("written, a, b", EINSUMS)
def test_einsum(written, a, b):
    arrays = [RANDOM.normal(size=shape).astype(np.float32) for shape in (a, b)]
    agrees(lambda x, y: jnp.einsum(written, x, y), *arrays)


def test_symbolic_batch():
    x, w = RANDOM.normal(size=(2, 3, 4)).astype(np.float32), RANDOM.normal(size=(5, 4)).astype(np.float32)
    more = RANDOM.normal(size=(6, 7, 4)).astype(np.float32)
    graph = agrees(lambda x: jnp.einsum("btd,ed->bte", x, w), x, dynamic="b, t, _", others=[more])
    assert ops(graph) == ["Transpose", "MatMul"]


def test_sums_of_integers_and_half_precision():
    a = RANDOM.integers(-9, 9, (3, 4)).astype(np.int32)
    agrees(lambda x: x @ x.T, a)
    half = RANDOM.normal(size=(3, 4)).astype(np.float16)
    agrees(lambda x: lax.dot(x, x.T, preferred_element_type=jnp.float32), half)
