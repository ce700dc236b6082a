"""Keys from names, and the bits of dropout.

A key is what `jax.random.key` makes. Every leaf's and every layer's key comes from its dotted name, so adding a layer
leaves the others alone; every entry of a dropout mask comes from (key, position), so devices that each hold a shard of
one array under `jit` draw the mask that a single device draws.
"""

import zlib
from collections.abc import Sequence

import jax
import jax.numpy as jnp

__all__ = ["dropout_mask", "key_for_name"]


def key_for_name(key: jax.Array, name: str) -> jax.Array:
    """The key of what `name` names: `fold_in(key, crc32(name))`.

    The hash is fixed (CRC-32 of the UTF-8 bytes), unlike Python's own, so it is the same in every process.

    Args:
        key: a typed key (`jax.random.key`).
        name: any text, such as a parameter's dotted name.

    Returns:
        A typed key of the same kind.

    >>> key = jax.random.key(0)
    >>> bool(key_for_name(key, "fc.weight") == key_for_name(key, "fc.bias"))
    False
    """
    return jax.random.fold_in(key, zlib.crc32(name.encode()))


def dropout_mask(key: jax.Array, shape: Sequence[int], rate: float) -> jax.Array:
    """Booleans of `shape`, each True (keep) with probability `1 - rate`, independently.

    Args:
        key: a typed key (`jax.random.key`), of any implementation.
        shape: of the mask.
        rate: the probability of False, a Python float in [0, 1].

    Returns:
        A boolean array.

    >>> bool(dropout_mask(jax.random.key(0), (2, 3), 0.0).all())
    True
    """
    return jax.random.bernoulli(key, 1.0 - rate, tuple(shape))
