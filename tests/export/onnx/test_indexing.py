"""Reading and writing at computed places, in range and out of range."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from tests.export.onnx.programs import agrees, graph_of, ops

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(4, 5, 6)).astype(np.float32)
IDS = np.array([[0, 3, 1], [2, -1, 3]], np.int32)
OUT = np.array([[0, 4, 9], [-5, -4, 3]], np.int32)


@pytest.mark.parametrize("mode", ["fill", "clip", "wrap"])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_take(mode, axis):
    agrees(lambda x, i: jnp.take(x, i, axis, mode=mode), X, IDS)


def test_a_promise_is_believed():
    graph = agrees(lambda x, i: x.at[i].get(mode="promise_in_bounds"), X, np.abs(IDS))
    assert "Min" not in ops(graph)


@pytest.mark.parametrize("mode", ["fill", "clip"])
def test_take_out_of_range(mode):
    agrees(lambda x, i: jnp.take(x, i, 0, mode=mode), X, OUT)
    agrees(lambda x, i: jnp.take((x * 9).astype(jnp.int32), i, 0, mode=mode), X, OUT)


def test_along_an_axis():
    agrees(lambda x, i: jnp.take_along_axis(x, i[..., None], 1), X, RANDOM.integers(0, 5, (4, 3)).astype(np.int32))
    agrees(lambda x, i: jnp.take_along_axis(x, i, 2), X, RANDOM.integers(0, 6, (4, 5, 2)).astype(np.int32))


def test_pairs_of_indices():
    agrees(lambda x, i: x[i[0], i[1]], X, IDS)
    agrees(lambda x, i: x[:, i[0], i[1]], X, np.abs(IDS))
    agrees(lambda x, i: x[i[0], :, i[1]], X, np.abs(IDS))


def test_one_slice():
    agrees(lambda x, i: (x[i[0, 1]], x[1], x[:, i[1, 0]]), X, IDS)
    agrees(lambda x, i: lax.dynamic_index_in_dim(x, i[0, 1], 1, keepdims=False), X, IDS)


@pytest.mark.parametrize("start", [0, 2, 9, -3])
def test_dynamic_slice(start):
    agrees(lambda x, i: lax.dynamic_slice(x, (i, 0, i + 1), (2, 5, 3)), X, np.int32(start))


@pytest.mark.parametrize("start", [0, 2, 9, -3])
def test_dynamic_update_slice(start):
    agrees(lambda x, i: lax.dynamic_update_slice(x, -x[:2, :3], (i, 1, 0)), X, np.int32(start))
    agrees(lambda x, i: lax.dynamic_update_slice(x, -x[:2, :3, 1:], (i, 1, i)), X, np.int32(start))


@pytest.mark.parametrize("name", ["set", "add", "max", "min", "mul"])
def test_scatter(name):
    ids = np.array([3, 0, 2], np.int32)
    agrees(lambda x, i: getattr(x.at[i], name)(x[:3] * 2), X, ids)
    agrees(lambda x, i: getattr(x.at[:, i], name)(x[:, :3] * 2), X, ids)
    agrees(lambda x, i: getattr(x.at[i, i], name)(7.0), X, ids)


def test_scatter_out_of_range_is_dropped():
    agrees(lambda x, i: x.at[i].set(1.0, mode="drop"), X, np.array([3, 4, 100], np.int32))
    agrees(lambda x, i: x.at[i].add(1.0), X, np.array([1, 1, 7], np.int32))


def test_symbolic_table():
    more = RANDOM.normal(size=(9, 5, 6)).astype(np.float32)
    agrees(lambda x, i: jnp.take(x, i, 0), X, IDS, dynamic=["n, ...", None], others=[more, OUT])


def test_what_has_no_form_is_refused():
    many = jax.vmap(lambda x, i: lax.dynamic_slice(x, (i, 0), (2, 6)))
    with pytest.raises(ValueError, match=r"to_onnx: the function uses an operation without a form.*'gather' of slices"):
        graph_of(many, [X, IDS[0, [0, 1, 2, 0]]], rewritten=False)
