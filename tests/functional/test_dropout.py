"""Dropout against torch's formulas, with the mask given: its random numbers cannot be had in JAX."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from funcnet import functional as F
from funcnet import random

from .oracle import normal

KEY = jax.random.key(3)
ALL = [F.dropout, F.dropout1d, F.dropout2d, F.dropout3d, F.alpha_dropout, F.feature_alpha_dropout]
SHAPES = {F.dropout1d: (4, 5, 6), F.dropout3d: (4, 5, 2, 2, 2)}


def example(function):
    return jnp.asarray(normal(*SHAPES.get(function, (4, 5, 3, 2))), jnp.float32)


@pytest.mark.parametrize(
    ("function", "shape", "mask"),
    [
        (F.dropout, (4, 5), (4, 5)),
        (F.dropout1d, (4, 5, 6), (4, 5, 1)),
        (F.dropout1d, (5, 6), (5, 1)),
        (F.dropout2d, (4, 5, 3, 2), (4, 5, 1, 1)),
        (F.dropout2d, (4, 5, 3), (4, 5, 1)),
        (F.dropout3d, (4, 5, 2, 2, 2), (4, 5, 1, 1, 1)),
        (F.dropout3d, (5, 2, 2, 2), (5, 1, 1, 1)),
    ],
)
def test_what_is_dropped_and_its_gradient(function, shape, mask):
    x = jnp.asarray(normal(*shape), jnp.float32)
    factor = random.dropout_mask(KEY, mask, 0.3).astype(jnp.float32) / 0.7
    out, pull = jax.vjp(lambda x: function(x, 0.3, rng=KEY), x)
    np.testing.assert_allclose(out, x * factor, rtol=1e-6)
    np.testing.assert_allclose(pull(jnp.ones_like(x))[0], jnp.broadcast_to(factor, shape), rtol=1e-6)


@pytest.mark.parametrize(("function", "whole"), [(F.alpha_dropout, False), (F.feature_alpha_dropout, True)])
def test_alpha_dropout_by_torchs_formula(function, whole):
    x = jnp.asarray(normal(4, 5, 6), jnp.float32)
    noise = np.asarray(random.dropout_mask(KEY, (4, 5, 1) if whole else x.shape, 0.3), np.float64)
    alpha, p = 1.7580993408473766, 0.3
    a = 1 / np.sqrt((alpha**2 * p + 1) * (1 - p))
    want = np.asarray(x) * noise * a + (noise - 1) * alpha * a + alpha * a * p
    np.testing.assert_allclose(function(x, p, True, rng=KEY), want, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(
        jax.grad(lambda x: function(x, p, True, rng=KEY).sum())(x)[..., :1], noise[..., :1] * a, rtol=1e-5
    )


def test_alpha_dropout_keeps_mean_and_variance():
    x = jnp.asarray(normal(400, 500), jnp.float32)
    out = F.alpha_dropout(x, 0.2, True, rng=KEY)
    assert abs(float(out.mean())) < 0.02 and abs(float(out.var()) - 1) < 0.02


@pytest.mark.parametrize("function", ALL)
def test_edges_of_p(function):
    x = example(function)
    theirs = getattr(torch.nn.functional, function.__name__)
    np.testing.assert_array_equal(function(x, 0.0, True), x)
    np.testing.assert_array_equal(function(x, 1.0, True), theirs(torch.tensor(np.asarray(x)), 1.0, True))
    np.testing.assert_array_equal(jax.grad(lambda x: function(x, 1.0, True).sum())(x), jnp.zeros_like(x))
    np.testing.assert_array_equal(function(x, 0.5, False), x)


@pytest.mark.parametrize("function", ALL)
def test_what_is_no_number_is_seen_though_it_is_dropped(function):
    x = jnp.full_like(example(function), jnp.nan)
    assert np.isnan(function(x, 0.5, True, rng=KEY)).all() and np.isnan(function(x, 1.0, True)).all()


@pytest.mark.parametrize("function", ALL)
def test_bfloat16_and_empty(function):
    x = example(function).astype(jnp.bfloat16)
    assert function(x, 0.5, True, rng=KEY).dtype == jnp.bfloat16
    assert function(x[:0], 0.5, True, rng=KEY).shape == x[:0].shape


@pytest.mark.parametrize("function", ALL)
def test_refusals(function):
    x = example(function)
    name = f"F.{function.__name__}"
    with pytest.raises(ValueError, match=f"{name}: p is not a probability; expected a number from 0 to 1, got 1.5"):
        function(x, 1.5)
    with pytest.raises(ValueError, match=f"{name}: the function needs randomness; expected a key, got rng=None"):
        function(x, 0.5, True)
    with pytest.raises(TypeError, match=f"{name}: input must hold floating-point numbers"):
        function(x.astype(int), 0.5, True, rng=KEY)


@pytest.mark.parametrize("kind", ["int32", "bool", "complex64"])
@pytest.mark.parametrize("function", ALL)
def test_where_nothing_is_random_any_dtype_is_taken(function, kind):
    x = example(function).astype(kind)
    theirs = getattr(torch.nn.functional, function.__name__)
    for p, training in ((0.5, False), (0.0, True), (1.0, True)):
        want = theirs(torch.tensor(np.asarray(x)), p, training).numpy()
        np.testing.assert_array_equal(function(x, p, training), want)
        assert function(x, p, training).dtype == want.dtype


def test_ranks():
    assert F.feature_alpha_dropout(jnp.ones(3)).tolist() == [1, 1, 1]  # nothing is dropped, no rank is asked for
    with pytest.raises(ValueError, match=r"F.dropout1d: input has the wrong rank"):
        F.dropout1d(jnp.ones((1, 2, 3, 4)), rng=KEY)
    with pytest.raises(ValueError, match=r"F.dropout3d: input has the wrong rank"):
        F.dropout3d(jnp.ones((1, 2, 3)), rng=KEY)
    for function in (F.dropout2d, F.feature_alpha_dropout):
        with pytest.raises(ValueError, match=f"F.{function.__name__}: input has too few dimensions"):
            function(jnp.ones(3), 0.5, True, rng=KEY)
