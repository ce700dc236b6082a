"""scan, while and cond."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from tests.export.onnx.programs import agrees, ops

X = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
W = jnp.asarray(np.random.default_rng(1).normal(size=(3, 3)), jnp.float32)


@pytest.mark.parametrize("reverse", [False, True])
def test_scan(reverse):
    def run(x):
        step = lambda carry, row: (jnp.tanh(carry @ W + row), carry * 2)
        return lax.scan(step, x[0], x, reverse=reverse)

    agrees(run, X)
    agrees(run, X, dynamic="n, _", others=[np.concatenate([X, X])])


def test_scan_without_rows():
    agrees(lambda x: lax.scan(lambda carry, _: (carry * 0.5 + 1, carry.sum()), x, length=4), X)


def test_scan_in_scan():
    def outer(carry, row):
        inner, rows = lax.scan(lambda c, r: (c + r, c * row[0]), carry, x_of(row))
        return inner, rows

    x_of = lambda row: row[:, None] * jnp.ones(3)
    agrees(lambda x: lax.scan(outer, x[0], x), X)


def test_a_carry_that_is_returned_unchanged():
    agrees(lambda x: lax.scan(lambda carry, row: (carry, (row, carry)), x[0], x), X)


@pytest.mark.parametrize("limit", [0.0, 5.0, 100.0])
def test_while(limit):
    def run(x, limit):
        return lax.while_loop(lambda c: c[1] < limit, lambda c: (c[0] * 1.5, c[1] + jnp.abs(c[0]).sum()), (x, 1.0))

    agrees(run, X, np.float32(limit))


def halved(x, limit):
    """How often a row must be halved, which differs between rows, and whether it was odd before the last time."""
    start = (x, jnp.int32(0), False)
    return lax.while_loop(lambda c: jnp.abs(c[0]).sum() > limit, lambda c: (c[0] / 2, c[1] + 1, c[1] % 2 == 1), start)


def test_while_of_each_row():
    """Under vmap, a loop runs until the last row has finished; rows that have finished stay as they are."""
    limits = np.array([100.0, 0.2, 1.0, 0.01, 1e-4], np.float32)
    agrees(jax.vmap(halved), X, limits)
    agrees(jax.vmap(halved), X, limits, dynamic=["n, _", "n"], others=[X[1:], limits[1:]])
    agrees(jax.vmap(halved), X, limits, dynamic=["n, _", "n"], others=[X[:0], limits[:0]])
    agrees(jax.vmap(halved, (0, None)), X, np.float32(0.5))
    agrees(jax.vmap(jax.vmap(halved)), np.stack([X, X * 8]), np.stack([limits, limits[::-1]]))
    agrees(jax.vmap(halved), X, np.full(5, 1e9, np.float32))  # no row begins


def test_fori():
    graph = agrees(lambda x: lax.fori_loop(0, 3, lambda i, y: y + x * i, x), X)
    assert "Scan" in ops(graph) or "Loop" in ops(graph)


@pytest.mark.parametrize("which", [-1, 0, 1, 2, 7])
def test_branches(which):
    branches = [jnp.sin, lambda x: x * 2 + W.sum(), lambda x: x[::-1]]
    agrees(lambda i, x: lax.switch(i, branches, x), np.int32(which), X)


@pytest.mark.parametrize("chosen", [False, True])
def test_two_branches(chosen):
    agrees(lambda p, x: lax.cond(p, lambda x: (x, x + 1), lambda x: (x * 2, x), x), np.bool_(chosen), X)


def test_map():
    agrees(lambda x: lax.map(lambda row: jnp.outer(row, row), x), X)
    agrees(lambda x: jax.vmap(lambda row: lax.fori_loop(0, 2, lambda i, r: r @ W, row))(x), X)
