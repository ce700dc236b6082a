"""Hooks: what they refuse, and what JAX's transformations make of them. Beside torch: `test_hooks_parity.py`."""

import functools
import pickle
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from funcnet import nn
from tests.tracing import traced

KEY = jax.random.key(0)
X = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)


def test_handles_remove_and_close():
    net, hooks, seen = nn.Identity(), nn.Hooks(), []
    stays = hooks.register_forward_hook("", lambda *_: seen.append("stays"))
    with hooks.register_forward_hook("", lambda *_: seen.append("goes")):
        pass
    net.apply({}, {}, 1.0, hooks=hooks)
    assert seen == ["stays"]
    stays.remove()
    stays.remove()
    assert jax.tree.structure(hooks) == jax.tree.structure(nn.Hooks())


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
        pytest.warns(
            UserWarning,
            match="forward hook '<lambda>' on '' raised an error, which is ignored because forward failed "
            "first: .*division by zero",
        ),
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
        ("forward_hook", ("0", 3), {}, TypeError,
         "Hooks: the forward hook is not callable; expected a function, got int"),
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
    with pytest.raises(ValueError, match="returned a gradient for inputs that have no gradient"):
        jax.grad(lambda p: net.apply(p, {}, jnp.ones(2), hooks=hooks)[0].sum())(params)


def test_outputs_that_backward_hooks_cannot_see_are_told():
    class Dict(nn.Module):
        def forward(self, x):
            return {"y": x}

    hooks = nn.Hooks()
    hooks.register_full_backward_hook("", lambda *_: None)
    with pytest.warns(
        UserWarning,
        match=r"the root \(Dict\): backward hooks cannot see the gradients of this output; expected an array or",
    ):
        Dict().apply({}, {}, jnp.ones(2), hooks=hooks)


def test_hooks_argument_of_another_type():
    with pytest.raises(
        TypeError, match=r"Identity.apply: hooks has the wrong type; expected nn.Hooks or None, got list"
    ):
        nn.Identity().apply({}, {}, 1.0, hooks=[])


# --------------------------------------------------------------------------------------------- under transformations


def test_a_changed_set_traces_anew_and_an_unchanged_one_does_not():
    net, hooks, seen = nn.Linear(2, 2), nn.Hooks(), []
    params, _ = net.init(KEY)
    apply, traces = traced(functools.partial(net.apply, training=True))
    x = jnp.ones((1, 2))
    plain = apply(params, {}, x, hooks=hooks)[0]
    handle = hooks.register_forward_hook("", lambda m, args, out: seen.append(out) or out * 0)
    for _ in range(2):
        assert not apply(params, {}, x, hooks=hooks)[0].any()
    assert len(seen) == 1 and isinstance(seen[0], jax.core.Tracer)
    handle.remove()
    np.testing.assert_array_equal(apply(params, {}, x, hooks=hooks)[0], plain)
    assert len(traces) == 2


def test_a_set_is_no_static_argument():
    with pytest.raises((TypeError, ValueError), match=r"ordinary|[Nn]on-hashable"):
        jax.jit(nn.Identity().apply, static_argnames="hooks")({}, {}, 1.0, hooks=nn.Hooks())
    with pytest.raises(TypeError, match="Pass it as an ordinary argument"):
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


def test_hooks_run_on_a_mesh_which_adds_its_own():
    net, hooks = nn.Sequential(nn.Linear(3, 2), nn.ReLU()), nn.Hooks()
    hooks.register_forward_hook("0", lambda module, args, output: output - 10)
    params, state = net.init(KEY)
    run = jax.jit(lambda x: net.apply(params, state, x, hooks=hooks)[0])
    with jax.set_mesh(jax.make_mesh((2,), ("fsdp",), axis_types=(jax.sharding.AxisType.Auto,))):
        out = run(jnp.asarray(X))
        assert out.sharding.spec[0] == "fsdp" and not out.any()
