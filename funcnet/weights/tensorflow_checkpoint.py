"""Read TensorFlow checkpoints in the "V2" format without TensorFlow: `NAME.index` and `NAME.data-00000-of-00001`, ….

The index is a sorted string table of LevelDB. The table consists of blocks of keys and values, a block with the
positions of these blocks, and a footer. Each key omits the prefix that it shares with the previous key. The values are
protocol buffers. The value of the empty key is the number of data files, and the value of every other key is the dtype,
shape, position and checksum of one tensor.

The arrays are read-only views of the memory-mapped data files. The checksum of a tensor is verified when the tensor is
looked up.

Reference: https://github.com/google/leveldb/blob/main/doc/table_format.md;
tensorflow/core/protobuf/tensor_bundle.proto
"""

import math
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import google_crc32c
import ml_dtypes
import numpy as np
import pyarrow

from funcnet.weights.mapped import FilePlace, MappedFile

__all__ = ["INDEX", "TensorFlowCheckpoint"]

INDEX = ".index"
_MAGIC = struct.pack("<Q", 0xDB4775248B80FB57)
_FOOTER, _TRAILER = 48, 5  # bytes; the trailer of a block is its kind and its checksum
_MAX_INDEX, _MAX_NAME, _MAX_SHARDS, _MAX_DIMS = 2**26, 2**12, 100_000, 254
_PLAIN, _SNAPPY = 0, 1
_CHUNK = 2**20
_SPARE, _GROWTH = 2**20, 32  # names and unpacked blocks may need _SPARE bytes plus _GROWTH times the size of the file

# The dtype numbers of tensorflow/core/framework/types.proto.
_TEXT, _BFLOAT16 = 7, 14
_REST = ("complex64", "int64", "bool", "uint16", "complex128", "float16", "uint32", "uint64")
_KINDS = {
    **dict(enumerate(("float32", "float64", "int32", "uint8", "int16", "int8"), 1)),
    **dict(zip((8, 9, 10, 17, 18, 19, 22, 23), _REST, strict=True)),
}
_DTYPES = {number: np.dtype(name) for number, name in _KINDS.items()} | {_BFLOAT16: np.dtype(ml_dtypes.bfloat16)}


class _Entry(NamedTuple):
    dtype: int
    shape: tuple[int, ...]
    shard: int
    offset: int
    size: int
    checksum: int
    slices: int


class TensorFlowCheckpoint(Mapping[str, Any]):
    """A mapping {name: array} of a checkpoint. An array is read, and its checksum verified, when it is looked up.

    Args:
        path: path of the checkpoint, with or without the suffix `.index`.

    Raises:
        ValueError: when the checkpoint is opened, if the index is invalid, truncated or damaged. A ValueError is also
            raised when a tensor is looked up, if the tensor lies outside its data file, is damaged, is stored in
            slices, or contains strings.
        FileNotFoundError: if the index or one of the data files is missing.
    """

    def __init__(self, path: Path):
        self._prefix = path.with_name(path.name.removesuffix(INDEX))
        entries = dict(_table(self._prefix.with_name(self._prefix.name + INDEX)))
        if b"" not in entries:
            raise ValueError("the index has no header; expected the number of data files under the empty key")
        header = _fields(entries.pop(b""), "the header")
        self._count, self._swapped = _number(header, 1), _number(header, 2) == 1
        if not 1 <= self._count <= _MAX_SHARDS:
            raise ValueError(
                f"the number of data files is out of range; expected 1 to {_MAX_SHARDS}, got {self._count}"
            )
        self._entries = {_text(key): _entry(key, value) for key, value in entries.items() if not key.startswith(b"\0")}
        self._files: dict[int, MappedFile] = {}

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __getitem__(self, name: str) -> np.ndarray:
        entry = self._entries[name]
        try:
            return self._array(f"{name!r:.120}", entry)
        except ValueError as error:
            raise ValueError(f"weights.load: {self._prefix}: {error}") from None

    def _array(self, shown: str, entry: _Entry) -> np.ndarray:
        if entry.slices:
            raise ValueError(
                f"{shown} is stored in {entry.slices} slices; expected a complete tensor. Save the variable without "
                "partitioning."
            )
        if entry.dtype not in _DTYPES:
            kind = "strings" if entry.dtype == _TEXT else f"TensorFlow's dtype number {entry.dtype}"
            raise ValueError(f"{shown} does not contain numbers; expected a numeric dtype, got {kind}")
        dtype, file = _DTYPES[entry.dtype], self._file(entry.shard)
        if entry.offset + entry.size > file.size:
            raise ValueError(
                f"{shown} lies outside of its data file, which may be truncated; expected at least "
                f"{entry.offset + entry.size} bytes, got {file.size}"
            )
        size = math.prod(entry.shape) * dtype.itemsize
        if size != entry.size:
            raise ValueError(
                f"{shown} has the wrong size; expected {size} bytes for shape {entry.shape} of {dtype}, got "
                f"{entry.size}"
            )
        if _masked(file.data, entry.offset, entry.size) != entry.checksum:
            raise ValueError(
                f"{shown} is damaged; expected the checksum in the index, got a different one. Download the data file "
                "again."
            )
        return file.array(FilePlace(shown, entry.offset, entry.size), dtype, entry.shape, swapped=self._swapped)

    def _file(self, shard: int) -> MappedFile:
        if shard >= self._count:
            raise ValueError(
                f"a tensor is in an unknown data file; expected a file number below {self._count}, got {shard}"
            )
        if shard not in self._files:
            path = self._prefix.with_name(f"{self._prefix.name}.data-{shard:05}-of-{self._count:05}")
            if not path.is_file():
                raise FileNotFoundError(
                    f"weights.load: {path} does not exist; expected all data files that the index lists."
                )
            self._files[shard] = MappedFile(path)
        return self._files[shard]


def _entry(key: bytes, value: bytes) -> _Entry:
    where = f"the entry of {_text(key)!r:.120}"
    fields = _fields(value, where)
    sizes = _fields(fields.get(2, [b""])[-1], where).get(2, [])
    if len(sizes) > _MAX_DIMS:
        raise ValueError(f"{where} has too many dimensions; expected at most {_MAX_DIMS}, got {len(sizes)}")
    dims = [_number(_fields(size, where), 1) for size in sizes]
    numbers = [_number(fields, field) for field in (1, 3, 4, 5, 6)]
    if any(n >= 2**63 for n in (*dims, *numbers)):  # a negative number, as protocol buffers write it
        raise ValueError(f"{where} has invalid sizes; expected numbers from 0 to 2^63 - 1")
    dtype, shard, offset, size, checksum = numbers
    return _Entry(dtype, tuple(dims), shard, offset, size, checksum, len(fields.get(7, [])))


def _text(key: bytes) -> str:
    try:
        return key.decode("utf-8")
    except UnicodeDecodeError:
        raise ValueError(f"the index has a name that is not UTF-8; expected UTF-8 text, got {key[:40]!r}") from None


# --------------------------------------------------------------------------------------------------- the string table


class _Budget:
    """Limits the bytes of names and unpacked blocks of an index, so that a small index cannot use a lot of memory."""

    def __init__(self, size: int):
        self.left = _SPARE + _GROWTH * size

    def take(self, count: int) -> None:
        self.left -= count
        if self.left < 0:
            raise ValueError("the index needs far more memory than its size; expected a table that TensorFlow wrote")


def _table(path: Path) -> Iterator[tuple[bytes, bytes]]:
    """Yield the (key, value) pairs of a sorted string table, in order."""
    if not path.is_file():
        raise FileNotFoundError(f"weights.load: {path} does not exist; expected the checkpoint's index.")
    size = path.stat().st_size
    if size > _MAX_INDEX:
        raise ValueError(f"the index is too long; expected at most {_MAX_INDEX} bytes, got {size}")
    data = path.read_bytes()
    if len(data) < _FOOTER or not data.endswith(_MAGIC):
        raise ValueError(
            "the index has the wrong last eight bytes; expected the end of a LevelDB table. The file may be truncated, "
            "or may not be a TensorFlow checkpoint"
        )
    footer = _Reader(data[-_FOOTER:], "the footer")
    footer.varint(), footer.varint()  # the position of a block that is never used
    budget, end, last = _Budget(size), 0, None
    for _, handle in _block(data, (footer.varint(), footer.varint()), budget):
        reader = _Reader(handle, "the index of blocks")
        place = (reader.varint(), reader.varint())
        if place[0] < end:
            raise ValueError("the blocks of the index overlap; expected consecutive blocks")
        end = sum(place)
        for key, value in _block(data, place, budget):
            if last is not None and key <= last:
                raise ValueError(
                    f"the names of the index are out of order; expected sorted names without duplicates, got "
                    f"{key[:40]!r} after {last[:40]!r}"
                )
            last = key
            yield key, value


def _block(data: bytes, place: tuple[int, int], budget: _Budget) -> Iterator[tuple[bytes, bytes]]:
    """Yield the (key, value) pairs of one block of the string table, after verifying its checksum and unpacking it."""
    start, size = place
    if start + size + _TRAILER > len(data):
        raise ValueError(
            f"a block lies outside of the index, which may be truncated; expected a block within {len(data)} bytes, "
            f"got one at {start} with {size} bytes"
        )
    kind = data[start + size]
    (checksum,) = struct.unpack_from("<I", data, start + size + 1)
    if _masked(data, start, size + 1) != checksum:
        raise ValueError(
            f"the block at {start} of the index is damaged; expected the stored checksum, got a different one"
        )
    if kind not in (_PLAIN, _SNAPPY):
        raise ValueError(f"the block at {start} of the index has an unknown compression; expected 0 or 1, got {kind}")
    block = data[start : start + size]
    if kind == _SNAPPY:
        block = _unpacked(block, budget)
    reader = _Reader(block, f"the block at {start}")
    end = len(block) - 4
    if end < 0:
        raise ValueError(f"the block at {start} of the index is too short; expected at least 4 bytes, got {len(block)}")
    end -= 4 * struct.unpack_from("<I", block, end)[0]  # positions of keys without a shared prefix, for searching
    key = b""
    while reader.position < end:
        shared, rest, length = reader.varint(), reader.varint(), reader.varint()
        if shared > len(key) or shared + rest > _MAX_NAME:
            raise ValueError(f"a name in the index is invalid; expected at most {_MAX_NAME} bytes, got {shared + rest}")
        budget.take(shared + rest)
        key = key[:shared] + reader.bytes(rest)
        yield key, reader.bytes(length)
    if reader.position != end:
        raise ValueError(
            f"the block at {start} of the index is damaged; expected its entries to end at byte {end}, got byte "
            f"{reader.position}"
        )


def _unpacked(block: bytes, budget: _Budget) -> bytes:
    size = _Reader(block, "a packed block").varint()
    budget.take(size)
    try:
        return pyarrow.decompress(block, decompressed_size=size, codec="snappy", asbytes=True)
    except (OSError, pyarrow.ArrowException) as error:
        raise ValueError(f"a block of the index cannot be decompressed; expected Snappy, got '{error}'") from None


def _masked(data: Any, start: int, size: int) -> int:
    """Return LevelDB's masked CRC-32C of some bytes. LevelDB masks checksums, because the checksum of data that
    contains checksums is weak.
    """
    crc = 0
    for at in range(start, start + size, _CHUNK):  # in chunks, because the library needs a copy
        crc = google_crc32c.extend(crc, data[at : min(at + _CHUNK, start + size)])
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


# ------------------------------------------------------------------------------------------------- protocol buffers


class _Reader:
    """Reads numbers and bytes from `data` in order. Reading past the end raises a ValueError whose message begins with
    `where`.
    """

    def __init__(self, data: bytes, where: str):
        self.data, self.where, self.position = data, where, 0

    def varint(self) -> int:
        """Read a number that is stored in groups of seven bits, the lowest first."""
        value = 0
        for shift in range(0, 70, 7):
            (byte,) = self.bytes(1)
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value & 0xFFFFFFFFFFFFFFFF
        raise ValueError(f"{self.where} of the index contains a number that is too long; expected at most 10 bytes")

    def bytes(self, count: int) -> bytes:
        if count > len(self.data) - self.position:
            raise ValueError(
                f"{self.where} of the index ends too early; expected {count} more bytes, got "
                f"{len(self.data) - self.position}"
            )
        self.position += count
        return self.data[self.position - count : self.position]


def _fields(message: bytes | int, where: str) -> dict[int, list[Any]]:
    """Return the fields of a protocol buffer as {field number: list of values}. A value is a number, or bytes if the
    field has a length.
    """
    if isinstance(message, int):
        raise ValueError(f"{where} of the index is damaged; expected a nested message, got a number")
    reader = _Reader(message, where)
    fields: dict[int, list[Any]] = {}
    while reader.position < len(message):
        tag = reader.varint()
        kind = tag & 7
        if kind == 0:
            value: Any = reader.varint()
        elif kind == 2:
            value = reader.bytes(reader.varint())
        elif kind in (1, 5):
            value = int.from_bytes(reader.bytes(8 if kind == 1 else 4), "little")
        else:
            raise ValueError(f"{where} of the index is damaged; expected a protocol buffer, got wire type {kind}")
        fields.setdefault(tag >> 3, []).append(value)
    return fields


def _number(fields: dict[int, list[Any]], field: int) -> int:
    """Return the number in a field of a protocol buffer, or 0 if the protocol buffer does not contain the field."""
    value = fields.get(field, [0])[-1]
    if not isinstance(value, int):
        raise ValueError(
            f"field {field} of a message in the index is not a number; expected a number, got {len(value)} bytes"
        )
    return value
