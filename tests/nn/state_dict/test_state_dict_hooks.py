"""Hooks, extra state and versions of state_dicts: one class body, made with torch and with ours, says the same."""

import copy
from collections import OrderedDict

import jax
import numpy as np
import pytest
import torch

from funcnet import nn

KEY = jax.random.key(0)


def made(lib, log):
    """A model whose modules log what they see, rename an old key, add and drop entries and keep extra state."""

    class Scale(lib.Module):
        _version = 3

        def __init__(self):
            super().__init__()
            start = torch.ones(2) if lib is torch.nn else np.ones(2, np.float32)
            self.gain = lib.Parameter(start)
            self.note = "fresh"

        def forward(self, x):
            return x * self.gain

        def get_extra_state(self):
            return {"note": self.note}

        def set_extra_state(self, state):
            self.note = state["note"]

    class Net(lib.Module):
        def __init__(self):
            super().__init__()
            self.scale = Scale()
            self.bn = lib.BatchNorm1d(2)

        def forward(self, x):
            return self.bn(self.scale(x))

    net = Net()

    def rename(module, sd, prefix, about, strict, missing, unexpected, errors):
        log.append(("load pre", type(module).__name__, sorted(sd), prefix, about.get("version"), strict))
        if f"{prefix}gamma" in sd:
            sd[f"{prefix}gain"] = sd.pop(f"{prefix}gamma")

    net.scale.register_load_state_dict_pre_hook(rename)
    net.register_load_state_dict_pre_hook(rename)

    def loaded(module, keys):
        log.append(("load post", type(module).__name__, list(keys.missing_keys), list(keys.unexpected_keys)))
        keys.unexpected_keys[:] = [name for name in keys.unexpected_keys if name != "step"]

    net.scale.register_load_state_dict_post_hook(loaded)
    net.register_load_state_dict_post_hook(loaded)
    net.register_state_dict_pre_hook(lambda module, prefix, keep: log.append(("pre", type(module).__name__, prefix)))

    def add(module, sd, prefix, about):
        log.append(("post", type(module).__name__, sorted(sd), prefix, dict(about)))
        sd[f"{prefix}added"] = sd.get(f"{prefix}gain", 7)

    net.scale.register_state_dict_post_hook(add)
    handle = net.register_state_dict_post_hook(add)
    return net, handle


def test_hooks_and_extra_state_run_as_in_torch():
    logs = [], []
    (theirs, their_handle), (net, handle) = made(torch.nn, logs[0]), made(nn, logs[1])
    params, state = net.init(KEY)
    theirs.scale.note = net.scale.note = "kept"
    expected, ours = theirs.state_dict(), net.state_dict(params, state)
    assert list(ours) == list(expected) and "scale.added" in ours and ours["added"] == 7
    assert ours["scale._extra_state"] == expected["scale._extra_state"] == {"note": "kept"}
    assert ours._metadata == expected._metadata and ours._metadata["bn"] == {"version": 2}

    for one in (handle, their_handle):
        one.remove()
        one.remove()
    theirs.scale.note = net.scale.note = "other"
    old = OrderedDict((name.replace("gain", "gamma"), v) for name, v in expected.items() if not name.endswith("added"))
    old["step"] = torch.tensor(5)
    old._metadata = expected._metadata
    theirs.load_state_dict(old)
    net.load_state_dict(old)
    assert net.scale.note == theirs.scale.note == "kept"
    assert "added" not in net.state_dict(params, state) and "added" not in theirs.state_dict()
    assert logs[1] == logs[0] and len(logs[0]) == 9


def test_errors_that_hooks_note_stand_with_the_others():
    net = nn.Linear(2, 2)
    net.register_load_state_dict_pre_hook(lambda module, sd, *rest: rest[-1].append("too old a file"))
    with pytest.raises(ValueError, match=r"too old a file\n.*missing: weight, bias\n.*unexpected: w"):
        net.load_state_dict({"w": np.ones(2)})
    with (
        net.register_state_dict_post_hook(lambda *seen: 1),
        pytest.raises(ValueError, match="Change the arguments of the hook in place"),
    ):
        net.state_dict(*net.init(KEY))
    net.state_dict(*net.init(KEY))


class Norms(torch.nn.Module):
    def __init__(self, lib=torch.nn):
        super().__init__()
        self.bn = lib.BatchNorm1d(2)


@pytest.mark.parametrize("version", [None, 1, 2])
def test_old_files_lack_num_batches_tracked(version):
    """torch fills it in below version 2 (files without versions are older), and misses it from then on."""
    theirs = Norms()
    old = theirs.state_dict()
    del old["bn.num_batches_tracked"]
    if version is None:
        del old._metadata
    else:
        old._metadata["bn"]["version"] = version
    net = nn.Sequential(OrderedDict(bn=nn.BatchNorm1d(2)))
    if version == 2:
        with pytest.raises(RuntimeError, match="num_batches_tracked"):
            theirs.load_state_dict(old)
        with pytest.raises(ValueError, match=r"missing: bn.num_batches_tracked"):
            net.load_state_dict(old)
    else:
        theirs.load_state_dict(old)
        assert net.load_state_dict(old)[1]["bn"]["num_batches_tracked"] == 0


def test_a_scalar_of_torch_0_3_is_one_number():
    class Gain(nn.Module):
        def __init__(self):
            super().__init__()
            self.gain = nn.Parameter(())

    assert Gain().load_state_dict({"gain": np.array([3.0], np.float32)})[0]["gain"] == 3


def test_a_wrappers_prefix_is_told_and_taken_off():
    theirs = torch.nn.DataParallel(torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3)))
    net = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    with pytest.raises(ValueError, match=r"The names begin with 'module\.'.*consume_prefix"):
        net.load_state_dict(theirs.state_dict())
    plain = nn.utils.consume_prefix_in_state_dict_if_present(theirs.state_dict(), "module.")
    assert plain._metadata == theirs.module.state_dict()._metadata
    params, _ = net.load_state_dict(plain)
    assert np.array_equal(params["0"]["weight"], theirs.module[0].weight.detach())
    torch.nn.modules.utils.consume_prefix_in_state_dict_if_present(expected := theirs.state_dict(), "module.")
    assert list(plain) == list(expected)


def test_each_layer_of_a_stack_is_seen():
    seen = []
    layer = nn.Linear(2, 2)
    layer.register_load_state_dict_pre_hook(lambda module, sd, prefix, *rest: seen.append((prefix, sorted(sd))))
    for scan in (False, True):
        net = nn.Repeat(layer, 2, scan=scan)
        sd = net.state_dict(*net.init(KEY))
        assert list(sd._metadata) == ["", "0", "1"]
        seen.clear()
        net.load_state_dict(sd)
        assert seen == [(f"{i}.", [f"{i}.bias", f"{i}.weight"]) for i in range(2)]


def linear(lib):
    """(a layer of either library, what loads a state_dict into it, what makes one)."""
    net = lib.Linear(2, 2)
    if lib is torch.nn:
        return net, net.load_state_dict, net.state_dict
    return net, net.load_state_dict, lambda: net.state_dict(*net.init(KEY))


KINDS = ["state_dict_pre_hook", "state_dict_post_hook", "load_state_dict_pre_hook", "load_state_dict_post_hook"]


@pytest.mark.parametrize("kind", KINDS)
def test_each_registration_is_one_of_its_own(kind):
    counts = []
    for lib in (torch.nn, nn):
        net, load, dump = linear(lib)
        seen = []
        hook = lambda *args, seen=seen: seen.append(1)
        first, second = (getattr(net, f"register_{kind}")(hook) for _ in range(2))
        for handle in (None, first, first, second):
            if handle is not None:
                handle.remove()
            load(OrderedDict(dump()))
            counts.append(len(seen))
        assert isinstance(first, nn.RemovableHandle) == (lib is nn)
    assert counts[:4] == counts[4:] == [2, 3, 4, 4]


def test_a_copy_of_a_net_has_hooks_of_its_own():
    net, *_ = linear(nn)
    handle = net.register_state_dict_post_hook(lambda module, sd, prefix, about: sd.clear())
    copied = copy.deepcopy(net)
    handle.remove()
    assert len(net.state_dict(*net.init(KEY))) == 2 and len(copied.state_dict(*copied.init(KEY))) == 0


def test_what_pre_hooks_give_back_is_ignored_as_in_torch():
    for lib in (torch.nn, nn):
        net, load, dump = linear(lib)
        net.register_state_dict_pre_hook(lambda *args: 1)
        net.register_load_state_dict_pre_hook(lambda module, sd, prefix, *rest: sd.pop(f"{prefix}old"))
        load({**dump(), "old": 1})
        net.register_load_state_dict_post_hook(lambda *args: 1)
        with pytest.raises((AssertionError, ValueError)):
            load({**dump(), "old": 1})


def test_names_that_a_pre_hook_adds_are_reported_as_in_torch():
    for lib in (torch.nn, nn):
        net, load, dump = linear(lib)

        def add(module, sd, prefix, about, strict, missing, unexpected, errors):
            missing.append("lost")
            unexpected.append("bad")

        handle = net.register_load_state_dict_pre_hook(add)
        seen = []
        net.register_load_state_dict_post_hook(lambda module, keys, seen=seen: seen.append(tuple(map(list, keys))))
        with pytest.raises((RuntimeError, ValueError), match=r"(?is)missing.*lost.*unexpected.*bad"):
            load(dump())
        load(dump(), strict=False)
        assert seen == [(["lost"], ["bad"])] * 2
        handle.remove()
        load(dump())
