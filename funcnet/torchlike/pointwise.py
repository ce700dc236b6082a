"""Element-wise functions that differ from JAX in precision or in the gradient at a corner, and `lerp`."""

import functools
import math

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from funcnet.functional import checks
from funcnet.torchlike.arguments import common_dtype, float_dtype

__all__ = ["angle", "atan2", "copysign", "digamma", "i0", "lerp", "polygamma", "xlogy"]


def lerp(input: jax.Array, end: jax.Array, weight: ArrayLike) -> jax.Array:
    """Interpolate between two arrays: `input + weight * (end - input)`.

    Args:
        input: array of any shape, the result for weight 0.
        end: array that broadcasts with the input, the result for weight 1.
        weight: a number or an array that broadcasts with both.

    Returns:
        An array of the broadcast shape.

    Example:
        >>> lerp(jnp.array([0.0, 2.0]), jnp.array([1.0, 4.0]), 0.5).tolist()
        [0.5, 3.0]

    Reference: torch.lerp.
    """
    return input + weight * (end - input)


def angle(input: jax.Array) -> jax.Array:
    """Compute the angle of complex numbers in radians, 0 for positive real numbers and π for negative real numbers.

    Args:
        input: array of numbers of any shape.

    Returns:
        A floating-point array of the same shape. At 0, the gradient of the angle is 0.

    Differs from jax.numpy:
        The gradient of `jnp.angle` at 0 is NaN, and `jnp.angle` treats the real number -0.0 differently.

    Example:
        >>> jax.grad(lambda x: angle(jax.lax.complex(x, x)))(0.0).item()
        0.0

    Reference: torch.angle.
    """
    if not jnp.iscomplexobj(input):
        dtype = input.dtype if jnp.issubdtype(input.dtype, jnp.floating) else float_dtype()
        return jnp.where(input < 0, jnp.pi, jnp.where(jnp.isnan(input), jnp.nan, 0)).astype(dtype)
    at_zero = input == 0
    return jnp.where(at_zero, jax.lax.stop_gradient(jnp.angle(input)), jnp.angle(jnp.where(at_zero, 1, input)))


def _floats(*values: ArrayLike) -> list[jax.Array]:
    dtype = common_dtype(*values)
    dtype = dtype if jnp.issubdtype(dtype, jnp.floating) else float_dtype()
    return [jnp.asarray(value, dtype) for value in values]


def atan2(input: jax.Array, other: ArrayLike) -> jax.Array:
    """Compute the angle of the points (other, input) in radians. The gradient at (0, 0) is 0.

    Args:
        input: second coordinate, an array of real numbers of any shape.
        other: first coordinate, a number or an array that broadcasts with the input.

    Returns:
        A floating-point array of the broadcast shape.

    Differs from jax.numpy:
        The gradient of `jnp.arctan2` at (0, 0) is NaN.

    Example:
        >>> jax.grad(atan2)(0.0, 0.0).item(), jax.grad(jnp.arctan2)(0.0, 0.0).item()
        (0.0, nan)

    Reference: torch.atan2.
    """
    return _atan2(*_floats(input, other))


@jax.custom_jvp
def _atan2(y: jax.Array, x: jax.Array) -> jax.Array:
    return jnp.arctan2(y, x)


@_atan2.defjvp
def _atan2_jvp(primals: tuple[jax.Array, ...], tangents: tuple[jax.Array, ...]) -> tuple[jax.Array, jax.Array]:
    (y, x), (dy, dx) = primals, tangents
    square = x * x + y * y
    factor = jnp.where(square == 0, 0, 1 / jnp.where(square == 0, 1, square))
    return _atan2(y, x), factor * x * dy - factor * y * dx


def copysign(input: jax.Array, other: ArrayLike) -> jax.Array:
    """Return the absolute values of the input with the signs of `other`. The gradient is 0 where the input is 0.

    Args:
        input: array of real numbers of any shape. Its signs are ignored.
        other: a number or an array that broadcasts with the input.

    Returns:
        A floating-point array of the broadcast shape.

    Differs from jax.numpy:
        The gradient of `jnp.copysign` at 0 is 1 or -1.

    Example:
        >>> copysign(jnp.array([1.0, -2.0]), -0.0).tolist()
        [-1.0, -2.0]

    Reference: torch.copysign.
    """
    value, sign = _floats(input, other)
    value = jnp.where(value == 0, jax.lax.stop_gradient(value), value)
    return jnp.copysign(value, jax.lax.stop_gradient(sign))


def xlogy(input: jax.Array, other: ArrayLike) -> jax.Array:
    """Compute `input * log(other)`. Where the input is 0, the result is 0.

    Args:
        input: a number or an array of real numbers.
        other: a number or an array that broadcasts with the input.

    Returns:
        A floating-point array of the broadcast shape. If the input is 0 and `other` is not positive, the gradient with
        respect to the input is 0.

    Differs from jax.scipy:
        In `jax.scipy.special.xlogy`, this gradient is NaN or infinite.

    Example:
        >>> jax.grad(xlogy)(0.0, 0.0).item(), jax.grad(jax.scipy.special.xlogy)(0.0, 0.0).item()
        (0.0, -inf)

    Reference: torch.xlogy.
    """
    return _xlogy(*_floats(input, other))


@jax.custom_jvp
def _xlogy(x: jax.Array, y: jax.Array) -> jax.Array:
    return jax.scipy.special.xlogy(x, y)


@_xlogy.defjvp
def _xlogy_jvp(primals: tuple[jax.Array, ...], tangents: tuple[jax.Array, ...]) -> tuple[jax.Array, jax.Array]:
    (x, y), (dx, dy) = primals, tangents
    flat = (x == 0) & (y <= 0)
    return _xlogy(x, y), jnp.where(flat, 0, jnp.log(jnp.where(flat, 1, y))) * dx + x / y * dy


def i0(input: jax.Array) -> jax.Array:
    """Compute the modified Bessel function of the first kind of order 0. At 0, the gradient is 0.

    Args:
        input: floating-point array of any shape.

    Returns:
        An array of the same shape and dtype.

    Raises:
        TypeError: if the input is not floating-point.

    Differs from jax.scipy:
        The gradient of `jax.scipy.special.i0` at 0 is 1.

    Example:
        >>> jax.grad(i0)(0.0).item(), round(jax.grad(jax.scipy.special.i0)(0.0).item(), 3)
        (0.0, 1.0)

    Reference: torch.i0.
    """
    return _i0(checks.floating("tl.i0", "input", input))


@jax.custom_jvp
def _i0(x: jax.Array) -> jax.Array:
    return jax.scipy.special.i0(x)


@_i0.defjvp
def _i0_jvp(primals: tuple[jax.Array, ...], tangents: tuple[jax.Array, ...]) -> tuple[jax.Array, jax.Array]:
    (x,), (dx,) = primals, tangents
    return _i0(x), jax.scipy.special.i1(x) * dx


def digamma(input: jax.Array) -> jax.Array:
    """Compute the logarithmic derivative of the gamma function, with a gradient that is accurate for negative numbers.

    Args:
        input: floating-point array of any shape.

    Returns:
        An array of the same shape and dtype.

    Raises:
        TypeError: if the input is not floating-point.

    Differs from jax.scipy:
        The gradient of `jax.scipy.special.digamma` loses digits for arguments below -7.

    Example:
        >>> f"{digamma(jnp.float32(1.0)):.4f}"
        '-0.5772'

    Reference: torch.digamma.
    """
    return _polygamma(0, checks.floating("tl.digamma", "input", input))


def polygamma(n: int, input: jax.Array) -> jax.Array:
    """Compute the derivative of order n of the digamma function.

    Args:
        n: order, at least 0.
        input: floating-point array of any shape.

    Returns:
        An array of the same shape and dtype. For n above 0, entries below -100000 give NaN.

    Raises:
        ValueError: if the order is negative.
        TypeError: if the input is not floating-point.

    Differs from jax.scipy:
        `jax.scipy.special.polygamma` loses digits for arguments below -7.

    Example:
        >>> f"{polygamma(1, jnp.float32(1.0)):.4f}"
        '1.6449'

    Reference: torch.polygamma.
    """
    if n < 0:
        raise ValueError(f"tl.polygamma: n is negative; expected at least 0, got {n}.")
    return _polygamma(n, checks.floating("tl.polygamma", "input", input))


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _polygamma(n: int, x: jax.Array) -> jax.Array:
    if n == 0:
        return jnp.where(x == 0, -jnp.copysign(jnp.inf, x), jax.lax.digamma(x))
    factor = (-1.0) ** (n + 1) * math.factorial(n)

    def too_low(x: jax.Array) -> jax.Array:
        return (x < 1) & (x > -1e5)

    def step(carry: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        x, total = carry  # psi_n(x) = psi_n(x + 1) + factor / x^(n+1)
        low = too_low(x)
        total = total + jnp.where(low, factor / jnp.where(low, x, 1) ** (n + 1), 0)
        return jnp.where(low, x + 1, x), total

    x, total = jax.lax.while_loop(lambda carry: too_low(carry[0]).any(), step, (x, jnp.zeros_like(x)))
    return jnp.where(x < 1, jnp.nan, total + jax.scipy.special.polygamma(n, jnp.maximum(x, 1)))


@_polygamma.defjvp
def _polygamma_jvp(
    n: int, primals: tuple[jax.Array, ...], tangents: tuple[jax.Array, ...]
) -> tuple[jax.Array, jax.Array]:
    (x,), (dx,) = primals, tangents
    return _polygamma(n, x), _polygamma(n + 1, x) * dx
