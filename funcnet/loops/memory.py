"""Plan the places of arrays in memory. Arrays that are needed at the same time never overlap.

Arrays are placed from the largest to the smallest. Each array is placed in the lowest gap that is free while the array
is needed.
"""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import TypeVar

__all__ = ["Life", "plan"]

_ALIGNMENT = 16
Key = TypeVar("Key", bound=Hashable)


@dataclass
class Life:
    """The number of bytes of an array, and the first and last step of the program that need the array."""

    size: int
    first: int
    last: int


def plan(lives: Mapping[Key, Life]) -> tuple[dict[Key, int], int]:
    """Return the offset of every array, and the number of bytes that all arrays need together.

    Example:
        >>> plan({"a": Life(64, 0, 1), "b": Life(32, 1, 2), "c": Life(64, 2, 3)})
        ({'a': 0, 'c': 0, 'b': 64}, 96)
    """
    offsets: dict[Key, int] = {}
    end = 0
    for key, life in sorted(lives.items(), key=lambda item: -item[1].size):
        size = -(-life.size // _ALIGNMENT) * _ALIGNMENT
        taken = sorted(
            (offsets[other], offsets[other] + -(-one.size // _ALIGNMENT) * _ALIGNMENT)
            for other, one in lives.items()
            if other in offsets and one.first <= life.last and life.first <= one.last
        )
        start = 0
        for low, high in taken:
            if start + size <= low:
                break
            start = max(start, high)
        offsets[key] = start
        end = max(end, start + size)
    return offsets, end
