"""Loading a checkpoint into any model: names, prefixes, chosen layers, new heads, all that is wrong in one error."""

import re

import jax
import numpy as np
import pytest
import torch

from funcnet import nn, tree, weights
from funcnet.files import write_digests
from funcnet.models import loading, resnet
from tests.models import torch_resnet

SMALL = {"num_classes": 5, "in_channels": 1, "small_images": True}


def make():
    return resnet.ResNet(resnet.BasicBlock, [1, 1, 1, 1], **SMALL)


@pytest.fixture(scope="module")
def started():
    net = make()
    return jax.jit(net.init)(jax.random.key(3))


def same(a, b):
    jax.tree.map(np.testing.assert_array_equal, a, b)


@pytest.mark.parametrize("prefix", ["", "module."])
def test_torchvisions_file_into_our_resnet(tmp_path, prefix):
    """Its names are ours; DataParallel's prefix is dropped."""
    theirs = torch_resnet.resnet18()
    torch.save({f"{prefix}{name}": value for name, value in theirs.state_dict().items()}, tmp_path / "resnet.pth")
    net = resnet.resnet18()
    params, state = loading.load(tmp_path / "resnet.pth", net, resnet.NAMING)
    ours = net.state_dict(params, state)
    assert list(ours) == list(theirs.state_dict())
    for name, value in theirs.state_dict().items():
        np.testing.assert_array_equal(ours[name], value.numpy())


@pytest.mark.slow
def test_a_head_of_another_size_starts_anew(tmp_path, started):
    net = make()
    weights.save(tmp_path / "net.safetensors", net.state_dict(*started))
    other = resnet.ResNet(resnet.BasicBlock, [1, 1, 1, 1], **SMALL | {"num_classes": 7})
    found = r"ResNet has new weights, .* trained: fc\.weight \(the file's is \(5, 512\)\), fc\.bias"
    with pytest.warns(UserWarning, match=found):
        params, _ = loading.load(tmp_path / "net.safetensors", other, resnet.NAMING, reshape_heads=True)
    assert params["fc"]["weight"].shape == (7, 512)
    same({**params, "fc": 0}, {**started[0], "fc": 0})
    with pytest.raises(ValueError, match=r"mis-shaped: fc\.weight expected \(7, 512\), got \(5, 512\)"):
        loading.load(tmp_path / "net.safetensors", other, resnet.NAMING)


def test_a_head_that_the_file_lacks(tmp_path, started):
    net = make()
    arrays = {n: a for n, a in net.state_dict(*started).items() if not n.startswith("fc.")}
    weights.save(tmp_path / "net.safetensors", arrays | {"decoder.weight": np.ones(2, np.float32)})
    found = (
        r"new weights, .* trained: fc\.weight, fc\.bias\. "
        r"Ignored weights that the model does not have: decoder\.weight\.$"
    )
    with pytest.warns(UserWarning, match=found):
        params, state = loading.load(tmp_path / "net.safetensors", net, resnet.NAMING, key=jax.random.key(5))
    same(params["fc"], net.init(jax.random.key(5))[0]["fc"])
    same(state, started[1])
    with pytest.raises(ValueError, match=r"lacks the head of ResNet; expected fc\.weight, fc\.bias, got none"):
        loading.load(tmp_path / "net.safetensors", net, resnet.NAMING, new_heads=False)


def test_all_that_is_wrong_is_in_one_error(tmp_path, started):
    net = make()
    arrays = dict(net.state_dict(*started))
    del arrays["layer1.0.conv1.weight"], arrays["fc.bias"]
    arrays["bn1.weight"] = np.ones(3, np.float32)
    path = tmp_path / "net.safetensors"
    weights.save(path, arrays)
    with pytest.raises(ValueError, match=re.escape(f"models.load: {path}: the weights do not fit this ResNet")) as e:
        loading.load(path, net, resnet.NAMING)
    assert str(e.value).splitlines()[1:4] == [
        "  missing: layer1.0.conv1.weight",
        "  missing: fc.bias",
        "  mis-shaped: bn1.weight expected (64,), got (3,)",
    ]


class Tower(nn.Module):
    def __init__(self, layers):
        super().__init__()
        self.blocks = nn.ModuleList([nn.Linear(2, 2) for _ in range(layers)])
        self.out = nn.Linear(2, 1)


def test_another_familys_naming(tmp_path):
    """Renamed and transposed arrays, a prefix, layers chosen by pattern: all of it is data."""
    naming = loading.Naming(
        prefix="net.",
        encoder=("blocks.", "out."),
        layers=r"blocks\.\d+",
        ignored=r"^step$",
        foreign=lambda names: {n.replace("/", "."): (n, n.endswith("weight")) for n in names if "/" in n} or None,
    )
    tower = Tower(3)
    params, state = tower.init(jax.random.key(0))
    plain = {name: np.asarray(array) for name, array in tower.state_dict(params, state).items()}
    theirs = {n.replace(".", "/"): np.ascontiguousarray(a.T) if n.endswith("weight") else a for n, a in plain.items()}
    weights.save(tmp_path / "theirs.safetensors", theirs)
    same(loading.load(tmp_path / "theirs.safetensors", tower, naming)[0], params)
    weights.save(tmp_path / "ours.pt", {f"net.{n}": a for n, a in plain.items()} | {"step": np.zeros(1)})
    arrays = loading.read_arrays(tmp_path / "ours.pt", naming, "here")
    chosen, count = loading.choose_layers(arrays, ["blocks.0", "blocks.2"], naming, "here")
    small, _ = loading.fill(Tower(count), chosen, naming, "here")
    assert count == 2
    for ours, number in (("0", "0"), ("1", "2")):
        same(small["blocks"][ours], params["blocks"][number])
    assert set(tree.flatten(small)) == {name for name in plain if not name.startswith("blocks.2")}


def test_weights_that_are_nan_are_reported(tmp_path, started):
    net = make()
    arrays = dict(net.state_dict(*started))
    arrays["fc.bias"] = np.full(5, np.nan, np.float32)
    weights.save(tmp_path / "net.safetensors", arrays)
    with pytest.warns(UserWarning, match=r"weights are NaN or infinite in fc\.bias, so the model"):
        loading.load(tmp_path / "net.safetensors", net, resnet.NAMING)


def test_a_flipped_byte_in_the_weights_of_a_run_is_found(tmp_path, started):
    net, file = make(), tmp_path / "model.safetensors"
    weights.save(file, net.state_dict(*started))
    write_digests(tmp_path, [file.name])
    loading.load(file, net, resnet.NAMING)
    content = bytearray(file.read_bytes())
    content[-9] ^= 1
    file.write_bytes(content)
    for path in (file, tmp_path):
        with pytest.raises(ValueError, match=r"model.safetensors has changed since it was written; expected SHA-256"):
            loading.load(path, net, resnet.NAMING)


@pytest.mark.parametrize("order", [1, -1])
def test_two_arrays_that_get_one_name(tmp_path, order):
    """The last one in the file counts, as in transformers; equal ones are no matter."""
    naming = loading.Naming(prefix="net.", encoder=("out.",), renamed=((r"\.gamma$", ".weight"),))
    net, ones = nn.ModuleDict({"out": nn.LayerNorm(2)}), np.ones(2, np.float32)
    for pair in (("out.gamma", "out.weight"), ("net.out.weight", "out.weight")):
        names = pair[::order]
        arrays = {names[0]: ones, "out.bias": ones, names[1]: 2 * ones}
        weights.save(tmp_path / "a.pt", arrays)
        with pytest.warns(
            UserWarning, match=rf"two arrays .* are 'out.weight' in the model; .* '{names[0]}' and '{names[1]}'"
        ):
            params, _ = loading.load(tmp_path / "a.pt", net, naming)
        np.testing.assert_array_equal(params["out"]["weight"], 2)
        weights.save(tmp_path / "b.pt", arrays | {names[1]: ones})
        loading.load(tmp_path / "b.pt", net, naming)
