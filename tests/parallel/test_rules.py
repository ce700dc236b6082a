"""The sharding rules of nets; what the compiler makes of them; and their messages."""

import re

import jax
import numpy as np
import pytest
from jax.sharding import PartitionSpec

from funcnet import functional as F
from funcnet import nn, optim, parallel, train
from funcnet.models import bert, resnet
from funcnet.tasks.pretraining import objective as losses
from funcnet.tasks.pretraining.task import SEQUENCES

WORDS, ROWS, LENGTH, SLOTS = 1000, 16, 64, 10


def net(**options):
    return bert.BertForPreTraining(bert.BertConfig.preset("mini", vocab_size=WORDS, **options))


def compiled(mesh, model):
    """The compiled training step, and its text."""
    layout = parallel.make_layout(mesh).for_net(model, SEQUENCES)
    optimizer = optim.bert_adamw(1e-3)
    state = jax.eval_shape(lambda: train.create(*model.init(jax.random.key(0)), optimizer))
    placed = lambda leaf, sharding: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding)
    state = jax.tree.map(placed, state, layout.shardings(state))
    zeros = lambda *shape: np.zeros(shape, np.int32)
    batch = {
        "input_ids": zeros(ROWS, LENGTH),
        "attention_mask": zeros(ROWS, LENGTH),
        "token_type_ids": zeros(ROWS, LENGTH),
        "masked_positions": zeros(ROWS, SLOTS),
        "masked_ids": zeros(ROWS, SLOTS),
        "masked_weights": np.zeros((ROWS, SLOTS), np.float32),
        "next_sentence_label": zeros(ROWS),
    }
    step = train.make_step(losses.make_objective(model), losses.counts, optimizer)
    run = parallel.parallelize(step, layout, state=state, donate=True)
    program = run.lower(state, layout.shard(batch), layout.place(jax.random.key(0))).compile()
    return program, program.as_text()


def gathered(text):
    """The shapes of all arrays that an all-gather makes."""
    return re.findall(r"= \w+\[([\d,]*)\]\S* all-gather", text)


SLOW = [pytest.mark.slow]


@pytest.mark.slow
@pytest.mark.parametrize("mesh", ["tensor=4,data=2", pytest.param("tensor=2,fsdp=2,context=2", marks=SLOW)])
def test_no_array_of_the_step_has_logits_of_the_whole_vocabulary(mesh):
    """Neither a word table nor logits: the loss works on each device's part of the words."""
    _, text = compiled(mesh, net())
    assert not re.findall(rf"\[(?:[\d,]*,)?{WORDS}(?:,[\d,]*)?\]", text)
    assert f"{WORDS // (4 if 'tensor=4' in mesh else 2)}" in text


@pytest.mark.slow
def test_with_fsdp_the_parameters_are_gathered_and_no_hidden_state():
    _, text = compiled("fsdp=8", net())
    shapes = [tuple(map(int, shape.split(","))) for shape in gathered(text) if shape]
    assert (1024, 256) in shapes or (256, 1024) in shapes
    assert not [shape for shape in shapes if ROWS in shape[:1] and len(shape) == 3 and shape[-1] == 256]


@pytest.mark.slow
@pytest.mark.parametrize("scan", [pytest.param(False, marks=SLOW), True])
def test_with_fsdp_each_device_stores_an_eighth(scan):
    model = net(scan_layers=scan)
    alone, _ = compiled("data=1", model)
    sharded, text = compiled("fsdp=8", model)
    arguments = lambda program: program.memory_analysis().argument_size_in_bytes
    assert arguments(sharded) < arguments(alone) / 4.5  # positions and biases are replicated
    if scan:  # one layer at a time is gathered, inside the loops
        assert not [shape for shape in gathered(text) if shape.startswith("4,") and shape.count(",") == 2]


@pytest.mark.slow
def test_tensor_parallelism_needs_two_exchanges_per_layer_and_direction():
    """Megatron's split: attention and feed-forward network each sum their outputs once, forward and backward."""
    _, text = compiled("tensor=4,data=2", net())
    hidden = f"f32[{ROWS // 2},{LENGTH},256]"
    sums = sum(line.count(hidden) > 0 for line in re.findall(r"= (.*?) all-reduce", text))
    assert 4 * 4 - 3 <= sums <= 4 * 4 + 2  # four layers; the embedding, and what the ends of the stack save


def test_optimizer_state_and_gradients_lie_as_their_parameters():
    model = net()
    layout = parallel.make_layout("fsdp=2,tensor=4").for_net(model, SEQUENCES)
    state = jax.eval_shape(lambda: train.create(*model.init(jax.random.key(0)), optim.bert_adamw(1e-3)))
    specs = {
        jax.tree_util.keystr(path): tuple(leaf.spec)
        for path, leaf in jax.tree_util.tree_leaves_with_path(layout.shardings(state))
    }
    query = [spec for name, spec in specs.items() if "['query']['weight']" in name]
    assert query == [("tensor", "fsdp")] * 4 * 3  # the parameter and two moments in each of four layers


class Plain(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(64, 32)
        self.encoder = nn.TransformerEncoderLayer(32, 4, 128, batch_first=True)
        self.gates = nn.GRU(32, 32, batch_first=True)
        self.out = nn.Linear(32, 3)

    def forward(self, x):
        return self.out(self.gates(self.encoder(self.table(x)))[0])


def test_any_net_of_layers_has_rules():
    model = Plain()
    params, _ = model.init(jax.random.key(0))
    rules = parallel.sharding_rules(model, params, {"fsdp": 2, "tensor": 4})
    assert rules["table.weight"] == PartitionSpec(("tensor", "fsdp"))
    assert rules["encoder.self_attn.in_proj_weight"] == PartitionSpec("tensor", "fsdp")
    assert rules["encoder.self_attn.out_proj.weight"] == PartitionSpec("fsdp", "tensor")
    assert rules["encoder.linear1.weight"] == PartitionSpec("tensor", "fsdp")
    assert rules["encoder.linear2.weight"] == PartitionSpec("fsdp", "tensor")
    assert rules["gates.weight_ih_l0"] == PartitionSpec("fsdp")
    assert rules["out.weight"] == PartitionSpec(None, "fsdp")  # 4 does not divide its 3 rows
    assert "encoder.linear2.bias" not in rules


def test_convolutions_are_sharded_by_output_channels():
    model = resnet.resnet18()
    params, _ = jax.eval_shape(model.init, jax.random.key(0))
    rules = parallel.sharding_rules(model, params, {"fsdp": 8})
    assert rules["layer4.1.conv2.weight"] == PartitionSpec("fsdp")


def test_a_user_overrides_the_rules_of_the_model():
    rules = parallel.parse_rules(["**.query.weight=-,tensor", "bert.embeddings.word_embeddings.weight=tensor,-"])
    layout = parallel.make_layout("tensor=2,fsdp=2,data=2", rules=rules).for_net(net(), SEQUENCES)
    params, _ = jax.eval_shape(net().init, jax.random.key(0))
    found = layout.shardings(params)
    layer = found["bert"]["encoder"]["layer"]["0"]["attention"]["self"]
    assert tuple(layer["query"]["weight"].spec) == (None, "tensor")
    assert tuple(layer["key"]["weight"].spec) == ("tensor", "fsdp")


@pytest.mark.parametrize(
    ("mesh", "options", "message"),
    [
        ("tensor=8", {}, r"tensor=8 does not divide the 4 attention heads .* divisor of 4 \(1, 2, 4\), got 8"),
        ("tensor=4", {"vocab_size": 998}, r"tensor=4 does not divide the 998 rows of the word table"),
    ],
)
def test_sizes_that_an_axis_does_not_divide_are_named(mesh, options, message):
    config = bert.BertConfig.preset("mini", **{"vocab_size": WORDS, **options})
    with pytest.raises(ValueError, match=message):
        parallel.make_layout(mesh).for_net(bert.BertForPreTraining(config))


def test_a_length_that_context_does_not_divide_is_named():
    layout = parallel.make_layout("context=8").for_net(net(), SEQUENCES)
    with pytest.raises(ValueError, match=r"context=8 does not divide the length .* got 60. Use a length of 56 or 64"):
        layout.shard({"input_ids": np.zeros((2, 60), np.int32)})


class Attends(nn.Module):
    """A module that calls the function of attention itself."""

    shards_sequences = True

    def forward(self, x):
        return F.scaled_dot_product_attention(x, x, x)


SHAPES = {"ids": (4, 8), "vectors": (4, 12, 3), "shifted": (4, 9), "labels": (4,), "none": (4, 0), "image": (4, 3, 8)}


def sharded_by_length(layout):
    """The leaves of a batch of these shapes that are sharded along `context`; all leaves are sharded by rows."""
    placed = layout.shard({name: np.zeros(shape, np.int32) for name, shape in SHAPES.items()})
    specs = {name: tuple(array.sharding.spec) for name, array in placed.items()}
    assert {spec[0] for spec in specs.values()} == {"data"}
    return [name for name, spec in specs.items() if spec[1:] == ("context",)]


@pytest.mark.parametrize("module", [nn.MultiheadAttention(8, 2), nn.TransformerEncoderLayer(8, 2), Attends()])
def test_sequences_are_found_by_their_length(module):
    layout = parallel.make_layout("data=2,context=4")
    assert sharded_by_length(layout.for_net(module)) == ["ids", "vectors"]
    assert sharded_by_length(layout.for_net(module, ("ids",))) == ["ids"]


def test_a_named_sequence_without_a_length_is_refused():
    layout = parallel.make_layout("data=2,context=4").for_net(Attends(), ("labels",))
    with pytest.raises(ValueError, match=r"'labels' is no sequence; expected .*, got .* int32\[4\]"):
        sharded_by_length(layout)


@pytest.mark.parametrize(
    ("module", "sequences", "advice"),
    [
        (nn.Linear(8, 8), None, "set shards_sequences = True in the class"),
        (Attends(), (), "name the sequences of the batch"),
    ],
)
def test_a_net_that_splits_no_sequences_is_an_error(module, sequences, advice):
    with pytest.raises(ValueError, match=rf"no sequence of .*'context'.* Use data in its place, or {advice}"):
        parallel.make_layout("data=2,context=4").for_net(module, sequences)


@pytest.mark.parametrize(
    ("mesh", "axis"), [("context=2,data=4", "context"), ("tensor=2", "tensor"), ("data=4,fsdp=2", "fsdp")]
)
def test_an_axis_without_use_is_an_error(mesh, axis):
    what = "sequence" if axis == "context" else "parameter"
    with pytest.raises(
        ValueError, match=rf"no {what} of BatchNorm1d is sharded along the mesh axis '{axis}'; expected"
    ):
        parallel.make_layout(mesh).for_net(nn.BatchNorm1d(4))


@pytest.mark.parametrize("text", ["fc.weight", "=tensor", "fc=1", "fc=tensor,,", "fc=-+tensor"])
def test_rules_of_another_form_are_refused(text):
    with pytest.raises(ValueError, match="is not a sharding rule; expected PATTERN=AXES"):
        parallel.parse_rules([text])
    with pytest.raises(ValueError, match="is not a sharding rule"):
        parallel.parse_rules(["fc=tensor", "fc=fsdp"])


@pytest.mark.slow
def test_the_report_has_the_bytes_of_the_devices():
    model = net()
    layout = parallel.make_layout("fsdp=2,tensor=2,data=2").for_net(model, SEQUENCES)
    params, _ = model.init(jax.random.key(0))
    lines = parallel.sharding_report(params, layout.shardings(params)).splitlines()
    placed = layout.place(params)
    bytes_of_a_device = sum(leaf.addressable_shards[0].data.nbytes for leaf in jax.tree.leaves(placed))
    assert lines[-1].split()[-1] == f"{bytes_of_a_device:,}"
    assert any(line.startswith("bert.encoder.layer.*.attention.self.query.weight") for line in lines)
