"""Running log-sums, both extremes, medians without NaN, derivatives and runs of equal entries, against torch."""

import jax.numpy as jnp
import numpy as np
import pytest
import torch

import funcnet.torchlike as tl

from .database import agrees, same

X = np.random.default_rng(0).normal(size=(3, 4, 5))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["aminmax", "logcumsumexp", "nanmedian"])
def test_database(name):
    agrees(name)


def test_axes():
    for dim in (None, (), [], 1, (0, 2), [0, -1]):
        same(lambda x, d=dim: x.sum(axis=tl.axes(d)), lambda x, d=dim: torch.sum(x, dim=d), X)


def test_ties():
    tied = np.array([[2.0, 1.0, 2.0, 1.0], [3.0, 3.0, 3.0, 3.0]])
    for dim in (None, 0, 1):
        same(lambda x, d=dim: tl.aminmax(x, dim=d), lambda x, d=dim: torch.aminmax(x, dim=d), tied)
    same(tl.nanmedian, torch.nanmedian, tied)
    same(tl.nanmedian, torch.nanmedian, np.where(tied == 2, np.nan, tied))
    same(tl.nanmedian, torch.nanmedian, np.full(3, np.nan))


@pytest.mark.parametrize("dim", [None, 0, -1])
def test_the_extremes_of_a_long_row_with_nan(dim):
    long = np.ones((5000,) if dim is None else (5000, 2) if dim == 0 else (2, 5000), np.float32)
    long.reshape(-1)[78] = np.nan  # XLA's extremes lose it on CPU
    for keepdim in (False, True):
        want = torch.aminmax(torch.tensor(long), dim=dim, keepdim=keepdim)
        for one, other in zip(tl.aminmax(jnp.asarray(long), dim=dim, keepdim=keepdim), want, strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("order", [1, 2])
def test_gradient(order):
    places = [np.array([0.0, 1.0, 3.0]), np.array([0.0, 0.5, 2.0, 4.0]), np.array([0.0, 1.0, 2.0, 4.0, 8.0])]
    tensors = [torch.tensor(one) for one in places]
    spaced = {"spacing": (0.5, 2.0), "dim": (2, 0), "edge_order": order}
    same(lambda x: tl.gradient(x, edge_order=order), lambda x: torch.gradient(x, edge_order=order), X)
    same(lambda x: tl.gradient(x, **spaced), lambda x: torch.gradient(x, **spaced), X)
    same(
        lambda x: tl.gradient(x, spacing=places, edge_order=order),
        lambda x: torch.gradient(x, spacing=tensors, edge_order=order),
        X,
    )


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_cumulative_trapezoid(dim):
    ours, theirs = (
        lambda y, x=None, lib=lib, **o: lib.cumulative_trapezoid(y, dim=dim, **({"x": x} if x is not None else o))
        for lib in (tl, torch)
    )
    same(lambda y: ours(y, dx=0.5), lambda y: theirs(y, dx=0.5), X)
    same(ours, theirs, X, np.arange(float(X.shape[dim])) ** 2)
    same(ours, theirs, X, X**2)


def test_sum_to_size():
    for size in ((3, 4, 5), (4, 5), (1, 5), (3, 1, 5), (1,), ()):
        same(lambda x, s=size: tl.sum_to_size(x, s), lambda x, s=size: x.sum_to_size(s), X)


@pytest.mark.parametrize("dim", [None, 0, 1])
def test_unique_consecutive(dim):
    numbers = np.array([[1, 1, 2, 2], [1, 1, 2, 2], [3, 3, 2, 1]])
    for options in (
        {},
        {"return_inverse": True},
        {"return_counts": True},
        {"return_inverse": True, "return_counts": True},
    ):
        same(
            lambda x, o=options: tl.unique_consecutive(x, dim=dim, **o),
            lambda x, o=options: torch.unique_consecutive(x, dim=dim, **o),
            numbers,
            jit=False,
        )


def test_refusals():
    x = jnp.ones((2, 3))
    for match, call in {
        "tl.sum_to_size: the sizes do not fit": lambda: tl.sum_to_size(x, 2, 2),
        "tl.gradient: the arguments do not fit": lambda: tl.gradient(x, spacing=(1.0, 1.0, 1.0)),
        "tl.gradient: dimension 0 is too small": lambda: tl.gradient(x, edge_order=2),
        "dim is out of range": lambda: tl.logcumsumexp(x, 2),
    }.items():
        with pytest.raises(ValueError, match=match):
            call()
