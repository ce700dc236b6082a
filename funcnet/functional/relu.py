"""The relu family: the identity above zero, something else below it. At kinks the derivatives are torch's, not JAX's.

bfloat16 is computed in float32 and rounded once. `inplace` is accepted as in torch and does nothing, since arrays do
not change.
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp

from funcnet.functional import checks

__all__ = ["celu", "elu", "leaky_relu", "prelu", "relu", "rrelu", "selu", "threshold"]

_SELU_ALPHA = 1.6732632423543772
_SELU_SCALE = 1.0507009873554805


def relu(input: jax.Array, inplace: bool = False) -> jax.Array:
    """`max(x, 0)`, with derivative 0 at 0.

    Args:
        input: any shape, floating or integers.
        inplace: ignored.

    Returns:
        As the input.

    Raises:
        TypeError: booleans or complex numbers.

    Example:
        >>> relu(jnp.array([-1.0, 2.0]))
        Array([0., 2.], dtype=float32)

    Reference: torch.nn.functional.relu.
    """
    return _relu(checks.real("F.relu", "input", input))


@jax.custom_jvp
@jax.jit
def _relu(x: jax.Array) -> jax.Array:
    return jnp.maximum(x, 0)


_relu.defjvps(lambda dx, y, x: jnp.where(x <= 0, 0, dx))  # so that NaN passes, as the gradient of jax.nn.relu does not


def threshold(input: jax.Array, threshold: float, value: float, inplace: bool = False) -> jax.Array:
    """`x` where it is above the threshold, `value` elsewhere; the derivative is 1 and 0.

    Args:
        input: any shape, floating or integers.
        threshold: what x must exceed; for integers it is truncated, as `value` is.
        value: what replaces the other entries.
        inplace: ignored.

    Returns:
        As the input.

    Raises:
        ValueError: a threshold or a value that the input's dtype does not hold.
        TypeError: booleans or complex numbers.

    Differs from torch: a value of -1 for a uint8 input is refused; torch takes it as 255.

    Example:
        >>> threshold(jnp.array([1.0, 2.0, 3.0]), 2.0, 20.0)
        Array([20., 20.,  3.], dtype=float32)

    Reference: torch.nn.functional.threshold.
    """
    input = checks.real("F.threshold", "input", input)
    checks.fits("F.threshold", "threshold", threshold, input.dtype)
    checks.fits("F.threshold", "value", value, input.dtype)
    return _threshold(input, threshold, value)


@functools.partial(jax.custom_jvp, nondiff_argnums=(1, 2))
def _threshold(x: jax.Array, threshold: float, value: float) -> jax.Array:
    return jnp.where(_passes(x, threshold), x, jnp.asarray(value, x.dtype))


@_threshold.defjvp
def _threshold_jvp(threshold, value, primals, tangents):
    (x,), (dx,) = primals, tangents
    return _threshold(x, threshold, value), jnp.where(_passes(x, threshold), dx, 0)


def _passes(x: jax.Array, threshold: float) -> jax.Array:
    """Not below and not at it, so that NaN passes."""
    wide = x.astype(checks.wide_dtype(x)) if jnp.issubdtype(x.dtype, jnp.floating) else x
    return ~(wide <= jnp.asarray(threshold, wide.dtype))


def leaky_relu(input: jax.Array, negative_slope: float = 0.01, inplace: bool = False) -> jax.Array:
    """`x` above zero, `negative_slope · x` elsewhere; the derivative at 0 is the slope.

    Args:
        input: any shape, floating.
        negative_slope: any number.
        inplace: ignored.

    Returns:
        As the input.

    Raises:
        TypeError: integers.

    Example:
        >>> leaky_relu(jnp.array([-2.0, 2.0]), 0.5)
        Array([-1.,  2.], dtype=float32)

    Reference: torch.nn.functional.leaky_relu.
    """
    return _leaky(checks.floating("F.leaky_relu", "input", input), negative_slope)


def prelu(input: jax.Array, weight: jax.Array) -> jax.Array:
    """`x` above zero, `weight · x` elsewhere, with learned slopes; the derivative at 0 is the slope.

    Args:
        input: (batch, channels, *) or any shape, floating.
        weight: one slope for all, () or (1,), or one a channel, (channels,). An input of one dimension has one channel.

    Returns:
        As the input.

    Raises:
        ValueError: weight has more dimensions, or does not have one entry a channel.
        TypeError: integers, or two dtypes.

    Example:
        >>> prelu(jnp.array([[-2.0, -2.0, 2.0]]), jnp.array([0.5, 0.25, 0.5]))
        Array([[-1. , -0.5,  2. ]], dtype=float32)

    Reference: torch.nn.functional.prelu; He et al. 2015.
    """
    input, weight = checks.floating("F.prelu", "input", input), checks.floating("F.prelu", "weight", weight)
    checks.one_dtype("F.prelu", input=input, weight=weight)
    channels = input.shape[1] if input.ndim > 1 else 1
    if weight.ndim > 1 or (weight.size != 1 and (weight.size != channels or input.ndim == 0)):
        raise ValueError(
            f"F.prelu: weight does not fit the input; expected one slope, or one for each of the {channels} channels "
            f"in dimension 1, got weight {weight.shape} and input {input.shape}. Correct num_parameters, or the input."
        )
    slope = weight.reshape(-1, *(1,) * (input.ndim - 2)) if input.ndim > 1 else weight.reshape(())
    wide = checks.wide_dtype(input)
    return _prelu(input.astype(wide), jnp.broadcast_to(slope.astype(wide), input.shape)).astype(input.dtype)


@jax.custom_jvp
def _prelu(x: jax.Array, slope: jax.Array) -> jax.Array:
    return jnp.where(x > 0, x, slope * x)


@_prelu.defjvp
def _prelu_jvp(primals, tangents):
    (x, slope), (dx, dslope) = primals, tangents
    # Above zero nothing infinite gets into the slope's derivative; at 0 no second derivative passes, as in torch.
    below = jnp.where((x < 0) | jnp.isnan(x), x, 0)
    factor = jnp.where(x > 0, 1, jnp.where(x < 0, slope, jax.lax.stop_gradient(slope)))
    return _prelu(x, slope), factor * dx + below * dslope


def rrelu(
    input: jax.Array,
    lower: float = 1.0 / 8,
    upper: float = 1.0 / 3,
    training: bool = False,
    inplace: bool = False,
    *,
    rng: jax.Array | None = None,
) -> jax.Array:
    """`x` above zero, `slope · x` elsewhere: in training each entry draws its slope, otherwise it is their mean.

    Args:
        input: any shape, floating.
        lower: the least slope.
        upper: the largest slope.
        training: whether slopes are drawn, from U(lower, upper).
        inplace: ignored.
        rng: a key; needed in training unless lower equals upper.

    Returns:
        As the input.

    Raises:
        ValueError: lower above upper, bounds that are not finite, or no `rng` where one is needed.
        TypeError: integers.

    Example:
        >>> print(rrelu(jnp.array([-1.0, 2.0]), 0.25, 0.75))
        [-0.5  2. ]
        >>> slopes = -rrelu(-jnp.ones(1000), 0.25, 0.75, training=True, rng=jax.random.key(0))
        >>> bool(slopes.min() >= 0.25), bool(slopes.max() <= 0.75), round(float(slopes.mean()), 1)
        (True, True, 0.5)

    Reference: torch.nn.functional.rrelu; Xu et al. 2015.
    """
    input = checks.floating("F.rrelu", "input", input)
    if not -float("inf") < lower <= upper < float("inf"):
        raise ValueError(
            f"F.rrelu: the bounds of the slopes are in disorder; expected finite lower <= upper, got {lower} and "
            f"{upper}. Correct them."
        )
    if not training or lower == upper:
        return _leaky(input, (lower + upper) / 2)
    slopes = jax.random.uniform(checks.key("F.rrelu", rng), input.shape, checks.wide_dtype(input), lower, upper)
    return _leaky(input, slopes)


def _leaky(input: jax.Array, slope: Any) -> jax.Array:
    x = input.astype(checks.wide_dtype(input))
    return jnp.where(x > 0, x, x * jnp.asarray(slope, x.dtype)).astype(input.dtype)


def elu(input: jax.Array, alpha: float = 1.0, inplace: bool = False) -> jax.Array:
    """`x` above zero, `alpha · (exp(x) - 1)` elsewhere; the derivative at 0 is alpha.

    Args:
        input: any shape, floating.
        alpha: the depth of the lower limit.
        inplace: ignored.

    Returns:
        As the input.

    Raises:
        TypeError: integers.

    Example:
        >>> elu(jnp.array([-100.0, 2.0]), 0.5)
        Array([-0.5,  2. ], dtype=float32)

    Reference: torch.nn.functional.elu; Clevert et al. 2016.
    """
    return _elu_of("F.elu", input, alpha, 1.0, 1.0)


def celu(input: jax.Array, alpha: float = 1.0, inplace: bool = False) -> jax.Array:
    """`max(x, 0) + min(0, alpha · (exp(x / alpha) - 1))`: elu with derivative 1 at 0 for every alpha.

    Args:
        input: any shape, floating.
        alpha: the depth of the lower limit, not 0.
        inplace: ignored.

    Returns:
        As the input.

    Raises:
        ValueError: alpha is 0.
        TypeError: integers.

    Example:
        >>> celu(jnp.array([-100.0, 2.0]), 0.5)
        Array([-0.5,  2. ], dtype=float32)

    Reference: torch.nn.functional.celu; Barron 2017.
    """
    if alpha == 0:
        raise ValueError("F.celu: x is divided by alpha; expected a number other than 0, got 0. Use F.relu for none.")
    return _elu_of("F.celu", input, alpha, 1.0, 1 / alpha)


def selu(input: jax.Array, inplace: bool = False) -> jax.Array:
    """`1.0507 · elu(x, 1.6733)`: keeps mean 0 and variance 1 from layer to layer.

    Args:
        input: any shape, floating.
        inplace: ignored.

    Returns:
        As the input.

    Raises:
        TypeError: integers.

    Example:
        >>> print(selu(jnp.array([-100.0, 1.0])))
        [-1.7580993  1.050701 ]

    Reference: torch.nn.functional.selu; Klambauer et al. 2017.
    """
    return _elu_of("F.selu", input, _SELU_ALPHA, _SELU_SCALE, 1.0)


def _elu_of(where: str, input: jax.Array, alpha: float, scale: float, rate: float) -> jax.Array:
    input = checks.floating(where, "input", input)
    return _elu(input.astype(checks.wide_dtype(input)), alpha, scale, rate).astype(input.dtype)


@functools.partial(jax.custom_jvp, nondiff_argnums=(1, 2, 3))
def _elu(x: jax.Array, alpha: float, scale: float, rate: float) -> jax.Array:
    return jnp.where(x <= 0, (scale * alpha) * jnp.expm1(_below(x) * rate), scale * x)


@_elu.defjvp
def _elu_jvp(alpha, scale, rate, primals, tangents):
    (x,), (dx,) = primals, tangents
    slope = jnp.where(x <= 0, (scale * alpha * rate) * jnp.exp(_below(x) * rate), scale)
    return _elu(x, alpha, scale, rate), slope * dx


def _below(x: jax.Array) -> jax.Array:
    """x below zero, else 0: exp of it stays finite, and its derivative at 0 is 0, as in torch's second derivative."""
    return jnp.where(x < 0, x, 0)
