"""linear and bilinear against torch."""

import jax.numpy as jnp
import pytest
import torch.nn.functional as T

from funcnet import functional as F

from .oracle import agrees, normal


@pytest.mark.parametrize("shape", [(3,), (5, 3), (2, 0, 3), (2, 4, 3)])
def test_linear(shape):
    agrees(F.linear, T.linear, normal(*shape), normal(4, 3), normal(4))
    agrees(F.linear, T.linear, normal(*shape), normal(4, 3))


def test_linear_of_one_output_has_no_dimension():
    agrees(F.linear, T.linear, normal(5, 3), normal(3))


@pytest.mark.parametrize("bias", [(1,), ()])
def test_one_bias_for_all_outputs(bias):
    agrees(F.linear, T.linear, normal(5, 3), normal(4, 3), normal(*bias, seed=1))


@pytest.mark.parametrize("shape", [(), (5,), (2, 3)])
def test_bilinear(shape):
    agrees(F.bilinear, T.bilinear, normal(*shape, 3), normal(*shape, 4), normal(2, 3, 4), normal(2))


def test_bfloat16_stays():
    x = jnp.ones((2, 3), jnp.bfloat16)
    assert F.linear(x, jnp.ones((4, 3), jnp.bfloat16)).dtype == jnp.bfloat16


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        (((2, 3), (4, 5), None), ValueError, r"F.linear: input does not fit weight; expected \(\*, 5\), got \(2, 3\)"),
        (((2, 3), (4, 3), (3,)), ValueError, r"F.linear: bias has the wrong shape; expected \(4,\), got \(3,\)"),
        (((2, 3), (1, 4, 3), None), ValueError, r"F.linear: weight has the wrong rank"),
        (((), (4, 3), None), ValueError, r"expected \(\*, 3\), got \(\)"),
    ],
)
def test_shapes_that_do_not_fit(arguments, error, text):
    with pytest.raises(error, match=text):
        F.linear(*(None if a is None else jnp.zeros(a) for a in arguments))


def test_types_that_do_not_fit():
    with pytest.raises(TypeError, match=r"F.linear: input must hold floating-point numbers; .* got int32. Convert it"):
        F.linear(jnp.ones((2, 3), int), jnp.ones((4, 3)))
    with pytest.raises(TypeError, match=r"F.linear: the dtypes differ; .* got input bfloat16, weight float32"):
        F.linear(jnp.ones((2, 3), jnp.bfloat16), jnp.ones((4, 3)))


def test_bilinear_refuses():
    with pytest.raises(ValueError, match=r"F.bilinear: weight has the wrong rank"):
        F.bilinear(jnp.ones(3), jnp.ones(4), jnp.ones((3, 4)))
    with pytest.raises(ValueError, match=r"F.bilinear: the inputs do not fit .* got \(2, 3\) and \(5, 4\)"):
        F.bilinear(jnp.ones((2, 3)), jnp.ones((5, 4)), jnp.ones((2, 3, 4)))
