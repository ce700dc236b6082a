"""Products of Householder reflections against torch."""

import jax.numpy as jnp
import numpy as np
import pytest
import torch

import funcnet.torchlike as tl

from .database import agrees, same

A = np.random.default_rng(0).normal(size=(2, 4, 3))
TAU = np.random.default_rng(1).normal(size=(2, 3))


@pytest.mark.slow
def test_database():
    agrees("linalg.householder_product", tl.linalg.householder_product)
    agrees("ormqr")


def test_geqrf():
    for x in (A, A.swapaxes(-1, -2).copy()):
        for ours, theirs in zip(
            tl.geqrf(jnp.asarray(x)), torch.geqrf(torch.tensor(x, dtype=torch.float32)), strict=True
        ):
            np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("count", [0, 2, 3])
def test_householder_product(count):
    same(tl.linalg.householder_product, torch.linalg.householder_product, A, TAU[:, :count])


@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize("left", [False, True])
def test_ormqr(left, transpose):
    other = np.random.default_rng(2).normal(size=(2, 4, 2))
    other = other if left else other.swapaxes(-1, -2).copy()
    same(
        lambda a, t, x: tl.ormqr(a, t, x, left, transpose),
        lambda a, t, x: torch.ormqr(a, t, x, left, transpose),
        A,
        TAU,
        other,
    )


def test_errors():
    with pytest.raises(ValueError, match="do not fit"):
        tl.ormqr(jnp.eye(3), jnp.ones(3), jnp.ones((2, 2)))
    with pytest.raises(ValueError, match=r"expected input3 with 3 rows, got \(2, 3\)"):
        tl.ormqr(jnp.eye(3), jnp.ones(3), jnp.ones((2, 3)))
    with pytest.raises(ValueError, match=r"expected input3 with 3 columns, got \(3, 2\)"):
        tl.ormqr(jnp.eye(3), jnp.ones(3), jnp.ones((3, 2)), left=False)
    with pytest.raises(ValueError, match="not a matrix"):
        tl.geqrf(jnp.ones(3))
