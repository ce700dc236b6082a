"""Each device draws only its part of the parameters, with the bits that one device draws."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from funcnet import nn
from funcnet.models import bert
from funcnet.parallel import ShardedInit, make_layout

WIDE, KEY = 256, jax.random.key(3)


def small_bert(kind=bert.BertForPreTraining, **changes):
    sizes = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 128}
    return kind(bert.BertConfig(vocab_size=1024, **sizes, **changes))


class QuickBert(bert.BertForPreTraining):
    """A BERT that starts as `funcnet pretrain` starts it."""

    def init(self, key, *example):
        params, state = super().init(key, *example)
        return bert.quick_start(params, self.config, -np.log(np.arange(self.config.vocab_size) + 2.0)), state


def started_by(initialise):
    layer = nn.Linear(WIDE, WIDE)
    initialise(layer.weight)
    return layer


NETS = {
    "bert": small_bert,
    "bert, stacked": lambda: small_bert(scan_layers=True),
    "bert, quick start": lambda: small_bert(QuickBert),
    "embedding": lambda: nn.Embedding(1024, 64, padding_idx=1),
    "lstm": lambda: nn.LSTM(64, 128, 2),
    "convolution": lambda: nn.Sequential(nn.Conv2d(64, 64, 3), nn.BatchNorm2d(64)),
    "transformer": lambda: nn.TransformerEncoderLayer(64, 2),
    "tied": lambda: tied(),
    "normal": lambda: started_by(nn.init.normal_),
    "truncated": lambda: started_by(nn.init.trunc_normal_),
    "kaiming": lambda: started_by(nn.init.kaiming_normal_),
    "eye": lambda: started_by(nn.init.eye_),
    "fixed array": lambda: fixed(),
    "part": lambda: started_by(lambda weight: nn.init.zeros_(weight[:10])),
}
MIXED = {
    "view": lambda: started_by(lambda weight: nn.init.kaiming_normal_(weight.view(-1, 2 * WIDE))),
    "orthogonal": lambda: started_by(nn.init.orthogonal_),
    "sparse": lambda: started_by(lambda weight: nn.init.sparse_(weight, sparsity=0.5)),
    "weight_norm": lambda: nn.utils.parametrizations.weight_norm(nn.Linear(WIDE, WIDE)),
    "spectral_norm": lambda: nn.utils.parametrizations.spectral_norm(nn.Linear(WIDE, WIDE)),
}


def tied():
    net = nn.Sequential(nn.Embedding(512, 128), nn.Linear(128, 512))
    net[1].weight = net[0].weight
    return net


def fixed():
    net = nn.Module()
    net.table = nn.Parameter(np.random.default_rng(0).normal(size=(1024, 16)).astype(np.float32))
    return net


def assert_drawn_alike(net, layout, key=KEY):
    init = ShardedInit(net.init, layout)
    ours, theirs = init(key), jax.jit(net.init)(key)
    assert jax.tree.structure(ours) == jax.tree.structure(theirs)
    for one, other, sharding in zip(*map(jax.tree.leaves, (ours, theirs, layout.shardings(theirs))), strict=True):
        assert (one.dtype, one.weak_type, one.sharding) == (other.dtype, other.weak_type, sharding)
        np.testing.assert_array_equal(one, other)
    return init


@pytest.mark.parametrize("name", [*NETS, *MIXED])
def test_the_bits_are_those_of_one_device(name):
    net = (NETS | MIXED)[name]()
    layout = make_layout("fsdp=8").for_net(net)
    programs = assert_drawn_alike(net, layout).lower(KEY)
    assert len(programs) == (2 if name in MIXED else 1), (
        "one device draws only arrays whose entries are not independent"
    )


@pytest.mark.slow
@pytest.mark.parametrize("mesh", ["data=2,fsdp=2,tensor=2", "tensor=2,fsdp=4", "data=8", "data=1", "data=4,fsdp=2"])
def test_on_every_mesh(mesh):
    assert_drawn_alike(net := small_bert(), make_layout(mesh).for_net(net))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["pmap", "shard_map"])
def test_replicas(kind):
    assert_drawn_alike(small_bert(), make_layout("data=8", kind=kind))


def test_keys_whose_bits_depend_on_the_sharding_are_used_on_one_device():
    net = NETS["normal"]()
    assert_drawn_alike(net, make_layout("fsdp=8").for_net(net), jax.random.key(3, impl="rbg"))


@pytest.mark.parametrize("name", [name for name in NETS if name != "part"])
def test_no_device_draws_a_whole_array(name):
    net = NETS[name]()
    (program,) = ShardedInit(net.init, make_layout("fsdp=8").for_net(net)).lower(KEY)
    text = program.compile().as_text()
    assert "[1024,64]" not in text and "[65536]" not in text and "all-gather" not in text


def test_another_key_does_not_compile_again():
    traces = []

    def init(key):
        traces.append(key)
        return {"w": jax.random.normal(key, (1024, 8))}, {}

    draw = ShardedInit(init, make_layout("fsdp=8", rules={"w": jax.sharding.PartitionSpec("fsdp")}))
    one, count = draw(jax.random.key(0)), len(traces)
    other = draw(jax.random.key(1))
    assert len(traces) == count and not jnp.array_equal(one[0]["w"], other[0]["w"])
