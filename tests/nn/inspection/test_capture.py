"""`capture` and `capture_gradients`: what torch's hooks would see, without hooks; in stacks, under jit."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from funcnet import nn
from funcnet.nn.inspection.capture import capture_all
from tests.nn.nested import IDS, KEY, ours, theirs

RNG = jax.random.key(2)


def from_torch(scan):
    reference = theirs(rate=0.0)
    net = ours(scan, rate=0.0)
    return reference, net, *net.load_state_dict(reference.state_dict())


def test_outputs_and_gradients_are_what_torchs_hooks_see():
    torch = pytest.importorskip("torch")
    reference, net, params, state = from_torch(False)
    outputs, gradients = {}, {}
    names = ["layers.0.fc", "layers.1.fc", "layers.2.fc", "head.norm", "decoder"]
    for name in names:

        def keep(module, args, out, name=name):
            outputs[name] = out.detach().numpy()
            out.register_hook(lambda g: gradients.__setitem__(name, g.numpy()))

        reference.get_submodule(name).register_forward_hook(keep)
    (reference(torch.tensor(np.array(IDS), dtype=torch.long)) ** 2).mean().backward()
    patterns = ["layers.*.fc", "head.norm", "decoder"]
    out, after, seen = jax.jit(functools.partial(nn.capture(net, patterns), training=True))(params, state, IDS)
    value, by_output = jax.jit(
        functools.partial(nn.capture_gradients(net, patterns, lambda y: jnp.mean(y**2)), training=True)
    )(params, state, IDS)
    assert list(seen) and set(seen) == set(by_output) == set(names)
    for name in names:
        np.testing.assert_allclose(seen[name], outputs[name], rtol=1e-4, atol=1e-5, err_msg=name)
        np.testing.assert_allclose(by_output[name], gradients[name], rtol=1e-3, atol=1e-6, err_msg=name)
    np.testing.assert_allclose(value, jnp.mean(out**2), rtol=1e-6)
    assert int(after["shared"]["bn"]["num_batches_tracked"]) == 2


@pytest.mark.slow
def test_a_stack_gives_its_layers_stacked():
    loop, scan = ours(False), ours(True)
    params, state = loop.init(KEY)
    stacked = scan.stack(params), scan.stack(state)
    kwargs = {"training": True, "rng": RNG}
    look = lambda net: jax.jit(functools.partial(nn.capture(net, ["layers.*", "layers.*.drop"]), **kwargs))
    differentiate = lambda net: jax.jit(
        functools.partial(nn.capture_gradients(net, "layers.*.drop", jnp.sum), **kwargs)
    )
    _, _, apart = look(loop)(params, state, IDS)
    _, _, together = look(scan)(*stacked, IDS)
    assert set(together) == {"layers.*.drop", "layers.*"}
    _, gradients = differentiate(loop)(params, state, IDS)
    _, of_stack = differentiate(scan)(*stacked, IDS)
    for i in range(3):
        np.testing.assert_allclose(together["layers.*"][i], apart[f"layers.{i}"], rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(together["layers.*.drop"][i], apart[f"layers.{i}.drop"], rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(of_stack["layers.*.drop"][i], gradients[f"layers.{i}.drop"], rtol=1e-3, atol=1e-4)


def test_nothing_changes_by_looking():
    net = ours()
    params, state = net.init(KEY)
    plain = net.apply(params, state, IDS, training=True, rng=RNG)
    out, after, _ = nn.capture(net, "**")(params, state, IDS, training=True, rng=RNG)
    jax.tree.map(np.testing.assert_array_equal, (out, after), tuple(plain))


def test_each_call_has_its_name_also_of_a_shared_module():
    net = ours()
    _, _, seen = nn.capture(net, ["shared", "shared.fc"])(*net.init(KEY), IDS)
    assert list(seen) == ["shared.fc", "shared", "shared.fc:1", "shared:1"]


class Graph(nn.ModuleDict):
    """Its modules one after the other."""

    def forward(self, x):
        for module in self.values():
            x = module(x)
        return x


class Twice(Graph):
    def forward(self, x):
        return super().forward(super().forward(x))


@pytest.mark.parametrize("wrap", [lambda m: m, nn.remat, lambda m: nn.Repeat(m, 2, scan=True)])
def test_a_name_may_hold_what_numbers_the_calls(wrap):
    net = Twice({"a[0]": wrap(Graph({"user:buys:item": nn.Linear(2, 2), "a:7": nn.Dropout(0.1)}))})
    params, state = net.init(KEY)
    how = {"training": {"**": True}, "rng": RNG}
    _, _, seen = nn.capture(net, "**")(params, state, jnp.ones((1, 2)), **how)
    names = [name for name, _ in net.named_modules() if name]
    assert set(seen) == {"", *names, *(f"{name}:1" for name in names)}
    _, gradients = nn.capture_gradients(net, "**", jnp.sum)(params, state, jnp.ones((1, 2)), **how)
    assert set(gradients) == set(seen) and all(bool(g.any()) for g in gradients.values())


def test_two_calls_of_one_name_are_refused():
    net = Twice({"a": nn.Tanh(), "a:1": nn.Tanh()})
    with pytest.raises(ValueError, match=r"nn\.capture: two calls have the name 'a:1'"):
        nn.capture(net, "**")({}, net.init(KEY)[1], jnp.ones(2))


class Mixed(nn.Module):
    """An output that is not floats alone."""

    def forward(self, x):
        return {"value": x * 2, "place": jnp.argmax(x)}


def test_gradients_keep_the_outputs_structure():
    net = nn.Sequential(Mixed())
    run = nn.capture_gradients(net, "0", lambda out: out["value"].sum())
    value, gradients = run({}, {}, jnp.arange(3.0))
    assert float(value) == 6 and gradients["0"]["place"] is None
    assert gradients["0"]["value"].tolist() == [1, 1, 1]


def test_the_root_a_method_and_hooks():
    net = nn.Sequential(nn.Tanh())
    hooks = nn.Hooks()
    hooks.register_forward_hook("0", lambda m, args, out: out + 1)
    out, _, seen = nn.capture(net, ["", "0"])({}, {}, jnp.zeros(2), hooks=hooks)
    assert out.tolist() == seen[""].tolist() == seen["0"].tolist() == [1, 1]
    assert nn.capture(net, "0")({}, {}, jnp.zeros(2), method="forward")[2]["0"].tolist() == [0, 0]


def test_what_capture_refuses():
    net = ours()
    with pytest.raises(ValueError, match=r"nn\.capture: pattern 'layer' matches nothing\. Nearest names: .*'layers'"):
        nn.capture(net, "layer")
    with pytest.raises(ValueError, match=r"nn\.capture_gradients: pattern 'layers\.9' matches nothing"):
        nn.capture_gradients(net, "layers.9", jnp.sum)

    class OwnScan(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(2, 2)

        def forward(self, x):
            return jax.lax.scan(lambda c, _: (self.fc(c), None), x, None, length=2)[0]

    net = OwnScan()
    with pytest.raises(ValueError, match=r"fc \(Linear\): the output is captured inside a transformation"):
        nn.capture(net, "fc")(*net.init(KEY), jnp.ones(2))


@pytest.mark.slow
@pytest.mark.parametrize("scan", [False, True])
def test_all_at_once_is_what_the_two_give_apart(scan):
    net = ours(scan, rate=0.0)
    params, state = net.init(KEY)
    how = {"training": True, "rng": RNG}
    loss = lambda y: jnp.mean(y**2)
    by_param, new, outputs, by_output = jax.jit(functools.partial(capture_all(net, loss), **how))(params, state, IDS)
    _, after, seen = jax.jit(functools.partial(nn.capture(net, "**"), **how))(params, state, IDS)
    _, gradients = jax.jit(functools.partial(nn.capture_gradients(net, "**", loss), **how))(params, state, IDS)
    direct = jax.jit(jax.grad(lambda p: loss(net.apply(p, state, IDS, **how)[0])))(params)
    for mine, other in [(by_param, direct), (new, after), (outputs, seen), (by_output, gradients)]:
        close = functools.partial(np.testing.assert_allclose, rtol=1e-4, atol=1e-6)
        jax.tree.map(close, mine, other)
