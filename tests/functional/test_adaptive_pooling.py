"""Adaptive pooling against torch: uneven bins, ties, NaN in the last entry of a short bin."""

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

from .oracle import agrees, as_near_as_torch, integers, normal

SHAPES = {1: (2, 3, 11), 2: (2, 3, 7, 10), 3: (1, 2, 5, 6, 7)}
SIZES = [(1, 4), (1, 11), (1, 13), (2, 1), (2, (3, 5)), (2, (None, 2)), (2, (7, 20)), (3, (2, 4, 7))]


def both(name, **options):
    return tuple(lambda x, lib=lib: getattr(lib, name)(x, **options) for lib in (F, T))


@pytest.mark.parametrize(("ndim", "size"), SIZES)
def test_adaptive_avg_pool(ndim, size):
    agrees(*both(f"adaptive_avg_pool{ndim}d", output_size=size), normal(*SHAPES[ndim]))


@pytest.mark.parametrize(("ndim", "size"), [(1, 3), *SIZES])
def test_adaptive_max_pool_where_bins_tie_or_hold_nan_or_infinity(ndim, size):
    x = integers(0, 3, *SHAPES[ndim]).astype(np.float32)
    x[0, 0][x[0, 0] == 1] = np.nan
    x[0, 0].flat[-1] = np.nan
    x[0, 1] = -np.inf
    ours, theirs = both(f"adaptive_max_pool{ndim}d", output_size=size, return_indices=True)
    tensor = torch.tensor(x, requires_grad=True)
    expected, places = theirs(tensor)
    cotangent = normal(*expected.shape).astype(np.float32)
    (gradient,) = torch.autograd.grad(expected, tensor, torch.tensor(cotangent))

    def run(x):
        y, pull, indices = jax.vjp(ours, x, has_aux=True)
        return y, indices, pull(jnp.asarray(cotangent))[0]

    y, indices, pulled = jax.jit(run)(x)
    np.testing.assert_array_equal(y, expected.detach())
    np.testing.assert_array_equal(indices, places)
    np.testing.assert_allclose(pulled, gradient, rtol=0, atol=3e-6)


@pytest.mark.parametrize("kind", ["avg", "max"])
def test_nothing_in_and_nothing_out(kind):
    pool, theirs = both(f"adaptive_{kind}_pool2d", output_size=(0, 2))
    assert pool(jnp.ones((1, 3, 5, 4))).shape == theirs(torch.ones(1, 3, 5, 4)).shape == (1, 3, 0, 2)
    agrees(*both(f"adaptive_{kind}_pool2d", output_size=2), normal(0, 3, 4, 5), dtypes=(np.float32,))
    agrees(*both(f"adaptive_{kind}_pool2d", output_size=2), normal(3, 4, 5), dtypes=(np.float32,))


@pytest.mark.slow
@pytest.mark.parametrize("size", [2, 3])
def test_derivatives_of_derivatives(size):
    with jax.enable_x64(True):
        x = jnp.asarray(normal(1, 5, 6))
        for pool in (F.adaptive_avg_pool2d, F.adaptive_max_pool2d):
            smooth = jax.jit(lambda x, pool=pool: pool(x**3, (size, 2)))
            check_grads(smooth, (x,), order=2, modes=("fwd", "rev"), eps=1e-3, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("two", [np.int64(2), np.array(2), (np.int64(2), 2), np.array([2, 2]), jnp.array(2)], ids=repr)
def test_anything_with_an_index_is_a_size(two):
    x = jnp.ones((1, 3, 8, 8))
    for pool in (F.adaptive_avg_pool2d, F.adaptive_max_pool2d):
        assert jax.eval_shape(lambda x, pool=pool: pool(x, two), x).shape == (1, 3, 2, 2)
        assert jax.eval_shape(lambda x, pool=pool: pool(x, (None, np.int64(2))), x).shape == (1, 3, 8, 2)


def test_bfloat16_sums_in_float32():
    out = F.adaptive_avg_pool2d(jnp.ones((1, 20, 20), jnp.bfloat16), 1)
    assert out.dtype == jnp.bfloat16 and out.item() == 1


X = jnp.zeros((1, 3, 5, 5))


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: F.adaptive_avg_pool2d(X, 2.5), TypeError, "output_size is not an integer; expected int, got 2.5"),
        (lambda: F.adaptive_avg_pool2d(X, (1, 2, 3)), ValueError, "output_size is invalid; expected 2 sizes"),
        (lambda: F.adaptive_max_pool3d(X, -1), ValueError, "F.adaptive_max_pool3d: output_size is invalid"),
        (lambda: F.adaptive_max_pool1d(X, 1), ValueError, "F.adaptive_max_pool1d: input has the wrong shape"),
        (lambda: F.adaptive_max_pool2d(X[..., :0], 1), ValueError, "no spatial size of 0"),
        (lambda: F.adaptive_avg_pool2d(X[:, :0], 1), ValueError, "F.adaptive_avg_pool2d: input has no channels"),
        (lambda: F.adaptive_max_pool2d(X.astype(int), 1), TypeError, "input must hold floating-point numbers"),
    ],
)
def test_refusals(call, error, text):
    with pytest.raises(error, match=text):
        call()


@functools.cache
def compared(name, size):
    return both(name, output_size=size)


@pytest.mark.slow
@given(
    st.sampled_from(["adaptive_avg_pool2d", "adaptive_max_pool2d"]),
    st.sampled_from([(1, 1), (2, 3), (3, 4), (1, 7)]),
    st.tuples(*[st.sampled_from([None, 1, 2, 3, 4, 7])] * 2),
    st.lists(st.integers(-2, 2), min_size=12, max_size=12),
)
def test_hypothesis_bins_and_ties(name, shape, size, entries):
    x = np.resize(np.array(entries, np.float32), (2, *shape))
    as_near_as_torch(*compared(name, size), x)
