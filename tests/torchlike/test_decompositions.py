"""Decompositions of matrices against torch. Factors are compared where they do not depend on a sign."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import funcnet.torchlike as tl
from funcnet.torchlike import decompositions

from .database import agrees, same

A = np.random.default_rng(0).normal(size=(2, 3, 4))
S = A @ A.swapaxes(-1, -2) + np.eye(3)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["qr", "lu", "lu_factor", "lu_factor_ex", "cholesky_ex"])
def test_database(name):
    drop = ("check_errors", "pivot")  # the samples set `pivot` to its default
    ours = getattr(tl.linalg, name)
    agrees(f"linalg.{name}", lambda *args, **kwargs: ours(*args, **{k: v for k, v in kwargs.items() if k not in drop}))


def test_qr_of_wide_and_tall_matrices():
    for x in (A, A.swapaxes(-1, -2), S, A[:, :0], A[:, :, :0]):
        same(tl.linalg.qr, torch.linalg.qr, x)
    assert tl.linalg.qr(jnp.asarray(A), "complete").Q.shape == (2, 3, 3)
    assert tl.linalg.qr(jnp.asarray(A[0].T), "complete").Q.shape == (4, 4)


@pytest.mark.parametrize("shape", [(3, 4), (4, 3), (3, 3)])
def test_svd_with_all_vectors(shape):
    x = np.random.default_rng(1).normal(size=shape)
    count = min(shape)
    ours = lambda x: (abs(tl.linalg.svd(x).U), tl.linalg.svd(x).S, abs(tl.linalg.svd(x).Vh[:count]))
    theirs = lambda x: (lambda u, s, v: (u.abs(), s, v[:count].abs()))(*torch.linalg.svd(x))
    same(lambda x: (ours(x)[0][:, :count], *ours(x)[1:]), lambda x: (theirs(x)[0][:, :count], *theirs(x)[1:]), x)
    with jax.enable_x64(True):
        u, s, vh = tl.linalg.svd(jnp.asarray(x))
        np.testing.assert_allclose(u[:, :count] * s @ vh[:count], x, atol=1e-12)
        np.testing.assert_allclose(u.T @ u, np.eye(shape[0]), atol=1e-12)


def test_svd_of_torch_has_v_itself():
    with jax.enable_x64(True):
        u, s, v = tl.svd(jnp.asarray(A))
        np.testing.assert_allclose(u * s[:, None] @ v.mT, A, atol=1e-12)
    same(lambda x: abs(tl.svd(x).V), lambda x: torch.svd(x).V.abs(), A)
    assert [one.shape for one in tl.svd(jnp.asarray(A), compute_uv=False)] == [(2, 3, 3), (2, 3), (2, 4, 4)]


def test_eigenvectors_of_any_matrix():
    weight = np.random.default_rng(3).normal(size=(2, 3, 3))
    same(lambda x: (abs(tl.linalg.eig(x).eigenvectors) * weight).sum(),
         lambda x: (torch.linalg.eig(x).eigenvectors.abs() * torch.tensor(weight)).sum(), weight)  # fmt: skip
    same(lambda x: abs(tl.linalg.eig(x).eigenvalues), lambda x: torch.linalg.eig(x).eigenvalues.abs(), weight)


@pytest.mark.parametrize("triangle", ["L", "U"])
def test_eigh_reads_one_triangle(triangle):
    x = np.random.default_rng(4).normal(size=(2, 3, 3))
    same(lambda x: tl.linalg.eigh(x, triangle)[0], lambda x: torch.linalg.eigh(x, triangle)[0], x)
    same(lambda x: abs(tl.linalg.eigh(x, triangle)[1]), lambda x: torch.linalg.eigh(x, triangle)[1].abs(), x)
    with pytest.raises(ValueError, match="UPLO"):
        tl.linalg.eigh(jnp.eye(2), "X")


def test_lu_of_batches():
    same(lambda x: tl.linalg.lu(x)[1:], lambda x: torch.linalg.lu(x)[1:], A)
    same(lambda x: tl.linalg.lu_factor(x).LU, lambda x: torch.linalg.lu_factor(x).LU, A)
    singular = np.stack([np.ones((2, 2)), np.eye(2)])
    info = torch.linalg.lu_factor_ex(torch.tensor(singular)).info
    np.testing.assert_array_equal(tl.linalg.lu_factor_ex(jnp.asarray(singular)).info, info)
    p, lower, upper = tl.lu_unpack(*tl.linalg.lu_factor(jnp.asarray(A)))
    np.testing.assert_allclose(p @ lower @ upper, A, rtol=1e-5, atol=1e-5)


def test_cholesky_ex_says_where_there_is_no_factor():
    both = jnp.stack([jnp.eye(2), -jnp.eye(2)])
    factor, info = tl.linalg.cholesky_ex(both)
    assert info.tolist() == [0, 1] and np.isnan(factor[1]).any()
    assert (np.asarray(torch.linalg.cholesky_ex(torch.tensor(np.asarray(both))).info) > 0).tolist() == [False, True]
    same(lambda x: tl.linalg.cholesky_ex(x, upper=True).L, lambda x: torch.linalg.cholesky_ex(x, upper=True).L, S)


def test_errors():
    for function in (tl.linalg.qr, tl.linalg.svd, tl.linalg.lu_factor, decompositions.eigh, tl.linalg.cholesky_ex):
        with pytest.raises(ValueError, match="not a matrix"):
            function(jnp.ones(3))
    with pytest.raises(ValueError, match="mode"):
        tl.linalg.qr(jnp.eye(2), "full")
