"""torch's storages: flat memory of one dtype, of which tensors are views."""

from dataclasses import dataclass, replace
from typing import Any, Protocol

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
UNTYPED = (
    "UntypedStorage"  # bytes; the tensor says its dtype. So torch writes the dtypes that have no storage of their own
)

_UNTYPED_ONLY = ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu")
DTYPES = {  # torch's names of what numpy and ml_dtypes know
    **{dtype.name: dtype for dtype in STORAGE_DTYPES.values()},
    **{name: np.dtype(name) for name in ("uint16", "uint32", "uint64")},
    **{name: np.dtype(getattr(ml_dtypes, name)) for name in _UNTYPED_ONLY},
}


@dataclass(frozen=True)
class Storage:
    """A storage as a pickle names it; tensors are made from it."""

    store: "Store"
    key: str
    dtype: np.dtype
    place: FilePlace

    def tensor(self, offset: int, size: tuple, stride: tuple, dtype: np.dtype | None = None) -> np.ndarray:
        """A view; `dtype` is for untyped storages. Offset and strides count elements of it."""
        return self.store.tensor(self, dtype or self.dtype, offset, size, stride)

    def part(self, view: Any) -> "Storage":
        """What the old format calls a view: (key, first element, how many)."""
        if type(view) is not tuple or len(view) != 3 or not all(type(n) is int and n >= 0 for n in view[1:]):
            raise ValueError(f"a view of a storage is described by {shown(view)}; expected its key, start and count")
        start, size = (n * self.dtype.itemsize for n in view[1:])
        if start + size > self.place.size:
            raise ValueError(f"a view of {self.place.name} ends at byte {start + size}; it has {self.place.size}")
        return replace(self, place=FilePlace(self.place.name, self.place.start + start, size))


class Store(Protocol):
    """Where a pickle's storages come from."""

    def storage(self, key: str, dtype: np.dtype, count: int) -> Storage: ...

    def tensor(self, storage: Storage, dtype: np.dtype, offset: int, size: tuple, stride: tuple) -> np.ndarray: ...

    def charge(self, count: int) -> None: ...


class Storages:
    """The storages of one file, each at its place."""

    def __init__(self, file: MappedFile, places: dict[str, FilePlace], swapped: bool = False):
        self._file, self._places, self._swapped = file, places, swapped

    def storage(self, key: str, dtype: np.dtype, count: int) -> Storage:
        """`count` elements under `key`.

        Raises:
            ValueError: there is no such key, or it holds less.
        """
        if key not in self._places:
            raise ValueError(
                f"storage {key!r:.80} is asked for and not there; the file holds {len(self._places)} others"
            )
        place = self._places[key]
        if count * dtype.itemsize > place.size:
            raise ValueError(f"{place.name} is too short; expected {count} elements of {dtype}, got {place.size} bytes")
        return Storage(self, key, dtype, place)

    def tensor(self, storage: Storage, dtype: np.dtype, offset: int, size: tuple, stride: tuple) -> np.ndarray:
        """The view that a pickle asks for."""
        return self._file.array(storage.place, dtype, size, stride, offset, self._swapped)

    def charge(self, count: int) -> None:
        """As `MappedFile.charge`."""
        self._file.charge(count)


class Survey:
    """Replaces the storages while their positions are unknown: notes the length of each, and makes empty arrays."""

    def __init__(self) -> None:
        self.itemsize: dict[str, int] = {}
        self.count: dict[str, int] = {}

    def storage(self, key: str, dtype: np.dtype, count: int) -> Storage:
        """Notes it; the first mention of a key says what its elements are, as in torch."""
        self.itemsize.setdefault(key, dtype.itemsize)
        self.count.setdefault(key, count)
        return Storage(self, key, dtype, FilePlace(f"the storage {key!r:.80}", 0, count * dtype.itemsize))

    def tensor(self, storage: Storage, dtype: np.dtype, offset: int, size: tuple, stride: tuple) -> np.ndarray:
        """Nothing yet."""
        return np.empty(0, dtype)

    def charge(self, count: int) -> None:
        """Nothing is copied yet."""
