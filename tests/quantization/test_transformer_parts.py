"""Softmax, products of matrices and layer normalisation against LiteRT, the latter against float64 too."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from funcnet.export.tflite.export import run_tflite
from funcnet.export.tflite.operators import model_of
from funcnet.quantization import QParams, QuantizedNet, QuantizedNode, QuantizedValue
from funcnet.quantization.batch_products import batch_matmul
from funcnet.quantization.layer_norm import layer_norm
from funcnet.quantization.softmax import softmax
from tests.quantization.tflite_models import KERNELS, Operator, Tensor, build, options, run

OUT = QParams(1 / 256, -128, "int8")


def draw(rng, least=-6.0, most=0.5, zero=None):
    return QParams(
        float(np.exp(rng.uniform(least, most))), int(rng.integers(-128, 128)) if zero is None else zero, "int8"
    )


@pytest.mark.parametrize("kernel", ["reference", "xnnpack"])
def test_softmax(kernel):
    rng = np.random.default_rng(0)
    for index in range(60):
        qparams, width = draw(rng), [1, 3, 8, 16, 77, 128][index % 6]
        x = rng.integers(-128, 128, (20, width)).astype(np.int8)
        if index % 3 == 0:
            x = np.clip(20 * rng.normal(size=x.shape), -128, 127).astype(np.int8)
        operator = Operator("SOFTMAX", (0,), (1,), options("SoftmaxOptions", beta=1.0), 2)
        model = build([Tensor(x.shape, qparams), Tensor(x.shape, OUT)], [operator], (0,), (1,))
        np.testing.assert_array_equal(softmax(x, qparams, kernel), run(model, x, kernels=KERNELS[kernel])[0])


@pytest.mark.slow
@pytest.mark.parametrize("kernel", ["reference", "xnnpack"])
@pytest.mark.parametrize("zero", [0, None])  # XNNPACK takes the products whose second array has the zero point 0
def test_batch_matmul(kernel, zero):
    rng = np.random.default_rng(1)
    for index in range(20):
        a, b, width = draw(rng, most=0), draw(rng, most=0, zero=zero), [8, 32, 300, 64][index % 4]
        out = QParams(a.scale * b.scale * float(np.exp(rng.uniform(0.1, 9))), int(rng.integers(-128, 128)), "int8")
        x = rng.integers(-128, 128, (2, 3, 67, width)).astype(np.int8)
        y = rng.integers(-128, 128, (2, 3, 61, width)).astype(np.int8)
        fields = options("BatchMatMulOptions", adjX=False, adjY=True)
        tensors = [Tensor(x.shape, a), Tensor(y.shape, b), Tensor((2, 3, 67, 61), out)]
        model = build(tensors, [Operator("BATCH_MATMUL", (0, 1), (2,), fields, 3)], (0, 1), (2,))
        theirs = run(model, x, y, kernels=KERNELS[kernel])[0]
        ours = jax.jit(batch_matmul, static_argnums=(2, 3, 4, 5))(x, y, a, b, out, kernel)
        np.testing.assert_array_equal(ours, theirs)


def test_layer_norm_is_the_real_one():
    rng = np.random.default_rng(2)
    for width in (1, 8, 384, 1024):
        x = (rng.normal(3, 4, (50, width)) * np.exp(rng.normal(size=(50, 1)))).astype(np.float32)
        x[0], x[1:10, 0] = 0.0, 200.0  # a row of zeros; an outlier, as in the residual stream of transformers
        weight, bias = rng.normal(1, 0.4, width).astype(np.float32), rng.normal(size=width).astype(np.float32)
        weight[0] = 0.0
        real = x.astype(np.float64)
        centred = real - real.mean(-1, keepdims=True)
        expected = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * weight + bias
        ours = np.asarray(layer_norm(x, weight, bias))
        assert ours.dtype == np.float32
        # mean and variance are those of integers with 12 to 15 bits
        np.testing.assert_allclose(ours, expected, rtol=1e-3, atol=2e-3)


@pytest.mark.parametrize("kernel", ["reference", "xnnpack"])
@pytest.mark.parametrize("width", [1, 32, 100, 384])
def test_layer_norm_has_the_bits_of_litert(kernel, width):
    rng = np.random.default_rng(3)
    weight, bias = rng.normal(1, 0.3, width).astype(np.float32), rng.normal(size=width).astype(np.float32)
    x = (rng.normal(0.1, 1, (500, width)) * np.exp(3 * rng.normal(size=(500, 1)))).astype(np.float32)
    x[0], x[1:20, 0] = 0.0, 300.0
    row = QuantizedValue((width,), "float32")
    whole = QuantizedValue(x.shape, "float32")
    node = QuantizedNode("layer_norm", (0, 1, 2), 3, {"eps": 1e-12})
    net = QuantizedNet(kernel, (whole, row, row, whole), (node,), (0,), (3,), {1: weight, 2: bias}, 0)
    theirs = run_tflite(model_of(net), [x], kernel)[0]
    np.testing.assert_array_equal(np.asarray(net(x)).view(np.int32), theirs.view(np.int32))


WRONG = [
    (lambda x: softmax(x, QParams(0.1, 0, "int8"), "fast"), "softmax: unknown kernel"),
    (lambda x: softmax(x.astype(jnp.uint8), QParams(0.1, 0, "uint8")), "softmax: x does not fit"),
    (lambda x: batch_matmul(x, x[:, :3], OUT, OUT, OUT), "batch_matmul: the shapes do not fit"),
    (lambda x: batch_matmul(x, x, *[QParams(9.0, 0, "int8")] * 3), "batch_matmul: a scale . b scale / output scale"),
    (lambda x: batch_matmul(x, x, OUT, OUT, OUT, "fast"), "batch_matmul: unknown kernel"),
    (lambda x: layer_norm(x, jnp.ones(4), jnp.ones(4)), "layer_norm: the arrays do not fit; expected float32"),
    (lambda x: layer_norm(jnp.ones((2, 4)), jnp.ones(3), jnp.ones(3)), "layer_norm: the arrays do not fit"),
    (
        lambda x: layer_norm(x.astype(jnp.float32), jnp.ones(4), jnp.ones(4), 0.0),
        "layer_norm: D or eps is out of range",
    ),
]


@pytest.mark.parametrize("function, message", WRONG, ids=[message for _, message in WRONG])
def test_bad_arguments(function, message):
    with pytest.raises(ValueError, match=message):
        function(jnp.zeros((2, 4), jnp.int8))
