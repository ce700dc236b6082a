"""Picking and setting by places against torch."""

import jax.numpy as jnp
import numpy as np
import pytest
import torch

import funcnet.torchlike as tl

from .database import agrees, same

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(3, 4))
PLACES = np.array([[0, 2, 1], [2, 2, 0]])
NAMES = ["gather", "scatter", "scatter_add", "index_add", "index_copy", "index_fill"]


@pytest.mark.parametrize(
    "name",
    [*NAMES, "masked_fill", "masked_scatter", pytest.param("scatter_reduce", marks=pytest.mark.slow)],
)
def test_database(name):
    agrees(name)


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_an_index_that_is_smaller(dim):
    source = RANDOM.normal(size=(2, 3))  # torch has no gradient of a larger one
    same(lambda x: tl.gather(x, dim, jnp.asarray(PLACES)), lambda x: x.gather(dim, torch.tensor(PLACES)), X)
    same(
        lambda x, s: tl.scatter_add(x, dim, jnp.asarray(PLACES), s),
        lambda x, s: x.scatter_add(dim, torch.tensor(PLACES), s), X, source,
    )  # fmt: skip
    same(lambda x: tl.scatter(x, dim, jnp.asarray(PLACES), 2.5), lambda x: x.scatter(dim, torch.tensor(PLACES), 2.5), X)


@pytest.mark.parametrize("reduce", ["prod", "amax", "amin", "mean", "sum"])
@pytest.mark.parametrize("include_self", [True, False])
def test_scatter_reduce_with_ties_and_zeros(reduce, include_self):
    # With include_self=False, torch counts the input's own entry among equal ones if it happens to be one of them.
    x = np.array([0.0, 2.0, 3.0, 1.0, 0.0]) + (0 if include_self else 10)
    source = np.array([2.0, 2.0, 0.0, 4.0, 0.0, 0.0, 1.0])
    index = np.array([1, 1, 2, 2, 4, 4, 0])
    same(
        lambda x, s: tl.scatter_reduce(x, 0, jnp.asarray(index), s, reduce, include_self=include_self),
        lambda x, s: x.scatter_reduce(0, torch.tensor(index), s, reduce, include_self=include_self), x, source,
    )  # fmt: skip
    whole = [np.array(a, np.int64) for a in (x, index, source)]
    same(
        lambda x, i, s: tl.scatter_reduce(x, 0, i, s, reduce, include_self=include_self),
        lambda x, i, s: x.scatter_reduce(0, i, s, reduce, include_self=include_self), *whole,
    )  # fmt: skip


@pytest.mark.filterwarnings("ignore:The reduce argument of torch.scatter")
@pytest.mark.parametrize("reduce", ["add", "multiply"])
def test_scatter_with_a_reduction(reduce):
    want = torch.scatter(torch.tensor(X), 1, torch.tensor(PLACES), torch.tensor(X), reduce=reduce)
    got = tl.scatter(jnp.asarray(X), 1, jnp.asarray(PLACES), jnp.asarray(X), reduce=reduce)
    np.testing.assert_allclose(got, want, rtol=1e-6)


def test_masks():
    mask = X > 0
    same(lambda x: tl.masked_fill(x, mask[0], -np.inf), lambda x: x.masked_fill(torch.tensor(mask[0]), -np.inf), X)
    same(
        lambda x, s: tl.masked_scatter(x, jnp.asarray(mask[:, :1]), s),
        lambda x, s: x.masked_scatter(torch.tensor(mask[:, :1]), s), X, RANDOM.normal(size=(2, 6)),
    )  # fmt: skip
    same(lambda x, m: tl.masked_fill(x, m, 2.5), lambda x, m: x.masked_fill(m, 2.5), np.arange(4), mask[0])
    assert tl.masked_fill(jnp.ones(4, jnp.bfloat16), mask[0], jnp.float32(2)).dtype == jnp.bfloat16


def test_empty_indices():
    none = np.zeros((0, 4), np.int64)
    same(lambda x: tl.gather(x, 0, jnp.asarray(none)), lambda x: x.gather(0, torch.tensor(none)), X)
    same(
        lambda x: tl.scatter_add(x, 0, jnp.asarray(none), x[:0]),
        lambda x: x.scatter_add(0, torch.tensor(none), x[:0]),
        X,
    )
    same(lambda x: tl.index_fill(x, 1, jnp.zeros(0, int), 5), lambda x: x.index_fill(1, torch.zeros(0).long(), 5), X)


@pytest.mark.parametrize("dtype", ["bfloat16", "int32"])
def test_dtypes(dtype):
    x, index = jnp.arange(12).reshape(3, 4).astype(dtype), jnp.asarray(PLACES)
    t, places = torch.arange(12).reshape(3, 4).to(getattr(torch, dtype)), torch.tensor(PLACES)
    for got, want in (
        (tl.gather(x, 1, index), t.gather(1, places)),
        (tl.scatter(x, 0, index, 3), t.scatter(0, places, 3)),
        (tl.scatter_add(x, 0, index, x), t.scatter_add(0, places, t)),
        (tl.index_add(x, 0, index[0], x, alpha=2), t.index_add(0, places[0], t, alpha=2)),
        (tl.index_fill(x, 0, index[0, :2], 1), t.index_fill(0, places[0, :2], 1)),
    ):
        assert got.dtype == dtype
        np.testing.assert_array_equal(got.astype(np.float32), want.float())


def test_refusals():
    x, index = jnp.ones((3, 4)), jnp.zeros((2, 5), int)
    for match, call in {
        "index does not fit input": lambda: tl.gather(x, 0, index),
        "index does not fit src": lambda: tl.scatter(x, 1, index[:, :4], x[:1]),
        "reduce is unknown; expected None": lambda: tl.scatter(x, 1, index, 1, reduce="mean"),
        "reduce is unknown; expected one": lambda: tl.scatter_reduce(x, 1, index, x, "max"),
        "source has the wrong shape": lambda: tl.index_add(x, 0, index[0], x),
        "single number": lambda: tl.masked_fill(x, x > 0, jnp.ones(4)),
        "source is too small": lambda: tl.masked_scatter(x, x > 0, jnp.ones(4)),
        "dim is out of range": lambda: tl.index_fill(x, 2, index[0], 0),
    }.items():
        with pytest.raises(ValueError, match=match):
            call()
    with pytest.raises(TypeError, match="boolean"):
        tl.masked_scatter(x, x, x)
