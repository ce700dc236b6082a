"""numpy's arrays are float64 unless told: without x64 all functions take them alike, as JAX does, for float32."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from funcnet import functional as F
from funcnet import nn

from .oracle import normal

IDS, TARGET = np.array([[0, 1, 2], [3, 1, 0]]), np.array([0, 2])
CHUNKS = nn.LinearCrossEntropyOptions()


def gru(x, h, *params):
    return F.gru(x, h, params, True, 1, 0.0, False, False, False)


def lstm(x, h, c, *params):
    return F.lstm(x, (h, c), params, True, 1, 0.0, False, False, False)


def attention(x, w, b, out, c, k, v, mask):
    return F.multi_head_attention_forward(x, x, x, 4, 2, w, b, k, v, False, 0.0, out, c, attn_mask=mask)


CALLS = {
    "conv1d": (F.conv1d, (1, 2, 6), (4, 2, 3), (4,)),
    "conv1d of a pixel": (F.conv1d, (1, 2, 6), (4, 2, 1), (4,)),
    "conv_tbc": (F.conv_tbc, (5, 2, 3), (2, 3, 4), (4,)),
    "conv_transpose1d": (lambda *a: F.conv_transpose1d(*a, stride=2), (1, 2, 6), (2, 4, 3), (4,)),
    "linear": (F.linear, (2, 3), (4, 3), (4,)),
    "bilinear": (F.bilinear, (2, 3), (2, 4), (5, 3, 4), (5,)),
    "linear_cross_entropy": (
        lambda x, w, b, c: F.linear_cross_entropy(x, w, TARGET, linear_bias=b, weight=c),
        *((2, 3), (4, 3), (4,), (4,)),
    ),
    "linear_cross_entropy in chunks": (
        lambda x, w, b: F.linear_cross_entropy(x, w, TARGET, linear_bias=b, options=CHUNKS),
        *((2, 3), (4, 3), (4,)),
    ),
    "multi_head_attention": (attention, (3, 2, 4), (12, 4), (12,), (4, 4), (4,), (1, 1, 4), (1, 1, 4), (3, 3)),
    "gru_cell": (F.gru_cell, (2, 3), (2, 4), (12, 3), (12, 4), (12,), (12,)),
    "gru": (gru, (5, 2, 3), (1, 2, 4), (12, 3), (12, 4), (12,), (12,)),
    "lstm": (lstm, (5, 2, 3), (1, 2, 4), (1, 2, 4), (16, 3), (16, 4), (16,), (16,)),
    "embedding_bag": (lambda w, f: F.embedding_bag(IDS, w, mode="sum", per_sample_weights=f), (4, 3), (2, 3)),
    "batch_norm": (lambda *a: F.batch_norm(*a, training=True), (2, 4, 3), (4,), (4,), (4,), (4,)),
    "batch_norm, evaluated": (lambda x, m: F.batch_norm(x, m, m * m), (2, 4, 3), (4,)),
    "instance_norm": (F.instance_norm, (2, 4, 3), (4,), (4,), (4,), (4,)),
}


@pytest.fixture(scope="module")
def computed():
    def run(convert):
        made = {
            name: [normal(*shape, seed=i) for i, shape in enumerate(shapes)] for name, (_, *shapes) in CALLS.items()
        }
        return jax.jit(lambda: {name: CALLS[name][0](*map(convert, arrays)) for name, arrays in made.items()})()

    return run(np.asarray), run(jnp.asarray)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", CALLS)
def test_float64_is_float32(name, computed):
    got, want = (jax.tree.leaves(side[name]) for side in computed)
    for a, b in zip(got, want, strict=True):
        assert a.dtype == b.dtype == jnp.float32
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
