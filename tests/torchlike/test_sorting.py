"""Order against torch, with ties and NaN."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import funcnet.torchlike as tl

from .database import agrees, same

TIES = np.array([[1.0, 3.0, 3.0, 2.0, 1.0], [5.0, 5.0, 5.0, 0.0, -1.0]])
NAN = np.array([1.0, np.nan, 3.0, -np.inf, np.inf, np.nan, 2.0])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["topk", "kthvalue", "cummax", "cummin"])
def test_database(name):
    agrees(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["sort", "searchsorted"])
def test_long_database(name):
    agrees(name)


@pytest.mark.parametrize("descending", [False, True])
def test_sort_is_stable(descending):
    for dim in (0, -1):
        ours = lambda x, d=dim: tl.sort(x, d, descending)
        same(ours, lambda x, d=dim: torch.sort(x, dim=d, descending=descending, stable=True), TIES)
    want = torch.sort(torch.tensor(NAN), descending=descending, stable=True)
    for got, other in zip(tl.sort(jnp.asarray(NAN), descending=descending), want, strict=True):
        np.testing.assert_array_equal(got, other)
    same(lambda x: tl.sort(x, 0, descending), lambda x: torch.sort(x, 0, descending), np.float64(2))


@pytest.mark.parametrize("largest", [False, True])
def test_topk(largest):
    x = np.random.default_rng(0).permutation(24).reshape(2, 3, 4)
    for dim in (0, 1, -1):
        for kind in (np.float64, np.int64):
            same(
                lambda a, d=dim: tl.topk(a, 2, d, largest),
                lambda a, d=dim: torch.topk(a, 2, d, largest),
                x.astype(kind),
            )
    np.testing.assert_array_equal(tl.topk(jnp.asarray(NAN), 4, 0, largest)[0], torch.tensor(NAN).topk(4, 0, largest)[0])
    np.testing.assert_array_equal(
        tl.topk(jnp.asarray(TIES), 3, 1, largest)[0], torch.tensor(TIES).topk(3, 1, largest)[0]
    )
    assert tl.topk(jnp.array([True, False]), 1, 0, largest).values[0] == largest
    assert tl.topk(jnp.ones((2, 3), jnp.bfloat16), 0).values.shape == (2, 0)


@pytest.mark.parametrize("name", ["cummax", "cummin"])
def test_running_extremes(name):
    ours, theirs = getattr(tl, name), getattr(torch, name)
    for dim in (0, 1):
        same(lambda x, d=dim: ours(x, d), lambda x, d=dim: theirs(x, d), TIES)
        same(lambda x, d=dim: ours(x, d), lambda x, d=dim: theirs(x, d), TIES.astype(np.int64))
    for got, want in zip(ours(jnp.asarray(NAN), 0), theirs(torch.tensor(NAN), 0), strict=True):
        np.testing.assert_array_equal(got, want)
    same(lambda x: ours(x, 0), lambda x: theirs(x, 0), np.zeros((0, 2)))


def test_kthvalue_of_every_k():
    x = np.random.default_rng(0).normal(size=(5, 3))
    for k in range(1, 6):
        same(lambda a, k=k: tl.kthvalue(a, k, 0, True), lambda a, k=k: torch.kthvalue(a, k, 0, True), x)


def test_searchsorted():
    rows = np.sort(np.random.default_rng(0).integers(0, 9, (2, 3, 6)), -1)
    values = np.arange(-1, 11).reshape(1, 1, 12).repeat(2, 0).repeat(3, 1)
    for right in (False, True):
        ours, theirs = (lambda a, v, lib=lib, r=right: lib.searchsorted(a, v, right=r) for lib in (tl, torch))
        same(ours, theirs, rows, values)
        same(ours, theirs, rows[0, 0], values)
    assert int(tl.searchsorted(jnp.arange(4), 1.5)) == int(torch.searchsorted(torch.arange(4), 1.5)) == 2
    shuffled, order = torch.tensor(rows).flip(-1), torch.tensor(rows).flip(-1).argsort(-1)
    got = tl.searchsorted(jnp.asarray(shuffled.numpy()), jnp.asarray(values), sorter=jnp.asarray(order.numpy()))
    np.testing.assert_array_equal(got, torch.searchsorted(shuffled, torch.tensor(values), sorter=order))
    assert tl.searchsorted(jnp.arange(4), jnp.arange(2), out_int32=True).dtype == jnp.int32


def test_refusals():
    x = jnp.ones((2, 3))
    for match, call in {
        "k is out of range; expected 0 to 3": lambda: tl.topk(x, 4),
        "k is out of range; expected 1 to 3": lambda: tl.kthvalue(x, 0),
        "dim is out of range": lambda: tl.sort(x, 2),
        "shapes do not fit": lambda: tl.searchsorted(x, jnp.ones(3)),
        "side does not fit": lambda: tl.searchsorted(x[0], x, right=True, side="left"),
        "sorter has the wrong shape": lambda: tl.searchsorted(x, x, sorter=jnp.arange(3)),
    }.items():
        with pytest.raises(ValueError, match=match):
            call()
    assert jax.jit(tl.topk, static_argnums=1)(x, 2).values.shape == (2, 2)
