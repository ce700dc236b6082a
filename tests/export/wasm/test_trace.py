"""Tracing: calls are written out, constants are computed, what nothing reads is left out, layers keep their names."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.ad_checkpoint import checkpoint_name

from funcnet import nn
from funcnet.export.wasm.rules import RULES
from funcnet.export.wasm.trace import trace

X = np.ones((3, 4), np.float32)


def names(function, *arrays) -> list[str]:
    return [operation.name for operation in trace(function, arrays or [X], RULES).operations]


def test_calls_are_written_out():
    assert names(jax.jit(jax.checkpoint(lambda x: jax.nn.relu(jax.jit(jnp.sin)(x))))) == ["sin", "max"]


def test_identities_leave_nothing():
    same = lambda x: lax.optimization_barrier(
        jax.device_put(checkpoint_name(lax.stop_gradient(jnp.copy(x.astype(jnp.float32))), "a")).reshape(3, 4)
    )
    assert names(same) == []


def test_what_nothing_reads_is_left_out():
    def body(carry, row):
        unused = jnp.exp(row) @ jnp.ones((4, 4))
        return carry + row, unused

    block = trace(lambda x: lax.scan(lambda c, r: (body(c, r)[0], None), x[0], x)[0], [X], RULES)
    (scan,) = [o for o in block.operations if o.name == "scan"]
    assert [o.name for o in scan.blocks[0].operations] == ["add"]


def test_constants_are_computed():
    weight = jnp.arange(4.0)
    assert names(lambda x: x + jnp.sqrt(weight * 2) / jnp.exp(weight).sum()) == ["broadcast", "add"]


def test_constants_do_not_grow():
    """A causal mask of a million entries is computed by the module, not stored in it."""
    x = np.ones((1024, 1024), np.float32)
    block = trace(lambda x: jnp.where(jnp.tril(jnp.ones((1024, 1024), bool)), x, 0), [x], RULES)
    constants = [v for o in block.operations for v in o.operands if v.constant is not None]
    assert sum(v.nbytes for v in constants) < 10_000


def test_operations_know_their_layer():
    net = nn.Sequential(nn.Linear(4, 4), nn.Sequential(nn.Tanh()))
    params, state = net.init(jax.random.key(0))
    operations = trace(lambda x: net.apply(params, state, x)[0], [X], RULES).operations
    assert {o.name: o.layer for o in operations}.items() >= {"dot": "0", "tanh": "1.0"}.items()


def test_layers_inside_loops_have_their_names():
    def step(carry, row):
        with jax.named_scope("cell"):
            return jnp.linalg.slogdet(jnp.outer(carry, row))[1] * carry, None

    with pytest.raises(ValueError, match=r"to_wasm: the primitive 'lu' in layer '.*cell' is not supported"):
        trace(lambda x: lax.scan(step, x[0], x)[0], [X], RULES)


@pytest.mark.parametrize(
    "run, name",
    [
        (lambda x: lax.reduce(x, 1.0, lax.add, (0,)), "reduce"),
        (lambda x: lax.reduce_window(x, 0.0, lax.max, (2, 2), (1, 1), "VALID"), "reduce_window"),
        (lambda x: lax.reduce((x, x), (0.0, 1.0), lambda a, b: (a[0] + b[0], a[1] * b[1]), (0,))[0], "reduce"),
    ],
)
def test_reductions_by_a_function_are_refused(run, name):
    """Their program is that of two entries, and no call."""
    with pytest.raises(ValueError, match=rf"to_wasm: the primitive '{name}' in layer 'pool' is not supported"):
        trace(jax.named_scope("pool")(run), [X], RULES)


def test_reduced_precision_is_refused():
    with pytest.raises(ValueError, match=r"reduce_precision in layer '' rounds numbers; .* got 8 and 7"):
        trace(lambda x: lax.reduce_precision(x, 8, 7), [X], RULES)
    assert names(lambda x: lax.reduce_precision(x, 8, 23)) == []
