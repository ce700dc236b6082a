"""Convolution against LiteRT's CONV_2D and DEPTHWISE_CONV_2D, which have channels last."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from funcnet.quantization import QParams, bias_qparams, conv
from tests.quantization.test_linear import draw, scales_where_precision_matters
from tests.quantization.tflite_models import ACTIVATIONS, KERNELS, Operator, Tensor, build, options, run

PADDING = {"SAME": 0, "VALID": 1}


def litert(x, weight, bias, qparams, weight_qparams, out_qparams, shape, settings):
    """Run the operator; `shape` is that of our output."""
    stride, padding, dilation, depthwise, activation, kernels = settings
    last = lambda array: np.ascontiguousarray(np.moveaxis(array, 1, -1))
    common = {
        "padding": PADDING[padding],
        "strideH": stride[0],
        "strideW": stride[1],
        "dilationHFactor": dilation[0],
        "dilationWFactor": dilation[1],
        "fusedActivationFunction": ACTIVATIONS[activation],
    }
    if depthwise:
        kernel = np.ascontiguousarray(np.moveaxis(weight[:, 0], 0, -1)[None])  # (1, kH, kW, O)
        many = weight_qparams.axis is not None
        kernel_qparams = QParams(weight_qparams.scale, 0, "int8", 3 if many else None)
        fields = options("DepthwiseConv2DOptions", depthMultiplier=weight.shape[0] // x.shape[1], **common)
        operator = Operator("DEPTHWISE_CONV_2D", (0, 1, 2), (3,), fields, version=3)
    else:
        kernel, kernel_qparams = last(weight), weight_qparams  # (O, kH, kW, C)
        operator = Operator("CONV_2D", (0, 1, 2), (3,), options("Conv2DOptions", **common), version=3)
    n, out, height, width = shape
    tensors = [
        Tensor(last(x).shape, qparams),
        Tensor(kernel.shape, kernel_qparams, kernel),
        Tensor(bias.shape, bias_qparams(qparams, weight_qparams), bias),
        Tensor((n, height, width, out), out_qparams),
    ]
    return np.moveaxis(run(build(tensors, [operator], (0,), (3,)), last(x), kernels=KERNELS[kernels])[0], -1, 1)


def same(size, kernel, stride, dilation):
    """Return TFLite's SAME padding of one dimension: the smaller half before."""
    total = max((-(-size // stride) - 1) * stride + dilation * (kernel - 1) + 1 - size, 0)
    return total // 2, total - total // 2


def check(rng, channels, outs, groups, size, kernel, stride, dilation, padding, per_channel, activation, name):
    x = rng.integers(-128, 128, (2, channels, *size)).astype(np.int8)
    weight = rng.integers(-127, 128, (outs, channels // groups, *kernel)).astype(np.int8)
    bias = rng.integers(-3000, 3000, outs).astype(np.int32)
    qparams = draw(rng, outs, per_channel, weight[0].size)
    dimensions = zip(size, kernel, stride, dilation, strict=True)
    pads = [same(*one) for one in dimensions] if padding == "SAME" else 0
    settings = {
        "stride": stride,
        "padding": pads,
        "dilation": dilation,
        "groups": groups,
        "kernel": name,
        "activation": activation,
    }
    ours = jax.jit(lambda x: conv(x, weight, bias, *qparams, **settings))(x)
    depthwise = groups == channels > 1
    theirs = litert(x, weight, bias, *qparams, ours.shape, (stride, padding, dilation, depthwise, activation, name))
    np.testing.assert_array_equal(ours, theirs)
    return theirs.size


# channels, output channels, groups, size, kernel, stride, dilation, padding
LAYERS = [
    (3, 8, 1, (9, 7), (3, 3), (1, 1), (1, 1), "SAME"),
    (3, 8, 1, (9, 8), (3, 3), (2, 2), (1, 1), "SAME"),
    (5, 4, 1, (8, 8), (1, 1), (2, 2), (1, 1), "VALID"),
    (2, 6, 1, (12, 10), (5, 3), (1, 2), (1, 1), "VALID"),
    (4, 4, 1, (11, 9), (3, 3), (1, 1), (2, 3), "SAME"),
    (8, 6, 2, (6, 6), (3, 3), (1, 1), (1, 1), "SAME"),
    (6, 6, 6, (7, 9), (3, 3), (1, 1), (1, 1), "SAME"),
    (4, 8, 4, (8, 8), (3, 3), (2, 2), (1, 1), "SAME"),
    (4, 4, 4, (9, 9), (3, 3), (1, 1), (2, 2), "VALID"),
]


@pytest.mark.parametrize("layer", LAYERS, ids=str)
@pytest.mark.parametrize("kernel", ["reference", "xnnpack"])
def test_layers(layer, kernel):
    rng = np.random.default_rng(0)
    for index in range(4):
        check(rng, *layer, index % 2 == 0, [None, "relu"][index // 2], kernel)


def test_sums_of_more_products_than_float32_holds():
    check(np.random.default_rng(1), 600, 4, 1, (4, 4), (3, 3), (1, 1), (1, 1), "SAME", True, None, "reference")


def test_the_product_of_scales_is_that_in_double_precision():
    for qparams, x, weight in scales_where_precision_matters(2, 4):
        x, weight, bias = (
            x.reshape(16, 4096, 1, 2).transpose(0, 3, 1, 2),
            weight[:, :, None, None],
            np.zeros(1, np.int32),
        )
        ours = conv(x, weight, bias, *qparams)
        settings = (1, 1), "VALID", (1, 1), False, None, "reference"
        theirs = litert(x, weight, bias, *qparams, ours.shape, settings)
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["reference", "xnnpack"])
def test_200_random_layers(name):
    rng = np.random.default_rng(2)
    for index in range(200):
        pick = lambda low, high: int(rng.integers(low, high))
        channels = pick(1, 9)
        groups = channels if index % 3 == 0 else 1
        kernel, dilation = (pick(1, 4), pick(1, 4)), (pick(1, 3), pick(1, 3))
        stride = (pick(1, 3),) * 2 if groups > 1 else (pick(1, 3), pick(1, 3))
        size = pick(7, 13), pick(7, 13)
        padding = ["SAME", "VALID"][pick(0, 2)]
        outs = groups * pick(1, 3) if groups > 1 else pick(1, 9)
        activation = [None, "relu", "relu6", "relu_n1_to_1"][index % 4]
        check(rng, channels, outs, groups, size, kernel, stride, dilation, padding, bool(index % 2), activation, name)


def test_padding_is_the_zero_point_and_one_dimension_works():
    qparams, weights, out = QParams(1.0, 7, "int8"), QParams(1.0, 0, "int8"), QParams(1.0, 0, "int8")
    x, weight = np.full((1, 1, 3), 7, np.int8), np.array([[[1, 2, 4]]], np.int8)
    np.testing.assert_array_equal(conv(x, weight, None, qparams, weights, out, padding=2), np.zeros((1, 1, 5)))


ONE = QParams(1.0, 0, "int8")
X, WEIGHT = jnp.zeros((1, 2, 4, 4), jnp.int8), jnp.zeros((6, 2, 3, 3), jnp.int8)
WRONG = [
    ({"x": X[0]}, "x and weight do not fit"),
    ({"groups": 2}, "the channels do not fit"),
    ({"stride": 0}, "bad stride; expected 2 positive integers or one, got 0"),
    ({"padding": -1}, "bad padding"),
    ({"dilation": (1, 2, 3)}, "bad dilation"),
    ({"dilation": 2}, r"the kernel is larger than the padded input; expected at least \(5, 5\), got \(4, 4\)"),
    ({"bias": jnp.zeros(3, jnp.int32)}, "bias has the wrong shape"),
]


@pytest.mark.parametrize("change, message", WRONG, ids=str)
def test_bad_arguments(change, message):
    settings = {
        "x": X,
        "weight": WEIGHT,
        "bias": None,
        "x_qparams": ONE,
        "weight_qparams": ONE,
        "out_qparams": ONE,
    } | change
    with pytest.raises(ValueError, match=f"conv: {message}"):
        conv(**settings)
