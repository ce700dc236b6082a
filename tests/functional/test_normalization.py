"""Normalisation within an example against torch."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
import torch.nn.functional as T
from hypothesis import given
from hypothesis import strategies as st
from jax.test_util import check_grads

from funcnet import functional as F
from funcnet.functional.normalization import cross_map_lrn

from .oracle import agrees, as_near_as_torch, close, normal


@pytest.mark.parametrize(("shape", "over"), [((5, 8), (8,)), ((2, 3, 4), (3, 4)), ((0, 8), (8,)), ((2, 0), (0,))])
@pytest.mark.parametrize("eps", [1e-5, 1e-12])
def test_layer_norm(shape, over, eps):
    ours = lambda x, w=None, b=None: F.layer_norm(x, over, w, b, eps)
    theirs = lambda x, w=None, b=None: T.layer_norm(x, over, w, b, eps)
    agrees(ours, theirs, normal(*shape), normal(*over), normal(*over))
    agrees(ours, theirs, normal(*shape))


@pytest.mark.parametrize("mean", [1e2, -1e4])
def test_a_large_mean_costs_no_digits(mean):
    agrees(*(lambda x, lib=lib: lib.layer_norm(x, (64,)) for lib in (F, T)), normal(3, 64, mean=mean))
    agrees(*(lambda x, lib=lib: lib.group_norm(x, 2) for lib in (F, T)), normal(2, 4, 20, mean=mean))


@pytest.mark.parametrize("features", [2, 3, 8, 64])
def test_gradients_that_cancel_are_as_near_as_torchs(features):
    """Over two features nothing of the gradient is left but eps; by 20,000 draws, for one is luck.

    Seen: the error's median 0.40 (2 features), 0.75, 0.97 and 1.20 times torch's, its root mean square 0.09 to 1.17.
    """
    x, cotangent = (normal(20000, features, seed=seed).astype(np.float32) for seed in range(2))
    weight = normal(features).astype(np.float32)

    def theirs(dtype):
        leaf = torch.tensor(x, dtype=dtype, requires_grad=True)
        out = T.layer_norm(leaf, (features,), torch.tensor(weight, dtype=dtype))
        return torch.autograd.grad(out, leaf, torch.tensor(cotangent, dtype=dtype))[0].numpy()

    pull = jax.jit(lambda x: jax.vjp(lambda x: F.layer_norm(x, (features,), jnp.asarray(weight)), x)[1](cotangent)[0])
    oracle, size = theirs(torch.float64), np.abs(cotangent * weight).max(1) / x.std(1)
    ours, torchs = (np.abs(found - oracle).max(1) / size for found in (np.asarray(pull(x)), theirs(torch.float32)))
    assert np.median(ours) <= 1.3 * np.median(torchs)
    assert np.sqrt((ours**2).mean()) <= 1.3 * np.sqrt((torchs**2).mean())


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
    ("shape", "groups"), [((3, 4, 5), 2), ((2, 6), 1), ((2, 6), 3), ((2, 4, 3, 2), 4), ((0, 4, 3), 2)]
)
def test_group_norm(shape, groups):
    ours = lambda x, w=None, b=None: F.group_norm(x, groups, w, b)
    theirs = lambda x, w=None, b=None: T.group_norm(x, groups, w, b)
    agrees(ours, theirs, normal(*shape), normal(shape[1]), normal(shape[1]))
    agrees(ours, theirs, normal(*shape))


@pytest.mark.slow
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


@pytest.mark.parametrize(("shape", "size"), [((2, 5, 3), 4), ((3, 7, 2, 2), 5), ((2, 5, 3), 1), ((2, 3, 2, 1, 2), 8)])
def test_local_response_norm(shape, size):
    """Channels that are missing count as zeros; of an even size one more lies before."""
    ours, theirs = (lambda x, lib=lib: lib.local_response_norm(x, size, 0.5, 0.75, 2.0) for lib in (F, T))
    agrees(ours, theirs, normal(*shape))


def test_local_response_norm_of_nothing():
    assert F.local_response_norm(jnp.ones((0, 3, 4)), 3).shape == (0, 3, 4)


@pytest.mark.parametrize("size", [4, 3, 1, 2, 7])
def test_cross_map_lrn_has_torchs_values_and_their_derivative(size):
    """torch's gradient fails its own gradcheck: it is not the oracle of ours."""
    x = normal(2, 6, 2, 1)
    expected = torch.nn.CrossMapLRN2d(size, 0.5, 0.75, 2.0)(torch.tensor(x))
    with jax.enable_x64(True):
        norm = jax.jit(lambda x: cross_map_lrn(x, size, 0.5, 0.75, 2.0))
        close(norm(x), expected.numpy(), 1e-11, "value")
        check_grads(norm, (jnp.asarray(x),), order=1, modes=("fwd", "rev"))


@pytest.mark.parametrize(
    ("shape", "options"),
    [
        ((3, 4), {}),
        ((3, 4), {"p": 1.0, "dim": -1}),
        ((2, 3, 4), {"p": 3.0, "dim": (0, 2), "eps": 2.0}),
        ((2, 3, 4), {"p": float("inf"), "dim": 0}),
        ((), {"dim": 0}),
    ],
)
def test_normalize(shape, options):
    """With eps = 2 some vectors are shorter than eps."""
    ours, theirs = (lambda x, lib=lib: lib.normalize(x, **options) for lib in (F, T))
    agrees(ours, theirs, np.asarray(normal(*shape)))


def test_normalize_the_zero_vector():
    ours, theirs = (lambda x, lib=lib: lib.normalize(x, eps=0.5) for lib in (F, T))
    agrees(ours, theirs, np.array([[0.0, 0.0], [0.3, 0.4], [0.1, 0.0]]))


def test_refusals():
    with pytest.raises(ValueError, match=r"F.layer_norm: input does not end in normalized_shape; expected \(\*, 4\)"):
        F.layer_norm(jnp.ones((4, 3)), (4,))
    with pytest.raises(ValueError, match=r"F.rms_norm: weight has the wrong shape; expected \(3,\), got \(4,\)"):
        F.rms_norm(jnp.ones((4, 3)), 3, jnp.ones(4))
    with pytest.raises(TypeError, match=r"F.layer_norm: input must hold floating-point numbers"):
        F.layer_norm(jnp.ones((4, 3), int), 3)
    with pytest.raises(
        ValueError, match=r"F.group_norm: the number of channels is not divisible by num_groups; .* num_groups=4, got 6"
    ):
        F.group_norm(jnp.ones((2, 6)), 4)
    with pytest.raises(
        ValueError, match=r"expected more than 1 value per group, got an input of shape \(1, 2\) and num_groups=2"
    ):
        F.group_norm(jnp.ones((1, 2)), 2)
    with pytest.raises(ValueError, match=r"F.group_norm: input has too few dimensions"):
        F.group_norm(jnp.ones(2), 2)
    with pytest.raises(ValueError, match=r"F.local_response_norm: input has too few dimensions"):
        F.local_response_norm(jnp.ones((2, 3)), 2)
    with pytest.raises(ValueError, match=r"F.local_response_norm: size is too small; expected at least 1, got \(0,\)"):
        F.local_response_norm(jnp.ones((2, 3, 1)), 0)
    with pytest.raises(ValueError, match=r"CrossMapLRN2d: input has the wrong rank; expected 4D input"):
        cross_map_lrn(jnp.ones((2, 3, 1)), 3)
    with pytest.raises(ValueError, match=r"F.normalize: dim is out of range; expected -2 to 1, got 2"):
        F.normalize(jnp.ones((2, 3)), dim=2)
    with pytest.raises(
        ValueError, match=r"F.normalize: out is not supported, because arrays are immutable; expected None"
    ):
        F.normalize(jnp.ones((2, 3)), out=jnp.ones((2, 3)))
    with pytest.raises(TypeError, match=r"F.normalize: input must hold floating-point numbers"):
        F.normalize(jnp.ones((2, 3), int))


def test_neighbours_of_any_size():
    """The power's square overflows where the power does not: the gradient was -2 times torch's there."""
    x = normal(2, 6, 4, seed=42, mean=10.0) * 1e10
    x[0, 0, 0] *= 1e4
    as_near_as_torch(*(functools.partial(lib.local_response_norm, size=3) for lib in (F, T)), x)


# --------------------------------------------------------------------------------------------------- whatever the size

NORMS = {
    "layer_norm": [{"normalized_shape": (4,)}, {"normalized_shape": (6, 4)}, {"normalized_shape": (4,), "eps": 1e-12}],
    "rms_norm": [{"normalized_shape": (4,)}, {"normalized_shape": (6, 4), "eps": 1e-3}],
    "group_norm": [{"num_groups": n} for n in (1, 2, 6)],
    "instance_norm": [{}, {"eps": 1e-2}],
    "local_response_norm": [{"size": 3}, {"size": 2, "alpha": 0.5, "beta": 0.5, "k": 2.0}],
    "normalize": [{"p": p, "dim": dim} for p in (1.0, 2.0, 3.0) for dim in (1, -1)],
}


@functools.cache
def both(name, number):
    """(ours, torch's), the same functions at each call."""
    call = lambda lib, x: getattr(lib, name)(x, **NORMS[name][number])
    ours = (lambda x: call(F, x)[0]) if name == "instance_norm" else functools.partial(call, F)  # statistics come too
    return ours, functools.partial(call, T)


@pytest.mark.slow
@given(
    st.sampled_from([(name, i) for name, options in NORMS.items() for i in range(len(options))]),
    st.integers(-12, 12),
    st.sampled_from([0.0, 0.0, 1.0, 10.0]),
    st.sampled_from(["different", "equal", "one is zero", "one is large"]),
    st.integers(0, 99),
)
def test_hypothesis_numbers_of_any_size(case, exponent, mean, kind, seed):
    x = normal(2, 6, 4, seed=seed, mean=mean) * 10.0**exponent
    if kind == "equal":
        x[0] = x[0, 0, 0]
    x[0, 0, 0] *= {"one is zero": 0.0, "one is large": 1e4}.get(kind, 1.0)
    as_near_as_torch(*both(*case), x)
