"""Variance and standard deviation against torch."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import funcnet.torchlike as tl

from .database import agrees, same

NAMES = ["var", "std", "var_mean", "std_mean"]
X = np.random.default_rng(0).normal(size=(3, 4, 2))


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_database(name):
    agrees(name)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.filterwarnings("ignore:.*degrees of freedom")
def test_every_way_to_call(name):
    ours, theirs = getattr(tl, name), getattr(torch, name)
    calls = [
        ((), {}),
        ((1,), {}),
        (([0, -1], False), {}),
        ((1, True, True), {}),
        ((False,), {}),
        ((), {"correction": 2}),
        (((0, 2),), {"correction": 0, "keepdim": True}),
    ]
    for args, kwargs in calls:
        same(lambda x, a=args, k=kwargs: ours(x, *a, **k), lambda x, a=args, k=kwargs: theirs(x, *a, **k), X)
    same(lambda x: ours(x, 1), lambda x: theirs(x, 1), np.ones((3, 1)))
    same(lambda x: ours(x, 0), lambda x: theirs(x, 0), np.ones((0, 2)))
    # torch's gradients of these are infinite, or divided by a negative number
    for args, kwargs in [(((),), {}), ((2,), {"correction": 5}), ((2,), {"correction": 2})]:
        want = theirs(torch.tensor(X).float(), *args, **kwargs)
        for one, other in zip(
            jax.tree.leaves(ours(jnp.asarray(X, jnp.float32), *args, **kwargs)), _tuple(want), strict=True
        ):
            np.testing.assert_allclose(one, other, rtol=1e-5)


def test_std_of_equal_entries_has_no_gradient():
    same(lambda x: tl.std(x, 1), lambda x: torch.std(x, 1), np.array([[2.0, 2.0, 2.0], [1.0, 2.0, 2.0]]))


def test_bfloat16_is_summed_in_float32():
    x = torch.tensor(X.ravel() + 100).bfloat16()
    for name in ("var", "std"):
        got = getattr(tl, name)(jnp.asarray(x.float().numpy(), jnp.bfloat16))
        want = getattr(x.double(), name)()
        assert got.dtype == jnp.bfloat16 and abs(float(got) / float(want) - 1) < 2**-8


def test_refusals():
    with pytest.raises(ValueError, match=r"tl.std: dim is out of range"):
        tl.std(jnp.ones(2), 1)
    with pytest.raises(TypeError, match=r"tl.var: input must hold floating"):
        tl.var(jnp.arange(2))
    assert jax.jit(tl.std)(jnp.arange(3.0)) == 1


def _tuple(outputs):
    return outputs if isinstance(outputs, tuple) else (outputs,)
