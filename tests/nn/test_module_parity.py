"""A description is built, walked and printed as torch does it."""

import collections

import jax.numpy as jnp
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
