"""Softmax, log_softmax, softmin and gumbel_softmax against torch."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
import torch.nn.functional as T

from funcnet import functional as F

from .oracle import agrees, normal

KEY = jax.random.key(0)
PAIRS = {name: (getattr(F, name), getattr(T, name)) for name in ("softmax", "log_softmax", "softmin")}
every_one = pytest.mark.parametrize("name", PAIRS)


@pytest.mark.parametrize(("shape", "dim"), [((), 0), ((2, 3), -1), ((2, 3, 4), 1), ((0, 3), -1), ((2, 0), 1)])
def test_value_and_gradient(shape, dim):
    ours = lambda x: jnp.stack([function(x, dim) for function, _ in PAIRS.values()])
    theirs = lambda x: torch.stack([function(x, dim) for _, function in PAIRS.values()])
    agrees(ours, theirs, 3 * normal(*shape))


@pytest.mark.filterwarnings("ignore:Implicit dimension")
@pytest.mark.parametrize("shape", [(3,), (3, 4), (2, 3, 4), (2, 3, 4, 5)])
def test_without_a_dimension_it_follows_the_old_rule(shape):
    x = normal(*shape).astype(np.float32)
    np.testing.assert_allclose(F.softmax(x), T.softmax(torch.tensor(x)), rtol=1e-6)


def test_large_numbers_and_nothing_at_all():
    x = np.array([1e4, 1e4 + 1, -np.inf])
    ours = lambda x: jnp.stack([F.log_softmax(x, 0), F.softmin(-x, 0)])
    agrees(ours, lambda x: torch.stack([T.log_softmax(x, 0), T.softmin(-x, 0)]), x)
    assert np.isnan(F.softmax(jnp.full(3, -jnp.inf), 0)).all()


def test_bfloat16_sums_in_float32():
    out = F.softmax(jnp.zeros(3000, jnp.bfloat16), 0)
    assert out.dtype == jnp.bfloat16 and abs(float(out[0]) * 3000 - 1) < 2**-8
    assert F.softmax(jnp.zeros(3, jnp.bfloat16), 0, dtype=jnp.float32).dtype == jnp.float32


@every_one
def test_a_dtype_converts_first(name):
    ours, theirs = PAIRS[name]
    x = np.array([[1, 2, 250], [0, 3, 3]], np.uint8)
    got = ours(jnp.asarray(x), 1, dtype=jnp.float32)
    np.testing.assert_allclose(got, theirs(torch.tensor(x), 1, dtype=torch.float32), rtol=1e-6)
    assert ours(jnp.asarray(x), 1, dtype=jnp.bfloat16).dtype == jnp.bfloat16


@pytest.mark.parametrize(
    ("shape", "dim", "tau", "hard"), [((2, 3, 4), -1, 1, False), ((2, 3), 0, 0.5, True), ((), -1, 2, True)]
)
def test_gumbel_softmax_with_torchs_noise_is_torchs(shape, dim, tau, hard, monkeypatch):
    logits = normal(*shape).astype(np.float32)
    torch.manual_seed(0)
    noise = -torch.empty(shape).exponential_().log().numpy()
    monkeypatch.setattr(jax.random, "gumbel", lambda key, shape, dtype: jnp.asarray(noise, dtype))
    cotangent = normal(*shape, seed=1).astype(np.float32)

    torch.manual_seed(0)
    leaf = torch.tensor(logits, requires_grad=True)
    want = T.gumbel_softmax(leaf, tau, hard, dim=dim)
    want.backward(torch.tensor(cotangent))
    got, pull = jax.vjp(lambda x: F.gumbel_softmax(x, tau, hard, dim=dim, rng=KEY), jnp.asarray(logits))
    np.testing.assert_allclose(got, want.detach(), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(pull(jnp.asarray(cotangent))[0], leaf.grad, rtol=1e-5, atol=1e-6)


def test_hard_gumbel_draws_fall_as_softmax_says():
    logits = jnp.log(jnp.array([0.1, 0.2, 0.7]))
    draws = F.gumbel_softmax(jnp.broadcast_to(logits, (20000, 3)), hard=True, rng=KEY)
    assert np.array_equal(draws.round(6).sum(1), np.ones(20000)) and set(np.unique(draws.round(6))) == {0, 1}
    np.testing.assert_allclose(draws.mean(0), [0.1, 0.2, 0.7], atol=0.015)
    assert F.gumbel_softmax(logits.astype(jnp.bfloat16), rng=KEY).dtype == jnp.bfloat16


def test_eps_has_no_effect_and_says_so():
    with pytest.warns(DeprecationWarning, match=r"F.gumbel_softmax: eps has no effect"):
        got = F.gumbel_softmax(jnp.ones(3), eps=1e-3, rng=KEY)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(got, F.gumbel_softmax(jnp.ones(3), rng=KEY))


def test_refusals():
    for function, name in ((F.softmax, "softmax"), (F.softmin, "softmin"), (F.log_softmax, "log_softmax")):
        with pytest.raises(ValueError, match=f"F.{name}: dim is out of range; expected -1 to 0, got 1"):
            function(jnp.ones(2), 1)
        with pytest.raises(TypeError, match=f"F.{name}: input must hold floating-point numbers"):
            function(jnp.ones(2, int), 0)
    with pytest.raises(TypeError, match=r"F.softmin: input must hold numbers"):
        F.softmin(jnp.ones(2) > 0, 0, dtype=jnp.float32)
    with pytest.raises(ValueError, match=r"F.gumbel_softmax: dim is out of range; expected -1 to 0, got 5"):
        F.gumbel_softmax(jnp.ones(2), dim=5, rng=KEY)
    with pytest.raises(ValueError, match=r"F.gumbel_softmax: the function needs randomness; expected a key"):
        F.gumbel_softmax(jnp.ones(2))
    with pytest.raises(TypeError, match=r"F.gumbel_softmax: logits must hold floating-point numbers"):
        F.gumbel_softmax(jnp.ones(2, int), rng=KEY)
