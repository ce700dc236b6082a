"""Element-wise functions against torch, at the corners above all."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import funcnet.torchlike as tl

from .database import agrees, same

X = np.array([-2.0, -1.0, -0.0, 0.0, 0.5, 1.0, 3.0])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["abs", "clamp", "div"])
def test_database(name):
    agrees(name)


@pytest.mark.parametrize("bounds", [(-1, 1), (None, 1.0), (0, None), (2, -2), (0.5, 0.5), (float("nan"), 1)])
def test_clamp_at_its_bounds(bounds):
    same(lambda x: tl.clamp(x, *bounds), lambda x: torch.clamp(x, *bounds), X)


def test_clamp_with_arrays():
    low, high = np.array([-1.0, -1, 0, 1, 0.5, 2, 3]), np.array([0.0, -1, 1, 0, 0.5, 1, 9])
    same(tl.clamp, torch.clamp, X, low, high)
    same(tl.clamp, torch.clamp, X, low[:1], high)
    same(lambda x, m: tl.clamp(x, max=m), lambda x, m: torch.clamp(x, max=m), X, high)


@pytest.mark.parametrize("dtype", ["int32", "uint8", "bfloat16", "float16"])
def test_clamp_keeps_or_widens_the_dtype(dtype):
    theirs = torch.arange(5).to(getattr(torch, dtype))
    for bounds in ((1, 3), (1.5, None), (None, 2)):
        want, got = theirs.clamp(*bounds), tl.clamp(jnp.arange(5).astype(dtype), *bounds)
        assert str(got.dtype) == str(want.dtype).removeprefix("torch.")
        np.testing.assert_array_equal(got.astype(np.float32), want.float())


def test_abs_at_zero():
    same(tl.abs, torch.abs, X)
    assert jax.grad(jax.grad(lambda x: tl.abs(x) ** 2))(1.0) == 2  # and twice
    np.testing.assert_array_equal(tl.abs(jnp.array([-3, 3])), [3, 3])


@pytest.mark.parametrize("mode", ["trunc", "floor"])
def test_division_of_integers(mode):
    top, bottom = np.array([-7, 7, -7, 7, 0]), np.array([2, 2, -2, -2, 3])
    call = lambda library: lambda a, b: library.div(a, b, rounding_mode=mode)
    same(call(tl), call(torch), top, bottom)
    same(lambda a: call(tl)(a, 2.5), lambda a: call(torch)(a, 2.5), X)
    np.testing.assert_array_equal(tl.div(jnp.arange(3), 2), torch.div(torch.arange(3), 2))


def test_refusals():
    with pytest.raises(ValueError, match="no bound"):
        tl.clamp(jnp.ones(2))
    with pytest.raises(ValueError, match="rounding_mode is unknown"):
        tl.div(jnp.ones(2), 2, rounding_mode="up")
    with pytest.raises(TypeError, match="bool"):
        tl.abs(jnp.array([True]))
