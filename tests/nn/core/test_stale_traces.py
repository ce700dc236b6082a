"""Changes of a description that come too late: after its values were made, or after jax.jit traced it."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from funcnet import nn

KEY = jax.random.key(0)
X = jnp.ones((2, 3))


def make():
    return nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.BatchNorm1d(3))


@pytest.fixture
def strict():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def test_an_init_that_comes_too_late_is_reported_and_reinit_does_it():
    net = make()
    nn.init.ones_(net[0].weight)  # before: no word
    params, _ = net.init(KEY)
    with pytest.warns(
        UserWarning,
        match=r"its init was changed after it had been used to create values.*params = net.reinit\(key, params",
    ):
        nn.init.zeros_(net[0].weight)
    fresh = net.reinit(jax.random.key(1), params, "0")
    assert not fresh["0"]["weight"].any() and params["0"]["weight"].all()
    assert not np.array_equal(fresh["0"]["bias"], params["0"]["bias"])
    np.testing.assert_array_equal(fresh["0"]["bias"], net.init(jax.random.key(1))[0]["0"]["bias"])
    np.testing.assert_array_equal(fresh["2"]["weight"], params["2"]["weight"])
    with pytest.raises(ValueError, match="reinit"):
        net.reinit(KEY, params, "head")


def test_reinit_of_buffers():
    net = make()
    params, state = net.init(KEY)
    _, state = net.apply(params, state, X, training=True)
    assert net.reinit(KEY, state, "2")["2"]["num_batches_tracked"] == 0


def test_reinit_after_load_state_dict():
    net = make()
    params, state = net.load_state_dict(net.state_dict(*net.init(KEY)))
    with pytest.warns(UserWarning, match="had been used to create values"):
        nn.init.constant_(net[0].bias, 2.0)
    assert net.reinit(KEY, params, "0.bias")["0"]["bias"].tolist() == [2.0] * 3
    del state


CHANGES = {
    "an item": lambda net: net.__setitem__(1, nn.Tanh()),
    "an attribute": lambda net: setattr(net, "flag", False),
    "what is frozen": lambda net: net[0].requires_grad_(False),
    "a setting of a layer": lambda net: setattr(net[2], "eps", 1.0),
    "a new module": lambda net: net.append(nn.Tanh()),
    "a module less": lambda net: net.__delitem__(2),
    "a buffer": lambda net: net.register_buffer("b", jnp.ones(2)),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_after_jit_is_reported(name):
    net = make()
    net.flag = True
    held = jax.jit(net.apply)
    held(*net.init(KEY), X)
    with pytest.warns(UserWarning, match=r"was changed after jax.jit had traced the module.*Call jax.jit again"):
        CHANGES[name](net)


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_without_jit_is_not(strict, name):
    """Eager calls and eager gradients follow every change."""
    net = make()
    net.flag = True
    params, state = net.init(KEY)
    net.apply(params, state, X)
    jax.grad(lambda p: net.apply(p, state, X)[0].sum())(params)
    net.summary(X)
    CHANGES[name](net)


def test_looking_and_jitting_again_are_no_change(strict):
    net = make()
    params, state = net.init(KEY)
    for _ in range(2):
        jax.jit(net.apply)(params, state, X)
        net.init(KEY)
        repr(net)
        net[1] = net[1]


def test_a_state_dict_that_matches_nothing_is_reported():
    net = make()
    into = net.init(KEY)
    sd = {f"model.{name}": array for name, array in net.state_dict(*into).items()}
    with pytest.warns(
        UserWarning, match=r"sd has none of the names of this net.*such as '0.weight', got 'model.0.weight'"
    ):
        net.load_state_dict(sd, strict=False, into=into)
