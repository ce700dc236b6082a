"""Programs inside the equations of a traced program, and the layers of its equations."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.core import jaxpr_as_fun

from funcnet import nn
from funcnet.operators.jaxprs import called_program, layer_of, subprograms

X = jnp.linspace(0.1, 1, 6).reshape(2, 3)


def first_equation(function):
    return jax.make_jaxpr(function)(X).eqns[0]


def own_derivative():
    sine = jax.custom_vjp(jnp.sin)
    sine.defvjp(lambda x: (jnp.sin(x), x), lambda x, g: (g * jnp.cos(x),))
    return sine


@pytest.mark.parametrize(
    "call",
    [jax.jit(jnp.sin), jax.checkpoint(jnp.sin), jax.nn.relu, own_derivative(), jax.lax.composite(jnp.sin, "a.b")],
)
def test_a_call_has_a_program_with_its_values(call):
    program = called_program(first_equation(call))
    np.testing.assert_array_equal(jaxpr_as_fun(program)(X)[0], call(X))


def per_shard(x):
    mesh = jax.make_mesh((jax.device_count(),), ("d",), axis_types=(jax.sharding.AxisType.Auto,))
    return jax.shard_map(lambda one: one + 1, mesh=mesh, in_specs=jax.P(), out_specs=jax.P())(x)


@pytest.mark.parametrize(
    ("other", "count"),
    [
        (lambda x: jax.lax.reduce(x, 1.0, lambda a, b: a * b + 0 * a, (0,)), 1),
        (lambda x: jax.lax.scan(lambda c, row: (c + row, row), jnp.zeros(3), x), 1),
        (lambda x: jax.lax.while_loop(lambda y: y.sum() < 9, lambda y: y + 1, x), 2),
        (per_shard, 1),
    ],
)
def test_other_equations_contain_programs_but_are_not_calls(other, count):
    equation = next(one for one in jax.make_jaxpr(other)(X).eqns if list(subprograms(one)))
    assert called_program(equation) is None
    assert len(list(subprograms(equation))) == count


class Scores(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 3)

    def forward(self, x):
        return jnp.einsum("bd,cd->bc", self.fc(x), x)


def layers(jaxpr, outer=""):
    for equation in jaxpr.eqns:
        layer = ".".join(filter(None, (outer, layer_of(equation))))
        yield layer
        for inner in subprograms(equation):
            yield from layers(inner, layer)


def test_an_einsum_is_no_layer():
    net = nn.Sequential(Scores())
    params, state = net.init(jax.random.key(0))
    found = set(layers(jax.make_jaxpr(lambda x: net.apply(params, state, x)[0])(X).jaxpr))
    assert {"0", "0.fc"} <= found <= {"", "0", "0.fc"}
