"""Statistics of BatchNorm by a kernel, beside torch in float64 and beside XLA's programs."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from funcnet import functional as F
from funcnet.operators import native

MESH = jax.make_mesh((8,), ("rows",), axis_types=(jax.sharding.AxisType.Auto,))
SHAPES = [(1, 3, 16), (4, 3, 33), (3, 7, 5, 9), (2, 40, 70, 70), (2, 5, 3, 4, 6)]


def arrays_of(shape):
    draw = np.random.default_rng(0)
    return tuple(draw.normal(size=one).astype(np.float32) + 0.5 for one in (shape, shape[1:2], shape[1:2]))


def norm(x, weight=None, bias=None):
    """The result, with the new running statistics."""
    zeros = jnp.zeros(x.shape[1])
    return F.batch_norm(x, zeros, zeros + 1, weight, bias, training=True)


def close(found, expected, tolerance=3e-6):
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=tolerance * max(1.0, float(np.abs(b).max())))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_values_gradients_and_statistics_are_those_of_torch(shape):
    arrays = arrays_of(shape)
    given = [torch.tensor(one, dtype=torch.float64, requires_grad=True) for one in arrays]
    statistics = torch.zeros(shape[1], dtype=torch.float64), torch.ones(shape[1], dtype=torch.float64)
    y = torch.nn.functional.batch_norm(given[0], *statistics, *given[1:], training=True)
    gradient = np.random.default_rng(1).normal(size=shape).astype(np.float32)
    slopes = torch.autograd.grad(y, given, torch.tensor(gradient, dtype=torch.float64))
    expected = [one.detach().numpy() for one in (y, *statistics, *slopes)]

    @jax.jit
    def run(*given):
        y, back, statistics = jax.vjp(lambda *given: (lambda y, *rest: (y, rest))(*norm(*given)), *given, has_aux=True)
        return y, *statistics, *back(gradient)

    text = run.lower(*arrays).as_text()
    assert "@funcnet_row_moments" in text and "@funcnet_row_products" in text
    close(run(*arrays), expected)


def test_what_has_no_kernel():
    lowered = lambda x: jax.jit(norm).lower(x).as_text()
    assert "@funcnet" in lowered(jnp.ones((2, 3, 4, 4)))
    assert "@funcnet" not in lowered(jnp.ones((64, 3))) + lowered(jnp.ones((2, 3, 15)))  # few positions
    assert "@funcnet" not in lowered(jnp.ones((2, 3, 4, 4), "bfloat16"))
    mask = jnp.ones((2, 16), bool)
    masked = lambda x: F.batch_norm(x, None, None, training=True, mask=mask)[0]
    assert "@funcnet" not in jax.jit(masked).lower(jnp.ones((2, 3, 16))).as_text()


@pytest.mark.parametrize("mean", [1e4, -1e4])
def test_a_large_mean_costs_no_digits(mean):
    x = np.random.default_rng(0).normal(size=(4, 2, 64)).astype(np.float32) + np.float32(mean)
    expected = x.astype(np.float64) - x.mean((0, 2), keepdims=True, dtype=np.float64)
    expected /= np.sqrt((expected**2).mean((0, 2), keepdims=True) + 1e-5)
    np.testing.assert_allclose(norm(x)[0], expected, atol=3e-6)


def test_nan_and_inf_stay_in_their_channel():
    x = np.random.default_rng(0).normal(size=(4, 6, 40)).astype(np.float32)
    x[1, 2, 3], x[2, 5, 6] = np.nan, np.inf
    with native.allowed(False):
        expected = norm(x)
    for a, b in zip(norm(x), expected, strict=True):
        np.testing.assert_array_equal(np.isnan(a), np.isnan(b))
    assert not np.isnan(expected[0][:, :2]).any()


@pytest.mark.slow
def test_second_derivatives_forward_mode_and_vmap():
    x, weight, bias = arrays_of((3, 4, 5, 5))
    direction = np.cos(np.arange(x.size, dtype=np.float32)).reshape(x.shape)
    f = lambda x, weight: jnp.sin(norm(x, weight, bias)[0])
    slope = lambda x, weight: jnp.cos(jax.grad(lambda x: f(x, weight).sum())(x)).sum()

    def all_of(x, weight):
        mapped = jax.vmap(jax.grad(slope), (0, None))(jnp.stack([x, x * x]), weight)
        return *jax.grad(slope, (0, 1))(x, weight), jax.jvp(f, (x, weight), (direction, weight))[1], mapped

    with native.allowed(False):
        expected = jax.jit(all_of)(x, weight)
    close(jax.jit(all_of)(x, weight), expected, 2e-5)


def test_devices_share_the_images():
    arrays = arrays_of((8, 4, 6, 6))
    place = lambda array, axes: jax.device_put(array, jax.NamedSharding(MESH, jax.P(*axes)))
    placed = [place(arrays[0], ["rows"]), *(place(one, []) for one in arrays[1:])]
    run = jax.jit(jax.grad(lambda *given: (norm(*given)[0] ** 3).sum(), (0, 1, 2)))
    text = run.lower(*placed).compile().as_text()
    assert "funcnet_row_products" in text and not re.search("all-gather|all-to-all|collective-permute", text)
    close(run(*placed), run(*arrays), 1e-5)


def test_statistics_of_all_devices_in_shard_map():
    arrays = arrays_of((8, 4, 6, 6))

    def loss(x, weight, bias, name=None):
        zeros = jnp.zeros(x.shape[1])
        y = F.batch_norm(x, zeros, zeros + 1, weight, bias, training=True, axis_name=name)[0]
        return (y**3).sum() if name is None else jax.lax.psum((y**3).sum(), name)

    sharded = jax.shard_map(
        lambda *given: loss(*given, name="rows"),
        mesh=MESH,
        in_specs=(jax.P("rows"), jax.P(), jax.P()),
        out_specs=jax.P(),
    )
    run = jax.jit(jax.grad(sharded, (0, 1, 2)))
    assert "@funcnet_row_products" in run.lower(*arrays).as_text()
    close(run(*arrays), jax.jit(jax.grad(loss, (0, 1, 2)))(*arrays), 1e-5)
