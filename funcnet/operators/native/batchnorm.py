"""Sums of batch normalisation in float32, by kernels in C++ on CPU: the statistics, and the gradients of a channel.

Letters: `B batch, C channel, S positions`.

A kernel computes sums for each image and channel. Images and channels are batch dimensions of the operator, so devices
can divide them without communication. XLA adds the sums of the images.
"""

import functools
import math
from typing import Any

import jax
import jax.numpy as jnp

from funcnet.operators.foreign_kernels import ForeignKernel
from funcnet.operators.native.library import once, targets
from funcnet.operators.operator import Operator, define

__all__ = ["row_moments", "scale_channels"]

Arrays = tuple[jax.Array, ...]


def row_moments(x: jax.Array, count: int) -> Arrays:
    """Return three arrays for x, float32 (*, *S): the mean over the last `count` dimensions, the mean of the
    differences from this mean (its rounding error), and the sum of squared differences from the corrected mean.

    Example:
        >>> print(*row_moments(jnp.array([1.0, 3.0]), 1))
        2.0 0.0 2.0
    """
    found: Arrays = _row_moments(count)(x)
    return found


def scale_channels(x: jax.Array, mean: jax.Array, rest: jax.Array, scale: jax.Array, shift: jax.Array) -> jax.Array:
    """Return `(x - mean - rest) · scale + shift` for each channel. The backward pass needs x, and not the differences.

    Args:
        x: float32 (B, C, *S).
        mean, rest, scale, shift: float32 (C,).

    Example:
        >>> one = jnp.ones(1)
        >>> scale_channels(jnp.array([[[1.0, 3.0]]]), 2 * one, 0 * one, 5 * one, one)
        Array([[[-4.,  6.]]], dtype=float32)
    """
    found: jax.Array = _scale_channels(x.ndim - 2)(x, mean, rest, scale, shift)
    return found


def _sizes(count: int) -> str:
    return " ".join(f"s{place}" for place in range(count))


def _add_kernel(operator: Operator, target: str) -> None:
    if target in targets("kernels"):
        operator.impl("cpu", ForeignKernel(target, is_exported=False), dtypes=["float32"])


@once
def _row_moments(count: int) -> Operator:
    axes = tuple(range(-count, 0))

    def reference(input: jax.Array) -> Arrays:
        mean = input.mean(axes)
        difference = input - jnp.expand_dims(mean, axes)
        rest = difference.mean(axes)
        squares = (difference * difference).sum(axes) - math.prod(input.shape[input.ndim - count :]) * rest * rest
        return mean, rest, jnp.maximum(squares, 0)

    schema = f"funcnet::row_moments{count}d(Tensor input) -> (Tensor, Tensor, Tensor)"
    made = define(schema, f"... {_sizes(count)} -> ..., ..., ...")
    made.reference(reference)
    _add_kernel(made, "funcnet_row_moments")
    return made


@once
def _row_products(count: int) -> Operator:
    """The sums of `gradient`, and of `gradient · (input - mean - rest)`, over the last `count` dimensions."""
    axes = tuple(range(-count, 0))
    wide = functools.partial(jnp.expand_dims, axis=axes)

    def reference(gradient: jax.Array, input: jax.Array, mean: jax.Array, rest: jax.Array) -> Arrays:
        return gradient.sum(axes), (gradient * (input - wide(mean) - wide(rest))).sum(axes)

    def slopes(grads: Any, gradient: Any, input: Any, mean: Any, rest: Any) -> dict[str, jax.Array]:
        along = wide(grads[1])
        of_input = along * gradient
        of_mean = -of_input.sum(axes)
        of_gradient = wide(grads[0]) + along * (input - wide(mean) - wide(rest))
        return {"gradient": of_gradient, "input": of_input, "mean": of_mean, "rest": of_mean}

    arguments = "Tensor gradient, Tensor input, Tensor mean, Tensor rest"
    rows = f"... {_sizes(count)}"
    made = define(
        f"funcnet::row_products{count}d({arguments}) -> (Tensor, Tensor)", f"{rows}, {rows}, ..., ... -> ..., ..."
    )
    made.reference(reference)
    made.derivative(slopes)
    _add_kernel(made, "funcnet_row_products")
    return made


@once
def _scale_channels(count: int) -> Operator:
    wide = functools.partial(jnp.expand_dims, axis=tuple(range(1, 1 + count)))  # (C,) -> (C, 1, …)

    def reference(input: Any, mean: Any, rest: Any, scale: Any, shift: Any) -> jax.Array:
        found: jax.Array = (input - wide(mean) - wide(rest)) * wide(scale) + wide(shift)
        return found

    def slopes(grad: Any, input: Any, mean: Any, rest: Any, scale: Any) -> dict[str, jax.Array]:
        outer = input.shape[: input.ndim - count]  # (…, C)
        sums = _row_products(count)(grad, input, *(jnp.broadcast_to(one, outer) for one in (mean, rest)))
        total, along = (one.sum(tuple(range(one.ndim - 1))) for one in sums)
        of_mean = -scale * total
        return {"input": grad * wide(scale), "mean": of_mean, "rest": of_mean, "scale": along, "shift": total}

    arguments = "Tensor input, Tensor mean, Tensor rest, Tensor scale, Tensor shift"
    whole = f"... c {_sizes(count)}"
    made = define(f"funcnet::scale_channels{count}d({arguments}) -> Tensor", f"{whole}, c, c, c, c -> {whole}")
    made.reference(reference)
    made.derivative(slopes)
    return made
