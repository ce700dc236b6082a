"""Extremes, medians and modes against torch, with ties and NaN."""

import jax.numpy as jnp
import numpy as np
import pytest
import torch

import funcnet.torchlike as tl

from .database import agrees, same

TIES = np.array([[1.0, 3.0, 3.0, 2.0], [5.0, 5.0, 5.0, 0.0], [2.0, 1.0, 4.0, 3.0]])
NAN = np.array([[1.0, np.nan, 3.0, np.nan], [2.0, 1.0, 5.0, 0.0]])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["max", "min", "median", "mode"])
def test_database(name):
    agrees(name)


@pytest.mark.parametrize("name", ["max", "min"])
def test_ties_share_the_gradient_without_a_dim(name):
    ours, theirs = getattr(tl, name), getattr(torch, name)
    same(ours, theirs, TIES)
    same(ours, theirs, TIES, np.roll(TIES, 1, 1))
    same(lambda x, y: ours(x, other=y), lambda x, y: theirs(x, other=y), TIES, TIES[:1])
    for keepdim in (False, True):
        same(lambda x, k=keepdim: ours(x, -1, k), lambda x, k=keepdim: theirs(x, -1, k), TIES)


@pytest.mark.parametrize("name", ["max", "min", "median"])
def test_nan_counts(name):
    for dim in ((), (0,), (1,)):
        want = getattr(torch, name)(torch.tensor(NAN), *dim)
        got = getattr(tl, name)(jnp.asarray(NAN), *dim)
        for one, other in zip(got, want, strict=True) if dim else [(got, want)]:
            np.testing.assert_array_equal(one, other)
    long = jnp.ones(5000).at[77].set(jnp.nan)  # XLA's maximum loses it on CPU
    assert jnp.isnan(getattr(tl, name)(long))


@pytest.mark.parametrize("dtype", ["int32", "bfloat16", "uint8", "bool"])
def test_dtypes(dtype):
    numbers = np.array([[1, 0, 1], [0, 0, 1]])
    x, t = jnp.asarray(numbers).astype(dtype), torch.tensor(numbers).to(getattr(torch, dtype))
    for name in ("max", "min", "mode") + ("median",) * (dtype != "bool"):
        got, want = getattr(tl, name)(x, 1), getattr(torch, name)(t, 1)
        assert got.values.dtype == dtype and got.indices.dtype == jnp.int32
        np.testing.assert_array_equal(got.values.astype(np.float32), want.values.float())
    assert tl.max(x).dtype == dtype and tl.max(x, x).dtype == dtype


def test_medians_and_modes():
    same(tl.median, torch.median, TIES)
    same(tl.median, torch.median, TIES[0])
    same(
        lambda x: tl.median(x, 0, True),
        lambda x: torch.median(x, 0, True),
        np.random.default_rng(0).normal(size=(4, 3)),
    )
    numbers = np.random.default_rng(0).integers(0, 4, (5, 9))
    for dim in (0, 1):
        got, want = tl.mode(jnp.asarray(numbers), dim), torch.mode(torch.tensor(numbers), dim)
        np.testing.assert_array_equal(got.values, want.values)
        np.testing.assert_array_equal(got.indices, want.indices)


def test_empty_and_size_1():
    same(lambda x: tl.max(x, 1), lambda x: torch.max(x, 1), np.zeros((0, 3)))
    same(lambda x: tl.median(x, 0), lambda x: torch.median(x, 0), np.ones((1, 3)))
    same(lambda x: tl.mode(x, 0), lambda x: torch.mode(x, 0), np.ones((1, 3)))
    assert jnp.isnan(tl.median(jnp.zeros(0))) and torch.isnan(torch.median(torch.zeros(0)))
    for call in (lambda x: tl.max(x), lambda x: tl.min(x, 1), lambda x: tl.median(x, 1), lambda x: tl.mode(x)):
        with pytest.raises(ValueError, match="empty"):
            call(jnp.zeros((2, 0)))
    with pytest.raises(ValueError, match=r"tl.max: .*empty|tl.min|out of range"):
        tl.max(jnp.ones(3), 1)
