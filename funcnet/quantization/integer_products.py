"""Exact sums of int8 products, in int32.

Letters: `N batch, C channels, O output channels, G groups, S spatial dimensions`. `*S'` are the output's spatial
dimensions.

On CPU, XLA's integer convolution takes 36 times as long as its float32 convolution (112 ms against 3 ms for 64 channels
of 56 x 56). On CPU, the sums are therefore computed in float32, in blocks of at most 1,024 products. The sum of such a
block is an integer of at most 2²⁴, which float32 holds exactly in any order of addition. On other platforms, float32
products may be less precise but int8 products are fast, so int8 products are used.
"""

import functools
import itertools
import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from funcnet.quantization.primitives import primitive

__all__ = ["convolve", "dot", "integer_convolution"]

_EXACT = 1024  # products of int8 (at most 2¹⁴ each) whose sum is at most 2²⁴


def dot(x: jax.Array, weight: jax.Array) -> jax.Array:
    """Return `x · weightᵀ` exactly.

    Args:
        x: int8 array (*, in_features).
        weight: int8 array (out_features, in_features).

    Returns:
        An int32 array (*, out_features).

    Example:
        >>> dot(jnp.array([[1, 2]], jnp.int8), jnp.array([[3, 4]], jnp.int8))
        Array([[11]], dtype=int32)
    """
    return _dot(x, weight)


def convolve(x: jax.Array, weight: jax.Array, stride: Sequence[int], dilation: Sequence[int], groups: int) -> jax.Array:
    """Return the exact convolution without padding.

    Args:
        x: int8 array (N, C, *S).
        weight: int8 array (O, C / groups, *kernel).
        stride, dilation: one integer for each spatial dimension.
        groups: number of groups of channels.

    Returns:
        An int32 array (N, O, *S').

    Example:
        >>> x, weight = jnp.array([[[1, 2, 3]]], jnp.int8), jnp.array([[[1, 10]]], jnp.int8)
        >>> convolve(x, weight, (1,), (1,), 1)
        Array([[[21, 32]]], dtype=int32)
    """
    return _convolve(x, weight, tuple(stride), tuple(dilation), groups)


@functools.partial(jax.jit, static_argnames=("stride", "dilation", "groups"))
def _convolve(x, weight, stride, dilation, groups):
    return integer_convolution(x, weight, stride=stride, dilation=dilation, groups=groups)


@primitive
def integer_convolution(
    x: jax.Array, weight: jax.Array, *, stride: tuple[int, ...], dilation: tuple[int, ...], groups: int
) -> jax.Array:
    """Convolve as `convolve` does, but as one operation of a traced program. The settings must be hashable."""
    settings: dict[str, Any] = {"stride": stride, "dilation": dilation, "groups": groups}
    on_cpu = _convolve_in_float32 if math.prod(weight.shape[2:]) <= _EXACT else _convolve_in_int32
    return lax.platform_dependent(
        x,
        weight,
        cpu=functools.partial(on_cpu, **settings),
        default=functools.partial(_convolve_in_integers, **settings),
    )


@jax.jit
def _dot(x, weight):
    return lax.platform_dependent(x, weight, cpu=_dot_in_float32, default=_dot_in_integers)


def _dot_in_float32(x, weight):
    last = (((x.ndim - 1,), (1,)), ((), ()))
    total = jnp.zeros((*x.shape[:-1], weight.shape[0]), jnp.int32)
    for start in range(0, weight.shape[1], _EXACT):
        parts = (one[..., start : start + _EXACT].astype(jnp.float32) for one in (x, weight))
        total += lax.dot_general(*parts, last, precision=lax.Precision.HIGHEST).astype(jnp.int32)
    return total


def _dot_in_integers(x, weight):
    return lax.dot_general(x, weight, (((x.ndim - 1,), (1,)), ((), ())), preferred_element_type=jnp.int32)


def _convolve_in_float32(x, weight, stride, dilation, groups):
    batch, channels = x.shape[0], weight.shape[1]
    block = _EXACT // math.prod(weight.shape[2:])  # channels of a group
    grouped = x.reshape(batch, groups, channels, *x.shape[2:])
    total = jnp.int32(0)
    for start in range(0, channels, block):
        part = grouped[:, :, start : start + block].reshape(batch, -1, *x.shape[2:])
        sums = lax.conv_general_dilated(
            part.astype(jnp.float32),
            weight[:, start : start + block].astype(jnp.float32),
            stride,
            "VALID",
            rhs_dilation=dilation,
            feature_group_count=groups,
            precision=lax.Precision.HIGHEST,
        )
        total = total + sums.astype(jnp.int32)
    return total


def _convolve_in_int32(x, weight, stride, dilation, groups):
    """Convolve in int32. This is for kernels so large that float32 may not hold the sum over one channel."""
    both = x.astype(jnp.int32), weight.astype(jnp.int32)
    return lax.conv_general_dilated(*both, stride, "VALID", rhs_dilation=dilation, feature_group_count=groups)


def _convolve_in_integers(x, weight, stride, dilation, groups):
    """Convolve as a sum of int8 matrix products, one for each position of the kernel."""
    batch, out = x.shape[0], weight.shape[0]
    sizes = [
        (size - gap * (kernel - 1) - 1) // step + 1
        for size, kernel, gap, step in zip(x.shape[2:], weight.shape[2:], dilation, stride, strict=True)
    ]
    total = jnp.int32(0)
    for position in itertools.product(*map(range, weight.shape[2:])):
        starts = [gap * index for gap, index in zip(dilation, position, strict=True)]
        window = x[
            :, :, *(slice(s, s + step * (n - 1) + 1, step) for s, step, n in zip(starts, stride, sizes, strict=True))
        ]
        window = window.reshape(batch, groups, -1, *sizes)  # (N, G, C / G, *S')
        kernel = weight[:, :, *position].reshape(groups, out // groups, -1)  # (G, O / G, C / G)
        product = lax.dot_general(kernel, window, (((2,), (2,)), ((0,), (1,))), preferred_element_type=jnp.int32)
        total = total + product  # (G, O / G, N, *S')
    return jnp.moveaxis(total, 2, 0).reshape(batch, out, *sizes)
