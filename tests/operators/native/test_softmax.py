"""Softmax and log-softmax by kernels, beside torch in float64 and JAX."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from funcnet import functional as F
from funcnet.operators import native

SHAPES = [(1,), (7,), (4, 8), (3, 31), (5, 32), (2, 3, 33), (70, 300), (3, 9000)]
both = pytest.mark.parametrize("name", ["softmax", "log_softmax"])


def values(shape):
    return np.random.default_rng(0).normal(size=shape).astype(np.float32) * 5


@both
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_values_and_gradients_are_those_of_torch(name, shape):
    x, gradient = values(shape), values(shape[::-1]).reshape(shape)
    given = torch.tensor(x, dtype=torch.float64, requires_grad=True)
    expected = getattr(torch.nn.functional, name)(given, -1)
    slope = torch.autograd.grad(expected, given, torch.tensor(gradient, dtype=torch.float64))[0].numpy()
    run = jax.jit(lambda x: jax.vjp(lambda x: getattr(F, name)(x, -1), x)[1](gradient)[0])
    text = run.lower(x).as_text()
    assert f"@funcnet_{name}_backward" in text
    # x minus the largest entry is off by half a unit in the last place, which is up to 2e-6 for differences of 40.
    np.testing.assert_allclose(getattr(F, name)(x, -1), expected.detach().numpy(), rtol=3e-6, atol=1e-7)
    np.testing.assert_allclose(run(x), slope, rtol=0, atol=3e-6 * max(1, np.abs(slope).max()))


def test_the_exponential():
    """Of every float between -87.3 and 0 in steps, to 2 units in the last place; 0 below."""
    x = np.concatenate([np.linspace(-87.3, 0, 200_001), -np.logspace(-30, 0, 10_000)]).astype(np.float32)
    rows = np.stack([x, np.zeros_like(x)], -1)  # softmax of (x, 0): exp(x) / (1 + exp(x))
    exact = np.exp(x.astype(np.float64))
    np.testing.assert_allclose(F.softmax(rows, -1)[:, 0], exact / (1 + exact), rtol=4e-7)
    assert not F.softmax(jnp.array([[-88.0, 0.0], [-1e30, 0.0], [-np.inf, 0.0]]), -1)[:, 0].any()


@both
@pytest.mark.parametrize("size", [5, 40])
def test_special_values(name, size):
    rows = np.zeros((6, size), np.float32)
    rows[0, 1], rows[1, 2], rows[2] = np.nan, np.inf, -np.inf
    rows[3, :3], rows[4, 4], rows[5] = -np.inf, -1e38, 3e38
    with native.allowed(False):
        expected = getattr(F, name)(rows, -1)
    np.testing.assert_allclose(getattr(F, name)(rows, -1), expected, rtol=1e-6)


@both
def test_transformations(name):
    x, direction = values((3, 4, 10)), values((10, 4, 3)).reshape(3, 4, 10)

    def all_of(x):
        f = lambda x: getattr(F, name)(x, -1)
        slope = lambda x: jnp.sin(jax.grad(lambda x: jnp.sin(f(x)).sum())(x)).sum()
        return jax.grad(slope)(x), jax.jvp(f, (x,), (direction,))[1], jax.vmap(jax.grad(slope))(x)

    with native.allowed(False):
        expected = jax.jit(all_of)(x)
    for a, b in zip(jax.jit(all_of)(x), expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=5e-6 * max(1, np.abs(b).max()))


def test_other_dimensions_and_dtypes_have_no_kernel():
    x = jnp.ones((3, 4))
    for run, array in ((lambda x: F.softmax(x, 0), x), (lambda x: F.softmax(x, 1), x.astype("bfloat16"))):
        assert "@funcnet" not in jax.jit(run).lower(array).as_text()
    assert F.softmax(jnp.float32(3), 0) == 1 and F.softmax(jnp.ones((0, 3)), -1).shape == (0, 3)
