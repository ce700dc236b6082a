"""Convolutions in float32 on CPU, by oneDNN.

Letters: `B images, I in_channels, O out_channels, G groups, S spatial sizes, K kernel sizes, T sizes of the result`.

A convolution and its two gradients are operators without derivatives, because each is a derivative of the others. The
gradient of the kernel is a sum over all images. It is computed for blocks of images, at least one block for each device
that has images, and XLA adds the blocks.
"""

import math
from collections.abc import Sequence
from typing import Any

import jax
from jax import lax

from funcnet.operators.foreign_kernels import ForeignKernel
from funcnet.operators.native.library import once, targets
from funcnet.operators.operator import Operator, define

__all__ = ["convolution", "convolution_input", "convolution_weight"]

Pads = Sequence[tuple[int, int]]


def convolution(
    x: jax.Array, w: jax.Array, strides: Sequence[int], pads: Pads, dilations: Sequence[int], groups: int
) -> jax.Array:
    """Return the cross-correlation (B, O, *T) of x (B, I, *S), padded with zeros, and w (O, I / G, *K).

    Example:
        >>> import jax.numpy as jnp
        >>> convolution(jnp.arange(3.0).reshape(1, 1, 3), jnp.ones((1, 1, 2)), (1,), [(0, 0)], (1,), 1)
        Array([[[1., 3.]]], dtype=float32)
    """
    return _call("convolution", x, w, strides, pads, dilations, groups, ())


def convolution_input(
    w: jax.Array,
    gradient: jax.Array,
    strides: Sequence[int],
    pads: Pads,
    dilations: Sequence[int],
    groups: int,
    sizes: Sequence[int],
) -> jax.Array:
    """Return the gradient (B, I, *S) of x, where `gradient` is that of the result, and `sizes` are S.

    Example:
        >>> import jax.numpy as jnp
        >>> convolution_input(jnp.ones((1, 1, 2)), jnp.ones((1, 1, 2)), (1,), [(0, 0)], (1,), 1, (3,))
        Array([[[1., 2., 1.]]], dtype=float32)
    """
    return _call("convolution_input", w, gradient, strides, pads, dilations, groups, sizes)


def convolution_weight(
    x: jax.Array,
    gradient: jax.Array,
    strides: Sequence[int],
    pads: Pads,
    dilations: Sequence[int],
    groups: int,
    sizes: Sequence[int],
    devices: int = 1,
) -> jax.Array:
    """Return the gradient (O, I / G, *K) of w, where `gradient` is that of the result, and `sizes` are K. `devices` is
    the number of devices that may share the images.

    Example:
        >>> import jax.numpy as jnp
        >>> x, gradient = jnp.arange(3.0).reshape(1, 1, 3), jnp.ones((1, 1, 2))
        >>> convolution_weight(x, gradient, (1,), [(0, 0)], (1,), 1, (2,))
        Array([[[1., 3.]]], dtype=float32)
    """
    blocks = math.gcd(len(x), devices)
    if blocks == 1:
        return _call("convolution_weight", x, gradient, strides, pads, dilations, groups, sizes)
    x, gradient = (one.reshape(blocks, len(one) // blocks, *one.shape[1:]) for one in (x, gradient))
    found = _call("convolution_weight", x, gradient, strides, pads, dilations, groups, sizes)
    return found.sum(0)


def _call(
    name: str, a: jax.Array, b: jax.Array, strides: Any, pads: Pads, dilations: Any, groups: int, sizes: Any
) -> jax.Array:
    low, high = [low for low, _ in pads], [high for _, high in pads]
    rank = len(strides)
    found: jax.Array = _operators()[name, rank](a, b, list(strides), low, high, list(dilations), groups, list(sizes))
    return found


@once
def _operators() -> dict[tuple[str, int], Operator]:
    """Return the operators by name and number of spatial dimensions. They are declared at the first call."""
    found = {}
    for rank in (1, 2, 3):
        space, taps, to = (" ".join(f"{one}{place}" for place in range(rank)) for one in "skt")
        unknown = " ".join("?" * rank)
        weight = ("weight", f"o j {taps}")
        for name, first, second, result in (
            ("convolution", ("input", f"... i {space}"), weight, f"... o {unknown}"),
            ("convolution_input", weight, ("gradient", f"... o {to}"), f"... ? {unknown}"),
            ("convolution_weight", ("input", f"... b i {space}"), ("gradient", f"... b o {to}"), f"... o ? {unknown}"),
        ):
            found[name, rank] = _operator(name, rank, first, second, result)
    return found


def _operator(name: str, rank: int, first: tuple[str, str], second: tuple[str, str], result: str) -> Operator:
    settings = "int[] strides, int[] low, int[] high, int[] dilations, int groups, int[] sizes"
    schema = f"funcnet::{name}{rank}d(Tensor {first[0]}, Tensor {second[0]}, {settings}) -> Tensor"
    made = define(schema, f"{first[1]}, {second[1]} -> {result}")
    made.reference(REFERENCES[name])
    if f"funcnet_{name}" in targets("convolution"):
        made.impl("cpu", ForeignKernel(f"funcnet_{name}", is_exported=False), dtypes=["float32"])
    return made


def _plain(x: Any, w: Any, strides: Any, low: Any, high: Any, dilations: Any, groups: int) -> Any:
    pads = list(zip(low, high, strict=True))
    count = len(strides) + 1
    images = x.reshape(-1, *x.shape[x.ndim - count :])  # (…, I, *S)
    y = lax.conv_general_dilated(images, w, strides, pads, rhs_dilation=dilations, feature_group_count=groups)
    return y.reshape(*x.shape[: x.ndim - count], *y.shape[1:])


def _reference(
    input: Any, weight: Any, strides: Any, low: Any, high: Any, dilations: Any, groups: int, sizes: Any
) -> Any:
    return _plain(input, weight, strides, low, high, dilations, groups)


def _of_input(
    weight: Any, gradient: Any, strides: Any, low: Any, high: Any, dilations: Any, groups: int, sizes: Any
) -> Any:
    before = gradient.shape[: gradient.ndim - len(strides) - 1]
    like = jax.ShapeDtypeStruct((*before, weight.shape[1] * groups, *sizes), gradient.dtype)
    linear = lambda x: _plain(x, weight, strides, low, high, dilations, groups)
    return jax.linear_transpose(linear, like)(gradient)[0]


def _of_weight(
    input: Any, gradient: Any, strides: Any, low: Any, high: Any, dilations: Any, groups: int, sizes: Any
) -> Any:
    rank = len(strides)
    channels, outs = input.shape[-rank - 1], gradient.shape[-rank - 1]
    like = jax.ShapeDtypeStruct((outs, channels // groups, *sizes), gradient.dtype)

    def one(x: Any, g: Any) -> Any:
        return jax.linear_transpose(lambda w: _plain(x, w, strides, low, high, dilations, groups), like)(g)[0]

    for _ in range(input.ndim - rank - 2):
        one = jax.vmap(one)
    return one(input, gradient)


REFERENCES = {"convolution": _reference, "convolution_input": _of_input, "convolution_weight": _of_weight}
