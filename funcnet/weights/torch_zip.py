"""torch's files since 1.6: a zip archive of `data.pkl`, `byteorder`, `version` and uncompressed storages.

The archive is `<any name>/data.pkl`, `<any name>/data/0`, … Nothing is ever unpacked to the disk: a storage is a range
of the file. Records begin at multiples of 64 bytes, so that arrays are aligned.
"""

import struct
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from funcnet.files import replacing
from funcnet.weights.errors import UnsafeFileError
from funcnet.weights.mapped import FilePlace, MappedFile
from funcnet.weights.pickle_writer import Pickler
from funcnet.weights.storages import Storages
from funcnet.weights.unpickle import Unpickler

__all__ = ["read", "write"]

_LOCAL = struct.Struct("<4s5H3I2H")  # a record's own header: the last two are the lengths of its name and extra field
_ALIGNMENT = 64
_ROOT = "archive"  # what torch calls the folder when it writes to no named file


def read(path: Path) -> Any:
    """The tree that the archive's pickle describes; see `weights.load`."""
    file = MappedFile(path)
    places = _records(path, file)
    roots = [name.removesuffix("data.pkl") for name in places if name.count("/") == 1 and name.endswith("/data.pkl")]
    if len(roots) != 1:
        raise ValueError(
            f"it is not an archive of torch.save; expected one record <name>/data.pkl, got {len(roots)} among "
            f"{', '.join(list(places)[:5]) or 'no records'}"
        )
    root = roots[0]
    content = lambda place: bytes(file.data[place.start : place.start + place.size])
    order = content(places[f"{root}byteorder"]) if f"{root}byteorder" in places else b"little"
    if order not in (b"little", b"big"):
        raise ValueError(f"the record {root}byteorder says {order!r:.40}; expected little or big")
    prefix = f"{root}data/"
    storages = {name.removeprefix(prefix): place for name, place in places.items() if name.startswith(prefix)}
    pickle = content(places[f"{root}data.pkl"])
    reader = Unpickler(pickle, store=Storages(file, storages, swapped=order == b"big"))
    tree = reader.load()
    if reader.end != len(pickle):
        raise ValueError(f"the record {root}data.pkl continues after its pickle, by {len(pickle) - reader.end} bytes")
    return tree


def _records(path: Path, file: MappedFile) -> dict[str, FilePlace]:
    """{name: where its bytes are}; every record is uncompressed, complete, without overlap and well named."""
    try:
        with zipfile.ZipFile(path) as archive:
            entries, comment = archive.infolist(), archive.comment
    except (zipfile.BadZipFile, NotImplementedError, struct.error, ValueError, OSError, EOFError) as error:
        raise ValueError(
            f"it is a zip archive that is cut short or broken; expected a list of records, got '{error}'"
        ) from None
    names = Counter(entry.filename for entry in entries)
    if any(name.endswith("/constants.pkl") for name in names):
        raise UnsafeFileError(
            "it is a TorchScript program (torch.jit.save); expected the archive of torch.save, got code. Open it in "
            "torch and save its state_dict()"
        )
    if twice := [name for name, count in names.items() if count > 1]:
        raise ValueError(f"two records are called {twice[0]!r:.120}; expected each name once")
    places = {entry.filename: _place(entry, file) for entry in entries}
    end = 0
    for entry in sorted(entries, key=lambda entry: entry.header_offset):
        if entry.header_offset < end or (end == 0 and entry.header_offset):
            what = (
                "overlaps the one before it"
                if end
                else "is not at the start: there are bytes, or an archive, before it"
            )
            raise ValueError(f"the record {entry.filename!r:.120} {what}; expected one archive, record after record")
        place = places[entry.filename]
        end = place.start + place.size
    tail = file.data.rfind(b"PK\x05\x06")
    if tail + 22 + len(comment) != file.size:
        raise ValueError(f"{file.size - tail - 22 - len(comment)} bytes follow its end; expected none")
    return {name: place for name, place in places.items() if not name.endswith("/")}


def _place(entry: zipfile.ZipInfo, file: MappedFile) -> FilePlace:
    """Where the bytes of a record lie."""
    name = entry.filename
    if name.startswith(("/", "\\")) or ".." in name.replace("\\", "/").split("/") or ":" in name or "\\" in name:
        raise UnsafeFileError(f"the record {name!r:.120} leads out of the archive; expected a plain name")
    if entry.flag_bits & 0x1:
        raise ValueError(f"the record {name!r:.120} is encrypted; expected plain bytes")
    if entry.compress_type != zipfile.ZIP_STORED or entry.compress_size != entry.file_size:
        raise ValueError(
            f"the record {name!r:.120} is compressed; expected it stored, as torch.save does. Unpack and pack it with "
            "`zip -0`"
        )
    header = file.data[entry.header_offset : entry.header_offset + _LOCAL.size]
    if len(header) < _LOCAL.size or not header.startswith(b"PK\x03\x04"):
        raise ValueError(f"the record {name!r:.120} has no header at byte {entry.header_offset}")
    *_, name_length, extra_length = _LOCAL.unpack(header)
    start = entry.header_offset + _LOCAL.size
    if file.data[start : start + name_length] != entry.orig_filename.encode(
        "utf-8" if entry.flag_bits & 0x800 else "cp437"
    ):
        raise ValueError(f"the record {name!r:.120} has another name in its own header")
    start += name_length + extra_length
    if start + entry.file_size > file.size:
        raise ValueError(
            f"the record {name!r:.120} is cut short; expected it up to byte {start + entry.file_size}, got {file.size}"
        )
    return FilePlace(f"the record {name!r:.120}", start, entry.file_size)


def write(path: Path, tree: Any) -> None:
    """Writes the archive that `torch.load(weights_only=True)` opens; see `weights.save`."""
    pickler = Pickler()
    pickle = pickler.dump(tree)
    with replacing(path) as part, zipfile.ZipFile(part, "w", zipfile.ZIP_STORED) as archive:
        _add(archive, "data.pkl", memoryview(pickle))
        _add(archive, "byteorder", memoryview(b"little"))
        for number in range(pickler.storages):
            array = pickler.array(number)  # one at a time: what lies on a device or is not contiguous is copied
            _add(archive, f"data/{number}", array.reshape(-1).view(np.uint8).data)
        _add(archive, "version", memoryview(b"3\n"))


def _add(archive: zipfile.ZipFile, name: str, content: memoryview) -> None:
    entry = zipfile.ZipInfo(f"{_ROOT}/{name}")  # its date is 1980: equal trees make equal files
    entry.file_size = content.nbytes
    large = content.nbytes >= 2**31 - 2**20
    behind = archive.fp.tell() + _LOCAL.size + len(entry.filename) + 4 + (20 if large else 0)  # type: ignore[union-attr]
    padding = -behind % _ALIGNMENT
    entry.extra = struct.pack("<2sH", b"FB", padding) + b"Z" * padding  # as torch pads
    with archive.open(entry, "w", force_zip64=large) as record:
        record.write(content)
