"""Functions of single entries against torch: values and gradients, at corners too."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import funcnet.torchlike as tl

GRID = [-8.3, -2.0, -1.5, -1.0, -0.0, 0.0, 0.5, 1.0, 2.5, 30.0]
LEFT = np.repeat(GRID, len(GRID))
RIGHT = np.tile(GRID, len(GRID))


def compare(ours, theirs, *arrays, rtol=1e-9):
    tensors = [torch.tensor(a, requires_grad=True) for a in arrays]
    expected = theirs(*tensors)
    with jax.enable_x64(True):
        out, pull = jax.vjp(ours, *map(jnp.asarray, arrays))
        gradients = pull(jnp.ones_like(out))
        np.testing.assert_allclose(out, expected.detach(), rtol, 1e-12)
        wanted = torch.autograd.grad(expected.sum(), tensors, allow_unused=True)
        for got, one, tensor in zip(gradients, wanted, tensors, strict=True):
            np.testing.assert_allclose(got, torch.zeros_like(tensor) if one is None else one, rtol, 1e-12)


@pytest.mark.parametrize("name", ["atan2", "copysign", "xlogy"])
def test_functions_of_two_arrays(name):
    compare(getattr(tl, name), getattr(torch, name), LEFT, RIGHT)


@pytest.mark.parametrize("name", ["angle", "i0"])
def test_functions_of_one_array(name):
    compare(getattr(tl, name), getattr(torch, name), np.array(GRID))


def test_digamma_and_polygamma():
    x = np.array([-20.3, -8.3, -7.7, -1.5, -0.5, 0.3, 1.0, 4.5, 30.0])
    compare(tl.digamma, torch.digamma, x)
    for n in range(5):
        compare(lambda x, n=n: tl.polygamma(n, x), lambda x, n=n: torch.polygamma(n, x), x, rtol=1e-8)
    with jax.enable_x64(True):
        assert tl.digamma(jnp.array([0.0, -0.0])).tolist() == [-np.inf, np.inf]
        assert jnp.isnan(tl.polygamma(1, jnp.array([-np.inf, np.nan]))).all()


def test_polygamma_refuses_a_negative_order():
    with pytest.raises(ValueError, match="n is negative"):
        tl.polygamma(-1, jnp.ones(2))
    for function in (tl.digamma, tl.i0):
        with pytest.raises(TypeError, match="floating-point"):
            function(jnp.arange(2))


def test_angle_of_complex_numbers():
    z = np.array([0, 1, -1, 1j, -2 - 3j, complex(-0.0, 0.0), complex(-1, -0.0)])
    with jax.enable_x64(True):
        np.testing.assert_allclose(tl.angle(jnp.asarray(z)), torch.angle(torch.tensor(z)))
    parts = np.array([0.0, 1.0, -1.0, 2.0]), np.array([0.0, 0.0, 0.0, -3.0])
    compare(lambda a, b: tl.angle(jax.lax.complex(a, b)), lambda a, b: torch.angle(torch.complex(a, b)), *parts)


def test_lerp():
    for weight in (0.3, 0.7, 1.0):
        compare(lambda a, b, w=weight: tl.lerp(a, b, w), lambda a, b, w=weight: torch.lerp(a, b, w), LEFT, RIGHT)


def test_integers_become_floats():
    for name in ("atan2", "copysign", "xlogy"):
        i, j = np.array([1, -2, 0]), np.array([3, 2, 1])
        want = getattr(torch, name)(torch.tensor(i), torch.tensor(j))
        got = getattr(tl, name)(jnp.asarray(i, jnp.int32), jnp.asarray(j, jnp.int32))
        assert got.dtype == jnp.float32
        np.testing.assert_allclose(got, want, rtol=1e-6)
    assert tl.angle(jnp.array([-1, 0])).dtype == jnp.float32


@pytest.mark.parametrize("name", ["digamma", "i0", "angle"])
def test_under_jit(name):
    with jax.enable_x64(True):
        x = jnp.array([-1.5, 0.5, 2.0])
        gradient = jax.grad(lambda x: getattr(tl, name)(x).sum())
        np.testing.assert_allclose(jax.jit(gradient)(x), gradient(x), rtol=1e-12)
