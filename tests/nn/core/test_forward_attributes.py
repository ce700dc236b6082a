"""Attributes that forward sets: they last for one call, and a read in a later call is an error."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from funcnet import nn

KEY = jax.random.key(0)
X = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)


@pytest.fixture(autouse=True)
def strict():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def model(lib):
    """Values that go from module to module within one call; the same class for both libraries."""

    class Attention(lib.Module):
        def __init__(self):
            super().__init__()
            self.fc = lib.Linear(4, 4)
            self.size = None

        def forward(self, x):
            self.seen = self.fc(x)
            return self.seen * self.gain

    class Net(lib.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = Attention(), Attention()
            self.n = 0

        @property
        def scale(self):
            return self.kept

        @scale.setter
        def scale(self, value):
            self.kept = value * 2

        def forward(self, x):
            self.x, self.current = x, self.first
            self.first.gain = self.x.sum()
            y = self.current(x)
            self.second.gain = self.first.seen
            self.n += 1
            y = y + self.n * self.second(y)
            self.n, self.current = 0, self.second
            self.scale = y
            y = self.current.seen + self.scale
            del self.x
            assert not hasattr(self, "x")
            return y

    return Net()


def test_values_within_a_call_are_torchs():
    theirs, net = model(torch.nn), model(nn)
    params, state = net.load_state_dict(theirs.state_dict())
    x = torch.tensor(X, requires_grad=True)
    y = theirs(x)
    y.sum().backward()
    for apply in (net.apply, jax.jit(net.apply)):
        np.testing.assert_allclose(apply(params, state, X)[0], y.detach().numpy(), rtol=2e-5)
    gradient = jax.grad(lambda x: net.apply(params, state, x)[0].sum())(jnp.asarray(X))
    np.testing.assert_allclose(gradient, x.grad.numpy(), rtol=2e-4, atol=1e-5)
    assert not hasattr(net, "x") and not hasattr(net.first, "seen") and net.n == 0


class Reads(nn.Module):
    """Reads what an earlier call has set."""

    def forward(self, x, first):
        if first:
            self.hidden = x
        return self.hidden


def test_a_value_of_an_earlier_call_is_an_error_that_names_a_buffer():
    net = Reads()
    net.apply({}, {}, X, True)
    with pytest.raises(AttributeError, match=r"no attribute 'hidden'.*self\.register_buffer\('hidden', nn\.Buffer"):
        net.apply({}, {}, X, False)
    with pytest.raises(AttributeError, match=r"no attribute 'hidden'.*self\.register_buffer\('hidden', nn\.Buffer"):
        jax.jit(lambda x: net.apply({}, {}, x, False))(X)


class Initialised(nn.Module):
    default = None

    def __init__(self):
        super().__init__()
        self.cache = None
        self.sizes = (1, 2)
        self.register_buffer("mask", None, persistent=False)

    def forward(self, x, act):
        return act(self, x)


@pytest.mark.parametrize(
    ("name", "act"),
    [
        ("cache", lambda m, x: setattr(m, "cache", x)),
        ("sizes", lambda m, x: setattr(m, "sizes", (1, 3))),
        ("default", lambda m, x: setattr(m, "default", x)),
        ("mask", lambda m, x: setattr(m, "mask", x)),
        ("mask", lambda m, x: m.register_buffer("mask", x, persistent=False)),
        ("late", lambda m, x: hasattr(m, "late") or setattr(m, "late", x)),
        ("late", lambda m, x: getattr(m, "late", None) is None and m.register_buffer("late", x)),
    ],
)
def test_a_value_that_a_later_call_would_miss_is_reported(name, act):
    net = Initialised()
    for apply in (net.apply, lambda p, s, x, act: jax.jit(lambda x: net.apply(p, s, x, act))(x)):
        with pytest.warns(UserWarning, match=rf"the root \(Initialised\): forward .*'{name}'.*self\.register_buffer"):
            apply({}, {}, X, lambda m, x: (act(m, x), getattr(m, name))[1])
    assert net.cache is None and net.mask is None and not hasattr(net, "late")


def test_values_that_are_restored_or_equal_are_not():
    def act(module, x):
        module.cache = x
        module.sizes = (1, 2)
        module.new, module.mask = x, None
        y = module.cache + module.new
        module.cache = None
        return y

    net = Initialised()
    np.testing.assert_array_equal(net.apply({}, {}, X, act)[0], 2 * X)


@pytest.mark.parametrize(
    ("act", "text"),
    [
        (lambda m: setattr(m, "fc", jnp.ones(2)), r"forward assigned to 'fc', which is a part"),
        (lambda m: setattr(m, "bias", jnp.ones(2)), r"forward assigned to 'bias', which is a part"),
        (lambda m: setattr(m, "new", nn.Parameter((2,))), r"forward created the parameter 'new'.*in __init__"),
        (lambda m: setattr(m, "new", nn.Linear(2, 2)), r"forward created the module 'new'.*in __init__"),
        (lambda m: delattr(m, "fc"), r"forward deleted 'fc'"),
        (lambda m: delattr(m, "plain"), r"forward deleted 'plain'"),
    ],
)
def test_parts_are_no_scratch(act, text):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(2, 2)
            self.plain = 1
            self.register_parameter("bias", None)

        def forward(self):
            act(self)

    net = Net()
    with pytest.raises(ValueError, match=text):
        net.apply(*net.init(KEY))


def test_what_train_sets_lasts_for_the_call():
    """torch: an override of train() sets an attribute that forward reads."""

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.fast = False

        def train(self, mode=True):
            super().train(mode)
            self.fast = not mode
            return self

        def forward(self, x):
            return x * 2 if self.fast else x

    np.testing.assert_array_equal(Net().apply({}, {}, X)[0], 2 * X)
    np.testing.assert_array_equal(Net().apply({}, {}, X, training=True)[0], X)
