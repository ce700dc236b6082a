"""Functions that are one operation: they compute the same under every transformation, and exporters can read them."""

import jax
import jax.numpy as jnp
import numpy as np

from funcnet.export.onnx import to_onnx
from funcnet.export.stablehlo import to_stablehlo
from funcnet.quantization.primitives import primitive

X = np.arange(-6, 6, dtype=np.int32).reshape(3, 4)


@primitive
def moved_product(a, b, *, by):
    """Return `a · b + by`."""
    return a * b + by


def test_the_same_numbers_under_every_transformation():
    right = X * X + 1
    plain = lambda x: moved_product(x, x, by=1)
    for function in (plain, jax.jit(plain), jax.vmap(plain), jax.jit(jax.vmap(plain, 1, 1))):
        np.testing.assert_array_equal(function(X), right)
    over_one = jax.vmap(lambda x, y: moved_product(x, y, by=0), (0, None))
    np.testing.assert_array_equal(over_one(X, X[0]), X * X[0])
    with jax.disable_jit():
        np.testing.assert_array_equal(plain(X), right)


def test_one_operation_with_its_settings():
    (equation,) = jax.make_jaxpr(lambda x: moved_product(x, x, by=3))(X).eqns
    assert equation.primitive.name == "moved_product" and equation.params["by"] == 3
    assert [one.primitive.name for one in equation.params["plain_program"].eqns] == ["mul", "add"]


def test_exports_that_do_not_know_the_name():
    function = lambda x: moved_product(x, jnp.int32(3) + x, by=0)
    assert to_stablehlo(function, X).check.largest == 0
    assert to_onnx(function, X).check.largest == 0
