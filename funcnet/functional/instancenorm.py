"""Instance normalisation. Letters: `B batch, C channel, S spatial dimensions`.

Instance normalisation is batch normalisation of the input reshaped to (1, B · C, *S), so that every channel of every
example is a separate channel. `batchnorm.py` explains how the statistics stay accurate at a large mean.
"""

import math

import jax
import jax.numpy as jnp

from funcnet.functional import checks
from funcnet.functional.batchnorm import batch_norm, normalise_batch
from funcnet.functional.sharding import placed, reshaped

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
    """Normalise every channel of every example: `y = (x - mean) / sqrt(var + eps) · weight + bias`.

    The mean and the biased variance are computed over the spatial positions. The running statistics are updated as
    `running = (1 - momentum) · running + momentum · average`, where `average` is the batch average of either the mean
    or the unbiased variance `var · n / (n - 1)`.

    Args:
        input: floating-point array of shape (B, C, *S).
        running_mean: array of shape (C,), usually float32, or None for no running mean.
        running_var: array of shape (C,), usually float32, or None for no running variance.
        weight: array of shape (C,); None means 1.
        bias: array of shape (C,); None means 0.
        use_input_stats: if True, use the statistics of the input. If False, use the running statistics.
            `use_input_stats` must be a Python bool.
        momentum: weight of the batch average in the new running statistics, a float or a traced scalar.
        eps: number added to the variance.

    Returns:
        A tuple (y, running_mean, running_var). y has the shape and dtype of the input. The running statistics are
        updated and keep their dtypes. Running statistics that are None stay None.

    Raises:
        ValueError: if the shapes do not match, a channel has only one position, the running statistics are required but
            missing, or the batch is empty and weight or bias is given. As in torch, an empty batch without weight and
            bias is accepted and turns the running statistics into NaN.
        TypeError: if the input is not floating-point.

    Differs from torch: the running statistics are returned, not changed in place. For bfloat16 input, the statistics
        are float32.

    Example:
        >>> y, mean, var = instance_norm(jnp.array([[[1.0, 3.0]]]), jnp.zeros(1), jnp.ones(1), eps=0.0)
        >>> y.ravel(), mean, var
        (Array([-1.,  1.], dtype=float32), Array([0.2], dtype=float32), Array([1.1], dtype=float32))

    Reference: torch.nn.functional.instance_norm; Ulyanov, Vedaldi and Lempitsky 2016.
    """
    where = "F.instance_norm"
    input = checks.floating(where, "input", input)
    running_mean, running_var = (None if v is None else jnp.asarray(v) for v in (running_mean, running_var))
    _check(where, input, running_mean=running_mean, running_var=running_var, weight=weight, bias=bias)
    batch, channels, *spatial = input.shape
    if not use_input_stats:
        if running_mean is None:
            raise ValueError(
                f"{where}: the running statistics are missing; expected running_mean and running_var with "
                "use_input_stats=False, got None. Pass them, or pass use_input_stats=True."
            )
        return batch_norm(input, running_mean, running_var, weight, bias, False, momentum, eps)
    count = math.prod(spatial)
    if count == 1:
        raise ValueError(
            f"{where}: a channel with only one value has no variance; expected more than 1 spatial element, got an "
            f"input of "
            f"shape {input.shape}. Use a larger input, or pass use_input_stats=False."
        )
    dtype = checks.wide_dtype(input)
    flat = reshaped(input, (1, batch * channels, *spatial))
    tiled = lambda vector: placed(jnp.tile(vector.astype(dtype), batch), flat, (1,))
    weight, bias = (None if v is None else tiled(v) for v in (weight, bias))
    old_mean, old_var = (jnp.zeros(channels, dtype) if v is None else v for v in (running_mean, running_var))
    start = (tiled(old_mean), tiled(old_var))
    y, _, mean, _, var = normalise_batch(flat, None, *start, weight, bias, float(eps), (), None)
    y = reshaped(y, input.shape)
    if running_mean is None or running_var is None:
        return y, None, None
    rate = jnp.asarray(momentum).astype(dtype)

    def moved(old: jax.Array, new: jax.Array) -> jax.Array:
        average = reshaped(new, (batch, channels)).mean(0)
        return ((1 - rate) * old.astype(dtype) + rate * average).astype(old.dtype)

    return y, moved(running_mean, mean), moved(running_var, var * (count / max(count - 1, 1)))


def _check(where: str, input: jax.Array, **vectors: jax.Array | None) -> None:
    if input.ndim < 2:
        raise ValueError(
            f"{where}: input has too few dimensions; expected (batch, channel, *spatial), got {input.shape}."
        )
    for name, vector in vectors.items():
        checks.shape_of(where, name, vector, input.shape[1:2], "Pass one number per channel.")
    if (vectors["running_mean"] is None) != (vectors["running_var"] is None):
        raise ValueError(
            f"{where}: one of the running statistics is missing; expected both running_mean and running_var or "
            f"neither, got only {'running_var' if vectors['running_mean'] is None else 'running_mean'}."
        )
    if input.shape[0] == 0 and not (vectors["weight"] is None and vectors["bias"] is None):
        raise ValueError(
            f"{where}: the batch is empty; expected a batch size of at least 1 if weight or bias is given, got shape "
            f"{input.shape}. Skip the call if the batch is empty; torch also rejects an empty batch."
        )
