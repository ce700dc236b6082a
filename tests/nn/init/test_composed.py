"""Leaves that start as copies of others: the statements of torch's constructors, in both libraries.

The random values of the libraries differ. The tests compare the names, shapes and dtypes, and which values are equal.
"""

import copy
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from funcnet import nn

KEY = jax.random.key(0)


def codebook(net, lib):
    """As in a VQ-VAE that learns its codebook by moving averages."""
    net.embedding = lib.Embedding(6, 4)
    net.embedding.weight.data.uniform_(-1 / 6, 1 / 6)
    net.register_buffer("ema_w", net.embedding.weight.data.clone())
    net.embedding.weight.requires_grad = False
    net.register_buffer("temporary", net.embedding.weight.detach().clone(), persistent=False)
    return {"ema_w": "embedding.weight", "temporary": "embedding.weight"}


def momentum(net, lib):
    """As in MoCo."""
    net.q, net.k = (lib.Sequential(lib.Linear(4, 3), lib.BatchNorm1d(3)) for _ in range(2))
    for q, k in zip(net.q.parameters(), net.k.parameters()):  # noqa: B905 - the idiom itself
        k.data.copy_(q.data)
        k.requires_grad = False
    return {f"k.{name}": f"q.{name}" for name in ("0.weight", "0.bias", "1.weight", "1.bias")}


def shadows(net, lib):
    """As in LitEma, with a name for each parameter."""
    net.fc = lib.Linear(4, 3)
    for name, p in net.fc.named_parameters():
        net.register_buffer(f"shadow_{name}", p.clone().detach().data)
    return {"shadow_weight": "fc.weight", "shadow_bias": "fc.bias"}


def parameters(net, lib):
    net.fc, net.other = lib.Linear(4, 3), lib.Linear(2, 2)
    net.a = lib.Parameter(net.fc.weight.data.clone())
    net.b = lib.Parameter(net.fc.weight.detach().clone(), requires_grad=False)
    net.c = lib.Parameter(net.a.clone().detach().clone())
    net.d = lib.Buffer(net.c.data.clone())
    net.other.weight.data = net.fc.weight.data.clone()
    return dict.fromkeys(("a", "b", "c", "d", "other.weight"), "fc.weight")


def later(net, lib):
    """What happens to the source after the copy does not change the copy."""
    net.fc, net.same, net.end = (lib.Linear(4, 3) for _ in range(3))
    net.same.weight.data.copy_(net.fc.weight.data)
    copied = net.fc.weight.data.clone()
    lib.init.zeros_(net.fc.weight)
    net.end.weight.data.copy_(copied)
    copied.zero_()
    net.register_buffer("zeros", copied)
    return {"end.weight": "same.weight", "zeros": "fc.weight"}


def chains(net, lib):
    net.a, net.b, net.c = (lib.Linear(3, 3) for _ in range(3))
    net.b.weight.data.copy_(net.a.weight.data)
    net.c.weight.data.copy_(net.b.weight.data)
    net.a.bias.data.copy_(net.b.bias.data)
    net.b.bias.data.copy_(net.c.bias.data)
    net.c.bias.data.copy_(net.a.bias.data)  # the bias that `b` had
    return {"b.weight": "a.weight", "c.weight": "a.weight", "c.bias": "a.bias"}


def dtypes(net, lib):
    net.a, net.b = lib.Linear(3, 3), lib.Linear(3, 3)
    net.b.weight.data.copy_(net.a.weight.data)
    net.c = lib.Parameter(net.a.weight.data.clone())
    net.half()
    return {"b.weight": "a.weight", "c": "a.weight"}


def plain(net, lib):
    """A tensor that is no buffer is not in the state_dict."""
    net.fc = lib.Linear(4, 3)
    net.start = net.fc.weight.data.clone()
    return {"start": "fc.weight"}


ALL = [codebook, momentum, shadows, parameters, later, chains, dtypes, plain]


def made(construct, lib):
    net = lib.Module()
    return net, construct(net, lib)


@pytest.mark.parametrize("construct", ALL)
def test_copies_start_as_in_torch(construct):
    (theirs, same), (net, _) = made(construct, torch.nn), made(construct, nn)
    for one in (net, copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        params, state = one.init(KEY)
        arrays = {**dict(one.named_parameters(params)), **dict(one.named_buffers(state))}
        entries = one.state_dict(params, state)
        assert {k: (v.shape, str(v.dtype)) for k, v in entries.items()} == {
            k: (tuple(v.shape), str(v.dtype).removeprefix("torch.")) for k, v in theirs.state_dict().items()
        }
        assert {k: p.requires_grad for k, p in one.named_parameters()} == {
            k: p.requires_grad for k, p in theirs.named_parameters()
        }
        for name, source in same.items():
            holder, _, attribute = name.rpartition(".")
            assert torch.equal(getattr(theirs.get_submodule(holder), attribute), theirs.get_parameter(source)), name
            np.testing.assert_array_equal(arrays[name], arrays[source], err_msg=name)
        again = one.reinit(KEY, params, list(dict(one.named_parameters())))
        assert jax.tree.all(jax.tree.map(np.array_equal, again, params))


def test_a_copy_is_a_leaf_of_its_own():
    net, _ = made(momentum, nn)
    params, _ = net.init(KEY)
    assert params["q"]["0"]["weight"] is not params["k"]["0"]["weight"]
    again = net.reinit(jax.random.key(1), params, "k.0.weight")
    assert not np.array_equal(again["k"]["0"]["weight"], params["k"]["0"]["weight"])
    np.testing.assert_array_equal(again["q"]["0"]["weight"], params["q"]["0"]["weight"])
    assert jax.tree.all(jax.tree.map(np.array_equal, jax.jit(net.init)(KEY), net.init(KEY)))


PARTS = {
    "a row": lambda p, q: p.data[0].copy_(q.data[1]),
    "rows": lambda p, q: p.data[:2].copy_(q.data[1:]),
    "an item": lambda p, q: p.data.__setitem__(1, q.data[0]),
    "broadcast": lambda p, q: p.data.copy_(q.data[2]),
    "a view": lambda p, q: p.data.view(-1)[:6].copy_(q.data.view(2, 6)[1]),
    "a column of itself": lambda p, q: p.data[:, 0].copy_(p.data[:, 1]),
    "every row": lambda p, q: [p.data[i].copy_(p.data[0]) for i in range(1, 3)],
    "assigned": lambda p, q: setattr(p, "data", q.data[:2, 1:].clone()),
    "cropped": lambda p, q: setattr(p, "data", p.data[1:]),
    "then changed": lambda p, q: p.data.copy_(q.data).mul_(2).add_(1),
    "a part of a copy": lambda p, q: p.data[0].copy_(q.data.clone()[2].mul_(3)),
    "a copy of a view": lambda p, q: p.data.copy_(q.data.view(-1).clone().view(3, 4)),
}


@pytest.mark.parametrize("statement", PARTS.values(), ids=PARTS)
def test_parts_and_views(statement):
    first = np.arange(12, dtype=np.float32).reshape(3, 4)
    theirs = [torch.nn.Parameter(torch.tensor(a)) for a in (first, -first - 20)]
    net = nn.Module()
    net.p, net.q = nn.Parameter(first), nn.Parameter(-first - 20)
    with torch.no_grad():
        statement(*theirs)
        statement(net.p, net.q)
    for one in (net, copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        params, _ = one.init(KEY)
        np.testing.assert_array_equal(params["p"], theirs[0].detach())
        np.testing.assert_array_equal(params["q"], theirs[1].detach())


def test_many_parts_of_one_leaf():
    """The time must not double with every copy."""
    net = nn.Linear(2, 200)
    for i in range(1, 200):
        net.weight.data[i].copy_(net.weight.data[i - 1])
    weight = net.init(KEY)[0]["weight"]
    assert (weight == weight[0]).all()


class Pair(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 3)
        self.register_buffer("start", self.fc.weight.data.clone())

    def forward(self, x):
        return self.fc(x) @ self.start


@pytest.mark.parametrize("scan", [False, True])
def test_each_layer_of_a_stack_copies_its_own(scan):
    net = nn.Sequential(nn.Repeat(Pair(), 3, scan=scan))
    params, state = (net.unstack(values) for values in net.init(KEY))
    layers = [params["0"][str(i)]["fc"]["weight"] for i in range(3)]
    for i, weight in enumerate(layers):
        np.testing.assert_array_equal(state["0"][str(i)]["start"], weight)
    assert not np.array_equal(layers[0], layers[1])


def test_copies_between_stacks_and_to_them():
    net = nn.Module()
    net.a, net.b = (nn.Repeat(nn.Linear(3, 3), 2, scan=True) for _ in range(2))
    net.fc = nn.Linear(3, 3)
    for p, q in zip(net.b.parameters(), net.a.parameters(), strict=True):
        p.data.copy_(q.data)
    net.a.get_parameter("*.bias").data.copy_(net.fc.bias.data)
    params, _ = net.init(KEY)
    np.testing.assert_array_equal(params["b"]["*"]["weight"], params["a"]["*"]["weight"])
    np.testing.assert_array_equal(params["a"]["*"]["bias"], np.stack([params["fc"]["bias"]] * 2))
    with pytest.warns(UserWarning, match="its init was changed after"):
        net.fc.weight.data.copy_(net.a.get_parameter("*.weight").data)
    with pytest.raises(ValueError, match=r"'fc.weight' is a copy of 'a.\*.weight', which has \(2,\) layers; expected"):
        net.init(KEY)


def test_a_source_outside_the_net():
    outer = nn.Linear(3, 3)
    net = nn.Linear(3, 3)
    net.weight.data.copy_(outer.weight.data)
    np.testing.assert_array_equal(net.init(KEY)[0]["weight"], nn.Linear(3, 3).init(KEY)[0]["weight"])


def test_another_leaf_of_a_copy():
    net, _ = made(codebook, nn)
    net.more = net.ema_w.another()
    _, state = net.init(KEY)
    np.testing.assert_array_equal(state["more"], state["ema_w"])


def test_weights_that_become_computed():
    net = nn.Module()
    net.a, net.b = nn.Linear(3, 3), nn.Linear(3, 3)
    net.register_buffer("start", net.a.weight.data.clone())
    net.b.weight.data.copy_(net.a.weight.data)
    for normed in ("a", "b"):
        nn.utils.weight_norm(getattr(net, normed))
    params, state = net.init(KEY)
    np.testing.assert_array_equal(params["a"]["weight_v"], state["start"])
    np.testing.assert_array_equal(params["b"]["weight_v"], state["start"])
    with pytest.raises(TypeError, match="is computed from other leaves, so its initial value cannot be copied"):
        net.a.weight.data.clone()
    net.c = nn.Parameter(net.a.weight_g.data.clone())
    with pytest.raises(ValueError, match=r"is a copy of 'a.weight_g', whose initial value is computed"):
        net.init(KEY)


def test_what_cannot_be_copied():
    net = nn.Module()
    net.a, net.b = nn.Parameter((2, 3)), nn.Parameter((2, 3))
    net.b.data.copy_(net.a.data)
    nn.init.zeros_(net.a)
    with pytest.raises(ValueError, match="a leaf is a copy of 'a', which had no init when it was copied"):
        net.init(KEY)
    for attempt in (
        lambda: setattr(net.a, "data", net.b.data),
        lambda: nn.Parameter(net.a.data),
        lambda: nn.Buffer(net.a.data[0]),
        lambda: net.register_buffer("c", net.a.data[:1]),
    ):
        with pytest.raises(TypeError, match=r"two leaves cannot share their values.*p\.data\.clone\(\)"):
            attempt()
    with pytest.raises(ValueError, match=r"expected an array that broadcasts to shape \(2, 3\), got shape \(3, 2\)"):
        net.a.data.copy_(net.b.data.view(3, 2))
    lazy = nn.LazyLinear(3)
    for attempt in (lambda: lazy.weight.data.clone(), lambda: net.a.data.copy_(lazy.weight.data)):
        with pytest.raises(ValueError, match="the shape is not known before `init` gets an example input"):
            attempt()
    with pytest.raises(TypeError, match=r"Clone\(\(2, 3\), dtype=float32\) is a description and has no values"):
        jnp.ones((2, 2)) @ net.b.data.clone()
