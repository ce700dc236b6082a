"""Norms, distances and the cross product against torch."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import funcnet.torchlike as tl

from .database import agrees, same

X = np.array([[0.0, 0.0, 0.0], [1.0, -2.0, 2.0], [0.0, 3.0, -3.0]])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["norm", "cross", "linalg.cross", "renorm"])
def test_database(name):
    agrees(name, (lambda x, y, *, dim=-1: tl.cross(x, y, dim)) if name == "linalg.cross" else None)


@pytest.mark.slow
def test_database_of_cdist():
    agrees("cdist")


@pytest.mark.slow
def test_linalg_vector_norm_is_norm():
    agrees(
        "linalg.vector_norm", lambda x, ord=2, dim=None, keepdim=False, dtype=None: tl.norm(x, ord, dim, keepdim, dtype)
    )


@pytest.mark.parametrize("p", [2, 1, 0, 3, 1.5, float("inf"), float("-inf")])
def test_norm_at_zero_and_at_ties(p):
    same(lambda x: tl.norm(x, p, -1), lambda x: torch.norm(x, p, -1), X[1:] if p in (3, 1.5) else X)
    assert not np.isnan(jax.grad(lambda x: tl.norm(x, p))(jnp.zeros(3))).any()


def test_norm_of_matrices_and_dtypes():
    same(lambda x: tl.norm(x, "nuc", (0, 2)), lambda x: torch.norm(x, "nuc", (0, 2)), np.stack([X + 1, X.T**2]))
    same(lambda x: tl.norm(x, "fro", (0, 1), True), lambda x: torch.norm(x, "fro", (0, 1), True), X)
    assert tl.norm(jnp.ones(4, jnp.bfloat16)).dtype == jnp.bfloat16
    assert tl.norm(jnp.arange(4), dtype=jnp.float32) == np.float32(14**0.5)


@pytest.mark.parametrize("p", [2.0, 1.0, float("inf"), 0.5, 0.0, 3.0])
def test_cdist_of_equal_rows(p):
    same(lambda x, y: tl.cdist(x, y, p), lambda x, y: torch.cdist(x, y, p), X, X[::-1].copy())
    same(lambda x, y: tl.cdist(x, y, p), lambda x, y: torch.cdist(x, y, p), X[None], np.stack([X, X + 1]))
    for shapes in (((0, 3), (2, 3)), ((2, 0), (3, 0))):
        same(lambda x, y: tl.cdist(x, y, p), lambda x, y: torch.cdist(x, y, p), *map(np.zeros, shapes))


@pytest.mark.filterwarnings("ignore:Using torch.cross without specifying")
def test_cross_takes_the_first_dimension_of_size_3():
    x, y = (np.random.default_rng(s).normal(size=(2, 3, 3)) for s in (0, 1))
    same(tl.cross, torch.cross, x, y)
    same(lambda x, y: tl.cross(x, y, -1), lambda x, y: torch.cross(x, y, -1), x, y[:1])


def test_refusals():
    for match, call in {
        "two dimensions": lambda: tl.norm(jnp.ones(3), "nuc"),
        "p is unknown": lambda: tl.norm(jnp.ones(3), "max"),
        "p is negative": lambda: tl.cdist(jnp.ones((2, 2)), jnp.ones((2, 2)), -1),
        r"\(…, N, D\)": lambda: tl.cdist(jnp.ones((2, 2)), jnp.ones((2, 3))),
        "size 3": lambda: tl.cross(jnp.ones(2), jnp.ones(2)),
        "ranks differ": lambda: tl.cross(jnp.ones(3), jnp.ones((1, 3))),
        "maxnorm": lambda: tl.renorm(jnp.ones((2, 2)), 2, 0, -1),
    }.items():
        with pytest.raises(ValueError, match=match):
            call()
    with pytest.raises(TypeError, match="floating"):
        tl.norm(jnp.arange(3))
