"""Instance normalisation. Letters: `B batch, C channel, S spatial dimensions`.

It is batch normalisation of (1, B · C, *S), where every channel of every example is a channel of its own:
`batchnorm.py` explains how its statistics stay accurate at a large mean.
"""

import math

import jax
import jax.numpy as jnp

from funcnet.functional import checks
from funcnet.functional.batchnorm import batch_norm, normalise_batch

__all__ = ["instance_norm"]


def instance_norm(
    input: jax.Array,
    running_mean: jax.Array | None = None,
    running_var: jax.Array | None = None,
    weight: jax.Array | None = None,
    bias: jax.Array | None = None,
    use_input_stats: bool = True,
    momentum: float | jax.Array = 0.1,
    eps: float = 1e-5,
) -> tuple[jax.Array, jax.Array | None, jax.Array | None]:
    """Normalises every channel of every example: `y = (x - mean) / sqrt(var + eps) · weight + bias`.

    Mean and (biased) variance are those of the channel's positions. Running statistics move towards their averages over
    the batch, `running = (1 - momentum) · running + momentum · average`, of the unbiased variances `var · n / (n - 1)`.

    Args:
        input: (B, C, *S), floating.
        running_mean: (C,), kept in its own dtype (float32 as a rule); None: none are kept.
        running_var: (C,), likewise.
        weight: (C,); None is 1.
        bias: (C,); None is 0.
        use_input_stats: whether to use the input's statistics; otherwise the running ones. A Python bool.
        momentum: the weight of the new value, a float or a traced scalar.
        eps: added to the variance.

    Returns:
        (y, running_mean, running_var): y as the input, the statistics as they were given, with their new values.

    Raises:
        ValueError: shapes that do not fit; one position per channel; no running statistics where they are used; an
            empty batch beside weight or bias (without them it passes, as in torch, and makes NaN of the statistics).
        TypeError: integers.

    Differs from torch: returns the running statistics rather than changing them; float32 statistics of bfloat16 input.

    Example:
        >>> y, mean, var = instance_norm(jnp.array([[[1.0, 3.0]]]), jnp.zeros(1), jnp.ones(1), eps=0.0)
        >>> y.ravel(), mean, var
        (Array([-1.,  1.], dtype=float32), Array([0.2], dtype=float32), Array([1.1], dtype=float32))

    Reference: torch.nn.functional.instance_norm; Ulyanov, Vedaldi and Lempitsky 2016.
    """
    where = "F.instance_norm"
    input = checks.floating(where, "input", input)
    if input.ndim < 2:
        raise ValueError(
            f"{where}: input has too few dimensions; expected (batch, channel, *spatial), got {input.shape}."
        )
    running_mean, running_var = (None if v is None else jnp.asarray(v) for v in (running_mean, running_var))
    batch, channels, *spatial = input.shape
    vectors = {"running_mean": running_mean, "running_var": running_var, "weight": weight, "bias": bias}
    for name, vector in vectors.items():
        checks.shape_of(where, name, vector, (channels,), "It holds one number a channel.")
    if (running_mean is None) != (running_var is None):
        raise ValueError(
            f"{where}: one of the running statistics is missing; expected running_mean and running_var or neither, "
            f"got {'running_var' if running_mean is None else 'running_mean'} alone."
        )
    if batch == 0 and not (weight is None and bias is None):
        raise ValueError(
            f"{where}: there is no example; expected a batch of at least 1 beside weight or bias, got {input.shape}. "
            "Leave the call out where a batch may be empty; torch refuses it, too."
        )
    if not use_input_stats:
        if running_mean is None:
            raise ValueError(
                f"{where}: nothing to normalise by; expected running_mean and running_var where use_input_stats=False, "
                "got None. Pass them, or use_input_stats=True."
            )
        return batch_norm(input, running_mean, running_var, weight, bias, False, momentum, eps)
    count = math.prod(spatial)
    if count == 1:
        raise ValueError(
            f"{where}: one value has no variance; expected more than 1 spatial element, got {input.shape}. "
            "Use a larger input, or use_input_stats=False."
        )
    dtype = checks.wide_dtype(input)
    weight, bias = (None if v is None else jnp.tile(v.astype(dtype), batch) for v in (weight, bias))
    old_mean, old_var = (jnp.zeros(channels, dtype) if v is None else v for v in (running_mean, running_var))
    start = (jnp.tile(v.astype(dtype), batch) for v in (old_mean, old_var))
    flat = input.reshape(1, batch * channels, *spatial)
    y, _, mean, _, var = normalise_batch(flat, None, *start, weight, bias, float(eps), (), None)
    y = y.reshape(input.shape)
    if running_mean is None or running_var is None:
        return y, None, None
    rate = jnp.asarray(momentum).astype(dtype)

    def moved(old: jax.Array, new: jax.Array) -> jax.Array:
        average = new.reshape(batch, channels).mean(0)
        return ((1 - rate) * old.astype(dtype) + rate * average).astype(old.dtype)

    return y, moved(running_mean, mean), moved(running_var, var * (count / max(count - 1, 1)))
