"""Errors name the function that was called, although another function of the library does its work."""

import jax
import jax.numpy as jnp
import pytest

import funcnet.torchlike as tl

KEY, V, M = jax.random.key(0), jnp.ones(3), jnp.ones((2, 3))
THREE = jnp.arange(3)

CALLS = {
    "tl.aminmax": [lambda: tl.aminmax(M, dim=4), lambda: tl.aminmax(jnp.ones(0)), lambda: tl.aminmax(M[:0], dim=0)],
    "tl.as_strided_scatter": [
        lambda: tl.as_strided_scatter(M, jnp.ones(9), (9,), (1,)),
        lambda: tl.as_strided_scatter(M, jnp.ones(2), (2,), (1, 2)),
    ],
    "tl.as_strided": [lambda: tl.as_strided(M, (9,), (1,)), lambda: tl.as_strided(M, (2,), (1, 2))],
    "tl.index_put": [
        lambda: tl.index_put(V, (THREE, THREE), V),
        lambda: tl.index_put(V, (THREE, THREE), V, True),
        lambda: tl.index_put(V, (M > 0,), V),
    ],
    "tl.linalg.lu": [lambda: tl.linalg.lu(V)],
    "tl.linalg.lu_factor_ex": [lambda: tl.linalg.lu_factor_ex(V)],
    "tl.linalg.matrix_norm": [lambda: tl.linalg.matrix_norm(M, "x"), lambda: tl.linalg.matrix_norm(V)],
    "tl.linalg.norm": [lambda: tl.linalg.norm(M, "x"), lambda: tl.linalg.norm(M, 3, dim=(0, 1))],
    "tl.linalg.solve_ex": [lambda: tl.linalg.solve_ex(M, V), lambda: tl.linalg.solve_ex(jnp.eye(3), V, False)],
    "tl.pca_lowrank": [lambda: tl.pca_lowrank(V, 2, rng=KEY), lambda: tl.pca_lowrank(M, 7, rng=KEY)],
    "tl.svd": [lambda: tl.svd(V), lambda: tl.svd(V, compute_uv=False)],
    "tl.triangular_solve": [lambda: tl.triangular_solve(V, M)],
}


@pytest.mark.parametrize("name", CALLS)
def test_errors_name_the_function_that_was_called(name):
    for call in CALLS[name]:
        with pytest.raises(ValueError, match=f"^{name}: .*; expected"):
            call()
