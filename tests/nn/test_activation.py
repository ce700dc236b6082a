"""Activation modules where they are more than their function: what is drawn, how slopes start, what repr says."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from funcnet import nn

KEY = jax.random.key(0)


@pytest.mark.parametrize(
    "build",
    [
        lambda n: n.Threshold(0.1, 20, True),
        lambda n: n.Hardtanh(-2, 2, True),
        lambda n: n.ReLU6(True),
        lambda n: n.Hardsigmoid(True),
        lambda n: n.Hardswish(True),
        lambda n: n.RReLU(0.1, 0.3, True),
        lambda n: n.LeakyReLU(0.2, True),
        lambda n: n.ELU(2, True),
        lambda n: n.CELU(2, True),
        lambda n: n.SELU(True),
        lambda n: n.SiLU(True),
        lambda n: n.Mish(True),
        lambda n: n.Softmin(),
    ],
)
def test_repr_is_torchs(build):
    assert repr(build(nn)) == repr(build(torch.nn))


def test_prelu_starts_where_it_is_told():
    assert nn.PReLU().init(KEY)[0]["weight"].tolist() == [0.25]
    params, _ = nn.PReLU(3, -0.5, dtype=jnp.bfloat16).init(KEY)
    assert params["weight"].tolist() == [-0.5] * 3 and params["weight"].dtype == jnp.bfloat16
    layer = nn.PReLU(2)
    nn.init.ones_(layer.weight)
    layer.reset_parameters()
    assert layer.init(KEY)[0]["weight"].tolist() == [0.25] * 2


def test_rrelu_draws_in_training_alone():
    layer = nn.RReLU(0.1, 0.4)
    x = -jnp.ones(50)
    first, _ = layer.apply({}, {}, x, training=True, rng=KEY)
    assert len(set(first.tolist())) > 40 and first.min() >= -0.4 and first.max() <= -0.1
    np.testing.assert_allclose(layer.apply({}, {}, x)[0], -0.25)
    with pytest.raises(ValueError, match=r"the root \(RReLU\): the module needs randomness"):
        layer.apply({}, {}, x, training=True)


def test_hardtanh_takes_its_old_names_and_says_so():
    with pytest.warns(FutureWarning, match=r"Hardtanh: min_value and max_value are deprecated"):
        assert repr(nn.Hardtanh(min_value=-2.0, max_value=3.0)) == "Hardtanh(min_val=-2.0, max_val=3.0)"
    assert isinstance(nn.ReLU6(), nn.Hardtanh)


REFUSALS = [
    (
        lambda: nn.Hardtanh(1.0, 1.0),
        r"Hardtanh: the bounds are out of order; expected min_val < max_val, got 1.0 and 1.0",
    ),
    (lambda: nn.Softmax2d().apply({}, {}, jnp.ones((2, 3))), r"Softmax2d: input has the wrong rank; .* got \(2, 3\)"),
]


@pytest.mark.parametrize(("call", "text"), REFUSALS, ids=[text for _, text in REFUSALS])
def test_refusals_say_why(call, text):
    with pytest.raises(ValueError, match=text):
        call()
