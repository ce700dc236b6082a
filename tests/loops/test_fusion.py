"""What gets an array: counted in the traced function, and seen in the C text."""

import jax
import jax.numpy as jnp
import numpy as np

from funcnet.export.wasm.rules import RULES
from funcnet.export.wasm.trace import trace
from funcnet.loops.constant_storage import Weights
from funcnet.loops.fusion import stored
from funcnet.loops.lowering import lowered
from funcnet.loops.program import Kernels

X = np.ones((8, 16), np.float32)


def names(function) -> list[str]:
    """The operations whose results get an array."""
    block = trace(function, [X], RULES)
    chosen = stored(block)
    return [o.name for o in block.operations if any(id(r) in chosen for r in o.results)]


def calls(function) -> int:
    """How many kernels run."""
    program = lowered(trace(function, [X], RULES), Weights(), Kernels())
    return len(program.steps)


def kernels(*numbers: float) -> str:
    """The C text of the kernels of layers with these numbers."""

    def layers(x):
        for number in numbers:
            x = jax.nn.softmax(x * number + 0.75)
        return x

    found = Kernels()
    lowered(trace(layers, [X], RULES), Weights(), found)
    return found.source()


def test_a_chain_is_one_nest():
    assert names(lambda x: jnp.tanh(x * 2 + 1).T[::2] - 3) == ["sub"]
    assert calls(lambda x: jax.nn.gelu(x.reshape(4, 32)).T) == 1


def test_what_is_used_twice_in_one_nest_is_not_stored():
    assert names(lambda x: x * jnp.exp(x) + jnp.exp(x)) == ["add"]


def test_dear_values_with_two_readers_are_stored():
    assert names(lambda x: (jnp.exp(x).sum(1), jnp.exp(x) * 2)) in (["reduce", "mul"], ["exp", "reduce", "mul"])
    once = lambda x: (lambda e: (e.sum(1), e.max(0)))(jnp.exp(x))
    assert names(once) == ["exp", "reduce", "reduce"]


def test_cheap_values_with_two_readers_are_not():
    assert names(lambda x: (lambda e: (e.sum(1), e.max(0)))(x - 1)) == ["reduce", "reduce"]


def test_dear_values_that_spread_are_stored():
    assert len(names(lambda x: jnp.exp(x[0]) * x)) == 2
    assert names(lambda x: x[0] * x) == ["mul"]


def test_softmax_has_four_nests():
    assert calls(lambda x: jax.nn.softmax(x, -1)) == 4  # the maximum, the exponentials, their sum, the quotients


def test_only_numbers_that_differ_are_parameters():
    equal, other = kernels(2.5, 2.5, 2.5), kernels(2.5, -3.0, 1.5)
    assert other.count("noinline") == equal.count("noinline")
    assert "2.5f" in equal and "-3.0f" not in other and "1.5f" not in other
    assert "0.75f" in equal and "0.75f" in other
