"""Element-wise activations against torch: values, both derivatives, kinks, great and tiny numbers, dtypes, refusals.

Every function is a row of one table, and one program runs them all: compiling is what costs.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
import torch.nn.functional as T
from hypothesis import given
from hypothesis import strategies as st

from funcnet import functional as F

from .oracle import agrees, normal

# Every corner of every function stands among these.
EDGES = np.array([-20, -7, -3, -2, -1, -0.5, -1e-4, -0.0, 0, 1e-4, 0.5, 0.7, 1, 2, 3, 6, 7, 10, 20, 20.5])
FAR = np.array([-np.inf, -1e30, -200, -100, -1e-30, 1e-30, 90, 1e30, np.inf, np.nan])

# name: what to call, of ours or of torch's functional
CALLS = {
    "relu": lambda f, x: f.relu(x),
    "relu6": lambda f, x: f.relu6(x),
    "threshold": lambda f, x: f.threshold(x, 0.5, 2),
    "leaky_relu": lambda f, x: f.leaky_relu(x),
    "leaky_relu, falling": lambda f, x: f.leaky_relu(x, -0.5),
    "rrelu": lambda f, x: f.rrelu(x),
    "elu": lambda f, x: f.elu(x),
    "elu, alpha -2": lambda f, x: f.elu(x, -2.0),
    "celu, alpha 2": lambda f, x: f.celu(x, 2.0),
    "celu, alpha -2": lambda f, x: f.celu(x, -2.0),
    "selu": lambda f, x: f.selu(x),
    "hardtanh": lambda f, x: f.hardtanh(x),
    "hardtanh, one point": lambda f, x: f.hardtanh(x, 2.0, 2.0),
    "hardsigmoid": lambda f, x: f.hardsigmoid(x),
    "hardswish": lambda f, x: f.hardswish(x),
    "hardshrink": lambda f, x: f.hardshrink(x),
    "hardshrink, lambd -1": lambda f, x: f.hardshrink(x, -1.0),
    "softshrink": lambda f, x: f.softshrink(x),
    "softshrink, lambd 0": lambda f, x: f.softshrink(x, 0.0),
    "gelu": lambda f, x: f.gelu(x),
    "gelu, tanh": lambda f, x: f.gelu(x, approximate="tanh"),
    "silu": lambda f, x: f.silu(x),
    "mish": lambda f, x: f.mish(x),
    "tanh": lambda f, x: (torch if f is T else f).tanh(x),
    "sigmoid": lambda f, x: (torch if f is T else f).sigmoid(x),
    "logsigmoid": lambda f, x: f.logsigmoid(x),
    "softplus": lambda f, x: f.softplus(x),
    "softplus, beta 2": lambda f, x: f.softplus(x, 2.0, 1.0),
    "softplus, beta -2": lambda f, x: f.softplus(x, -2.0, 1.0),
    "softplus, beta 0": lambda f, x: f.softplus(x, 0.0),
    "softsign": lambda f, x: f.softsign(x),
    "tanhshrink": lambda f, x: f.tanhshrink(x),
}
every_call = pytest.mark.parametrize("name", CALLS)


def ours(points, dtype):
    """{name: (value, derivative, forward derivative, second derivative)} of all functions, in one program."""

    def all_of(call, x):
        value = lambda x: call(F, x)
        slope = lambda x: jax.vjp(value, x)[1](jnp.ones_like(x))[0]
        if x.dtype == jnp.bfloat16:
            return value(x), slope(x)
        out, forward = jax.jvp(value, (x,), (jnp.ones_like(x),))
        return out, slope(x), forward, jax.jvp(slope, (x,), (jnp.ones_like(x),))[1]

    with jax.enable_x64(dtype == "float64"):
        x = jnp.asarray(points, dtype)
        return jax.tree.map(np.asarray, jax.jit(lambda x: {name: all_of(c, x) for name, c in CALLS.items()})(x))


def theirs(name, points, dtype=torch.float64):
    """(value, derivative, second derivative) by torch."""
    x = torch.tensor(points, dtype=dtype, requires_grad=True)
    value = CALLS[name](T, x)
    if name == "hardsigmoid":  # torch has no second derivative of it
        (slope,) = torch.autograd.grad(value.sum(), x)
        return value.detach().double().numpy(), slope.double().numpy(), np.zeros(len(points))
    (slope,) = torch.autograd.grad(value.sum(), x, create_graph=True)
    second = torch.autograd.grad(slope.sum(), x, allow_unused=True)[0] if slope.requires_grad else None
    second = torch.zeros_like(x) if second is None else second
    return tuple(t.detach().double().numpy() for t in (value, slope, second))


@pytest.fixture(scope="module")
def computed():
    return {dtype: ours([*EDGES, *FAR], dtype) for dtype in ("float64", "float32", "bfloat16")}


@every_call
def test_value_and_both_derivatives_at_the_edges_too(name, computed):
    for dtype, tolerance in (("float64", 1e-12), ("float32", 3e-6)):
        points = EDGES.astype(dtype)
        value, slope, second = theirs(name, points)
        got = [part[: len(EDGES)] for part in computed[dtype][name]]
        assert all(g.dtype == dtype for g in got)
        for mine, torchs, what in zip(
            got, (value, slope, slope, second), ("y", "y'", "forward y'", "y''"), strict=True
        ):
            np.testing.assert_allclose(mine, torchs, rtol=tolerance, atol=tolerance, err_msg=what)


@every_call
def test_bfloat16_is_rounded_once(name, computed):
    points = np.asarray(jnp.asarray(EDGES, jnp.bfloat16), np.float64)
    value, slope, _ = theirs(name, points)
    for mine, torchs in zip(computed["bfloat16"][name], (value, slope), strict=True):
        assert mine.dtype == jnp.bfloat16
        np.testing.assert_allclose(np.asarray(mine[: len(EDGES)], np.float64), torchs, rtol=2**-8, atol=1e-6)


@every_call
def test_great_and_tiny_numbers(name, computed):
    """Wherever torch's value and derivative are numbers, ours are the same; where the second one is, so is ours."""
    value, slope, _, second = (part[len(EDGES) :] for part in computed["float32"][name])
    torchs_value, torchs_slope, torchs_second = theirs(name, FAR, torch.float32)
    told = ~np.isnan(torchs_value)
    np.testing.assert_allclose(value[told], torchs_value[told], rtol=3e-6, atol=1e-36)
    told = ~np.isnan(torchs_slope)
    if name == "relu":
        told &= ~np.isnan(FAR)  # torch's derivative at NaN is 1, ours 0
    np.testing.assert_allclose(slope[told], torchs_slope[told], rtol=1e-5, atol=1e-8)
    assert not np.isnan(second[~np.isnan(torchs_second)]).any()
    assert np.isnan(value[-1]), "NaN is not lost"


KINDS = ["int32", "uint8", "bool", "complex64"]


@pytest.mark.parametrize("kind", KINDS)
@every_call
def test_other_dtypes_are_taken_or_refused_as_in_torch(name, kind):
    numbers = np.array([[3, 1], [2, 0]]).astype(kind)
    try:
        want = CALLS[name](T, torch.tensor(numbers)).numpy()
    except (RuntimeError, NotImplementedError):
        with pytest.raises((TypeError, ValueError), match=r"^F\.\w+: "):
            CALLS[name](F, jnp.asarray(numbers))
        return
    got = np.asarray(CALLS[name](F, jnp.asarray(numbers)))
    assert got.dtype == want.dtype
    np.testing.assert_allclose(got, want, rtol=1e-6)


def test_integers_cut_the_bounds():
    x = np.arange(-3, 4, dtype=np.int32)
    for call in (lambda f, x: f.threshold(x, -1.5, 2.7), lambda f, x: f.hardtanh(x, -1.5, 1.5)):
        np.testing.assert_array_equal(call(F, jnp.asarray(x)), call(T, torch.tensor(x)))


def test_where_bfloat16_meets_a_bound_that_it_rounds():
    """0.1 in bfloat16 lies above 0.1: torch compares hardshrink's in bfloat16, the others' in float32."""
    x = jnp.array([0.1, -0.1], jnp.bfloat16)
    for call in (
        lambda f, x: f.hardshrink(x, 0.1),
        lambda f, x: f.softshrink(x, 0.1),
        lambda f, x: f.threshold(x, 0.1, 0.3),
        lambda f, x: f.hardtanh(x, -0.1, 0.1),
    ):
        leaf = torch.tensor(np.asarray(x, np.float32), dtype=torch.bfloat16, requires_grad=True)
        want = call(T, leaf)
        want.sum().backward()
        got, pull = jax.vjp(lambda x, call=call: call(F, x), x)
        np.testing.assert_array_equal(got.astype(jnp.float32), want.detach().float())
        np.testing.assert_array_equal(pull(jnp.ones_like(x))[0].astype(jnp.float32), leaf.grad.float())


@pytest.mark.parametrize("name", ["relu", "relu6", "threshold", "leaky_relu", "hardtanh"])
def test_the_derivative_at_what_is_no_number(name):
    leaf = torch.tensor([np.nan, np.inf, -np.inf, 0.0], requires_grad=True)
    CALLS[name](T, leaf).sum().backward()
    np.testing.assert_array_equal(jax.grad(lambda x: CALLS[name](F, x).sum())(leaf.detach().numpy()), leaf.grad)


def test_empty_and_scalar():
    run = jax.jit(lambda *inputs: {name: [call(F, x) for x in inputs] for name, call in CALLS.items()})
    for name, (empty, scalar) in run(jnp.zeros((2, 0)), jnp.float32(1)).items():
        assert empty.shape == (2, 0), name
        np.testing.assert_allclose(scalar, CALLS[name](T, torch.tensor(1.0)), rtol=1e-6, err_msg=name)


# XLA takes subnormal numbers for 0.
NUMBERS = st.floats(-4, 4).map(lambda v: round(v, 2))
OPTIONS = st.one_of(
    st.tuples(st.just("threshold"), NUMBERS, NUMBERS),
    st.tuples(st.just("hardtanh"), NUMBERS.map(lambda v: -abs(v)), NUMBERS.map(abs)),
    st.tuples(st.sampled_from(["elu", "leaky_relu", "hardshrink"]), NUMBERS),
    st.tuples(
        st.just("celu"), st.integers(-30, 30).filter(bool).map(lambda v: v / 8)
    ),  # its slope rounds alpha in torch
    st.tuples(st.just("softshrink"), NUMBERS.map(abs)),
    st.tuples(st.just("softplus"), NUMBERS.filter(bool), st.floats(-4, 30, allow_subnormal=False)),
)


@pytest.mark.slow
@given(OPTIONS, st.lists(st.one_of(NUMBERS, st.floats(-50, 50, allow_subnormal=False)), min_size=6, max_size=6))
def test_hypothesis_options(options, points):
    name, *settings = options
    points = np.array([*points, *settings[:2], *(-s for s in settings[:2])])[:8]
    points = np.resize(points, 8)
    calls = (lambda x: getattr(F, name)(x, *settings)), (lambda x: getattr(T, name)(x, *settings))
    agrees(*calls, points, dtypes=(np.float64,), jit=False)


# ------------------------------------------------------------------------------------------------- prelu, rrelu, glu


@pytest.mark.parametrize(
    ("shape", "weight"), [((), ()), ((), (1,)), ((4,), (1,)), ((2, 3), (3,)), ((2, 3, 4), (3,)), ((0, 3), (3,))]
)
def test_prelu(shape, weight):
    x = normal(*shape)
    if x.size > 2:
        x.flat[:2] = 0
    agrees(F.prelu, T.prelu, x, normal(*weight), dtypes=(np.float64,))


def test_prelu_of_infinity_keeps_the_slopes_gradient_finite():
    slope = jax.grad(lambda w: F.prelu(jnp.array([jnp.inf, -2.0, 0.0]), w).sum())(jnp.array(0.25))
    assert slope == -2


def test_rrelu_with_torchs_slopes_is_torchs(monkeypatch):
    x = np.concatenate([normal(30), np.zeros(4)]).astype(np.float32)
    torch.manual_seed(0)
    leaf, noise = torch.tensor(x, requires_grad=True), torch.zeros(34)
    want = torch._C._nn.rrelu_with_noise(leaf, noise, 0.1, 0.4, True)
    want.sum().backward()
    drawn = []

    def draw(key, shape, dtype, low, high):
        drawn.append((shape, dtype, low, high))
        return jnp.asarray(noise.numpy())

    monkeypatch.setattr(jax.random, "uniform", draw)
    got, pull = jax.vjp(lambda x: F.rrelu(x, 0.1, 0.4, True, rng=jax.random.key(0)), jnp.asarray(x))
    assert drawn == [((34,), jnp.float32, 0.1, 0.4)]
    np.testing.assert_allclose(got, want.detach(), rtol=1e-6)
    np.testing.assert_allclose(pull(jnp.ones(34))[0], leaf.grad, rtol=1e-6)


def test_rrelu_draws_within_its_bounds_and_anew():
    run = jax.jit(lambda rng: -F.rrelu(-jnp.ones(4000), 0.1, 0.4, True, rng=rng))
    slopes = run(jax.random.key(0))
    assert slopes.min() >= 0.1 and slopes.max() <= 0.4 and abs(float(slopes.mean()) - 0.25) < 0.01
    assert abs(float(slopes.std()) - 0.3 / np.sqrt(12)) < 0.005
    assert not np.array_equal(slopes, run(jax.random.key(1)))
    assert F.rrelu(-jnp.ones(2), 0.5, 0.5, True).tolist() == [-0.5, -0.5]  # nothing to draw, no key
    assert F.rrelu(-jnp.ones(3, jnp.bfloat16), training=True, rng=jax.random.key(0)).dtype == jnp.bfloat16


@pytest.mark.parametrize(("shape", "dim"), [((4,), -1), ((2, 6), 1), ((4, 3), 0), ((0, 4), -1), ((0, 3), 0)])
def test_glu(shape, dim):
    agrees(lambda x: F.glu(x, dim), lambda x: T.glu(x, dim), normal(*shape), dtypes=(np.float64,))


@pytest.mark.parametrize(("name", "library"), [("silu", T), ("tanh", torch), ("sigmoid", torch), ("softsign", T)])
def test_complex_numbers(name, library):
    z = (normal(8) + 1j * normal(8, seed=1)).astype(np.complex64)
    np.testing.assert_allclose(getattr(F, name)(jnp.asarray(z)), getattr(library, name)(torch.tensor(z)), rtol=3e-6)


# ------------------------------------------------------------------------------------------------------------ refusals

X = jnp.ones((2, 3))
REFUSALS = [
    (lambda: F.gelu(X, "erf"), ValueError, "F.gelu: approximate is unknown; expected 'none' or 'tanh', got 'erf'"),
    (lambda: F.hardtanh(X, 1, 0), ValueError, "F.hardtanh: the bounds are in the wrong order; .* got 1 and 0. Swap"),
    (lambda: F.hardtanh(X.astype(jnp.uint8)), ValueError, "F.hardtanh: an unsigned input cannot be less than 0"),
    (
        lambda: F.threshold(X.astype(jnp.uint8), -1, 7),
        ValueError,
        "F.threshold: threshold does not fit the input's dtype; expected 0 to 255 for uint8, got -1. ",
    ),
    (lambda: F.threshold(X.astype(int), 0, 2**40), ValueError, "F.threshold: value does not fit the input's dtype; "),
    (lambda: F.relu(X > 0), TypeError, "F.relu: input must hold numbers; expected a dtype such as float32 .* got bool"),
    (
        lambda: F.softsign(X > 0),
        TypeError,
        "F.softsign: input must hold numbers; expected a dtype such as float32 .* got bool",
    ),
    (lambda: F.relu6(X.astype(complex)), TypeError, "F.relu6: input must hold real numbers; expected .* got complex64"),
    (lambda: F.elu(X.astype(int)), TypeError, "F.elu: input must hold floating-point numbers"),
    (lambda: F.celu(X, 0.0), ValueError, "F.celu: .* the input is divided by alpha; expected a nonzero number, got 0"),
    (lambda: F.softshrink(X, -0.5), ValueError, "F.softshrink: lambd is out of range; expected 0 to .* got -0.5"),
    (lambda: F.softshrink(X, np.nan), ValueError, "F.softshrink: lambd is out of range; expected 0 to .* got nan"),
    (lambda: F.rrelu(X, 0.3, 0.1), ValueError, "F.rrelu: the bounds of the slopes are invalid; .* 0.3 and 0.1"),
    (
        lambda: F.rrelu(X, -np.inf, 0.1),
        ValueError,
        "F.rrelu: the bounds of the slopes are invalid; expected finite",
    ),
    (
        lambda: F.rrelu(X, training=True),
        ValueError,
        "F.rrelu: the function needs randomness; expected a key, got rng=None",
    ),
    (lambda: F.prelu(X, jnp.ones(2)), ValueError, r"F.prelu: weight does not fit .* 3 channels .* weight \(2,\)"),
    (lambda: F.prelu(X, jnp.ones((1, 1))), ValueError, r"F.prelu: weight does not fit the input; .* weight \(1, 1\)"),
    (lambda: F.prelu(X[0], jnp.ones(3)), ValueError, r"F.prelu: weight does not fit .* the 1 channels"),
    (lambda: F.prelu(X[0, 0], jnp.ones(2)), ValueError, r"F.prelu: weight does not fit .* input \(\)"),
    (lambda: F.prelu(X, jnp.ones(3, jnp.bfloat16)), TypeError, "F.prelu: the dtypes differ; expected one dtype"),
    (
        lambda: F.glu(X),
        ValueError,
        r"F.glu: the input cannot be split in half; expected .* even size, got dim=-1 of an input of shape \(2, 3\)",
    ),
    (
        lambda: F.glu(X, 2),
        ValueError,
        r"F.glu: the input cannot be split in half; .* got dim=2 of an input of shape \(2, 3\)",
    ),
    (
        lambda: F.glu(X[0, 0]),
        ValueError,
        r"F.glu: the input cannot be split in half; .* got dim=-1 of an input of shape \(\)",
    ),
]


@pytest.mark.parametrize(("call", "error", "text"), REFUSALS, ids=[text for *_, text in REFUSALS])
def test_refusals_say_why(call, error, text):
    with pytest.raises(error, match=text):
        call()


def test_the_slope_of_tanh_keeps_its_digits():
    """1 - tanh² has no digit left at 9, where torch's has one and the true slope is 6e-8."""
    x = np.linspace(-12, 12, 999).astype(np.float32)
    slope = jax.vmap(jax.grad(F.tanh))(jnp.asarray(x))
    np.testing.assert_allclose(slope, 1 / np.cosh(x.astype(np.float64)) ** 2, rtol=2e-6)
