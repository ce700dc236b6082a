"""Reading and setting items against torch, for every kind of index and value."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import funcnet.torchlike as tl

from .database import agrees, same

X = np.arange(60.0).reshape(3, 4, 5)
ROWS = np.array([2, 0])
MASK = np.array([True, False, True])
WIDE = X[..., 0] % 2 == 0  # (3, 4)
ALL = slice(None)

INDICES = [
    1, -1, slice(1, None), slice(None, None, 2), None, Ellipsis, (), (0, 1, 2), (Ellipsis, 0), (0, Ellipsis, None, 1),
    (ALL, slice(1, 3)), (None, 0), ROWS, (ROWS, ROWS), (ALL, ROWS), (0, ALL, ROWS), (ROWS, ALL, 0), (ROWS, ALL, ROWS),
    (ROWS[:, None], ROWS), (ALL, ROWS, 0), (ROWS, None, ROWS), (slice(0, 2), 1, ROWS), (Ellipsis, ROWS), [0, 2],
    ([0, 1], [1, 2]), MASK, WIDE, (MASK, 0), (MASK, ALL, ROWS), (ALL, WIDE[0]), (0, WIDE[0]), (Ellipsis, X[0, 0] > 1),
    (MASK, slice(1, 3)), X > 30, X > 99, (None, MASK), True, False, (0, True), ROWS[:0], (ALL, np.zeros((0, 2), int)),
    np.array(1), (np.array(1), ALL, ROWS), (MASK, WIDE[0, :4].nonzero()[0]),
]  # fmt: skip


def torchs(index):
    if isinstance(index, tuple):
        return tuple(map(torchs, index))
    return torch.tensor(index) if isinstance(index, np.ndarray) else index


@pytest.mark.parametrize("index", INDICES, ids=lambda index: str(index).replace("\n", ""))
def test_items(index):
    """Reading; setting a number, an array of the whole shape, one with size 1 and one without its first dimension."""
    theirs = torchs(index)
    part = torch.tensor(X)[theirs]
    same(lambda x: tl.get_item(x, index), lambda x: x[theirs], X)
    shapes = {(), tuple(part.shape), (1, *part.shape), tuple(part.shape[1:]), (*part.shape[:-1], 1)}
    for shape in shapes:
        if shape == (1,) and not part.ndim:
            shape = ()
        value = np.random.default_rng(0).normal(size=shape)
        same(lambda x, v: tl.set_item(x, index, v), functools.partial(set_in_torch, theirs), X, value)


def set_in_torch(index, x, value):
    y = x.clone()
    y[index] = value
    return y


@pytest.mark.parametrize("index", [MASK, WIDE, (ALL, WIDE[0]), (0, WIDE[0]), X > 30])
def test_a_traced_mask(index):
    """The mask is an argument of the compiled function; the value has an entry for each True, or is one number."""
    position = 1 if isinstance(index, tuple) else None
    mask = index if position is None else index[position]

    @jax.jit
    def ours(x, mask, value):
        return tl.set_item(x, mask if position is None else (*index[:position], mask), value)

    for value in (7.0, np.random.default_rng(0).normal(size=X[index].shape)):
        want = X.copy()
        want[index] = value
        np.testing.assert_allclose(ours(jnp.asarray(X), jnp.asarray(mask), jnp.asarray(value)), want, rtol=1e-6)


def test_dtypes():
    for dtype in ("int32", "bfloat16", "bool", "uint8"):
        for value in (1, 1.75, np.float32(2.5)):
            theirs = torch.zeros(4, dtype=getattr(torch, dtype))
            theirs[1:] = torch.tensor(value)
            got = tl.set_item(jnp.zeros(4, dtype), slice(1, None), value)
            assert got.dtype == dtype
            np.testing.assert_array_equal(got.astype(np.float32), theirs.float())
    old = torch.tensor([1, 0, 1], dtype=torch.uint8)
    np.testing.assert_array_equal(tl.get_item(jnp.arange(3), jnp.asarray(old.numpy())), torch.arange(3)[old.bool()])


def test_database_of_getitem():
    agrees("__getitem__", tl.get_item)


def test_traced_numbers():
    """A place that is known only when the program runs."""
    ours = jax.jit(lambda x, i: tl.set_item(x, (i, slice(None), np.array([0, 1])), 0.0))
    want = X.copy()
    want[1, :, [0, 1]] = 0
    np.testing.assert_array_equal(ours(jnp.asarray(X), 1), want)


SLICES = st.builds(slice, st.none() | st.integers(-5, 5), st.none() | st.integers(-5, 5), st.none() | st.integers(1, 3))
PARTS = st.one_of(
    SLICES,
    st.integers(-3, 2),
    st.none(),
    st.lists(st.integers(-3, 2), min_size=2, max_size=2).map(np.array),
    st.just(np.array([[1], [0]])),
)


@pytest.mark.slow
@given(st.lists(PARTS, max_size=5).filter(lambda parts: sum(part is not None for part in parts) <= 3))
def test_any_mixture(parts):
    index = tuple(parts)
    theirs, x = torchs(index), np.arange(27).reshape(3, 3, 3)
    want = torch.tensor(x)[theirs]
    np.testing.assert_array_equal(tl.get_item(jnp.asarray(x), index), want)
    changed = torch.tensor(x)
    changed[theirs] = -1
    np.testing.assert_array_equal(tl.set_item(jnp.asarray(x), index, -1), changed)


def test_refusals():
    x = jnp.ones((2, 3))
    for match, call in {
        "at most 2 dimensions": lambda: tl.set_item(x, (0, 0, 0), 1),
        "one Ellipsis": lambda: tl.get_item(x, (Ellipsis, Ellipsis)),
        "out of range in dimension 1": lambda: tl.set_item(x, (0, 3), 1),
        "a mask does not fit": lambda: tl.set_item(x, jnp.array([True]), 1),
        "expected 1 entries, got 3": lambda: tl.set_item(x[0], jnp.array([True, False, False]), jnp.ones(3)),
    }.items():
        with pytest.raises(ValueError, match=match):
            call()
    with pytest.raises(ValueError):
        tl.set_item(x, 0, jnp.ones(2))
    with pytest.raises(TypeError, match="an index has the wrong type"):
        tl.get_item(x, 1.0)
