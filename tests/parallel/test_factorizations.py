"""All ways to divide 8 devices between data, fsdp, tensor and context: the numbers of one device, dropout on."""

import dataclasses
import itertools
import math

import jax
import numpy as np
import optax
import pytest

from funcnet import functional as F
from funcnet import nn, optim, parallel, train
from funcnet.models import bert
from funcnet.tasks.pretraining import objective as losses
from funcnet.tasks.pretraining.task import SEQUENCES
from funcnet.tasks.pretraining_data import open_data
from tests.tasks import command

AXES = ("data", "fsdp", "tensor", "context")
QUICK = [(1, 2, 2, 2)]  # the other sizes are slow tests
SIZES = [sizes for sizes in itertools.product([1, 2, 4, 8], repeat=4) if math.prod(sizes) == 8]
ROWS, LENGTH, WORDS = 16, 32, 400


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    """(net, 20 batches) of real text."""
    folder = tmp_path_factory.mktemp("text")
    corpus = command.write_corpus(folder / "corpus")
    build = ["--seq-len", str(LENGTH), "--vocab-size", str(WORDS), "--passes", "1"]
    assert command.run_here("data", "build", "--corpus", corpus, "--out", folder / "data", *build) == 0
    data = open_data(folder / "data", seq_len=LENGTH, seed=0)
    words = data.tokenizer.get_vocab_size()
    config = bert.BertConfig.preset("mini", vocab_size=words, num_attention_heads=8)
    assert config.hidden_dropout_prob == config.attention_probs_dropout_prob == 0.1
    return bert.BertForPreTraining(config), list(itertools.islice(data.train_batches(ROWS).batches(0), 20))


def trained(layout, net, objective, counts, optimizer, batches):
    """(losses, parameters, buffers) after a step for each batch."""
    params, state = jax.jit(net.init)(jax.random.key(0))
    place = layout.place(train.create(params, state, optimizer))
    step = parallel.parallelize(train.make_step(objective, counts, optimizer), layout, state=place, donate=True)
    key, found = layout.place(jax.random.key(1)), []
    for one in batches:
        place, metrics = step(place, layout.shard(one), key)
        found.append(float(metrics["loss"]))
    return np.array(found), *layout.gather((place.params, place.state))


def bert_trained(sizes, text, **options):
    net, batches = text
    net = bert.BertForPreTraining(dataclasses.replace(net.config, **options))
    layout = parallel.make_layout(dict(zip(AXES, sizes, strict=True))).for_net(net, SEQUENCES)
    optimizer = optim.bert_adamw(optim.warmup_linear_decay(1e-3, 5, 50))
    return trained(layout, net, losses.make_objective(net), losses.counts, optimizer, batches)


@pytest.fixture(scope="module")
def on_one_device(text):
    return bert_trained((1, 1, 1, 1), text)


def test_there_are_20_factorizations():
    assert len(SIZES) == 20


def marked(sizes):
    marks = [] if sizes in QUICK else [pytest.mark.slow]
    return pytest.param(sizes, marks=marks, id="x".join(map(str, sizes)))


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [marked(sizes) for sizes in SIZES])
def test_bert_trains_as_on_one_device(sizes, text, on_one_device):
    found, params, _ = bert_trained(sizes, text)
    expected, expected_params, _ = on_one_device
    assert expected[-1] < expected[0] - 0.3
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-4), params, expected_params)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sizes", "options"),
    [
        ((1, 1, 1, 1), {"attention_block_size": 5}),
        ((2, 1, 1, 4), {"context_parallel": "gather"}),
        ((2, 1, 1, 4), {"context_parallel": "gather", "attention_block_size": 8}),
        ((1, 2, 1, 4), {"scan_layers": True}),
    ],
    ids=["blocks", "gathered by the compiler", "gathered, in blocks", "ring in a scan"],
)
def test_every_form_of_attention_trains_as_on_one_device(sizes, options, text, on_one_device):
    expected = on_one_device if "scan_layers" not in options else bert_trained((1, 1, 1, 1), text, **options)
    found, params, _ = bert_trained(sizes, text, **options)
    np.testing.assert_allclose(found, expected[0], rtol=1e-5)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-4), params, expected[1])


class Conv(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 16, 3, padding=1), nn.SyncBatchNorm(16)
        self.conv2, self.bn2 = nn.Conv2d(16, 32, 3, stride=2), nn.SyncBatchNorm(32)
        self.drop, self.fc = nn.Dropout(0.2), nn.Linear(32, 10)

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)))
        x = F.relu(self.bn2(self.conv2(x)))
        return self.fc(self.drop(x.mean((2, 3))))


def conv_trained(sizes):
    net = Conv()
    layout = parallel.make_layout(sizes).for_net(net)

    def objective(params, state, batch, *, training, rng):
        logits, state = net.apply(params, state, batch["image"], training=training, rng=rng)
        return {"image": {"loss": F.cross_entropy(logits, batch["label"], reduction="sum")}}, state

    random = np.random.default_rng(0)
    image = lambda: 3 + random.standard_normal((16, 3, 10, 10)).astype(np.float32)
    batches = [{"image": image(), "label": random.integers(0, 10, 16)} for _ in range(20)]
    counts = lambda batch: {"image": batch["label"].shape[0]}
    return trained(layout, net, objective, counts, optax.sgd(0.1, momentum=0.9), batches)


@pytest.mark.parametrize("sizes", [{"data": 8}, {"data": 4, "fsdp": 2}, {"data": 2, "fsdp": 4}, {"fsdp": 8}], ids=str)
def test_convolutions_with_synchronised_batchnorm_train_as_on_one_device(sizes):
    found, expected = conv_trained(sizes), conv_trained({"data": 1})
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-5)
    for ours, theirs in zip(found[1:], expected[1:], strict=True):
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-4), ours, theirs)
