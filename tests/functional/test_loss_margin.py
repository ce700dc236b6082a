"""Losses that ask for a margin, beside torch's."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
import torch.nn.functional as T
from hypothesis import given
from hypothesis import strategies as st

from funcnet import functional as F

from .oracle import agrees, agrees_reduced, normal

X, Y = normal(4, 3), normal(4, 3, seed=1)
SIGNS = np.array([[1, -1, 1], [-1, -1, 1], [1, 1, -1], [-1, 1, -1]], np.int32)


def named(name, **options):
    return [lambda *a, lib=lib, **kw: getattr(lib, name)(*a, **options, **kw) for lib in (F, T)]


def test_hinge_embedding_loss():
    """At the margin, and with a label that is neither 1 nor -1."""
    x, t = X.copy(), SIGNS.copy()
    x[0] = 0.5
    t[1] = [0, 2, 0]
    agrees_reduced(*named("hinge_embedding_loss", margin=0.5), x, t)
    agrees(*named("hinge_embedding_loss", reduction="none"), x, SIGNS[:1].astype(float), dtypes=(np.float32,))


def test_margin_ranking_loss():
    y = Y.copy()
    y[0] = X[0]  # exactly at a margin of 0
    agrees_reduced(*named("margin_ranking_loss"), X, y, SIGNS)
    agrees(
        *named("margin_ranking_loss", margin=0.5, reduction="none"),
        X,
        Y[:1],
        SIGNS[:, :1].astype(float),
        dtypes=(np.float32,),
    )


def test_soft_margin_loss():
    agrees_reduced(*named("soft_margin_loss"), X, SIGNS)
    agrees(*named("soft_margin_loss", reduction="none"), X, SIGNS[0], dtypes=(np.float32,))
    value, slope = jax.value_and_grad(lambda x: F.soft_margin_loss(x, jnp.ones(())))(jnp.float32(-200))
    assert (value, slope) == (200, -1)  # torch: inf, NaN


def test_multilabel_soft_margin_loss():
    weight = np.array([0.5, 2.0, 1.0])
    agrees_reduced(*named("multilabel_soft_margin_loss"), X, (SIGNS > 0).astype(np.int32))
    agrees_reduced(
        lambda x, t, **kw: F.multilabel_soft_margin_loss(x, t, jnp.asarray(weight, x.dtype), **kw),
        lambda x, t, **kw: T.multilabel_soft_margin_loss(x, t, torch.tensor(weight), **kw),
        X[None],
        np.abs(np.sin(Y)),
    )


@pytest.mark.parametrize("p", [1, 2])
def test_multi_margin_loss(p):
    """At the margin too, where the gradient is 0."""
    x, ids, weight = normal(4, 5), np.array([1, 0, 4, 2], np.int32), np.abs(normal(5))
    x[0] = [0.0, 0.5, 0.0, 0.25, 1.0]
    agrees_reduced(
        lambda x, t, **kw: F.multi_margin_loss(x, t, p, 0.5, jnp.asarray(weight, x.dtype), **kw),
        lambda x, t, **kw: T.multi_margin_loss(x, t, p, 0.5, torch.tensor(weight, dtype=x.dtype), **kw),
        x,
        ids,
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", ["multi_margin_loss", "multilabel_margin_loss"])
def test_without_a_batch_or_classes(name):
    x, one = normal(5), np.array([2, 0, -1, 0, 0], np.int32)
    target = one if name == "multilabel_margin_loss" else one[0]
    agrees(*named(name, reduction="none"), x, np.asarray(target), dtypes=(np.float64,))
    for shape, label in (((), ()), ((1,), ()), ((), (1,)), ((1,), (1,))):
        got = getattr(F, name)(jnp.ones(shape), jnp.zeros(label, int), reduction="none")
        want = getattr(T, name)(torch.ones(shape), torch.zeros(label, dtype=torch.long), reduction="none")
        assert float(got.sum()) == float(want.sum()) and got.shape == want.shape


LISTS = np.array([[-1, 1, 2, 3], [3, 0, -1, 1], [2, 2, 1, -1], [3, 2, 1, 0], [0, -1, -1, -1]], np.int32)


def test_multilabel_margin_loss():
    """No target, some, one twice, all; and exactly at the margin."""
    x = normal(5, 4)
    x[4] = [1.0, 0.0, 0.5, -1.0]
    agrees_reduced(*named("multilabel_margin_loss"), x, LISTS)


@pytest.mark.slow
def test_multilabel_margin_loss_in_forward_mode_twice_and_under_vmap():
    x, dx = jnp.asarray(normal(5, 4), jnp.float32), jnp.asarray(normal(5, 4, seed=1), jnp.float32)
    losses = lambda x: F.multilabel_margin_loss(x, LISTS, reduction="none")

    @jax.jit
    def all_ways(x, lists):
        alone = jax.vmap(lambda x, t: F.multilabel_margin_loss(x, t, reduction="none"))(x, lists)
        second = jax.jvp(jax.grad(lambda x: losses(x).sum()), (x,), (dx,))[1]
        return losses(x), jax.jvp(losses, (x,), (dx,))[1], jax.jacrev(losses)(x), second, alone

    value, pushed, jacobian, second, alone = all_ways(x, jnp.asarray(LISTS))
    np.testing.assert_allclose(pushed, np.einsum("bcd,cd->b", jacobian, dx), rtol=1e-6)
    assert not second.any()
    np.testing.assert_array_equal(alone, value)


def test_multilabel_margin_loss_with_a_penalty_of_its_gradient():
    x = jnp.asarray(normal(5, 4), jnp.float32)
    loss = lambda x: F.multilabel_margin_loss(x, LISTS)

    def penalised(x):
        value, slope = jax.value_and_grad(loss)(x)
        return value + (slope**2).sum()

    np.testing.assert_array_equal(*jax.jit(lambda x: (jax.grad(penalised)(x), jax.grad(loss)(x)))(x))


@jax.jit
def multilabel(x, target):
    losses, pull = jax.vjp(lambda x: F.multilabel_margin_loss(x, target, reduction="none"), x)
    return losses, pull(jnp.ones_like(losses))[0]


@pytest.mark.slow
@given(st.lists(st.lists(st.integers(-1, 3), min_size=4, max_size=4), min_size=3, max_size=3), st.integers(0, 3))
def test_hypothesis_multilabel_margin_loss(lists, seed):
    x = np.round(normal(3, 4, seed=seed))  # whole numbers: many at the margin
    target = np.array(lists)
    leaf = torch.tensor(x, requires_grad=True)
    want = T.multilabel_margin_loss(leaf, torch.tensor(target), reduction="none")
    (slope,) = torch.autograd.grad(want.sum(), leaf)
    got, gradient = multilabel(jnp.asarray(x, jnp.float32), target)
    np.testing.assert_allclose(got, want.detach().numpy(), rtol=1e-6)
    np.testing.assert_allclose(gradient, slope.numpy(), rtol=1e-6)


def test_ids_out_of_range_are_seen_under_jit():
    x = jnp.zeros((3, 3))
    losses = jax.jit(lambda t: F.multi_margin_loss(x, t, reduction="none"))(jnp.array([0, 3, -1]))
    assert np.isnan(losses).tolist() == [False, True, True]
    lists = jnp.array([[0, -1, 0], [-1, 3, 0], [-2, 0, 0]])
    losses = jax.jit(lambda t: F.multilabel_margin_loss(x, t, reduction="none"))(lists)
    assert np.isnan(losses).tolist() == [False, True, True]


A, IDS = jnp.zeros((2, 3)), jnp.zeros(2, int)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (
            lambda: F.hinge_embedding_loss(A, A[:, :2]),
            ValueError,
            "F.hinge_embedding_loss: input and target do not match",
        ),
        (lambda: F.margin_ranking_loss(A, A, A[0]), ValueError, "differ in rank; expected equal numbers of dimensions"),
        (
            lambda: F.margin_ranking_loss(A, A[:, :2], A),
            ValueError,
            "input1 and input2 and target do not match",
        ),
        (lambda: F.margin_ranking_loss(A, A.astype(jnp.bfloat16), A), TypeError, "F.margin_ranking_loss: the dtypes"),
        (
            lambda: F.soft_margin_loss(A[:, :1], A),
            ValueError,
            r"target does not fit; .* broadcasts to \(2, 1\), got \(2, 3",
        ),
        (lambda: F.multilabel_soft_margin_loss(A[0, 0], A[0, 0]), ValueError, "input has no class dimension; expected"),
        (lambda: F.multilabel_soft_margin_loss(A, A, A[:, 0]), ValueError, "weight does not fit"),
        (lambda: F.multi_margin_loss(A, IDS, p=3), ValueError, "F.multi_margin_loss: p is not supported; .* got 3"),
        (lambda: F.multi_margin_loss(A[None], IDS), ValueError, "F.multi_margin_loss: input has the wrong shape"),
        (lambda: F.multi_margin_loss(A[:, :0], IDS), ValueError, "at least one class"),
        (
            lambda: F.multi_margin_loss(A, IDS[:1]),
            ValueError,
            r"target has the wrong shape; expected \(2,\), got \(1,\)",
        ),
        (
            lambda: F.multi_margin_loss(A[0], IDS),
            ValueError,
            r"target has the wrong shape; expected \(1,\), got \(2,\)",
        ),
        (
            lambda: F.multi_margin_loss(A, IDS + 3),
            ValueError,
            "target is out of range; expected values from 0 to 2, got values from 3 to 3",
        ),
        (lambda: F.multi_margin_loss(A, A[:, 0]), TypeError, "F.multi_margin_loss: target must hold integers"),
        (lambda: F.multi_margin_loss(A, IDS, weight=A[0, :2]), ValueError, "F.multi_margin_loss: weight has the wrong"),
        (lambda: F.multilabel_margin_loss(A, LISTS[:2]), ValueError, r"target has the wrong shape; expected \(2, 3\)"),
        (lambda: F.multilabel_margin_loss(A, LISTS[:2, :3] * 0 - 2), ValueError, "target is out of range"),
        (lambda: F.multilabel_margin_loss(A, A), TypeError, "F.multilabel_margin_loss: target must hold integers"),
    ],
)
def test_refusals(call, error, text):
    with pytest.raises(error, match=text):
        call()
