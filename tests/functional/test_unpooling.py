"""Max unpooling against torch: sizes, indices that come twice, what is out of range."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
import torch.nn.functional as T
from jax.test_util import check_grads

from funcnet import functional as F

from .oracle import agrees, normal

POOLS = [
    (1, (2, 3, 9), {"kernel_size": 2}),
    (2, (2, 3, 7, 6), {"kernel_size": (3, 2), "stride": (3, 2), "padding": (1, 0)}),
    (2, (3, 6, 6), {"kernel_size": 3, "stride": 1}),
    (3, (1, 2, 4, 5, 4), {"kernel_size": 2, "stride": (2, 3, 2)}),
]


@pytest.mark.parametrize(("ndim", "shape", "options"), POOLS)
def test_what_was_pooled_goes_back(ndim, shape, options):
    """Where windows overlap an index comes twice, and all its entries have the gradient."""
    x = torch.tensor(normal(*shape))
    y, places = getattr(T, f"max_pool{ndim}d")(x, **options, return_indices=True)
    for size in (None, shape[-ndim:], shape if len(shape) == ndim + 2 else None):
        ours = lambda y, i, size=size: getattr(F, f"max_unpool{ndim}d")(y, i, **options, output_size=size)
        theirs = lambda y, i, size=size: getattr(T, f"max_unpool{ndim}d")(y, i, **options, output_size=size)
        agrees(ours, theirs, y.numpy(), places.numpy().astype(np.int32), dtypes=(np.float32,))


def test_of_entries_for_one_place_the_last_stays():
    """torch's threads leave it to chance which."""
    places = np.random.default_rng(0).integers(0, 150, size=(1, 3, 300))
    values = normal(1, 3, 300).astype(np.float32)
    expected = np.zeros((1, 3, 300), np.float32)
    for plane, (at, value) in enumerate(zip(places[0], values[0], strict=True)):
        expected[0, plane, at] = value  # numpy's last one stays, too
    np.testing.assert_array_equal(jax.jit(lambda y, i: F.max_unpool1d(y, i, 1))(values, places), expected)


def test_an_empty_batch_stays_empty():
    assert F.max_unpool2d(jnp.ones((0, 3, 2, 2)), jnp.ones((0, 3, 2, 2), int), 2).shape == (0, 3, 4, 4)


@pytest.mark.slow
def test_derivatives_of_derivatives_and_vmap():
    places = jnp.array([[0, 3, 5]])
    with jax.enable_x64(True):
        unpool = jax.jit(lambda y: F.max_unpool1d(y**3, places, 2))
        check_grads(unpool, (jnp.asarray(normal(1, 3)),), order=2, modes=("fwd", "rev"), eps=1e-3, rtol=1e-4, atol=1e-4)
    y = jnp.asarray(normal(4, 1, 3), jnp.float32)
    together = jax.vmap(lambda y: F.max_unpool1d(y, places, 2))(y)
    np.testing.assert_array_equal(together, F.max_unpool1d(y, jnp.tile(places, (4, 1, 1)), 2))


def test_within_jit_an_index_out_of_range_is_dropped():
    unpool = jax.jit(lambda y, i: F.max_unpool1d(y, i, 2))
    assert unpool(jnp.ones((1, 2)), jnp.array([[9, -1]])).tolist() == [[0, 0, 0, 0]]


Y, AT = jnp.ones((1, 3, 2, 2)), jnp.zeros((1, 3, 2, 2), int)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (
            lambda: F.max_unpool2d(Y, AT + 16, 2),
            ValueError,
            "F.max_unpool2d: indices is out of range; expected values from 0 to 15",
        ),
        (lambda: F.max_unpool2d(Y, AT[..., :1], 2), ValueError, "indices has the wrong shape; expected"),
        (lambda: F.max_unpool2d(Y, Y, 2), TypeError, "F.max_unpool2d: indices must hold integers"),
        (lambda: F.max_unpool2d(AT, AT, 2), TypeError, "F.max_unpool2d: input must hold floating-point numbers"),
        (lambda: F.max_unpool2d(Y[:, :0], AT[:, :0], 2), ValueError, "F.max_unpool2d: input has no channels"),
        (
            lambda: F.max_unpool2d(Y, AT, 2, output_size=(4, 6)),
            ValueError,
            "output_size does not fit; expected 2 spatial sizes",
        ),
        (
            lambda: F.max_unpool2d(Y, AT, 2, output_size=(4,)),
            ValueError,
            "output_size does not fit; expected 2 spatial sizes",
        ),
        (lambda: F.max_unpool2d(Y, AT, 1, 1, 1), ValueError, r"the result would be empty; .* got \(0, 0\)"),
        (lambda: F.max_unpool2d(Y, AT, 2, 0), ValueError, "F.max_unpool2d: stride is too small"),
        (lambda: F.max_unpool1d(Y, AT, 2), ValueError, "F.max_unpool1d: input has the wrong shape"),
    ],
)
def test_refusals(call, error, text):
    with pytest.raises(error, match=text):
        call()
