"""Random projections: what does not depend on the numbers drawn, against torch."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import funcnet.torchlike as tl

R = np.random.default_rng(0)
LOW = R.normal(size=(2, 7, 3)) @ R.normal(size=(2, 3, 5))
KEY = jax.random.key(0)


@pytest.mark.parametrize("is_wide", [False, True])
def test_svd_lowrank(is_wide):
    x = LOW.swapaxes(-1, -2).copy() if is_wide else LOW
    with jax.enable_x64(True):
        u, s, v = tl.svd_lowrank(jnp.asarray(x), q=3, rng=KEY)
        np.testing.assert_allclose(s, torch.svd_lowrank(torch.tensor(x), q=3)[1], rtol=1e-9)
        np.testing.assert_allclose(u * s[:, None] @ v.mT, x, atol=1e-9)
        shifted = tl.svd_lowrank(jnp.asarray(x + 1), q=3, M=jnp.ones(x.shape[-1]), rng=KEY)
        np.testing.assert_allclose(shifted[1], s, rtol=1e-9)


def test_pca_lowrank():
    with jax.enable_x64(True):
        for center in (True, False):
            _, s, v = tl.pca_lowrank(jnp.asarray(LOW), q=3 + center, center=center, rng=KEY)
            theirs = torch.pca_lowrank(torch.tensor(LOW), q=3 + center, center=center)
            np.testing.assert_allclose(s[:, :3], theirs[1][:, :3], rtol=1e-9)
            np.testing.assert_allclose(abs(v[..., :3]), theirs[2][..., :3].abs(), atol=1e-7)
    assert tl.pca_lowrank(jnp.asarray(LOW), rng=KEY)[1].shape == (2, 5)


def test_errors():
    with pytest.raises(ValueError, match="q or A does not fit"):
        tl.svd_lowrank(jnp.eye(3), q=4, rng=KEY)
