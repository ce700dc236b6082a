"""Dropout layers with torch's own masks, and the share that they drop."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import funcnet.random
from funcnet import nn
from tests.layers.near import near

KEY = jax.random.key(0)

DROPPED = [
    ("Dropout", (6, 40), (6, 40)),
    ("Dropout1d", (6, 20, 4), (6, 20, 1)),
    ("Dropout2d", (6, 20, 2, 2), (6, 20, 1, 1)),
    ("Dropout3d", (6, 20, 2, 2, 1), (6, 20, 1, 1, 1)),
    ("AlphaDropout", (6, 40), (6, 40)),
    ("FeatureAlphaDropout", (6, 20, 4), (6, 20, 1)),
]


@pytest.mark.parametrize(("kind", "shape", "mask_shape"), DROPPED, ids=[kind for kind, *_ in DROPPED])
def test_dropout_with_torchs_mask_is_torchs(kind, shape, mask_shape, monkeypatch):
    """torch's own draw, read off its output, in place of ours."""
    random = np.random.default_rng(0)
    x, cotangent = (random.normal(size=shape).astype(np.float32) for _ in range(2))
    torch.manual_seed(0)
    leaf = torch.tensor(x, requires_grad=True)
    expected = getattr(torch.nn, kind)(0.3)(leaf)
    (gradient,) = torch.autograd.grad(expected, leaf, torch.tensor(cotangent))
    kept = gradient.numpy() != 0
    mask = kept[tuple(slice(None, n) for n in mask_shape)]
    assert np.array_equal(np.broadcast_to(mask, shape), kept) and 0 < mask.mean() < 1
    asked = []

    def draw(key, shape, rate):
        asked.append((tuple(shape), rate))
        return jnp.asarray(mask).reshape(shape)

    monkeypatch.setattr(funcnet.random, "dropout_mask", draw)
    net = getattr(nn, kind)(0.3)
    out, pull = jax.vjp(lambda x: net.apply({}, {}, x, training=True, rng=KEY)[0], x)
    assert len(asked) == 1 and np.prod(asked[0][0]) == mask.size and asked[0][1] == 0.3
    near(out, expected.detach().numpy(), 3e-7, "output")
    near(pull(cotangent)[0], gradient.numpy(), 3e-7, "gradient")


class Twice(nn.Module):
    """One layer, called two times."""

    def __init__(self, drop):
        super().__init__()
        self.drop = drop

    def forward(self, x):
        return self.drop(x), self.drop(x)


@pytest.mark.parametrize(("kind", "shape", "mask_shape"), DROPPED, ids=[kind for kind, *_ in DROPPED])
def test_dropout_drops_its_share_and_draws_anew(kind, shape, mask_shape):
    net = Twice(getattr(nn, kind)(0.3))
    ones = jnp.ones((60, *shape[1:]))
    run = jax.jit(lambda rng: net.apply({"drop": {}}, {"drop": {}}, ones, training=True, rng=rng)[0])
    out, again = run(KEY)
    assert not np.array_equal(out, again)
    share = np.mean(np.asarray(out) == np.asarray(out).min())
    cells = 60 * np.prod(mask_shape[1:])
    assert abs(share - 0.3) < 6 * np.sqrt(0.21 / cells)
    assert np.array_equal(out, run(KEY)[0]) and not np.array_equal(out, run(jax.random.key(1))[0])


def test_dropout_needs_a_key_only_where_something_is_random():
    net = nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.5))
    params, state = net.init(KEY)
    x = jnp.ones((3, 2))
    net.apply(params, state, x)
    with pytest.raises(ValueError, match=r"1 \(Dropout\): the module needs randomness"):
        net.apply(params, state, x, training=True)
    for p in (0.0, 1.0):
        nn.Dropout(p).apply({}, {}, x, training=True)
