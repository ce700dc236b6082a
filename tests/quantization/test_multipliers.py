"""Fixed-point products of 16-bit halves against Python's integers of any size."""

import math
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from funcnet.quantization.multipliers import (
    multiply_by_quantized_multiplier,
    quantize_multiplier,
    rounding_divide_by_pot,
    saturating_rounding_doubling_high_mul,
)

EDGES = [
    -(2**31),
    -(2**31) + 1,
    -(2**30),
    -65537,
    -65536,
    -32768,
    -1,
    0,
    1,
    32767,
    32768,
    65535,
    65536,
    2**30,
    2**31 - 1,
]


def integers(count, seed):
    return np.random.default_rng(seed).integers(-(2**31), 2**31, count)


@pytest.mark.parametrize("wrap", [lambda function: function, jax.jit], ids=["eager", "jit"])
def test_high_product(wrap):
    pairs = np.array([(a, b) for a in EDGES for b in EDGES])
    a, b = np.concatenate([pairs.T, integers((2, 200_000), 0)], axis=1)
    right = np.minimum((a * b + 2**30) >> 31, 2**31 - 1)  # 64 bits are enough: only (-2**31)**2 / 2**31 is limited
    ours = wrap(saturating_rounding_doubling_high_mul)(jnp.asarray(a, jnp.int32), jnp.asarray(b, jnp.int32))
    np.testing.assert_array_equal(ours, right)


@pytest.mark.parametrize("exponent", range(32))
def test_division_by_a_power_of_two_rounds_halves_away_from_zero(exponent):
    x = np.concatenate([EDGES, integers(300, exponent), np.arange(-4, 5) << max(exponent - 1, 0)])
    x = x[(x >= -(2**31)) & (x < 2**31)]
    right = [int(math.copysign(math.floor(abs(Fraction(int(one), 2**exponent)) + Fraction(1, 2)), one)) for one in x]
    np.testing.assert_array_equal(rounding_divide_by_pot(jnp.asarray(x, jnp.int32), exponent), right)


def test_the_mantissa_is_the_nearest():
    for real in [*np.random.default_rng(0).uniform(0, 4, 200), 1.0, 0.5, 1 - 2.0**-40, 2.0**-31, 1e-9, 3e5]:
        mantissa, exponent = quantize_multiplier(float(real))
        assert 2**30 <= mantissa < 2**31
        assert abs(Fraction(mantissa) * Fraction(2) ** (exponent - 31) - Fraction(float(real))) <= Fraction(2) ** (
            exponent - 32
        )
    assert quantize_multiplier(1 - 2.0**-40) == (2**30, 1)
    assert quantize_multiplier(0.0) == quantize_multiplier(2.0**-33) == (0, 0)


@pytest.mark.parametrize("bad", [-1.0, math.nan, math.inf])
def test_bad_multipliers(bad):
    with pytest.raises(ValueError, match="quantize_multiplier: bad multiplier; expected a finite number >= 0"):
        quantize_multiplier(bad)


def test_a_multiplication_is_within_the_two_roundings():
    x = np.random.default_rng(1).integers(-(2**20), 2**20, 5000)
    for real in (0.001, 0.37, 1.0, 5.5, 1000.0):
        ours = np.asarray(multiply_by_quantized_multiplier(jnp.asarray(x, jnp.int32), *quantize_multiplier(real)))
        assert np.abs(ours - x * real).max() <= 1.0


def test_a_multiplier_for_each_channel():
    x = jnp.array([[100, 100], [-7, -7]], jnp.int32)
    mantissas, exponents = np.transpose([quantize_multiplier(real) for real in (0.5, 2.0)]).astype(np.int32)
    # The high product rounds the half of -3.5 up.
    np.testing.assert_array_equal(multiply_by_quantized_multiplier(x, mantissas, exponents), [[50, 200], [-3, -14]])


@pytest.mark.parametrize("real", [2.0**-31, 1e-6, 0.0123, 0.49, 0.5, 0.75, 1.0, 3.7])
def test_one_rounding(real):
    mantissa, exponent = quantize_multiplier(real)
    x = np.concatenate([EDGES, integers(2000, 7), np.arange(-50, 50)]) >> max(exponent, 0)
    right = [math.floor(Fraction(int(one) * mantissa) * Fraction(2) ** (exponent - 31) + Fraction(1, 2)) for one in x]
    ours = multiply_by_quantized_multiplier(jnp.asarray(x, jnp.int32), mantissa, exponent, roundings=1)
    np.testing.assert_array_equal(ours, right)
    with pytest.raises(ValueError, match="bad roundings; expected 1 or 2, got 3"):
        multiply_by_quantized_multiplier(jnp.int32(1), mantissa, exponent, roundings=3)


def test_other_dtypes_are_refused():
    for function in (lambda x: saturating_rounding_doubling_high_mul(x, x), lambda x: rounding_divide_by_pot(x, 1)):
        with pytest.raises(TypeError, match="wrong dtype; expected int32, got int16"):
            function(jnp.zeros(1, jnp.int16))
