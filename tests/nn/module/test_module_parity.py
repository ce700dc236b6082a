"""A description is built, walked and printed as torch does it."""

import collections

import jax.numpy as jnp
import pytest
import torch

from funcnet import nn
from tests.nn.nested import KEY, ours, theirs


def names(pairs):
    return [name for name, _ in pairs]


def build_in(library, array):
    """Registers, replaces, reserves and deletes in every order that torch has an opinion on."""

    class Built(library.Module):
        def __init__(self):
            super().__init__()
            self.plain = None
            self.register_parameter("reserved", None)
            self.register_buffer("empty", None)
            self.register_buffer("scratch", None, persistent=False)
            self.a = library.Parameter(array(1.0))
            self.child = None
            self.register_module("later", None)
            self.register_buffer("kept", array(2.0))
            self.gone = library.Linear(1, 1)
            self.child = library.Linear(1, 1, bias=False)
            self.plain = library.Parameter(array(3.0))
            self.reserved = library.Parameter(array(4.0))
            self.later = library.Tanh()
            self.empty = array(5.0)
            self.scratch = array(6.0)
            self.a = library.Parameter(array(7.0))
            self.kept = None
            self.kept = array(8.0)
            self.nothing = library.Linear(1, 1)
            self.nothing = None
            del self.gone

    return Built()


def test_parts_are_registered_in_torchs_order():
    net, reference = build_in(nn, lambda v: jnp.full((1,), v)), build_in(torch.nn, lambda v: torch.full((1,), v))
    assert names(net.named_parameters()) == names(reference.named_parameters())
    assert names(net.named_buffers()) == names(reference.named_buffers())
    assert names(net.named_modules()) == names(reference.named_modules())
    sd = net.state_dict(*net.init(KEY))
    assert list(sd) == list(reference.state_dict()) and "scratch" not in sd
    assert repr(net) == repr(reference)
    for name in ("a", "plain", "reserved", "empty", "kept"):
        assert float(sd[name][0]) == float(reference.state_dict()[name][0])


def set_in(library, target, make, strict):
    net = library.Sequential(library.Linear(1, 1), library.Sequential(library.Tanh()))
    net.register_module("empty", None)
    net.set_submodule(target, make(library), strict=strict)
    return repr(net), names(net.named_parameters())


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("target", ["0", "1.0", "1.new", "new", "2.0", "0.weight", "1.forward", "empty"])
def test_set_submodule(target, strict):
    ours, reference = [], []
    for library, out in ((nn, ours), (torch.nn, reference)):
        try:
            out += set_in(library, target, lambda library: library.Linear(1, 2), strict)
        except AttributeError:
            out.append("refused")
    assert ours == reference


def test_what_set_submodule_refuses():
    with pytest.raises(
        ValueError, match=r"Sequential\.set_submodule: the target is empty; expected the name of a part"
    ):
        nn.Sequential().set_submodule("", nn.Tanh())
    with pytest.raises(
        TypeError, match=r"Sequential\.set_submodule: module has the wrong type; expected a Module, got int"
    ):
        nn.Sequential().set_submodule("0", 3)
    with pytest.raises(
        AttributeError, match=r"Sequential\.set_submodule: '0' is not a module; expected a module to replace, got N"
    ):
        nn.Sequential().set_submodule("0", nn.Tanh(), strict=True)


def test_apply_with_one_callable_visits_as_torch():
    order = {"ours": [], "torch": []}
    net, reference = ours(), theirs()
    assert net.apply(lambda m: order["ours"].append(type(m).__name__)) is net
    reference.apply(lambda m: order["torch"].append(type(m).__name__))
    assert order["ours"] == order["torch"]


# ------------------------------------------------------------------------------------------------------ containers


def test_lists_and_dicts_behave_as_torchs():
    def use(library):
        layers = library.ModuleList([library.Linear(1, 1), library.Tanh()])
        layers.append(library.ReLU()).extend([library.Sigmoid()])
        layers.insert(1, library.GELU())
        layers[0] = library.Identity()
        del layers[-2]
        layers += [library.Tanh()]
        taken = layers.pop(1)
        ordered = collections.OrderedDict([("x", library.Tanh()), ("y", library.Linear(2, 3))])
        heads = library.ModuleDict({"a": library.Tanh()})
        heads.update({"b": library.Linear(1, 2)})
        heads["c"] = library.ReLU()
        popped = heads.pop("a")
        seq = library.Sequential(ordered) + library.Sequential(library.ReLU())
        facts = [len(layers), list(heads), "b" in heads, len(heads), [n for n, _ in heads.items()], len(seq)]
        facts += [[type(m).__name__ for m in heads.values()], list(heads.keys())]
        return [*facts, *map(repr, (layers, taken, heads, popped, seq, layers[1:], library.Sequential(ordered)))]

    assert use(nn) == use(torch.nn)


# ------------------------------------------------------------------------------------------------------ to look at


def test_repr_is_torchs():
    assert repr(ours(rate=0.1)) == repr(theirs(rate=0.1))
    assert repr(ours(scan=True)) == repr(ours())

    class Empty(torch.nn.Module):
        pass

    assert repr(type("Empty", (nn.Module,), {})()) == repr(Empty())


# ------------------------------------------------------------------------------------------- an import was forgotten


def test_a_torch_module_is_told_from_ours():
    net = ours()
    with pytest.raises(
        TypeError,
        match=r"\.extra: the value is an object of torch; expected a module or .* got a torch Linear",
    ):
        net.extra = torch.nn.Linear(2, 2)
    with pytest.raises(TypeError, match=r"Sequential: .* got ReLU\. Import it from funcnet instead of torch"):
        nn.Sequential(torch.nn.ReLU())
    with pytest.raises(TypeError, match=r"Linear\.load_state_dict: .* got Linear\. Pass its \.state_dict\(\)"):
        nn.Linear(2, 2).load_state_dict(torch.nn.Linear(2, 2))
    with pytest.raises(ValueError, match=r"The expected names are in sd\['model'\]\. Load that"):
        nn.Linear(2, 2).load_state_dict({"model": torch.nn.Linear(2, 2).state_dict(), "epoch": 3})


def test_torchs_paths_import():
    import funcnet
    import funcnet.nn.functional as F
    from funcnet.nn.functional import gelu

    assert gelu is funcnet.functional.gelu and funcnet.nn.functional is F is nn.functional
    with pytest.raises(AttributeError, match="has no attribute 'distributed'"):
        _ = funcnet.distributed
    with pytest.raises(AttributeError, match=r"F\.relu_ does not exist here"):
        _ = F.relu_
