"""The p-norm over some dimensions. Where the norm has a kink, its derivative is that of torch. The derivative at the
zero vector is 0.
"""

import functools
import math

import jax
import jax.numpy as jnp

__all__ = ["norm_slope", "vector_norm"]


@functools.partial(jax.custom_jvp, nondiff_argnums=(1, 2, 3))
def vector_norm(x: jax.Array, p: float, axes: int | tuple[int, ...], share: bool = True) -> jax.Array:
    """Compute `(Σ |x|^p)^(1/p)`. The norm is the largest |x| for p = inf, the smallest |x| for p = -inf, and the number
    of nonzero entries for p = 0.

    Args:
        x: array of any shape, float32 or wider.
        p: order of the norm, any number.
        axes: the dimensions to reduce, which are kept with size 1.
        share: for p = ±inf, whether several entries with the extreme |x| share the gradient evenly. If False, each of
            these entries gets the full gradient.

    Returns:
        An array of the dtype of x, with size 1 at `axes`. Where the norm is 0, its gradient is 0. If p is not ±inf, 0,
        1 or 2, intermediate results neither overflow nor underflow, unlike in torch.

    >>> vector_norm(jnp.array([3.0, 4.0]), 2.0, 0)
    Array([5.], dtype=float32)
    >>> jax.grad(lambda x: vector_norm(x, 2.0, 0)[0])(jnp.zeros(2))
    Array([0., 0.], dtype=float32)
    """
    size = jnp.abs(x)
    if math.isinf(p):
        extreme = size.max(axes, keepdims=True) if p > 0 else size.min(axes, keepdims=True)
        # On CPU, XLA's float32 maximum loses NaN (seen in JAX 0.10.2, in arrays of a few thousand entries).
        return jnp.where(jnp.isnan(x).any(axes, keepdims=True), jnp.nan, extreme)
    if p == 0:
        return (x != 0).sum(axes, keepdims=True, dtype=x.dtype)
    if p == 1:
        return size.sum(axes, keepdims=True)
    if p == 2:
        return jnp.sqrt((x * x).sum(axes, keepdims=True))
    # Entries are divided by the dominant entry, so that its power is 1. Fourth powers of 1e-12 are 0 in float32.
    unit = size.max(axes, keepdims=True, initial=0) if p > 0 else size.min(axes, keepdims=True, initial=jnp.inf)
    unit = jnp.where((unit == 0) | jnp.isinf(unit), 1, unit)
    return unit * ((size / unit) ** p).sum(axes, keepdims=True) ** (1 / p)


@vector_norm.defjvp
def _vector_norm_jvp(
    p: float, axes: tuple[int, ...], share: bool, primals: tuple[jax.Array, ...], tangents: tuple[jax.Array, ...]
) -> tuple[jax.Array, jax.Array]:
    (x,), (dx,) = primals, tangents
    norm = vector_norm(x, p, axes, share)
    return norm, (norm_slope(x, norm, p, axes, share) * dx).sum(axes, keepdims=True)


def norm_slope(x: jax.Array, norm: jax.Array, p: float, axes: int | tuple[int, ...], share: bool = True) -> jax.Array:
    """Return the derivative of `norm = vector_norm(x, p, axes, share)` with respect to each entry of x."""
    sign = jnp.sign(x)
    if p == 0:
        return jnp.zeros_like(x)
    if p == 1:
        return sign
    if math.isinf(p):
        extreme = (jnp.abs(x) == norm) | jnp.isnan(x)
        count = extreme.sum(axes, keepdims=True, dtype=x.dtype) if share else 1
        return jnp.where(extreme, sign / count, 0)
    reciprocal = jnp.where(norm == 0, 0, 1 / jnp.where(norm == 0, 1, norm))  # one division per vector, not per entry
    if p == 2:
        return x * reciprocal
    nonzero = jnp.where(x == 0, 1, x * sign)
    return jnp.where((x == 0) | (norm == 0), 0, sign * (nonzero * reciprocal) ** (p - 1))
