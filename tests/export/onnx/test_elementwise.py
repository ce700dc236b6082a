"""Rules for entries: each against JAX, in ONNX Runtime, at ordinary and at extreme numbers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.ad_checkpoint import checkpoint_name

from tests.export.onnx.programs import agrees, graph_of, run

X = np.linspace(-4, 4, 24, dtype=np.float32).reshape(4, 6)
Y = np.cos(np.arange(24, dtype=np.float32)).reshape(4, 6) + 0.5
WHOLE, OTHER = np.arange(-12, 12, dtype=np.int32).reshape(4, 6), np.resize(np.array([-3, 2, 5, -1], np.int32), (4, 6))
HALVES = np.array([0.5, 1.5, 2.5, 0.49999997, 8388609, -0.5, -1.5, -2.5, -0.49999997, -8388609], np.float32)
SPECIAL = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-30, 1e-8, -1e-8, 80.0, -80.0], np.float32)

UNARY = {
    name: getattr(lax, name)
    for name in [
        "neg",
        "sign",
        "floor",
        "ceil",
        "abs",
        "exp",
        "tanh",
        "erf",
        "sin",
        "cos",
        "tan",
        "atan",
        "sinh",
        "asinh",
        "logistic",
        "square",
        "expm1",
    ]
}
UNARY |= {
    "log": lambda x: lax.log(lax.abs(x) + 1),
    "log1p": lambda x: lax.log1p(lax.abs(x)),
    "sqrt": lambda x: lax.sqrt(lax.abs(x)),
    "rsqrt": lambda x: lax.rsqrt(lax.abs(x) + 0.1),
    "acos": lambda x: lax.acos(x / 8),
    "atanh": lambda x: lax.atanh(x / 8),
    "round to even": lambda x: lax.round(x * 2.5, lax.RoundingMethod.TO_NEAREST_EVEN),
    "round away": lambda x: lax.round(x * 2.5, lax.RoundingMethod.AWAY_FROM_ZERO),
    "cube": lambda x: lax.integer_pow(x, 3),
    "seventh": lambda x: lax.integer_pow(x, 7),
    "inverse square": lambda x: lax.integer_pow(x, -2),
    "zeroth": lambda x: lax.integer_pow(x, 0),
}


@pytest.mark.parametrize("name", UNARY)
def test_one_argument(name):
    agrees(UNARY[name], X)


BINARY = ["add", "sub", "mul", "div", "max", "min", "pow", "lt", "le", "gt", "ge", "eq", "ne", "rem"]


@pytest.mark.parametrize("name", BINARY)
def test_two_arguments(name):
    agrees(getattr(lax, name), np.abs(X) if name == "pow" else X, Y)


@pytest.mark.parametrize(
    "name", ["add", "sub", "mul", "div", "max", "min", "rem", "lt", "eq", "bitwise_and", "bitwise_or", "bitwise_xor"]
)
def test_integers(name):
    agrees(getattr(lax, name), WHOLE, OTHER)


def test_booleans():
    agrees(
        lambda a, b: ((a > 0) & (b > 0), (a > 0) | (b > 0), (a > 0) ^ (b > 0), ~(a > 0), (a > 0) != (b > 0)),
        WHOLE,
        OTHER,
    )
    agrees(lambda a, b: (lax.max(a > 0, b > 0), lax.min(a > 0, b > 0)), WHOLE, OTHER)


def test_choices_and_limits():
    agrees(lambda a, b: (jnp.where(a > b, a, b), jnp.clip(a, -1.0, 2.0), lax.clamp(b - 1, a, b)), X, Y)
    agrees(lambda a, b: jnp.where(a > 0, b > a, b < 1), X, Y)
    agrees(lambda a, b: jnp.where(a > 0, a.astype(jnp.int16), b.astype(jnp.int16)), X, Y)
    agrees(lambda which, a, b: lax.select_n(which % 3, a, b, a * b), np.abs(WHOLE), X, Y)


@pytest.mark.parametrize("dtype", [np.int32, np.int8, np.uint8, bool, np.float16])
def test_other_dtypes(dtype):
    agrees(lambda x: x.astype(dtype), np.abs(X))


def test_special_numbers():
    """The tails of expm1 and log1p, infinities and NaN are those of JAX."""
    agrees(lambda x: (lax.expm1(x), lax.is_finite(x), lax.abs(x), lax.sign(jnp.nan_to_num(x))), SPECIAL)
    agrees(lambda x: lax.log1p(x), np.array([0.0, 1e-30, 1e-8, -1e-8, -0.5, 1e30, np.inf], np.float32))
    small = np.array([1e-8, -1e-8, 3e-5], np.float32)
    agrees(lambda x: (lax.expm1(x), lax.log1p(x)), small)  # where 1 + x rounds


LARGE = np.array([0.0, 1e-30, 1e-3, 0.3, 1, 7, 1e6, 3e38, np.inf, np.nan], np.float32)
SIGNED = np.concatenate([LARGE, -LARGE])


@pytest.mark.parametrize("name", ["exp2", "cbrt", "arctan2"])
def test_to_all_digits(name):
    """Each entry is within 1e-6 of its own size from NumPy's in float64."""
    pairs = [np.repeat(SIGNED, 20), np.tile(SIGNED, 20)]
    arrays = {"exp2": [np.linspace(-126, 127.9, 999, dtype=np.float32)], "cbrt": [SIGNED]}.get(name, pairs)
    with np.errstate(invalid="ignore"):
        expected = getattr(np, name)(*(array.astype(np.float64) for array in arrays)).astype(np.float32)
    for rewritten in (False, True):
        (got,) = run(graph_of(getattr(jnp, name), arrays, rewritten=rewritten), arrays)
        assert got.dtype == np.float32
        np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-37)
        if name == "arctan2":
            np.testing.assert_array_equal(np.signbit(got)[~np.isnan(got)], np.signbit(expected)[~np.isnan(got)])


@pytest.mark.parametrize(
    "method, expected",
    [
        (lax.RoundingMethod.TO_NEAREST_EVEN, [0, 2, 2, 0, 8388609]),
        (lax.RoundingMethod.AWAY_FROM_ZERO, [1, 2, 3, 0, 8388609]),
    ],
)
def test_halves(method, expected):
    (got,) = run(graph_of(lambda x: lax.round(x, method), [HALVES], rewritten=True), [HALVES])
    np.testing.assert_array_equal(got, [*expected, *(-number for number in expected)])


def test_what_computes_nothing_leaves_no_operator():
    graph = agrees(lambda x: jnp.sin(jax.device_put(checkpoint_name(x, "a"))), X)
    assert [node.op for node in graph.nodes] == ["Sin"]


def test_inside_calls():
    """Operations of jitted, checkpointed and custom functions are those of the functions around them."""
    inner = jax.custom_jvp(lambda x: jnp.sin(x) * 2)
    inner.defjvp(lambda primals, tangents: (inner(*primals), tangents[0]))
    agrees(lambda x: jax.jit(lambda y: y + 1)(jax.checkpoint(jnp.exp)(inner(x))), X)
