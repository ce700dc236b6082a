"""Sums, maxima and cumulative sums."""

import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from tests.export.onnx.programs import agrees, graph_of

X = np.random.default_rng(0).normal(size=(3, 4, 5)).astype(np.float32)


@pytest.mark.parametrize("name", ["sum", "max", "min", "prod", "mean", "var"])
@pytest.mark.parametrize("axis", [None, 1, (0, 2), -1])
def test_numbers(name, axis):
    agrees(lambda x: getattr(jnp, name)(x, axis), X)


def test_booleans():
    agrees(lambda x: ((x > 0).any(1), (x > -2).all((0, 2))), X)


def test_places():
    agrees(lambda x: (x.argmax(1), x.argmin(-1)), X)


@pytest.mark.parametrize("axis", [0, 2])
def test_cumulative(axis):
    agrees(lambda x: jnp.cumsum(x, axis), X)


def test_symbolic():
    more = np.random.default_rng(1).normal(size=(6, 4, 5)).astype(np.float32)
    agrees(lambda x: (x.mean(0), x.sum((0, 1))), X, dynamic="n, ...", others=[more])


@pytest.mark.parametrize("by", [lax.add, lax.mul, lax.max, lax.min, lambda a, b: lax.add(b, a)])
@pytest.mark.parametrize("first", [0.0, 1.0, -0.5])
@pytest.mark.parametrize("axes", [(1,), (0, 2), (0, 1, 2), ()])
def test_a_function_of_two_entries(by, first, axes):
    agrees(lambda x: lax.reduce(x, first, by, axes), X)


def test_no_axes():
    agrees(lambda x: (jnp.sum(x, ()), jnp.max(x, ()), (x > 0).any(())), X)


@pytest.mark.parametrize(
    "run",
    [
        lambda x: lax.reduce(x, 0.0, lambda a, b: a * 0.5 + b, (1,)),
        lambda x: lax.reduce((x, x), (0.0, 1.0), lambda a, b: (a[0] + b[0], a[1] * b[1]), (0,)),
        lambda x: lax.reduce(x, 0.0, lax.sub, (0,)),
        lambda x: lax.reduce(x, 0.0, lambda a, b: a + a, (0,)),
    ],
)
def test_other_functions_are_refused(run):
    """Once they were written as if they computed each entry on its own."""
    with pytest.raises(ValueError, match=r"the function uses an operation without a form .* got 'reduce' of another"):
        graph_of(run, [X], rewritten=False)
