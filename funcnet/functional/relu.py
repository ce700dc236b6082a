"""The relu family: activations that treat inputs above and below zero differently. Where an activation has a kink, its
derivative is that of torch, not that of JAX.

For bfloat16 inputs, results are computed in float32 and rounded once at the end. `inplace` is accepted for
compatibility with torch, and ignored because arrays are immutable.
"""

import functools

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from funcnet.functional import checks
from funcnet.functional.sharding import placed

__all__ = ["celu", "elu", "leaky_relu", "prelu", "relu", "rrelu", "selu", "threshold"]

_SELU_ALPHA = 1.6732632423543772
_SELU_SCALE = 1.0507009873554805


def relu(input: jax.Array, inplace: bool = False) -> jax.Array:
    """Compute `max(x, 0)`. The derivative at 0 is 0.

    Args:
        input: floating-point or integer array of any shape.
        inplace: ignored.

    Returns:
        An array of the input's shape and dtype.

    Raises:
        TypeError: if the input is boolean or complex.

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


_relu.defjvps(lambda dx, y, x: jnp.where(x <= 0, 0, dx))  # if x is NaN, dx passes, unlike in jax.nn.relu


def threshold(input: jax.Array, threshold: float, value: float, inplace: bool = False) -> jax.Array:
    """Replace entries that are at most `threshold` by `value`. The derivative is 0 for replaced entries and 1 for the
    others.

    Args:
        input: floating-point or integer array of any shape.
        threshold: the largest value that is replaced. For an integer input, `threshold` and `value` are truncated to
            integers.
        value: the replacement.
        inplace: ignored.

    Returns:
        An array of the input's shape and dtype.

    Raises:
        ValueError: if the input's dtype cannot represent `threshold` or `value`.
        TypeError: if the input is boolean or complex.

    Differs from torch: for a uint8 input, a `value` of -1 is an error, whereas torch treats it as 255.

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
    """Return whether each entry exceeds the threshold or is NaN."""
    wide = x.astype(checks.wide_dtype(x)) if jnp.issubdtype(x.dtype, jnp.floating) else x
    return ~(wide <= jnp.asarray(threshold, wide.dtype))


def leaky_relu(input: jax.Array, negative_slope: float = 0.01, inplace: bool = False) -> jax.Array:
    """Return x for x > 0, and `negative_slope · x` otherwise. The derivative at 0 is `negative_slope`.

    Args:
        input: floating-point array of any shape.
        negative_slope: slope below zero, any number.
        inplace: ignored.

    Returns:
        An array of the input's shape and dtype.

    Raises:
        TypeError: if the input is not floating-point.

    Example:
        >>> leaky_relu(jnp.array([-2.0, 2.0]), 0.5)
        Array([-1.,  2.], dtype=float32)

    Reference: torch.nn.functional.leaky_relu.
    """
    return _leaky(checks.floating("F.leaky_relu", "input", input), negative_slope)


def prelu(input: jax.Array, weight: jax.Array) -> jax.Array:
    """Return x for x > 0, and `weight · x` otherwise. The weight contains learned slopes. The derivative at 0 is the
    slope in `weight`.

    Args:
        input: floating-point array of any shape. Dimension 1 is the channel dimension.
        weight: one slope for all channels, () or (1,), or one slope per channel, (channels,). An input with at most one
            dimension has one channel.

    Returns:
        An array of the input's shape and dtype.

    Raises:
        ValueError: if weight has more than one dimension, or its number of entries is neither 1 nor the number of
            channels.
        TypeError: if the input or weight is not floating-point, or their dtypes differ.

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
            f"in dimension 1, got weight {weight.shape} and input {input.shape}. Correct num_parameters or the input."
        )
    slope = weight.reshape(-1, *(1,) * (input.ndim - 2)) if input.ndim > 1 else weight.reshape(())
    wide = checks.wide_dtype(input)
    slopes = placed(jnp.broadcast_to(slope.astype(wide), input.shape), input, range(input.ndim))
    return _prelu(input.astype(wide), slopes).astype(input.dtype)


@jax.custom_jvp
def _prelu(x: jax.Array, slope: jax.Array) -> jax.Array:
    return jnp.where(x > 0, x, slope * x)


@_prelu.defjvp
def _prelu_jvp(primals, tangents):
    (x, slope), (dx, dslope) = primals, tangents
    # An infinite x above zero must not enter the slope's derivative. At 0, the second derivative is 0, as in torch.
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
    """Return x for x > 0, and `slope · x` otherwise. In training, the slope of each entry is random. Outside training,
    all slopes are equal.

    Args:
        input: floating-point array of any shape.
        lower: smallest slope.
        upper: largest slope.
        training: if True, slopes are drawn from U(lower, upper). If False, every slope is (lower + upper) / 2.
        inplace: ignored.
        rng: a random key, required in training unless lower equals upper.

    Returns:
        An array of the input's shape and dtype.

    Raises:
        ValueError: if lower exceeds upper, a bound is not finite, or `rng` is required but None.
        TypeError: if the input is not floating-point.

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
            f"F.rrelu: the bounds of the slopes are invalid; expected finite bounds with lower <= upper, got {lower} "
            f"and {upper}."
        )
    if not training or lower == upper:
        return _leaky(input, (lower + upper) / 2)
    slopes = jax.random.uniform(checks.key("F.rrelu", rng), input.shape, checks.wide_dtype(input), lower, upper)
    return _leaky(input, slopes)


def _leaky(input: jax.Array, slope: ArrayLike) -> jax.Array:
    x = input.astype(checks.wide_dtype(input))
    return jnp.where(x > 0, x, x * jnp.asarray(slope, x.dtype)).astype(input.dtype)


def elu(input: jax.Array, alpha: float = 1.0, inplace: bool = False) -> jax.Array:
    """Return x for x > 0, and `alpha · (exp(x) - 1)` otherwise. The derivative at 0 is alpha.

    Args:
        input: floating-point array of any shape.
        alpha: scale below zero. The output tends to -alpha as x decreases.
        inplace: ignored.

    Returns:
        An array of the input's shape and dtype.

    Raises:
        TypeError: if the input is not floating-point.

    Example:
        >>> elu(jnp.array([-100.0, 2.0]), 0.5)
        Array([-0.5,  2. ], dtype=float32)

    Reference: torch.nn.functional.elu; Clevert et al. 2016.
    """
    return _elu_of("F.elu", input, alpha, 1.0, 1.0)


def celu(input: jax.Array, alpha: float = 1.0, inplace: bool = False) -> jax.Array:
    """Compute `max(x, 0) + min(0, alpha · (exp(x / alpha) - 1))`, a variant of `elu`. The derivative at 0 is 1 for
    every alpha.

    Args:
        input: floating-point array of any shape.
        alpha: scale below zero, which must not be 0. For alpha > 0, the output tends to -alpha as x decreases.
        inplace: ignored.

    Returns:
        An array of the input's shape and dtype.

    Raises:
        ValueError: if alpha is 0.
        TypeError: if the input is not floating-point.

    Example:
        >>> celu(jnp.array([-100.0, 2.0]), 0.5)
        Array([-0.5,  2. ], dtype=float32)

    Reference: torch.nn.functional.celu; Barron 2017.
    """
    if alpha == 0:
        raise ValueError(
            "F.celu: alpha is zero, but the input is divided by alpha; expected a nonzero number, got 0. Use F.relu "
            "instead."
        )
    return _elu_of("F.celu", input, alpha, 1.0, 1 / alpha)


def selu(input: jax.Array, inplace: bool = False) -> jax.Array:
    """Compute `1.0507 · elu(x, 1.6733)`. The constants preserve mean 0 and variance 1 from layer to layer.

    Args:
        input: floating-point array of any shape.
        inplace: ignored.

    Returns:
        An array of the input's shape and dtype.

    Raises:
        TypeError: if the input is not floating-point.

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
    """Return x if x < 0, and 0 otherwise. The exponential of the result therefore never overflows. The derivative at 0
    is 0, as in torch's second derivatives.
    """
    return jnp.where(x < 0, x, 0)
