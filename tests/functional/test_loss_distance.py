"""Losses of distances, beside torch's."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
import torch.nn.functional as T

from funcnet import functional as F
from funcnet import nn

from .oracle import agrees, agrees_reduced, normal

A, P, N = (normal(4, 3, seed=seed) for seed in range(3))


def test_cosine_embedding_loss():
    """Also a vector of zeros, and a label that is neither 1 nor -1."""
    zero = A.copy()
    zero[1] = 0
    both = lambda lib: lambda x, y, t, **kw: lib.cosine_embedding_loss(x, y, t, margin=0.25, **kw)
    agrees_reduced(both(F), both(T), zero, P, np.array([1, 1, -1, 0], np.int32))
    agrees(both(F), both(T), A[0], P[0], np.array(-1.0), dtypes=(np.float64,))
    agrees(both(F), both(T), A, P[:1], np.ones(1, np.int32), dtypes=(np.float64,))


def test_cosine_of_long_vectors_does_not_overflow():
    """torch: 1 for any pair, as its product of squares is infinite."""
    long = jnp.array([[1e15, 0.0], [1e15, 1e15]])
    losses = F.cosine_embedding_loss(long, long[:1], jnp.array([1, 1]), reduction="none")
    np.testing.assert_allclose(losses, [0, 1 - np.sqrt(0.5)], atol=1e-6)


@pytest.mark.parametrize(
    "options",
    [{}, {"swap": True, "p": 1, "margin": 2.5}, {"p": 3.0, "eps": 0.1}, {"p": float("inf"), "margin": 3.0}],
    ids=str,
)
def test_triplet_margin_loss(options):
    """An anchor that is its positive, and one with equal distances, among them."""
    positive, negative = P.copy(), N.copy()
    positive[0], negative[1] = A[0], positive[1]
    both = lambda lib: lambda *a, **kw: lib.triplet_margin_loss(*a, **options, **kw)
    agrees_reduced(both(F), both(T), A, positive, negative)


@pytest.mark.slow
def test_triplet_margin_loss_broadcasts():
    both = lambda lib: lambda *a: lib.triplet_margin_loss(*a, reduction="none")
    agrees(both(F), both(T), A[None], P[None, :1], N[None], dtypes=(np.float64,))
    agrees(both(F), both(T), A[0], P[0], N[0], dtypes=(np.float64,))


def test_triplet_margin_with_distance_loss():
    agrees_reduced(F.triplet_margin_with_distance_loss, T.triplet_margin_with_distance_loss, A, P, N)
    options = {"margin": 3.0, "swap": True}
    squares = lambda x, y: ((x - y) ** 2).sum(-1)
    both = lambda lib: (
        lambda *a, **kw: lib.triplet_margin_with_distance_loss(*a, distance_function=squares, **options, **kw)
    )
    agrees_reduced(both(F), both(T), A, P, N)


def test_a_distance_may_be_a_module_with_params():
    """It is a submodule: its params are in the loss's, under torch's names."""

    def build(nn):
        class Learned(nn.Module):
            def __init__(self):
                super().__init__()
                self.scale = nn.Linear(3, 2)

            def forward(self, x, y):
                return ((self.scale(x) - self.scale(y)) ** 2).sum(-1)

        return nn.TripletMarginWithDistanceLoss(distance_function=Learned(), margin=2.0)

    torch.manual_seed(0)
    ours, theirs = build(nn), build(torch.nn)
    assert repr(ours) == repr(theirs)
    params, state = ours.load_state_dict(theirs.state_dict())
    arrays = [jnp.asarray(a, jnp.float32) for a in (A, P, N)]
    loss = lambda params: ours.apply(params, state, *arrays)[0]
    value, gradient = jax.value_and_grad(loss)(params)
    expected = theirs(*(torch.tensor(a).float() for a in (A, P, N)))
    expected.backward()
    np.testing.assert_allclose(value, expected.item(), rtol=1e-6)
    slope = theirs.distance_function.scale.weight.grad.numpy()
    np.testing.assert_allclose(gradient["distance_function"]["scale"]["weight"], slope, rtol=1e-5, atol=1e-6)


X = jnp.zeros((2, 3))


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (
            lambda: F.cosine_embedding_loss(X, X, X),
            ValueError,
            r"the ranks do not match; .* got \(2, 3\), \(2, 3\) and \(2",
        ),
        (
            lambda: F.cosine_embedding_loss(X[0], X[0], X[0]),
            ValueError,
            "F.cosine_embedding_loss: the ranks do not match",
        ),
        (lambda: F.cosine_embedding_loss(X, X[:, :2], X[:, 0]), ValueError, "input1 and input2 do not match"),
        (lambda: F.cosine_embedding_loss(X, X, jnp.ones(3)), ValueError, "inputs and target do not match"),
        (lambda: F.cosine_embedding_loss(X, X.astype(jnp.float16), X[:, 0]), TypeError, "the dtypes differ"),
        (lambda: F.triplet_margin_loss(X, X, X, margin=0), ValueError, "F.triplet_margin_loss: margin is not positive"),
        (
            lambda: F.triplet_margin_loss(X, X[0], X),
            ValueError,
            r"differ in rank; .* got anchor \(2, 3\), positive \(3,",
        ),
        (lambda: F.triplet_margin_loss(X, X[:, :2], X), ValueError, "anchor and positive and negative do not match"),
        (
            lambda: F.triplet_margin_with_distance_loss(X, X, X, margin=-1.0),
            ValueError,
            "F.triplet_margin_with_distance_loss: margin is not positive; expected more than 0, got -1.0",
        ),
    ],
)
def test_refusals(call, error, text):
    with pytest.raises(error, match=text):
        call()
