"""Hooks against torch's: one nested model, one pass forward and back, the logs of both compared entry by entry."""

import functools
import pickle
import re

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
        np.testing.assert_allclose(mine, reference, rtol=1e-5, atol=1e-6, err_msg=what)
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


def test_handles_remove_and_close():
    log = Log()
    first = log.register("forward_hook", "first", "stays")
    with log.register("forward_hook", "first", "goes")[1]:
        pass
    log.run()
    assert [entry[0] for entry in log.entries["ours"]] == ["stays forward_hook first"]
    first[1].remove()
    first[1].remove()
    assert jax.tree.structure(log.hooks) == jax.tree.structure(nn.Hooks())


# ------------------------------------------------------------------------------------------------------------ errors


class Fails(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(2, 2)

    def forward(self, x):
        self.fc(x)
        raise ValueError("by design")


def test_always_call_runs_when_forward_raised():
    net, seen = Fails(), []
    params, state = net.init(KEY)
    hooks = nn.Hooks()
    hooks.register_forward_hook("", lambda *_: seen.append("not"))
    hooks.register_forward_hook("", lambda m, args, out: seen.append(out), always_call=True)
    hooks.register_forward_hook("", lambda m, a, k, out: seen.append(k), with_kwargs=True, always_call=True)
    with pytest.raises(ValueError, match="by design"):
        net.apply(params, state, x=jnp.ones(2), hooks=hooks)
    assert seen[0] is None and list(seen[1]) == ["x"] and len(seen) == 2
    hooks.register_forward_hook("", lambda *_: 1 / 0, always_call=True)
    with (
        pytest.raises(ValueError, match="by design"),
        pytest.warns(UserWarning, match="forward hook '<lambda>' on '' raised, and was silenced .* division by zero"),
    ):
        net.apply(params, state, x=jnp.ones(2), hooks=hooks)


def test_a_hook_that_raises_and_is_always_called_runs_once():
    net, seen = nn.Identity(), []

    def hook(*_):
        seen.append(1)
        raise RuntimeError("from the hook")

    hooks = nn.Hooks()
    hooks.register_forward_hook("", hook, always_call=True)
    with pytest.raises(RuntimeError, match="from the hook"):
        net.apply({}, {}, jnp.ones(2), hooks=hooks)
    assert seen == [1]


def apply_with(register, *arguments, **kwargs):
    """The gradient of a small net with one hook."""
    net, hooks = nn.Sequential(nn.Linear(2, 2)), nn.Hooks()
    params, state = net.init(KEY)
    getattr(hooks, f"register_{register}")(*arguments, **kwargs)
    run = lambda params, x: net.apply(params, state, x, hooks=hooks)[0].sum()
    return jax.grad(run, argnums=(0, 1))(params, jnp.ones((1, 2)))


@pytest.mark.parametrize(
    ("register", "arguments", "kwargs", "error", "text"),
    [
        ("forward_hook", ("1", print), {}, ValueError, r"apply\(hooks=…\): pattern '1' matches nothing. Nearest .*'0'"),
        ("forward_hook", ("0.weight", print), {}, ValueError, "pattern '0.weight' matches nothing"),
        ("forward_hook", ("0", 3), {}, TypeError, "Hooks: expected a function as forward hook, got int"),
        ("forward_pre_hook", ("0", lambda *_: 3), {"with_kwargs": True}, TypeError, r"or \(args, kwargs\)"),
        ("full_backward_hook", ("0", lambda m, i, o: (1, 2)), {}, ValueError, r"0 \(Linear\): .* expected 1 .* got 2"),
        ("full_backward_pre_hook", ("0", lambda m, o: ()), {}, ValueError, r"expected 1 \(grad_output\), got 0"),
        ("full_backward_hook", ("0", lambda m, i, o: jnp.ones(7)), {}, ValueError, "changed the shape of a grad_input"),
    ],
)  # fmt: skip
def test_errors(register, arguments, kwargs, error, text):
    with pytest.raises(error, match=text):
        apply_with(register, *arguments, **kwargs)


def test_a_gradient_where_none_was_asked_is_refused():
    net, hooks = nn.Linear(2, 2), nn.Hooks()
    params, _ = net.init(KEY)
    hooks.register_full_backward_hook("", lambda m, i, o: (jnp.ones(2),))
    with pytest.raises(ValueError, match="returned a gradient for inputs that nothing is differentiated by"):
        jax.grad(lambda p: net.apply(p, {}, jnp.ones(2), hooks=hooks)[0].sum())(params)


def test_outputs_that_backward_hooks_cannot_see_are_told():
    class Dict(nn.Module):
        def forward(self, x):
            return {"y": x}

    hooks = nn.Hooks()
    hooks.register_full_backward_hook("", lambda *_: None)
    with pytest.warns(UserWarning, match=r"the root \(Dict\): backward hooks see outputs that are an array or a tuple"):
        Dict().apply({}, {}, jnp.ones(2), hooks=hooks)


def test_hooks_argument_of_another_type():
    with pytest.raises(TypeError, match=r"Identity.apply: hooks: expected nn.Hooks or None, got list"):
        nn.Identity().apply({}, {}, 1.0, hooks=[])


# --------------------------------------------------------------------------------------------- under transformations


def test_a_changed_set_traces_anew_and_an_unchanged_one_does_not():
    net, hooks, traces = nn.Linear(2, 2), nn.Hooks(), []
    params, _ = net.init(KEY)
    apply = jax.jit(functools.partial(net.apply, training=True))
    x = jnp.ones((1, 2))
    plain = apply(params, {}, x, hooks=hooks)[0]
    handle = hooks.register_forward_hook("", lambda m, args, out: traces.append(out) or out * 0)
    for _ in range(2):
        assert not apply(params, {}, x, hooks=hooks)[0].any()
    assert len(traces) == 1 and isinstance(traces[0], jax.core.Tracer)
    handle.remove()
    np.testing.assert_array_equal(apply(params, {}, x, hooks=hooks)[0], plain)
    assert apply._cache_size() == 2


def test_a_set_is_no_static_argument():
    with pytest.raises((TypeError, ValueError), match=r"ordinary|[Nn]on-hashable"):
        jax.jit(nn.Identity().apply, static_argnames="hooks")({}, {}, 1.0, hooks=nn.Hooks())
    with pytest.raises(TypeError, match="Give it to the jitted function as an ordinary one"):
        hash(nn.Hooks())


def test_backward_hooks_under_vmap_scan_jit_and_remat():
    net, seen = nn.Repeat(nn.remat(nn.Linear(3, 3)), 2, scan=True), []
    params, state = net.init(KEY)
    hooks = nn.Hooks()
    hooks.register_full_backward_hook("*", lambda m, i, o: seen.append((i[0].shape, o[0].shape)) or (i[0] * 2,))
    x = jnp.asarray(X)
    loss = lambda x, hooks: net.apply(params, state, x, hooks=hooks)[0].sum()
    plain, doubled = jax.grad(loss)(x, None), 4 * jax.grad(loss)(x, None)
    each = lambda x: jax.vmap(lambda row: loss(row, hooks))(x).sum()
    for gradient in (
        jax.grad(loss)(x, hooks),
        jax.jit(jax.grad(loss))(x, hooks),
        jax.grad(jax.jit(loss))(x, hooks),
        jax.vmap(jax.grad(loss), in_axes=(0, None))(x, hooks),
        jax.grad(each)(x),
    ):
        np.testing.assert_allclose(gradient, doubled, rtol=1e-5)
    assert seen and {a for a, _ in seen} == {(2, 3), (3,)}
    assert not np.allclose(plain, doubled)


def test_forward_mode_works_without_backward_hooks_and_not_with_them():
    net, hooks = nn.Linear(2, 2), nn.Hooks()
    params, _ = net.init(KEY)
    run = lambda x: jax.jvp(lambda x: net.apply(params, {}, x, hooks=hooks)[0], (x,), (x,))
    hooks.register_forward_hook("", lambda m, args, out: out * 2)
    run(jnp.ones(2))
    hooks.register_full_backward_hook("", lambda *_: None)
    with pytest.raises(TypeError, match="custom_vjp"):
        run(jnp.ones(2))


def test_hooks_see_arrays_and_may_write_buffers():
    net, hooks = nn.Sequential(nn.BatchNorm1d(2)), nn.Hooks()
    params, state = net.init(KEY)

    def count(module, args):
        assert module.weight.shape == (2,) and module.training is False
        module.num_batches_tracked = module.num_batches_tracked + 5

    hooks.register_forward_pre_hook("**", lambda m, args: count(m, args) if isinstance(m, nn.BatchNorm1d) else None)
    _, after = net.apply(params, state, jnp.ones((3, 2)), hooks=hooks)
    assert int(after["0"]["num_batches_tracked"]) == 5


def test_a_module_under_two_names_answers_to_its_first():
    net = nn.Sequential(nn.Linear(2, 2))
    net.append(net[0])
    params, state = net.init(KEY)
    hooks, seen = nn.Hooks(), []
    hooks.register_forward_hook("0", lambda *_: seen.append(1))
    net.apply(params, state, jnp.ones(2), hooks=hooks)
    assert seen == [1, 1]
    hooks.register_forward_hook("1", print)
    with pytest.raises(ValueError, match="pattern '1' matches nothing"):
        net.apply(params, state, jnp.ones(2), hooks=hooks)
    assert re.match("Sequential", repr(pickle.loads(pickle.dumps(net))))
