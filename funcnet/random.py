"""Keys from names, and the bits of dropout.

A key is what `jax.random.key` makes. Every leaf's and every layer's key comes from its dotted name, so adding a layer
leaves the others alone; every entry of a dropout mask comes from (key, position), so devices that each hold a shard of
one array under `jit` draw the mask that a single device draws.
"""

import zlib
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

__all__ = ["dropout_mask", "key_for_name", "keys_for_names"]


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


def keys_for_names(key: jax.Array, names: Sequence[str]) -> jax.Array:
    """The keys of several names, (len(names),), in one operation; each is `key_for_name`'s.

    >>> key = jax.random.key(0)
    >>> bool(keys_for_names(key, ["a", "b"])[1] == key_for_name(key, "b"))
    True
    """
    hashes = np.array([zlib.crc32(name.encode()) for name in names], np.uint32)
    return jax.vmap(jax.random.fold_in, (None, 0))(key, hashes)


def dropout_mask(key: jax.Array, shape: Sequence[int], rate: float) -> jax.Array:
    """Booleans of `shape`, each True (keep) with probability `1 - rate` (to 2**-32), independently.

    Entry p of the flattened mask is `hash(key, p) >= rate * 2**32`. The hash is a dozen integer operations that XLA
    fuses with whatever uses the mask, so on CPU the mask costs almost nothing and is never stored, while `jax.random`
    took a fifth of a BERT step. It is good enough for dropout and not for cryptography.

    Args:
        key: one typed key (`jax.random.key`), of any implementation.
        shape: of the mask.
        rate: the probability of False, a Python float in [0, 1].

    Returns:
        A boolean array. Under `jit` with the result sharded, each device computes its own part, without communication.

    Raises:
        TypeError: `key` is not one typed key.
        ValueError: `rate` lies outside [0, 1].

    Example:
        >>> mask = dropout_mask(jax.random.key(0), (2, 3), 0.5)
        >>> jnp.where(mask, jnp.ones((2, 3)) / 0.5, 0.0)
        Array([[...

    Reference:
        The integer mixer is "lowbias32" of C. Wellons, Prospecting for Hash Functions, 2018.
    """
    if not isinstance(key, jax.Array) or not jnp.issubdtype(key.dtype, jax.dtypes.prng_key) or key.shape:
        got = f"{type(key).__name__} of dtype {getattr(key, 'dtype', None)} and shape {getattr(key, 'shape', None)}"
        raise TypeError(f"random.dropout_mask: expected one typed key, got {got}. Make it with jax.random.key(seed).")
    if not 0.0 <= rate <= 1.0:
        raise ValueError(f"random.dropout_mask: rate is a probability; expected 0 <= rate <= 1, got {rate}.")
    shape = tuple(shape)
    if rate in (0.0, 1.0):
        return jnp.full(shape, rate == 0.0)
    threshold = min(round(rate * 2.0**32), 2**32 - 1)
    return _hash(_two_words(key), shape) >= np.uint32(threshold)


def _two_words(key: jax.Array) -> jax.Array:
    """64 bits that are the key's own: a threefry key's data, or two words drawn from another kind's key."""
    data = jax.random.key_data(key)
    return data if data.shape == (2,) else jax.random.bits(key, (2,), jnp.uint32)


def _hash(words: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    """32 bits an entry, from the key's two words and the entry's position in the flattened array."""
    low, high = _position(shape)
    inner = words[1] if high is None else words[1] + _mix(high)
    return _mix(_mix(low ^ words[0]) + inner)


def _position(shape: tuple[int, ...]) -> tuple[jax.Array, jax.Array | None]:
    """The flat position as two words; the upper one is None where the lower suffices.

    A sum of one iota a dimension, and not one iota reshaped: XLA's partitioner splits this one along any dimension.
    """
    words = [jnp.full(shape, np.uint32(0x9E3779B9)), jnp.zeros(shape, jnp.uint32)]  # not 0, which mixes to 0
    which, stride = 0, 1
    for dimension in reversed(range(len(shape))):
        if stride * shape[dimension] > 2**32:
            which, stride = 1, 1
        words[which] += lax.broadcasted_iota(jnp.uint32, shape, dimension) * np.uint32(stride)
        stride *= shape[dimension]
    return words[0], words[1] if which else None


def _mix(x: jax.Array) -> jax.Array:
    """A bijection of 32 bits in which every input bit flips every output bit with probability 0.5 (bias 0.17 %)."""
    x = (x ^ (x >> 16)) * np.uint32(0x7FEB352D)
    x = (x ^ (x >> 15)) * np.uint32(0x846CA68B)
    return x ^ (x >> 16)
