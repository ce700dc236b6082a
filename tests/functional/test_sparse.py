"""Lookups and their gradients against torch."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
import torch.nn.functional as T

from funcnet import functional as F

from .oracle import agrees, integers, normal

IDS = integers(0, 5, 4, 6)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"padding_idx": 2},
        {"padding_idx": -1},
        {"scale_grad_by_freq": True},
        {"padding_idx": 0, "scale_grad_by_freq": True},
    ],
)
@pytest.mark.parametrize("ids", [IDS, IDS[0, 0], IDS[:0]], ids=["some", "one", "none"])
def test_embedding(ids, options):
    agrees(
        lambda i, w: F.embedding(i, w, **options),
        lambda i, w: T.embedding(i, w, **options),
        np.asarray(ids),
        normal(5, 3),
    )


@pytest.mark.parametrize("norm_type", [1.0, 2.0, 3.0, float("inf")])
def test_max_norm_reads_renormalised_rows_and_the_table_follows(norm_type):
    weight = normal(6, 3).astype(np.float32)
    table = torch.tensor(weight, requires_grad=True)
    want = T.embedding(torch.tensor(IDS), table.clone(), max_norm=1.0, norm_type=norm_type)
    ours = lambda w: F.embedding(jnp.asarray(IDS), w, max_norm=1.0, norm_type=norm_type)
    np.testing.assert_allclose(ours(jnp.asarray(weight)), want.detach(), rtol=1e-5)
    cotangent = normal(4, 6, 3).astype(np.float32)
    (gradient,) = jax.vjp(ours, jnp.asarray(weight))[1](jnp.asarray(cotangent))
    changed = torch.tensor(weight)
    leaf = changed.clone().requires_grad_()
    T.embedding(torch.tensor(IDS), leaf, max_norm=1.0, norm_type=norm_type).backward(torch.tensor(cotangent))
    np.testing.assert_allclose(gradient, leaf.grad, rtol=1e-5, atol=1e-6)
    renormed = F.embedding_renorm(jnp.asarray(weight), jnp.asarray(IDS), 1.0, norm_type)
    np.testing.assert_allclose(renormed, leaf.detach(), rtol=1e-5)
    np.testing.assert_array_equal(renormed[5], weight[5])


def test_forward_mode():
    weight = jnp.asarray(normal(5, 3), jnp.float32)
    ids = jnp.array([0, 2])
    _, tangent = jax.jvp(lambda w: F.embedding(ids, w, padding_idx=2), (weight,), (jnp.ones_like(weight),))
    assert tangent.tolist() == [[1.0] * 3, [0.0] * 3]


def test_ids_out_of_range_are_refused_where_known():
    weight = jnp.asarray(normal(5, 3), jnp.float32)
    with pytest.raises(
        ValueError,
        match=r"F.embedding: ids is out of range; expected values from 0 to 4, got values from 1 to 5. Check the voc",
    ):
        F.embedding(jnp.array([1, 5]), weight)
    with pytest.raises(
        ValueError, match=r"F.embedding: ids is out of range; expected values from 0 to 4, got values from -1 to -1"
    ):
        F.embedding(jnp.array(-1), weight)


OUTSIDE = [-1, -7, 5, 1000, np.iinfo(np.int32).min, np.iinfo(np.int32).max]


@pytest.mark.parametrize("options", [{}, {"max_norm": 1.0}, {"scale_grad_by_freq": True}, {"padding_idx": -1}], ids=str)
@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16])
def test_under_jit_an_id_out_of_range_is_a_nan_row_without_gradient(dtype, options):
    weight = jnp.asarray(normal(5, 3), dtype)
    inside = [0, 4, 1, 4]
    look_up = jax.jit(lambda ids, w: F.embedding(ids, w, **options))
    rows = look_up(jnp.array(OUTSIDE + inside), weight)
    assert np.isnan(rows[:6].astype(jnp.float32)).all()
    np.testing.assert_array_equal(rows[6:], look_up(jnp.array(inside), weight))
    loss = lambda w, ids: jnp.where(jnp.arange(len(ids))[:, None] >= len(ids) - 4, look_up(ids, w), 0).sum()
    total = lambda w, ids: look_up(ids, w).sum()  # NaN itself: still no row is touched
    want = jax.grad(loss)(weight, jnp.array(inside))
    for function in (loss, total):
        np.testing.assert_array_equal(jax.grad(function)(weight, jnp.array(OUTSIDE + inside)), want)
    tangent = jax.jvp(lambda w: look_up(jnp.array([-1, 0]), w), (weight,), (jnp.ones_like(weight),))[1]
    assert tangent[0].tolist() == [0] * 3 and tangent[1].tolist() == [1] * 3


def test_under_jit_an_id_out_of_range_renormalises_no_row():
    weight = jnp.asarray(normal(5, 3), jnp.float32) * 10
    renorm = jax.jit(lambda ids: F.embedding_renorm(weight, ids, 1.0))
    np.testing.assert_array_equal(renorm(jnp.array(OUTSIDE)), weight)
    np.testing.assert_array_equal(renorm(jnp.array([*OUTSIDE, 1])), F.embedding_renorm(weight, jnp.array([1]), 1.0))
    np.testing.assert_array_equal(renorm(jnp.array([*OUTSIDE, 1]))[0], weight[0])


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint32], ids=lambda d: d.__name__)
def test_narrow_ids(dtype):
    ids, weight = np.array([3, 100, 3], dtype), normal(300, 2)
    for options in ({"padding_idx": -1}, {"padding_idx": 259}, {"scale_grad_by_freq": True, "padding_idx": 100}):
        agrees(*(lambda i, w, o=options, lib=lib: lib.embedding(i, w, **o) for lib in (F, T)), ids, weight)
    renormed = F.embedding_renorm(jnp.asarray(weight, jnp.float32), jnp.asarray(ids), 0.1)
    np.testing.assert_array_equal(renormed, F.embedding_renorm(jnp.asarray(weight, jnp.float32), ids.astype(int), 0.1))
    assert F.one_hot(jnp.asarray(ids), 300).argmax(-1).tolist() == ids.tolist()


@pytest.mark.parametrize("by_frequency", [False, True])
def test_bfloat16_gradients_are_counted_and_summed_wide(by_frequency):
    """bfloat16 counts to 256 and no further: 256 + 1 is 256."""
    ids, weight = jnp.zeros(1000, int), jnp.ones((2, 3), jnp.bfloat16)
    look_up = lambda w: F.embedding(ids, w, scale_grad_by_freq=by_frequency)
    gradient = jax.grad(lambda w: look_up(w).astype(jnp.float32).sum())(weight)
    assert gradient.dtype == jnp.bfloat16
    np.testing.assert_array_equal(gradient.astype(jnp.float32), [[1.0 if by_frequency else 1000.0] * 3, [0.0] * 3])


def test_a_table_of_integers():
    assert F.embedding(jnp.array([1]), jnp.arange(4).reshape(2, 2)).tolist() == [[2, 3]]


def test_one_hot():
    for ids, classes in (([[1, 0]], 3), ([2, 1], -1), ([], 4)):
        got = F.one_hot(jnp.array(ids, int), classes)
        np.testing.assert_array_equal(got, T.one_hot(torch.tensor(ids, dtype=torch.int64), classes))
        assert jnp.issubdtype(got.dtype, jnp.integer)
    assert jax.jit(F.one_hot, static_argnums=1)(jnp.array([3, -1, 1]), 3).tolist() == [[0] * 3, [0] * 3, [0, 1, 0]]


def test_refusals():
    weight = jnp.zeros((5, 3))
    with pytest.raises(
        TypeError, match=r"F.embedding: ids must hold integers; expected a dtype such as int32, got float32"
    ):
        F.embedding(jnp.ones(2), weight)
    with pytest.raises(ValueError, match=r"F.embedding: weight has the wrong rank"):
        F.embedding(jnp.array([0]), weight[0])
    with pytest.raises(ValueError, match=r"F.embedding: padding_idx is out of range; expected -5 to 4, got 5"):
        F.embedding(jnp.array([0]), weight, padding_idx=5)
    with pytest.raises(
        ValueError, match=r"F.one_hot: tensor is out of range; expected values from 0 to 2, got values from 5 to 5"
    ):
        F.one_hot(jnp.array([5]), 3)
    with pytest.raises(ValueError, match=r"F.one_hot: the number of classes cannot be inferred"):
        jax.jit(F.one_hot)(jnp.array([1]))
