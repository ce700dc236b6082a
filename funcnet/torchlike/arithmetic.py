"""Element-wise functions with a different gradient or dtype than in jax.numpy."""

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from funcnet.functional import checks
from funcnet.torchlike.arguments import common_dtype

__all__ = ["abs", "clamp", "div"]


def abs(input: jax.Array) -> jax.Array:
    """Compute the absolute value. At 0, the gradient of the absolute value is 0.

    Args:
        input: array of numbers of any shape.

    Returns:
        An array of the same shape and dtype, real if the input is complex.

    Raises:
        TypeError: if the input is boolean.

    Differs from jax.numpy:
        The gradient of `jnp.abs` at 0 is 1.

    Example:
        >>> jax.grad(abs)(0.0).item(), jax.grad(jnp.abs)(0.0).item()
        (0.0, 1.0)

    Reference: torch.abs.
    """
    input = checks.numbers("tl.abs", "input", input)
    return jnp.abs(input) if jnp.iscomplexobj(input) else _abs(input)


@jax.custom_jvp
def _abs(x: jax.Array) -> jax.Array:
    return jnp.abs(x)


@_abs.defjvp
def _abs_jvp(primals: tuple[jax.Array, ...], tangents: tuple[jax.Array, ...]) -> tuple[jax.Array, jax.Array]:
    (x,), (dx,) = primals, tangents
    return _abs(x), jnp.sign(x) * dx


def clamp(input: jax.Array, min: ArrayLike | None = None, max: ArrayLike | None = None) -> jax.Array:
    """Move entries below `min` to `min`, and those above `max` to `max`. Entries at a bound have the gradient 1.

    Args:
        input: array of real numbers of any shape.
        min: lower bound, a number or an array that broadcasts with the input, or None.
        max: upper bound, a number or an array that broadcasts with the input, or None. For a `max` below `min`, the
            result is `max`.

    Returns:
        An array of the common dtype of the input and the bounds. For example, integers clamped with the bound 0.5 give
        float32. Where a bound is NaN, the result is NaN.

    Raises:
        ValueError: if both bounds are None.

    Differs from jax.numpy:
        The gradient of `jnp.clip` at the bounds is 0.5.

    Example:
        >>> clamp(jnp.array([-1.0, 0.5, 2.0]), 0, 1).tolist()
        [0.0, 0.5, 1.0]
        >>> jax.grad(clamp)(1.0, 0.0, 1.0).item(), jax.grad(jnp.clip)(1.0, 0.0, 1.0).item()
        (1.0, 0.5)

    Reference: torch.clamp.
    """
    bounds = [bound for bound in (min, max) if bound is not None]
    if not bounds:
        raise ValueError("tl.clamp: there is no bound; expected min, max or both, got None for both.")
    dtype = common_dtype(input, *bounds)
    out = jnp.asarray(input, dtype)
    if min is not None:
        low = jnp.asarray(min, dtype)
        out = jnp.where((out < low) | jnp.isnan(low), low, out)
    if max is not None:
        high = jnp.asarray(max, dtype)
        out = jnp.where((out > high) | jnp.isnan(high), high, out)
    return out


def div(input: jax.Array, other: ArrayLike, *, rounding_mode: str | None = None) -> jax.Array:
    """Divide, and round the quotient as `rounding_mode` specifies.

    Args:
        input: array of any shape.
        other: a number or an array that broadcasts with the input.
        rounding_mode: None, "trunc" (towards 0) or "floor" (downwards).

    Returns:
        An array of the common dtype of both arguments. Without rounding, a quotient of integers is a float. A rounded
        quotient has gradient 0.

    Raises:
        ValueError: if the rounding mode is unknown.

    Differs from torch:
        Division of an integer by 0 raises no error. A quotient of integers is float64 if x64 is enabled in JAX.

    Example:
        >>> div(jnp.array([-7, 7]), 2, rounding_mode="trunc").tolist()
        [-3, 3]
        >>> div(jnp.array([-7, 7]), 2, rounding_mode="floor").tolist()
        [-4, 3]

    Reference: torch.div.
    """
    dtype = common_dtype(input, other)
    top, bottom = jnp.asarray(input, dtype), jnp.asarray(other, dtype)
    if rounding_mode is None:
        return top / bottom
    top, bottom = jax.lax.stop_gradient((top, bottom))
    if rounding_mode == "floor":
        return jnp.floor_divide(top, bottom)
    if rounding_mode == "trunc":
        if jnp.issubdtype(dtype, jnp.floating):
            return jnp.trunc(top / bottom)
        return jax.lax.div(*jnp.broadcast_arrays(top, bottom))
    raise ValueError(f"tl.div: rounding_mode is unknown; expected None, 'trunc' or 'floor', got {rounding_mode!r}.")
