"""Smooth element-wise activations. The relu family is in `relu.py`, and piecewise activations are in `hard.py`.

Softmax and related functions are in `softmax.py`. For bfloat16 inputs, the computation uses float32 and rounds once at
the end. `inplace` is accepted for compatibility with torch and ignored, because arrays are immutable.
"""

import functools

import jax
import jax.numpy as jnp
from jax import lax

from funcnet.functional import checks
from funcnet.functional.hyperbolic import precise_tanh

__all__ = ["gelu", "glu", "logsigmoid", "mish", "sigmoid", "silu", "softplus", "softsign", "tanh", "tanhshrink"]

_SQRT_HALF = 0.7071067811865476
_DENSITY_AT_0 = 0.3989422804014327  # the standard normal density at 0: 1 / √(2π)
_SQRT_2_OVER_PI = 0.7978845608028654


def gelu(input: jax.Array, approximate: str = "none") -> jax.Array:
    """Compute `x · Φ(x)`, where Φ is the standard normal CDF. By default, the exact form is computed, whereas
    `jax.nn.gelu` computes the tanh approximation by default.

    Args:
        input: floating-point array of any shape.
        approximate: 'none' for the exact form with erf, or 'tanh' for the approximation
            `x/2 · (1 + tanh(√(2/π) · (x + 0.044715 x³)))`.

    Returns:
        An array of the same shape and dtype as the input.

    Raises:
        ValueError: if `approximate` is neither 'none' nor 'tanh'.
        TypeError: if the input is not floating-point.

    Example:
        >>> print(gelu(jnp.array([-1.0, 0.0, 1.0])))
        [-0.15865526  0.          0.8413447 ]

    Reference: torch.nn.functional.gelu; Hendrycks and Gimpel 2016.
    """
    input = checks.floating("F.gelu", "input", input)
    if approximate not in ("none", "tanh"):
        raise ValueError(f"F.gelu: approximate is unknown; expected 'none' or 'tanh', got {approximate!r}.")
    x = _widened(input)
    if approximate == "tanh":
        # Equal to the form with tanh, but 1 + tanh and 1 - tanh² would lose all their digits for x below -4.
        return (x * lax.logistic(2 * _SQRT_2_OVER_PI * (x + 0.044715 * x * x * x))).astype(input.dtype)
    return _gelu_by_erf(x).astype(input.dtype)


@jax.custom_jvp
def _gelu_by_erf(x: jax.Array) -> jax.Array:
    return x * _normal_below(x)


def _normal_below(x: jax.Array) -> jax.Array:
    """Return the standard normal CDF Φ(x), computed with erf as in torch. `jax.nn.gelu` uses erfc, which takes four
    times as long on CPU.

    In jaxlib 0.10.0, erf of a very negative x differs from -1 by one rounding error, and `x · Φ(x)` would multiply this
    error by x. Therefore, Φ(x) is set to 0 for x below -6 in float32, and for x below -40 in float64.
    """
    lowest = -6 if x.dtype == jnp.float32 else -40
    return jnp.where(x < lowest, jnp.zeros((), x.dtype), 0.5 * (1 + lax.erf(x * _SQRT_HALF)))


@_gelu_by_erf.defjvp
def _gelu_by_erf_jvp(primals, tangents):
    """Compute the derivative of gelu, `Φ(x) + x φ(x)`, where φ is the standard normal density. Φ(x) is computed again,
    not stored.

    The optimization barrier prevents XLA from storing the erf values of the forward pass for the backward pass. Storing
    these values took a tenth of the temporary memory of a BERT training step on CPU, and saved no measurable time.
    """
    (x,), (tangent,) = primals, tangents
    again = lax.optimization_barrier(x)
    normal = _normal_below(again)
    density = jnp.exp(-0.5 * again * again) * _DENSITY_AT_0
    return _gelu_by_erf(x), (normal + again * density) * tangent


def silu(input: jax.Array, inplace: bool = False) -> jax.Array:
    """Compute `x · sigmoid(x)` element-wise.

    Args:
        input: floating-point or complex array of any shape.
        inplace: ignored.

    Returns:
        An array of the same shape and dtype as the input.

    Raises:
        TypeError: if the input is neither floating-point nor complex.

    Example:
        >>> print(silu(jnp.array([0.0, 1.0])))
        [0.        0.7310586]

    Reference: torch.nn.functional.silu.
    """
    input = jnp.asarray(input)
    if not jnp.issubdtype(input.dtype, jnp.complexfloating):
        input = checks.floating("F.silu", "input", input)
    x = _widened(input)
    return (x * lax.logistic(x)).astype(input.dtype)


def mish(input: jax.Array, inplace: bool = False) -> jax.Array:
    """Compute `x · tanh(log(1 + exp(x)))` element-wise.

    Args:
        input: floating-point array of any shape.
        inplace: ignored.

    Returns:
        An array of the same shape and dtype as the input.

    Raises:
        TypeError: if the input is not floating-point.

    Example:
        >>> mish(jnp.array([-200.0, 0.0, 200.0]))
        Array([ -0.,   0., 200.], dtype=float32)

    Reference: torch.nn.functional.mish; Misra 2019.
    """
    input = checks.floating("F.mish", "input", input)
    return _mish(_widened(input)).astype(input.dtype)


@jax.custom_jvp
def _mish(x: jax.Array) -> jax.Array:
    return x * _mish_parts(x)[2]


@_mish.defjvp
def _mish_jvp(primals, tangents):
    (x,), (dx,) = primals, tangents
    n, left, bent = _mish_parts(x)
    slope = left * (2 - left) * (n / (n + 1))  # (1 - t) (1 + t) sigmoid(x)
    return _mish(x), (bent + jnp.where(x < 20, x, 0) * slope) * dx


def _mish_parts(x: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Return (n, 1 - t, t), where n = exp(x) and t = tanh(log(1 + n)) = w / (w + 2) with w = n (n + 2).

    Computing t as `w / (w + 2)` requires only one exponential. Above x = 20, t rounds to 1 even in float64, so x is
    clipped to 20 to prevent overflow.
    """
    n = jnp.exp(jnp.minimum(x, 20))
    w = n * (n + 2)
    return n, 2 / (w + 2), w / (w + 2)


def tanh(input: jax.Array) -> jax.Array:
    """Compute the hyperbolic tangent.

    The derivative is computed from the input x, because `1 - tanh(x)²` loses precision where tanh(x) is near 1 or -1.

    Args:
        input: array of any shape and dtype.

    Returns:
        An array of the same shape and dtype as the input. For an integer or boolean input, the result is float32.

    Example:
        >>> tanh(jnp.zeros(2))
        Array([0., 0.], dtype=float32)

    Reference: torch.nn.functional.tanh.
    """
    input = _inexact(input)
    function = jnp.tanh if jnp.iscomplexobj(input) else precise_tanh
    return function(_widened(input)).astype(input.dtype)


def sigmoid(input: jax.Array) -> jax.Array:
    """Compute `1 / (1 + exp(-x))` element-wise.

    Args:
        input: array of any shape and dtype.

    Returns:
        An array of the same shape and dtype as the input. For an integer or boolean input, the result is float32.

    Example:
        >>> sigmoid(jnp.zeros(2))
        Array([0.5, 0.5], dtype=float32)

    Reference: torch.nn.functional.sigmoid.
    """
    input = _inexact(input)
    return lax.logistic(_widened(input)).astype(input.dtype)


def logsigmoid(input: jax.Array) -> jax.Array:
    """Compute `log(1 / (1 + exp(-x)))` element-wise. The result is finite even where the sigmoid rounds to 0.

    Args:
        input: floating-point array of any shape.

    Returns:
        An array of the same shape and dtype as the input.

    Raises:
        TypeError: if the input is not floating-point.

    Example:
        >>> print(logsigmoid(jnp.array([-200.0, 0.0])))
        [-200.           -0.6931472]

    Reference: torch.nn.functional.logsigmoid.
    """
    input = checks.floating("F.logsigmoid", "input", input)
    return -_softplus(-_widened(input), 1.0, float("inf")).astype(input.dtype)


def softplus(input: jax.Array, beta: float = 1.0, threshold: float = 20.0) -> jax.Array:
    """Compute `log(1 + exp(beta · x)) / beta` element-wise, or `x` itself where `beta · x` exceeds the threshold.

    Args:
        input: floating-point array of any shape.
        beta: sharpness of the bend at 0.
        threshold: value of `beta · x` above which the function is the identity.

    Returns:
        An array of the same shape and dtype as the input.

    Raises:
        TypeError: if the input is not floating-point.

    Example:
        >>> print(softplus(jnp.array([-200.0, 0.0, 200.0])))
        [  0.          0.6931472 200.       ]

    Reference: torch.nn.functional.softplus.
    """
    input = checks.floating("F.softplus", "input", input)
    return _softplus(_widened(input), beta, threshold).astype(input.dtype)


@functools.partial(jax.custom_jvp, nondiff_argnums=(1, 2))
def _softplus(x: jax.Array, beta: float, threshold: float) -> jax.Array:
    z = x * beta
    return jnp.where(z > threshold, x, (jnp.maximum(z, 0) + _log1p(jnp.exp(-jnp.abs(z)))) / beta)


@_softplus.defjvp
def _softplus_jvp(beta, threshold, primals, tangents):
    (x,), (dx,) = primals, tangents
    z = x * beta
    bent = lax.logistic(jnp.where(z >= threshold, threshold, z))  # second derivative at the threshold is 0, as in torch
    return _softplus(x, beta, threshold), jnp.where(z > threshold, 1, bent) * dx


def _log1p(part: jax.Array) -> jax.Array:
    """Return `log(1 + part)` for 0 <= part <= 1, computed from the series of `2 artanh(part / (2 + part))`.

    The first term that the series omits is smaller than half the rounding error of the dtype. On CPU, the series takes
    a quarter of the time of jnp.log1p in float32, and a twentieth in float64.
    """
    ratio = part / (2 + part)  # at most a third
    square, series = ratio * ratio, jnp.zeros_like(part)
    for power in reversed(range(8 if part.dtype == jnp.float32 else 16)):
        series = series * square + 1 / (2 * power + 1)
    return 2 * ratio * series


def softsign(input: jax.Array) -> jax.Array:
    """Compute `x / (1 + |x|)` element-wise.

    Args:
        input: array of any shape and any numeric dtype.

    Returns:
        An array of the same shape and dtype as the input. For an integer input, the result is float32.

    Raises:
        TypeError: if the input is boolean.

    Example:
        >>> softsign(jnp.array([-1.0, 0.0, 3.0]))
        Array([-0.5 ,  0.  ,  0.75], dtype=float32)

    Reference: torch.nn.functional.softsign.
    """
    input = _inexact(checks.numbers("F.softsign", "input", input))
    x = _widened(input)
    size = jnp.abs(x) if jnp.iscomplexobj(x) else x * jnp.sign(x)  # its derivative at 0 is 0, as in torch
    return (x / (size + 1).astype(x.dtype)).astype(input.dtype)


def tanhshrink(input: jax.Array) -> jax.Array:
    """Compute `x - tanh(x)` element-wise.

    Args:
        input: array of any shape and any numeric dtype.

    Returns:
        An array of the same shape and dtype as the input. For an integer input, the result is float32.

    Raises:
        TypeError: if the input is boolean.

    Example:
        >>> print(tanhshrink(jnp.array([0.0, 10.0])))
        [0. 9.]

    Reference: torch.nn.functional.tanhshrink.
    """
    input = _inexact(checks.numbers("F.tanhshrink", "input", input))
    x = _widened(input)
    return (x - jnp.tanh(x)).astype(input.dtype)


def glu(input: jax.Array, dim: int = -1) -> jax.Array:
    """Compute `a · sigmoid(b)`, where a and b are the first and the second half of the input along `dim`.

    Args:
        input: floating-point array of any shape with an even size along `dim`.
        dim: dimension to split in half.

    Returns:
        An array of the input's shape and dtype, except that the size along `dim` is halved.

    Raises:
        ValueError: if `dim` is out of range, or the size along `dim` is odd.
        TypeError: if the input is not floating-point.

    Example:
        >>> glu(jnp.array([4.0, 2.0, 0.0, 100.0]))
        Array([2., 2.], dtype=float32)

    Reference: torch.nn.functional.glu; Dauphin et al. 2017.
    """
    input = checks.floating("F.glu", "input", input)
    if not -input.ndim <= dim < input.ndim or input.shape[dim] % 2:
        raise ValueError(
            f"F.glu: the input cannot be split in half; expected a dimension of even size, got dim={dim} of an input "
            f"of shape {input.shape}."
        )
    first, second = jnp.split(_widened(input), 2, axis=dim)
    return (first * lax.logistic(second)).astype(input.dtype)


def _inexact(input: jax.Array) -> jax.Array:
    """Return `input`, with integers and booleans promoted to float32, as torch does for real-valued functions."""
    input = jnp.asarray(input)
    return input if jnp.issubdtype(input.dtype, jnp.inexact) else input.astype(jnp.float32)


def _widened(input: jax.Array) -> jax.Array:
    return input if jnp.iscomplexobj(input) else input.astype(checks.wide_dtype(input))
