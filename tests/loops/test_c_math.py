"""The functions in C against double precision, in units of the last place."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special
from jax import lax

from funcnet.export.wasm.module import to_wasm

FINITE = np.concatenate(
    [
        np.linspace(-12, 12, 40_001),
        np.geomspace(1e-30, 3e38, 4_001),
        -np.geomspace(1e-30, 3e38, 4_001),
        np.array([0.0, -0.0, 1.0, -1.0, 88.7, -87.3, -103.9, 89.0, 0.625, 0.92, 4.0]),
    ]
).astype(np.float32)
INSIDE = np.concatenate([np.linspace(-1, 1, 40_001), np.geomspace(1e-30, 1, 2_001), 1 - np.geomspace(6e-8, 0.1, 2_001)])
INSIDE = INSIDE.astype(np.float32)
SPECIAL = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0], np.float32)
ANYWHERE = {
    "exp": (lax.exp, np.exp),
    "exp2": (lax.exp2, np.exp2),
    "expm1": (lax.expm1, np.expm1),
    "log": (lax.log, np.log),
    "log1p": (lax.log1p, np.log1p),
    "tanh": (lax.tanh, np.tanh),
    "logistic": (lax.logistic, scipy.special.expit),
    "erf": (lax.erf, scipy.special.erf),
    "erfc": (lax.erfc, scipy.special.erfc),
    "rsqrt": (lax.rsqrt, lambda x: 1 / np.sqrt(x)),
    "cbrt": (lax.cbrt, np.cbrt),
    "sinh": (lax.sinh, np.sinh),
    "cosh": (lax.cosh, np.cosh),
    "asinh": (lax.asinh, np.arcsinh),
    "acosh": (lax.acosh, np.arccosh),
    "atan": (lax.atan, np.arctan),
}
ON_CIRCLE = {"sin": (lax.sin, np.sin), "cos": (lax.cos, np.cos), "tan": (lax.tan, np.tan)}
ON_UNIT = {
    "erf_inv": (lax.erf_inv, scipy.special.erfinv),
    "asin": (lax.asin, np.arcsin),
    "acos": (lax.acos, np.arccos),
    "atanh": (lax.atanh, np.arctanh),
}
ALL = {**ANYWHERE, **ON_CIRCLE, **ON_UNIT}
CIRCLE = FINITE[np.abs(FINITE) < 1e5]
POINTS = {
    name: np.concatenate([CIRCLE if name in ON_CIRCLE else INSIDE if name in ON_UNIT else FINITE, SPECIAL])
    for name in ALL
}


@pytest.fixture(scope="module")
def results():
    def every(points: dict[str, jax.Array]) -> dict[str, jax.Array]:
        return {name: ALL[name][0](x) for name, x in points.items()}

    points = {name: jnp.asarray(x) for name, x in POINTS.items()}
    runner = to_wasm(every, points).runner()
    names = sorted(POINTS)
    return dict(zip(names, runner(*[POINTS[name] for name in names]), strict=True))


@pytest.mark.parametrize("name", ALL)
def test_two_units_in_the_last_place(name, results):
    x = POINTS[name].astype(np.float64)
    with np.errstate(all="ignore"):
        truth = ALL[name][1](x)
        rounded = truth.astype(np.float32)
    ours = results[name]
    finite = np.isfinite(rounded)
    assert np.array_equal(ours[~finite], rounded[~finite], equal_nan=True)
    unit = np.spacing(np.maximum(np.abs(rounded[finite]), np.float32(1.2e-38))).astype(np.float64)
    errors = np.abs(ours[finite].astype(np.float64) - truth[finite]) / unit
    worst = np.argmax(errors)
    assert errors[worst] <= 2, f"{errors[worst]:.2f} units at {x[finite][worst]}"
    zeros = (x == 0) & (truth == 0)  # all of these functions are odd
    assert np.array_equal(np.signbit(ours[zeros]), np.signbit(x[zeros]))


def test_functions_of_two_numbers():
    random = np.random.default_rng(0)
    x = np.concatenate([np.exp(random.normal(size=20_000) * 3), -np.exp(random.normal(size=2_000))]).astype(np.float32)
    y = (random.normal(size=22_000) * 8).astype(np.float32)
    y[::3] = np.round(y[::3])
    edges = np.array([0, -0.0, 1, -1, 2, -3, 0.5, np.inf, -np.inf, np.nan], np.float32)
    x, y = (np.concatenate([a, b.ravel()]) for a, b in zip((x, y), np.meshgrid(edges, edges), strict=True))
    every = lambda x, y: (x**y, jnp.arctan2(x, y), lax.rem(x, y), lax.nextafter(x, y))
    power, angle, rest, after = to_wasm(every, x, y).runner()(x, y)
    with np.errstate(all="ignore"):
        assert np.array_equal(after, np.nextafter(x, y), equal_nan=True)
        assert np.array_equal(rest, np.fmod(x, y), equal_nan=True)
        for ours, truth in ((power, x.astype(np.float64) ** y), (angle, np.arctan2(x.astype(np.float64), y))):
            rounded = truth.astype(np.float32)
            finite = np.isfinite(rounded)
            assert np.array_equal(ours[~finite], rounded[~finite], equal_nan=True)
            unit = np.spacing(np.maximum(np.abs(rounded[finite]), np.float32(1.2e-38)))
            assert np.max(np.abs(ours[finite] - truth[finite]) / unit) <= 2
