"""Activations and softmax against torch: values, gradients at kinks, second derivatives, forward mode."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
import torch.nn.functional as T
from jax.test_util import check_grads

from funcnet import functional as F

from .oracle import agrees, normal

EDGES = np.array([-20.0, -7.0, -1.0, -0.5, -0.0, 0.0, 1e-4, 0.7, 3.0, 6.0, 7.0, 20.0])
FUNCTIONS = {
    "relu": (F.relu, T.relu),
    "relu6": (F.relu6, T.relu6),
    "gelu": (F.gelu, T.gelu),
    "gelu_tanh": (lambda x: F.gelu(x, "tanh"), lambda x: T.gelu(x, approximate="tanh")),
    "silu": (F.silu, T.silu),
    "tanh": (F.tanh, torch.tanh),
    "sigmoid": (F.sigmoid, torch.sigmoid),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_value_and_gradient_at_the_edges_too(name):
    ours, theirs = FUNCTIONS[name]
    agrees(ours, theirs, EDGES)
    agrees(ours, theirs, np.zeros((2, 0)))


@pytest.mark.parametrize("name", ["gelu", "gelu_tanh", "silu", "tanh", "sigmoid"])
def test_second_derivatives_and_forward_mode(name):
    with jax.enable_x64(True):
        check_grads(FUNCTIONS[name][0], (jnp.asarray(normal(5)),), order=2, modes=("fwd", "rev"))


def test_relu_keeps_integers_and_nan():
    assert F.relu(jnp.array([-1, 2])).tolist() == [0, 2]
    assert np.isnan(F.relu(jnp.array(jnp.nan))) and np.isnan(F.relu6(jnp.array(jnp.nan)))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_bfloat16_is_rounded_once(name):
    ours, theirs = FUNCTIONS[name]
    x = normal(100)
    got = ours(jnp.asarray(x, jnp.bfloat16))
    want = theirs(torch.tensor(np.asarray(jnp.asarray(x, jnp.bfloat16), np.float32)))
    assert got.dtype == jnp.bfloat16
    np.testing.assert_allclose(np.asarray(got, np.float32), want.numpy(), rtol=2**-8, atol=1e-30)


@pytest.mark.parametrize(("ours", "theirs"), [(F.softmax, T.softmax), (F.log_softmax, T.log_softmax)])
@pytest.mark.parametrize(
    ("shape", "dim"), [((), 0), ((4,), -1), ((2, 3), 0), ((2, 3, 4), 1), ((0, 3), -1), ((2, 0), 1)]
)
def test_softmax(ours, theirs, shape, dim):
    agrees(lambda x: ours(x, dim), lambda x: theirs(x, dim), 3 * normal(*shape))


@pytest.mark.filterwarnings("ignore:Implicit dimension")
@pytest.mark.parametrize("shape", [(3,), (3, 4), (2, 3, 4), (2, 3, 4, 5)])
def test_softmax_without_a_dimension_follows_the_old_rule(shape):
    agrees(F.softmax, T.softmax, normal(*shape))


def test_softmax_of_large_numbers_and_of_nothing():
    agrees(lambda x: F.log_softmax(x, 0), lambda x: T.log_softmax(x, 0), np.array([1e4, 1e4 + 1, -np.inf]))
    assert np.isnan(F.softmax(jnp.full(3, -jnp.inf), 0)).all()


def test_softmax_in_bfloat16_sums_in_float32():
    out = F.softmax(jnp.zeros(3000, jnp.bfloat16), 0)
    assert out.dtype == jnp.bfloat16 and abs(float(out[0]) * 3000 - 1) < 2**-8
    assert F.softmax(jnp.zeros(3, jnp.bfloat16), 0, dtype=jnp.float32).dtype == jnp.float32


def test_refusals():
    with pytest.raises(ValueError, match=r"F.gelu: approximate is unknown; expected 'none' or 'tanh', got 'erf'"):
        F.gelu(jnp.ones(2), "erf")
    with pytest.raises(ValueError, match=r"F.softmax: there is no such dimension; expected -1 to 0, got 1"):
        F.softmax(jnp.ones(2), 1)
    for function in (F.gelu, F.relu6, F.silu, F.tanh, F.sigmoid, F.softmax, F.log_softmax):
        with pytest.raises(TypeError, match=r"input must hold floating-point numbers"):
            function(jnp.ones(2, int))
