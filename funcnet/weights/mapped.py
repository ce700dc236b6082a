"""Memory-map a file, so that arrays are read from disk when they are used, without a second copy.

The arrays are read-only views of the file. While any of the arrays is in use, do not truncate the file in place,
because an access beyond the end of the file kills the process. Replacing the file, as `weights.save` does, is safe.
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

_MAX_DIMS = 64  # the limit of numpy and of torch
_MAX_BYTES = 2**62  # beyond this, numpy's own sizes overflow
_SPARE, _COPIES = 2**24, 4  # bytes that may always be copied; number of copies per byte of the file
_EXPANDED = 2**30  # bytes that a tensor with strides of 0 may have, even if the file is smaller


class FilePlace(NamedTuple):
    """A range of bytes of a file, from `start` to `start + size`."""

    name: str  # for messages
    start: int
    size: int


class MappedFile:
    """A memory-mapped file. `data` contains its bytes, and `array` returns views of these bytes as arrays."""

    def __init__(self, path: Path):
        self._copied = 0
        with open(path, "rb") as file:
            self.size = os.fstat(file.fileno()).st_size
            self.data: mmap.mmap | bytes = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if self.size else b""

    def charge(self, count: int) -> None:
        """Record that `count` bytes are about to be copied into memory, because a view is not possible.

        Raises:
            ValueError: if all copies of parts of the file together are far larger than the file.
        """
        self._copied += count
        if self._copied > _SPARE + _COPIES * self.size:
            raise ValueError(
                "the tensors must be copied because of their flags or byte order, which needs too much memory; "
                f"expected at most {_SPARE + _COPIES * self.size} bytes for a file of this length, got {self._copied} "
                "bytes"
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
        """Return the bytes at `place` as a read-only array. The array is a view, or a copy if the bytes are `swapped`.

        `strides` and `offset` count elements, as in torch.

        Raises:
            ValueError: if sizes, strides or the offset are invalid, or the array would extend beyond the end of
                `place`.
        """
        count = _count(shape, dtype)
        if strides is None:
            strides = [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
        _require_counts("strides", strides)
        _require_counts("storage offset", (offset,))
        if len(strides) != len(shape):
            raise ValueError(
                f"a tensor of {len(shape)} dimensions has the wrong number of strides; expected {len(shape)}, got "
                f"{len(strides)}"
            )
        if not count:
            return _frozen(np.empty(shape, dtype))
        last = offset + sum((n - 1) * step for n, step in zip(shape, strides, strict=True))
        if (last + 1) * dtype.itemsize > place.size:
            raise ValueError(
                f"a tensor of shape {tuple(shape)}, strides {tuple(strides)} and offset {offset} lies outside of "
                f"{place.name}; expected at least {last + 1} elements of {dtype} ({(last + 1) * dtype.itemsize} "
                f"bytes), got {place.size} bytes"
            )
        if count * dtype.itemsize > max(_EXPANDED, self.size):
            raise ValueError(
                f"a tensor of shape {tuple(shape)} repeats the {place.size} bytes of {place.name} too many times; "
                f"expected at most {max(_EXPANDED, self.size)} bytes, got {count * dtype.itemsize} bytes"
            )
        steps = [step * dtype.itemsize if n > 1 else dtype.itemsize for n, step in zip(shape, strides, strict=True)]
        view: np.ndarray = np.ndarray(shape, dtype, self.data, place.start + offset * dtype.itemsize, steps)
        if not swapped:
            return view
        self.charge(view.nbytes)
        return _frozen(view.byteswap())


def _count(shape: Sequence[int], dtype: np.dtype) -> int:
    """Return the number of elements of an array. Raise a ValueError if the array would be too large for numpy."""
    _require_counts("sizes", shape)
    if len(shape) > _MAX_DIMS:
        raise ValueError(f"a tensor has too many dimensions; expected at most {_MAX_DIMS}, got {len(shape)}")
    if math.prod(max(n, 1) for n in shape) * dtype.itemsize > _MAX_BYTES:
        raise ValueError(
            f"a tensor of shape {tuple(shape)} and dtype {dtype} is too large; expected less than 2^62 bytes"
        )
    return math.prod(shape)


def _require_counts(what: str, numbers: Sequence[int]) -> None:
    if not isinstance(numbers, tuple | list) or not all(type(n) is int and 0 <= n < 2**63 for n in numbers):
        raise ValueError(f"a tensor has invalid {what}; expected integers from 0 to 2^63 - 1, got {shown(numbers)}")


def _frozen(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array
