"""Parameters of a bias. `test_linear.py` and `test_convolution.py` compare sums and their rescaling with LiteRT's."""

import jax.numpy as jnp
import numpy as np
import pytest

from funcnet.quantization import QParams, bias_qparams, dequantize, quantize


def test_a_quantized_bias_stands_for_the_bias():
    qparams = bias_qparams(QParams(0.1, 5, "int8"), QParams([0.01, 0.02], 0, "int8", axis=0))
    np.testing.assert_allclose(qparams.scale, [0.001, 0.002], rtol=1e-6)
    assert (qparams.zero_point, qparams.dtype, qparams.axis) == ((0, 0), "int32", 0)
    bias = jnp.array([3.14159, -2.71828])
    np.testing.assert_allclose(dequantize(quantize(bias, qparams), qparams), bias, atol=1e-3)


def test_a_product_of_scales_that_is_no_float32_number():
    with pytest.raises(ValueError, match="bad scale"):
        bias_qparams(QParams(1e-30, 0, "int8"), QParams(1e-30, 0, "int8"))
