"""Fake quantization rounds numbers to values that a quantized tensor can represent. Gradients ignore the rounding."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from funcnet.quantization.qparams import QParams, integer_range

__all__ = ["fake_quantize"]


def fake_quantize(
    x: jax.Array,
    scale: jax.Array | float | QParams,
    zero_point: jax.Array | int | None = None,
    quant_min: int | None = None,
    quant_max: int | None = None,
    axis: int | None = None,
) -> jax.Array:
    """Quantize and dequantize: `(clip(round(x / scale) + zero_point, quant_min, quant_max) - zero_point) · scale`.

    The derivative with respect to `x` is 1 if the integer is within the limits, and 0 otherwise (straight-through
    estimator). The result has no derivative with respect to `scale` and `zero_point`. `scale` and `zero_point` may be
    tracers, for example in a training step, whereas the fields of `QParams` are static.

    Args:
        x: floating-point array.
        scale: number, or an array with one number for each channel. A `QParams` passed as `scale` replaces all of the
            following arguments.
        zero_point: integer, or an array with one integer for each channel.
        quant_min, quant_max: limits of the integers; -128 and 127 for int8.
        axis: axis of the channels; None means one scale for the tensor.

    Returns:
        An array of the shape and dtype of `x`.

    Raises:
        TypeError: if `x` is not floating-point, or a scale is given without zero point and limits.
        ValueError: if `quant_min` is not below `quant_max`, or the scale or the zero point does not fit the axis. A
            scale that is not positive and finite, or a zero point outside of the limits, also raises ValueError, unless
            it is traced.

    Example:
        >>> fake_quantize(jnp.array([0.3, -9.0]), 0.25, 0, -8, 7)
        Array([ 0.25, -2.  ], dtype=float32)
        >>> jax.grad(lambda x: fake_quantize(x, QParams(0.25, 0, "int8")).sum())(jnp.array([0.3, 99.0]))
        Array([1., 0.], dtype=float32)

    Reference: torch.fake_quantize_per_tensor_affine and torch.fake_quantize_per_channel_affine.
    """
    if isinstance(scale, QParams):
        qparams, axis = scale, scale.axis
        scale, zero_point = jnp.asarray(qparams.scale, jnp.float32), jnp.asarray(qparams.zero_point, jnp.int32)
        quant_min, quant_max = integer_range(qparams.dtype)
    x = jnp.asarray(x)
    if not jnp.issubdtype(x.dtype, jnp.floating):
        raise TypeError(f"fake_quantize: x does not hold real numbers; expected a floating-point dtype, got {x.dtype}.")
    if zero_point is None or quant_min is None or quant_max is None:
        raise TypeError(
            "fake_quantize: arguments are missing; expected zero_point, quant_min and quant_max with a scale."
        )
    if quant_min >= quant_max:
        raise ValueError(
            f"fake_quantize: the limits are not ordered; expected min < max, got {quant_min}, {quant_max}."
        )
    _check_numbers(scale, zero_point, quant_min, quant_max)
    scale, zero_point = jnp.asarray(scale, jnp.float32), jnp.asarray(zero_point, jnp.int32)
    if axis is None:
        fits = scale.ndim == zero_point.ndim == 0
    else:
        fits = -x.ndim <= axis < x.ndim and scale.shape == zero_point.shape == (x.shape[axis],)
    if not fits:
        expected = "numbers" if axis is None else f"one for each entry of axis {axis} of {x.shape}"
        raise ValueError(
            f"fake_quantize: scale and zero_point do not fit; expected {expected}, got the shapes {scale.shape} and "
            f"{zero_point.shape}."
        )
    if axis is not None:
        form = [1] * x.ndim
        form[axis] = -1
        scale, zero_point = scale.reshape(form), zero_point.reshape(form)
    return _fake_quantize(x, scale, zero_point, int(quant_min), int(quant_max))


def _check_numbers(scale: ArrayLike, zero_point: ArrayLike, low: int, high: int) -> None:
    """Raise ValueError if a scale is not positive and finite, or a zero point is outside the limits. Skip tracers."""
    traced = lambda one: any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(one))
    if not traced(scale):
        numbers = np.asarray(scale, np.float32)
        if not (np.isfinite(numbers) & (numbers > 0)).all():
            raise ValueError(f"fake_quantize: bad scale; expected positive finite numbers, got {scale!r}.")
    if not traced(zero_point):
        zeros = np.asarray(zero_point)
        if (zeros < low).any() or (zeros > high).any():
            raise ValueError(
                f"fake_quantize: a zero point is outside of the limits; expected {low} to {high}, got {zero_point!r}."
            )


@functools.partial(jax.custom_jvp, nondiff_argnums=(3, 4))
def _fake_quantize(x, scale, zero_point, low, high):
    steps = _steps(x, scale, zero_point)
    return ((jnp.clip(steps, low, high) - zero_point.astype(jnp.float32)) * scale).astype(x.dtype)


@_fake_quantize.defjvp
def _straight_through(low: int, high: int, primals: tuple, tangents: tuple) -> tuple[jax.Array, jax.Array]:
    x, scale, zero_point = primals
    steps = _steps(x, scale, zero_point)
    inside = (steps >= low) & (steps <= high)
    return _fake_quantize(x, scale, zero_point, low, high), jnp.where(inside, tangents[0], jnp.zeros_like(tangents[0]))


def _steps(x: jax.Array, scale: jax.Array, zero_point: jax.Array) -> jax.Array:
    """Return `round(x / scale) + zero_point` before clipping, as float32, which holds integers up to 2²⁴ exactly."""
    return jnp.rint(x.astype(jnp.float32) * (jnp.float32(1) / scale)) + zero_point.astype(jnp.float32)
