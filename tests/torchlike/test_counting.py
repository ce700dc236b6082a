"""Histograms and combinations against torch."""

import jax.numpy as jnp
import numpy as np
import pytest
import torch

import funcnet.torchlike as tl

from .database import agrees, same


@pytest.mark.slow
@pytest.mark.parametrize("name", ["histc", "combinations", "cartesian_prod"])
def test_database(name):
    agrees(name)


def test_histc_of_edges_and_strange_numbers():
    x = np.array([0.0, 0.25, 0.5, 1.0, 1.0, -3.0, 7.0])
    same(lambda x: tl.histc(x, 4, 0, 1), lambda x: torch.histc(x, 4, 0, 1), x)
    same(lambda x: tl.histc(x, 4), lambda x: torch.histc(x, 4), np.full(3, 2.0))
    want = torch.histc(torch.tensor([0.1, float("nan"), float("inf"), 0.9]), 2, 0, 1)
    np.testing.assert_array_equal(tl.histc(jnp.array([0.1, jnp.nan, jnp.inf, 0.9]), 2, 0, 1), want)
    np.testing.assert_array_equal(tl.histc(jnp.zeros(0), 3), torch.histc(torch.zeros(0), 3))


def test_refusals():
    with pytest.raises(ValueError, match="bins"):
        tl.histc(jnp.ones(2), 0)
    with pytest.raises(TypeError, match="floating"):
        tl.histc(jnp.arange(2))
    for call in (lambda: tl.combinations(jnp.ones((2, 2))), lambda: tl.cartesian_prod(jnp.ones((2, 2)))):
        with pytest.raises(ValueError, match="expected"):
            call()
