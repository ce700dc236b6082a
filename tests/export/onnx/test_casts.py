"""Conversions that ONNX leaves open: out of range, NaN, small integers and small floating-point dtypes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from tests.export.onnx.programs import agrees, graph_of

NUMBERS = [-1, 256, 300, np.nan, np.inf, -np.inf, -3.7, 3.7, 0.5, 1.5, 127.5, -128.5, 32767.5, 65535.9, 4e9, -4e9, 5e9]
X = np.array([*NUMBERS, 2**31, 2**32, -(2**31), 2147483520, 4294967040, 1e30, -1e30], np.float32)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "bool"])
@pytest.mark.parametrize("of", ["float32", "float16", "bfloat16"])
def test_out_of_range(dtype, of):
    agrees(lambda x: x.astype(of).astype(dtype), X)


def test_the_numbers_of_jax():
    """What JAX itself gives, so that the comparison above means something."""
    assert jnp.asarray(X[:4]).astype(jnp.uint8).tolist() == [0, 255, 255, 0]


@pytest.mark.parametrize("dtype", ["int4", "uint4"])
def test_four_bits(dtype):
    agrees(lambda x: x.astype(dtype).astype(jnp.int32), X)
    agrees(lambda x: x.astype(dtype).astype(jnp.int32), np.array([7, 8, 9, -9, 100, -8], np.int32))


def test_64_bits():
    with jax.enable_x64(True):
        agrees(lambda x: x.astype(jnp.int64), np.array([*X, 2.0**63, 2.0**64, -(2.0**63)], np.float32))
        agrees(lambda x: x.astype(jnp.int64), np.array([*X, 2.0**63, 2.0**64, -(2.0**63)], np.float64))


def test_eight_bits():
    agrees(lambda x: x.astype(jnp.float8_e4m3fn).astype(jnp.float32), X)


@pytest.mark.parametrize("dtype", ["float8_e5m2", "uint64"])
def test_what_onnx_runtime_lacks_is_refused(dtype):
    with jax.enable_x64(True), pytest.raises(ValueError, match=f"got 'convert_element_type' to {dtype}. .* Use an"):
        graph_of(lambda x: x.astype(dtype), [X], rewritten=False)


def test_reduced_precision():
    x = np.array([*X, 1 + 2**-8, 1 + 3 * 2**-8, 1 + 2**-9, 3.4e38, 1e-40], np.float32)
    agrees(lambda x: lax.reduce_precision(x, 8, 7), x, tolerance=0)
    agrees(lambda x: lax.reduce_precision(x, 8, 23), x, tolerance=0)
    with pytest.raises(
        ValueError, match=r"the function uses an operation .* got 'reduce_precision' with 5 and 10 bits"
    ):
        graph_of(lambda x: lax.reduce_precision(x, 5, 10), [x], rewritten=False)
