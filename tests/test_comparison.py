"""`funcnet.compare` finds what is wrong in a port, and nothing where nothing is."""

import dataclasses
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
from funcnet.comparison.comparison_table import CallRow, Comparison
from funcnet.models import bert
from funcnet.models.resnet import resnet18
from tests import ported_models
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


def ported(build, batch):
    torch.manual_seed(0)
    theirs, net = ported_models.settled(torch, build(torch.nn), batch), build(nn)
    return theirs, net, *net.load_state_dict(theirs.state_dict())


@pytest.mark.slow
def test_a_tiny_crepe():
    """Its BatchNorm makes equal numbers of the zeros of ReLU, so max-pooling has thousands of ties."""
    theirs, *port = ported(ported_models.tiny_crepe, ported_models.sound(8, seed=1))
    assert sum(p.numel() for p in theirs.parameters()) == 486552
    found = funcnet.compare(theirs, *port, ported_models.sound(2), tolerance=3e-5)
    assert found.ok and not any(row.rounding for row in found.rows), found


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [None, "float64"])
def test_an_efficientnet(dtype):
    """Rounding puts some inputs of ReLU6 on another side of 0 or 6 than in torch."""
    theirs, *port = ported(ported_models.efficientnet_lite0, ported_models.image(8, 224, seed=1))
    assert sum(p.numel() for p in theirs.parameters()) == 4652008  # 4.7 million, as published
    found = funcnet.compare(theirs, *port, ported_models.image(1, 224), dtype=dtype)
    assert found.ok and found.first is None and "all within tolerance" in str(found), found
    if dtype:
        values = [v for row in found.rows for v in (row.forward, row.backward, row.parameters) if v is not None]
        assert max(values) < 1e-11 and found.precision == "float64"


@pytest.mark.slow
def test_a_small_efficientnet_in_float64():
    blocks = ((1, 16, 1, 1, 3), (6, 24, 2, 2, 5))
    theirs, *port = ported(lambda lib: ported_models.efficientnet_lite0(lib, blocks, 10), ported_models.image(4, 32))
    found = funcnet.compare(theirs, *port, ported_models.image(2, 32), dtype="float64", tolerance=1e-12, training=False)
    assert found.ok and not any(row.rounding for row in found.rows), found


def kinked(lib, **wrong):
    act = wrong.get("act", lib.ReLU6())
    return lib.Sequential(OrderedDict(fc=lib.Linear(64, 2), act=act, gelu=lib.GELU(wrong.get("gelu", "none"))))


def at_the_kink():
    """A torch module, weights for its port, and inputs whose outputs of `fc` are 6 but for rounding."""
    torch.manual_seed(0)
    theirs = kinked(torch.nn)
    weight = theirs.fc.weight.detach().double().numpy()
    x = np.random.default_rng(0).normal(size=(2000, 64))
    missing = 6 - theirs.fc.bias.detach().double().numpy() - x @ weight.T
    x += missing @ np.linalg.pinv(weight).T
    return theirs, x.astype(np.float32)


def test_rounding_at_a_kink_is_no_culprit():
    theirs, x = at_the_kink()
    net = kinked(nn)
    loaded = net.load_state_dict(theirs.state_dict())
    found = funcnet.compare(theirs, net, *loaded, x)
    rows = {row.name: row for row in found.rows}
    assert rows["fc"].backward > 1e-2 and rows["fc"].rounding.startswith("backward") and rows["act"].kinks > 10
    assert found.ok and found.first is None
    assert "rounding at a kink" in str(found) and f"{rows['act'].kinks} in act (ReLU6)" in str(found)
    assert str(found).endswith("all within tolerance, apart from rounding") and "#fdd" not in found._repr_html_()
    assert found.to_dataframe()["kinks"].sum() > 10
    exact = funcnet.compare(theirs, net, *loaded, x, dtype="float64")
    assert exact.ok and "rounding" not in str(exact) and max(row.backward for row in exact.rows) < 1e-9


def test_the_run_in_float64_has_the_settings_of_the_caller():
    class Mixed(nn.Hardtanh):
        def forward(self, input):
            return super().forward(input) * jnp.ones(2, jnp.int32)

    theirs, x = at_the_kink()
    net = kinked(nn, act=Mixed(0.0, 6.0))
    loaded = net.load_state_dict(theirs.state_dict())
    with jax.numpy_dtype_promotion("standard"):
        found = funcnet.compare(theirs, net, *loaded, x)
    assert found.ok and any(row.rounding for row in found.rows), found


@pytest.mark.parametrize(
    ("wrong", "first"), [({"gelu": "tanh"}, "gelu"), ({"act": nn.Hardtanh(0.0, 6.01)}, "act")], ids=["gelu", "act"]
)
def test_a_mistake_beside_rounding_is_named(wrong, first):
    theirs, x = at_the_kink()
    x[::2] *= 0.4  # so that some outputs of fc are not at the kink: below it
    x[1::4] *= 1.5  # and above it
    net = kinked(nn, **wrong)
    found = funcnet.compare(theirs, net, *net.load_state_dict(theirs.state_dict()), x)
    assert not found.ok and found.first == first and f"first over tolerance: {first}" in str(found)


def test_a_port_that_loses_digits_is_named():
    """In float64 it agrees, but its error in float32 is far greater than torch's."""

    class Poor(nn.Linear):
        def forward(self, input):
            large = 1e5 * jnp.abs(self.bias[0])  # no constant, or XLA would simplify
            return (super().forward(input) + large) - large

    theirs = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Linear(3, 3))
    net = nn.Sequential(nn.Linear(3, 3), Poor(3, 3))
    loaded = net.load_state_dict(theirs.state_dict())
    assert funcnet.compare(theirs, net, *loaded, X).first == "1"
    assert funcnet.compare(theirs, net, *loaded, X, dtype="float64").ok


def test_a_run_in_float64_that_fails_is_told():
    class Half(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = torch.nn.Linear(3, 3)

        def forward(self, x):
            return self.fc(x.float())

    class Port(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(3, 3)

        def forward(self, x):
            return 2 * self.fc(x)

    theirs, net = Half(), Port()
    found = funcnet.compare(theirs, net, *net.load_state_dict(theirs.state_dict()), X)
    assert found.first == "" and "rounding was not checked, because the run in float64 failed: RuntimeError" in str(
        found
    )


def test_an_unknown_dtype():
    theirs, net = torch.nn.Linear(3, 2), nn.Linear(3, 2)
    with pytest.raises(ValueError, match="unknown dtype; expected None or 'float64', got 'float16'"):
        funcnet.compare(theirs, net, *net.load_state_dict(theirs.state_dict()), X, dtype="float16")


def test_a_forward_that_reads_its_integers():
    """Lengths to pack by must be known while the port is compiled."""

    class Packed(nn.LSTM):
        def forward(self, x, lengths):
            return super().forward(x[:, : int(np.max(np.asarray(lengths)))])[0]

    class Reference(torch.nn.LSTM):
        def forward(self, x, lengths):
            return super().forward(x[:, : int(lengths.max())])[0]

    theirs, net = Reference(3, 2, batch_first=True), Packed(3, 2, batch_first=True)
    loaded = net.load_state_dict(theirs.state_dict())
    x = np.random.default_rng(0).normal(size=(2, 5, 3)).astype(np.float32)
    assert funcnet.compare(theirs, net, *loaded, x, np.array([2, 4])).ok
    assert funcnet.compare(theirs, net, *loaded, x, np.array([2, 4]), dtype="float64").ok


@pytest.mark.slow
def test_convolutions_behind_max_pooling_are_compiled_rightly():
    """With fusion off and the old emitters, jaxlib 0.10 computed other values for the last convolution."""

    def network(nn):
        convolution = lambda width, size: nn.Conv2d(8, width, size, padding=size // 2, bias=False)
        return nn.Sequential(
            nn.Conv2d(3, 8, 7, stride=2, padding=3), nn.MaxPool2d(3, 2, 1), convolution(8, 1), convolution(8, 3),
            convolution(32, 1), nn.BatchNorm2d(32),
        )  # fmt: skip

    theirs, net = network(torch.nn), network(nn)
    params, state = net.load_state_dict(theirs.state_dict())
    images = np.random.default_rng(0).standard_normal((2, 3, 64, 64)).astype(np.float32)
    assert funcnet.compare(theirs, net, params, state, images, dtype="float64", tolerance=1e-9).ok


def test_a_parameter_whose_gradient_is_zero_but_for_rounding():
    """LayerNorm takes the shift away again, so its gradient is noise. No other parameter is in the module."""

    class TheirShift(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.shift = torch.nn.Parameter(torch.full((5, 1), 0.3))

        def forward(self, x):
            return torch.nn.functional.layer_norm(x + self.shift, (4,))

    class OurShift(nn.Module):
        def __init__(self):
            super().__init__()
            self.shift = nn.Parameter(jnp.full((5, 1), 0.3))

        def forward(self, x):
            return F.layer_norm(x + self.shift, (4,))

    theirs, ours = TheirShift(), OurShift()
    x = torch.from_numpy(np.random.default_rng(0).normal(size=(7, 5, 4)).astype(np.float32))
    with jax.enable_x64(True):
        params, state = ours.load_state_dict(theirs.state_dict())
        assert funcnet.compare(theirs, ours, params, state, x, tolerance=1e-9, dtype="float64").ok


def test_a_layer_whose_output_is_normalised_away():
    """The gradient of the layer's output is a sum that cancels. A port that is wrong there is still found."""

    def made(lib, functional, factor):
        class Net(lib.Module):
            def __init__(self):
                super().__init__()
                self.shift, self.scale, self.conv = lib.Linear(3, 4), lib.Linear(3, 4), lib.Conv2d(4, 4, 3)

            def forward(self, x, t):
                h = self.conv(x) * self.scale(t)[:, :, None, None] ** factor + self.shift(t)[:, :, None, None]
                return functional.group_norm(h, 4, eps=0.1)

        return Net()

    rng = np.random.default_rng(0)
    x, t = (rng.normal(size=size).astype(np.float32) for size in ((2, 4, 9, 9), (2, 3)))
    for factor, same in ((2, True), (4, False)):
        theirs, ours = made(torch.nn, torch.nn.functional, 2), made(nn, F, factor)
        params, state = ours.load_state_dict(theirs.state_dict())
        found = funcnet.compare(theirs, ours, params, state, x, t, dtype="float64", tolerance=1e-9)
        assert found.ok is same, found


def test_outputs_with_strings_with_none_and_with_one_array_twice():
    def made(lib, factor):
        class Part(lib.Module):
            def forward(self, x):
                return {"name": "part", "same": (x, x), "nothing": None, "last": [x * factor]}

        class Net(lib.Module):
            def __init__(self):
                super().__init__()
                self.fc, self.part = lib.Linear(3, 3), Part()

            def forward(self, x):
                found = self.part(self.fc(x))
                return found["same"][0] * 3 + found["same"][1].sum() * 5 + found["last"][0]

        return Net()

    for factor, same in ((2, True), (4, False)):
        theirs, ours = made(torch.nn, 2), made(nn, factor)
        params, state = ours.load_state_dict(theirs.state_dict())
        assert funcnet.compare(theirs, ours, params, state, X).ok is same


def test_the_first_five_calls_at_a_kink_are_named():
    row = CallRow("", "ReLU", 0.0, 2e-3, None, None, rounding="backward", kinks=3)
    five = tuple(dataclasses.replace(row, name=f"act:{number}") for number in range(1, 6))
    shown = ", ".join(f"3 in act:{number} (ReLU)" for number in range(1, 6))
    for rows, end in ((five, shown), ((*five, row), f"{shown}, … (6 calls in all)")):
        lines = str(Comparison(rows, {}, 1e-5, "highest")).splitlines()
        assert next(line for line in lines if line.startswith("rounding at a kink")).endswith(f": {end}")
