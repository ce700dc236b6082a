"""Hooks that a constructor registers on a module: order, arguments and results are those of torch's own class."""

import copy
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from funcnet import nn

KEY = jax.random.key(0)
X = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)


def double(module, args):
    return args[0] * 2


def shift(module, args, output):
    return output + module.weight.sum()


def ordered(lib, log):
    """Every kind of forward hook on one layer, in an order that prepend changes."""

    class Net(lib.Module):
        def __init__(self):
            super().__init__()
            self.fc = lib.Linear(4, 4)
            self.fc.register_forward_hook(shift)
            self.fc.register_forward_hook(lambda m, args, out: log.append("second") or out * 3)
            self.fc.register_forward_hook(lambda m, args, out: log.append("first"), prepend=True)
            self.fc.register_forward_pre_hook(double)
            self.fc.register_forward_pre_hook(lambda m, args: log.append("pre") or (args[0] + 1,), prepend=True)
            self.register_forward_pre_hook(self.rename, with_kwargs=True)
            self.register_forward_hook(
                lambda m, args, kwargs, out: log.append(sorted(kwargs)) or out - kwargs["shift"], with_kwargs=True
            )
            handle = self.fc.register_forward_hook(lambda m, args, out: log.append("never"))
            handle.remove()

        def rename(self, module, args, kwargs):
            log.append(module is self)
            return args, {"shift": kwargs["shift"] * 2}

        def forward(self, x, shift):
            return self.fc(x) + shift

    return Net()


def features(lib, log):
    """The usual extraction of features: a method, a closure and a bound list of the parent."""

    class Net(lib.Module):
        def __init__(self):
            super().__init__()
            self.body = lib.Sequential(lib.Linear(4, 4), lib.Tanh(), lib.Linear(4, 4))
            self.features, self.named = [], {}
            self.body[0].register_forward_hook(self.save)
            self.body[1].register_forward_hook(lambda module, args, output: self.features.append(output))
            for name, layer in self.body.named_children():
                layer.register_forward_hook(self.named_hook(name))

        def save(self, module, args, output):
            self.features.append(output)

        def named_hook(self, name):
            def hook(module, args, output):
                self.named[name] = output

            return hook

        def forward(self, x):
            self.features.clear()
            self.named.clear()
            y = self.body(x)
            total = sum(self.features) + y * sum(self.named.values())
            self.features.clear()
            self.named.clear()
            return total

    return Net()


def backward(lib, log):
    class Net(lib.Module):
        def __init__(self):
            super().__init__()
            self.fc = lib.Linear(4, 4)
            self.fc.register_full_backward_hook(lambda m, grad_input, grad_output: (grad_input[0] * 2,))
            self.fc.register_full_backward_pre_hook(lambda m, grad_output: (grad_output[0] + 1,))

        def forward(self, x):
            return self.fc(x) ** 2

    return Net()


@pytest.mark.parametrize("make", [ordered, features, backward])
def test_the_hooks_of_constructors_are_torchs(make):
    ours, reference = [], []
    theirs, net = make(torch.nn, reference), make(nn, ours)
    kwargs = {"shift": 3.0} if make is ordered else {}
    x = torch.tensor(X, requires_grad=True)
    y = theirs(x, **kwargs)
    y.sum().backward()
    params, state = net.load_state_dict(theirs.state_dict())
    for one in (net, copy.deepcopy(net)) if make is not features else (net,):
        for apply in (one.apply, jax.jit(one.apply)):
            ours.clear()
            np.testing.assert_allclose(apply(params, state, X, **kwargs)[0], y.detach().numpy(), rtol=2e-5, atol=1e-6)
            assert ours == reference
    loss = lambda params, x: net.apply(params, state, x, **kwargs)[0].sum()
    weights, inputs = jax.jit(jax.grad(loss, (0, 1)))(params, jnp.asarray(X))
    np.testing.assert_allclose(inputs, x.grad.numpy(), rtol=1e-4, atol=1e-5)
    gradients = dict(net.named_parameters(weights))
    for name, parameter in theirs.named_parameters():
        np.testing.assert_allclose(gradients[name], parameter.grad.numpy(), rtol=1e-4, atol=1e-4, err_msg=name)


def test_hooks_of_a_call_run_around_those_of_the_module():
    """torch: global hooks, then the module's own in the order of registration."""
    log = {"ours": [], "torch": []}

    def note(where, text):
        return lambda *_: log[where].append(text)

    reference, net, hooks = torch.nn.Linear(4, 4), nn.Linear(4, 4), nn.Hooks()
    for where, one in (("torch", reference), ("ours", net)):
        one.register_forward_pre_hook(note(where, "own pre"))
        one.register_forward_hook(note(where, "own"))
    for kind in ("forward_pre", "forward"):
        getattr(hooks, f"register_{kind}_hook")("", note("ours", f"late {kind}"))
        getattr(reference, f"register_{kind}_hook")(note("torch", f"late {kind}"))
        getattr(hooks, f"register_module_{kind}_hook")(note("ours", f"global {kind}"))
    handles = [
        getattr(torch.nn.modules.module, f"register_module_{kind}_hook")(note("torch", f"global {kind}"))
        for kind in ("forward_pre", "forward")
    ]
    reference(torch.tensor(X))
    for handle in handles:
        handle.remove()
    net.apply(*net.init(KEY), X, hooks=hooks)
    assert log["ours"] == log["torch"]


def test_always_call_runs_after_an_error():
    class Fails(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_forward_hook(lambda *_: seen.append("always"), always_call=True)
            self.register_forward_hook(lambda *_: seen.append("not"))

        def forward(self):
            raise RuntimeError("broken")

    seen = []
    with pytest.raises(RuntimeError, match="broken"):
        Fails().apply({}, {})
    assert seen == ["always"]


def test_hooks_run_in_stacks_captures_summaries_and_lazy_shapes():
    layer = nn.Linear(4, 4)
    layer.register_forward_hook(shift)
    net = nn.Repeat(layer, 2, scan=True)
    params, state = net.init(KEY)
    scanned, _ = net.apply(params, state, X)
    w, b = np.asarray(params["*"]["weight"]), np.asarray(params["*"]["bias"])
    expected = X
    for i in range(2):
        expected = expected @ w[i].T + b[i] + w[i].sum()
    np.testing.assert_allclose(scanned, expected, rtol=1e-4)

    wide = nn.Sequential(nn.Linear(4, 4), nn.LazyLinear(2))
    wide[0].register_forward_hook(lambda m, args, out: jnp.concatenate([out, out], -1))
    params, state = wide.init(KEY, X)
    assert params["1"]["weight"].shape == (2, 8)
    _, _, seen = nn.capture(wide, "0")(params, state, X)
    assert seen["0"].shape == (3, 8)
    assert wide.summary(X).rows[0].output == "f32[3,2]"
    assert jax.jit(wide.apply)(params, state, X)[0].shape == (3, 2)


def test_a_changed_set_is_traced_again_and_reported():
    net = nn.Linear(4, 4)
    params, state = net.init(KEY)
    plain = jax.jit(net.apply)(params, state, X)[0]
    with pytest.warns(UserWarning, match=r"after jax.jit had traced the module.*Call jax.jit again"):
        handle = net.register_forward_hook(lambda m, args, out: out * 2)
    np.testing.assert_allclose(jax.jit(net.apply)(params, state, X)[0], 2 * plain, rtol=1e-6)
    with pytest.warns(UserWarning, match=r"Call jax.jit again"):
        handle.remove()
    np.testing.assert_allclose(jax.jit(net.apply)(params, state, X)[0], plain, rtol=1e-6)
    handle.remove()


def test_hooks_are_pickled_and_forward_mode_remains():
    net = nn.Linear(4, 4)
    net.register_forward_pre_hook(double)
    params, state = net.init(KEY)
    again = pickle.loads(pickle.dumps(net))
    np.testing.assert_array_equal(again.apply(params, state, X)[0], net.apply(params, state, X)[0])
    jax.jvp(lambda x: net.apply(params, state, x)[0], (jnp.asarray(X),), (jnp.asarray(X),))


@pytest.mark.parametrize("wrap", [nn.remat, lambda layer: nn.Repeat(layer, 2, scan=True)])
def test_a_hook_cannot_reach_out_of_a_transformation(wrap):
    class Net(nn.Module):
        def __init__(self, hook):
            super().__init__()
            self.seen = []
            layer = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
            layer[0].register_forward_hook(hook or (lambda m, args, out: self.seen.append(out)))
            self.layer = wrap(layer)

        def forward(self, x):
            return self.layer(x)

    net = Net(None)
    with pytest.raises(TypeError, match=r"0 \(Linear\): a hook of the module refers to a Net outside of this run"):
        net.apply(*net.init(KEY), X)
    assert net.seen == []
    with pytest.raises(TypeError, match=r"the root \(Linear\): a hook of the module refers to a Net outside"):
        next(one for one in net.modules() if isinstance(one, nn.Linear)).apply(*nn.Linear(4, 4).init(KEY), X)
    net = Net(shift)
    net.apply(*net.init(KEY), X)


def test_what_is_refused():
    with pytest.raises(TypeError, match="hook is not callable; expected a function, got str"):
        nn.Linear(2, 2).register_forward_hook("print")

    class Registers(nn.Module):
        def forward(self, x):
            self.register_forward_hook(print)
            return x

    with pytest.raises(TypeError, match=r"Registers\.register_forward_hook: forward cannot register a hook"):
        Registers().apply({}, {}, X)
    net = nn.Linear(4, 4)
    net.register_forward_pre_hook(lambda m, args, kwargs: 3, with_kwargs=True)
    with pytest.raises(TypeError, match=r"forward pre hook .* on 'Linear' returned the wrong type"):
        net.apply(*net.init(KEY), X)
