"""The linear layer against LiteRT's FULLY_CONNECTED, the embedding against GATHER and QUANTIZE."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from funcnet.quantization import QParams, bias_qparams, embedding, linear
from funcnet.quantization.multipliers import multiply_by_quantized_multiplier, quantize_multiplier
from tests.quantization.tflite_models import (
    ACTIVATIONS,
    KERNELS,
    Operator,
    Tensor,
    all_pairs,
    build,
    options,
    random_qparams,
    run,
)


def draw(rng, outs, per_channel, terms):
    """Draw parameters with which outputs cover about their range."""
    qparams = random_qparams(rng, "int8")
    scales = np.exp(rng.uniform(-6, -2, outs)).astype(np.float32) if per_channel else float(np.exp(rng.uniform(-6, -2)))
    weight = QParams(scales, 0, "int8", 0 if per_channel else None)
    largest = qparams.scale * float(np.max(scales)) * np.sqrt(terms) * 74 * 74
    out = QParams(largest / 60 * 2 ** rng.uniform(-2, 1), int(rng.integers(-128, 128)), "int8")
    return qparams, weight, out


def fully_connected(x, weight, bias, qparams, weight_qparams, out_qparams, kernel="reference", activation=None):
    rows, outs = x.shape[0], weight.shape[0]
    tensors = [
        Tensor(x.shape, qparams),
        Tensor(weight.shape, weight_qparams, weight),
        Tensor(bias.shape, bias_qparams(qparams, weight_qparams), bias),
        Tensor((rows, outs), out_qparams),
    ]
    fields = options("FullyConnectedOptions", fusedActivationFunction=ACTIVATIONS[activation])
    model = build(tensors, [Operator("FULLY_CONNECTED", (0, 1, 2), (3,), fields, version=4)], (0,), (3,))
    return run(model, x, kernels=KERNELS[kernel])[0]


def differences(per_channel, kernel, count, seed, sizes=((1, 2), (64, 16), (300, 7))):
    rng = np.random.default_rng(seed)
    differ = 0
    for index in range(count):
        terms, outs = sizes[index % len(sizes)]
        x = rng.integers(-128, 128, (200, terms)).astype(np.int8)
        weight = rng.integers(-127, 128, (outs, terms)).astype(np.int8)
        bias = rng.integers(-5000, 5000, outs).astype(np.int32)
        qparams = draw(rng, outs, per_channel, terms)
        activation = [None, "relu", "relu6"][index % 3]
        theirs = fully_connected(x, weight, bias, *qparams, kernel, activation)
        differ += np.count_nonzero(theirs != np.asarray(linear(x, weight, bias, *qparams, kernel, activation)))
    return differ


@pytest.mark.parametrize("per_channel", [False, True], ids=["one scale", "a scale for each channel"])
@pytest.mark.parametrize("kernel", ["reference", "xnnpack"])
def test_20_layers(per_channel, kernel):
    assert differences(per_channel, kernel, 20, seed=1) == 0


@pytest.mark.slow
@pytest.mark.parametrize("per_channel", [False, True], ids=["one scale", "a scale for each channel"])
@pytest.mark.parametrize("kernel", ["reference", "xnnpack"])
def test_400_layers(per_channel, kernel):
    assert differences(per_channel, kernel, 400, seed=2) == 0


@pytest.mark.parametrize("per_channel", [False, True])
def test_the_largest_sums_are_exact(per_channel):
    """4,096 products of the largest size: the sums need 27 bits, more than float32 has."""
    rng = np.random.default_rng(3)
    x = np.full((200, 4096), -128, np.int8)
    weight = np.where(rng.uniform(size=(6, 4096)) < 0.97, 127, 126).astype(np.int8)
    bias = np.arange(6, dtype=np.int32)
    qparams = (
        QParams(0.01, 127, "int8"),
        QParams([0.01] * 6 if per_channel else 0.01, 0, "int8", 0 if per_channel else None),
    )
    out = QParams(127 * 255 * 4096 * 1e-4 / 200, 100, "int8")
    theirs = fully_connected(x, weight, bias, *qparams, out)
    np.testing.assert_array_equal(linear(x, weight, bias, *qparams, out), theirs)


def scales_where_precision_matters(roundings, count):
    """Yield parameters, an input and a weight, where a product of scales in float32 gives other integers."""
    x, weight = np.stack(all_pairs("int8"), 1), np.array([[1, 127]], np.int8)
    sums = jnp.asarray(x.astype(np.int32) @ weight[0].astype(np.int32))
    rng = np.random.default_rng(6)
    while count:
        first, second = np.exp(rng.uniform(-5, -1, 2)).astype(np.float32)
        out = np.float32(float(first) * float(second) * 16000 / rng.uniform(60, 125))
        products = float(first * second), float(first) * float(second)
        steps = [
            multiply_by_quantized_multiplier(sums, *quantize_multiplier(one / float(out)), roundings)
            for one in products
        ]
        if (steps[0] != steps[1]).any():
            count -= 1
            yield [QParams(scale, 0, "int8") for scale in (first, second, out)], x, weight


@pytest.mark.slow
def test_the_product_of_scales_is_that_in_double_precision():
    for qparams, x, weight in scales_where_precision_matters(1, 4):
        bias = np.zeros(1, np.int32)
        theirs = fully_connected(x, weight, bias, *qparams)
        np.testing.assert_array_equal(linear(x, weight, bias, *qparams), theirs)


def test_no_bias_any_rank_under_jit():
    rng = np.random.default_rng(4)
    x, weight = rng.integers(-128, 128, (2, 3, 8)).astype(np.int8), rng.integers(-127, 128, (5, 8)).astype(np.int8)
    qparams = draw(rng, 5, True, 8)
    theirs = fully_connected(x.reshape(6, 8), weight, np.zeros(5, np.int32), *qparams).reshape(2, 3, 5)
    np.testing.assert_array_equal(jax.jit(lambda x: linear(x, weight, None, *qparams))(x), theirs)


def gather(ids, weight, qparams, out_qparams):
    shape = (*ids.shape, weight.shape[1])
    tensors = [Tensor(weight.shape, qparams, weight), Tensor(ids.shape, "int32"), Tensor(shape, qparams)]
    operators = [Operator("GATHER", (0, 1), (2,), options("GatherOptions", axis=0), version=2)]
    if out_qparams is not None:
        tensors.append(Tensor(shape, out_qparams))
        operators.append(Operator("QUANTIZE", (2,), (3,)))
    return run(build(tensors, operators, (1,), (len(tensors) - 1,)), ids)[0]


@pytest.mark.parametrize("requantized", [False, True])
def test_embedding(requantized):
    rng = np.random.default_rng(5)
    ids = rng.integers(0, 50, (4, 7)).astype(np.int32)
    weight = rng.integers(-128, 128, (50, 12)).astype(np.int8)
    qparams = random_qparams(rng, "int8")
    out = random_qparams(rng, "int8", qparams, 2.0) if requantized else None
    np.testing.assert_array_equal(embedding(ids, weight, qparams, out), gather(ids, weight, qparams, out))


ONE, CHANNELS = QParams(1.0, 0, "int8"), QParams([1.0, 2.0], 0, "int8", 0)
X, WEIGHT, BIAS = jnp.zeros((2, 3), jnp.int8), jnp.zeros((2, 3), jnp.int8), jnp.zeros(2, jnp.int32)
WRONG = [
    (
        (X[:, :2], WEIGHT, BIAS, ONE, ONE, ONE),
        ValueError,
        r"x and weight do not fit; expected \(\*, in\) and \(out, in\)",
    ),
    ((X, WEIGHT, BIAS[:1], ONE, ONE, ONE), ValueError, r"bias has the wrong shape; expected \(2,\), got \(1,\)"),
    ((X, WEIGHT, jnp.zeros(2), ONE, ONE, ONE), TypeError, "bias has the wrong dtype; expected int32, got float32"),
    ((X, WEIGHT, BIAS, CHANNELS, ONE, ONE), ValueError, "linear: x has a scale for each channel"),
    ((X, WEIGHT, BIAS, ONE, QParams(1.0, 3, "int8"), ONE), ValueError, "a zero point of the weight is not 0"),
    ((X, WEIGHT, BIAS, ONE, QParams([1.0] * 3, 0, "int8", 1), ONE), ValueError, "scales of the weight do not fit"),
    ((X, WEIGHT, BIAS, ONE, ONE, QParams(1.0, 0, "uint8")), ValueError, "the dtypes do not fit; expected int8"),
    ((X, WEIGHT, BIAS, ONE, ONE, 2.0), TypeError, "out_qparams is wrong; expected QParams, got float"),
    (
        (X, WEIGHT, BIAS, ONE, QParams(2.0**20, 0, "int8"), ONE),
        ValueError,
        "range of the kernel 'reference' for sums of 3 prod",
    ),
    (
        (X, WEIGHT, BIAS, ONE, QParams(256.0, 0, "int8"), ONE, "xnnpack"),
        ValueError,
        "range of the kernel 'xnnpack'; expected",
    ),
    ((X, WEIGHT, BIAS, ONE, ONE, ONE, "fast"), ValueError, "linear: unknown kernel"),
    ((X, WEIGHT, BIAS, ONE, ONE, ONE, "reference", "gelu"), ValueError, "linear: unknown activation"),
    ((X.astype(jnp.float32), WEIGHT, BIAS, ONE, ONE, ONE), TypeError, "linear: x has the wrong dtype; expected int8"),
]


@pytest.mark.parametrize("arguments, error, message", WRONG)
def test_bad_arguments(arguments, error, message):
    with pytest.raises(error, match=message):
        linear(*arguments)


def test_bad_arguments_of_embedding():
    with pytest.raises(TypeError, match="ids are not integers; expected an integer dtype, got float32"):
        embedding(jnp.zeros(2), WEIGHT, ONE)
    with pytest.raises(ValueError, match=r"weight is not a matrix; expected \(rows, width\), got \(3,\)"):
        embedding(jnp.zeros(2, jnp.int32), WEIGHT[0], ONE)
    with pytest.raises(ValueError, match="embedding: weight has a scale for each channel"):
        embedding(jnp.zeros(2, jnp.int32), WEIGHT, CHANNELS)
