"""fold and unfold against torch."""

import jax.numpy as jnp
import numpy as np
import pytest
import torch
import torch.nn.functional as T
from hypothesis import given
from hypothesis import strategies as st

from funcnet import functional as F

from .oracle import agrees, normal

CASES = [
    ((2, 3, 5, 6), 2, {}),
    ((3, 5, 6), (2, 3), {"dilation": (1, 2), "padding": (1, 2), "stride": (2, 1)}),
    ((0, 2, 4, 4), 3, {"padding": 1}),
    ((1, 2, 6, 1), (3, 1), {"stride": 4, "padding": (2, 0)}),
]


@pytest.mark.parametrize(("shape", "kernel", "options"), CASES)
def test_unfold_and_fold(shape, kernel, options):
    agrees(lambda x: F.unfold(x, kernel, **options), lambda x: T.unfold(x, kernel, **options), normal(*shape))
    columns = normal(*T.unfold(torch.zeros(shape), kernel, **options).shape)
    size = shape[-2:]
    agrees(lambda x: F.fold(x, size, kernel, **options), lambda x: T.fold(x, size, kernel, **options), columns)


def test_half_precision_is_summed_in_float32():
    columns = jnp.asarray(normal(1, 9, 36), jnp.bfloat16)
    exact = T.fold(torch.tensor(np.asarray(columns, np.float64)), 8, 3).numpy()
    out = F.fold(columns, 8, 3)
    assert out.dtype == jnp.bfloat16 and F.unfold(out, 3).dtype == jnp.bfloat16
    np.testing.assert_allclose(np.asarray(out, np.float64), exact, rtol=2**-8, atol=1e-6)


@pytest.mark.slow
@given(data=st.data())
def test_hypothesis_fold(data):
    draw = lambda low, high: data.draw(st.integers(low, high))
    size, kernel, dilation, pad, stride = ((draw(low, 4), draw(low, 4)) for low in (1, 1, 1, 0, 1))
    x = normal(draw(0, 2), draw(1, 2), *size).astype(np.float32)
    window = (kernel, dilation, pad, stride)
    try:
        expected = T.unfold(torch.tensor(x), *window)
    except RuntimeError:
        with pytest.raises(ValueError, match=r"F.unfold: there is nothing to extract"):
            F.unfold(x, *window)
        return
    out = F.unfold(x, *window)
    np.testing.assert_array_equal(out, expected)
    np.testing.assert_allclose(F.fold(out, size, *window), T.fold(expected, size, *window), rtol=1e-6, atol=1e-6)


X, COLUMNS = jnp.zeros((2, 3, 5, 5)), jnp.zeros((2, 12, 16))


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: F.unfold(X[0, 0], 2), ValueError, "F.unfold: input has the wrong shape; expected 4 dimensions"),
        (lambda: F.unfold(X[:, :0], 2), ValueError, "F.unfold: there is nothing to extract; .* block and one channel"),
        (
            lambda: F.unfold(X, 6),
            ValueError,
            r"F.unfold: there is nothing to extract; .* got \(0, 0\) blocks of \(6, 6\)",
        ),
        (lambda: F.unfold(X, 0), ValueError, "F.unfold: kernel_size is too small; expected at least 1"),
        (lambda: F.unfold(X, 2, 0), ValueError, "F.unfold: dilation is too small"),
        (lambda: F.unfold(X, 2, padding=-1), ValueError, "F.unfold: padding is too small; expected at least 0"),
        (lambda: F.unfold(X, 2, stride=(1, 0)), ValueError, "F.unfold: stride is too small"),
        (lambda: F.unfold(X, (2, 2, 2)), ValueError, "F.unfold: kernel_size has the wrong length"),
        (lambda: F.unfold(X.astype(int), 2), TypeError, "F.unfold: input must hold floating-point numbers"),
        (lambda: F.fold(COLUMNS[None], 5, 2), ValueError, "F.fold: input has the wrong shape; .* got .1, 2, 12, 16"),
        (
            lambda: F.fold(COLUMNS[:, :0], 5, 2),
            ValueError,
            "F.fold: input has the wrong shape; .* with at least one row and one block",
        ),
        (
            lambda: F.fold(COLUMNS, 5, 3),
            ValueError,
            "F.fold: the number of rows does not fit the kernel; .* multiple of 9",
        ),
        (
            lambda: F.fold(COLUMNS, (4, 5), 2),
            ValueError,
            "F.fold: the number of blocks does not match .* 3 · 4, got 16",
        ),
        (lambda: F.fold(COLUMNS, 0, 2), ValueError, "F.fold: the number of blocks does not match output_size"),
        (lambda: F.fold(COLUMNS.astype(int), 5, 2), TypeError, "F.fold: input must hold floating-point numbers"),
    ],
)
def test_refusals(call, error, text):
    with pytest.raises(error, match=text):
        call()
