"""The change of parameters against LiteRT's QUANTIZE operator."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from funcnet.quantization import QParams, requantize
from tests.quantization.tflite_models import KERNELS, Operator, Tensor, all_values, build, random_qparams, run


def values_of(dtype, rng):
    if dtype in ("int8", "uint8"):
        return all_values(dtype)
    limit = 2**15 if dtype == "int16" else 2**30
    return np.concatenate([rng.integers(-limit, limit, 5000), [-limit, limit - 1]]).astype(dtype)


def draw(rng, dtype, near=None, octaves=6.0):
    made = random_qparams(rng, "int8" if dtype == "int32" else dtype, near, octaves)
    return QParams(made.scale, 0, dtype) if dtype == "int32" else made


def differences(source, target, kernel, count, seed):
    rng = np.random.default_rng(seed)
    differ = 0
    for _ in range(count):
        qparams = draw(rng, source)
        out = draw(rng, target, qparams, 6.9)
        if source == "int32":  # accumulators: the output is coarser
            out = QParams(qparams.scale * 2.0 ** rng.uniform(0, 24), out.zero_point, target)
        x = values_of(source, rng)
        model = build([Tensor(x.shape, qparams), Tensor(x.shape, out)], [Operator("QUANTIZE", (0,), (1,))], (0,), (1,))
        theirs = run(model, x, kernels=KERNELS[kernel])[0]
        differ += np.count_nonzero(theirs != np.asarray(requantize(x, qparams, out, kernel)))
    return differ


REFERENCE_PAIRS = [
    *[(source, target, "reference") for source in ("int8", "uint8") for target in ("int8", "uint8", "int16")],
    *[("int16", target, "reference") for target in ("int8", "int16", "int32")],
    *[("int32", target, "reference") for target in ("int8", "int16")],
]
CASES = [*REFERENCE_PAIRS, ("int8", "int8", "xnnpack"), ("uint8", "uint8", "xnnpack")]


@pytest.mark.parametrize("source, target, kernel", CASES)
def test_every_pair_of_dtypes_with_60_sets_of_parameters(source, target, kernel):
    assert differences(source, target, kernel, 60, seed=1) == 0


@pytest.mark.slow
@pytest.mark.parametrize("source, target, kernel", CASES)
def test_every_pair_of_dtypes_with_2000_sets_of_parameters(source, target, kernel):
    assert differences(source, target, kernel, 2000, seed=2) == 0


@pytest.mark.parametrize("ratio", [2.0**-40, 2.0**-30, 2.0**-8, 1.0, 2.0**7, 2.0**22, 2.0**22 * 1.99])
def test_extreme_ratios(ratio):
    x, one = all_values("int8"), QParams(1.0, -5, "int8")
    qparams = QParams(ratio, 77, "int8")
    model = build([Tensor((256,), qparams), Tensor((256,), one)], [Operator("QUANTIZE", (0,), (1,))], (0,), (1,))
    np.testing.assert_array_equal(requantize(x, qparams, one), run(model, x)[0])
    if 2**-8 <= ratio <= 2**7:
        np.testing.assert_array_equal(
            requantize(x, qparams, one, "xnnpack"), run(model, x, kernels=KERNELS["xnnpack"])[0]
        )


def test_it_runs_under_jit():
    x, qparams, out = all_values("int8"), QParams(0.3, 4, "int8"), QParams(0.7, 100, "uint8")
    np.testing.assert_array_equal(jax.jit(lambda x: requantize(x, qparams, out))(x), requantize(x, qparams, out))


ONE = QParams(1.0, 0, "int8")
WRONG = [
    (QParams(2.0**23, 0, "int8"), ONE, "reference", r"range of the kernel 'reference'; .* < 2\*\*23 for int8"),
    (QParams(2.0**15, 0, "int16"), QParams(1.0, 0, "int16"), "reference", r"< 2\*\*15 for int16"),
    (QParams(1.5, 0, "int32"), ONE, "reference", r"< 2\*\*0 for int32, got 1.5"),
    (QParams(2.0**-9, 0, "int8"), ONE, "xnnpack", r"range of the kernel 'xnnpack'; expected 2\*\*-8"),
    (QParams(129.0, 0, "int8"), ONE, "xnnpack", r"range of the kernel 'xnnpack'"),
    (QParams(1.0, 0, "uint8"), ONE, "xnnpack", "expected int8 to int8 or uint8 to uint8, got uint8 to int8"),
    (QParams(1.0, 0, "int16"), QParams(1.0, 0, "uint8"), "reference", "expected int8 or int16 or int32 from int16"),
    (ONE, ONE, "gemmlowp", "unknown kernel"),
    (QParams([1.0], 0, "int8", axis=0), ONE, "reference", "x has a scale for each channel"),
]


@pytest.mark.parametrize("qparams, out, kernel, message", WRONG)
def test_what_is_refused(qparams, out, kernel, message):
    with pytest.raises(ValueError, match=message):
        requantize(jnp.zeros(1, qparams.dtype), qparams, out, kernel)


def test_wrong_types():
    with pytest.raises(TypeError, match="x has the wrong dtype; expected int8 as its QParams, got float32"):
        requantize(jnp.zeros(1), ONE, ONE)
    with pytest.raises(TypeError, match="out_qparams is wrong; expected QParams, got str"):
        requantize(jnp.zeros(1, jnp.int8), ONE, "int8")
