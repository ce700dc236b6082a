"""A description that changes after a jit: a new jit sees the change, an unchanged one compiles nothing anew."""

import copy
import functools
import gc
import inspect
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from funcnet import nn

KEY = jax.random.key(0)
X = jnp.linspace(-1.0, 1.0, 8).reshape(4, 2)


class Net(nn.Module):
    traces = 0

    def __init__(self):
        super().__init__()
        self.fc, self.act, self.gain, self.lift = nn.Linear(2, 2), nn.ReLU(), 1.0, 0.5
        self.layers = nn.Repeat(nn.Sequential(nn.Linear(2, 2), nn.Tanh()), 2, scan=True)
        self.scales = [1.0]
        self.options = {"shift": 0.0}

    def forward(self, x):
        Net.traces += 1
        return self.act(self.layers(self.fc(x))) * self.scales[0] * self.gain + self.options["shift"] + self.lift


def swap_in_a_stack(net):
    net.layers.get_submodule("*")[1] = nn.Sigmoid()


def rename(net):
    net.options, net.scales = {"shift": net.scales[0]}, [net.options["shift"]]


def exchange_names(net):
    """Two attributes exchange their names; the values and their order stay."""
    items = list(vars(net).items())
    vars(net).clear()
    vars(net).update({{"gain": "lift", "lift": "gain"}.get(name, name): value for name, value in items})


CHANGES = {
    "module": lambda net: setattr(net, "act", nn.Tanh()),
    "module in a stack": swap_in_a_stack,
    "attribute": lambda net: setattr(net, "gain", 3.0),
    "item of a list": lambda net: net.scales.__setitem__(0, 2.0),
    "item of a dict": lambda net: net.options.update(shift=2.0),
    "values in other places": rename,
    "names": exchange_names,
}


@pytest.mark.every_row
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_new_jit_sees_a_change(change):
    net = Net()
    params, state = net.init(KEY)
    old = jax.jit(net.apply)
    before = old(params, state, X)[0]
    change(net)
    expected = net.apply(params, state, X)[0]
    assert not np.allclose(before, expected)
    np.testing.assert_allclose(jax.jit(net.apply)(params, state, X)[0], expected, rtol=1e-6)
    np.testing.assert_array_equal(old(params, state, X)[0], before)  # as documented: a program stays what it is


@pytest.mark.slow
def test_a_new_jit_sees_a_new_module_where_the_old_one_lay():
    """A swapped-in module may get the very memory of the one it replaces."""
    net, kept = nn.Sequential(nn.Dropout(0.0)), []
    for rate in (0.25, 0.5, 0.75):
        net[0] = nn.Dropout(rate)
        gc.collect()
        kept.append(jax.jit(net.apply, static_argnames="training"))
        out, _ = kept[-1]({"0": {}}, {"0": {}}, jnp.ones(256), training=True, rng=KEY)
        np.testing.assert_allclose(out.max(), 1 / (1 - rate), rtol=1e-6)


def test_a_new_jit_of_init_sees_a_change():
    net = Net()
    old = jax.jit(net.init)
    assert np.asarray(old(KEY)[0]["fc"]["weight"]).any()
    nn.init.zeros_(net.fc.weight)
    assert not np.asarray(jax.jit(net.init)(KEY)[0]["fc"]["weight"]).any()
    net.fc.weight[0].fill_(2.0)
    assert jax.jit(net.init)(KEY)[0]["fc"]["weight"].tolist() == [[2, 2], [0, 0]]


def test_a_new_gradient_sees_what_is_frozen():
    net = Net()
    params, state = net.init(KEY)

    def gradient(apply):
        return jax.grad(lambda params: apply(params, state, X)[0].sum())(params)["fc"]["weight"]

    old = jax.jit(net.apply)
    assert np.asarray(gradient(old)).any()
    net.fc.requires_grad_(False)
    assert not np.asarray(gradient(jax.jit(net.apply))).any()
    net.requires_grad_(True)
    assert np.asarray(gradient(jax.jit(net.apply))).any()


def test_without_a_change_nothing_is_traced_again():
    net = Net()
    params, state = net.init(KEY)
    keep = jax.jit(net.apply)
    keep(params, state, X)
    Net.traces = 0
    for _ in range(3):
        jax.jit(net.apply)(params, state, X)
        jax.jit(net.init)(KEY)
        net.init(KEY)
        net.load_state_dict(net.state_dict(params, state))
        net.requires_grad_(True)
    assert Net.traces == 0 and net.apply == net.apply and hash(net.apply) == hash(net.apply)
    net.act = nn.Tanh()
    jax.jit(net.apply)(params, state, X)
    assert Net.traces == 1


def test_other_nets_and_other_methods_are_others():
    net, same = Net(), Net()
    assert net.apply != same.apply and net.apply != net.init and net.fc.apply != net.apply
    assert net.apply != copy.copy(net).apply


def test_apply_and_init_are_methods_as_any():
    net = Net()
    params, state = net.init(KEY)
    for name in ("apply", "init"):
        method = getattr(net, name)
        assert inspect.ismethod(method) and method.__self__ is net and method.__name__ == name
        assert method.__doc__ == getattr(nn.Module, name).__doc__ and method.__doc__
        assert (
            list(inspect.signature(method).parameters)
            == list(inspect.signature(getattr(nn.Module, name)).parameters)[1:]
        )
        assert copy.copy(method) == method and callable(copy.deepcopy(method))
    fc = nn.Linear(2, 2)
    params, state = fc.init(KEY)
    expected = fc.apply(params, state, X)[0]
    again = pickle.loads(pickle.dumps(fc.apply))
    np.testing.assert_array_equal(again(params, state, X)[0], expected)
    np.testing.assert_array_equal(nn.Module.apply(fc, params, state, X)[0], expected)
    training = functools.partial(fc.apply, training=True)
    np.testing.assert_allclose(jax.jit(training)(params, state, X)[0], expected, rtol=1e-6)
    np.testing.assert_allclose(jax.vmap(fc.apply, (None, None, 0))(params, state, X)[0], expected, rtol=1e-6)
    seen = []
    assert net.apply(seen.append) is net and seen[-1] is net and len(seen) == len(list(net.modules()))


def test_a_subclass_extends_them_as_any_method():
    class Doubled(nn.Linear):
        def apply(self, params, state=None, *inputs, **kwargs):
            out, state = super().apply(params, state, *inputs, **kwargs)
            return 2 * out, state

    net, plain = Doubled(2, 2), nn.Linear(2, 2)
    params, state = net.init(KEY)
    np.testing.assert_array_equal(jax.jit(net.apply)(params, state, X)[0], 2 * plain.apply(params, state, X)[0])


def test_inside_forward_a_childs_apply_may_be_transformed():
    class Scans(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(2, 2)

        def forward(self, x):
            params, state = self.subtree("fc")
            checkpointed = jax.checkpoint(self.fc.apply)(params, state, x)[0]
            return checkpointed + jax.jit(self.fc.apply)(params, state, x)[0]

    net = Scans()
    params, state = net.init(KEY)
    expected = 2 * net.fc.apply(params["fc"], state["fc"], X)[0]
    np.testing.assert_allclose(jax.jit(net.apply)(params, state, X)[0], expected, rtol=1e-6)
