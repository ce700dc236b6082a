"""Interleave the channels of several groups. Letters: `B batch, C channels, G groups`."""

import jax
import jax.numpy as jnp

from funcnet.functional import checks

__all__ = ["channel_shuffle", "native_channel_shuffle"]


def channel_shuffle(input: jax.Array, groups: int) -> jax.Array:
    """Interleave the channels of G groups: `y[:, k · G + g] = x[:, g · C / G + k]`.

    Args:
        input: array (B, C, …) of any dtype, with at least three dimensions.
        groups: number of groups, G, which must divide C.

    Returns:
        An array of the same shape and dtype as the input.

    Raises:
        ValueError: if the input has fewer than three dimensions, or G is below 1 or does not divide C.
        TypeError: if `groups` is not an integer.

    Example:
        >>> channel_shuffle(jnp.arange(4).reshape(1, 4, 1), 2).ravel()
        Array([0, 2, 1, 3], dtype=int32)

    Reference: torch.nn.functional.channel_shuffle.
    """
    return _shuffle("F.channel_shuffle", input, groups)


def native_channel_shuffle(input: jax.Array, groups: int) -> jax.Array:
    """Apply `channel_shuffle`. In torch, `native_channel_shuffle` is the kernel that `channel_shuffle` calls.

    Example:
        >>> native_channel_shuffle(jnp.arange(6).reshape(1, 6, 1), 3).ravel()
        Array([0, 2, 4, 1, 3, 5], dtype=int32)

    Reference: torch.nn.functional.native_channel_shuffle.
    """
    return _shuffle("F.native_channel_shuffle", input, groups)


def _shuffle(where: str, input: jax.Array, groups: int) -> jax.Array:
    input, groups = jnp.asarray(input), checks.as_int(where, "groups", groups)
    if input.ndim < 3:
        raise ValueError(
            f"{where}: input has the wrong rank; expected at least 3 dimensions (batch, channel, *spatial), got shape "
            f"{input.shape}."
        )
    batch, channels, *sizes = input.shape
    if groups < 1 or channels % groups:
        raise ValueError(
            f"{where}: the channels cannot be divided into groups; expected groups to be a positive divisor of "
            f"{channels}, got {groups}."
        )
    return jnp.swapaxes(input.reshape(batch, groups, channels // groups, *sizes), 1, 2).reshape(input.shape)
