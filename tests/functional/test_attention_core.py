"""The core that every attention shares. Parity with torch is in test_attention.py and test_multi_head_attention.py."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from funcnet.functional.attention_core import attend, masked_softmax
from funcnet.functional.dropout import dropout

from .oracle import normal


def heads():
    """query (B, H, L, E), key (B, H, S, E) and value (B, H, S, V)."""
    return [jnp.asarray(normal(2, 3, *s, seed=i), jnp.float32) for i, s in enumerate(((5, 4), (6, 4), (6, 7)))]


def by_hand(query, key, value, *added, scale=0.5):
    scores = np.einsum("bhqe,bhke->bhqk", *(np.asarray(x, np.float64) for x in (query, key))) * scale
    exponentials = np.exp(sum(map(np.asarray, added), scores))
    weights = exponentials / exponentials.sum(-1, keepdims=True)
    return np.einsum("bhqk,bhke->bhqe", weights, value), weights


@pytest.mark.parametrize("scale", [None, 0.3])
@pytest.mark.parametrize("hidden_row", [None, 0.0, float("nan")])
@pytest.mark.parametrize("terms", [0, 1, 2])
def test_against_numpy(scale, hidden_row, terms):
    arrays = heads()
    added = [jnp.asarray(normal(2, 3, 5, 6, seed=9), jnp.float32), jnp.asarray(normal(5, 6, seed=8), jnp.float32)][
        :terms
    ]
    out, weights = attend(*arrays, *added, scale=scale, hidden_row=hidden_row)
    expected = by_hand(*arrays, *added, scale=0.5 if scale is None else scale)
    np.testing.assert_allclose(out, expected[0], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(weights, expected[1], rtol=1e-5, atol=1e-6)


def test_the_two_layouts_agree():
    arrays, turn = heads(), lambda x: x.swapaxes(1, 2)
    added = jnp.asarray(normal(2, 1, 1, 6), jnp.float32)
    first = attend(*arrays, added)
    last = attend(*map(turn, arrays), added, heads_last=True)
    np.testing.assert_allclose(turn(last[0]), first[0], rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(last[1], first[1], rtol=1e-6, atol=1e-6)


@pytest.mark.slow
def test_a_row_that_is_hidden():
    arrays = heads()
    hidden = jnp.zeros((5, 6)).at[2].set(-jnp.inf)
    zero, nothing = (attend(*arrays, hidden, hidden_row=row)[0][:, :, 2] for row in (0.0, float("nan")))
    assert (zero == 0).all() and jnp.isnan(nothing).all()
    finite = jnp.maximum(hidden, jnp.finfo(jnp.float32).min)
    np.testing.assert_allclose(attend(*arrays, finite)[0][:, :, 2], arrays[2].mean(2), rtol=1e-5, atol=1e-6)
    grads = jax.grad(lambda *a: attend(*a, hidden, hidden_row=0.0)[0].sum(), argnums=(0, 1, 2))(*arrays)
    assert all(jnp.isfinite(g).all() for g in grads) and (grads[0][:, :, 2] == 0).all()


def test_dropout_comes_before_the_values():
    arrays = heads()
    drop = functools.partial(dropout, p=0.5, rng=jax.random.key(0))
    out, weights = attend(*arrays, dropout=drop)
    np.testing.assert_array_equal(weights, drop(attend(*arrays)[1]))
    np.testing.assert_allclose(out, weights @ arrays[2], rtol=1e-5, atol=1e-6)


def test_dtypes():
    arrays = [x.astype(jnp.bfloat16) for x in heads()]
    out, weights = attend(*arrays)
    assert out.dtype == jnp.bfloat16 and weights.dtype == jnp.float32
    out, weights = attend(*arrays, dtype=jnp.bfloat16)
    assert out.dtype == jnp.bfloat16 and weights.dtype == jnp.bfloat16


def test_masked_softmax_is_softmax_where_something_is_shown():
    scores = jnp.asarray(normal(4, 6), jnp.float32).at[1, 2:].set(-jnp.inf)
    for row in (0.0, float("nan")):
        np.testing.assert_allclose(masked_softmax(scores, row), jax.nn.softmax(scores), rtol=1e-6)
    move = jnp.asarray(normal(4, 6, seed=1), jnp.float32)
    ours, theirs = (
        jax.jvp(f, (scores,), (move,))[1] for f in (functools.partial(masked_softmax, hidden_row=0.0), jax.nn.softmax)
    )
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
