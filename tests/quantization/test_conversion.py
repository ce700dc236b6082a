"""Calibration, conversion, checkpoints and training with rounding: what they compute, and what they refuse."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from funcnet import functional as F
from funcnet import nn, weights
from funcnet.quantization import MinMaxObserver, QParams, QuantizationAware, QuantizedNet, calibrate, convert
from funcnet.quantization.evaluation import evaluate
from funcnet.quantization.tracing import layers_of
from tests.quantization.nets import Pieces, images, quantized, started


@pytest.mark.slow
def test_the_graph_of_layers_computes_what_the_net_computes():
    net, x = Pieces(), images()
    params, state = started(net, x)
    graph = layers_of("test", net, params, state, [x])
    found = jax.tree.unflatten(graph.structure, evaluate(graph, [x]))
    expected = net.apply(params, state, x)[0]
    for name in expected:
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-5, atol=1e-6)
    assert [node.op for node in graph.nodes].count("conv") == 3  # BatchNorm is folded


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("affine", [True, False])
def test_a_folded_batch_norm_is_torch_s(bias, affine):
    torch.manual_seed(0)
    layer, norm = torch.nn.Conv2d(3, 5, 3, bias=bias), torch.nn.BatchNorm2d(5, affine=affine)
    norm.running_mean.normal_(), norm.running_var.uniform_(0.5, 2.0)
    if affine:
        torch.nn.init.normal_(norm.weight), torch.nn.init.normal_(norm.bias)
    arrays = {name: array.numpy() for name, array in torch.nn.Sequential(layer, norm).state_dict().items()}
    net = nn.Sequential(nn.Conv2d(3, 5, 3, bias=bias), nn.BatchNorm2d(5, affine=affine))
    (node,) = layers_of("test", net, *net.load_state_dict(arrays), [np.zeros((1, 3, 8, 8), np.float32)]).nodes
    fused = torch.nn.utils.fuse_conv_bn_eval(layer.eval(), norm.eval())
    for ours, theirs in zip(node.inputs[1:], (fused.weight, fused.bias), strict=True):
        np.testing.assert_allclose(ours.constant, theirs.detach().numpy(), rtol=1e-6, atol=1e-6)


def test_a_batch_norm_without_a_layer_before_is_a_depthwise_convolution():
    net, x = nn.BatchNorm2d(2), images()
    params, state = started(net, x)
    graph = layers_of("test", net, params, state, [x])
    assert [(node.op, node.settings["groups"]) for node in graph.nodes] == [("conv", 2)]
    np.testing.assert_allclose(evaluate(graph, [x])[0], net.apply(params, state, x)[0], rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_a_net_of_integers_is_near_and_pure():
    x = images()
    integers, params, state = quantized(Pieces(), x)
    expected = Pieces().apply(params, state, x)[0]
    for name, ours in integers(x).items():
        assert np.abs(ours - expected[name]).max() < 0.05 * np.abs(expected[name]).max() + 0.01
    both = jax.jit(integers.__call__)(x)
    jax.tree.map(np.testing.assert_array_equal, both, integers(x))


def test_one_scale_for_a_weight():
    net, x = nn.Linear(8, 4), np.ones((1, 8), np.float32)
    params, state = net.init(jax.random.key(0))
    ranges = calibrate(net, params, state, [x])
    scales = [
        [np.size(v.qparams.scale) for v in made.values if v.shape == (4, 8)]
        for made in (convert(net, params, state, ranges, x, per_channel=one) for one in (True, False))
    ]
    assert scales == [[4], [1]]


@pytest.mark.slow
@pytest.mark.parametrize("per_channel", [True, False])
def test_a_bias_that_is_far_larger_than_its_weights(per_channel):
    """The scale of the products would be so small that the bias leaves int32, and 1 becomes 0."""
    net, x = nn.Linear(2, 2), np.float32([[1, 2]])
    params = {"weight": jnp.array([[1.0, 1.0], [1e-7, 1e-7]]), "bias": jnp.array([0.0, 1.0])}
    ranges = calibrate(net, params, {}, [x])
    for kernel in ("reference", "xnnpack"):
        integers = convert(net, params, {}, ranges, x, kernel, per_channel=per_channel)
        np.testing.assert_allclose(integers(x), [[3, 1]], atol=3 / 255)
    aware = QuantizationAware(net, ranges, per_channel=per_channel)
    _, buffers = aware.init(jax.random.key(0))
    np.testing.assert_allclose(aware.apply({"net": params}, buffers, x)[0], [[3, 1]], atol=3 / 255)


def test_a_checkpoint_gives_the_same_net(tmp_path):
    x = images()
    integers, _, _ = quantized(Pieces(), x)
    integers.save(tmp_path / "net.safetensors")
    again = QuantizedNet.load(tmp_path / "net.safetensors")
    jax.tree.map(np.testing.assert_array_equal, again(x), integers(x))
    assert again.nodes == integers.nodes and again.values == integers.values
    assert (tmp_path / "net.safetensors").stat().st_size < integers.size + 20_000
    with pytest.raises(ValueError, match=r"the suffix is wrong; expected \.safetensors"):
        integers.save(tmp_path / "net.bin")


def test_a_file_that_is_no_checkpoint(tmp_path):
    weights.save(tmp_path / "net.safetensors", {"a": np.zeros(3, np.float32)})
    with pytest.raises(ValueError, match=r"is not a quantized net; expected a file that QuantizedNet\.save wrote"):
        QuantizedNet.load(tmp_path / "net.safetensors")


def test_a_constant_tensor():
    net, x = nn.Sequential(nn.Linear(4, 3), nn.ReLU()), np.zeros((2, 4), np.float32)
    params, state = net.init(jax.random.key(0))
    params["0"] = jax.tree.map(jnp.zeros_like, params["0"])
    integers = convert(net, params, state, calibrate(net, params, state, [x]), x)
    np.testing.assert_array_equal(integers(x), np.zeros((2, 3)))


def test_inputs_that_do_not_fit():
    integers, _, _ = quantized(nn.Linear(4, 2), np.ones((2, 4), np.float32))
    with pytest.raises(ValueError, match=r"input 0 has the wrong shape; expected \(2, 4\), .* got \(3, 4\)"):
        integers(np.ones((3, 4), np.float32))
    with pytest.raises(TypeError, match="input 0 has the wrong dtype; expected float32, got int32"):
        integers(np.ones((2, 4), np.int32))
    with pytest.raises(TypeError, match="the number of arrays is wrong; expected 1, got 2"):
        integers(np.ones((2, 4), np.float32), np.ones(3))


class Noisy(nn.Module):
    def forward(self, x):
        return x + jax.random.normal(jax.random.key(0), x.shape)


class Sine(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        return jnp.sin(self.fc(x))


class Wave(nn.Module):
    def __init__(self):
        super().__init__()
        self.wave = Sine()

    def forward(self, x):
        return F.relu(self.wave(x))


@pytest.mark.parametrize(
    "net, message",
    [
        (
            Wave(),
            r"'sin' in layer 'wave' \(Sine\) has no integer kernel; expected add, .* got 'sin'\. Run this part",
        ),
        (nn.Sequential(nn.Linear(4, 4), Noisy()), "1 draws random numbers; expected a net without randomness"),
        (nn.Sequential(nn.Repeat(nn.Linear(4, 4), 2, scan=True)), r"Use nn.Repeat\(…, scan=False\)"),
        (nn.Identity(), "output 0 is an input or a constant"),
        (nn.Sequential(nn.SiLU()), "the activation SiLU in layer '0' has no integer kernel; expected ReLU, .*got SiLU"),
        (nn.PReLU(), "the activation PReLU has no integer kernel"),
    ],
    ids=["sin", "random", "scan", "nothing", "SiLU", "PReLU"],
)
def test_nets_that_are_refused(net, message):
    params, state = net.init(jax.random.key(0))
    with pytest.raises(ValueError, match=message):
        calibrate(net, params, state, [np.ones((2, 4), np.float32)])


def test_a_refusal_says_all_that_has_to_stay_in_float():
    net, x = nn.Sequential(nn.Linear(4, 4), nn.SiLU(), Wave(), nn.Linear(4, 4), nn.Softplus()), np.ones((2, 4))
    params, state = net.init(jax.random.key(0))
    named = r"Only this has to stay in float: layer '1' \(SiLU\), layer '2\.wave' \(Sine\), layer '4' \(Softplus\)\.$"
    with pytest.raises(ValueError, match=rf"got SiLU with the operation 'mul'\. Train the net .* {named}"):
        calibrate(net, params, state, [x])
    params, state = Sine().init(jax.random.key(0))
    with pytest.raises(ValueError, match=r"Only this has to stay in float: the operation 'sin'\.$"):
        calibrate(Sine(), params, state, [x])
    many = nn.Sequential(*[nn.Softplus() for _ in range(9)])
    with pytest.raises(ValueError, match=r"layer '7' \(Softplus\), … \(9 in all\)\.$"):
        calibrate(many, *many.init(jax.random.key(0)), [x])


@pytest.mark.parametrize(
    "layer, message",
    [
        (nn.MaxPool2d(2, ceil_mode=True), r"the operation 'pad' in layer '0' \(MaxPool2d\) .* needs ceil_mode=False"),
        (nn.AvgPool2d(2, divisor_override=3), r"the operation 'reduce_window_sum' in layer '0' \(AvgPool2d\)"),
    ],
    ids=lambda one: type(one).__name__,
)
def test_poolings_that_are_refused(layer, message):
    with pytest.raises(ValueError, match=message):
        calibrate(nn.Sequential(layer), {}, {}, [np.ones((1, 1, 7, 7), np.float32)])


def test_calibrations_that_are_refused():
    net, x = nn.Linear(4, 2), np.ones((2, 4), np.float32)
    params, state = net.init(jax.random.key(0))
    with pytest.raises(ValueError, match="calibrate: there is no batch; expected at least one, got none"):
        calibrate(net, params, state, [])
    with pytest.raises(ValueError, match=r"the range of .input:0. is bad; .* not finite"):
        calibrate(net, params, state, [x * np.nan])
    with pytest.raises(TypeError, match=r"expected an iterable of batches, such as \[x\], got one array"):
        calibrate(net, params, state, x)
    with pytest.raises(TypeError, match=r"expected an iterable of batches, .* got NoneType"):
        calibrate(net, params, state, None)
    with pytest.raises(TypeError, match=r"expected an observer such as MinMaxObserver\(\), got <class"):
        calibrate(net, params, state, [x], MinMaxObserver)
    with pytest.raises(TypeError, match="a batch is not an array"):
        calibrate(net, params, state, ["text"])
    ranges = calibrate(net, params, state, [x])
    other = nn.Sequential(nn.Linear(4, 2))
    both = other.init(jax.random.key(0))
    with pytest.raises(
        ValueError, match=r"the ranges are those of another net; .* Missing: 0:linear; unexpected: :linear"
    ):
        convert(other, *both, ranges, x)
    with pytest.raises(TypeError, match=r"the range of ':linear' is wrong; expected QParams, got \(0, 1\)"):
        convert(net, params, state, {**ranges, ":linear": (0, 1)}, x)
    with pytest.raises(TypeError, match="the range of ':linear' is wrong; expected QParams with one scale"):
        convert(net, params, state, {**ranges, ":linear": QParams([1.0, 2.0], 0, "int8", axis=0)}, x)
    for dtype in ("int16", "uint8"):
        with pytest.raises(ValueError, match=f"the range of ':linear' has the wrong dtype; expected int8, got {dtype}"):
            convert(net, params, state, {**ranges, ":linear": QParams(1.0, 0, dtype)}, x)
    with pytest.raises(TypeError, match="convert: the ranges are wrong; expected the result of calibrate, got None"):
        convert(net, params, state, None, x)
    with pytest.raises(ValueError, match=r"the state is that of another module; .* \(2,\), got no buffers"):
        QuantizationAware(net, ranges).ranges({})
    with pytest.raises(ValueError, match="unknown kernel; expected 'reference' or 'xnnpack'"):
        convert(net, params, state, ranges, x, "fast")


def test_parameters_outside_of_a_kernel_s_range_are_named_with_their_layer():
    net, x = nn.Sequential(nn.Linear(4, 2)), np.ones((2, 4), np.float32)
    params, state = net.init(jax.random.key(0))
    ranges = calibrate(net, params, state, [x]) | {"0:linear": QParams(1e-12, 0, "int8")}
    with pytest.raises(ValueError, match="convert: 0 is outside of the kernel's range; linear: x scale"):
        convert(net, params, state, ranges, x)


@pytest.mark.slow
def test_training_with_rounding():
    net, x = Pieces(), images()
    params, state = started(net, x)
    aware = QuantizationAware(net, calibrate(net, params, state, [x]), averaging_constant=0.5)
    _, buffers = aware.init(jax.random.key(0))
    buffers = {**buffers, "net": state}

    def loss(params, x):
        out, new = aware.apply({"net": params}, buffers, x, training=True)
        return jnp.sum(out["logits"] ** 2), (out, new)

    (_, (out, new)), gradients = jax.jit(jax.value_and_grad(loss, has_aux=True))(params, x)
    integers = convert(net, params, state, aware.ranges(new), x)
    step = aware.ranges(new)["out:linear"].scale
    assert np.abs(out["logits"] - integers(x)["logits"]).max() <= 3 * step
    assert all(np.isfinite(leaf).all() and np.abs(leaf).max() > 0 for leaf in jax.tree.leaves(gradients))
    wide = aware.apply({"net": params}, buffers, 10 * x, training=True)[1]
    assert wide["high"][0] > 3 * buffers["high"][0]  # training moves the ranges
    still = aware.apply({"net": params}, buffers, 10 * x)[1]
    np.testing.assert_array_equal(still["high"], buffers["high"])
    with pytest.raises(ValueError, match="QuantizationAware: there are no ranges"):
        QuantizationAware(net, {})
    with pytest.raises(ValueError, match="averaging_constant is out of range; expected 0 to 1, got 2"):
        QuantizationAware(net, aware.ranges(buffers), 2)
