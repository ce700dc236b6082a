"""Read torch's files in the format before torch 1.6.

A file in this format begins with five pickles: a magic number, the protocol, the system, the tree, and the keys of the
storages. The storages follow, each as the number of its elements (int64) and its bytes, little-endian on every system.
"""

import struct
from pathlib import Path
from typing import Any

from funcnet.weights.errors import shown
from funcnet.weights.mapped import FilePlace, MappedFile
from funcnet.weights.plain_data import warn_of
from funcnet.weights.storages import Storages, Survey
from funcnet.weights.unpickle import Unpickler

__all__ = ["begins", "read"]

_MAGIC, _PROTOCOL = 0x1950A86A20F9469CFC6C, 1001


def begins(head: bytes) -> bool:
    """Return whether a file that begins with `head` is in this format: whether its first pickle is the magic number."""
    try:
        return bool(Unpickler(head).load() == _MAGIC)
    except ValueError:
        return False


def read(path: Path) -> Any:
    """Return the tree in a torch file in the format before torch 1.6. See `weights.load`.

    The pickle of the tree is read twice. The first reading records the lengths of the storages, which determine where
    the storages are in the file. The second reading makes the arrays.
    """
    file = MappedFile(path)
    position = 0
    for what, expected in (("magic number", _MAGIC), ("protocol version", _PROTOCOL), ("system", None)):
        reader = Unpickler(file.data, position)
        got, position = reader.load(), reader.end
        if expected is not None and got != expected:
            raise ValueError(f"the file begins with an unknown {what}; expected {expected}, got {shown(got)}")
    survey = Survey()
    first = Unpickler(file.data, position, survey)
    first.load()
    reader = Unpickler(file.data, first.end)
    keys = reader.load()
    places = _places(file, keys, survey, reader.end)
    last = Unpickler(file.data, position, Storages(file, places))
    tree = last.load()
    warn_of(last.omitted, path)
    return tree


def _places(file: MappedFile, keys: object, survey: Survey, position: int) -> dict[str, FilePlace]:
    """Return {key of a storage: place of its bytes in the file}. Raise a ValueError if the storages do not match the
    tree, or do not fill the rest of the file.
    """
    if not isinstance(keys, list) or not all(type(key) is str for key in keys) or len(set(keys)) != len(keys):
        raise ValueError("the list of storages is invalid; expected strings without duplicates")
    if set(keys) != set(survey.count):
        odd = sorted(set(keys) ^ set(survey.count))[0]
        raise ValueError(
            f"the tree and the list of storages differ; expected the same keys, got {odd!r:.80} in only one of them"
        )
    places = {}
    for key in keys:
        header = file.data[position : position + 8]
        if len(header) < 8:
            raise ValueError(
                f"the file is truncated at byte {position}; expected the storage {key!r:.80}, got the end of the file"
            )
        (count,) = struct.unpack("<q", header)
        if count != survey.count[key]:
            raise ValueError(
                f"the storage {key!r:.80} does not match its pickle; expected {survey.count[key]} elements, got {count}"
            )
        size = count * survey.itemsize[key]
        position += 8
        if position + size > file.size:
            raise ValueError(
                f"the file is truncated in the storage {key!r:.80}; expected at least {position + size} bytes, got a "
                f"file of {file.size} bytes"
            )
        places[key] = FilePlace(f"the storage {key!r:.80}", position, size)
        position += size
    if position != file.size:
        raise ValueError(f"{file.size - position} bytes follow the last storage; expected the end of the file")
    return places
