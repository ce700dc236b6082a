"""Random arrays: shapes, dtypes, and the moments that torch documents."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import funcnet.torchlike as tl

KEY = jax.random.key(0)
MANY = 40000


@pytest.mark.parametrize("name", ["rand_like", "randn_like", "poisson"])
def test_shape_and_dtype_are_those_of_the_input(name):
    for dtype, torchs in ((jnp.float32, torch.float32), (jnp.bfloat16, torch.bfloat16)):
        out = getattr(tl, name)(jnp.ones((2, 3), dtype), rng=KEY)
        want = getattr(torch, name)(torch.ones(2, 3, dtype=torchs))
        assert out.shape == tuple(want.shape) and out.dtype == str(want.dtype).removeprefix("torch.")
    with pytest.raises(ValueError, match=f"tl.{name}"):
        getattr(tl, name)(jnp.ones(2))


def test_moments():
    zeros = jnp.zeros(MANY)
    cases = {
        "rand_like": (tl.rand_like(zeros, rng=KEY), 0.5, 12**-0.5), "randn_like": (tl.randn_like(zeros, rng=KEY), 0, 1),
        "poisson": (tl.poisson(zeros + 4, rng=KEY), 4, 2), "mean": (tl.normal(zeros + 2, rng=KEY), 2, 1),
        "std": (tl.normal(1.0, zeros + 3, rng=KEY), 1, 3),
        "both": (tl.normal(zeros - 1, zeros + 0.5, rng=KEY), -1, 0.5),
    }  # fmt: skip
    for name, (drawn, mean, deviation) in cases.items():
        numbers = np.asarray(drawn, np.float64)
        assert abs(numbers.mean() - mean) < 5 * deviation / MANY**0.5, name
        assert abs(numbers.std() - deviation) < 0.05 * deviation, name


def test_normal_broadcasts_and_has_no_gradient():
    mean, std = torch.zeros(2, 1, requires_grad=True), torch.ones(3, requires_grad=True)
    want = torch.autograd.grad(torch.normal(mean, std).sum(), [mean, std])

    def total(mean, std):
        out = tl.normal(mean, std, rng=KEY)
        assert out.shape == (2, 3)
        return out.sum()

    got = jax.grad(total, (0, 1))(jnp.zeros((2, 1)), jnp.ones(3))
    for ours, theirs in zip(got, want, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    with pytest.raises(ValueError, match="normal"):
        tl.normal(jnp.zeros(2))
