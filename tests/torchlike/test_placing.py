"""Slices and entries that are written into a copy, against torch."""

import jax.numpy as jnp
import numpy as np
import pytest
import torch

import funcnet.torchlike as tl

from .database import agrees, same

X = np.arange(24.0).reshape(2, 3, 4)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["diagonal_scatter", "index_reduce", "index_select", "put", "select_scatter", "slice_scatter"]
)
def test_database(name):
    agrees(name)


def test_as_strided_scatter():
    # torch's gradient of the input is wrong: torch.autograd.gradcheck fails.
    source = np.arange(4.0).reshape(2, 2)
    for offset in (None, 3):
        want = torch.as_strided_scatter(torch.tensor(X), torch.tensor(source), (2, 2), (8, 1), offset or 0)
        got = tl.as_strided_scatter(jnp.asarray(X), jnp.asarray(source), (2, 2), (8, 1), offset)
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("accumulate", [False, True])
def test_index_put(accumulate):
    rows, columns = np.array([1, 0]), np.array([2, 1])
    mask = X[0] > 5
    for indices in ((rows,), (rows, columns), (rows, columns, rows), (rows[:1], columns)):
        shape = X[indices].shape
        for value in (np.float64(7), np.arange(float(np.prod(shape))).reshape(shape)):
            same(
                lambda x, v, i=indices: tl.index_put(x, i, v, accumulate),
                lambda x, v, i=indices: torch.index_put(
                    x, [i if i is None else torch.tensor(i) for i in i], v, accumulate
                ),
                X,
                value,
            )
    same(
        lambda x, v: tl.index_put(x, (mask,), v, accumulate),
        lambda x, v: torch.index_put(x, (torch.tensor(mask),), v, accumulate),
        X[0],
        np.arange(float(mask.sum())),
    )
    twice = np.array([1, 1, 0])
    if accumulate:
        same(lambda x, v: tl.put(x, twice, v, True), lambda x, v: x.put(torch.tensor(twice), v, True), X, np.ones(3))


def test_masked_select():
    for mask in (X > 5, np.array([True, False, True, True]), np.array([[[True]], [[False]]]), np.array(True)):
        same(
            lambda x, m=mask: tl.masked_select(x, m),
            lambda x, m=mask: torch.masked_select(x, torch.tensor(m)),
            X,
            jit=False,
        )


@pytest.mark.parametrize(
    ("index", "source", "reduce", "message"),
    [
        ([0], (1, 3), "sum", "reduce is unknown; expected one of"),
        ([[0]], (1, 3), "prod", r"index has too many dimensions; expected shape \(N,\) or \(\), got \(1, 1\)"),
        ([0, 1], (1, 3), "prod", r"source has the wrong shape; expected \(2, 3\), got \(1, 3\)"),
        ([0], (1, 2), "amax", r"source has the wrong shape; expected \(1, 3\), got \(1, 2\)"),
    ],
)
def test_index_reduce_refuses_what_torch_refuses(index, source, reduce, message):
    with pytest.raises((RuntimeError, IndexError)):
        torch.ones(2, 3).index_reduce(0, torch.tensor(index), torch.ones(source), reduce)
    with pytest.raises(ValueError, match=f"^tl.index_reduce: {message}"):
        tl.index_reduce(jnp.ones((2, 3)), 0, jnp.array(index), jnp.ones(source), reduce)


def test_refusals():
    x = jnp.ones((2, 3))
    for match, call in {
        "tl.select_scatter: src has the wrong shape": lambda: tl.select_scatter(x, jnp.ones(2), 0, 0),
        "tl.slice_scatter: src has the wrong shape": lambda: tl.slice_scatter(x, jnp.ones((1, 1)), 1, 0, 1),
        "tl.diagonal_scatter: src has the wrong shape": lambda: tl.diagonal_scatter(x, jnp.ones(3)),
        "tl.as_strided_scatter: src has the wrong shape": lambda: tl.as_strided_scatter(x, jnp.ones(3), (2,), (1,)),
        "tl.put: source does not fit": lambda: tl.put(x, jnp.array([0]), jnp.ones(2)),
        "dim is out of range": lambda: tl.index_select(x, 2, jnp.array([0])),
    }.items():
        with pytest.raises(ValueError, match=match):
            call()
