"""A file mapped into memory: arrays are read from the disk when they are used, without a second copy.

The arrays are read-only views of the file. As long as one is alive, replace the file (as `weights.save` does) and never
shorten it in place: memory that the file no longer covers ends the process.
"""

import math
import mmap
import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from funcnet.weights.errors import shown

__all__ = ["FilePlace", "MappedFile"]

_MAX_DIMS = 64  # numpy's and torch's
_MAX_BYTES = 2**62  # past it numpy's own sizes overflow
_SPARE, _COPIES = 2**24, 4  # bytes of memory that need no reason; how often a byte of the file may be copied
_EXPANDED = 2**30  # bytes that a tensor may show by strides of 0, where that is more than the whole file has


class FilePlace(NamedTuple):
    """Some bytes of a file."""

    name: str  # for messages
    start: int
    size: int


class MappedFile:
    """The bytes of a file: `data` to slice, `array` to view."""

    def __init__(self, path: Path):
        self._copied = 0
        with open(path, "rb") as file:
            self.size = os.fstat(file.fileno()).st_size
            self.data: mmap.mmap | bytes = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if self.size else b""

    def charge(self, count: int) -> None:
        """Counts bytes that are about to be copied into memory, where a view will not do.

        Raises:
            ValueError: all copies together are far more than the file.
        """
        self._copied += count
        if self._copied > _SPARE + _COPIES * self.size:
            raise ValueError(
                f"its tensors need {self._copied} bytes of memory of their own, for their flags or their byte order; "
                f"expected at most {_SPARE + _COPIES * self.size} for its length"
            )

    def array(
        self,
        place: FilePlace,
        dtype: np.dtype,
        shape: Sequence[int],
        strides: Sequence[int] | None = None,
        offset: int = 0,
        swapped: bool = False,
    ) -> np.ndarray:
        """A read-only view of `place`; `strides` and `offset` count elements, as in torch. `swapped` bytes are copied.

        Raises:
            ValueError: sizes, strides or the offset are invalid, or lead outside of `place`.
        """
        count = _count(shape, dtype)
        if strides is None:
            strides = [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
        _require_counts("strides", strides)
        _require_counts("a storage offset", (offset,))
        if len(strides) != len(shape):
            raise ValueError(f"a tensor has {len(shape)} sizes; expected as many strides, got {len(strides)}")
        if not count:
            return _frozen(np.empty(shape, dtype))
        last = offset + sum((n - 1) * step for n, step in zip(shape, strides, strict=True))
        if (last + 1) * dtype.itemsize > place.size:
            raise ValueError(
                f"a tensor of shape {tuple(shape)}, strides {tuple(strides)} and offset {offset} lies outside of "
                f"{place.name}; expected at least {last + 1} elements of {dtype} there, got {place.size} bytes"
            )
        if count * dtype.itemsize > max(_EXPANDED, self.size):
            raise ValueError(
                f"a tensor of shape {tuple(shape)} repeats the {place.size} bytes of {place.name}; expected at most "
                f"{max(_EXPANDED, self.size)} bytes of it, got {count * dtype.itemsize}"
            )
        steps = [step * dtype.itemsize if n > 1 else dtype.itemsize for n, step in zip(shape, strides, strict=True)]
        view: np.ndarray = np.ndarray(shape, dtype, self.data, place.start + offset * dtype.itemsize, steps)
        if not swapped:
            return view
        self.charge(view.nbytes)
        return _frozen(view.byteswap())


def _count(shape: Sequence[int], dtype: np.dtype) -> int:
    """How many elements; ValueError if numpy could not hold them."""
    _require_counts("sizes", shape)
    if len(shape) > _MAX_DIMS:
        raise ValueError(f"a tensor has too many dimensions; expected at most {_MAX_DIMS}, got {len(shape)}")
    if math.prod(max(n, 1) for n in shape) * dtype.itemsize > _MAX_BYTES:
        raise ValueError(f"the sizes {tuple(shape)} of a tensor overflow; expected less than 2^62 bytes of {dtype}")
    return math.prod(shape)


def _require_counts(what: str, numbers: Sequence[int]) -> None:
    if not isinstance(numbers, tuple | list) or not all(type(n) is int and 0 <= n < 2**63 for n in numbers):
        raise ValueError(
            f"a tensor has {what} that cannot be; expected integers from 0 to 2^63 - 1, got {shown(numbers)}"
        )


def _frozen(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array
