"""Average pooling against LiteRT's AVERAGE_POOL_2D, which has channels last."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from funcnet.quantization import QParams, avg_pool
from tests.quantization.test_convolution import PADDING, same
from tests.quantization.tflite_models import ACTIVATIONS, Operator, Tensor, build, options, random_qparams, run


def litert(x, kernel, stride, padding, qparams, activation, shape):
    fields = options(
        "Pool2DOptions",
        padding=PADDING[padding],
        strideH=stride[0],
        strideW=stride[1],
        filterHeight=kernel[0],
        filterWidth=kernel[1],
        fusedActivationFunction=ACTIVATIONS[activation],
    )
    last = np.ascontiguousarray(np.moveaxis(x, 1, -1))
    n, channels, height, width = shape
    tensors = [Tensor(last.shape, qparams), Tensor((n, height, width, channels), qparams)]
    model = build(tensors, [Operator("AVERAGE_POOL_2D", (0,), (1,), fields, version=2)], (0,), (1,))
    return np.moveaxis(run(model, last)[0], -1, 1)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16"])
@pytest.mark.parametrize(
    "kernel, stride, padding",
    [((2, 2), (2, 2), "VALID"), ((3, 3), (1, 1), "SAME"), ((3, 2), (2, 1), "SAME"), ((7, 7), (1, 1), "VALID")],
)
@pytest.mark.parametrize("activation", [None, "relu"])
def test_windows(dtype, kernel, stride, padding, activation):
    rng = np.random.default_rng(0)
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    for size in ((7, 7), (8, 11)):
        x = rng.integers(low, high + 1, (2, 5, *size)).astype(dtype)
        x[:, 0] = rng.integers(0, 2, size)  # means with halves
        qparams = random_qparams(rng, dtype)
        pads = [same(*one, 1) for one in zip(size, kernel, stride, strict=True)] if padding == "SAME" else 0
        settings = {
            "kernel_size": kernel,
            "qparams": qparams,
            "stride": stride,
            "padding": pads,
            "activation": activation,
        }
        ours = avg_pool(x, **settings)
        np.testing.assert_array_equal(ours, litert(x, kernel, stride, padding, qparams, activation, ours.shape))


def test_it_runs_under_jit():
    x, qparams = np.arange(-32, 32, dtype=np.int8).reshape(1, 1, 8, 8), QParams(0.1, 3, "int8")
    np.testing.assert_array_equal(
        jax.jit(lambda x: avg_pool(x, 3, qparams, padding=1))(x), avg_pool(x, 3, qparams, padding=1)
    )


def test_the_stride_is_the_size_of_the_window_by_default():
    assert avg_pool(jnp.zeros((1, 1, 7), jnp.int8), 3, QParams(1.0, 0, "int8")).shape == (1, 1, 2)


ONE = QParams(1.0, 0, "int8")
X = jnp.zeros((1, 2, 4, 4), jnp.int8)
WRONG = [
    ((X, 0, ONE), {}, "bad kernel_size"),
    ((X, 5, ONE), {}, "the kernel is larger than the padded input"),
    ((X, 2, ONE), {"padding": 2}, "a window lies in the padding"),
    ((X[0, 0], 2, ONE), {}, "x does not fit"),
    ((X.astype(jnp.int32), 2, QParams(1.0, 0, "int32")), {}, "x does not fit"),
    ((X, 2, ONE), {"activation": "gelu"}, "unknown activation"),
]


@pytest.mark.parametrize("arguments, settings, message", WRONG)
def test_bad_arguments(arguments, settings, message):
    with pytest.raises(ValueError, match=f"avg_pool: {message}"):
        avg_pool(*arguments, **settings)
