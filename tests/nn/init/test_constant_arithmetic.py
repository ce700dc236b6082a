"""Buffers that constructors compute with."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from funcnet import nn

ARRAY = jnp.asarray([[1.0, 2.0], [3.0, 4.0]])


@pytest.mark.parametrize(
    "compute",
    [
        lambda a, b: a + b, lambda a, b: 1 - a, lambda a, b: a @ b, lambda a, b: -a, lambda a, b: a >= b,
        lambda a, b: a > 2, lambda a, b: a**2 % 3, lambda a, b: ARRAY / a, lambda a, b: ARRAY[0] @ a,
        lambda a, b: (a > 1) & (b < 3), lambda a, b: a < ARRAY,
    ],
)  # fmt: skip
def test_operations_are_those_of_the_array(compute):
    found = compute(nn.Buffer(ARRAY), nn.Buffer(ARRAY + 1))
    np.testing.assert_array_equal(found, compute(ARRAY, ARRAY + 1))


def test_value_is_a_copy_in_the_dtype_of_the_buffer():
    buffer = nn.Buffer(np.ones(2), dtype=jnp.int32)
    assert buffer.value.dtype == jnp.int32 and buffer.value.tolist() == [1, 1]
    buffer += 1  # changes the initial value
    with pytest.raises(TypeError, match="has no values; expected an array, or in a constructor a buffer"):
        buffer + 1


def test_a_buffer_that_starts_as_a_constant():
    norm = nn.BatchNorm1d(2)
    assert (norm.running_mean + 1).tolist() == [1, 1] and (norm.running_var.value * 3).tolist() == [3, 3]
    assert nn.Buffer((), nn.init.constant(7), dtype=jnp.int32).value == 7


@pytest.mark.parametrize("buffer", [nn.Buffer((2,), nn.init.uniform()), nn.Buffer((2,), nn.init.normal())])
def test_a_buffer_that_is_drawn(buffer):
    for attempt in (lambda: buffer * 2, lambda: jnp.ones(2) * buffer, lambda: buffer.value):
        with pytest.raises(TypeError, match="is a description and has no values"):
            attempt()


def test_no_values_after_init():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("a", jnp.ones(2))
            self.double = self.a * 2

        def forward(self, x):
            return x * self.a * self.double

    net = Net()
    params, state = net.init(jax.random.key(0))
    np.testing.assert_array_equal(net.apply(params, state, jnp.ones(2))[0], [2.0, 2.0])
    with pytest.raises(TypeError, match="The arrays are in the params and state"):
        net.a * 2
