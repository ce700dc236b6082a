"""Power-average pooling against torch: odd powers of negative numbers, windows of zeros, overhanging windows."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch.nn.functional as T

from funcnet import functional as F

from .oracle import agrees, normal

SHAPES = {1: (2, 3, 11), 2: (2, 3, 7, 6), 3: (1, 2, 4, 5, 6)}


@pytest.mark.parametrize(
    ("ndim", "p", "options"),
    [
        (1, 2.0, {"kernel_size": 3, "stride": 2, "ceil_mode": True}),
        (2, 3, {"kernel_size": (2, 3)}),
        (2, float("inf"), {"kernel_size": 2, "stride": (1, 2)}),
        (2, -float("inf"), {"kernel_size": 3, "ceil_mode": True}),
        (3, 2, {"kernel_size": 2}),
        (1, 1, {"kernel_size": 3}),
    ],
)
def test_lp_pool(ndim, p, options):
    """Of negative numbers too: a negative sum has a cube root neither here nor in torch."""
    x = normal(*SHAPES[ndim])
    ours, theirs = (lambda x, lib=lib: getattr(lib, f"lp_pool{ndim}d")(x, p, **options) for lib in (F, T))
    agrees(ours, theirs, x if p != 3 else np.abs(x), dtypes=(np.float64,) if p == 3 else (np.float64, np.float32))


def test_a_negative_sum_has_no_cube_root():
    out = jax.jit(lambda x: F.lp_pool1d(x, 3, 2))(jnp.array([[-1.0, -2.0, 1.0, 1.0]]))
    assert jnp.isnan(out[0, 0]) and jnp.isfinite(out[0, 1])


@pytest.mark.parametrize("p", [1.0, 1.5, 2.0, 3.0, float("inf")])
def test_zeros_have_torchs_gradient(p):
    x = np.array([[0.0, 0.0, 0.0, 2.0, 1.0, 1.0]])
    agrees(lambda x: F.lp_pool1d(x, p, 2), lambda x: T.lp_pool1d(x, p, 2), x, dtypes=(np.float32,))


def test_bfloat16_sums_in_float32():
    out = F.lp_pool2d(jnp.ones((1, 20, 20), jnp.bfloat16), 1, 20)
    assert out.dtype == jnp.bfloat16 and out.item() == 400


X = jnp.zeros((1, 3, 5, 5))


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (
            lambda: F.lp_pool2d(X, 0, 2),
            ValueError,
            "F.lp_pool2d: norm_type is zero; expected a nonzero number, because the result is a power",
        ),
        (lambda: F.lp_pool2d(X, 2, 6), ValueError, "F.lp_pool2d: the window is larger than the padded input"),
        (lambda: F.lp_pool2d(X[:, :0], 2, 2), ValueError, "F.lp_pool2d: input has no channels"),
        (lambda: F.lp_pool1d(X.astype(int), 2, 2), TypeError, "F.lp_pool1d: input must hold floating-point numbers"),
    ],
)
def test_refusals(call, error, text):
    with pytest.raises(error, match=text):
        call()
