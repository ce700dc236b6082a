"""Fake quantization and its gradients against torch."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from funcnet.quantization import QParams, dequantize, fake_quantize, quantize


def values(shape, scale, seed):
    """Return numbers inside and outside the range of int8, among them halves of a step."""
    rng = np.random.default_rng(seed)
    steps = rng.uniform(-300, 300, shape)
    steps = np.where(rng.uniform(size=shape) < 0.3, np.floor(steps) + 0.5, steps)
    return (steps * scale).astype(np.float32)


@pytest.mark.parametrize("wrap", [lambda function: function, jax.jit], ids=["eager", "jit"])
@pytest.mark.parametrize("scale, zero, low, high", [(0.05, 0, -128, 127), (0.013, 100, 0, 255), (2.5, -7, -8, 7)])
def test_one_scale(wrap, scale, zero, low, high):
    x = values((40, 50), scale, 0)
    weight = np.random.default_rng(1).normal(size=x.shape).astype(np.float32)
    theirs = torch.from_numpy(x).requires_grad_()
    out = torch.fake_quantize_per_tensor_affine(theirs, scale, zero, low, high)
    (out * torch.from_numpy(weight)).sum().backward()
    function = lambda x, scale, zero: fake_quantize(x, scale, zero, low, high)
    np.testing.assert_array_equal(wrap(function)(x, scale, zero), out.detach().numpy())
    gradient = jax.grad(lambda x, scale, zero: (function(x, scale, zero) * weight).sum())
    np.testing.assert_array_equal(wrap(gradient)(x, jnp.float32(scale), jnp.int32(zero)), theirs.grad.numpy())


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_a_scale_for_each_channel(axis):
    x = values((6, 7, 8), 0.05, 2)
    count = x.shape[axis]
    scale, zero = np.linspace(0.02, 0.3, count).astype(np.float32), np.arange(count, dtype=np.int32) - 3
    theirs = torch.from_numpy(x).requires_grad_()
    parameters = torch.from_numpy(scale), torch.from_numpy(zero)
    out = torch.fake_quantize_per_channel_affine(theirs, *parameters, axis % 3, -128, 127)
    out.sum().backward()
    np.testing.assert_array_equal(fake_quantize(x, scale, zero, -128, 127, axis), out.detach().numpy())
    ours = jax.grad(lambda x: fake_quantize(x, scale, zero, -128, 127, axis).sum())(x)
    np.testing.assert_array_equal(ours, theirs.grad.numpy())


def test_it_is_what_quantize_and_dequantize_do():
    for qparams in (QParams(0.07, 5, "int8"), QParams([0.1, 0.2, 0.3], [1, 2, 3], "uint8", axis=1)):
        x = values((5, 3), 0.07, 3)
        there_and_back = dequantize(quantize(x, qparams, kernel="xnnpack"), qparams)
        np.testing.assert_array_equal(fake_quantize(x, qparams), there_and_back)


def test_forward_mode_vmap_and_bfloat16():
    x = jnp.array([[0.3, 99.0]], jnp.bfloat16)
    function = lambda x: fake_quantize(x, 0.25, 0, -8, 7)
    out, tangent = jax.jvp(function, (x,), (jnp.ones_like(x),))
    assert out.dtype == tangent.dtype == jnp.bfloat16
    np.testing.assert_array_equal(tangent.astype(jnp.float32), [[1.0, 0.0]])
    np.testing.assert_array_equal(jax.vmap(function)(x), out)


def test_the_scale_has_no_gradient():
    assert jax.grad(lambda scale: fake_quantize(jnp.ones(3), scale, 0, -8, 7).sum())(jnp.float32(0.3)) == 0


WRONG = [
    ((jnp.zeros(2, jnp.int32), 0.1, 0, -8, 7), TypeError, "x does not hold real numbers"),
    ((jnp.zeros(2), 0.1), TypeError, "arguments are missing; expected zero_point, quant_min and quant_max"),
    ((jnp.zeros(2), 0.1, 0, 7, -8), ValueError, "the limits are not ordered"),
    ((jnp.zeros(2), 0.0, 0, -8, 7), ValueError, "bad scale; expected positive finite numbers, got 0.0"),
    ((jnp.zeros(2), float("nan"), 0, -8, 7), ValueError, "bad scale; expected positive finite numbers, got nan"),
    ((jnp.zeros(2), 0.1, 8, -8, 7), ValueError, "a zero point is outside of the limits; expected -8 to 7, got 8"),
    ((jnp.zeros(2), jnp.ones(2), 0, -8, 7), ValueError, "scale and zero_point do not fit; expected numbers"),
    (
        (jnp.zeros(2), jnp.ones(3), jnp.zeros(3, jnp.int32), -8, 7, 0),
        ValueError,
        "scale and zero_point do not fit; expected one for each entry of axis 0",
    ),
]


@pytest.mark.parametrize("arguments, error, message", WRONG)
def test_bad_arguments(arguments, error, message):
    with pytest.raises(error, match=f"fake_quantize: {message}"):
        fake_quantize(*arguments)
