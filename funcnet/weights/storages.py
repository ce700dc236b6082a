"""torch's storages, which are flat memory of one dtype. Tensors are views of storages."""

from dataclasses import dataclass, replace
from typing import Protocol

import ml_dtypes
import numpy as np

from funcnet.weights.errors import shown
from funcnet.weights.mapped import FilePlace, MappedFile

__all__ = ["DTYPES", "STORAGE_DTYPES", "UNTYPED", "Storage", "Storages", "Store", "Survey"]

STORAGE_DTYPES = {
    "DoubleStorage": np.dtype(np.float64),
    "FloatStorage": np.dtype(np.float32),
    "HalfStorage": np.dtype(np.float16),
    "BFloat16Storage": np.dtype(ml_dtypes.bfloat16),
    "LongStorage": np.dtype(np.int64),
    "IntStorage": np.dtype(np.int32),
    "ShortStorage": np.dtype(np.int16),
    "CharStorage": np.dtype(np.int8),
    "ByteStorage": np.dtype(np.uint8),
    "BoolStorage": np.dtype(np.bool_),
    "ComplexFloatStorage": np.dtype(np.complex64),
    "ComplexDoubleStorage": np.dtype(np.complex128),
}
UNTYPED = "UntypedStorage"  # bytes, for dtypes without a storage class; the tensor names its dtype
_UNTYPED_ONLY = ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu")
DTYPES = {  # torch's names of the dtypes that numpy and ml_dtypes support
    **{dtype.name: dtype for dtype in STORAGE_DTYPES.values()},
    **{name: np.dtype(name) for name in ("uint16", "uint32", "uint64")},
    **{name: np.dtype(getattr(ml_dtypes, name)) for name in _UNTYPED_ONLY},
}


@dataclass(frozen=True)
class Storage:
    """A storage to which a pickle refers by its key. Tensors are views of a storage."""

    store: "Store"
    key: str
    dtype: np.dtype
    place: FilePlace

    def tensor(self, offset: int, size: tuple, stride: tuple, dtype: np.dtype | None = None) -> np.ndarray:
        """Return a tensor, which is a view of this storage. `offset` and `stride` count elements. For an untyped
        storage, `dtype` is the dtype of the tensor.
        """
        return self.store.tensor(self, dtype or self.dtype, offset, size, stride)

    def part(self, view: object) -> "Storage":
        """Return a part of this storage. `view` is (key, first element, number of elements).

        Only files in the format before torch 1.6 contain views of storages.

        Raises:
            ValueError: if the view is invalid or lies outside of the storage.
        """
        if type(view) is not tuple or len(view) != 3 or not all(type(n) is int and n >= 0 for n in view[1:]):
            raise ValueError(f"a view of a storage is invalid; expected (key, start, count), got {shown(view)}")
        start, size = (n * self.dtype.itemsize for n in view[1:])
        if start + size > self.place.size:
            raise ValueError(
                f"a view of {self.place.name} is too long; expected it to end at byte {self.place.size} at most, got "
                f"byte {start + size}"
            )
        return replace(self, place=FilePlace(self.place.name, self.place.start + start, size))


class Store(Protocol):
    """The interface from which the reader of a pickle gets storages and tensors."""

    def storage(self, key: str, dtype: np.dtype, count: int) -> Storage: ...

    def tensor(self, storage: Storage, dtype: np.dtype, offset: int, size: tuple, stride: tuple) -> np.ndarray: ...

    def charge(self, count: int) -> None: ...


class Storages:
    """The storages of a memory-mapped file, whose positions in the file are known."""

    def __init__(self, file: MappedFile, places: dict[str, FilePlace], swapped: bool = False):
        self._file, self._places, self._swapped = file, places, swapped

    def storage(self, key: str, dtype: np.dtype, count: int) -> Storage:
        """Return the storage with the key `key`, of which the pickle uses `count` elements.

        Raises:
            ValueError: if the file has no storage with this key, or the storage has fewer than `count` elements.
        """
        if key not in self._places:
            raise ValueError(
                f"the storage {key!r:.80} is missing; expected it in the file, got {len(self._places)} other storages"
            )
        place = self._places[key]
        if count * dtype.itemsize > place.size:
            raise ValueError(
                f"{place.name} is too short; expected {count} elements of {dtype} ({count * dtype.itemsize} bytes), "
                f"got {place.size} bytes"
            )
        return Storage(self, key, dtype, place)

    def tensor(self, storage: Storage, dtype: np.dtype, offset: int, size: tuple, stride: tuple) -> np.ndarray:
        """Return a view of `storage` with the given dtype, offset, size and strides."""
        return self._file.array(storage.place, dtype, size, stride, offset, self._swapped)

    def charge(self, count: int) -> None:
        """Record that `count` bytes are about to be copied. See `MappedFile.charge`."""
        self._file.charge(count)


class Survey:
    """A replacement for `Storages` while the positions of the storages are unknown. A survey records the lengths of the
    storages that a pickle mentions, and returns empty arrays as tensors.
    """

    def __init__(self) -> None:
        self.itemsize: dict[str, int] = {}
        self.count: dict[str, int] = {}

    def storage(self, key: str, dtype: np.dtype, count: int) -> Storage:
        """Record the length and dtype of a storage. If a pickle mentions a storage twice, the first mention counts, as
        in torch.
        """
        self.itemsize.setdefault(key, dtype.itemsize)
        self.count.setdefault(key, count)
        return Storage(self, key, dtype, FilePlace(f"the storage {key!r:.80}", 0, count * dtype.itemsize))

    def tensor(self, storage: Storage, dtype: np.dtype, offset: int, size: tuple, stride: tuple) -> np.ndarray:
        """Return an empty array in place of the tensor."""
        return np.empty(0, dtype)

    def charge(self, count: int) -> None:
        """Do nothing, because a survey copies no bytes."""
