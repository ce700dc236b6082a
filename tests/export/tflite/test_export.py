"""Nets of integers against LiteRT: every tensor of the file, byte for byte, and the errors of the export."""

import jax
import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter, OpResolverType

from funcnet import nn
from funcnet.export.tflite import to_tflite
from funcnet.export.tflite.export import run_tflite
from funcnet.models import resnet
from funcnet.quantization import calibrate, convert
from tests.quantization.nets import Pieces, images, quantized


def every_tensor(path, arrays):
    """Run LiteRT's plain kernels, and return {name: entries} of all tensors."""
    session = Interpreter(
        str(path), experimental_op_resolver_type=OpResolverType.BUILTIN_REF, experimental_preserve_all_tensors=True
    )
    session.allocate_tensors()
    for detail, array in zip(session.get_input_details(), arrays, strict=True):
        session.set_tensor(detail["index"], np.asarray(array))
    session.invoke()
    return {one["name"]: session.get_tensor(one["index"]) for one in session.get_tensor_details() if one["name"]}


def compare_every_tensor(net, path, arrays):
    """Compare the output of every operation, whatever its order of dimensions, and return the number of entries."""
    theirs, compared = every_tensor(path, arrays), 0
    names = {number: f"output_{place}" for place, number in enumerate(net.outputs)}
    inner = net.__class__(
        net.kernel,
        net.values,
        net.nodes,
        net.inputs,
        tuple(node.output for node in net.nodes),
        net.constants,
        list(range(len(net.nodes))),
    )
    for node, ours in zip(net.nodes, inner(*arrays), strict=True):
        ours, found = np.asarray(ours), theirs[names.get(node.output, f"value{node.output}")]
        assert found.dtype == ours.dtype
        ours = ours.transpose(0, 2, 3, 1) if found.shape != ours.shape else ours
        other = ours.transpose(0, 2, 3, 1) if ours.ndim == 4 and ours.shape[1:] == (ours.shape[1],) * 3 else ours
        assert np.array_equal(found, ours) or np.array_equal(found, other), node
        compared += ours.size
    return compared


def test_numbers_of_64_bits(tmp_path):
    """As JAX does, with what NumPy draws and tokenizers return."""
    net, x = nn.Sequential(nn.Linear(3, 4), nn.ReLU()), np.random.default_rng(0).normal(size=(2, 3))
    assert to_tflite(quantized(net, x)[0], tmp_path / "net.tflite", x).differing == 0
    net, ids = nn.Sequential(nn.Embedding(7, 8), nn.Linear(8, 4)), np.array([[3, 0, 6]])
    made, _, _ = quantized(net, ids)
    assert to_tflite(made, tmp_path / "net.tflite", ids).differing == 0
    (got,) = run_tflite((tmp_path / "net.tflite").read_bytes(), [ids])
    np.testing.assert_array_equal(got, made(ids))
    with pytest.raises(TypeError, match=r"to_tflite: a batch is not an array; .* got list"):
        to_tflite(made, tmp_path / "net.tflite", [[3, 0, 6]])


@pytest.mark.slow
@pytest.mark.parametrize("kernel", ["reference", "xnnpack"])
def test_every_operation_of_a_convolutional_net(tmp_path, kernel):
    x = images()
    net, _, _ = quantized(Pieces(), x, kernel=kernel)
    done = to_tflite(net, tmp_path / "net.tflite", x)
    assert done.differing == 0 and done.compared == 4 * 17
    assert done.size == (tmp_path / "net.tflite").stat().st_size
    assert to_tflite(net, tmp_path / "net.tflite").differing == 0  # drawn inputs cover the whole range
    if kernel == "reference":
        assert compare_every_tensor(net, tmp_path / "net.tflite", [x]) > 20_000


CASES = [
    (nn.Sequential(nn.Conv1d(3, 4, 3, padding=1), nn.BatchNorm1d(4), nn.ReLU(), nn.MaxPool1d(2)), (2, 3, 8)),
    (nn.Sequential(nn.Conv1d(3, 4, 3, stride=2, dilation=2), nn.AvgPool1d(2)), (2, 3, 15)),
    (nn.Sequential(nn.BatchNorm2d(3), nn.ReLU(), nn.Conv2d(3, 4, (3, 2), padding=(2, 0), bias=False)), (1, 3, 7, 9)),
    (nn.Sequential(nn.Conv2d(3, 4, 3, padding="same"), nn.Hardtanh(), nn.Flatten(), nn.Linear(100, 3)), (2, 3, 5, 5)),
    (nn.Sequential(nn.Linear(6, 7), nn.GELU(approximate="tanh"), nn.Linear(7, 2), nn.Sigmoid()), (2, 5, 6)),
    (nn.Sequential(nn.Conv2d(1, 1, 3), nn.MaxPool2d(3, 2, 1), nn.AdaptiveAvgPool2d(1)), (2, 1, 9, 9)),
    (nn.Sequential(nn.AvgPool2d(3, 2, 1, count_include_pad=False), nn.ReLU6()), (2, 3, 9, 9)),
    (nn.Sequential(nn.Conv2d(3, 4, 1), nn.MaxPool2d(2), nn.AvgPool2d(2)), (1, 3, 15, 11)),  # the rest is left out
    (nn.Sequential(nn.MaxPool1d(3), nn.AvgPool1d(2), nn.Conv1d(3, 4, 1)), (1, 3, 17)),
]


@pytest.mark.slow
@pytest.mark.parametrize("kernel", ["reference", "xnnpack"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(type(m).__name__ for m in case[0].children()))
def test_small_nets(tmp_path, case, kernel):
    net, shape = case
    x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    integers, params, state = quantized(net, x, kernel=kernel)
    assert to_tflite(integers, tmp_path / "net.tflite", x).differing == 0
    assert to_tflite(integers, tmp_path / "net.tflite").differing == 0
    expected = net.apply(params, state, x)[0]
    assert np.abs(integers(x) - expected).max() < 0.03 * np.abs(expected).max()


@pytest.mark.slow
@pytest.mark.parametrize("kernel", ["reference", "xnnpack"])
@pytest.mark.parametrize("gamma", [1e-6, 1e-20])
def test_a_batch_norm_with_a_tiny_weight(tmp_path, gamma, kernel):
    """The folded weights are tiny, and the bias is not."""
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU())
    params, state = net.init(jax.random.key(0))
    params["1"]["weight"] = params["1"]["weight"].at[1].set(gamma)
    params["1"]["bias"] = params["1"]["bias"].at[1].set(0.7)
    x = np.random.default_rng(0).normal(size=(2, 3, 8, 8)).astype(np.float32)
    ranges = calibrate(net, params, state, [x])
    integers = convert(net, params, state, ranges, x, kernel)
    expected = net.apply(params, state, x)[0]
    assert np.abs(integers(x) - expected)[:, 1].max() <= ranges["0:conv"].scale
    assert to_tflite(integers, tmp_path / "net.tflite", x).differing == 0
    assert to_tflite(integers, tmp_path / "net.tflite").differing == 0


@pytest.mark.slow
@pytest.mark.parametrize("kernel", ["reference", "xnnpack"])
def test_resnet18(tmp_path, kernel):
    net, x = resnet.resnet18(num_classes=100), images(2, 3, 96)
    integers, params, state = quantized(net, x, kernel=kernel)
    assert to_tflite(integers, tmp_path / "net.tflite", x).differing == 0
    if kernel == "reference":
        assert compare_every_tensor(integers, tmp_path / "net.tflite", [x]) > 1_000_000
    assert (tmp_path / "net.tflite").stat().st_size < 11.7e6  # a quarter of 46.8 MB in float32
    expected = net.apply(params, state, x)[0]
    assert np.abs(integers(x) - expected).max() < 0.1 * np.abs(expected).max()


@pytest.mark.slow
def test_a_net_without_transposes_where_the_bytes_are_the_same(tmp_path):
    x = images(1, 1, 8)
    integers, _, _ = quantized(nn.Sequential(nn.Conv2d(1, 4, 8), nn.ReLU(), nn.Flatten(), nn.Linear(4, 2)), x)
    assert to_tflite(integers, tmp_path / "net.tflite", x).differing == 0
    session = Interpreter(str(tmp_path / "net.tflite"))
    assert "TRANSPOSE" not in [one["op_name"] for one in session._get_ops_details()]


def test_wrong_suffix_and_other_results(tmp_path, monkeypatch):
    x = np.ones((1, 4), np.float32)
    integers, _, _ = quantized(nn.Linear(4, 2), x)
    with pytest.raises(ValueError, match=r"to_tflite: the suffix is wrong; expected .tflite, got .*net.onnx"):
        to_tflite(integers, tmp_path / "net.onnx")
    other = jax.tree.map(lambda leaf: leaf, integers.constants)
    made = type(integers)(
        integers.kernel, integers.values, integers.nodes, integers.inputs, integers.outputs, other, integers.structure
    )
    monkeypatch.setattr(
        "funcnet.export.tflite.export.run_tflite", lambda model, arrays, kernel: [np.asarray(made(x)) + 1]
    )
    with pytest.raises(ValueError, match="LiteRT computes something else; expected the same bytes, got 2 of 2"):
        to_tflite(made, tmp_path / "net.tflite", x)
    assert not (tmp_path / "net.tflite").exists()
    assert to_tflite(made, tmp_path / "net.tflite", x, exact=False).differing == 2


def test_padding_that_does_not_count_has_no_operator(tmp_path):
    net = nn.Sequential(nn.Conv2d(1, 2, 1), nn.AvgPool2d(4, 4, 2, count_include_pad=False))
    integers, _, _ = quantized(net, images(1, 1, 8))
    with pytest.raises(
        ValueError, match=r"to_tflite: 1 excludes padding from the average; .* Use count_include_pad=True"
    ):
        to_tflite(integers, tmp_path / "net.tflite")
