"""pixel_shuffle, pixel_unshuffle and channel_shuffle against torch."""

import jax.numpy as jnp
import pytest
import torch.nn.functional as T

from funcnet import functional as F

from .oracle import agrees, normal

CASES = [
    ("pixel_shuffle", (8, 3, 2), 2),
    ("pixel_shuffle", (2, 1, 18, 1, 2), 3),
    ("pixel_unshuffle", (2, 2, 6, 3), 3),
    ("channel_shuffle", (2, 6, 3), 3),
    ("channel_shuffle", (1, 6, 2, 0, 2), 2),
    ("native_channel_shuffle", (2, 6, 2, 3), 2),
]


@pytest.mark.parametrize(("name", "shape", "factor"), CASES)
def test_shuffles(name, shape, factor):
    theirs = getattr(T, name.removeprefix("native_"))  # the native one has no derivative
    agrees(lambda x: getattr(F, name)(x, factor), lambda x: theirs(x, factor), normal(*shape))


def test_nothing_has_the_shape_of_something():
    """torch leaves an empty array that is unshuffled, and gradients of empty ones, in the shape of the input."""
    assert F.pixel_shuffle(jnp.zeros((0, 4, 2, 2)), 2).shape == (0, 1, 4, 4)
    assert F.pixel_unshuffle(jnp.zeros((1, 0, 4)), 2).shape == (4, 0, 2)


def test_any_dtype_is_moved():
    x = jnp.arange(8).reshape(1, 4, 2)
    assert F.channel_shuffle(x, 2).dtype == F.pixel_unshuffle(x, 2).dtype == x.dtype
    assert F.native_channel_shuffle(x, 4).tolist() == x.tolist()


X = jnp.zeros((2, 5, 3))


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: F.pixel_shuffle(X[0], 1), ValueError, "F.pixel_shuffle: input has the wrong rank; .* at least 3"),
        (lambda: F.pixel_shuffle(X, 2), ValueError, "square of upscale_factor; expected a multiple of 4, got 2"),
        (
            lambda: F.pixel_shuffle(X, 0),
            ValueError,
            "F.pixel_shuffle: upscale_factor is too small; expected at least 1",
        ),
        (lambda: F.pixel_shuffle(X, 2.0), TypeError, "F.pixel_shuffle: upscale_factor is not an integer"),
        (lambda: F.pixel_unshuffle(X[0], 1), ValueError, "F.pixel_unshuffle: input has the wrong rank"),
        (lambda: F.pixel_unshuffle(X, 3), ValueError, r"are not divisible by downscale_factor; .* of 3, got \(5, 3\)"),
        (lambda: F.pixel_unshuffle(X, -1), ValueError, "downscale_factor is too small; expected at least 1, got -1"),
        (lambda: F.channel_shuffle(X[0], 1), ValueError, "F.channel_shuffle: input has the wrong rank"),
        (lambda: F.channel_shuffle(X, 2), ValueError, "expected groups to be a positive divisor of 5, got 2"),
        (lambda: F.native_channel_shuffle(X, 0), ValueError, "F.native_channel_shuffle: .* divisor of 5, got 0"),
    ],
)
def test_refusals(call, error, text):
    with pytest.raises(error, match=text):
        call()
