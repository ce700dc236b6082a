"""Dropout with a traced rate drops what the same number in float32 drops, and scales alike up to rounding."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from funcnet import functional as F
from funcnet import nn, random

RATES = [0.0, 0.1, 0.5, 0.9, 1.0]
KEY = jax.random.key(3)
FUNCTIONS = [F.dropout, F.dropout1d, F.dropout2d, F.dropout3d, F.alpha_dropout, F.feature_alpha_dropout]


def single(rate):
    """The float32 number that a traced rate has."""
    return float(np.float32(rate))


@pytest.mark.parametrize("rate", RATES)
def test_masks_are_the_same(rate):
    expected = random.dropout_mask(KEY, (40, 50), single(rate))
    np.testing.assert_array_equal(jax.jit(lambda rate: random.dropout_mask(KEY, (40, 50), rate))(rate), expected)


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16])
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda one: one.__name__)
def test_outputs_and_gradients(function, dtype):
    shape = (6, 8, 10) if function is F.dropout1d else (6, 8, 3, 4, 2)[: 5 if function is F.dropout3d else 4]
    x = jax.random.normal(KEY, shape, dtype)
    drop = functools.partial(function, training=True, rng=KEY)
    both = lambda x, rate: jax.value_and_grad(lambda x: (drop(x, rate) ** 2).sum().astype(jnp.float32))(x)
    tolerance = {"float32": 1e-6, "bfloat16": 0.02}[x.dtype.name]
    for rate in (*RATES, 0.15, 0.45, 0.85):
        traced, fixed = jax.jit(both)(x, rate), jax.jit(functools.partial(both, rate=single(rate)))(x)
        for ours, theirs in zip(traced, fixed, strict=True):
            scale = np.abs(np.asarray(theirs, np.float32)).max()
            np.testing.assert_allclose(
                np.asarray(ours, np.float32), np.asarray(theirs, np.float32), rtol=0, atol=tolerance * scale
            )


class Model(nn.Module):
    """All layers that have a dropout rate."""

    def __init__(self, rate):
        super().__init__()
        self.drop, self.alpha = nn.Dropout(rate), nn.AlphaDropout(rate)
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, rate, batch_first=True)
        self.rnn = nn.GRU(8, 8, 2, dropout=rate, batch_first=True)

    def forward(self, x):
        return self.rnn(self.layer(self.alpha(self.drop(x))))[0]


@pytest.mark.slow
def test_a_net_for_each_rate_in_one_program():
    params, state = Model(0.5).init(KEY)
    x, rates = jax.random.normal(KEY, (3, 5, 8)), np.array([0.1, 0.25, 0.5], np.float32)

    def run(rate):
        return Model(rate).apply(params, state, x, training=True, rng=KEY)[0]

    for rate, out in zip(rates, jax.jit(jax.vmap(run))(rates), strict=True):
        np.testing.assert_allclose(out, run(float(rate)), atol=1e-6)
        evaluated = jax.jit(lambda rate: Model(rate).apply(params, state, x)[0])(rate)
        np.testing.assert_allclose(evaluated, Model(0.5).apply(params, state, x)[0], atol=1e-6)


def test_attention_in_blocks_needs_a_number():
    x = jnp.ones((1, 2, 8, 4))
    run = lambda rate: F.scaled_dot_product_attention(x, x, x, dropout_p=rate, rng=KEY, block_size=4)
    with pytest.raises(
        TypeError, match=r"dropout_p is traced; expected a Python float for attention in blocks or over"
    ):
        jax.jit(run)(0.1)


def test_a_traced_rate_needs_a_key():
    with pytest.raises(ValueError, match="rng"):
        jax.jit(lambda rate: nn.Dropout(rate).apply({}, {}, jnp.ones(3), training=True)[0])(0.1)
