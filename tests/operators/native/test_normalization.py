"""Layer, RMS and group normalisation by kernels, beside the formulas of torch and beside XLA's programs."""

import functools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from funcnet import functional as F
from funcnet.operators import native

MESH = jax.make_mesh((8,), ("rows",), axis_types=(jax.sharding.AxisType.Auto,))
COLLECTIVE = "all-gather|all-to-all|collective-permute"


def layer(x, weight=None, bias=None, count=1, f=F):
    return f.layer_norm(x, x.shape[x.ndim - count :], weight, bias)


def rms(x, weight=None, bias=None, count=1, f=F):
    return f.rms_norm(x, x.shape[x.ndim - count :], weight)


def group(x, weight=None, bias=None, groups=2, f=F):
    return f.group_norm(x, groups, weight, bias)


CASES = {
    # Sizes around those of a vector (8), of four vectors (32) and of a block of sums (4096).
    **{f"layer {shape}": (layer, {}, shape, shape[-1:]) for shape in ((5,), (3, 1), (2, 3, 31), (6, 7, 65), (3, 9000))},
    "layer, two dimensions": (layer, {"count": 2}, (3, 5, 7), (5, 7)),
    "layer, many rows": (layer, {}, (2, 4096, 40), (40,)),
    **{f"rms {shape}": (rms, {}, shape, shape[-1:]) for shape in ((5,), (4, 3, 33), (3000, 24))},
    **{
        f"group {shape}": (group, {}, shape, shape[1:2]) for shape in ((3, 4), (2, 4, 3), (2, 6, 5, 9), (40, 8, 12, 11))
    },
    "group, one channel each": (group, {"groups": 6}, (2, 6, 50), (6,)),
}
every = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


def arrays_of(shape, size):
    draw = np.random.default_rng(0)
    return tuple(draw.normal(size=one).astype(np.float32) + 0.5 for one in (shape, size, size))


def both(function, arrays, gradient, kernels):
    with native.allowed(kernels):
        return jax.jit(lambda *given: (lambda y, back: (y, *back(gradient)))(*jax.vjp(function, *given)))(*arrays)


def close(found, expected, tolerance=3e-6):
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=tolerance * max(1.0, float(np.abs(b).max())))


@every
def test_values_and_gradients_are_those_of_torch(case):
    function, settings, shape, size = case
    arrays = arrays_of(shape, size)[: 2 if function is rms else 3]
    given = [torch.tensor(one, dtype=torch.float64, requires_grad=True) for one in arrays]
    y = function(*given, f=torch.nn.functional, **settings)
    gradient = np.random.default_rng(1).normal(size=shape).astype(np.float32)
    found = torch.autograd.grad(y, given, torch.tensor(gradient, dtype=torch.float64))
    expected = [one.detach().numpy() for one in (y, *found)]
    run = functools.partial(function, **settings)
    close(both(run, arrays, gradient, kernels=True), expected)
    close(both(run, arrays, gradient, kernels=False), expected, 1e-5)


@every
def test_kernels_are_called(case):
    function, settings, shape, size = case
    arrays = arrays_of(shape, size)
    names = {layer: "layer_norm", rms: "rms_norm", group: "group_norm"}
    for kernels in (True, False):
        with native.allowed(kernels):
            text = jax.jit(jax.grad(lambda *given: function(*given, **settings).sum())).lower(*arrays).as_text()
        called = {f"funcnet_{names[function]}", f"funcnet_{names[function]}_backward"} if kernels else set()
        assert set(re.findall(r"@(funcnet_\w+)", text)) == called


def test_other_dtypes_have_no_kernel():
    for dtype in ("bfloat16", "float16", "float64"):
        with jax.enable_x64(dtype == "float64"):
            assert "@funcnet" not in jax.jit(layer).lower(jnp.ones((3, 4), dtype)).as_text()


@pytest.mark.parametrize("mean", [1e4, -1e4])
def test_a_large_mean_costs_no_digits(mean):
    x = np.random.default_rng(0).normal(size=(4, 64)).astype(np.float32) + np.float32(mean)
    expected = x.astype(np.float64) - x.mean(-1, keepdims=True, dtype=np.float64)
    expected /= np.sqrt((expected**2).mean(-1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(layer(x), expected, atol=3e-6)
    np.testing.assert_allclose(group(x, groups=1), expected, atol=3e-6)


@pytest.mark.parametrize("function", [layer, rms, group])
def test_nan_and_inf_stay_in_their_row(function):
    x = np.random.default_rng(0).normal(size=(4, 6, 40)).astype(np.float32)
    x[1, 2, 3], x[2, 5, 6] = np.nan, np.inf
    with native.allowed(False):
        expected = function(x)
    np.testing.assert_array_equal(np.isnan(function(x)), np.isnan(expected))
    assert np.isnan(expected).any() and not np.isnan(expected).all()


@pytest.mark.parametrize("function", [layer, rms, group])
def test_second_derivatives_and_forward_mode(function):
    shape = (3, 4, 10)
    x, weight, bias = arrays_of(shape, (4,) if function is group else (10,))
    direction = np.cos(np.arange(x.size, dtype=np.float32)).reshape(shape)

    def slope(x, weight):
        gradients = jax.grad(lambda x, w: jnp.sin(function(x, w, bias)).sum(), (0, 1))(x, weight)
        return jnp.sin(gradients[0]).sum() + jnp.cos(gradients[1]).sum()

    def all_of(x, weight):
        second = jax.grad(slope, (0, 1))(x, weight)
        pushed = jax.jvp(lambda x: function(x, weight, bias), (x,), (direction,))[1]
        over = jax.jvp(jax.grad(lambda x: jnp.sin(function(x, weight, bias)).sum()), (x,), (direction,))[1]
        return *second, pushed, over

    with native.allowed(False):
        expected = jax.jit(all_of)(x, weight)
    close(jax.jit(all_of)(x, weight), expected, 2e-5)


@pytest.mark.parametrize("function", [layer, rms, group])
def test_vmap(function):
    x, weight, bias = arrays_of((3, 2, 4, 6), (4,) if function is group else (6,))
    gradient = jax.grad(lambda x, w: (function(x, w, bias) ** 3).sum(), (0, 1))
    expected = [np.stack(one) for one in zip(*(gradient(one, weight) for one in x), strict=True)]
    close(jax.jit(jax.vmap(gradient, (0, None)))(x, weight), expected)
    weights = np.stack([weight, 2 * weight, -weight])
    expected = [np.stack(one) for one in zip(*map(gradient, x, weights), strict=True)]
    close(jax.jit(jax.vmap(gradient))(x, weights), expected, 1e-5)


@pytest.mark.parametrize(
    ("function", "shape"), [(layer, (8, 24)), (layer, (8, 3, 24)), (rms, (16, 24)), (group, (8, 4, 9))]
)
def test_devices_share_the_rows(function, shape):
    """Only the gradients of the parameters cross devices, in one sum."""
    arrays = arrays_of(shape, shape[1:2] if function is group else shape[-1:])
    place = lambda array, axes: jax.device_put(array, jax.NamedSharding(MESH, jax.P(*axes)))
    placed = [place(arrays[0], ["rows"]), *(place(one, []) for one in arrays[1:])]
    forward = jax.jit(function).lower(*placed).compile().as_text()
    assert "funcnet_" in forward and not re.search(f"{COLLECTIVE}|all-reduce", forward)
    both = jax.jit(jax.grad(lambda *given: (function(*given) ** 3).sum(), (0, 1, 2)))
    text = both.lower(*placed).compile().as_text()
    assert "_backward" in text and not re.search(COLLECTIVE, text)
    assert len(re.findall(r" all-reduce(?:-start)?\(", text)) == 1
    close(both(*placed), jax.grad(lambda *given: (function(*given) ** 3).sum(), (0, 1, 2))(*arrays), 1e-5)


def test_exported_programs_have_no_kernels():
    exported = jax.export.export(jax.jit(jax.grad(lambda x: layer(x).sum())))(jax.ShapeDtypeStruct((3, 4), np.float32))
    assert "@funcnet" not in exported.mlir_module()
    exported.serialize()


def test_results_do_not_depend_on_the_run():
    x, weight, bias = arrays_of((64, 50, 96), (96,))
    gradient = jax.jit(jax.grad(lambda *given: (layer(*given) ** 3).sum(), (0, 1, 2)))
    first = gradient(x, weight, bias)
    for _ in range(5):
        for a, b in zip(gradient(x, weight, bias), first, strict=True):
            np.testing.assert_array_equal(a, b)


def test_no_rows_and_no_entries():
    for shape in ((0, 4), (2, 0, 4)):
        assert layer(jnp.ones(shape)).shape == shape and rms(jnp.ones(shape)).shape == shape
    assert group(jnp.ones((0, 4, 3))).shape == (0, 4, 3)
