"""Random draws with given weights or probabilities. The keyword argument `rng` is a JAX key."""

import jax
import jax.numpy as jnp
import numpy as np

from funcnet.functional import checks
from funcnet.torchlike.arguments import index_dtype

__all__ = ["bernoulli", "multinomial"]


def multinomial(
    input: jax.Array, num_samples: int, replacement: bool = False, *, rng: jax.Array | None = None
) -> jax.Array:
    """Draw classes with probabilities in proportion to their weights.

    Args:
        input: floating-point array of weights, of shape (C,) or (B, C), for C classes in B rows. The weights are at
            least 0, and need not sum to 1.
        num_samples: number of draws from each row.
        replacement: whether a class may be drawn several times.
        rng: JAX key.

    Returns:
        An integer array of shape (num_samples,) or (B, num_samples), with entries from 0 to C - 1. Without replacement,
        the classes are distributed as if they were drawn one after the other.

    Raises:
        ValueError: if the shape or `num_samples` does not fit, `rng` is None, a weight is negative or not finite, or a
            row has too few weights above 0: none, or without replacement fewer than `num_samples`. Traced weights are
            not checked.

    Differs from torch:
        The numbers come from JAX's generator.

    Example:
        >>> multinomial(jnp.array([0.0, 3.0, 1.0]), 2, rng=jax.random.key(0)).sort().tolist()
        [1, 2]

    Reference: torch.multinomial.
    """
    where = "tl.multinomial"
    weights, key = checks.floating(where, "input", input), checks.key(where, rng)
    if weights.ndim not in (1, 2) or num_samples < 1 or (not replacement and num_samples > weights.shape[-1]):
        raise ValueError(
            f"{where}: a size does not fit; expected weights of shape (C,) or (B, C), and 1 to C draws without "
            f"replacement, got {weights.shape} and {num_samples}."
        )
    if checks.known(weights):
        numbers = np.asarray(weights, np.float64)
        least = (numbers > 0).sum(-1).min()
        if not np.isfinite(numbers).all() or (numbers < 0).any() or least < (1 if replacement else num_samples):
            raise ValueError(
                f"{where}: the weights do not fit; expected finite weights of at least 0, with "
                f"{1 if replacement else num_samples} of them above 0 in each row, got {least}."
            )
    logits = jnp.log(weights.astype(checks.wide_dtype(weights)))
    if replacement:
        shape = (*logits.shape[:-1], num_samples)
        drawn = jax.random.categorical(key, logits[..., None, :], shape=shape)
    else:  # the largest sums of logits and Gumbel noise are draws without replacement
        drawn = jax.lax.top_k(logits + jax.random.gumbel(key, logits.shape, logits.dtype), num_samples)[1]
    return drawn.astype(index_dtype())


def bernoulli(input: jax.Array, p: float | jax.Array | None = None, *, rng: jax.Array | None = None) -> jax.Array:
    """Draw 1 with the given probabilities, and 0 otherwise.

    Args:
        input: array of probabilities. If `p` is given, only the shape and dtype of `input` are used.
        p: probability, a number or an array that broadcasts to the shape of the input.
        rng: JAX key.

    Returns:
        An array of zeros and ones with the shape and the dtype of the input. Its gradient is 0.

    Raises:
        ValueError: if a probability is outside [0, 1], or `rng` is None. Traced probabilities are not checked.

    Differs from torch:
        The numbers come from JAX's generator.

    Example:
        >>> bernoulli(jnp.array([0.0, 1.0, 1.0]), rng=jax.random.key(0)).tolist()
        [0.0, 1.0, 1.0]

    Reference: torch.bernoulli.
    """
    probability = jnp.asarray(input if p is None else p)
    checks.in_unit_interval("tl.bernoulli", "input" if p is None else "p", probability)
    draws = jax.random.bernoulli(checks.key("tl.bernoulli", rng), probability, input.shape)
    return draws.astype(input.dtype)
