"""Draws: their frequencies, and what torch refuses."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import funcnet.torchlike as tl

WEIGHTS = jnp.array([[0.0, 1.0, 3.0, 4.0], [2.0, 2.0, 0.0, 0.0]])


def frequencies(draws: np.ndarray, classes: int) -> np.ndarray:
    return np.stack([(draws == c).mean(-1) for c in range(classes)], -1)


def test_draws_with_replacement():
    draws = tl.multinomial(WEIGHTS, 20000, True, rng=jax.random.key(0))
    assert draws.shape == torch.multinomial(torch.tensor(np.asarray(WEIGHTS)), 20000, True).shape
    np.testing.assert_allclose(frequencies(np.asarray(draws), 4), WEIGHTS / WEIGHTS.sum(1, keepdims=True), atol=0.015)


def test_draws_without_replacement():
    """The frequency of each ordered pair is the product of two draws, one after the other; torch's own agree."""
    p = np.array([0.5, 0.3, 0.2, 0.0])
    ours = np.asarray(
        tl.multinomial(jnp.asarray(p).astype(jnp.float32)[None].repeat(20000, 0), 2, rng=jax.random.key(1))
    )
    theirs = torch.multinomial(torch.tensor(p)[None].expand(20000, -1), 2).numpy()
    for first in range(3):
        for second in range(3):
            want = 0 if first == second else p[first] * p[second] / (1 - p[first])
            for drawn in (ours, theirs):
                assert abs(((drawn[:, 0] == first) & (drawn[:, 1] == second)).mean() - want) < 0.015
    assert tl.multinomial(WEIGHTS[0], 3, rng=jax.random.key(0)).shape == (3,)


def test_bernoulli():
    key, p = jax.random.key(0), jnp.full((200, 100), 0.3)
    draws = tl.bernoulli(p, rng=key)
    assert draws.dtype == p.dtype and set(np.unique(draws)) == {0, 1} and abs(draws.mean() - 0.3) < 0.01
    assert abs(tl.bernoulli(jnp.ones((200, 100), jnp.int32), 0.7, rng=key).mean() - 0.7) < 0.01
    assert not jax.grad(lambda p: tl.bernoulli(p, rng=key).sum())(p).any()
    assert jax.jit(lambda p, key: tl.bernoulli(p, rng=key))(p, key).shape == p.shape


def test_refusals():
    key = jax.random.key(0)
    for match, call in {
        "1 to C draws": lambda: tl.multinomial(WEIGHTS, 5, rng=key),
        "weights do not fit": lambda: tl.multinomial(WEIGHTS, 3, rng=key),
        "of at least 0": lambda: tl.multinomial(-WEIGHTS, 1, rng=key),
        "probabilities": lambda: tl.bernoulli(WEIGHTS, rng=key),
    }.items():
        with pytest.raises(ValueError, match=match):
            call()
    for call in (lambda: tl.multinomial(WEIGHTS, 1), lambda: tl.bernoulli(WEIGHTS > 0)):
        with pytest.raises(ValueError, match="rng=None"):
            call()
