"""Random numbers that depend only on explicit counters (seed, epoch, example, position), not on earlier draws.

The numbers are hashes of counters (splitmix64's finaliser), computed for entire arrays. The draws for an example
therefore do not depend on the batch that contains it, on the number of processes, or on the step from which a run was
resumed. The draws also stay the same if a new version of numpy changes its random streams.
"""

from __future__ import annotations

import operator

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["draw_bits", "permute", "to_integers", "to_uniform"]

ROUNDS = 6  # rounds of add, multiply, xor-shift in a permutation. tests/data/test_draws.py tests that 6 are enough.
SMALLEST_BITS = 6  # fewer bits would give too few permutations. Values beyond `size` are skipped.
GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def draw_bits(seed: int, *counters: ArrayLike) -> NDArray[np.uint64]:
    """Return 64 random bits for every combination of counters.

    Args:
        seed: any integer. The seed is used modulo 2**64.
        counters: integers >= 0, or arrays of them that broadcast together. Their order matters.

    Returns:
        uint64 array of the broadcast shape.

    Example:
        >>> import numpy as np
        >>> draws = draw_bits(7, 3, np.arange(4)[:, None], np.arange(5))
        >>> draws.shape, bool(draws[2, 4] == draw_bits(7, 3, 2, 4))
        ((4, 5), True)

    Reference: Steele, Lea, Flood, Fast Splittable Pseudorandom Number Generators, OOPSLA 2014
    """
    bits = _mix(np.full((1,), operator.index(seed) % 2**64, np.uint64))
    for counter in counters:
        bits = _mix(bits ^ _mix(np.atleast_1d(np.asarray(counter)).astype(np.uint64) + GOLDEN))
    shape = np.broadcast_shapes(*(np.shape(counter) for counter in counters))
    return bits.reshape(shape)


def to_uniform(bits: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Convert random bits to floats in [0, 1), which are multiples of 2**-53.

    Example:
        >>> float(to_uniform(np.array([2**63], np.uint64))[0])
        0.5
    """
    return (bits >> np.uint64(11)).astype(np.float64) * 2.0**-53


def to_integers(bits: NDArray[np.uint64], size: int) -> NDArray[np.int64]:
    """Convert random bits to integers in [0, size), where `size` is below 2**32.

    The probabilities of any two values differ by at most 2**-32.

    Example:
        >>> to_integers(np.array([0, 2**63, 2**64 - 1], np.uint64), 10).tolist()
        [0, 5, 9]
    """
    return (((bits >> np.uint64(32)) * np.uint64(size)) >> np.uint64(32)).astype(np.int64)


def permute(places: ArrayLike, size: int, *, seed: int, epoch: int) -> NDArray[np.int64]:
    """Return the values at some positions of a random permutation of `range(size)`, without storing the permutation.

    The function applies a keyed hash, which permutes the integers below a power of two, until the result is below
    `size`. On average, the hash is applied once or twice per position (more often if `size` is below 32). Time and
    memory per position therefore do not grow with `size`.

    Args:
        places: positions, integers in [0, size), of any shape.
        size: length of the permutation.
        seed, epoch: integers that determine the permutation.

    Returns:
        int64 array of the shape of `places`. Different positions give different values.

    Raises:
        ValueError: if a position is not in [0, size).
        TypeError: if `seed` is not an integer.

    Example:
        >>> sorted(permute(range(10), 10, seed=0, epoch=3).tolist()) == list(range(10))
        True

    Reference: Black, Rogaway, Ciphers with Arbitrary Finite Domains, CT-RSA 2002 (cycle walking)
    """
    given = np.asarray(places)
    if given.size and not (given.min() >= 0 and given.max() < size):
        raise ValueError(
            f"permute: a position is out of range; expected 0 to {size - 1}, got {given.min()} to {given.max()}."
        )
    values = given.astype(np.uint64)
    bits = max(int(size - 1).bit_length(), SMALLEST_BITS)
    keys = draw_bits(seed, epoch, np.arange(2 * ROUNDS))
    flat = _scramble(values.reshape(-1), bits, keys)
    outside = np.flatnonzero(flat >= size)
    while outside.size:
        flat[outside] = _scramble(flat[outside], bits, keys)
        outside = outside[flat[outside] >= size]
    return flat.reshape(values.shape).astype(np.int64)


def _scramble(values: NDArray[np.uint64], bits: int, keys: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Permute the integers below 2**bits: add, multiply by an odd number, and xor with the upper half of the bits."""
    mask, half = np.uint64(2**bits - 1), np.uint64((bits + 1) // 2)
    for add, factor in keys.reshape(-1, 2):
        values = ((values + add) * (factor | np.uint64(1))) & mask
        values = values ^ (values >> half)
    return values


def _mix(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))
