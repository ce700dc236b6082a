"""Linear systems against torch."""

import jax.numpy as jnp
import numpy as np
import pytest
import torch

import funcnet.torchlike as tl

from .database import agrees, same

R = np.random.default_rng(0)
A, B, V = R.normal(size=(2, 3, 3)), R.normal(size=(2, 3, 4)), R.normal(size=(2, 3))
S = A @ A.swapaxes(-1, -2) + np.eye(3)
L = np.linalg.cholesky(S)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["solve", "solve_ex", "inv_ex", "solve_triangular", "lu_solve"])
def test_database(name):
    ours = getattr(tl.linalg, name)
    agrees(f"linalg.{name}", lambda *args, check_errors=False, **kwargs: ours(*args, **kwargs))


@pytest.mark.slow
def test_database_of_older_names():
    for name in ("cholesky_solve", "cholesky_inverse", "triangular_solve"):
        agrees(name)


def test_solve_of_vectors_and_matrices():
    same(tl.linalg.solve, torch.linalg.solve, A, B)
    same(tl.linalg.solve, torch.linalg.solve, A, V)
    same(tl.linalg.solve, torch.linalg.solve, A, V[0])
    same(lambda a, b: tl.linalg.solve(a, b, left=False), lambda a, b: torch.linalg.solve(a, b, left=False), A,
         B.swapaxes(-1, -2).copy())  # fmt: skip
    with pytest.raises(ValueError, match="left=False"):
        tl.linalg.solve(jnp.eye(2), jnp.ones(2), left=False)


def test_info_of_singular_matrices():
    singular = np.stack([np.ones((2, 2)), np.eye(2)])
    info = torch.linalg.inv_ex(torch.tensor(singular)).info
    np.testing.assert_array_equal(tl.linalg.inv_ex(jnp.asarray(singular)).info, info)
    np.testing.assert_array_equal(tl.linalg.solve_ex(jnp.asarray(singular), jnp.ones((2, 2))).info, info)


@pytest.mark.parametrize("upper", [False, True])
def test_triangular_matrices_and_factors(upper):
    for unit in (False, True):
        same(lambda a, b, u=unit: tl.linalg.solve_triangular(a, b, upper=upper, unitriangular=u),
             lambda a, b, u=unit: torch.linalg.solve_triangular(a, b, upper=upper, unitriangular=u), A[0],
             B)  # fmt: skip
        same(lambda b, a, u=unit: tl.triangular_solve(b, a, upper, True, u).solution,
             lambda b, a, u=unit: torch.triangular_solve(b, a, upper, True, u).solution, B, A)  # fmt: skip
    factor = L.swapaxes(-1, -2).copy() if upper else L
    same(lambda b, f: tl.cholesky_solve(b, f, upper), lambda b, f: torch.cholesky_solve(b, f, upper), B, factor)
    same(lambda f: tl.cholesky_inverse(f, upper), lambda f: torch.cholesky_inverse(f, upper), factor)


@pytest.mark.parametrize("adjoint", [False, True])
@pytest.mark.parametrize("left", [False, True])
def test_lu_solve(left, adjoint):
    other = B if left else B.swapaxes(-1, -2).copy()
    same(lambda a, b: tl.linalg.lu_solve(*tl.linalg.lu_factor(a), b, left=left, adjoint=adjoint),
         lambda a, b: torch.linalg.lu_solve(*torch.linalg.lu_factor(a), b, left=left, adjoint=adjoint), A,
         other)  # fmt: skip


@pytest.mark.parametrize("driver", [None, "gels", "gelsd", "gelss", "gelsy"])
def test_least_squares(driver):
    tall = np.concatenate([A, A[:, :2] + 1], axis=1)
    target = R.normal(size=(2, 5, 2))
    same(lambda a, b: tl.linalg.lstsq(a, b, driver=driver).solution,
         lambda a, b: torch.linalg.lstsq(a, b, driver=driver).solution, tall, target)  # fmt: skip
    ours = tl.linalg.lstsq(jnp.asarray(tall), jnp.asarray(target), driver=driver)
    theirs = torch.linalg.lstsq(torch.tensor(tall), torch.tensor(target), driver=driver)
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-4)


def test_errors():
    for function in (tl.linalg.solve, tl.linalg.lu_solve):
        with pytest.raises(ValueError, match="not square"):
            function(jnp.ones((2, 3)), jnp.ones(2), jnp.ones((2, 1)))
