"""Read and write TFRecord files of tf.train.Example messages that contain numbers, without TensorFlow.

A record consists of a length (8 bytes), a checksum of the length, a message, and a checksum of the message. The message
is in protobuf format: `Example { Features { map<string, Feature> } }`. A Feature is a list of int64 numbers, floats or
byte strings. The functions of tfrecord.py ignore lists of byte strings.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import google_crc32c
import numpy as np
from numpy.typing import NDArray

from funcnet.files import replacing

__all__ = ["read_examples", "write_examples"]

FLOATS, INTEGERS = 2, 3  # fields of a Feature
VARINT, LENGTH_DELIMITED, FIXED = 0, 2, {1: 8, 5: 4}  # protobuf's wire types. FIXED maps to bytes.
LONGEST = 1 << 31  # bytes. A record with a greater length is damaged.


def write_examples(path: str | Path, rows: Iterable[Mapping[str, NDArray[Any]]]) -> int:
    """Write examples to a TFRecord file atomically.

    Args:
        path: file to write.
        rows: features of each example, as a dict from name to one-dimensional array. Integers must be >= 0, and are
            stored as int64. Floats are stored as float32.

    Returns:
        The number of examples.

    Raises:
        OSError: if the file cannot be written.
        ValueError: if an integer is negative.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = write_examples(f"{folder}/x.tfrecord", [{"ids": np.array([5, 300])}])
        ...     [row["ids"].tolist() for row in read_examples(f"{folder}/x.tfrecord")]
        [[5, 300]]

    Reference: https://www.tensorflow.org/tutorials/load_data/tfrecord
    """
    number = 0
    with replacing(path) as part, part.open("wb") as file:
        for row in rows:
            data = _example(row)
            length = struct.pack("<Q", len(data))
            file.write(length + _checksum(length) + data + _checksum(data))
            number += 1
    return number


def read_examples(path: str | Path) -> Iterator[dict[str, NDArray[Any]]]:
    """Yield the examples of a TFRecord file in order, as dicts of int64 and float32 arrays.

    Args:
        path: the file.

    Raises:
        FileNotFoundError: if the file does not exist.
        ValueError: if a record is truncated, damaged, or not an example. The message gives the file and the number of
            the record.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = write_examples(f"{folder}/x.tfrecord", [{"ids": np.array([5, 300])}, {"weight": np.array([0.5])}])
        ...     list(read_examples(f"{folder}/x.tfrecord"))
        [{'ids': array([  5, 300])}, {'weight': array([0.5], dtype=float32)}]
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"read_examples: {path} does not exist; expected a TFRecord file.")
    with path.open("rb") as file:
        number = 0
        while True:
            number += 1
            try:
                data = _record(file)
                if data is None:
                    return
                row = _features(data)
            except (ValueError, IndexError, UnicodeDecodeError) as error:
                raise ValueError(
                    f"read_examples: {path}, record {number} is damaged; expected a tf.train.Example, got '{error}'."
                ) from error
            yield row


# ------------------------------------------------------------------------------------------------------------ frames


def _record(file: IO[bytes]) -> bytes | None:
    head = file.read(12)
    if not head:
        return None
    if len(head) < 12 or _checksum(head[:8]) != head[8:]:
        raise ValueError("a length whose checksum is wrong" if len(head) == 12 else "the end of the file")
    (length,) = struct.unpack("<Q", head[:8])
    if length > LONGEST:
        raise ValueError(f"a length of {length} bytes")
    data = file.read(length + 4)
    if len(data) < length + 4:
        raise ValueError("the end of the file")
    if _checksum(data[:length]) != data[length:]:
        raise ValueError("a message whose checksum is wrong")
    return data[:length]


def _checksum(data: bytes) -> bytes:
    """Return TFRecord's masked CRC-32C, which is the rotated checksum plus a constant."""
    crc = google_crc32c.value(data)
    return struct.pack("<I", (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF)


# ---------------------------------------------------------------------------------------------------------- messages


def _example(row: Mapping[str, NDArray[Any]]) -> bytes:
    entries = []
    for name, values in row.items():
        if np.issubdtype(values.dtype, np.integer):
            if values.size and values.min() < 0:
                raise ValueError(
                    f"write_examples: {name!r} has negative integers; expected integers >= 0, got {values.min()}."
                )
            feature = _field(INTEGERS, _field(1, _varints(values)))
        else:
            feature = _field(FLOATS, _field(1, values.astype("<f4").tobytes()))
        entries.append(_field(1, _field(1, name.encode()) + _field(2, feature)))
    return _field(1, b"".join(entries))


def _field(number: int, data: bytes) -> bytes:
    return bytes([number << 3 | LENGTH_DELIMITED]) + _varints(np.array([len(data)])) + data


def _varints(values: NDArray[Any]) -> bytes:
    """Encode integers as varints: seven bits per byte, lowest bits first. The top bit of a byte is set if more bytes of
    the same integer follow.
    """
    values = values.astype(np.uint64)
    most = max(1, -(-int(values.max()).bit_length() // 7)) if values.size else 1
    groups = values[:, None] >> (np.arange(most, dtype=np.uint64) * np.uint64(7))  # (N, most)
    more = groups > 127
    digits = (groups & np.uint64(127)).astype(np.uint8) | (more.astype(np.uint8) << 7)
    used = np.concatenate([np.ones((len(values), 1), np.bool_), more[:, :-1]], 1)
    return digits[used].tobytes()


def _features(data: bytes) -> dict[str, NDArray[Any]]:
    found = {}
    for number, features in _fields(data):
        for _, entry in _fields(features) if number == 1 else ():
            parts = dict(_fields(entry))
            if 1 not in parts:
                raise ValueError("a feature without a name")
            for kind, values in _fields(parts.get(2, b"")):
                if kind in (FLOATS, INTEGERS):
                    found[parts[1].decode()] = _list(values, kind)
    return found


def _list(data: bytes, kind: int) -> NDArray[Any]:
    """Decode a protobuf list of numbers, in the packed format or in the older format with one field per number."""
    packed = b"".join(part for _, part in _fields(data))
    return np.frombuffer(packed, "<f4").astype(np.float32) if kind == FLOATS else _from_varints(packed)


def _fields(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield (field number, bytes) for every field of a protobuf message. A number is yielded as its encoded bytes."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        wire = tag & 7
        if wire == LENGTH_DELIMITED:
            length, at = _varint(data, at)
        elif wire == VARINT:
            length = _varint(data, at)[1] - at
        else:
            length = FIXED.get(wire, -1)
        if length < 0 or at + length > len(data):
            raise ValueError("a truncated field")
        yield tag >> 3, data[at : at + length]
        at += length


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at


def _from_varints(packed: bytes) -> NDArray[np.int64]:
    digits = np.frombuffer(packed, np.uint8)
    last = digits < 128
    if digits.size and not last[-1]:
        raise ValueError("a truncated number")
    ends = np.flatnonzero(last)
    starts = np.concatenate([[0], ends[:-1] + 1]) if ends.size else ends
    place = np.arange(len(digits)) - np.repeat(starts, ends - starts + 1)
    parts = (digits & 127).astype(np.uint64) << (place * 7).astype(np.uint64)
    return np.add.reduceat(parts, starts).astype(np.int64) if ends.size else np.empty(0, np.int64)
