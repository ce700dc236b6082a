"""layer_norm, group_norm and rms_norm against torch."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
import torch.nn.functional as T
from jax.test_util import check_grads

from funcnet import functional as F

from .oracle import agrees, normal


@pytest.mark.parametrize(("shape", "over"), [((5, 8), (8,)), ((2, 3, 4), (3, 4)), ((0, 8), (8,)), ((2, 0), (0,))])
@pytest.mark.parametrize("eps", [1e-5, 1e-12])
def test_layer_norm(shape, over, eps):
    ours = lambda x, w=None, b=None: F.layer_norm(x, over, w, b, eps)
    theirs = lambda x, w=None, b=None: T.layer_norm(x, over, w, b, eps)
    agrees(ours, theirs, normal(*shape), normal(*over), normal(*over))
    agrees(ours, theirs, normal(*shape))


def test_layer_norm_at_a_large_mean():
    # The mean of 64 float32 near 1e3 is itself only good to 1e3 · 6e-8: hence float64 alone is held to rounding.
    ours, theirs = (lambda x, lib=lib: lib.layer_norm(x, (64,)) for lib in (F, T))
    agrees(ours, theirs, normal(3, 64, mean=1e4), dtypes=(np.float64,))
    x = normal(3, 64, mean=1e3).astype(np.float32)
    got, want = F.layer_norm(jnp.asarray(x), (64,)), T.layer_norm(torch.tensor(x, dtype=torch.float64), (64,))
    np.testing.assert_allclose(got, want, atol=2e-4)


@pytest.mark.parametrize("eps", [None, 1e-6])
@pytest.mark.parametrize(("shape", "over"), [((5, 8), (8,)), ((2, 3, 4), (3, 4)), ((0, 8), (8,))])
def test_rms_norm(shape, over, eps):
    # float64 alone where eps follows the dtype: torch's oracle computes in float64 and would use its eps.
    dtypes = (np.float64,) if eps is None else (np.float64, np.float32)
    ours = lambda x, w=None: F.rms_norm(x, over, w, eps)
    theirs = lambda x, w=None: T.rms_norm(x, over, w, eps)
    agrees(ours, theirs, 1e-3 * normal(*shape), normal(*over), dtypes=dtypes)
    agrees(ours, theirs, normal(*shape), dtypes=dtypes)


@pytest.mark.parametrize(("ours", "theirs"), [(jnp.float32, torch.float32), (jnp.bfloat16, torch.bfloat16)])
def test_rms_norm_eps_follows_the_dtype(ours, theirs):
    got = F.rms_norm(jnp.full(4, 3e-4, ours), (4,))
    want = T.rms_norm(torch.full((4,), 3e-4, dtype=theirs), (4,))
    np.testing.assert_allclose(
        np.asarray(got, np.float32), want.float().numpy(), rtol=1e-2 if ours != jnp.float32 else 1e-6
    )


@pytest.mark.parametrize(
    ("shape", "groups"), [((2, 6), 3), ((2, 6), 1), ((3, 4, 5), 2), ((2, 4, 3, 2), 4), ((0, 4, 3), 2)]
)
def test_group_norm(shape, groups):
    ours = lambda x, w=None, b=None: F.group_norm(x, groups, w, b)
    theirs = lambda x, w=None, b=None: T.group_norm(x, groups, w, b)
    agrees(ours, theirs, normal(*shape), normal(shape[1]), normal(shape[1]))
    agrees(ours, theirs, normal(*shape))


def test_forward_mode_and_second_derivatives():
    with jax.enable_x64(True):
        x, w, b = (jnp.asarray(normal(*s)) for s in ((2, 4), (4,), (4,)))
        check_grads(jax.jit(lambda x, w, b: F.layer_norm(x, (4,), w, b)), (x, w, b), order=2, modes=("fwd", "rev"))
        check_grads(jax.jit(lambda x, w, b: F.group_norm(x, 2, w, b)), (x, w, b), order=2, modes=("fwd", "rev"))


def test_bfloat16_beside_float32_parameters():
    x, w = normal(3, 64).astype(np.float32), normal(64).astype(np.float32)
    got = F.layer_norm(jnp.asarray(x, jnp.bfloat16), (64,), jnp.asarray(w), jnp.asarray(w))
    want = T.layer_norm(torch.tensor(x).bfloat16(), (64,), torch.tensor(w), torch.tensor(w))
    assert got.dtype == jnp.bfloat16
    np.testing.assert_allclose(np.asarray(got, np.float32), want.float().numpy(), rtol=2**-7, atol=2**-7)


def test_refusals():
    with pytest.raises(ValueError, match=r"F.layer_norm: input does not end in normalized_shape; expected \(\*, 4\)"):
        F.layer_norm(jnp.ones((4, 3)), (4,))
    with pytest.raises(ValueError, match=r"F.rms_norm: weight has the wrong shape; expected \(3,\), got \(4,\)"):
        F.rms_norm(jnp.ones((4, 3)), 3, jnp.ones(4))
    with pytest.raises(TypeError, match=r"F.layer_norm: input must hold floating-point numbers"):
        F.layer_norm(jnp.ones((4, 3), int), 3)
    with pytest.raises(ValueError, match=r"F.group_norm: the channels do not divide .* num_groups=4, got 6"):
        F.group_norm(jnp.ones((2, 6)), 4)
    with pytest.raises(ValueError, match=r"expected more than 1 value per channel, got \(1, 2\) in 2 groups"):
        F.group_norm(jnp.ones((1, 2)), 2)
    with pytest.raises(ValueError, match=r"F.group_norm: input has too few dimensions"):
        F.group_norm(jnp.ones(2), 2)
