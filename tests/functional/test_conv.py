"""Convolutions against torch."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
import torch.nn.functional as T
from hypothesis import given
from hypothesis import strategies as st
from jax.extend import core as jax_core

from funcnet import functional as F
from funcnet import nn
from funcnet.functional.platforms import default_program

from .oracle import agrees, normal

CASES = [
    (1, (2, 3, 9), (4, 3, 3), {}),
    (1, (3, 9), (4, 3, 2), {"padding": "same"}),
    (1, (2, 4, 9), (6, 2, 3), {"stride": 2, "padding": 1, "groups": 2}),
    (1, (0, 3, 9), (4, 3, 3), {}),
    (2, (2, 3, 7, 6), (4, 3, 3, 3), {"stride": 2, "padding": 1}),
    (2, (2, 3, 7, 6), (4, 3, 2, 3), {"stride": (2, 1), "padding": (0, 2), "dilation": (1, 2)}),
    (2, (2, 3, 7, 6), (4, 3, 4, 3), {"padding": "same", "dilation": (1, 2)}),
    (2, (2, 4, 7, 6), (8, 1, 3, 3), {"groups": 4, "padding": "valid"}),
    (2, (4, 7, 6), (4, 2, 1, 1), {"groups": 2}),
    (2, (0, 3, 7, 6), (4, 3, 3, 3), {"padding": 1}),
    (3, (1, 2, 4, 5, 6), (3, 2, 2, 3, 2), {"stride": (1, 2, 2), "padding": 1}),
    (3, (2, 4, 5, 4), (4, 1, 2, 2, 2), {"groups": 2, "padding": "same"}),
]

# Each of the forms that a convolution takes on CPU: pixels, patches, channels and groups on their own, by depth.
FORMS = [
    (1, (2, 3, 9), (4, 3, 1), {"stride": 2}),
    (2, (2, 3, 5, 7), (4, 3, 2, 3), {"stride": (2, 3)}),
    (2, (2, 3, 5, 6), (6, 1, 3, 2), {"groups": 3, "stride": (1, 2), "padding": 1, "dilation": (2, 1)}),
    (2, (2, 18, 5, 4), (9, 2, 3, 2), {"groups": 9, "padding": 1, "dilation": (1, 2)}),
    (2, (1, 3, 4, 5), (2, 3, 3, 2), {"padding": 3}),
    (2, (1, 2, 9, 9), (2, 1, 9, 8), {"groups": 2, "padding": 1}),
    (3, (2, 2, 5, 4, 4), (3, 2, 3, 1, 1), {"padding": (1, 0, 0), "stride": (2, 1, 1), "dilation": (2, 1, 1)}),
    (3, (0, 2, 4, 5, 6), (3, 2, 2, 3, 2), {}),
]


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel")
@pytest.mark.parametrize(("ndim", "shape", "weight", "options"), CASES)
def test_conv(ndim, shape, weight, options):
    if options.get("groups") == 2 and ndim == 3:
        weight = (weight[0], shape[0] // 2, *weight[2:])
    ours, theirs = (lambda x, w, b, lib=lib: getattr(lib, f"conv{ndim}d")(x, w, b, **options) for lib in (F, T))
    agrees(ours, theirs, normal(*shape), normal(*weight), normal(weight[0]))


@pytest.mark.parametrize(("ndim", "shape", "weight", "options"), FORMS)
def test_forms_on_cpu(ndim, shape, weight, options):
    ours, theirs = (lambda x, w, lib=lib: getattr(lib, f"conv{ndim}d")(x, w, **options) for lib in (F, T))
    agrees(ours, theirs, normal(*shape), normal(*weight), dtypes=(np.float64,))


TRANSPOSED = [
    (1, (2, 3, 5), (3, 4, 3), {}),
    (1, (3, 5), (3, 2, 4), {"stride": 3, "padding": 1, "output_padding": 2, "dilation": 2}),
    (1, (0, 3, 5), (3, 2, 4), {"stride": 2}),
    (1, (2, 4, 1), (4, 3, 5), {"stride": 3, "output_padding": 2, "groups": 2}),
    (2, (2, 3, 4, 3), (3, 2, 2, 2), {"stride": 2}),
    (2, (2, 3, 4, 3), (3, 2, 3, 4), {"stride": (2, 1), "padding": (2, 1), "output_padding": (1, 0)}),
    (2, (2, 4, 3, 3), (4, 3, 3, 2), {"groups": 2, "padding": 1, "dilation": (1, 2)}),
    (2, (2, 3, 4, 4), (3, 2, 3, 3), {"groups": 3, "stride": 2, "padding": 1, "output_padding": 1}),
    (3, (1, 2, 2, 3, 2), (2, 3, 3, 2, 1), {"stride": (2, 1, 3), "padding": (1, 0, 0), "output_padding": (0, 0, 2)}),
    (3, (2, 2, 3, 2), (2, 3, 2, 2, 2), {"padding": 1}),
]


@pytest.mark.parametrize(("ndim", "shape", "weight", "options"), TRANSPOSED)
def test_conv_transpose(ndim, shape, weight, options):
    name, outs = f"conv_transpose{ndim}d", weight[1] * options.get("groups", 1)
    ours, theirs = (lambda x, w, b, lib=lib: getattr(lib, name)(x, w, b, **options) for lib in (F, T))
    agrees(ours, theirs, normal(*shape), normal(*weight), normal(outs), dtypes=(np.float64,))


@pytest.mark.parametrize(("ndim", "shape", "weight", "options"), [FORMS[2], FORMS[6]])
def test_accelerators_compute_the_same(ndim, shape, weight, options):
    """The form of other platforms, run here on CPU."""
    x, w = (jnp.asarray(normal(*s), jnp.float32) for s in (shape, weight))
    run = lambda x, w: getattr(F, f"conv{ndim}d")(x, w, **options)
    back = lambda out, w: getattr(F, f"conv_transpose{ndim}d")(out, w, **options)
    np.testing.assert_allclose(elsewhere(run, x, w), run(x, w), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(elsewhere(back, run(x, w), w), back(run(x, w), w), rtol=1e-5, atol=1e-4)


def elsewhere(function, x, w):
    """What `function`, one convolution, gives where XLA's own operation computes it."""
    (equation,) = jax.make_jaxpr(function)(x, w).eqns
    program = default_program(equation)
    (operation,) = (e for e in program.eqns if e.primitive.name == "conv_general_dilated")
    assert operation.outvars == program.jaxpr.outvars
    return jax_core.jaxpr_as_fun(program)(x, w)[0]


@pytest.mark.parametrize("pad", [0, 2, -1])
def test_conv_tbc(pad):
    inputs = normal(5, 2, 3), normal(3, 3, 4), normal(4)
    agrees(lambda *a: F.conv_tbc(*a, pad), lambda *a: T.conv_tbc(*a, pad), *inputs)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["conv2d", "conv_transpose2d"])
@pytest.mark.parametrize("groups", [1, 2, 4])
def test_derivatives_forwards_and_of_derivatives_and_maps(name, groups):
    """jvp is the transpose of vjp, the second derivative is torch's, vmap is the loop."""
    x, w, v = normal(2, 4, 5, 4), normal(4, 4 // groups, 3, 2), normal(4, 4 // groups, 3, 2, seed=1)
    options = {"stride": 2, "padding": 1, "groups": groups}
    ours, theirs = (lambda x, w, lib=lib: getattr(lib, name)(x, w, **options) for lib in (F, T))
    loss = lambda f: lambda x, w: (f(x, w) ** 3).sum()
    with jax.enable_x64(True):
        slope = jax.jit(jax.grad(lambda x: (jax.grad(loss(ours), 1)(x, v) * w).sum()))(x)
        moved = jax.jvp(lambda w: ours(x, w), (w,), (v,))[1]
        mapped = jax.vmap(ours)(jnp.stack([x, 2 * x]), jnp.stack([w, v]))
        np.testing.assert_allclose(moved, ours(x, v), rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(mapped, [ours(x, w), ours(2 * x, v)], rtol=1e-10, atol=1e-12)
    tx, tw, tv = (torch.tensor(a, requires_grad=True) for a in (x, w, v))
    (first,) = torch.autograd.grad(loss(theirs)(tx, tv), tv, create_graph=True)
    (expected,) = torch.autograd.grad((first * tw).sum(), tx)
    np.testing.assert_allclose(slope, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.slow
@given(data=st.data())
def test_hypothesis_conv(data):
    draw = lambda low, high: data.draw(st.integers(low, high))
    rank, groups, transposed = draw(1, 2), draw(1, 3), data.draw(st.booleans())
    kernels, strides, pads = ([draw(low, 3) for _ in range(rank)] for low in (1, 1, 0))
    dilations = [draw(1, 2) for _ in range(rank)]
    shape = (draw(1, 2), groups * draw(1, 2), *(draw(1, 5) for _ in range(rank)))
    outs = draw(1, 2)
    weight = (shape[1], outs, *kernels) if transposed else (groups * outs, shape[1] // groups, *kernels)
    options = {"stride": strides, "padding": pads, "dilation": dilations, "groups": groups}
    if transposed:
        options["output_padding"] = [draw(0, 2) for _ in range(rank)]
    name = f"conv_transpose{rank}d" if transposed else f"conv{rank}d"
    x, w = normal(*shape), normal(*weight)
    try:
        expected = getattr(T, name)(torch.tensor(x), torch.tensor(w), **options)
    except RuntimeError:
        with pytest.raises(ValueError, match=f"F.{name}: "):
            getattr(F, name)(jnp.asarray(x, jnp.float32), jnp.asarray(w, jnp.float32), **options)
        return
    with jax.enable_x64(True):
        out = getattr(F, name)(x, w, **options)
    assert out.shape == expected.shape
    np.testing.assert_allclose(out, expected, rtol=1e-10, atol=1e-10)


TWO = (np.int64(2), np.array(2), [np.int64(2), 2], np.array([2, 2]))


@pytest.mark.parametrize("two", TWO, ids=repr)
def test_anything_with_an_index_is_a_size(two):
    x, w = jnp.asarray(normal(1, 3, 8, 8), jnp.float32), jnp.asarray(normal(2, 3, 2, 2), jnp.float32)
    np.testing.assert_array_equal(F.conv2d(x, w, None, two, two, two), F.conv2d(x, w, None, 2, 2, 2))
    layer = nn.Conv2d(3, 2, two, two, two, two, bias=False)
    assert repr(layer) == repr(nn.Conv2d(3, 2, 2, 2, 2, 2, bias=False))
    assert F.layer_norm(x, np.int64(8)).shape == F.pad(x, (np.int64(1), -1)).shape == x.shape


HALF = [
    ("conv2d", (1, 8, 5, 5), (1, 8, 3, 3), {}),
    ("conv2d", (1, 2, 7, 7), (2, 1, 5, 5), {"groups": 2}),
    ("conv2d", (1, 20, 4, 4), (10, 2, 3, 3), {"groups": 10}),
    ("conv3d", (1, 3, 4, 3, 3), (2, 3, 4, 3, 3), {}),
    ("conv_transpose2d", (1, 8, 4, 4), (8, 2, 4, 4), {"stride": 2}),
]


@pytest.mark.parametrize(("name", "shape", "weight", "options"), HALF)
@pytest.mark.parametrize("dtype", [jnp.bfloat16, pytest.param(jnp.float16, marks=pytest.mark.slow)])
def test_half_precision_is_summed_in_float32(name, shape, weight, options, dtype):
    x, w = (jnp.asarray(normal(*s), dtype) for s in (shape, weight))
    out = jax.jit(lambda x, w: getattr(F, name)(x, w, **options))(x, w)
    exact = getattr(T, name)(*(torch.tensor(np.asarray(a, np.float64)) for a in (x, w)), **options).numpy()
    assert out.dtype == dtype
    np.testing.assert_allclose(np.asarray(out, np.float64), exact, rtol=float(jnp.finfo(dtype).eps), atol=1e-5)


X, W = jnp.zeros((1, 4, 5, 5)), jnp.zeros((6, 4, 3, 3))


@pytest.mark.parametrize(
    ("arguments", "options", "error", "text"),
    [
        ((X[0, 0], W), {}, ValueError, "F.conv2d: input has the wrong shape; expected 4 dimensions"),
        ((X, W[0]), {}, ValueError, "F.conv2d: weight has the wrong shape"),
        ((X[:, :3], W), {}, ValueError, "F.conv2d: input has the wrong number of channels; expected 4, got 3"),
        (
            (X[..., :0], W),
            {"padding": 2},
            ValueError,
            "F.conv2d: input has the wrong shape; .* no spatial size of 0",
        ),
        ((X, W[:0]), {}, ValueError, "F.conv2d: weight has the wrong shape; .* no output or kernel size of 0"),
        ((X, W), {"groups": 4}, ValueError, "is not divisible by groups; expected a multiple of groups=4, got 6"),
        ((X, W, jnp.zeros(4)), {}, ValueError, r"F.conv2d: bias has the wrong shape; expected \(6,\), got \(4,\)"),
        ((X, W), {"stride": 2, "padding": "same"}, ValueError, "padding='same' does not support a stride"),
        (
            (X, W),
            {"padding": "full"},
            ValueError,
            "padding is unknown; expected 'same', 'valid' or numbers, got 'full'",
        ),
        ((X, W), {"padding": -1}, ValueError, "F.conv2d: padding is too small; expected at least 0"),
        ((X, W), {"stride": 0}, ValueError, "F.conv2d: stride is too small; expected at least 1"),
        ((X, W), {"dilation": (1, 1, 1)}, ValueError, "F.conv2d: dilation has the wrong length; expected one int or 2"),
        ((X, W), {"stride": 1.5}, TypeError, "F.conv2d: stride is not an integer; expected int, got 1.5"),
        ((X, W), {"padding": (1, 0.5)}, TypeError, "F.conv2d: padding is not an integer; expected int, got 0.5"),
        ((X, W), {"dilation": 3}, ValueError, "kernel is larger than the padded input; expected a size of at least 7"),
        ((X.astype(int), W), {}, TypeError, "F.conv2d: input must hold floating-point numbers"),
        ((X.astype(jnp.bfloat16), W), {}, TypeError, "F.conv2d: the dtypes differ"),
    ],
)
def test_refusals(arguments, options, error, text):
    with pytest.raises(error, match=text):
        F.conv2d(*arguments, **options)


Y, V = jnp.zeros((1, 4, 5, 5)), jnp.zeros((4, 3, 3, 3))


@pytest.mark.parametrize(
    ("arguments", "options", "text"),
    [
        ((Y[0, 0], V), {}, "F.conv_transpose2d: input has the wrong shape; expected 4 dimensions"),
        ((Y[..., :0], V), {}, "F.conv_transpose2d: input has the wrong shape; .* no spatial size of 0"),
        ((Y, V[0]), {}, "F.conv_transpose2d: weight has the wrong shape; expected 4 dimensions"),
        ((Y, V[:, :0]), {}, r"no size of 0, got shape \(4, 0, 3, 3\)"),
        ((Y, V), {"groups": 3}, "input channels is not divisible by groups; expected a multiple of groups=3, got 4"),
        ((Y, V), {"groups": 0}, "expected a multiple of groups=0"),
        ((Y[:, :3], V), {}, "F.conv_transpose2d: input has the wrong number of channels; expected 4, got 3"),
        ((Y, V, jnp.zeros(4)), {}, r"bias has the wrong shape; expected \(3,\), got \(4,\)"),
        ((Y, V), {"output_padding": 1}, r"output_padding is too large; expected less than the stride \(1, 1\)"),
        ((Y, V), {"output_padding": -1}, "output_padding is too small; expected at least 0"),
        ((Y, V), {"padding": 4}, r"the output would be empty; expected sizes of at least 1, got \(-1, -1\)"),
        ((Y, V), {"padding": -1}, "padding is too small; expected at least 0"),
    ],
)
def test_refusals_of_the_transposed(arguments, options, text):
    with pytest.raises(ValueError, match=text):
        F.conv_transpose2d(*arguments, **options)


@pytest.mark.parametrize(
    ("shapes", "pad", "text"),
    [
        (
            ((5, 2, 3), (3, 2, 4), (4,)),
            0,
            "F.conv_tbc: the shapes of input and weight do not match; expected .time, batch, in.",
        ),
        (((5, 3), (3, 3, 4), (4,)), 0, "F.conv_tbc: the shapes of input and weight do not match"),
        (((5, 2, 3), (3, 3, 4), (3,)), 0, r"F.conv_tbc: bias has the wrong shape; expected \(4,\)"),
        (((5, 2, 3), (3, 3, 4), (4,)), -2, "F.conv_tbc: the kernel is larger than the padded input"),
    ],
)
def test_refusals_of_conv_tbc(shapes, pad, text):
    with pytest.raises(ValueError, match=text):
        F.conv_tbc(*(jnp.zeros(s) for s in shapes), pad)
