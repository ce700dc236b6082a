"""Max and average pooling against torch, with ties, overhanging windows and what is padded."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
import torch.nn.functional as T
from hypothesis import assume, given
from hypothesis import strategies as st
from jax.sharding import PartitionSpec
from jax.test_util import check_grads

from funcnet import functional as F
from funcnet import nn

from .oracle import agrees, as_near_as_torch, integers, normal

SHAPES = {1: (2, 3, 11), 2: (2, 3, 7, 10), 3: (1, 2, 5, 6, 7)}
WINDOWS = [
    {"kernel_size": 2},
    {"kernel_size": 3, "stride": 2, "padding": 1},
    {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True},
    {"kernel_size": 2, "stride": 3, "padding": 1, "ceil_mode": True},
    {"kernel_size": 3, "stride": 1},
    {"kernel_size": 2, "stride": 4, "ceil_mode": True},
]


def both(name, **options):
    return tuple(lambda x, lib=lib: getattr(lib, name)(x, **options) for lib in (F, T))


@pytest.mark.parametrize("options", [*WINDOWS, {"kernel_size": 2, "stride": 1, "dilation": 2}])
@pytest.mark.parametrize("ndim", [2, 1, 3])
def test_max_pool_with_many_ties(ndim, options):
    x = integers(0, 3, *SHAPES[ndim]).astype(float)
    agrees(*both(f"max_pool{ndim}d", **options), x, dtypes=(np.float32,))


@pytest.mark.parametrize("options", WINDOWS)
@pytest.mark.parametrize("ndim", [2, 1, 3])
def test_avg_pool(ndim, options):
    agrees(*both(f"avg_pool{ndim}d", **options), normal(*SHAPES[ndim]))
    without = both(f"avg_pool{ndim}d", **options, count_include_pad=False)
    agrees(*without, normal(*SHAPES[ndim]), dtypes=(np.float32,))


@pytest.mark.parametrize("ndim", [2, 3])
def test_divisor_override(ndim):
    options = {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True, "divisor_override": 5}
    agrees(*both(f"avg_pool{ndim}d", **options), normal(*SHAPES[ndim]))


@pytest.mark.parametrize("ndim", [2, 1, 3])
@pytest.mark.parametrize(
    ("kernel", "pad", "dilation"), [(2, 1, 2), (3, 1, 2), (3, 2, 2), (2, 2, 3), (3, 2, 3), (5, 2, 2), (5, 3, 2)]
)
def test_padding_is_held_against_the_undilated_kernel(ndim, kernel, pad, dilation):
    x = normal(1, 2, *(12,) * ndim)
    ours, theirs = both(f"max_pool{ndim}d", kernel_size=kernel, stride=1, padding=pad, dilation=dilation)
    if 2 * pad <= kernel:
        agrees(ours, theirs, x, dtypes=(np.float32,))
        return
    with pytest.raises(RuntimeError, match=r"half of (effective )?kernel size"):
        theirs(torch.tensor(x))
    with pytest.raises(ValueError, match="padding is too large or negative; expected 0 to half the kernel"):
        ours(jnp.asarray(x))


TWO = (np.int64(2), np.int32(2), np.array(2), np.uint8(2), (np.int64(2), 2), np.array([2, 2]), jnp.array(2))


@pytest.mark.parametrize("two", TWO, ids=repr)
def test_anything_with_an_index_is_a_size(two):
    x = jnp.asarray(normal(1, 3, 8, 8), jnp.float32)
    np.testing.assert_array_equal(F.max_pool2d(x, two, two, np.int8(1), two), F.max_pool2d(x, 2, 2, 1, 2))
    np.testing.assert_array_equal(F.avg_pool2d(x, two, two), F.avg_pool2d(x, 2, 2))
    np.testing.assert_array_equal(nn.MaxPool2d(two, two).apply({}, {}, x)[0], F.max_pool2d(x, 2, 2))


def test_an_empty_stride_is_the_kernels():
    x = jnp.asarray(normal(1, 3, 8), jnp.float32)
    for empty in ((), [], np.array([], int)):
        np.testing.assert_array_equal(F.avg_pool1d(x, 2, empty), F.avg_pool1d(x, 2))


def test_kernels_of_two_numbers():
    agrees(*both("max_pool2d", kernel_size=(2, 3), stride=(1, 2), padding=(1, 0), dilation=(1, 2)), normal(2, 3, 7, 10))
    agrees(*both("avg_pool2d", kernel_size=(2, 3), stride=(1, 2), padding=(1, 0)), normal(3, 7, 10))


@pytest.mark.parametrize("name", ["max_pool2d", "avg_pool2d"])
def test_empty_batch_and_no_batch(name):
    agrees(*both(name, kernel_size=2), normal(0, 3, 4, 4), dtypes=(np.float32,))
    agrees(*both(name, kernel_size=2), normal(3, 4, 4), dtypes=(np.float32,))


# Each way of finding the first maximum: slices differentiated, searched taps, a loop over taps, tiles.
KERNELS = [
    (1, {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True}),
    (2, {"kernel_size": (2, 5), "stride": (1, 2), "padding": (1, 2), "dilation": (2, 1)}),
    (3, {"kernel_size": (2, 4, 3), "stride": 1, "padding": (0, 2, 1)}),
    (1, {"kernel_size": 18, "stride": 5, "padding": 9}),
    (2, {"kernel_size": (1, 18)}),
    (2, {"kernel_size": (17, 2), "stride": 19}),
]


def with_strange_numbers(shape):
    """Many ties, and in the first planes NaN and windows that are -inf throughout."""
    x = integers(0, 3, *shape).astype(np.float32)
    x[0, 0][x[0, 0] == 1] = np.nan
    x[0, 1] = -np.inf
    return x


@pytest.mark.parametrize(("ndim", "options"), KERNELS)
def test_indices_and_gradients_where_windows_tie_or_hold_nan_or_infinity(ndim, options):
    x = with_strange_numbers((2, 3, *{1: (37,), 2: (19, 37), 3: (5, 6, 7)}[ndim]))
    ours, theirs = both(f"max_pool{ndim}d", return_indices=True, **options)
    tensor = torch.tensor(x, requires_grad=True)
    expected, places = theirs(tensor)
    cotangent = normal(*expected.shape).astype(np.float32)
    (gradient,) = torch.autograd.grad(expected, tensor, torch.tensor(cotangent))

    def run(x):
        y, pull, indices = jax.vjp(ours, x, has_aux=True)
        return y, indices, pull(jnp.asarray(cotangent))[0]

    y, indices, pulled = jax.jit(run)(x)
    np.testing.assert_array_equal(y, expected.detach())
    np.testing.assert_array_equal(indices, places)
    np.testing.assert_allclose(pulled, gradient, rtol=0, atol=3e-6)


@pytest.mark.parametrize("kernel", [1, 4])
def test_a_window_in_the_padding_throughout_has_no_gradient(kernel):
    """Here torch writes beyond its array."""
    pool = lambda x: F.max_pool2d(x, (2, kernel), stride=1, padding=(1, 0), dilation=(3, 1))
    y, pull = jax.vjp(jax.jit(pool), jnp.arange(8.0).reshape(1, 2, 4))  # rows -1 and 2 of two
    assert jnp.isneginf(y).all() and not jax.jit(pull)(jnp.ones_like(y))[0].any()


@pytest.mark.parametrize(("kernel", "stride"), [(2, None), (3, 1), (20, None), (56, 1)])
def test_nan_wins_in_large_arrays(kernel, stride):
    """XLA's maximum over an axis forgets it there."""
    x = jnp.asarray(np.where(integers(0, 40, 4, 8, 56, 56) == 0, np.nan, 1), jnp.float32)
    expected = T.max_pool2d(torch.tensor(np.asarray(x)), kernel, stride)
    np.testing.assert_array_equal(jax.jit(lambda x: F.max_pool2d(x, kernel, stride))(x), expected)


def test_many_taps_over_a_sharded_batch():
    def run(x):
        bins = F.adaptive_max_pool1d(x, 7)  # 33 taps, in a loop
        (values, places), pull = jax.vjp(lambda x: F.max_pool1d(x, 17, 3, return_indices=True), x)
        return bins, values, places, pull((values, np.zeros(places.shape, jax.dtypes.float0)))[0]

    x, cut = jnp.asarray(normal(2, 2, 225), jnp.float32), PartitionSpec("data")
    mesh = jax.make_mesh((2,), ("data",), axis_types=(jax.sharding.AxisType.Auto,))
    sharded = jax.shard_map(run, mesh=mesh, in_specs=cut, out_specs=cut)
    for got, want in zip(jax.jit(sharded)(x), jax.jit(run)(x), strict=True):
        np.testing.assert_array_equal(got, want)


def test_indices_are_int64_where_jax_has_it():
    places = lambda: jax.eval_shape(lambda: F.max_pool2d(X, 2, return_indices=True))[1]
    assert places().dtype == jnp.int32
    with jax.enable_x64(True):
        assert places().dtype == jnp.int64


@pytest.mark.slow
@pytest.mark.parametrize("kernel", [2, 4])
def test_derivatives_of_derivatives(kernel):
    with jax.enable_x64(True):
        x = jnp.asarray(normal(1, 6, 6))
        smooth = lambda x: F.max_pool2d(x**3, kernel, 1, 1)
        check_grads(jax.jit(smooth), (x,), order=2, modes=("fwd", "rev"), eps=1e-3, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kernel", [2, 4])
def test_vmap_is_the_loop(kernel):
    x = jnp.asarray(normal(3, 2, 6, 6), jnp.float32)
    slope = jax.grad(lambda x: (F.max_pool2d(x, kernel, 1, return_indices=True)[0] ** 2).sum())
    together, one = jax.jit(jax.vmap(slope)), jax.jit(slope)
    np.testing.assert_allclose(together(x), jnp.stack([one(each) for each in x]), rtol=1e-6)


@pytest.mark.slow
@given(
    st.sampled_from([(2, 7), (1, 10)]),
    st.integers(1, 5),
    st.integers(1, 4),
    st.integers(0, 2),
    st.integers(1, 3),
    st.booleans(),
    st.integers(0, 99),
)
def test_hypothesis_max_pool(shape, kernel, stride, pad, dilation, ceil, seed):
    """Values, indices and gradients of whatever torch takes, with ties; each dimension is treated alike."""
    x = integers(0, 4, *shape, seed=seed).astype(np.float32)
    ours, theirs = both(
        "max_pool1d",
        kernel_size=kernel,
        stride=stride,
        padding=min(pad, kernel // 2),
        dilation=dilation,
        ceil_mode=ceil,
        return_indices=True,
    )
    tensor = torch.tensor(x, requires_grad=True)
    try:
        expected, places = theirs(tensor)
    except RuntimeError:
        with pytest.raises(ValueError, match="the window is larger than the padded input"):
            ours(x)
        return
    assume(torch.isfinite(expected).all())  # a window without an entry: torch's index lies outside
    (gradient,) = torch.autograd.grad(expected.sum(), tensor)
    y, pull, indices = jax.vjp(ours, jnp.asarray(x), has_aux=True)
    np.testing.assert_array_equal(y, expected.detach())
    np.testing.assert_array_equal(indices, places)
    np.testing.assert_array_equal(pull(jnp.ones_like(y))[0], gradient)


@functools.cache
def averaged(name, *options):
    return both(name, **dict(options))


@pytest.mark.slow
@given(
    st.sampled_from([(2, 5, 4), (1, 7, 3)]),
    st.tuples(*[st.integers(1, 3)] * 2),
    st.tuples(*[st.integers(1, 3)] * 2),
    st.booleans(),
    st.sampled_from(
        [{}, {"padding": 1}, {"padding": (0, 1), "count_include_pad": False}, {"divisor_override": 3}, 1.0, 2.0]
    ),
    st.integers(0, 9),
)
def test_hypothesis_averages_and_norms(shape, kernel, stride, ceil, kind, seed):
    """avg_pool2d, or lp_pool2d where `kind` is its p; many zeros, where a norm has a corner."""
    options = {"kernel_size": kernel, "stride": stride, "ceil_mode": ceil}
    if isinstance(kind, float):
        calls = averaged("lp_pool2d", ("norm_type", kind), *options.items())
    else:
        assume(all(2 * pad <= k for pad, k in zip(np.resize(kind.get("padding", 0), 2), kernel, strict=True)))
        calls = averaged("avg_pool2d", *options.items(), *kind.items())
    as_near_as_torch(*calls, integers(-1, 2, *shape, seed=seed))


@pytest.mark.parametrize("name", ["avg_pool2d", "adaptive_avg_pool2d", "lp_pool2d"])
def test_what_adds_up_to_zero_is_zero(name):
    """And the absolute value of a sum, the 1-norm's last step in torch, has no slope there."""
    x = np.array([[[-1.0, 1.0, -1.0], [-1.0, 1.0, 1.0], [0.0, 1.0, -1.0]]], np.float32)
    arguments = {"avg_pool2d": (3,), "adaptive_avg_pool2d": ((1, 1),), "lp_pool2d": (1.0, 3)}[name]
    ours, theirs = (lambda x, lib=lib: getattr(lib, name)(x, *arguments) for lib in (F, T))
    assert ours(x).item() == theirs(torch.tensor(x)).item() == 0
    as_near_as_torch(ours, theirs, x)


def test_forward_and_reverse_mode():
    with jax.enable_x64(True):
        x = jnp.asarray(normal(1, 5, 5))
        for pool in (
            lambda x: F.max_pool2d(x, 3, 2, 1),
            lambda x: F.avg_pool2d(x, 3, 2, 1),
        ):
            check_grads(jax.jit(pool), (x,), order=1, modes=("fwd", "rev"), eps=1e-3)


def test_bfloat16_sums_in_float32():
    x = jnp.ones((1, 20, 20), jnp.bfloat16)
    for out in (F.avg_pool2d(x, 20), F.max_pool2d(x, 20)):
        assert out.dtype == jnp.bfloat16 and out.item() == 1


X = jnp.zeros((1, 3, 5, 5))


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: F.max_pool2d(X, 2, padding=2), ValueError, r"0 to half the kernel size \(2, 2\), got \(2, 2\)"),
        (lambda: F.avg_pool2d(X, 2, padding=2), ValueError, "F.avg_pool2d: padding is too large or negative"),
        (
            lambda: F.max_pool2d(X[0, 0], 2),
            ValueError,
            "F.max_pool2d: input has the wrong shape; expected 4 dimensions",
        ),
        (lambda: F.max_pool2d(X[..., :0], 2), ValueError, "no spatial size of 0"),
        (lambda: F.max_pool2d(X, 6), ValueError, "F.max_pool2d: the window is larger than the padded input"),
        (lambda: F.max_pool2d(X, 2, 0), ValueError, "F.max_pool2d: stride is too small; expected at least 1"),
        (lambda: F.max_pool2d(X, (2, 2, 2)), ValueError, "F.max_pool2d: kernel_size has the wrong length"),
        (lambda: F.avg_pool2d(X, 2, divisor_override=0), ValueError, "F.avg_pool2d: divisor_override is zero"),
        (lambda: F.max_pool2d(X, 2.0), TypeError, "F.max_pool2d: kernel_size is not an integer; expected int, got 2.0"),
        (
            lambda: F.avg_pool2d(X, (2, 2.5)),
            TypeError,
            "F.avg_pool2d: kernel_size is not an integer; expected int, got",
        ),
        (lambda: F.max_pool2d(X, None), TypeError, "F.max_pool2d: kernel_size is not an integer"),
        (
            lambda: F.max_pool2d(X[:, :0], 2),
            ValueError,
            "F.max_pool2d: input has no channels; expected at least 1 channel, got",
        ),
        (lambda: F.max_pool2d(X.astype(int), 2), TypeError, "F.max_pool2d: input must hold floating-point numbers"),
    ],
)
def test_refusals(call, error, text):
    with pytest.raises(error, match=text):
        call()
