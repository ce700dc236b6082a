"""Fractional max pooling against torch under torch's own samples, and what is drawn without them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
import torch.nn.functional as T

from funcnet import functional as F
from funcnet import nn

from .oracle import integers, normal

KEY = jax.random.key(0)
CASES = [
    (2, (2, 3, 9, 7), {"kernel_size": 2, "output_size": (4, 5)}),
    (2, (3, 9, 7), {"kernel_size": (3, 1), "output_ratio": (0.5, 0.4)}),
    (3, (2, 2, 6, 5, 7), {"kernel_size": (2, 1, 3), "output_size": (3, 1, 4)}),
]


@pytest.mark.parametrize(("ndim", "shape", "options"), CASES)
def test_with_torchs_samples_it_is_torchs(ndim, shape, options):
    """The second half of the samples is for a larger batch than there is."""
    x = integers(0, 4, *shape).astype(np.float32)
    samples = np.random.default_rng(0).random((4, shape[-ndim - 1], ndim)).astype(np.float32)
    name = f"fractional_max_pool{ndim}d"
    tensor = torch.tensor(x, requires_grad=True)
    expected, places = getattr(T, name)(tensor, **options, return_indices=True, _random_samples=torch.tensor(samples))
    (gradient,) = torch.autograd.grad((expected * torch.tensor(normal(*expected.shape))).sum(), tensor)

    def run(x, samples):
        pool = lambda x: getattr(F, name)(x, **options, return_indices=True, _random_samples=samples)
        y, pull, indices = jax.vjp(pool, x, has_aux=True)
        return y, indices, pull(jnp.asarray(normal(*y.shape), y.dtype))[0]

    y, indices, pulled = jax.jit(run)(x, samples)
    np.testing.assert_array_equal(y, expected.detach())
    np.testing.assert_array_equal(indices, places)
    np.testing.assert_allclose(pulled, gradient, rtol=0, atol=1e-6)


@pytest.mark.slow
def test_draws_differ_by_key_and_channel_and_start_where_they_may():
    ramp = jnp.broadcast_to(jnp.arange(40.0), (2, 8, 3, 40))  # a window's maximum tells where it ends
    draw = jax.jit(lambda key: F.fractional_max_pool2d(ramp, (3, 2), (1, 15), rng=key))
    ends = draw(KEY)
    steps = jnp.diff(ends[:, :, 0], axis=-1)
    assert ends.min() >= 1 and (ends[..., -1] == 39).all() and steps.min() >= 1 and steps.max() <= 4
    assert not np.array_equal(ends[0], ends[1]) and not np.array_equal(ends[:, 0], ends[:, 1])
    assert not np.array_equal(ends, draw(jax.random.key(1))) and np.array_equal(ends, draw(KEY))


@pytest.mark.slow
def test_the_layer_draws_in_eval_too_and_keeps_given_samples_in_its_state():
    x = jnp.asarray(normal(2, 3, 9, 9), jnp.float32)
    layer = nn.FractionalMaxPool2d(2, output_ratio=0.5)
    first, second = (layer.apply({}, {}, x, rng=jax.random.key(i))[0] for i in range(2))
    assert first.shape == (2, 3, 4, 4) and not np.array_equal(first, second)
    samples = jnp.zeros((2, 3, 2))
    fixed = nn.FractionalMaxPool2d(2, output_size=4, _random_samples=samples)
    assert list(fixed.init(KEY)[1]) == ["_random_samples"]
    np.testing.assert_array_equal(
        fixed.apply(*fixed.init(KEY), x)[0], F.fractional_max_pool2d(x, 2, 4, _random_samples=samples)
    )


X = jnp.zeros((1, 3, 5, 5))


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (
            lambda: F.fractional_max_pool2d(X, 2, 2),
            ValueError,
            "F.fractional_max_pool2d: the function needs randomness; expected a key",
        ),
        (
            lambda: F.fractional_max_pool2d(X, 2, rng=KEY),
            ValueError,
            "the output size is missing; expected output_size or output",
        ),
        (lambda: F.fractional_max_pool2d(X, 2, None, (0.5, 0.5, 0.5), rng=KEY), ValueError, "output_ratio has the wro"),
        (
            lambda: F.fractional_max_pool2d(X, 2, 5, rng=KEY),
            ValueError,
            "the output size does not fit the input; expected sizes from",
        ),
        (
            lambda: F.fractional_max_pool2d(X, 2, None, 0.1, rng=KEY),
            ValueError,
            r"does not fit the input; .* got \(0, 0\)",
        ),
        (
            lambda: F.fractional_max_pool2d(X, 2, 2, _random_samples=jnp.zeros((1, 2, 2))),
            ValueError,
            r"_random_samples has the wrong shape; expected \(1, 3, 2\)",
        ),
        (lambda: F.fractional_max_pool3d(X.astype(int), 2, 2, rng=KEY), TypeError, "input must hold floating-point"),
        (
            lambda: nn.FractionalMaxPool2d(2),
            ValueError,
            "Pool2d: exactly one of two arguments is required; .* got neither",
        ),
        (
            lambda: nn.FractionalMaxPool3d(2, 2, 0.5),
            ValueError,
            "FractionalMaxPool3d: exactly one of two arguments is required; .* both",
        ),
        (
            lambda: nn.FractionalMaxPool2d(2, None, 1.5),
            ValueError,
            "output_ratio is out of range; expected numbers between",
        ),
    ],
)
def test_refusals(call, error, text):
    with pytest.raises(error, match=text):
        call()
