"""Distances against torch: equal rows, norms below eps, ties, and every kind of p."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
import torch.nn.functional as T
from hypothesis import given
from hypothesis import strategies as st
from jax.test_util import check_grads

from funcnet import functional as F
from funcnet.functional.vector_norm import vector_norm

from .oracle import agrees, as_near_as_torch, normal

INF = float("inf")
POWERS = [2.0, INF, 1.0, 0.0, 0.5, 1.5, 3.0]
# Among them equal rows, rows that differ in one entry, and ties of the largest difference.
ROWS = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, -1.0], [1.0, 0.0, -1.0], [0.0, 2.0, 2.0], [0.5, -1.0, 2.0]])


@pytest.mark.parametrize("p", POWERS)
def test_pdist_with_equal_rows(p):
    agrees(lambda x: F.pdist(x, p), lambda x: T.pdist(x, p), ROWS)


def test_pdist_of_few_rows_or_columns():
    for shape in ((0, 3), (1, 3), (3, 0)):
        np.testing.assert_array_equal(F.pdist(jnp.zeros(shape)), T.pdist(torch.zeros(shape)))


@pytest.mark.parametrize("p", [*POWERS, -INF, -1.0])
def test_pairwise_distance_of_equal_vectors_too(p):
    """With eps = 0, so that the difference is a zero vector or has zeros in it."""
    others = np.roll(ROWS, 1, 0)
    for keepdim in (False, True):
        ours, theirs = (
            lambda x, y, lib=lib, keepdim=keepdim: lib.pairwise_distance(x, y, p, 0.0, keepdim) for lib in (F, T)
        )
        agrees(ours, theirs, ROWS[:4], np.concatenate([ROWS[:1], others[1:4]]), dtypes=(np.float64,))
    agrees(
        lambda x, y: F.pairwise_distance(x, y, p), lambda x, y: T.pairwise_distance(x, y, p), normal(2, 4, 3), normal(3)
    )


@pytest.mark.slow
@pytest.mark.parametrize("p", [4.0, 3.0, 0.5, -2.0])
def test_norms_of_numbers_whose_powers_float32_does_not_have(p):
    """Torch's float32 gives 0 or infinity here, so its float64 judges."""
    x = np.array([[1.0, -2.0, 3.0], [0.0, 1.0, 1e-3], [0.0, 0.0, 0.0]], np.float32)
    for scale in np.float32([1e-30, 1e-12, 1.0, 1e12, 1e30]):
        rows = x * scale
        leaf = torch.tensor(rows).double().requires_grad_()
        want = torch.linalg.vector_norm(leaf, p, dim=-1)
        (slope,) = torch.autograd.grad(want[0], leaf)  # at zeros torch's is NaN for some p
        got, pull = jax.vjp(lambda x: vector_norm(x, p, -1)[:, 0], rows)
        np.testing.assert_allclose(got / scale, want.detach().numpy() / scale, rtol=3e-6)
        np.testing.assert_allclose(pull(jnp.array([1.0, 0.0, 0.0]))[0][0], slope[0], rtol=3e-6)
    assert vector_norm(jnp.zeros((2, 0)), 3.0, -1).tolist() == [[0.0], [0.0]]


@pytest.mark.parametrize("dim", [1, 0, -1])
def test_cosine_similarity_broadcasts(dim):
    ours, theirs = (lambda x, y, lib=lib: lib.cosine_similarity(x, y, dim) for lib in (F, T))
    agrees(ours, theirs, normal(2, 3, 4), normal(3, 1, seed=1))


@pytest.mark.slow
def test_cosine_similarity_of_vectors_shorter_than_eps_and_of_scalars():
    """Its gradient is not cut off, and of a zero vector it is finite."""
    x = np.array([[0.3, 0.4], [0.0, 0.0], [3.0, 4.0]])
    for eps in (1e-8, 1.0):
        ours, theirs = (lambda x, y, lib=lib, eps=eps: lib.cosine_similarity(x, y, 1, eps) for lib in (F, T))
        agrees(ours, theirs, x, normal(3, 2))
    agrees(*(lambda x, y, lib=lib: lib.cosine_similarity(x, y, 0) for lib in (F, T)), np.array(2.0), np.array(-3.0))


def test_bfloat16_sums_in_float32():
    x = jnp.ones((1, 1000), jnp.bfloat16)
    for out, expected in ((F.cosine_similarity(x, x), 1), (F.pairwise_distance(x, -x, 1.0, 0.0), 2000)):
        assert out.dtype == jnp.bfloat16 and out.item() == expected
    assert F.pdist(jnp.concatenate([x, -x]), 1.0).item() == 2000


@pytest.mark.slow
@pytest.mark.parametrize("p", [1.5, 2.0, 3.0, INF])
def test_derivatives_of_derivatives(p):
    with jax.enable_x64(True):
        x = jnp.asarray(normal(3, 4))
        for function in (lambda x: F.pairwise_distance(x, x[::-1] ** 2, p), lambda x: F.pdist(x, p)):
            check_grads(jax.jit(function), (x,), order=2, modes=("fwd", "rev"), eps=1e-4, rtol=1e-4, atol=1e-4)
        cosine = jax.jit(lambda x: F.cosine_similarity(x, x[::-1] ** 2))
        check_grads(cosine, (x,), order=2, modes=("fwd", "rev"), eps=1e-4, rtol=1e-4, atol=1e-4)


def test_the_largest_entry_is_nan_among_thousands():
    x = jnp.asarray(np.where(np.arange(9000).reshape(300, 30) % 1000 == 7, np.nan, 1), jnp.float32)
    norms = jax.jit(lambda x: vector_norm(x, INF, -1))(x)
    np.testing.assert_array_equal(norms[:, 0], np.abs(np.asarray(x)).max(-1))


X = jnp.ones((2, 3))


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: F.cosine_similarity(X, X[:, :2]), ValueError, "F.cosine_similarity: the shapes do not broadcast"),
        (lambda: F.cosine_similarity(X, X, 2), ValueError, "dim is out of range; expected -2 to 1, got 2"),
        (lambda: F.cosine_similarity(X, X.astype(jnp.bfloat16)), TypeError, "F.cosine_similarity: the dtypes differ"),
        (lambda: F.pairwise_distance(X, X.astype(int)), TypeError, "F.pairwise_distance: x2 must hold floating-point"),
        (lambda: F.pairwise_distance(X[0, 0], X[0, 0]), ValueError, "F.pairwise_distance: the inputs are scalars"),
        (lambda: F.pdist(X[0]), ValueError, r"F.pdist: input has the wrong rank; expected \(N, D\), got \(3,\)"),
        (lambda: F.pdist(X, -1.0), ValueError, "F.pdist: p is negative; expected at least 0, got -1.0"),
        (lambda: F.pdist(X.astype(int)), TypeError, "F.pdist: input must hold floating-point numbers"),
    ],
)
def test_refusals(call, error, text):
    with pytest.raises(error, match=text):
        call()


DISTANCES = {
    "pairwise_distance": [{"p": p, "eps": eps} for p in (2.0, 1.0, 3.0, INF) for eps in (1e-6, 0.0)],
    "cosine_similarity": [{}, {"dim": 0, "eps": 1e-3}],
    "pdist": [{"p": p} for p in (2.0, 1.0, 3.0, INF)],
}


@functools.cache
def both(name, number):
    """(ours, torch's), the same functions at each call."""
    return tuple(lambda *x, lib=lib: getattr(lib, name)(*x, **DISTANCES[name][number]) for lib in (F, T))


@pytest.mark.slow
@given(
    st.sampled_from([(name, i) for name, options in DISTANCES.items() for i in range(len(options))]),
    st.lists(st.integers(-2, 2), min_size=24, max_size=24),
    st.integers(-12, 12),
)
def test_hypothesis_vectors_that_meet(case, entries, exponent):
    """Small whole numbers: vectors of zeros, equal ones, ties of the largest entry; of any size."""
    x, y = np.array(entries, np.float32).reshape(2, 4, 3) * 10.0**exponent
    as_near_as_torch(*both(*case), *((x,) if case[0] == "pdist" else (x, y)))
