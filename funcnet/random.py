"""Random keys derived from names, and dropout masks.

A key is the result of `jax.random.key`. The key of each parameter and layer depends on its dotted name, so
adding a layer does not change the others. Every entry of a dropout mask depends on the key and the entry's position.
Under `jit`, a mask is therefore the same whether a single device computes it or each device computes its own shard.
"""

import zlib
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

__all__ = ["MissingKey", "Rate", "dropout_mask", "is_key", "key_for_name", "keys_for_names", "wrap_keys"]


Rate = float | jax.Array
"""A dropout rate, 0 to 1: a Python float, or a traced scalar, whose range cannot be checked."""


class MissingKey:
    """A placeholder for a missing random key. It raises a ValueError only when random numbers are drawn with it.

    Args:
        message: the text of the error.

    >>> key = MissingKey("the layer needs randomness.")
    >>> jax.random.uniform(key)
    Traceback (most recent call last):
    ValueError: the layer needs randomness.
    """

    def __init__(self, message: str):
        self.message = message

    def __getattr__(self, name: str) -> Any:
        if name == "message":  # not set yet while the object is copied or unpickled
            raise AttributeError(name)
        raise ValueError(self.message)


def is_key(value: object) -> bool:
    """Return whether `value` is an array of typed keys (`jax.random.key`), of any shape, or the shape of such an array.

    >>> is_key(jax.random.key(0)), is_key(jax.random.PRNGKey(0))
    (True, False)
    """
    return jax.dtypes.issubdtype(getattr(value, "dtype", None), jax.dtypes.prng_key)


def wrap_keys(data: Any, dtype: Any) -> jax.Array:
    """Return the typed keys whose data are `data`. This function is the inverse of `jax.random.key_data`.

    Args:
        data: array of uint32 (…, words of a key).
        dtype: dtype of the keys, which determines their implementation.

    >>> key = jax.random.key(7, impl="rbg")
    >>> bool(wrap_keys(jax.random.key_data(key), key.dtype) == key)
    True
    """
    return jax.random.wrap_key_data(data, impl=jax.random.key_impl(jnp.empty(0, dtype)))


def key_for_name(key: jax.Array, name: str) -> jax.Array:
    """Return the key for a name: `fold_in(key, crc32(name))`.

    The hash is the CRC-32 of the UTF-8 bytes. Unlike Python's `hash`, CRC-32 is the same in every process.

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
    """Return the keys for several names as an array (len(names),). Each key equals the result of `key_for_name` for the
    name.

    >>> key = jax.random.key(0)
    >>> bool(keys_for_names(key, ["a", "b"])[1] == key_for_name(key, "b"))
    True
    """
    hashes = np.array([zlib.crc32(name.encode()) for name in names], np.uint32)
    return jax.vmap(jax.random.fold_in, (None, 0))(key, hashes)


def dropout_mask(
    key: jax.Array, shape: Sequence[int], rate: Rate, *, part: Sequence[jax.Array | None] | None = None
) -> jax.Array:
    """Return independent booleans, each True (keep) with probability `1 - rate` (to a precision of 2**-32).

    Entry p of the flattened mask is `hash(key, p) >= rate * 2**32`. The hash takes a dozen integer operations, and XLA
    fuses them with the code that uses the mask. On CPU, the mask therefore takes almost no time and is never stored,
    whereas `jax.random` took a fifth of a BERT step. The hash is good enough for dropout, but not for cryptography.

    Args:
        key: one typed key (`jax.random.key`), of any implementation.
        shape: shape of the mask.
        rate: probability of False in [0, 1]: a Python float, or a traced scalar, whose range is not checked.
        part: for each dimension, the indices (n,) of the entries to return, or None for all indices. The returned
            entries have the same values as in the mask of shape `shape`.

    Returns:
        A boolean array. If the array is sharded under `jit`, each device computes its shard without communication.

    Raises:
        TypeError: if `key` is not a single typed key.
        ValueError: if `rate` is outside [0, 1].

    Example:
        >>> mask = dropout_mask(jax.random.key(0), (2, 3), 0.5)
        >>> jnp.where(mask, jnp.ones((2, 3)) / 0.5, 0.0)
        Array([[...

    Reference:
        The integer mixer is "lowbias32" of C. Wellons, Prospecting for Hash Functions, 2018.
    """
    if not isinstance(key, jax.Array) or not is_key(key) or key.shape:
        got = f"{type(key).__name__} of dtype {getattr(key, 'dtype', None)} and shape {getattr(key, 'shape', None)}"
        raise TypeError(f"random.dropout_mask: expected one typed key, got {got}. Make one with jax.random.key(seed).")
    if not isinstance(rate, jax.core.Tracer) and not 0.0 <= rate <= 1.0:
        raise ValueError(f"random.dropout_mask: rate is out of range; expected 0 <= rate <= 1, got {rate}.")
    shape = tuple(shape)
    indices = tuple(part) if part is not None else (None,) * len(shape)
    if isinstance(rate, jax.core.Tracer):
        rate = jnp.asarray(rate, jnp.float32)
        whole = jnp.round(rate * np.float32(2.0**32))
        threshold = jnp.clip(whole, 0, np.float32(2.0**32 - 2.0**8)).astype(jnp.uint32)
        return (_hash(_two_words(key), shape, indices) >= threshold) & (rate < 1)
    number = float(rate)
    if number in (0.0, 1.0):
        return jnp.full(tuple(n if i is None else len(i) for n, i in zip(shape, indices, strict=True)), number == 0.0)
    return _hash(_two_words(key), shape, indices) >= np.uint32(min(round(number * 2.0**32), 2**32 - 1))


def _two_words(key: jax.Array) -> jax.Array:
    """Return two 32-bit words: the data of a threefry key, or two words drawn with a key of another implementation."""
    data = jax.random.key_data(key)
    return data if data.shape == (2,) else jax.random.bits(key, (2,), jnp.uint32)


def _hash(words: jax.Array, shape: tuple[int, ...], indices: tuple[jax.Array | None, ...] | None = None) -> jax.Array:
    """Return 32 random bits per entry of a mask, from the key's two words and the entry's position in the flat mask."""
    low, high = _position(shape, (None,) * len(shape) if indices is None else indices)
    inner = words[1] if high is None else words[1] + _mix(high)
    return _mix(_mix(low ^ words[0]) + inner)


def _position(whole: tuple[int, ...], indices: tuple[jax.Array | None, ...]) -> tuple[jax.Array, jax.Array | None]:
    """Return the flat positions of some entries in an array of shape `whole`, each as a lower and an upper 32-bit word.

    The upper word is None if every position fits into the lower word. The position is a sum of one iota per dimension,
    because XLA's partitioner can split this form along any dimension, unlike a reshaped iota. A product of sizes that
    contains a symbolic size of `jax.export` is assumed to fit into one word.
    """
    shape = tuple(n if index is None else len(index) for n, index in zip(whole, indices, strict=True))
    words = [jnp.full(shape, np.uint32(0x9E3779B9)), jnp.zeros(shape, jnp.uint32)]  # not 0, because `_mix` maps 0 to 0
    which, stride = 0, 1
    for dimension in reversed(range(len(shape))):
        if isinstance(more := stride * whole[dimension], int) and more > 2**32:
            which, stride = 1, 1
        factor = np.uint32(stride) if isinstance(stride, int) else jnp.asarray(stride).astype(jnp.uint32)
        if (index := indices[dimension]) is None:
            place = lax.broadcasted_iota(jnp.uint32, shape, dimension)
        else:
            place = index.astype(jnp.uint32).reshape(-1, *(1,) * (len(shape) - dimension - 1))
        words[which] += place * factor
        stride *= whole[dimension]
    return words[0], words[1] if which else None


def _mix(x: jax.Array) -> jax.Array:
    """Apply a bijection to 32-bit words. Each input bit flips each output bit with probability 0.5 (bias 0.17 %)."""
    x = (x ^ (x >> 16)) * np.uint32(0x7FEB352D)
    x = (x ^ (x >> 15)) * np.uint32(0x846CA68B)
    return x ^ (x >> 16)
