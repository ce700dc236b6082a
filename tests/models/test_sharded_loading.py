"""Each device reads only its part of the weights in a file."""

import dataclasses
import tracemalloc

import jax
import numpy as np
import pytest

from funcnet import nn, parallel, weights
from funcnet.models import bert, loading
from funcnet.nn.state_dict.sliced_array import SlicedArray

CONFIG = bert.BertConfig(
    vocab_size=4096, hidden_size=128, num_hidden_layers=2, num_attention_heads=2, intermediate_size=512
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("model")
    model = bert.BertForPreTraining(CONFIG)
    bert.save_pretrained(path, model, *model.init(jax.random.key(0)))
    return path


def assert_parts(ours, theirs, layout):
    assert jax.tree.structure(ours) == jax.tree.structure(theirs)
    for one, other, sharding in zip(*map(jax.tree.leaves, (ours, theirs, layout.shardings(theirs))), strict=True):
        assert (one.dtype, one.sharding) == (other.dtype, sharding)
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("mesh", ["fsdp=8", "data=2,fsdp=2,tensor=2", "data=8"])
@pytest.mark.parametrize("stacked", [False, True])
def test_the_arrays_are_those_of_one_device(folder, mesh, stacked):
    options = {"cls": bert.BertForPreTraining, "config": dataclasses.replace(CONFIG, scan_layers=stacked)}
    net, *whole = bert.from_pretrained(folder, **options)
    layout = parallel.make_layout(mesh)
    _, *parts = bert.from_pretrained(folder, **options, layout=layout)
    assert_parts(tuple(parts), tuple(whole), layout.for_net(net))


def test_new_heads(folder):
    cls = bert.BertForSequenceClassification
    layout = parallel.make_layout("fsdp=8")
    with pytest.warns(UserWarning, match="new weights"):
        _, params, _ = bert.from_pretrained(folder, cls, layout=layout, key=jax.random.key(3))
    with pytest.warns(UserWarning, match="new weights"):
        _, whole, _ = bert.from_pretrained(folder, cls, key=jax.random.key(3))
    assert_parts(params["bert"], whole["bert"], layout.for_net(bert.BertModel(CONFIG)))
    np.testing.assert_array_equal(params["classifier"]["weight"], whole["classifier"]["weight"])


def test_buffers_that_no_file_contains(tmp_path):
    net = nn.Sequential(nn.Linear(64, 256), nn.Linear(256, 64))
    net.register_buffer("ids", nn.Buffer((5,), lambda key, shape, dtype: 7 * np.ones(shape, dtype)), persistent=False)
    params, state = net.init(jax.random.key(0))
    layout, path = parallel.make_layout("fsdp=8"), tmp_path / "net.safetensors"
    weights.save(path, net.state_dict(params, state))
    assert_parts(loading.load(path, net, layout=layout), (params, state), layout.for_net(net))
    weights.save(path, {name: a for name, a in net.state_dict(params, state).items() if not name.startswith("1")})
    naming = loading.Naming(heads=("1",))
    with pytest.warns(UserWarning, match="new weights"):
        found = loading.load(path, net, naming, layout=layout)
    assert_parts(found, (params, state), layout.for_net(net))


def test_the_host_has_one_slice_at_a_time(folder, monkeypatch):
    read = []
    get = SlicedArray.__getitem__

    def recorded(self, index):
        read.append((found := get(self, index)).nbytes)
        return found

    monkeypatch.setattr(SlicedArray, "__getitem__", recorded)
    layout = parallel.make_layout("fsdp=8")
    tracemalloc.start()
    _, params, _ = bert.from_pretrained(folder, bert.BertForPreTraining, layout=layout)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    whole = sum(leaf.nbytes for leaf in jax.tree.leaves(params))
    table = 4096 * 128 * 4
    assert max(read) <= max(table // 8, 512 * 128 * 4), (
        "BERT's position table, whose rows are not divided, is the other"
    )
    assert peak < table, f"of {whole} bytes, the host had {peak}"
    assert params["bert"]["embeddings"]["word_embeddings"]["weight"].addressable_shards[0].data.nbytes == table // 8


@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_slices_are_cast_and_checked(tmp_path, dtype):
    net = nn.Linear(64, 256)
    params, _ = net.init(jax.random.key(0))
    arrays = {name: np.asarray(array, dtype) for name, array in params.items()}
    arrays["bias"][3] = np.inf
    weights.save(tmp_path / "net.safetensors", arrays)
    layout = parallel.make_layout("fsdp=8")
    with pytest.warns(UserWarning, match=r"NaN or infinite in bias"):
        ours = loading.load(tmp_path / "net.safetensors", net, layout=layout)
    with pytest.warns(UserWarning, match=r"NaN or infinite in bias"):
        theirs = loading.load(tmp_path / "net.safetensors", net)
    assert_parts(ours, theirs, layout.for_net(net))
