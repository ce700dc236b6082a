"""Convolutions against torch."""

import jax.numpy as jnp
import numpy as np
import pytest
import torch.nn.functional as T

from funcnet import functional as F
from funcnet import nn

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


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel")
@pytest.mark.parametrize(("ndim", "shape", "weight", "options"), CASES)
def test_conv(ndim, shape, weight, options):
    if options.get("groups") == 2 and ndim == 3:
        weight = (weight[0], shape[0] // 2, *weight[2:])
    ours, theirs = (lambda x, w, b, lib=lib: getattr(lib, f"conv{ndim}d")(x, w, b, **options) for lib in (F, T))
    agrees(ours, theirs, normal(*shape), normal(*weight), normal(weight[0]))


TWO = (np.int64(2), np.array(2), [np.int64(2), 2], np.array([2, 2]))


@pytest.mark.parametrize("two", TWO, ids=repr)
def test_anything_with_an_index_is_a_size(two):
    x, w = jnp.asarray(normal(1, 3, 8, 8), jnp.float32), jnp.asarray(normal(2, 3, 2, 2), jnp.float32)
    np.testing.assert_array_equal(F.conv2d(x, w, None, two, two, two), F.conv2d(x, w, None, 2, 2, 2))
    layer = nn.Conv2d(3, 2, two, two, two, two, bias=False)
    assert repr(layer) == repr(nn.Conv2d(3, 2, 2, 2, 2, 2, bias=False))
    assert F.layer_norm(x, np.int64(8)).shape == F.pad(x, (np.int64(1), -1)).shape == x.shape


def test_without_bias_and_in_bfloat16():
    out = F.conv2d(jnp.ones((1, 2, 3, 3), jnp.bfloat16), jnp.ones((1, 2, 3, 3), jnp.bfloat16))
    assert out.dtype == jnp.bfloat16 and out.item() == 18


X, W = jnp.zeros((1, 4, 5, 5)), jnp.zeros((6, 4, 3, 3))


@pytest.mark.parametrize(
    ("arguments", "options", "error", "text"),
    [
        ((X[0, 0], W), {}, ValueError, "F.conv2d: input has the wrong rank; expected 4 dimensions"),
        ((X, W[0]), {}, ValueError, "F.conv2d: weight has the wrong rank"),
        ((X[:, :3], W), {}, ValueError, "F.conv2d: input has the wrong number of channels; expected 4, got 3"),
        ((X, W), {"groups": 4}, ValueError, "do not divide into groups; expected a multiple of groups=4, got 6"),
        ((X, W, jnp.zeros(4)), {}, ValueError, r"F.conv2d: bias has the wrong shape; expected \(6,\), got \(4,\)"),
        ((X, W), {"stride": 2, "padding": "same"}, ValueError, "padding='same' has no meaning with a stride"),
        (
            (X, W),
            {"padding": "full"},
            ValueError,
            "padding is unknown; expected 'same', 'valid' or numbers, got 'full'",
        ),
        ((X, W), {"padding": -1}, ValueError, "F.conv2d: padding is too small; expected at least 0"),
        ((X, W), {"stride": 0}, ValueError, "F.conv2d: stride is too small; expected at least 1"),
        ((X, W), {"dilation": (1, 1, 1)}, ValueError, "F.conv2d: dilation has the wrong length; expected one int or 2"),
        ((X, W), {"stride": 1.5}, TypeError, "F.conv2d: stride holds no integer; expected int, got 1.5"),
        ((X, W), {"padding": (1, 0.5)}, TypeError, "F.conv2d: padding holds no integer; expected int, got 0.5"),
        ((X, W), {"dilation": 3}, ValueError, "kernel is larger than the padded input; expected a size of at least 7"),
        ((X.astype(int), W), {}, TypeError, "F.conv2d: input must hold floating-point numbers"),
        ((X.astype(jnp.bfloat16), W), {}, TypeError, "F.conv2d: the dtypes differ"),
    ],
)
def test_refusals(arguments, options, error, text):
    with pytest.raises(error, match=text):
        F.conv2d(*arguments, **options)
