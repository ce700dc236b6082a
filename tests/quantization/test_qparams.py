"""Parameters; conversion of arrays against LiteRT's QUANTIZE and DEQUANTIZE, and torch."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
import torch.ao.quantization.fx._decomposed  # registers the operators

from funcnet.quantization import QParams, choose_qparams, dequantize, quantize
from tests.quantization.tflite_models import KERNELS, Operator, Tensor, all_values, build, random_qparams, run


def halves_and_others(qparams, rng):
    """Return numbers over three times the range of the dtype, among them halves of a step exactly."""
    low, high = np.iinfo(qparams.dtype).min, np.iinfo(qparams.dtype).max
    steps = rng.uniform(2 * low - high, 2 * high - low, 20_000)
    steps[::2] = np.floor(steps[::2]) + 0.5
    return ((steps - qparams.zero_point).astype(np.float32) * np.float32(qparams.scale)).astype(np.float32)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16"])
@pytest.mark.parametrize("wrap", [lambda function: function, jax.jit], ids=["eager", "jit"])
@pytest.mark.parametrize("kernel", ["reference", "xnnpack"])
def test_quantize_is_litert_s(dtype, wrap, kernel):
    rng = np.random.default_rng(0)
    for _ in range(40 if wrap is not jax.jit else 5):
        qparams = random_qparams(rng, dtype)
        x = halves_and_others(qparams, rng)
        model = build(
            [Tensor(x.shape, "float32"), Tensor(x.shape, qparams)], [Operator("QUANTIZE", (0,), (1,))], (0,), (1,)
        )
        ours = wrap(functools.partial(quantize, qparams=qparams, kernel=kernel))(x)
        np.testing.assert_array_equal(ours, run(model, x, kernels=KERNELS[kernel])[0])


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_dequantize_is_litert_s(dtype):
    rng = np.random.default_rng(1)
    for _ in range(40):
        qparams = random_qparams(rng, dtype)
        nodes = [Operator("DEQUANTIZE", (0,), (1,), version=2)]
        model = build([Tensor((256,), qparams), Tensor((256,), "float32")], nodes, (0,), (1,))
        np.testing.assert_array_equal(dequantize(all_values(dtype), qparams), run(model, all_values(dtype))[0])


@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor, torch.quantize_per_channel:UserWarning")
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_a_scale_for_each_channel_is_torch_s(axis):
    x = np.random.default_rng(2).normal(size=(3, 4, 5)).astype(np.float32)
    scales = np.linspace(0.01, 0.05, x.shape[axis]).astype(np.float32)
    zeros = np.arange(x.shape[axis])
    theirs = torch.quantize_per_channel(
        torch.from_numpy(x), torch.from_numpy(scales), torch.from_numpy(zeros), axis % 3, torch.qint8
    )
    qparams = QParams(scales, zeros, "int8", axis)
    ours = quantize(x, qparams, kernel="xnnpack")
    np.testing.assert_array_equal(ours, theirs.int_repr().numpy())
    np.testing.assert_array_equal(dequantize(ours, qparams), theirs.dequantize().numpy())


def test_int32_biases_and_numbers_without_a_place():
    bias = QParams(0.5, 0, "int32")
    np.testing.assert_array_equal(quantize(jnp.array([1e6, -1e6, 3e9, -3e9]), bias), [2e6, -2e6, 2**31 - 1, -(2**31)])
    one = QParams(1.0, 7, "int8")
    np.testing.assert_array_equal(quantize(jnp.array([jnp.nan, jnp.inf, -jnp.inf, 1e30]), one), [7, 127, -128, 127])


def test_the_chosen_parameters_are_torch_s():
    """torch's observers choose a range that contains 0, as we do; its scale is computed in float32."""
    rng = np.random.default_rng(3)
    for _ in range(200):
        low, high = np.sort(rng.normal(size=2) * 10.0 ** rng.uniform(-3, 3)).astype(np.float32)
        for dtype, theirs in (("int8", torch.qint8), ("uint8", torch.quint8)):
            observer = torch.ao.quantization.MinMaxObserver(dtype=theirs, quant_min=None, quant_max=None)
            observer(torch.tensor([low, high]))
            scale, zero = observer.calculate_qparams()
            ours = choose_qparams(float(low), float(high), dtype)
            np.testing.assert_allclose(ours.scale, float(scale), rtol=3e-7)
            assert abs(ours.zero_point - int(zero)) <= 1  # a half of a step, computed in float32 there


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16"])
@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("value", [5.0, -3.0, 0.0, 1e-30, 1e30])
def test_a_constant_tensor(dtype, symmetric, value):
    qparams = choose_qparams(value, value, dtype, symmetric=symmetric)
    there_and_back = dequantize(quantize(jnp.full(4, value), qparams), qparams)
    np.testing.assert_allclose(there_and_back, value, rtol=1e-6, atol=0)


def test_ranges_contain_zero_exactly():
    for low, high in ((0.5, 2.0), (-2.0, -0.5), (-1.0, 3.0)):
        qparams = choose_qparams(low, high, "uint8")
        assert dequantize(quantize(jnp.zeros(1), qparams), qparams)[0] == 0
        ends = dequantize(quantize(jnp.array([low, high]), qparams), qparams)
        np.testing.assert_allclose(ends, [low, high], atol=qparams.scale * 0.51)


def test_a_range_for_each_channel():
    qparams = choose_qparams([-1.0, 0.0, -0.5], [1.0, 0.0, 0.0], "int8", symmetric=True, axis=0)
    assert qparams == QParams([1 / 127, 1 / 127, 0.5 / 127], [0, 0, 0], "int8", axis=0)
    assert choose_qparams([0.0, 0.0], [0.0, 0.0], "int8", symmetric=True, axis=0).scale == (1.0, 1.0)


PAIRS = [0.5, 0.25]
WRONG = [
    ((0.0, 0, "int8"), ValueError, "bad scale; expected positive finite float32 numbers, got 0.0"),
    ((float("nan"), 0, "int8"), ValueError, "bad scale"),
    ((-1.0, 0, "int8"), ValueError, "bad scale"),
    ((float("inf"), 0, "int8"), ValueError, "bad scale"),
    ((1e300, 0, "int8"), ValueError, "bad scale"),
    ((1e-300, 0, "int8"), ValueError, "bad scale"),
    ((1.0, 128, "int8"), ValueError, "zero point is out of range; expected -128 to 127 for int8, got 128"),
    ((1.0, -1, "uint8"), ValueError, "zero point is out of range; expected 0 to 255 for uint8"),
    ((1.0, 1000, "int32"), ValueError, "zero point is out of range; expected 0 for int32, got 1000"),
    (([1.0, 1.0], [0, -1], "int32", 0), ValueError, "zero point is out of range; expected 0 for int32"),
    ((1.0, 0.5, "int8"), TypeError, "a zero point is not an integer"),
    ((1.0, 0, "float32"), ValueError, "unknown dtype; expected one of int8, uint8, int16, int32, got float32"),
    ((1.0, 0, "nonsense"), ValueError, "unknown dtype; expected one of int8, uint8, int16, int32, got nonsense"),
    (("a", 0, "int8"), TypeError, "a scale is not a number; expected numbers, got 'a'"),
    ((PAIRS, 0, "int8"), ValueError, "scales have the wrong shape; expected one scale, since axis is None"),
    ((1.0, 0, "int8", 0), ValueError, "scales have the wrong shape; expected a list of scales"),
    (([], 0, "int8", 0), ValueError, "no scales"),
    ((PAIRS, [0, 0, 0], "int8", 0), ValueError, "scales and zero points differ in number"),
    (([0.5, 0.0], 0, "int8", 0), ValueError, "bad scale"),
    ((PAIRS, [0, 200], "int8", 0), ValueError, "zero point is out of range"),
    ((PAIRS, 0, "int8", 1.0), TypeError, "axis is not an integer"),
]


@pytest.mark.parametrize("arguments, error, message", WRONG)
def test_bad_parameters(arguments, error, message):
    with pytest.raises(error, match=message):
        QParams(*arguments)


CHOICES = [
    (([], [], "int8"), "choose_qparams: no limits"),
    ((2.0, 1.0, "int8"), "min is above max"),
    ((float("nan"), 1.0, "int8"), "a limit is not finite"),
    ((0.0, float("inf"), "int8"), "a limit is not finite"),
    (([0.0], [1.0], "int8"), "limits have the wrong shape"),
    ((0.0, 1e300, "int8"), "bad scale"),
]


@pytest.mark.parametrize("arguments, message", CHOICES)
def test_bad_limits(arguments, message):
    with pytest.raises(ValueError, match=message):
        choose_qparams(*arguments)


def test_arrays_that_do_not_fit():
    with pytest.raises(TypeError, match="x does not hold real numbers; expected a floating-point dtype, got int32"):
        quantize(jnp.zeros(2, jnp.int32), QParams(1.0, 0, "int8"))
    with pytest.raises(TypeError, match="dequantize: q has the wrong dtype; expected int8 as its QParams, got uint8"):
        dequantize(jnp.zeros(2, jnp.uint8), QParams(1.0, 0, "int8"))
    with pytest.raises(
        ValueError, match=r"does not fit the channels; expected 2 entries on axis 0, got the shape \(3,\)"
    ):
        quantize(jnp.zeros(3), QParams(PAIRS, 0, "int8", 0))
    with pytest.raises(ValueError, match="quantize: unknown kernel; expected 'reference' or 'xnnpack', got 'torch'"):
        quantize(jnp.zeros(3), QParams(1.0, 0, "int8"), kernel="torch")


def test_parameters_are_values():
    one, two = QParams(np.float64(0.1), np.int64(3), np.int8), QParams(0.1, 3, "int8")
    assert one == two and hash(one) == hash(two)
    assert one.scale == float(np.float32(0.1))
    with pytest.raises(AttributeError):
        one.scale = 2.0


@pytest.mark.parametrize("limits", [(-128, 127), (-100, 90)])
def test_parameters_are_those_of_torch_s_operator(limits):
    rng = np.random.default_rng(8)
    for _ in range(300):
        x = (rng.normal(rng.normal(), 1, 50) * 10 ** rng.uniform(-3, 3)).astype(np.float32)
        tensor = torch.from_numpy(x)
        scale, zero = torch.ops.quantized_decomposed.choose_qparams.tensor(tensor, *limits, 1e-9, torch.int8)
        ours = choose_qparams(x.min(), x.max(), "int8", quant_min=limits[0], quant_max=limits[1])
        assert (ours.scale, ours.zero_point) == (pytest.approx(scale.item(), rel=1e-6), zero.item())
        symmetric = torch.ops.quantized_decomposed.choose_qparams_symmetric.tensor
        scale, zero = symmetric(tensor, *limits, 1e-9, torch.int8)
        ours = choose_qparams(x.min(), x.max(), "int8", symmetric=True, quant_min=limits[0], quant_max=limits[1])
        assert (ours.scale, ours.zero_point) == (pytest.approx(scale.item(), rel=1e-6), zero.item())


@pytest.mark.parametrize("limits", [(1, 127), (-129, 127), (-128, 128), (-128, -1), (0, 0)])
def test_limits_that_do_not_fit(limits):
    with pytest.raises(ValueError, match=r"quant_min and quant_max are out of range; expected -128 <= quant_min <= 0"):
        choose_qparams(-1.0, 1.0, "int8", quant_min=limits[0], quant_max=limits[1])
