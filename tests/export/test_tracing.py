"""Tracing for an export: names, symbolic sizes, and what is refused."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from funcnet import nn
from funcnet.export.tracing import inner_program, trace
from funcnet.quantization import integer_products, multipliers

X = np.ones((2, 3), np.float32)


def test_names_of_inputs_outputs_and_weights():
    net = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
    params, state = net.init(jax.random.key(0))
    table = jnp.ones((2, 2))

    def run(x, /, y):
        out, _ = net.apply(params, state, x)
        return {"logits": out @ table, "pair": (out, y)}

    traced = trace("test", run, [X, X], params=(params, state))
    assert traced.inputs == ("x", "y") and traced.outputs == ("logits", "pair_0", "pair_1")
    assert sorted(traced.weights) == ["0.bias", "0.weight", "1.bias", "1.weight", "constant"]
    assert trace("test", lambda *arrays: arrays[0] + 1, [X, X]).inputs == ("input_0", "input_1")
    assert trace("test", lambda output: output + 1, [X]).outputs == ("output_1",)


def test_constants_without_names_have_that_of_their_layer():
    net = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2, bias=False))
    params, state = net.init(jax.random.key(0))
    traced = trace("test", lambda x: net.apply(params, state, x)[0], [X])
    assert sorted(traced.weights) == ["0.constant", "0.constant_1", "1.constant"]


def test_symbolic_sizes():
    traced = trace("test", lambda x, y: x.sum() + y.sum(), [X, X], ["n, _", None], ["n <= 7"])
    assert str(traced.specs[0].shape) == "(n, 3)" and traced.specs[1].shape == (2, 3)
    assert traced.specs[0].shape[0] <= 7


@pytest.mark.parametrize(
    "dynamic, message",
    [
        ("n", "dynamic does not fit x; expected sizes for shape .2, 3., such as 'batch, _', got 'n'"),
        (["n, _"], "dynamic has the wrong length; expected a string, or one per argument .2., got 1"),
        ("n, 4", "dynamic does not fit x"),
    ],
)
def test_wrong_symbolic_sizes(dynamic, message):
    with pytest.raises(ValueError, match=message):
        trace("test", lambda x, y: x + y, [X, X], dynamic)


def test_what_is_no_array():
    with pytest.raises(TypeError, match="test: argument 1 is not an array; expected a NumPy or JAX array, got list"):
        trace("test", lambda x, y: x, [X, [1.0]])
    with pytest.raises(ValueError, match="there is no example array"):
        trace("test", lambda: 1, [])
    with pytest.raises(ValueError, match="argument 0 is a random key"):
        trace("test", lambda key: jax.random.normal(key), [jax.random.key(0)])


class Noisy(nn.Module):
    def __init__(self):
        super().__init__()
        self.drop = nn.Dropout(0.5)

    def forward(self, x):
        return self.drop(x)


def test_randomness_is_refused_with_its_layer():
    net = nn.Sequential(nn.Linear(3, 3), Noisy())
    params, state = net.init(jax.random.key(0))
    run = lambda x: net.apply(params, state, x, training=True, rng=jax.random.key(1))[0]
    with pytest.raises(ValueError, match=r"test: 1\.drop draws random numbers; expected a function without randomness"):
        trace("test", run, [X])
    with pytest.raises(ValueError, match="random"):  # also inside a loop
        trace("test", lambda x: jax.lax.map(lambda row: row + jax.random.normal(jax.random.key(0)), x), [X])


def test_callbacks_are_refused():
    def run(x):
        jax.debug.print("{}", x)
        return x

    with pytest.raises(ValueError, match="the function calls back into Python"):
        trace("test", run, [X])


def first_operation(function, *arrays):
    return jax.make_jaxpr(function)(*arrays).eqns[0]


def test_calls_have_a_program():
    whole = jnp.arange(4, dtype=jnp.int32)
    inner = jax.custom_vjp(jnp.sin)
    inner.defvjp(lambda x: (jnp.sin(x), x), lambda x, g: (g * jnp.cos(x),))
    calls = [jax.jit(jnp.sin), jax.checkpoint(jnp.sin), jax.nn.relu, inner, jax.lax.composite(jnp.sin, "a.sine")]
    calls += [
        lambda x: multipliers.rounding_divide(whole, whole),
        lambda x: multipliers.high_product(whole, whole, nudge=0),
    ]
    calls += [lambda x: multipliers.fixed_point_product(whole, whole, whole, roundings=1)]
    image = jnp.ones((1, 1, 3, 3), jnp.int8)
    settings = {"stride": (1, 1), "dilation": (1, 1), "groups": 1}
    calls += [lambda x: integer_products.integer_convolution(image, image, **settings)]
    for call in calls:
        assert inner_program(first_operation(call, X)).jaxpr.eqns


def test_a_reduction_is_no_call():
    for reduce in (
        lambda x: jax.lax.reduce(x, 1.0, jax.lax.add, (0,)),
        lambda x: jax.lax.reduce_window(x, 0.0, jax.lax.max, (2, 2), (1, 1), "VALID"),
        lambda x: jax.lax.scan(lambda c, row: (c, row), 0, x),
    ):
        assert inner_program(first_operation(reduce, X)) is None
