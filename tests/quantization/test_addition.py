"""Quantized addition against LiteRT's kernels: every pair of 8-bit integers, many sets of parameters, no difference."""

import os
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from funcnet.quantization import QParams, add
from tests.quantization.tflite_models import (
    KERNELS,
    OPTIMISED,
    REFERENCE,
    XNNPACK,
    add_model,
    all_pairs,
    random_qparams,
    run,
)

ROOT = Path(__file__).resolve().parents[2]


def parameter_sets(dtype, count, seed):
    """Yield (a, b, out): half of the sets have ratios of scales near 1, half have any ratio that both kernels allow."""
    rng = np.random.default_rng(seed)
    for index in range(count):
        out = random_qparams(rng, dtype)
        octaves = 2.5 if index % 2 else 7.9
        yield *(random_qparams(rng, dtype, out, octaves) for _ in "ab"), out


def pairs(dtype, seed):
    if dtype == "int16":
        values = np.random.default_rng(seed).integers(-(2**15), 2**15, (2, 65536)).astype(dtype)
        values[:, :4] = [[-(2**15), -(2**15), 2**15 - 1, 2**15 - 1], [-(2**15), 2**15 - 1, -(2**15), 2**15 - 1]]
        return values
    return all_pairs(dtype)


def differences(dtype, kernel, count, seed):
    """Return how many values differ between funcnet and LiteRT, over all pairs and `count` sets."""
    a, b = pairs(dtype, seed)
    differ = 0
    for qparams in parameter_sets(dtype, count, seed):
        theirs = run(add_model(a.shape, *qparams), a, b, kernels=KERNELS[kernel])[0]
        differ += np.count_nonzero(theirs != np.asarray(add(a, b, *qparams, kernel=kernel)))
    return differ


CASES = [
    ("int8", "reference"),
    ("uint8", "reference"),
    ("int16", "reference"),
    ("int8", "xnnpack"),
    ("uint8", "xnnpack"),
]


@pytest.mark.parametrize("dtype, kernel", CASES)
def test_all_pairs_with_40_sets_of_parameters(dtype, kernel):
    assert differences(dtype, kernel, 40, seed=1) == 0


@pytest.mark.slow
@pytest.mark.parametrize("dtype, kernel", CASES)
def test_all_pairs_with_2000_sets_of_parameters(dtype, kernel):
    assert differences(dtype, kernel, 2000, seed=2) == 0


# Ratios at the limits of XNNPACK's range, and ratios that make halves: multipliers and sums between two integers.
RATIOS = [2**-10, 2**-9, 0.25, 0.5, 0.75, 1, 1.5, 2 - 2**-22, 2, 3, 64, 128, 256 - 2**-16]


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("kernel", ["reference", "xnnpack"])
def test_ratios_at_the_limits_and_with_halves(dtype, kernel):
    a, b = all_pairs(dtype)
    rng = np.random.default_rng(0)
    zeros = lambda: int(rng.integers(np.iinfo(dtype).min, np.iinfo(dtype).max + 1))
    for first in RATIOS:
        for second in RATIOS[::3]:
            qparams = [QParams(scale, zeros(), dtype) for scale in (first, second, 1.0)]
            theirs = run(add_model(a.shape, *qparams), a, b, kernels=KERNELS[kernel])[0]
            np.testing.assert_array_equal(theirs, np.asarray(add(a, b, *qparams, kernel=kernel)), f"{first} {second}")


@pytest.mark.parametrize("ratio", [2.0**-14, 2.0**-11, 300.0, 1000.0, 2.0**18, 2.0**19 * 0.999])
def test_the_reference_kernel_allows_ratios_that_xnnpack_does_not(ratio):
    a, b = all_pairs("int8")
    qparams = QParams(ratio, 100, "int8"), QParams(1.0, 5, "int8"), QParams(1.0, -3, "int8")
    theirs = run(add_model(a.shape, *qparams), a, b, kernels=REFERENCE)[0]
    np.testing.assert_array_equal(theirs, np.asarray(add(a, b, *qparams)))
    with pytest.raises(ValueError, match=r"scale of a is outside the range of the kernel 'xnnpack'; expected 2\*\*-10"):
        add(a, b, *qparams, kernel="xnnpack")


@pytest.mark.parametrize("activation", ["relu", "relu6", "relu_n1_to_1"])
@pytest.mark.parametrize("dtype, kernel", [("int8", "reference"), ("uint8", "xnnpack"), ("int8", "xnnpack")])
def test_fused_activations(activation, dtype, kernel):
    a, b = all_pairs(dtype)
    rng = np.random.default_rng(3)
    for scale in (0.05, 0.4, 2.0, 2 / 7, 12 / 5, 12 / 7):  # 1 or 6 is a half of an integer in most of them
        out = QParams(scale, int(rng.integers(-40, 40)) + (128 if dtype == "uint8" else 0), dtype)
        qparams = *(random_qparams(rng, dtype, out, 2.0) for _ in "ab"), out
        theirs = run(add_model(a.shape, *qparams, activation), a, b, kernels=KERNELS[kernel])[0]
        ours = np.asarray(add(a, b, *qparams, kernel=kernel, activation=activation))
        np.testing.assert_array_equal(theirs, ours)
        assert (ours != np.asarray(add(a, b, *qparams, kernel=kernel))).any(), "the activation changes something"


# ----------------------------------------------------------------------------------- what XNNPACK's result depends on


def xnnpack_variant(a, b, qparams, variant):
    """Compute XNNPACK's sum on the host, with one detail changed, in 64-bit integers."""
    first, second, out = qparams
    wide = np.float64 if variant == "ratio in double" else np.float32
    ratios = [wide(one.scale) / wide(out.scale) for one in (first, second)]
    shift = 21 - int(np.frexp(max(ratios))[1])
    shifted = [np.ldexp(np.float64(ratio), shift) for ratio in ratios]
    up = variant == "multiplier half up"
    multipliers = [int(np.floor(one + 0.5) if up else np.rint(one)) for one in shifted]
    values = zip((a, b), (first, second), multipliers, strict=True)
    total = sum((x.astype(np.int64) - one.zero_point) * multiplier for x, one, multiplier in values)
    half = np.int64(1) << (shift - 1)
    if variant == "sum half away from zero":
        steps = np.sign(total) * ((np.abs(total) + half) >> shift)
    elif variant == "sum half to even":
        steps = np.rint(np.ldexp(total.astype(np.float64), -shift)).astype(np.int64)
    else:
        steps = (total + half) >> shift
    limits = np.iinfo(out.dtype)
    return np.clip(steps + out.zero_point, limits.min, limits.max).astype(out.dtype)


def test_each_rounding_of_xnnpack_matters_in_rare_values():
    """A sum with one wrong rounding differs in a few values of ten million: a small sample does not show it."""
    a, b = all_pairs("int8")
    variants = ["", "ratio in double", "multiplier half up", "sum half away from zero", "sum half to even"]
    differ = dict.fromkeys(variants, 0)
    for qparams in parameter_sets("int8", 160, seed=4):
        theirs = run(add_model(a.shape, *qparams), a, b, kernels=XNNPACK)[0]
        for variant in variants:
            differ[variant] += np.count_nonzero(theirs != xnnpack_variant(a, b, qparams, variant))
    assert differ.pop("") == 0
    assert all(0 < count < 100 for count in differ.values()), differ


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_the_optimised_kernel_of_litert_wraps_where_inputs_are_coarse(dtype):
    """LiteRT without a delegate keeps sums in 16 bits: past 32,767 steps of the output, a value wraps to the other end.

    Two inputs with 64 times the output's scale reach just that. Both kernels of funcnet saturate.
    """
    a, b = all_pairs(dtype)
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max

    def largest(ratio):
        coarse, fine = QParams(ratio, low, dtype), QParams(1.0, high, dtype)
        model = add_model(a.shape, coarse, coarse, fine)
        right = run(model, a, b, kernels=REFERENCE)[0]
        np.testing.assert_array_equal(right, np.asarray(add(a, b, coarse, coarse, fine)))
        np.testing.assert_array_equal(right, np.asarray(add(a, b, coarse, coarse, fine, kernel="xnnpack")))
        return np.abs(run(model, a, b, kernels=OPTIMISED)[0].astype(int) - right).max()

    assert largest(63.0) == 0
    assert largest(66.0) == 255


# ---------------------------------------------------------------------------------------------------- shapes and errors


@pytest.mark.parametrize("kernel", ["reference", "xnnpack"])
def test_shapes_broadcast_and_it_runs_under_jit_and_vmap(kernel):
    rng = np.random.default_rng(5)
    a, b = rng.integers(-128, 128, (4, 1, 6)).astype(np.int8), rng.integers(-128, 128, (5, 1)).astype(np.int8)
    qparams = QParams(0.3, 1, "int8"), QParams(0.2, -9, "int8"), QParams(0.7, 4, "int8")
    plain = add(a, b, *qparams, kernel=kernel)
    wide = np.broadcast_to(a, (4, 5, 6)).copy(), np.broadcast_to(b, (4, 5, 6)).copy()
    theirs = run(add_model((4, 5, 6), *qparams), *wide, kernels=KERNELS[kernel])[0]
    np.testing.assert_array_equal(plain, theirs)
    function = lambda a, b: add(a, b, *qparams, kernel=kernel)
    np.testing.assert_array_equal(jax.jit(function)(a, b), theirs)
    np.testing.assert_array_equal(jax.vmap(function, in_axes=(0, None))(a, b), theirs)


ONE = QParams(1.0, 0, "int8")
ARRAY = jnp.zeros((3,), jnp.int8)
WRONG = [
    (
        ValueError,
        "range of the kernel 'reference'; expected input scale / output scale < 2\\*\\*19",
        QParams(2.0**19, 0, "int8"),
    ),
    (ValueError, "add: the dtypes do not fit", QParams(1.0, 0, "uint8")),
    (ValueError, "add: a has a scale for each channel", QParams([1.0, 2.0, 3.0], 0, "int8", axis=0)),
    (TypeError, "parameters of a are wrong; expected QParams, got float", 1.0),
]


@pytest.mark.parametrize("error, message, wrong", WRONG)
def test_parameters_that_do_not_fit(error, message, wrong):
    with pytest.raises(error, match=message):
        add(ARRAY, ARRAY, wrong, ONE, ONE)


def test_other_bad_arguments():
    with pytest.raises(ValueError, match="unknown kernel; expected 'reference' or 'xnnpack', got 'gemmlowp'"):
        add(ARRAY, ARRAY, ONE, ONE, ONE, kernel="gemmlowp")
    with pytest.raises(ValueError, match=r"add: unknown activation.*got 'gelu'"):
        add(ARRAY, ARRAY, ONE, ONE, ONE, activation="gelu")
    with pytest.raises(TypeError, match="add: b has the wrong dtype; expected int8 as its QParams, got float32"):
        add(ARRAY, jnp.zeros(3), ONE, ONE, ONE)
    wide = QParams(1.0, 0, "int16"), QParams(1.0, 1, "int16")
    with pytest.raises(ValueError, match="a zero point of int16 is not 0"):
        add(jnp.zeros(3, jnp.int16), jnp.zeros(3, jnp.int16), wide[0], wide[1], wide[0])
    with pytest.raises(ValueError, match="'xnnpack' has no int16"):
        add(jnp.zeros(3, jnp.int16), jnp.zeros(3, jnp.int16), wide[0], wide[0], wide[0], kernel="xnnpack")


@pytest.mark.slow
def test_8_million_int8_within_twice_the_time_of_xnnpack():
    command = [sys.executable, "-m", "tests.quantization.addition_speed"]
    one_thread = os.environ | {"XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false"}
    printed = subprocess.run(command, cwd=ROOT, env=one_thread, capture_output=True, text=True, check=True).stdout
    ratio = float(printed.splitlines()[-1].removeprefix("ratio "))
    assert ratio < 2, printed


@pytest.mark.filterwarnings("ignore:.*deprecated.*:UserWarning")
@pytest.mark.parametrize("kernel", ["reference", "xnnpack"])
def test_sums_are_those_of_torch_s_operator_except_for_the_rounding_of_halves(kernel):
    """torch adds real numbers and rounds the sum; which way it rounds a half depends on its engine."""
    rng, different = np.random.default_rng(9), 0
    for _ in range(40):
        out = random_qparams(rng, "uint8")
        sets = [random_qparams(rng, "uint8", out, 2.5) for _ in "ab"]
        arrays = [rng.integers(0, 256, 5000).astype(np.uint8) for _ in "ab"]
        given = [
            torch._make_per_tensor_quantized_tensor(torch.from_numpy(x), one.scale, one.zero_point)
            for x, one in zip(arrays, sets, strict=True)
        ]
        theirs = torch.ops.quantized.add(*given, out.scale, out.zero_point).int_repr().numpy()
        ours = np.asarray(add(*map(jnp.asarray, arrays), *sets, out, kernel=kernel))
        difference = np.abs(ours.astype(int) - theirs)
        assert difference.max() <= 1
        different += np.count_nonzero(difference)
    assert different <= 20  # of 200,000
