"""`net.summary` against torch: its parameters and buffers, and `torch.utils.flop_counter`."""

from collections import OrderedDict

import jax
import jax.numpy as jnp
import numpy as np
import pandas
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from funcnet import nn
from funcnet.models.resnet import resnet18
from tests.models.torch_resnet import resnet18 as torch_resnet18

KEY = jax.random.key(0)


def test_a_resnet_costs_what_torch_counts():
    theirs, net = torch_resnet18(num_classes=10), resnet18(num_classes=10)
    x = torch.ones(2, 3, 64, 64)
    with FlopCounterMode(display=False) as counter:
        theirs.eval()(x)
    summary = net.summary(jax.ShapeDtypeStruct((2, 3, 64, 64), jnp.float32))
    total = summary.total()
    assert total.flops == counter.get_total_flops()
    assert total.parameters == sum(p.numel() for p in theirs.parameters())
    assert total.buffers == sum(b.numel() for b in theirs.buffers())
    assert total.bytes == 4 * (total.parameters + total.buffers)
    each = counter.get_flop_counts()
    root = type(theirs).__name__
    for row in summary.rows:
        if row.kind in ("Conv2d", "Linear"):
            assert row.flops == sum(each[f"{root}.{row.name}"].values()), row.name
    assert [row.name for row in summary.rows] == [name for name, _ in theirs.named_modules()]


CONVOLUTIONS = [
    ("Conv2d", (16, 8, 3), {"stride": 2}),
    ("Conv2d", (16, 16, 3), {"groups": 16}),
    ("Conv2d", (16, 8, 1), {"padding": 1, "groups": 4}),
    ("ConvTranspose2d", (16, 8, 3), {"stride": 2, "padding": 1, "output_padding": 1}),
    ("ConvTranspose2d", (16, 8, 4), {"stride": 2, "padding": 1, "groups": 2}),
    ("ConvTranspose2d", (16, 8, 3), {"dilation": 2}),
]


@pytest.mark.parametrize(("kind", "args", "kwargs"), CONVOLUTIONS)
def test_convolutions_cost_what_torch_counts_however_they_are_computed(kind, args, kwargs):
    with FlopCounterMode(display=False) as counter:
        getattr(torch.nn, kind)(*args, **kwargs)(torch.ones(4, 16, 8, 8))
    summary = getattr(nn, kind)(*args, **kwargs).summary(jnp.ones((4, 16, 8, 8)))
    assert summary.total().flops == counter.get_total_flops()


def test_lengths_that_a_forward_packs_by_stay_known():
    class Tagger(nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm = nn.LSTM(2, 3, batch_first=True)

        def forward(self, x, lengths):
            packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
            return nn.utils.rnn.pad_packed_sequence(self.lstm(packed)[0], batch_first=True)[0]

    assert Tagger().summary(jnp.ones((2, 4, 2)), np.array([2, 3])).rows[0].output == "f32[2,3,3]"


class Tied(nn.Module):
    def __init__(self, scan=False):
        super().__init__()
        self.embeddings = nn.Embedding(10, 4)
        self.layers = nn.Repeat(nn.Linear(4, 4), 3, scan=scan)
        self.unused = nn.Linear(4, 1)
        self.decoder = nn.Linear(4, 10, bias=False)
        self.decoder.weight = self.embeddings.weight
        self.unused.requires_grad_(False)

    def forward(self, ids):
        return self.decoder(self.layers(self.embeddings(ids))), ids


def test_shared_frozen_repeated_and_unused_ones():
    ids = jnp.zeros((2, 5), jnp.int32)
    loop, scan = Tied().summary(ids), Tied(scan=True).summary(ids)
    rows = {row.name: row for row in loop.rows}
    assert rows["decoder"].parameters == 0 and rows["embeddings"].parameters == 40
    assert rows["unused"] == rows["unused"].__class__("unused", "Linear", "", 5, 0, 0, 20, 5)
    assert rows[""].output == "f32[2,5,10], i32[2,5]"
    assert loop.total().parameters == scan.total().parameters == 40 + 3 * 20 + 5
    assert loop.total().flops == scan.total().flops == 3 * 2 * 10 * 16 + 2 * 10 * 40
    assert {row.name: row.flops for row in scan.rows}["layers.*"] == 3 * 2 * 10 * 16


def test_a_name_may_hold_what_marks_a_scope():
    net = nn.Sequential(OrderedDict([("user:buys/item", nn.Linear(4, 3)), ("module:x", nn.Linear(3, 1))]))
    assert [row.flops for row in net.summary(jnp.ones((1, 4))).rows] == [0, 24, 6]


def test_lazy_layers_keywords_and_training():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.LazyLinear(3)
            self.drop = nn.Dropout(0.5)

        def forward(self, x, scale, squeeze=False):
            return self.drop(self.fc(x * scale))[0 if squeeze else slice(None)]

    summary = Net().summary(np.ones((2, 7), np.float32), scale=np.float32(2), squeeze=True, training=True)
    assert summary.rows[0].output == "f32[3]" and summary.total().parameters == 24


def test_its_three_forms_say_the_same():
    summary = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8)).summary(jnp.ones((2, 4)))
    frame = summary.to_dataframe()
    assert isinstance(frame, pandas.DataFrame) and frame["parameters"].sum() == summary.total().parameters
    assert str(summary).count("\n") == 6 and summary._repr_html_().count("<tr>") == 5
    assert "BatchNorm1d" in str(summary) and "BatchNorm1d" in summary._repr_html_()
