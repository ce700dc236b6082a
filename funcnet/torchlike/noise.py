"""Random arrays with the shape and dtype of another array.

All functions in this file require the keyword argument `rng`, a JAX key. The numbers come from JAX's generator, so they
differ from torch's numbers.
"""

import jax
import jax.numpy as jnp

from funcnet.functional import checks
from funcnet.torchlike.arguments import float_dtype

__all__ = ["normal", "poisson", "rand_like", "randn_like"]


def rand_like(input: jax.Array, *, rng: jax.Array | None = None) -> jax.Array:
    """Draw an array of numbers in [0, 1). The array has the shape and the dtype of the input.

    Args:
        input: floating-point array of any shape. Only the shape and the dtype of the input are used.
        rng: JAX key, which is required.

    Returns:
        An array of the same shape and dtype.

    Raises:
        ValueError: if `rng` is None.

    Differs from torch: the numbers come from JAX's generator.

    Example:
        >>> rand_like(jnp.zeros((2, 3)), rng=jax.random.key(0)).shape
        (2, 3)

    Reference: torch.rand_like.
    """
    return jax.random.uniform(checks.key("tl.rand_like", rng), input.shape, input.dtype)


def randn_like(input: jax.Array, *, rng: jax.Array | None = None) -> jax.Array:
    """Draw an array of standard normal numbers, with the shape and the dtype of the input.

    Args:
        input, rng: as in `rand_like`.

    Returns:
        An array of the same shape and dtype.

    Raises:
        ValueError: if `rng` is None.

    Differs from torch: the numbers come from JAX's generator.

    Example:
        >>> randn_like(jnp.zeros((2, 3)), rng=jax.random.key(0)).shape
        (2, 3)

    Reference: torch.randn_like.
    """
    return jax.random.normal(checks.key("tl.randn_like", rng), input.shape, input.dtype)


def normal(mean: float | jax.Array, std: float | jax.Array = 1.0, *, rng: jax.Array | None = None) -> jax.Array:
    """Draw one number from a normal distribution for each pair of a mean and a standard deviation.

    Args:
        mean: a number or a floating-point array.
        std: a number or a floating-point array that broadcasts with the mean.
        rng: JAX key, which is required.

    Returns:
        `mean + std * noise`, of the broadcast shape. The gradient with respect to `mean` and `std` is 0.

    Raises:
        ValueError: if `rng` is None.

    Differs from torch: the numbers come from JAX's generator. If both arguments are numbers, the result has shape ().

    Example:
        >>> normal(jnp.zeros((2, 1)), jnp.ones(3), rng=jax.random.key(0)).shape
        (2, 3)

    Reference: torch.normal.
    """
    key = checks.key("tl.normal", rng)
    mean, std = jax.lax.stop_gradient((mean, std))
    shape = jnp.broadcast_shapes(jnp.shape(mean), jnp.shape(std))
    dtype = jnp.result_type(mean, std)
    dtype = dtype if jnp.issubdtype(dtype, jnp.floating) else float_dtype()
    return mean + std * jax.random.normal(key, shape, dtype)


def poisson(input: jax.Array, *, rng: jax.Array | None = None) -> jax.Array:
    """Draw one number from a Poisson distribution for each rate in an array.

    Args:
        input: floating-point array of rates.
        rng: JAX key, which is required.

    Returns:
        An array with the shape and the dtype of the input. Its gradient is 0.

    Raises:
        ValueError: if `rng` is None.

    Differs from torch: the numbers come from JAX's generator.

    Example:
        >>> poisson(jnp.zeros(3), rng=jax.random.key(0)).tolist()
        [0.0, 0.0, 0.0]

    Reference: torch.poisson.
    """
    return jax.random.poisson(checks.key("tl.poisson", rng), input).astype(input.dtype)
