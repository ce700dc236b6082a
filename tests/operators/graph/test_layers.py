"""The graph of every layer of `tests/layers`, beside torch's: names in order, edges, shapes, saved values."""

import dataclasses

import jax
import numpy as np
import pytest
import torch

from funcnet import operators
from tests.layers import TABLE
from tests.layers.row import Row
from tests.nn.test_layers import given, torch_forward
from tests.operators.graph.torch_graph import differences, torch_order

MODES = [pytest.param(row, mode, id=f"{row}-{mode}") for row in TABLE for mode in row.modes]

# Rows whose graph differs, with the reason.
DIFFERENT = {
    "AdaptiveLogSoftmaxWithLoss(8,12,cutoffs=…,div_value=2.0)": "shapes do not depend on the targets, as jit requires",
    "AdaptiveLogSoftmaxWithLoss(8,12,cutoffs=…,head_bias=True)": "shapes do not depend on the targets, as jit requires",
    "TripletMarginWithDistanceLoss(margin=2.0)": "the distance is a module, so the loss is opened",
    "LinearCrossEntropyLoss(4,5,bias=True)": "torch views the weight in its own shape, which is no operation in JAX",
}
# Saved values that are not compared, with the reason.
UNCOMPARED = {
    "RReLU()": {"noise": "in eval, torch leaves this memory as it is"},
    "CTCLoss()": {"result1": "the table of the forward variables is not computed"},
    "CTCLoss(0,none,True)": {"result1": "the table of the forward variables is not computed"},
    "LSTM(3,4,bias=False)": {"result3": "the private memory of oneDNN"},
    "LayerNorm(64,mean=1e4)": {"result2": "torch's own float32 is 1e-4 from float64 here"},
    "GroupNorm(2,4,mean=1e4)": {"result2": "torch's own float32 is 1e-4 from float64 here"},
}


def compared(row: Row, training: bool) -> list[str]:
    row = dataclasses.replace(row, oracle=torch.float32)
    net, params, state, inputs = given(row)
    module, _, _, outputs = torch_forward(row, training, inputs)
    order = torch_order([one for one in outputs if one.requires_grad])
    if "Conv" in row.kind and "Lazy" in row.kind:  # whose weights are drawn at the first call
        params, state = net.load_state_dict(module.state_dict())
    if not order:  # dropout that drops nothing
        return []
    forward = lambda params, inputs: net.apply(params, state, *inputs, training=training, rng=jax.random.key(1))[0]
    graph = operators.graph.backward(forward)(params, inputs)
    for ours, own in zip(jax.tree.leaves(graph.results), jax.tree.leaves(forward(params, inputs)), strict=True):
        np.testing.assert_allclose(ours, own, rtol=1e-4, atol=1e-5)  # compiled in other pieces
    return differences(graph, order, ignored=UNCOMPARED.get(str(row), {}))


@pytest.mark.filterwarnings("ignore:.*size_average")  # rows with the old names of `reduction`
@pytest.mark.parametrize(("row", "training"), MODES)
def test_the_graph_of_a_layer(row, training):
    found = compared(row, training)
    assert bool(found) == (str(row) in DIFFERENT), "\n".join(found)


def test_few_rows_differ():
    assert len(DIFFERENT) < len(TABLE) / 50
    assert (DIFFERENT.keys() | UNCOMPARED.keys()) <= {str(row) for row in TABLE}
