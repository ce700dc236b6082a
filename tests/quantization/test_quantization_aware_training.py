"""Training aware of the rounding: keyword arguments, masks of truth values, constant arrays, and `train.fit`."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from funcnet import nn
from funcnet.models import bert
from funcnet.quantization import QuantizationAware, calibrate, convert
from funcnet.train import fit


@pytest.fixture(scope="module")
def pretrained():
    """(net, params, state, inputs): a small BERT, and a batch."""
    net = bert.BertForPreTraining(bert.BertConfig.preset("tiny", vocab_size=60, num_hidden_layers=1))
    params, state = net.init(jax.random.key(0))
    random = np.random.default_rng(0)
    ids = random.integers(0, 60, (2, 12)).astype(np.int32)
    mask = np.arange(12) < np.array([[12], [7]])
    return net, params, state, {"input_ids": ids, "attention_mask": mask, "token_type_ids": ids % 2}


@pytest.mark.slow
def test_keyword_arguments_are_those_of_the_net(pretrained):
    net, params, state, inputs = pretrained
    arrays = tuple(inputs.values())
    ranges = calibrate(net, params, state, [arrays])
    aware = QuantizationAware(net, ranges)
    _, buffers = aware.init(jax.random.key(0))
    model = {"net": params}, {**buffers, "net": state}
    by_name, _ = aware.apply(*model, inputs["input_ids"], **{name: inputs[name] for name in list(inputs)[1:]})
    by_place, _ = aware.apply(*model, *arrays)
    jax.tree.map(np.testing.assert_array_equal, by_name, by_place)


@pytest.mark.slow
def test_a_mask_may_be_of_truth_values(pretrained):
    net, params, state, inputs = pretrained
    arrays = tuple(inputs.values())
    numbers = tuple(array.astype(np.int32) for array in arrays)
    assert calibrate(net, params, state, [arrays]) == calibrate(net, params, state, [numbers])


@pytest.mark.slow
@pytest.mark.parametrize("value", [0.0, 3.0])
def test_arrays_of_one_value(value):
    """A range of no width, as of a layer whose weights are all zero, is no reason to fail."""
    net, x = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1)), np.full((1, 2), value, np.float32)
    params, state = net.init(jax.random.key(0))
    params = jax.tree.map(jnp.zeros_like, params)
    ranges = calibrate(net, params, state, [x])
    assert float(convert(net, params, state, ranges, x)(x)[0, 0]) == 0.0
    aware = QuantizationAware(net, ranges)
    _, buffers = aware.init(jax.random.key(0))
    out, _ = aware.apply({"net": params}, {**buffers, "net": state}, x, training=True)
    assert float(out[0, 0]) == 0.0


def test_fit_trains_it(tmp_path):
    """`train.fit` trains a net that rounds, and its result converts to integers."""
    x = np.random.default_rng(0).normal(size=(256, 2)).astype(np.float32)
    data = {"x": x, "y": (x @ np.float32([[1.0], [-2.0]])).astype(np.float32)}
    net = nn.Linear(2, 1)
    params, state = net.init(jax.random.key(0))
    aware = QuantizationAware(net, calibrate(net, params, state, [x]), averaging_constant=0.2)
    _, buffers = aware.init(jax.random.key(0))
    loss = lambda model, batch: (model(batch["x"]) - batch["y"]) ** 2
    start = {"net": params}, {**buffers, "net": state}
    fitted = fit(aware, loss, data, optax.sgd(0.1), out=tmp_path / "run", steps=100, batch_size=256, start=start)
    ranges = aware.ranges(fitted.state)
    integers = convert(net, fitted.params["net"], fitted.state["net"], ranges, x)
    error = np.abs(np.asarray(integers(x)) - data["y"])
    assert error.mean() < 2 * ranges[":linear"].scale
    untrained = convert(net, params, state, calibrate(net, params, state, [x]), x)
    assert np.abs(np.asarray(untrained(x)) - data["y"]).mean() > 0.5
