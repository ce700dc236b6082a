"""torch's files before 1.6: five pickles in a row (a magic number, the protocol, the system, the tree, the storages'
keys), then each storage as the count of its elements (int64) and its bytes, little-endian on every system.
"""

import struct
from pathlib import Path
from typing import Any

from funcnet.weights.errors import shown
from funcnet.weights.mapped import FilePlace, MappedFile
from funcnet.weights.storages import Storages, Survey
from funcnet.weights.unpickle import Unpickler

__all__ = ["read"]

_MAGIC, _PROTOCOL = 0x1950A86A20F9469CFC6C, 1001


def read(path: Path) -> Any:
    """The tree; see `weights.load`. Its pickle is read twice: the positions of the storages follow it."""
    file = MappedFile(path)
    position = 0
    for what, expected in (("magic number", _MAGIC), ("protocol version", _PROTOCOL), ("system", None)):
        reader = Unpickler(file.data, position)
        got, position = reader.load(), reader.end
        if expected is not None and got != expected:
            raise ValueError(f"it starts with another {what}; expected {expected}, got {shown(got)}")
    survey = Survey()
    first = Unpickler(file.data, position, survey)
    first.load()
    reader = Unpickler(file.data, first.end)
    keys = reader.load()
    places = _places(file, keys, survey, reader.end)
    return Unpickler(file.data, position, Storages(file, places)).load()


def _places(file: MappedFile, keys: Any, survey: Survey, position: int) -> dict[str, FilePlace]:
    """{key: where its bytes are}; nothing may follow the last."""
    if not isinstance(keys, list) or not all(type(key) is str for key in keys) or len(set(keys)) != len(keys):
        raise ValueError("its list of storages is broken; expected texts, each once")
    if set(keys) != set(survey.count):
        odd = sorted(set(keys) ^ set(survey.count))[0]
        raise ValueError(
            f"its tree and its list of storages differ; expected the same keys, got {odd!r:.80} in one only"
        )
    places = {}
    for key in keys:
        header = file.data[position : position + 8]
        if len(header) < 8:
            raise ValueError(f"it is cut short at byte {position}; expected the storage {key!r:.80}, got nothing")
        (count,) = struct.unpack("<q", header)
        if count != survey.count[key]:
            raise ValueError(f"the storage {key!r:.80} holds {count} elements; its pickle says {survey.count[key]}")
        size = count * survey.itemsize[key]
        position += 8
        if position + size > file.size:
            raise ValueError(
                f"it is cut short; expected the storage {key!r:.80} up to byte {position + size}, got {file.size}"
            )
        places[key] = FilePlace(f"the storage {key!r:.80}", position, size)
        position += size
    if position != file.size:
        raise ValueError(f"{file.size - position} bytes follow its last storage; expected none")
    return places
