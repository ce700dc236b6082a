"""Windows of every rank, with strides, dilation and pads as large as the window."""

import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from tests.export.onnx.programs import agrees, graph_of

X = np.random.default_rng(0).normal(size=(2, 3, 7, 8)).astype(np.float32)
CASES = [
    ((1, 1, 3, 2), (1, 1, 2, 1), [(0, 0), (0, 0), (1, 0), (0, 1)], (1, 1, 1, 1)),
    ((1, 1, 3, 1), (1, 1, 1, 1), [(0, 0)] * 4, (1, 1, 2, 1)),
    ((1, 3, 1, 1), (1, 1, 1, 1), [(0, 0), (1, 1), (0, 0), (0, 0)], (1, 1, 1, 1)),
    ((1, 1, 1, 2), (1, 1, 1, 2), [(0, 0), (0, 0), (0, 0), (2, 3)], (1, 1, 1, 1)),
    ((1, 1, 1, 1), (1, 1, 2, 2), [(0, 0)] * 4, (1, 1, 1, 1)),
]


@pytest.mark.parametrize("sizes, strides, pads, dilation", CASES)
@pytest.mark.parametrize("kind", ["max", "sum"])
def test_windows(sizes, strides, pads, dilation, kind):
    start, by = (-jnp.inf, lax.max) if kind == "max" else (0.0, lax.add)
    run = lambda x: lax.reduce_window(x, start, by, sizes, strides, pads, window_dilation=dilation)
    agrees(run, X)
    agrees(run, X, dynamic="n, ...", others=[np.concatenate([X, X])])


def test_what_pooling_cannot_do_is_refused():
    run = lambda x: lax.reduce_window(x, 0.0, lax.add, (2, 2, 2, 2), (1, 1, 1, 1), "VALID")
    with pytest.raises(ValueError, match="over 4 dimensions"):
        graph_of(run, [X], rewritten=False)


WINDOW = ((1, 1, 2, 2), (1, 1, 2, 2), "VALID")


@pytest.mark.parametrize(
    "by, first", [(lax.max, 0.0), (lax.max, 0.3), (lax.add, 1.0), (lambda a, b: lax.max(b, a), 0.0)]
)
def test_windows_with_a_first_number(by, first):
    """JAX has `reduce_window` instead of an operation of its own when the first number changes the result."""
    agrees(lambda x: lax.reduce_window(jnp.abs(x) - 0.5, first, by, *WINDOW), X)
    agrees(lambda x: lax.reduce_window(x, 0.5, lax.max, WINDOW[0], WINDOW[1], "SAME"), X)


@pytest.mark.parametrize(
    "run, what",
    [
        (lambda x: lax.reduce_window(x, 0.0, lambda a, b: a * 0.5 + b, *WINDOW), "of another function than add or max"),
        (lambda x: lax.reduce_window(x, 1.0, lax.add, WINDOW[0], WINDOW[1], [(0, 0)] * 3 + [(1, 1)]), "with padding"),
        (
            lambda x: lax.reduce_window((x, x), (0.0, 1.0), lambda a, b: (a[0] + b[0], a[1] * b[1]), *WINDOW),
            "of another function",
        ),
    ],
)
def test_other_windows_are_refused(run, what):
    with pytest.raises(
        ValueError, match=f"the function uses an operation without a form .* got 'reduce_window' {what}"
    ):
        graph_of(run, [X], rewritten=False)
