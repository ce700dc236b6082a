"""Activations by table against LiteRT's operators on all 256 values."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from funcnet.quantization import QParams, activation_by_table, activation_table
from funcnet.quantization.tables import look_up
from tests.quantization.tflite_models import Operator, Tensor, all_values, build, options, run

# Name of the function: the operator, its options and the dtypes that it has in LiteRT.
FUNCTIONS = {
    "exp": ("EXP", options("ExpOptions"), ["int8"]),
    "gelu": ("GELU", options("GeluOptions", approximate=False), ["int8", "uint8"]),
    "gelu_tanh": ("GELU", options("GeluOptions", approximate=True), ["int8", "uint8"]),
    "sigmoid": ("LOGISTIC", None, ["int8", "uint8"]),
    "tanh": ("TANH", None, ["int8", "uint8"]),
}
CASES = [(name, dtype) for name, (_, _, dtypes) in FUNCTIONS.items() for dtype in dtypes]


def draw(rng, name, dtype):
    """Draw parameters of the input and the output. LiteRT demands those of the output of sigmoid and tanh."""
    middle = 128 if dtype == "uint8" else 0
    zero = lambda: int(rng.integers(-60, 60)) + middle
    qparams = QParams(float(np.exp(rng.uniform(-6, -1))), zero(), dtype)
    if name == "sigmoid":
        return qparams, QParams(1 / 256, np.iinfo(dtype).min, dtype)
    if name == "tanh":
        return qparams, QParams(1 / 128, middle, dtype)
    return qparams, QParams(qparams.scale * 2.0 ** rng.uniform(-1, 1), zero(), dtype)


def differences(name, dtype, count, seed):
    rng = np.random.default_rng(seed)
    operator, its_options, _ = FUNCTIONS[name]
    version = 2 if name in ("sigmoid", "tanh", "exp") else 1
    differ = 0
    for _ in range(count):
        qparams, out = draw(rng, name, dtype)
        nodes = [Operator(operator, (0,), (1,), its_options, version)]
        model = build([Tensor((256,), qparams), Tensor((256,), out)], nodes, (0,), (1,))
        x = all_values(dtype)
        differ += np.count_nonzero(run(model, x)[0] != np.asarray(activation_by_table(x, name, qparams, out)))
    return differ


@pytest.mark.parametrize("name, dtype", CASES)
def test_all_values_with_60_sets_of_parameters(name, dtype):
    assert differences(name, dtype, 60, seed=1) == 0


@pytest.mark.slow
@pytest.mark.parametrize("name, dtype", CASES)
def test_all_values_with_2000_sets_of_parameters(name, dtype):
    assert differences(name, dtype, 2000, seed=2) == 0


def test_a_function_of_one_s_own_under_jit():
    qparams, out = QParams(0.5, 3, "int8"), QParams(0.25, 100, "uint8")
    square = activation_table(lambda x: x * x, qparams, out)
    right = np.clip(100 + 4 * (0.5 * (all_values("int8").astype(float) - 3)) ** 2, 0, 255)
    np.testing.assert_array_equal(square, right.astype(np.uint8))
    ours = jax.jit(lambda x: activation_by_table(x, lambda x: x * x, qparams, out))(all_values("int8"))
    np.testing.assert_array_equal(ours, square)


def test_look_up_of_every_value_in_any_shape():
    table = np.random.default_rng(0).integers(0, 99, 256).astype(np.int16)
    for dtype in ("int8", "uint8"):
        np.testing.assert_array_equal(
            look_up(jnp.asarray(all_values(dtype)).reshape(4, 64), table), table.reshape(4, 64)
        )


ONE = QParams(1.0, 0, "int8")
WRONG = [
    (("swish", ONE, ONE), "unknown function; expected exp, gelu"),
    ((np.log, ONE, ONE), r"bad values of the function; .* got shape \(256,\) with NaN"),
    ((np.sum, ONE, ONE), r"bad values of the function; expected 256 numbers without NaN, got shape \(\)"),
    (("tanh", QParams(1.0, 0, "int16"), ONE), "a table needs inputs of 8 bits; expected int8 or uint8, got int16"),
    (("tanh", QParams([1.0], 0, "int8", axis=0), ONE), "the input has a scale for each channel"),
]


@pytest.mark.parametrize("arguments, message", WRONG)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        activation_table(*arguments)


def test_arguments_of_another_type():
    with pytest.raises(TypeError, match="the parameters of the output are wrong; expected QParams, got str"):
        activation_table("tanh", ONE, "nope")
    with pytest.raises(TypeError, match="the function is wrong; expected a name or a function, got NoneType"):
        activation_table(None, ONE, ONE)


def test_an_array_of_another_dtype():
    with pytest.raises(TypeError, match="activation_by_table: x has the wrong dtype; expected int8"):
        activation_by_table(jnp.zeros(3), "tanh", ONE, ONE)
