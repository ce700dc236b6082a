"""Smooth activations, element by element. The relu family is in `relu.py`, the piecewise linear ones are in `hard.py`.

Softmax and its relatives are in `softmax.py`. bfloat16 is computed in float32 and rounded once. `inplace` is accepted
as in torch and does nothing, since arrays do not change.
"""

import functools

import jax
import jax.numpy as jnp
from jax import lax

from funcnet.functional import checks
from funcnet.functional.hyperbolic import precise_tanh

__all__ = ["gelu", "glu", "logsigmoid", "mish", "sigmoid", "silu", "softplus", "softsign", "tanh", "tanhshrink"]

_SQRT_HALF = 0.7071067811865476
_DENSITY_AT_0 = 0.3989422804014327  # of the normal distribution: 1 / √(2π)
_SQRT_2_OVER_PI = 0.7978845608028654


def gelu(input: jax.Array, approximate: str = "none") -> jax.Array:
    """`x · Φ(x)`, Φ the normal distribution's: exact by default, unlike `jax.nn.gelu`.

    Args:
        input: any shape, floating.
        approximate: 'none' for erf; 'tanh' for `x/2 · (1 + tanh(√(2/π) · (x + 0.044715 x³)))`.

    Returns:
        As the input.

    Raises:
        ValueError: another `approximate`.
        TypeError: integers.

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
        # The same number as by tanh, whose 1 + tanh and 1 - tanh² keep no digits of their own for x below -4.
        return (x * lax.logistic(2 * _SQRT_2_OVER_PI * (x + 0.044715 * x * x * x))).astype(input.dtype)
    return _gelu_by_erf(x).astype(input.dtype)


@jax.custom_jvp
def _gelu_by_erf(x: jax.Array) -> jax.Array:
    return x * _normal_below(x)


def _normal_below(x: jax.Array) -> jax.Array:
    """Φ(x) by erf, as in torch: jax.nn.gelu's erfc costs four times as much on CPU.

    In jaxlib 0.10.0 erf stops one rounding short of -1, and a large x would multiply the difference: it is cut off.
    """
    lowest = -6 if x.dtype == jnp.float32 else -40
    return jnp.where(x < lowest, jnp.zeros((), x.dtype), 0.5 * (1 + lax.erf(x * _SQRT_HALF)))


@_gelu_by_erf.defjvp
def _gelu_by_erf_jvp(primals, tangents):
    """`Φ(x) + x φ(x)`, with erf computed again after a barrier. Stored by the forward pass, it took a tenth of a BERT
    step's temporary memory on CPU and saved no measurable time."""
    (x,), (tangent,) = primals, tangents
    again = lax.optimization_barrier(x)
    normal = _normal_below(again)
    density = jnp.exp(-0.5 * again * again) * _DENSITY_AT_0
    return _gelu_by_erf(x), (normal + again * density) * tangent


def silu(input: jax.Array, inplace: bool = False) -> jax.Array:
    """`x · sigmoid(x)`.

    Args:
        input: any shape, floating or complex.
        inplace: ignored.

    Returns:
        As the input.

    Raises:
        TypeError: integers.

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
    """`x · tanh(log(1 + exp(x)))`.

    Args:
        input: any shape, floating.
        inplace: ignored.

    Returns:
        As the input.

    Raises:
        TypeError: integers.

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
    """(n, 1 - t, t) with n = exp(x), t = tanh(log(1 + n)) = w / (w + 2), w = n (n + 2): one exponential does it all.

    Past 20, t is 1 to the last bit of float64, so x is cut there and nothing overflows.
    """
    n = jnp.exp(jnp.minimum(x, 20))
    w = n * (n + 2)
    return n, 2 / (w + 2), w / (w + 2)


def tanh(input: jax.Array) -> jax.Array:
    """The hyperbolic tangent; its derivative is taken from the input, since 1 - tanh² cancels where tanh is near 1.

    Args:
        input: any shape and dtype.

    Returns:
        As the input; float32 for integers and booleans.

    Example:
        >>> tanh(jnp.zeros(2))
        Array([0., 0.], dtype=float32)

    Reference: torch.nn.functional.tanh.
    """
    input = _inexact(input)
    function = jnp.tanh if jnp.iscomplexobj(input) else precise_tanh
    return function(_widened(input)).astype(input.dtype)


def sigmoid(input: jax.Array) -> jax.Array:
    """`1 / (1 + exp(-x))`.

    Args:
        input: any shape and dtype.

    Returns:
        As the input; float32 for integers and booleans.

    Example:
        >>> sigmoid(jnp.zeros(2))
        Array([0.5, 0.5], dtype=float32)

    Reference: torch.nn.functional.sigmoid.
    """
    input = _inexact(input)
    return lax.logistic(_widened(input)).astype(input.dtype)


def logsigmoid(input: jax.Array) -> jax.Array:
    """`log(1 / (1 + exp(-x)))`, finite where sigmoid rounds to 0.

    Args:
        input: any shape, floating.

    Returns:
        As the input.

    Raises:
        TypeError: integers.

    Example:
        >>> print(logsigmoid(jnp.array([-200.0, 0.0])))
        [-200.           -0.6931472]

    Reference: torch.nn.functional.logsigmoid.
    """
    input = checks.floating("F.logsigmoid", "input", input)
    return -_softplus(-_widened(input), 1.0, float("inf")).astype(input.dtype)


def softplus(input: jax.Array, beta: float = 1.0, threshold: float = 20.0) -> jax.Array:
    """`log(1 + exp(beta · x)) / beta`, and `x` itself where `beta · x` is above the threshold.

    Args:
        input: any shape, floating.
        beta: how sharp the bend is.
        threshold: where the identity begins.

    Returns:
        As the input.

    Raises:
        TypeError: integers.

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
    bent = lax.logistic(jnp.where(z >= threshold, threshold, z))  # at the threshold the second derivative is torch's, 0
    return _softplus(x, beta, threshold), jnp.where(z > threshold, 1, bent) * dx


def _log1p(part: jax.Array) -> jax.Array:
    """`log(1 + e)` for 0 <= e <= 1, as 2 artanh(e / (2 + e)) by its series, whose next term is below half a rounding.

    On CPU it takes a quarter of jnp.log1p's time in float32, and a twentieth in float64.
    """
    ratio = part / (2 + part)  # at most a third
    square, series = ratio * ratio, jnp.zeros_like(part)
    for power in reversed(range(8 if part.dtype == jnp.float32 else 16)):
        series = series * square + 1 / (2 * power + 1)
    return 2 * ratio * series


def softsign(input: jax.Array) -> jax.Array:
    """`x / (1 + |x|)`.

    Args:
        input: any shape, any numbers.

    Returns:
        As the input; float32 for integers.

    Raises:
        TypeError: booleans.

    Example:
        >>> softsign(jnp.array([-1.0, 0.0, 3.0]))
        Array([-0.5 ,  0.  ,  0.75], dtype=float32)

    Reference: torch.nn.functional.softsign.
    """
    input = _inexact(checks.numbers("F.softsign", "input", input))
    x = _widened(input)
    size = jnp.abs(x) if jnp.iscomplexobj(x) else x * jnp.sign(x)  # whose derivative at 0 is torch's, 0
    return (x / (size + 1).astype(x.dtype)).astype(input.dtype)


def tanhshrink(input: jax.Array) -> jax.Array:
    """`x - tanh(x)`.

    Args:
        input: any shape, any numbers.

    Returns:
        As the input; float32 for integers.

    Raises:
        TypeError: booleans.

    Example:
        >>> print(tanhshrink(jnp.array([0.0, 10.0])))
        [0. 9.]

    Reference: torch.nn.functional.tanhshrink.
    """
    input = _inexact(checks.numbers("F.tanhshrink", "input", input))
    x = _widened(input)
    return (x - jnp.tanh(x)).astype(input.dtype)


def glu(input: jax.Array, dim: int = -1) -> jax.Array:
    """`a · sigmoid(b)`, a and b being the first and the second half of the input along `dim`.

    Args:
        input: any shape with an even size along `dim`, floating.
        dim: the dimension to halve.

    Returns:
        As the input, half as large along `dim`.

    Raises:
        ValueError: there is no dimension `dim`, or its size is odd.
        TypeError: integers.

    Example:
        >>> glu(jnp.array([4.0, 2.0, 0.0, 100.0]))
        Array([2., 2.], dtype=float32)

    Reference: torch.nn.functional.glu; Dauphin et al. 2017.
    """
    input = checks.floating("F.glu", "input", input)
    if not -input.ndim <= dim < input.ndim or input.shape[dim] % 2:
        raise ValueError(
            f"F.glu: the input is halved along dim; expected a dimension of even size, got dim={dim} of {input.shape}."
        )
    first, second = jnp.split(_widened(input), 2, axis=dim)
    return (first * lax.logistic(second)).astype(input.dtype)


def _inexact(input: jax.Array) -> jax.Array:
    """`input`, with integers promoted to float32 as torch promotes them for functions with real values."""
    input = jnp.asarray(input)
    return input if jnp.issubdtype(input.dtype, jnp.inexact) else input.astype(jnp.float32)


def _widened(input: jax.Array) -> jax.Array:
    return input if jnp.iscomplexobj(input) else input.astype(checks.wide_dtype(input))
