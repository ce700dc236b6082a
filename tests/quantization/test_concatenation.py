"""Concatenation of quantized tensors against LiteRT's kernels."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from funcnet.quantization import QParams, concat
from tests.quantization.tflite_models import (
    KERNELS,
    OPTIMISED,
    Operator,
    Tensor,
    all_values,
    build,
    options,
    random_qparams,
    run,
)


def concat_model(shapes, qparams, out_qparams, axis, quantize):
    """Return a model of one CONCATENATION, after a QUANTIZE of each input if `quantize` is true."""
    shape = list(shapes[0])
    shape[axis] = sum(one[axis] for one in shapes)
    count = len(shapes)
    tensors = [Tensor(one, its) for one, its in zip(shapes, qparams, strict=True)]
    operators, joined = [], range(count)
    if quantize:
        tensors += [Tensor(one, out_qparams) for one in shapes]
        operators = [Operator("QUANTIZE", (index,), (count + index,)) for index in range(count)]
        joined = range(count, 2 * count)
    tensors.append(Tensor(tuple(shape), out_qparams))
    last = len(tensors) - 1
    operators.append(Operator("CONCATENATION", joined, (last,), options("ConcatenationOptions", axis=axis), version=2))
    return build(tensors, operators, range(count), (last,))


def differences(dtype, kernel, count, seed):
    """Return how many values differ from LiteRT for all 256 values in two inputs, over `count` sets of parameters."""
    rng = np.random.default_rng(seed)
    arrays = [all_values(dtype)] * 2
    differ = 0
    for index in range(count):
        out = random_qparams(rng, dtype)
        qparams = [random_qparams(rng, dtype, out, (2.5, 6.9)[index % 2]) for _ in arrays]
        if index % 5 == 0:
            qparams[0] = out
        model = concat_model([(256,), (256,)], qparams, out, 0, quantize=dtype != "uint8")
        ours = np.asarray(concat(arrays, qparams, out, 0, kernel))
        resolvers = [KERNELS[kernel]] if dtype != "uint8" else [KERNELS[kernel], OPTIMISED]
        differ += sum(np.count_nonzero(run(model, *arrays, kernels=one)[0] != ours) for one in resolvers)
    return differ


CASES = [("int8", "reference"), ("int8", "xnnpack"), ("uint8", "reference"), ("uint8", "xnnpack")]


@pytest.mark.parametrize("dtype, kernel", CASES)
def test_all_values_with_100_sets_of_parameters(dtype, kernel):
    assert differences(dtype, kernel, 100, seed=1) == 0


@pytest.mark.slow
@pytest.mark.parametrize("dtype, kernel", CASES)
def test_all_values_with_2000_sets_of_parameters(dtype, kernel):
    assert differences(dtype, kernel, 2000, seed=2) == 0


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16"])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_three_arrays_on_any_axis_under_jit(dtype, axis):
    rng = np.random.default_rng(3)
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    shapes = [[2, 3, 4] for _ in range(3)]
    for index, shape in enumerate(shapes):
        shape[axis] = index + 1
    arrays = [rng.integers(low, high + 1, shape).astype(dtype) for shape in shapes]
    out = random_qparams(rng, dtype)
    qparams = [random_qparams(rng, dtype, out, 2.0), out, random_qparams(rng, dtype, out, 2.0)]
    model = concat_model([tuple(shape) for shape in shapes], qparams, out, axis % 3, quantize=dtype != "uint8")
    theirs = run(model, *arrays)[0]
    np.testing.assert_array_equal(concat(arrays, qparams, out, axis), theirs)
    np.testing.assert_array_equal(jax.jit(lambda *arrays: concat(arrays, qparams, out, axis))(*arrays), theirs)


def test_litert_refuses_int8_of_unequal_parameters_without_quantize():
    one, two = QParams(1.0, 0, "int8"), QParams(2.0, 0, "int8")
    with pytest.raises(RuntimeError, match=r"scale != output->params.scale"):
        run(concat_model([(4,), (4,)], [one, two], one, 0, quantize=False), *[np.zeros(4, np.int8)] * 2)


ONE = QParams(1.0, 0, "int8")
ARRAY = jnp.zeros((2, 3), jnp.int8)
WRONG = [
    (([], [], ONE, 0), ValueError, "concat: no arrays"),
    (([ARRAY], [ONE, ONE], ONE, 0), ValueError, "concat: the counts differ; expected 1 QParams, got 2"),
    (([ARRAY, ARRAY[:, :2]], [ONE, ONE], ONE, 0), ValueError, r"shape of arrays\[1\] does not fit; expected \(2, 3\)"),
    (([ARRAY], [ONE], ONE, 2), ValueError, "axis is out of range"),
    (([ARRAY], [ONE], QParams(1.0, 0, "uint8"), 0), ValueError, r"dtype of arrays\[0\] does not fit"),
    (([ARRAY.astype(jnp.uint8)], [ONE], ONE, 0), TypeError, r"arrays\[0\] has the wrong dtype; expected int8"),
    (([ARRAY], [ONE], 1.0, 0), TypeError, "expected QParams, got float"),
    (([ARRAY], [QParams([1.0, 2.0], 0, "int8", axis=0)], ONE, 0), ValueError, "has a scale for each channel"),
    (([ARRAY], [ONE], ONE, 0, "fast"), ValueError, "unknown kernel"),
]


@pytest.mark.parametrize("arguments, error, message", WRONG)
def test_bad_arguments(arguments, error, message):
    with pytest.raises(error, match=message):
        concat(*arguments)
