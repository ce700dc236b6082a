"""Hooks against torch's: one nested model, one pass forward and back, the logs of both compared entry by entry."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from funcnet import functional as F
from funcnet import nn

KEY = jax.random.key(0)
X = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)


def make(library, functional):
    class Pair(library.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = library.Linear(3, 3), library.Linear(3, 3)

        def forward(self, x, y, scale=1.0):
            return functional.gelu(self.a(x)) * scale, self.b(y)

    class Net(library.Module):
        def __init__(self):
            super().__init__()
            self.first = library.Linear(3, 3)
            self.pair = Pair()
            self.shared = library.Sequential(library.Linear(3, 3), library.Tanh())

        def forward(self, x):
            x = self.first(x)
            u, v = self.pair(x, self.shared(x), scale=2.0)
            return self.shared(u + v).sum()

    return Net()


NAMES = ["", "first", "pair", "pair.a", "pair.b", "shared", "shared.0", "shared.1"]


def as_numpy(value):
    """A log entry: arrays of either library as numpy, tuples as lists."""
    if isinstance(value, tuple):
        return [as_numpy(v) for v in value]
    if isinstance(value, torch.Tensor):
        return value.detach().numpy().copy()
    return np.asarray(jax.lax.stop_gradient(value)) if isinstance(value, jax.Array) else value


class Log:
    """Registers with both libraries by one call, and keeps what the hooks were given."""

    def __init__(self):
        torch.manual_seed(0)
        self.torch_net, self.net = make(torch.nn, torch.nn.functional), make(nn, F)
        self.params, self.state = self.net.load_state_dict(self.torch_net.state_dict())
        self.hooks = nn.Hooks()
        self.entries = {"torch": [], "ours": []}

    def hook(self, side, label, fn=None):
        def run(module, *seen):
            self.entries[side].append((label, type(module).__name__, *(as_numpy(s) for s in seen)))
            return fn(*seen) if fn is not None else None

        return run

    def register(self, kind, name, label, fn=None, **kwargs):
        label = f"{label} {kind} {name}"
        theirs = getattr(self.torch_net.get_submodule(name), f"register_{kind}")(
            self.hook("torch", label, fn), **kwargs
        )
        return theirs, getattr(self.hooks, f"register_{kind}")(name, self.hook("ours", label, fn), **kwargs)

    def run(self):
        """((gradient by x, {name: gradient}) of torch, the same of ours)."""
        x = torch.tensor(X, requires_grad=True)
        self.torch_net(x).backward()
        theirs = x.grad.numpy(), {name: p.grad.numpy() for name, p in self.torch_net.named_parameters()}
        loss = lambda params, x: self.net.apply(params, self.state, x, hooks=self.hooks)[0]
        by_params, by_x = jax.grad(loss, argnums=(0, 1))(self.params, jnp.asarray(X))
        return theirs, (np.asarray(by_x), dict(self.net.named_parameters(by_params)))


def check_logs(log):
    theirs, ours = log.entries["torch"], log.entries["ours"]
    assert [entry[:2] for entry in ours] == [entry[:2] for entry in theirs]
    for mine, reference in zip(ours, theirs, strict=True):
        same(mine[2:], reference[2:], mine[0])


def same(mine, reference, what):
    if isinstance(reference, np.ndarray):
        largest = max(1.0, np.abs(reference).max(initial=0))  # the small entries are sums of the large ones
        np.testing.assert_allclose(mine, reference, rtol=1e-5, atol=1e-6 * largest, err_msg=what)
    elif isinstance(reference, list | tuple):
        assert len(mine) == len(reference), what
        for a, b in zip(mine, reference, strict=True):
            same(a, b, what)
    elif isinstance(reference, dict):
        assert set(mine) == set(reference), what
        for name in reference:
            same(mine[name], reference[name], f"{what} {name}")
    else:
        assert mine == reference, what


def test_every_kind_on_every_module_in_torchs_order_with_its_arguments_and_gradients():
    log = Log()
    for name in NAMES:
        for label, prepend in (("one", False), ("two", False), ("first", True)):
            for kind in ("forward_pre_hook", "forward_hook"):
                log.register(kind, name, label, prepend=prepend, with_kwargs=label == "two")
            for kind in ("full_backward_pre_hook", "full_backward_hook"):
                log.register(kind, name, label, prepend=prepend)
    theirs, ours = log.run()
    check_logs(log)
    same(ours, theirs, "gradients")
    assert len(log.entries["ours"]) == 12 * 11  # eight modules, three of them called twice


def test_what_hooks_return_replaces_as_in_torch():
    log = Log()
    half = lambda values: tuple(None if v is None else v * 0.5 for v in values)
    log.register("forward_pre_hook", "first", "bare", lambda args: args[0] + 1)
    log.register("forward_pre_hook", "pair", "tuple", lambda args: (args[0] * 3, args[1] - 1))
    log.register("forward_pre_hook", "pair", "kwargs", lambda args, kwargs: (args, {"scale": 3.0}), with_kwargs=True)
    log.register("forward_hook", "pair.a", "twice", lambda args, out: out * 2)
    log.register("forward_hook", "pair.a", "then", lambda args, out: out + 1)
    log.register("full_backward_pre_hook", "pair", "half", half)
    log.register("full_backward_pre_hook", "pair", "again", half)
    log.register("full_backward_hook", "shared.0", "half", lambda gi, go: half(gi))
    log.register("full_backward_hook", "shared.0", "sees half")
    theirs, ours = log.run()
    check_logs(log)
    same(ours, theirs, "gradients")


def test_global_hooks_come_first():
    log = Log()
    for kind in ("forward_pre_hook", "forward_hook", "full_backward_pre_hook", "full_backward_hook"):
        for name in ("pair", "shared.1"):
            log.register(kind, name, "own")
    module_hooks = torch.nn.modules.module
    names = ["forward_pre_hook", "forward_hook", "full_backward_pre_hook", "full_backward_hook"]
    handles = [getattr(module_hooks, f"register_module_{kind}")(log.hook("torch", f"global {kind}")) for kind in names]
    try:
        for kind in names:
            getattr(log.hooks, f"register_module_{kind}")(log.hook("ours", f"global {kind}"))
        log.run()
    finally:
        for handle in handles:
            handle.remove()
    check_logs(log)


def test_inputs_that_nothing_is_differentiated_by_show_none_as_in_torch():
    log = Log()
    log.register("full_backward_hook", "first", "seen")
    with pytest.warns(UserWarning, match="no inputs require gradients"):
        log.torch_net(torch.tensor(X)).backward()
    loss = lambda params: log.net.apply(params, log.state, jnp.asarray(X), hooks=log.hooks)[0]
    jax.grad(loss)(log.params)
    check_logs(log)
    assert log.entries["ours"][0][2] == [None]


def test_an_output_that_nothing_uses_shows_none_as_in_torch():
    def run(library):
        class Two(library.Module):
            def forward(self, x):
                return 2 * x, 3 * x, 5 * x

        return Two()

    theirs, net, hooks, seen, expected = run(torch.nn), run(nn), nn.Hooks(), [], []
    look = lambda into: lambda *given: into.append([as_numpy(g) for g in given[1:]])
    replace = lambda _, grads: (None, grads[1] * 7, None)
    theirs.register_full_backward_pre_hook(look(expected))
    theirs.register_full_backward_pre_hook(replace)
    theirs.register_full_backward_hook(look(expected))
    hooks.register_full_backward_pre_hook("", look(seen))
    hooks.register_full_backward_pre_hook("", replace)
    hooks.register_full_backward_hook("", look(seen))
    x = torch.tensor(X, requires_grad=True)
    theirs(x)[1].sum().backward()
    gradient = jax.grad(lambda x: net.apply({}, {}, x, hooks=hooks)[0][1].sum())(jnp.asarray(X))
    np.testing.assert_array_equal(gradient, x.grad.numpy())
    jax.tree.map(np.testing.assert_array_equal, seen, expected)
    assert [g is None for g in seen[0][0]] == [True, False, True]
