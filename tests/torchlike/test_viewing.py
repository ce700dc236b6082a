"""Views that are changed in place, against torch's."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import funcnet.torchlike as tl

X = np.random.default_rng(0).normal(size=(4, 3, 2)).astype(np.float32)

VIEWS = {
    "itself": lambda x: x,
    "a row": lambda x: x[1],
    "a slice": lambda x: x[1::2, :, 0],
    "transposed": lambda x: x.swapaxes(0, 2),
    "reshaped": lambda x: x.reshape(2, 2, -1),
    "one element": lambda x: x[3, 2, 1],
    "reshaped, then a slice, then transposed": lambda x: x.reshape(2, 2, 3, 2)[:, 1].swapaxes(1, 2)[..., :2],
    "a new axis": lambda x: x[:, None, 2],
    "empty": lambda x: x[4:],
}


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_reads_and_writes(view):
    theirs = torch.tensor(X)
    part = view(theirs)
    at = view(tl.positions(X))
    np.testing.assert_array_equal(tl.read(jnp.asarray(X), at), part)
    values = np.random.default_rng(1).normal(size=tuple(part.shape))
    for value in (values, 7.0):
        part.copy_(torch.as_tensor(value))
        np.testing.assert_allclose(tl.write(jnp.asarray(X), at, value), theirs, rtol=1e-6)


def test_all_views_see_a_change():
    x = jnp.asarray(X)
    row, flat = tl.positions(x)[1], tl.positions(x).reshape(-1)
    x = tl.write(x, row, 5.0)
    assert (tl.read(x, flat)[6:12] == 5.0).all()


def test_a_value_that_broadcasts():
    theirs = torch.tensor(X)
    theirs.transpose(0, 1)[1:] = torch.arange(2.0)
    got = tl.write(jnp.asarray(X), tl.positions(X).swapaxes(0, 1)[1:], jnp.arange(2.0))
    np.testing.assert_allclose(got, theirs, rtol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32", "bool"])
def test_the_dtype_stays(dtype):
    theirs = torch.zeros(3, dtype=getattr(torch, dtype))
    theirs[1:] = 2.75
    got = tl.write(jnp.zeros(3, dtype), tl.positions(np.zeros(3))[1:], 2.75)
    assert got.dtype == dtype
    np.testing.assert_array_equal(got.astype("float32"), theirs.float())


def test_gradients_under_jit_and_vmap():
    def torchs(x, y):
        x = x * 1
        view = x.transpose(0, 1)[1:]
        view.mul_(y)
        return (x**3).sum()

    def ours(x, y):
        at = tl.positions(x).swapaxes(0, 1)[1:]
        x = tl.write(x, at, tl.read(x, at) * y)
        return (x**3).sum()

    x, y = (
        torch.tensor(X, dtype=torch.float64, requires_grad=True),
        torch.tensor(2.0, dtype=torch.float64, requires_grad=True),
    )
    torchs(x, y).backward()
    with jax.enable_x64(True):
        got = jax.jit(jax.grad(ours, argnums=(0, 1)))(jnp.asarray(X, float), jnp.asarray(2.0))
        np.testing.assert_allclose(got[0], x.grad, rtol=1e-12)
        np.testing.assert_allclose(got[1], y.grad, rtol=1e-12)
        several = jax.vmap(ours)(jnp.stack([X, 2 * X]).astype(float), jnp.array([2.0, 3.0]))
        np.testing.assert_allclose(
            several, [ours(jnp.asarray(X, float), 2.0), ours(2 * jnp.asarray(X, float), 3.0)], rtol=1e-12
        )
