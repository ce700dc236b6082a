"""Layer, RMS and group normalisation in float32, by kernels in C++ on CPU.

Letters: `R rows, D entries of a row, G groups, K channels of a group, S positions`.

A kernel divides its work among the threads of XLA. The gradients of weight and bias are sums over all rows. A kernel
returns one sum for each block of rows, and XLA adds these sums. The number of blocks depends only on the shape. The
dimensions before the rows of a block are batch dimensions of the operator, so devices can divide them without
communication.
"""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from funcnet.operators.foreign_kernels import ForeignKernel
from funcnet.operators.native.library import once, targets
from funcnet.operators.operator import Operator, define

__all__ = ["group_norm", "layer_norm", "rms_norm"]

Arrays = tuple[jax.Array, ...]


def layer_norm(x: jax.Array, weight: jax.Array | None, bias: jax.Array | None, eps: float) -> jax.Array:
    """Return `(x - mean) / sqrt(var + eps) · weight + bias` over the last dimension.

    Args:
        x: float32 (*, D).
        weight, bias: float32 (D,); None means 1 and 0.
        eps: number added to the variance.

    Example:
        >>> layer_norm(jnp.array([1.0, 3.0]), None, None, 0.0)
        Array([-1.,  1.], dtype=float32)
    """
    weight, bias = _or_constant(weight, x.shape[-1:], 1), _or_constant(bias, x.shape[-1:], 0)
    found: jax.Array = _operators()["layer_norm"](x, weight, bias, float(eps))[0]
    return found


def rms_norm(x: jax.Array, weight: jax.Array | None, eps: float) -> jax.Array:
    """Return `x / sqrt(mean(x²) + eps) · weight` over the last dimension.

    Args:
        x: float32 (*, D).
        weight: float32 (D,); None means 1.
        eps: number added to the mean square.

    Example:
        >>> rms_norm(jnp.array([3.0, 3.0]), None, 0.0)
        Array([1., 1.], dtype=float32)
    """
    found: jax.Array = _operators()["rms_norm"](x, _or_constant(weight, x.shape[-1:], 1), float(eps))[0]
    return found


def group_norm(x: jax.Array, weight: jax.Array | None, bias: jax.Array | None, eps: float) -> jax.Array:
    """Return `(x - mean) / sqrt(var + eps) · weight + bias` over the last two dimensions.

    Args:
        x: float32 (*, G, K, S).
        weight, bias: float32 (G, K); None means 1 and 0.
        eps: number added to the variance.

    Example:
        >>> group_norm(jnp.array([[[1.0, 3.0]]]), None, None, 0.0)
        Array([[[-1.,  1.]]], dtype=float32)
    """
    weight, bias = _or_constant(weight, x.shape[-3:-1], 1), _or_constant(bias, x.shape[-3:-1], 0)
    found: jax.Array = _operators()["group_norm"](x, weight, bias, float(eps))[0]
    return found


def _or_constant(array: jax.Array | None, shape: tuple[int, ...], value: float) -> jax.Array:
    return jnp.full(shape, value, "float32") if array is None else array


@once
def _operators() -> dict[str, Operator]:
    """Return the operators. They are declared, with their kernels, when the first one is called."""
    return {
        "layer_norm": _operator("layer_norm", "Tensor weight, Tensor bias", "d, d", "... d", centred=True),
        "rms_norm": _operator("rms_norm", "Tensor weight", "d", "... d", centred=False),
        "group_norm": _operator("group_norm", "Tensor weight, Tensor bias", "g k, g k", "... g k s", centred=True),
        "sum_of_blocks": _sum_of_blocks(),
    }


def _operator(name: str, parameters: str, sizes: str, whole: str, centred: bool) -> Operator:
    """Declare a normalisation and its derivative, which is an operator too."""
    grouped = name == "group_norm"
    axes = (-2, -1) if grouped else (-1,)
    count = 3 if centred else 1  # of the moments: two parts of the mean, and 1 / sqrt(var + eps)
    moments = ", ".join(["... g" if grouped else "..."] * count)
    schema = f"funcnet::{name}(Tensor input, {parameters}, float eps) -> ({', '.join(['Tensor'] * (1 + count))})"
    forward = define(schema, f"{whole}, {sizes} -> {whole}, {moments}")
    forward.reference(_forward(axes, centred))

    # The rows of a block have a separate dimension, r. The groups of an image are such a block.
    rows = whole if grouped else "... r d"
    kept = moments if grouped else ", ".join(["... r"] * count)
    sums = ", ".join(f"... {one}" for one in sizes.split(", "))
    given = "Tensor mean, Tensor shift, Tensor scale" if centred else "Tensor scale"
    arguments = f"Tensor gradient, Tensor input, {given}, Tensor weight, float eps"
    backward = define(
        f"funcnet::{name}_backward({arguments}) -> ({', '.join(['Tensor'] * (2 + centred))})",
        f"{rows}, {rows}, {kept}, {sizes.split(', ')[0]} -> {rows}, {sums}",
    )
    backward.reference(_backward(axes, centred, grouped))
    backward.derivative(_second(axes, centred, grouped))
    forward.derivative(_first(backward, centred, grouped))
    _add_kernel(forward, f"funcnet_{name}")
    _add_kernel(backward, f"funcnet_{name}_backward")
    return forward


def _add_kernel(operator: Operator, target: str) -> None:
    if target in targets("kernels"):
        operator.impl("cpu", ForeignKernel(target, is_exported=False), dtypes=["float32"])


# ------------------------------------------------------------------------------------------------------ references


def _moments(x: jax.Array, axes: tuple[int, ...], eps: float, centred: bool) -> Arrays:
    """Return (1 / sqrt(var + eps),), or if `centred`, (mean, rest, 1 / sqrt(var + eps)). `rest` is the mean after the
    subtraction of the mean, a rounding error (1e-3 for values near 1e4).
    """
    if not centred:
        return (lax.rsqrt((x * x).mean(axes) + eps),)
    mean = x.mean(axes)
    difference = x - jnp.expand_dims(mean, axes)
    shift = lax.stop_gradient(difference.mean(axes))
    difference = difference - jnp.expand_dims(shift, axes)
    return mean, shift, lax.rsqrt((difference * difference).mean(axes) + eps)


def _normal(x: jax.Array, moments: Arrays, axes: tuple[int, ...]) -> jax.Array:
    *means, scale = (jnp.expand_dims(one, axes) for one in moments)
    for one in means:
        x = x - one
    return x * scale


def _wide(vector: jax.Array, axes: tuple[int, ...]) -> jax.Array:
    """Return weight or bias with a dimension for the positions of each channel."""
    return vector[..., None] if len(axes) == 2 else vector


def _forward(axes: tuple[int, ...], centred: bool) -> Callable[..., Arrays]:
    def layer(input: jax.Array, weight: jax.Array, bias: jax.Array, eps: float) -> Arrays:
        moments = _moments(input, axes, eps, centred)
        return _normal(input, moments, axes) * _wide(weight, axes) + _wide(bias, axes), *moments

    def rms(input: jax.Array, weight: jax.Array, eps: float) -> Arrays:
        moments = _moments(input, axes, eps, centred)
        return _normal(input, moments, axes) * weight, *moments

    return layer if centred else rms


def _gradients(
    gradient: jax.Array, input: jax.Array, moments: Arrays, weight: jax.Array, axes: tuple[int, ...], grouped: bool
) -> Arrays:
    """Return the gradients of input and weight, and if there is a mean, of bias."""
    normal, scale = _normal(input, moments, axes), jnp.expand_dims(moments[-1], axes)
    scaled = gradient * _wide(weight, axes)
    rest = scaled - normal * (scaled * normal).mean(axes, keepdims=True)
    if centred := len(moments) > 1:
        rest = rest - scaled.mean(axes, keepdims=True)
    over = -1 if grouped else -2
    of_weight = (gradient * normal).sum(over)
    return (rest * scale, of_weight, gradient.sum(over)) if centred else (rest * scale, of_weight)


def _backward(axes: tuple[int, ...], centred: bool, grouped: bool) -> Callable[..., Arrays]:
    def layer(gradient: Any, input: Any, mean: Any, shift: Any, scale: Any, weight: Any, eps: float) -> Arrays:
        return _gradients(gradient, input, (mean, shift, scale), weight, axes, grouped)

    def rms(gradient: Any, input: Any, scale: Any, weight: Any, eps: float) -> Arrays:
        return _gradients(gradient, input, (scale,), weight, axes, grouped)

    return layer if centred else rms


# ------------------------------------------------------------------------------------------------------ derivatives


def _first(backward: Operator, centred: bool, grouped: bool) -> Callable[..., dict[str, jax.Array]]:
    # The moments are results so that they are kept. Nothing else uses them, so their gradients are zero: see `_second`.
    def found(
        grad: jax.Array, input: jax.Array, moments: Arrays, weight: jax.Array, eps: float
    ) -> dict[str, jax.Array]:
        split: Any = (lambda one, more: one) if grouped else _in_blocks
        of_input, *sums = backward(split(grad, 1), split(input, 1), *(split(one, 0) for one in moments), weight, eps)
        every = (of_input.reshape(input.shape), *(_operators()["sum_of_blocks"](one, weight.ndim) for one in sums))
        return dict(zip(("input", "weight", "bias"), every, strict=False))

    def layer(
        grads: Any, result1: Any, result2: Any, result3: Any, input: Any, weight: Any, eps: float
    ) -> dict[str, jax.Array]:
        return found(grads[0], input, (result1, result2, result3), weight, eps)

    def rms(grads: Any, result1: Any, input: Any, weight: Any, eps: float) -> dict[str, jax.Array]:
        return found(grads[0], input, (result1,), weight, eps)

    return layer if centred else rms


def _in_blocks(array: jax.Array, more: int) -> jax.Array:
    """Divide the last dimension but `more` into blocks of rows: (…, R, *) -> (…, blocks, rows of a block, *)."""
    before, after = array.shape[: array.ndim - more], array.shape[array.ndim - more :]
    rows = before[-1] if before else 1
    most = 8 if len(before) > 1 else 32  # the number must not depend on the devices, or a run's bits would
    blocks = math.gcd(rows, most) if isinstance(rows, int) else 1
    return array.reshape(*before[:-1], blocks, rows // blocks, *after)


def _sum_of_blocks() -> Operator:
    """The sum over all dimensions but the last `keep`.

    XLA adds in an order that depends on its flags. On one device, the additions are therefore written out one by one,
    so that the bits of a run do not depend on these flags.
    """

    def plain(parts: jax.Array, keep: int) -> jax.Array:
        return parts.sum(tuple(range(parts.ndim - keep)))

    def on_cpu(parts: jax.Array, keep: int, devices: int) -> jax.Array:
        if devices > 1 or not all(isinstance(size, int) for size in parts.shape):
            return plain(parts, keep)
        parts = parts.reshape(-1, *parts.shape[parts.ndim - keep :])
        while len(parts) > 1:
            half = len(parts) // 2
            rest = parts[2 * half :]
            parts = parts[:half] + parts[half : 2 * half]
            parts = jnp.concatenate([parts, rest]) if len(rest) else parts
        return parts[0]

    on_cpu.takes_devices = True  # type: ignore[attr-defined]
    made = define("funcnet::sum_of_blocks(Tensor parts, int keep) -> Tensor")
    made.reference(plain)
    made.impl("cpu", on_cpu)
    made.derivative(parts=lambda grad, parts: jnp.broadcast_to(grad, parts.shape))
    return made


def _second(axes: tuple[int, ...], centred: bool, grouped: bool) -> Callable[..., dict[str, jax.Array]]:
    """The derivative of `backward`, as if this operator computed the moments itself. The gradients of the moments are
    therefore zero.
    """

    def found(grads: Arrays, gradient: Any, input: Any, weight: Any, eps: float, **moments: Any) -> dict[str, Any]:
        def function(gradient: Any, input: Any, weight: Any) -> Arrays:
            return _gradients(gradient, input, _moments(input, axes, eps, centred), weight, axes, grouped)

        of = jax.vjp(function, gradient, input, weight)[1](tuple(grads))
        zeros = {name: jnp.zeros_like(one) for name, one in moments.items()}
        return dict(zip(("gradient", "input", "weight"), of, strict=True)) | zeros

    def layer(
        grads: Any, gradient: Any, input: Any, mean: Any, shift: Any, scale: Any, weight: Any, eps: float
    ) -> dict[str, Any]:
        return found(grads, gradient, input, weight, eps, mean=mean, shift=shift, scale=scale)

    def rms(grads: Any, gradient: Any, input: Any, scale: Any, weight: Any, eps: float) -> dict[str, Any]:
        return found(grads, gradient, input, weight, eps, scale=scale)

    return layer if centred else rms
