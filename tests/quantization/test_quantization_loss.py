"""`layer_losses`: ratios and shares computed again with NumPy, the layer at fault, the table and the picture."""

import math

import jax
import matplotlib.image
import numpy as np
import pytest

from funcnet import nn
from funcnet.models import bert
from funcnet.quantization import (
    LayerLosses,
    PercentileObserver,
    QParams,
    QuantizedNet,
    calibrate,
    convert,
    layer_losses,
)
from funcnet.quantization.tracing import layers_of
from tests.quantization.nets import Pieces, images, started


def decibels(exact, found):
    exact, found = np.asarray(exact, np.float64), np.asarray(found, np.float64)
    return 10 * np.log10((exact**2).sum() / ((found - exact) ** 2).sum())


def rounded(x, qparams):
    """The real numbers that the integers of an array represent, in float64."""
    steps = np.clip(np.rint(np.asarray(x, np.float64) / qparams.scale) + qparams.zero_point, -128, 127)
    return qparams.scale * (steps - qparams.zero_point)


def two_layers(per_channel=True):
    """A net of two linear layers, its params, batches, ranges and integers."""
    net = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 5))
    params, state = net.init(jax.random.key(0))
    batches = [np.random.default_rng(seed).normal(size=(8, 6)).astype(np.float32) for seed in (1, 2)]
    ranges = calibrate(net, params, state, batches)
    return net, params, batches, ranges, convert(net, params, state, ranges, batches[0], per_channel=per_channel)


@pytest.mark.slow
def test_ratios_are_those_of_numpy():
    net, params, batches, ranges, integers = two_layers()
    first, hidden, out = layer_losses(net, params, {}, integers, batches).rows
    x, whole = np.concatenate(batches), np.concatenate([integers(x) for x in batches])
    w1, b1, w2, b2 = (np.asarray(params[i][name], np.float64) for i in "02" for name in ("weight", "bias"))
    seen = np.maximum(x @ w1.T + b1, 0)
    exact = seen @ w2.T + b2
    assert out.net == pytest.approx(decibels(exact, whole), abs=0.01)
    assert first.net == first.alone == first.rounding
    assert first.net == pytest.approx(decibels(x, rounded(x, ranges["input:0"])), abs=0.01)
    assert hidden.rounding == pytest.approx(decibels(seen, rounded(seen, ranges["0:linear"])), abs=0.01)
    # alone: rounded inputs times a weight with a scale for each row; LiteRT's fixed point may differ by a step
    scales = np.abs(w2).max(1, keepdims=True) / 127
    product = rounded(seen, ranges["0:linear"]) @ (np.rint(w2 / scales) * scales).T + b2
    assert out.alone == pytest.approx(decibels(exact, rounded(product, ranges["2:linear"])), abs=0.2)
    assert out.net < out.alone < out.rounding and hidden.net == pytest.approx(hidden.alone)  # the input is rounded once


def test_clipped_shares_by_hand():
    net = nn.Linear(1, 1)
    params = {"weight": np.ones((1, 1), np.float32), "bias": np.zeros(1, np.float32)}
    x = np.float32([[-2.0], [-1.28], [-1.0], [0.5], [1.27], [1.274], [1.28], [9.0]])
    ranges = {"input:0": QParams(0.1, 0, "int8"), ":linear": QParams(0.01, 0, "int8")}
    first, out = layer_losses(net, params, {}, convert(net, params, {}, ranges, x), [x]).rows
    assert first.clipped == 0 and out.clipped == 3 / 8  # -2, 1.28 and 9; 1.274 is nearer to 1.27 than half a step
    assert (out.low, out.high) == pytest.approx((-1.28, 1.27))
    assert out.rounding == pytest.approx(decibels(x, np.clip(np.rint(x / 0.01) * 0.01, -1.28, 1.27)), abs=0.01)


@pytest.mark.slow
def test_a_row_for_every_operation():
    net, x = Pieces(), images()
    params, state = started(net, x)
    integers = convert(net, params, state, calibrate(net, params, state, [x]), x, "xnnpack")
    losses = layer_losses(net, params, state, integers, [x])
    graph = layers_of("test", net, params, state, [x])
    assert [row.name for row in losses.rows] == ["input:0", *(node.output.name for node in graph.nodes)]
    assert [row.module for row in losses.rows[1:]] == [node.layer for node in graph.nodes]
    kinds = {row.operation: row for row in losses.rows}
    assert {"conv + relu6", "gelu", "add + relu", "relu", "max_pool"} <= kinds.keys()
    assert all(20 < row.net <= row.rounding + 0.5 for row in losses.rows)
    assert kinds["max_pool"].lossless and not kinds["avg_pool"].lossless
    assert kinds["max_pool"].alone == kinds["max_pool"].rounding
    expected, found = net.apply(params, state, x)[0], integers(x)
    rows = {row.name: row for row in losses.rows}
    assert rows["out:linear"].net == pytest.approx(decibels(expected["logits"], found["logits"]), abs=0.01)


def three_convolutions(gain=1.0):
    """A net, one channel of whose second layer is larger than the others by a factor, and its inputs."""
    net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Conv2d(4, 8, 3), nn.ReLU(), nn.Conv2d(8, 4, 3))
    params, state = net.init(jax.random.key(0))
    params["2"]["weight"] = params["2"]["weight"].at[3].multiply(gain)
    params["4"]["weight"] = params["4"]["weight"].at[:, 3].divide(gain)
    return net, params, state, images(8, 1)


def losses_by_name(net, params, state, x, observer=None, per_channel=True):
    ranges = calibrate(net, params, state, [x], observer)
    integers = convert(net, params, state, ranges, x, per_channel=per_channel)
    return {row.name: row for row in layer_losses(net, params, state, integers, [x]).rows}


@pytest.mark.slow
def test_the_layer_that_reads_a_range_with_an_outlier_channel_loses():
    plain, wide = losses_by_name(*three_convolutions()), losses_by_name(*three_convolutions(100.0))
    assert wide["4:conv"].alone < plain["4:conv"].alone - 10 and wide["4:conv"].rounding > 40
    assert min(wide.values(), key=lambda row: row.alone).name == "4:conv"
    narrow = losses_by_name(*three_convolutions(100.0), PercentileObserver(95.0))
    assert narrow["2:conv"].clipped > wide["2:conv"].clipped == 0 and narrow["2:conv"].high < wide["2:conv"].high


@pytest.mark.slow
def test_one_scale_for_a_weight_with_a_wide_channel_is_not_a_matter_of_the_range():
    net, params, state, x = three_convolutions()
    params["2"]["weight"] = params["2"]["weight"].at[3].multiply(100.0)
    params["2"]["bias"] = params["2"]["bias"].at[3].set(-1e4)  # ReLU hides this channel
    many, one = (losses_by_name(net, params, state, x, per_channel=each)["2:conv"] for each in (True, False))
    assert one.rounding == many.rounding and one.alone < many.alone - 10 and one.net < many.net


@pytest.mark.slow
def test_a_net_from_a_file_has_the_same_losses(tmp_path):
    net, params, batches, _, integers = two_layers()
    integers.save(tmp_path / "net.safetensors")
    again = layer_losses(net, params, {}, QuantizedNet.load(tmp_path / "net.safetensors"), batches)
    assert again.rows == layer_losses(net, params, {}, integers, batches).rows


@pytest.mark.slow
def test_a_transformer_needs_the_ranges():
    config = bert.BertConfig.preset("tiny", vocab_size=60, num_hidden_layers=1, hidden_size=32, num_attention_heads=2)
    net = bert.BertModel(config)
    params, state = net.init(jax.random.key(0))
    ids = np.random.default_rng(0).integers(0, 60, (2, 12)).astype(np.int32)
    x = ids, (np.arange(12) < [[12], [8]]).astype(np.int32), np.zeros_like(ids)
    ranges = calibrate(net, params, state, [x])
    integers = convert(net, params, state, ranges, x)
    losses = layer_losses(net, params, state, integers, [x], ranges)
    rows = {row.name: row for row in losses.rows}
    assert len(rows) == len(losses.rows) and all(row.net > 20 for row in losses.rows)
    masked = [row for row in losses.rows if row.operation in ("hide", "softmax", "batch_matmul")]
    assert [row.operation for row in masked] == ["hide", "softmax", "batch_matmul"]  # no row of the scores before
    real = [row for row in losses.rows if row.dtype == "float32"]
    assert real and all(row.low is None and row.lossless and row.rounding == math.inf for row in real)
    assert not any(row.dtype == "float32" for row in losses.worst(50))
    scaled = rows["encoder.layer.0.output.dense:linear"], rows["encoder.layer.0.output.dense:scale"]
    assert scaled[0].net == pytest.approx(scaled[1].net, abs=0.01)  # both in the units of the floating-point net
    expected, found = net.apply(params, state, *x)[0][1], integers(*x)[1]
    assert rows["pooler:table"].net == pytest.approx(decibels(expected, found), abs=0.05)
    with pytest.raises(ValueError, match="expected the ranges that convert got as the argument `ranges`, got none"):
        layer_losses(net, params, state, integers, [x])
    other = calibrate(net, *net.init(jax.random.key(1)), [x])
    with pytest.raises(ValueError, match=r"expected the scales of channels of .* in the ranges, got others"):
        layer_losses(net, params, state, integers, [x], other)


def test_what_is_refused():
    net, params, batches, _, integers = two_layers()
    with pytest.raises(ValueError, match="layer_losses: there is no batch; expected at least one, got none"):
        layer_losses(net, params, {}, integers, [])
    with pytest.raises(TypeError, match=r"layer_losses: .* expected an iterable of batches, .* got one array"):
        layer_losses(net, params, {}, integers, batches[0])
    with pytest.raises(TypeError, match="layer_losses: the number of arrays is wrong; expected 1, got 2"):
        layer_losses(net, params, {}, integers, [(batches[0], batches[0])])
    with pytest.raises(ValueError, match=r"layer_losses: input 0 has the wrong shape; expected \(8, 6\), .* \(4, 6\)"):
        layer_losses(net, params, {}, integers, [batches[0][:4]])
    with pytest.raises(TypeError, match="expected the QuantizedNet that convert returns, got Sequential"):
        layer_losses(net, params, {}, net, batches)
    with pytest.raises(
        TypeError, match="layer_losses: the ranges are wrong; expected the result of calibrate, got int"
    ):
        layer_losses(net, params, {}, integers, batches, 3)
    with pytest.raises(ValueError, match="a bad array 'input:0'; expected finite numbers, got infinity or NaN"):
        layer_losses(net, params, {}, integers, [batches[0] * np.nan])


@pytest.mark.parametrize(
    "other, message",
    [
        (
            nn.Sequential(nn.Linear(6, 5)),
            r"expected 'linear' in 0 with the shape \(8, 5\), got 'linear' in 0 .*\(8, 16\)",
        ),
        (nn.Sequential(nn.Linear(6, 16), nn.Tanh()), "expected 'table' in 1 .*, got 'linear' in 2"),
        (nn.Sequential(nn.Linear(6, 16)), "expected 1 operations, got also 'linear' in 2"),
        (
            nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 5), nn.Tanh()),
            "expected 'table' in 3 .*, got 4 operations without it",
        ),
    ],
    ids=["another width", "another operation", "shorter", "longer"],
)
def test_the_integers_of_another_net(other, message):
    _, _, batches, _, integers = two_layers()
    with pytest.raises(ValueError, match=f"layer_losses: the int8 net is that of another net .*; .*{message}"):
        layer_losses(other, *other.init(jax.random.key(0)), integers, batches)


@pytest.fixture(scope="module")
def losses():
    net, params, batches, _, integers = two_layers()
    return layer_losses(net, params, {}, integers, batches)


def test_the_table(losses):
    lines = str(losses).splitlines()
    assert lines[0].split() == ["module", "operation", "dtype", "range", "net", "alone", "rounding", "clipped"]
    assert lines[2].split()[:2] == ["input", "int8"] and "linear + relu" in lines[3]
    assert sum("<- loses most" in line for line in lines) == 1
    assert lines[-2].endswith("with the reference kernels,") and repr(losses) == str(losses)
    html = losses._repr_html_()
    assert html.count("<tr") == 4 and html.count("background:#fdd") == 1
    frame = losses.to_dataframe()
    assert list(frame["name"]) == ["input:0", "0:linear", "2:linear"] and frame["net"][2] == losses.rows[2].net


def test_the_worst_rows(losses):
    ordered = sorted(losses.rows, key=lambda row: row.alone)
    assert losses.worst(2) == tuple(ordered[:2]) and len(losses.worst()) == 3
    with pytest.raises(ValueError, match=r"LayerLosses\.worst: n is out of range; expected at least 1, got 0"):
        losses.worst(0)
    with pytest.raises(TypeError, match=r"LayerLosses\.worst: n has the wrong type; expected an int, got 1\.5"):
        losses.worst(1.5)
    assert "(root)" not in str(LayerLosses((), "reference", {}))


@pytest.mark.slow
def test_the_picture(losses, tmp_path):
    sizes = {}
    for layers in (1, 3, "2", "2:linear", ["input:0", "0"]):
        losses.draw(tmp_path / "ranges.png", layers)
        sizes[str(layers)] = matplotlib.image.imread(tmp_path / "ranges.png").shape[:2]
    assert sizes["1"] == sizes["2"] == sizes["2:linear"] == (384, 768)
    assert sizes["3"] == (720, 1536) and sizes["['input:0', '0']"] == (384, 1536)
    for layers, got in (("fc", "'fc'"), (["2", "4"], "'4'"), ([], "none")):
        with pytest.raises(ValueError, match=f"draw: unknown layers; expected names such as input:0, .*, got {got}"):
            losses.draw(tmp_path / "none.png", layers)
    with pytest.raises(TypeError, match=r"LayerLosses\.draw: layers has the wrong type; expected an int, got None"):
        losses.draw(tmp_path / "none.png", None)
    assert not (tmp_path / "none.png").exists()
