"""`funcnet.compare` finds what is wrong in a port, and nothing where nothing is."""

from collections import OrderedDict

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
import transformers

import funcnet
from funcnet import functional as F
from funcnet import nn
from funcnet.models import bert
from funcnet.models.resnet import resnet18
from tests.models.torch_resnet import resnet18 as torch_resnet18

X = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)


def made(lib, functional, **wrong):
    """A model from one class body; ours may be given a mistake."""

    class Net(lib.Module):
        def __init__(self):
            super().__init__()
            self.fc = lib.Linear(3, 4)
            self.bn = lib.BatchNorm1d(4, momentum=wrong.get("momentum", 0.1))
            self.act = lib.ReLU(inplace=True)
            self.gelu = lib.GELU(wrong.get("gelu", "none"))
            self.out = lib.Linear(4, 4)

        def forward(self, x, scale=1.0):
            x = self.act(self.bn(self.fc(x)))
            x = self.gelu(self.out(x))
            if wrong.get("twice", True):
                x = self.out(x)
            return {"loss": x * scale, "hidden": (x if not wrong.get("transposed") else x.T,)}

    return Net()


def compared(training=True, **wrong):
    torch.manual_seed(0)
    theirs, net = made(torch.nn, torch.nn.functional), made(nn, F, **wrong)
    params, state = net.load_state_dict(theirs.state_dict())
    before = {name: value.clone() for name, value in theirs.state_dict().items()}
    found = funcnet.compare(theirs, net, params, state, X, training=training, scale=2.0)
    assert all(torch.equal(value, before[name]) for name, value in theirs.state_dict().items())
    assert theirs.training and all(p.grad is None and not p._backward_hooks for p in theirs.parameters())
    return found


@pytest.mark.parametrize("training", [False, True])
def test_a_right_port_is_found_right(training):
    found = compared(training)
    assert found.ok and found.first is None and "all within tolerance" in str(found)
    assert [row.name for row in found.rows] == ["fc", "bn", "act", "out", "gelu", "out:1", ""]
    told = {row.name: row for row in found.rows}
    assert told["fc"].forward < 1e-6 and told["fc"].backward < 1e-5 and told["fc"].parameters < 1e-5
    assert told["bn"].buffers < 1e-6 and told["act"].buffers is None
    assert "JAX highest on cpu, torch highest" in found.precision


@pytest.mark.parametrize(
    ("wrong", "first"),
    [({"gelu": "tanh"}, "gelu"), ({"momentum": 0.9}, "bn"), ({"twice": False}, ""), ({"transposed": True}, "")],
    ids=str,
)
def test_the_first_module_that_differs_is_named(wrong, first):
    found = compared(**wrong)
    assert not found.ok and found.first == first
    named = first or "the root"
    assert f"first over tolerance: {named}" in str(found) and "background" in found._repr_html_()
    if wrong == {"twice": False}:
        assert [row.note for row in found.rows if row.name == "out:1"] == ["funcnet did not call it"]
    assert found.to_dataframe()["forward"].max() > 1e-5 or first == "bn"


def test_inside_the_values_count_and_the_form_is_noted():
    """A leading dimension of 1, and an array more, are no difference inside a model; in its own output they are."""

    def part(lib, more, leading, scale=1.0):
        class Part(lib.Module):
            def forward(self, x):
                x = scale * (x[None] if leading else x)
                return (x, x + 1) if more else x

        return Part()

    def whole(lib, inner):
        class Whole(lib.Module):
            def __init__(self):
                super().__init__()
                self.fc, self.inner = lib.Linear(3, 4), inner

            def forward(self, x):
                out = self.inner(self.fc(x))
                return (out[0] if isinstance(out, tuple) else out).reshape(4, 4)

        return Whole()

    theirs = whole(torch.nn, part(torch.nn, False, False))
    found = {}
    for form in [(False, False), (True, False), (False, True), (True, True), (True, True, 1.5)]:
        net = whole(nn, part(nn, *form))
        found[form] = funcnet.compare(theirs, net, *net.load_state_dict(theirs.state_dict()), X)
    notes = {form: next(row.note for row in one.rows if row.name == "inner") for form, one in found.items()}
    assert [one.first for one in found.values()] == [None, None, None, None, "inner"]
    assert notes[True, False] == "shapes [(4, 4), (4, 4)], torch [(4, 4)]" and not notes[False, False]
    assert notes[False, True] == "shapes [(1, 4, 4)], torch [(4, 4)]"
    alone = funcnet.compare(part(torch.nn, False, False), part(nn, False, True), {}, {}, X)
    assert alone.first == "" and alone.rows[-1].forward == float("inf")


@pytest.mark.parametrize("cls", ["BertModel", "BertForPreTraining"])
def test_the_librarys_own_bert_is_transformers(cls):
    sizes = {"vocab_size": 97, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
    sizes |= {"intermediate_size": 48, "max_position_embeddings": 24}
    torch.manual_seed(0)
    theirs = getattr(transformers, cls)(transformers.BertConfig(**sizes)).eval()
    net = getattr(bert, cls)(bert.BertConfig(**sizes))
    ids = np.random.default_rng(0).integers(5, 97, (2, 13)).astype(np.int32)
    mask = (np.arange(13) < [[13], [8]]).astype(np.int32)
    found = funcnet.compare(theirs, net, *net.load_state_dict(theirs.state_dict()), ids, mask)
    assert found.ok, found


def test_weights_that_were_never_loaded_are_told_before_the_layers():
    theirs, net = torch.nn.Linear(3, 2), nn.Linear(3, 2)
    found = funcnet.compare(theirs, net, *net.init(jax.random.key(0)), X)
    assert not found.ok and set(found.weights) == {"weight", "bias"}
    assert "2 weights differ before the run" in str(found)


def test_weights_within_tolerance_are_as_good_as_equal():
    theirs, net = torch.nn.Linear(3, 2), nn.Linear(3, 2)
    params, state = net.load_state_dict(theirs.state_dict())
    trained = jax.tree.map(lambda p: p * (1 + 2e-6), params)
    found = funcnet.compare(theirs, net, trained, state, X)
    assert found.ok and not found.weights and str(found).endswith("all within tolerance")
    exact = funcnet.compare(theirs, net, trained, state, X, tolerance=1e-7)
    assert not exact.ok and "weights differ" in str(exact)


def test_params_or_state_forgotten():
    theirs, net = torch.nn.Linear(3, 2), nn.Linear(3, 2)
    params, _ = net.load_state_dict(theirs.state_dict())
    with pytest.raises(
        TypeError, match=r"funcnet\.compare: params or state has the wrong type; expected two dicts, .* and ndarray"
    ):
        funcnet.compare(theirs, net, params, X)


def test_a_backward_that_differs_while_the_forward_agrees():
    class Stopped(nn.Linear):
        def forward(self, input):
            return jax.lax.stop_gradient(super().forward(input))

    theirs = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Linear(3, 3))
    net = nn.Sequential(nn.Linear(3, 3), Stopped(3, 3))
    found = funcnet.compare(theirs, net, *net.load_state_dict(theirs.state_dict()), X)
    assert found.first == "0" and all(row.forward < 1e-6 for row in found.rows)


class Detached(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)

    def forward(self, x):
        return self.head(self.body(x).detach())


class Whole(nn.Module):
    """Its port, without the `detach`."""

    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(3, 3), nn.Linear(3, 3)

    def forward(self, x):
        return self.head(self.body(x))


def test_a_gradient_that_torch_has_not_differs():
    theirs, net = Detached(), Whole()
    loaded = net.load_state_dict(theirs.state_dict())
    found = funcnet.compare(theirs, net, *loaded, X)
    assert not found.ok and found.first == "body"
    frozen = torch.nn.Sequential(OrderedDict(body=theirs.body.requires_grad_(False), head=theirs.head))
    found = funcnet.compare(frozen, net, *loaded, X)
    assert found.first == "body" and {row.name: row.backward for row in found.rows}["body"] is None
    net.body.requires_grad_(False)
    assert funcnet.compare(frozen, net, *loaded, X).ok


@pytest.mark.slow
def test_a_resnet_in_training():
    torch.manual_seed(0)
    theirs, net = torch_resnet18(num_classes=10), resnet18(num_classes=10)
    x = np.random.default_rng(1).normal(size=(4, 3, 32, 32)).astype(np.float32)
    found = funcnet.compare(theirs, net, *net.load_state_dict(theirs.state_dict()), x, tolerance=1e-4)
    assert found.ok, found
    assert {row.name.split(":")[0] for row in found.rows} == {name for name, _ in theirs.named_modules()}


def test_integers_and_bfloat16_cross_over():
    theirs, net = torch.nn.Embedding(5, 4).bfloat16(), nn.Embedding(5, 4, dtype=jnp.bfloat16)
    params, state = net.load_state_dict(theirs.state_dict())
    assert funcnet.compare(theirs, net, params, state, np.array([1, 3])).ok


def test_a_name_may_hold_what_numbers_the_calls():
    made = [OrderedDict([("a:b", lib.Linear(3, 3)), ("c", lib.Tanh())]) for lib in (torch.nn, nn)]
    theirs, net = torch.nn.Sequential(made[0]), nn.Sequential(made[1])
    found = funcnet.compare(theirs, net, *net.load_state_dict(theirs.state_dict()), X)
    assert found.ok and [row.kind for row in found.rows if row.name == "a:b" and row.parameters is not None] == [
        "Linear"
    ]


def test_an_argument_that_compare_keeps_for_itself_is_told():
    class Net(nn.Module):
        def forward(self, x, training=False):
            return x

    with pytest.raises(TypeError, match="forward has an argument 'training'"):
        funcnet.compare(torch.nn.Identity(), Net(), {}, {}, X, training=True)


def test_what_is_no_torch_module_is_refused():
    net = nn.Linear(3, 2)
    with pytest.raises(TypeError, match=r"expected torch.nn.Module, got Linear. The order is compare\(torch_module"):
        funcnet.compare(net, *net.init(jax.random.key(0)), X)
