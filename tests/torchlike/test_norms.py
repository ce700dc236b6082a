"""Norms of matrices, ranks and pseudoinverses against torch."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import funcnet.torchlike as tl

from .database import agrees, same

A = np.random.default_rng(0).normal(size=(2, 3, 4))
LOW = A[0, :, :2] @ A[1, :2]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["norm", "matrix_norm", "matrix_rank"])
def test_database(name):
    agrees(f"linalg.{name}", getattr(tl.linalg, name))


@pytest.mark.parametrize("ord", ["fro", "nuc", 1, -1, 2, -2, float("inf"), float("-inf")])
def test_matrix_norm(ord):
    for keepdim, dim in ((False, (-2, -1)), (True, (2, 0))):
        same(lambda x, k=keepdim, d=dim: tl.linalg.matrix_norm(x, ord, d, k),
             lambda x, k=keepdim, d=dim: torch.linalg.matrix_norm(x, ord, d, k), A)  # fmt: skip
    assert not np.isnan(jax.grad(lambda x: tl.linalg.matrix_norm(x, ord))(jnp.zeros((2, 2)))).any()


def test_norm_of_vectors_or_matrices():
    for arguments in ((), (None, 1), (3, 1), (2, (0, 2)), ("nuc", (0, 1)), (None, (0, 1), True)):
        same(lambda x, a=arguments: tl.linalg.norm(x, *a), lambda x, a=arguments: torch.linalg.norm(x, *a), A)
    same(lambda x: tl.linalg.norm(x, 1), lambda x: torch.linalg.norm(x, 1), A[0])
    same(lambda x: tl.linalg.norm(x, 0), lambda x: torch.linalg.norm(x, 0), A[0, 0])
    same(tl.linalg.norm, torch.linalg.norm, np.zeros((2, 2)))


@pytest.mark.slow
def test_rank_and_pseudoinverse_by_tolerance():
    for options in ({}, {"atol": 0.5}, {"rtol": 0.1}, {"atol": 0.2, "rtol": 1e-3}):
        same(
            lambda x, o=options: tl.linalg.matrix_rank(x, **o), lambda x, o=options: torch.linalg.matrix_rank(x, **o), A
        )
        same(lambda x, o=options: tl.linalg.pinv(x, **o), lambda x, o=options: torch.linalg.pinv(x, **o), A)
    same(tl.linalg.matrix_rank, torch.linalg.matrix_rank, LOW)
    symmetric = LOW @ LOW.T
    same(
        lambda x: tl.linalg.matrix_rank(x, hermitian=True),
        lambda x: torch.linalg.matrix_rank(x, hermitian=True),
        symmetric,
    )
    # with one factor, the gradient of a matrix of low rank exists
    same(lambda x: tl.linalg.pinv(x @ x.T, rtol=1e-6), lambda x: torch.linalg.pinv(x @ x.T, rtol=1e-6), A[0, :, :2])
    assert tl.linalg.matrix_rank(jnp.zeros((0, 3))).item() == 0 and tl.linalg.pinv(jnp.zeros((0, 3))).shape == (3, 0)


def test_logdet():
    square = A[0, :, :3]
    same(tl.logdet, torch.logdet, square @ square.T)
    assert np.isnan(tl.logdet(jnp.diag(jnp.array([-1.0, 1.0])))) and np.isneginf(tl.logdet(jnp.zeros((2, 2))))
    complex_one = jnp.array([[1j, 0], [0, 2]])
    np.testing.assert_allclose(tl.logdet(complex_one), torch.logdet(torch.tensor(np.asarray(complex_one))), rtol=1e-6)


def test_vander():
    for count in (None, 1, 6):
        same(lambda x, n=count: tl.linalg.vander(x, n), lambda x, n=count: torch.linalg.vander(x, N=n) if n != 1
             else torch.ones(2, 3, 4, 1, dtype=x.dtype) + 0 * x[..., None], A)  # fmt: skip
    same(tl.linalg.vander, torch.linalg.vander, np.array([0.0, 1.0, -2.0]))


def test_errors():
    with pytest.raises(ValueError, match="ord"):
        tl.linalg.matrix_norm(jnp.eye(2), 3)
    with pytest.raises(ValueError, match="two dimensions"):
        tl.linalg.matrix_norm(jnp.ones(2))
    with pytest.raises(ValueError, match="not a matrix"):
        tl.linalg.matrix_rank(jnp.ones(2))
