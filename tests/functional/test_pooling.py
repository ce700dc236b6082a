"""Pooling against torch, with ties, overhanging windows and uneven bins."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
import torch.nn.functional as T
from jax.test_util import check_grads

from funcnet import functional as F
from funcnet import nn

from .oracle import agrees, integers, normal

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
@pytest.mark.parametrize("ndim", [1, 2, 3])
def test_max_pool_with_many_ties(ndim, options):
    x = integers(0, 3, *SHAPES[ndim]).astype(float)
    agrees(*both(f"max_pool{ndim}d", **options), x, dtypes=(np.float32,))


@pytest.mark.parametrize("options", WINDOWS)
@pytest.mark.parametrize("ndim", [1, 2, 3])
def test_avg_pool(ndim, options):
    agrees(*both(f"avg_pool{ndim}d", **options), normal(*SHAPES[ndim]))
    without = both(f"avg_pool{ndim}d", **options, count_include_pad=False)
    agrees(*without, normal(*SHAPES[ndim]), dtypes=(np.float32,))


@pytest.mark.parametrize("ndim", [2, 3])
def test_divisor_override(ndim):
    options = {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True, "divisor_override": 5}
    agrees(*both(f"avg_pool{ndim}d", **options), normal(*SHAPES[ndim]))


@pytest.mark.parametrize("ndim", [1, 2, 3])
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
    with pytest.raises(ValueError, match="padding is too large or negative; expected at most half the kernel"):
        ours(jnp.asarray(x))


TWO = (np.int64(2), np.int32(2), np.array(2), np.uint8(2), (np.int64(2), 2), np.array([2, 2]), jnp.array(2))


@pytest.mark.parametrize("two", TWO, ids=repr)
def test_anything_with_an_index_is_a_size(two):
    x = jnp.asarray(normal(1, 3, 8, 8), jnp.float32)
    np.testing.assert_array_equal(F.max_pool2d(x, two, two, np.int8(1), two), F.max_pool2d(x, 2, 2, 1, 2))
    np.testing.assert_array_equal(F.avg_pool2d(x, two, two), F.avg_pool2d(x, 2, 2))
    np.testing.assert_array_equal(F.adaptive_avg_pool2d(x, two), F.adaptive_avg_pool2d(x, 2))
    np.testing.assert_array_equal(F.adaptive_avg_pool2d(x, (None, np.int64(2))), F.adaptive_avg_pool2d(x, (None, 2)))
    np.testing.assert_array_equal(nn.MaxPool2d(two, two).apply({}, {}, x)[0], F.max_pool2d(x, 2, 2))


def test_an_empty_stride_is_the_kernels():
    x = jnp.asarray(normal(1, 3, 8), jnp.float32)
    for empty in ((), [], np.array([], int)):
        np.testing.assert_array_equal(F.avg_pool1d(x, 2, empty), F.avg_pool1d(x, 2))


def test_kernels_of_two_numbers():
    agrees(*both("max_pool2d", kernel_size=(2, 3), stride=(1, 2), padding=(1, 0), dilation=(1, 2)), normal(2, 3, 7, 10))
    agrees(*both("avg_pool2d", kernel_size=(2, 3), stride=(1, 2), padding=(1, 0)), normal(3, 7, 10))


@pytest.mark.parametrize(
    ("ndim", "size"),
    [(1, 4), (1, 11), (1, 13), (2, 1), (2, (3, 5)), (2, (None, 2)), (2, (7, 20)), (3, (2, 4, 7))],
)
def test_adaptive_avg_pool(ndim, size):
    name = f"adaptive_avg_pool{ndim}d"
    agrees(*both(name, output_size=size), normal(*SHAPES[ndim]))


@pytest.mark.parametrize("name", ["max_pool2d", "avg_pool2d"])
def test_empty_batch_and_no_batch(name):
    agrees(*both(name, kernel_size=2), normal(0, 3, 4, 4), dtypes=(np.float32,))
    agrees(*both(name, kernel_size=2), normal(3, 4, 4), dtypes=(np.float32,))


def test_nan_wins():
    x = jnp.array([[1.0, jnp.nan, 3.0, 0.0, 1.0, 2.0]])
    np.testing.assert_array_equal(F.max_pool1d(x, 3), [[jnp.nan, 2.0]])


def test_forward_and_reverse_mode():
    with jax.enable_x64(True):
        x = jnp.asarray(normal(1, 5, 5))
        for pool in (
            lambda x: F.max_pool2d(x, 3, 2, 1),
            lambda x: F.avg_pool2d(x, 3, 2, 1),
            lambda x: F.adaptive_avg_pool2d(x, 2),
        ):
            check_grads(jax.jit(pool), (x,), order=1, modes=("fwd", "rev"), eps=1e-3)


def test_bfloat16_sums_in_float32():
    x = jnp.ones((1, 20, 20), jnp.bfloat16)
    for out in (F.avg_pool2d(x, 20), F.adaptive_avg_pool2d(x, 1), F.max_pool2d(x, 20)):
        assert out.dtype == jnp.bfloat16 and out.item() == 1


X = jnp.zeros((1, 3, 5, 5))


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: F.max_pool2d(X, 2, padding=2), ValueError, r"at most half the kernel \(2, 2\), got \(2, 2\)"),
        (lambda: F.avg_pool2d(X, 2, padding=2), ValueError, "F.avg_pool2d: padding is too large or negative"),
        (
            lambda: F.max_pool2d(X[0, 0], 2),
            ValueError,
            "F.max_pool2d: input has the wrong shape; expected 4 dimensions",
        ),
        (lambda: F.max_pool2d(X[..., :0], 2), ValueError, "no spatial one of size 0"),
        (lambda: F.max_pool2d(X, 6), ValueError, "F.max_pool2d: the window is larger than the padded input"),
        (lambda: F.max_pool2d(X, 2, 0), ValueError, "F.max_pool2d: stride is too small; expected at least 1"),
        (lambda: F.max_pool2d(X, (2, 2, 2)), ValueError, "F.max_pool2d: kernel_size has the wrong length"),
        (lambda: F.avg_pool2d(X, 2, divisor_override=0), ValueError, "F.avg_pool2d: divisor_override is zero"),
        (lambda: F.max_pool2d(X, 2.0), TypeError, "F.max_pool2d: kernel_size holds no integer; expected int, got 2.0"),
        (lambda: F.avg_pool2d(X, (2, 2.5)), TypeError, "F.avg_pool2d: kernel_size holds no integer; expected int, got"),
        (lambda: F.max_pool2d(X, None), TypeError, "F.max_pool2d: kernel_size holds no integer"),
        (lambda: F.adaptive_avg_pool2d(X, 2.5), TypeError, "output_size holds no integer; expected int, got 2.5"),
        (lambda: F.max_pool2d(X, 2, return_indices=True), ValueError, "F.max_pool2d: indices are not given"),
        (lambda: F.adaptive_avg_pool2d(X, (1, 2, 3)), ValueError, "output_size does not fit; expected 2 sizes"),
        (lambda: F.max_pool2d(X.astype(int), 2), TypeError, "F.max_pool2d: input must hold floating-point numbers"),
    ],
)
def test_refusals(call, error, text):
    with pytest.raises(error, match=text):
        call()
