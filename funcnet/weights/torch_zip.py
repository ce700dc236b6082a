"""Read and write torch's files in the format of torch 1.6 and later: zip archives of `data.pkl`, `byteorder`, `version`
and storages.

The records are `<any name>/data.pkl`, `<any name>/data/0`, … A storage is not compressed, so it is a range of the file,
and nothing is ever unpacked to disk. Records begin at multiples of 64 bytes, so that arrays are aligned.
"""

import struct
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from funcnet.files import replacing
from funcnet.tree import PyTree
from funcnet.weights.errors import UnsafeFileError
from funcnet.weights.file_formats import describe_zip
from funcnet.weights.mapped import FilePlace, MappedFile
from funcnet.weights.pickle_writer import Pickler
from funcnet.weights.plain_data import warn_of
from funcnet.weights.storages import Storages
from funcnet.weights.unpickle import Unpickler

__all__ = ["read", "write"]

_LOCAL = struct.Struct("<4s5H3I2H")  # header of a record; the last two fields are the lengths of name and extra field
_ALIGNMENT = 64
_ROOT = "archive"  # torch's name of the folder if the file has no name


def read(path: Path) -> Any:
    """Return the tree that the pickle of the archive describes. See `weights.load`."""
    file = MappedFile(path)
    places = _records(path, file)
    roots = [name.removesuffix("data.pkl") for name in places if name.count("/") == 1 and name.endswith("/data.pkl")]
    if len(roots) != 1:
        what = describe_zip(places)
        raise ValueError(
            f"the file is not an archive of torch.save; expected one record <name>/data.pkl, got {len(roots)} such "
            f"records among {', '.join(list(places)[:5]) or 'no records'}{what and f'. It is {what}'}"
        )
    root = roots[0]
    content = lambda place: bytes(file.data[place.start : place.start + place.size])
    order = content(places[f"{root}byteorder"]) if f"{root}byteorder" in places else b"little"
    if order not in (b"little", b"big"):
        raise ValueError(f"the record {root}byteorder is invalid; expected little or big, got {order!r:.40}")
    prefix = f"{root}data/"
    storages = {name.removeprefix(prefix): place for name, place in places.items() if name.startswith(prefix)}
    pickle = content(places[f"{root}data.pkl"])
    reader = Unpickler(pickle, store=Storages(file, storages, swapped=order == b"big"))
    tree = reader.load()
    if reader.end != len(pickle):
        raise ValueError(
            f"the record {root}data.pkl does not end with its pickle; expected no more bytes, got "
            f"{len(pickle) - reader.end}"
        )
    warn_of(reader.omitted, path)
    return tree


def _records(path: Path, file: MappedFile) -> dict[str, FilePlace]:
    """Return {name of a record: place of its bytes in the file}, after checking that all records are valid.

    A valid record is uncompressed and complete, has a plain name, and does not overlap others.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            entries, comment = archive.infolist(), archive.comment
    except (zipfile.BadZipFile, NotImplementedError, struct.error, ValueError, OSError, EOFError) as error:
        raise ValueError(
            f"the zip archive is truncated or damaged; expected a list of records, got '{error}'"
        ) from None
    names = Counter(entry.filename for entry in entries)
    if any(name.endswith("/constants.pkl") for name in names):
        raise UnsafeFileError(
            "the file is a TorchScript program (torch.jit.save); expected an archive of torch.save, got code. Open it "
            "in torch and save its state_dict() instead"
        )
    if twice := [name for name, count in names.items() if count > 1]:
        raise ValueError(f"two records have the name {twice[0]!r:.120}; expected each name once")
    places = {entry.filename: _place(entry, file) for entry in entries}
    end = 0
    for entry in sorted(entries, key=lambda entry: entry.header_offset):
        if entry.header_offset < end or (end == 0 and entry.header_offset):
            what = (
                "overlaps the previous record"
                if end
                else "is not at the start of the file, because bytes or another archive precede it"
            )
            raise ValueError(
                f"the record {entry.filename!r:.120} {what}; expected a single archive of consecutive records"
            )
        place = places[entry.filename]
        end = place.start + place.size
    tail = file.data.rfind(b"PK\x05\x06")
    if tail + 22 + len(comment) != file.size:
        raise ValueError(
            f"{file.size - tail - 22 - len(comment)} bytes follow the end of the archive; expected the end of the file"
        )
    return {name: place for name, place in places.items() if not name.endswith("/")}


def _place(entry: zipfile.ZipInfo, file: MappedFile) -> FilePlace:
    """Return the place of a record's bytes in the file, after checking that the record is valid."""
    name = entry.filename
    if name.startswith(("/", "\\")) or ".." in name.replace("\\", "/").split("/") or ":" in name or "\\" in name:
        raise UnsafeFileError(f"the record {name!r:.120} has a path outside of the archive; expected a plain name")
    if entry.flag_bits & 0x1:
        raise ValueError(f"the record {name!r:.120} is encrypted; expected plain bytes")
    if entry.compress_type != zipfile.ZIP_STORED or entry.compress_size != entry.file_size:
        raise ValueError(
            f"the record {name!r:.120} is compressed; expected uncompressed records, as torch.save writes them. Unpack "
            "the archive, and pack it again with `zip -0`"
        )
    header = file.data[entry.header_offset : entry.header_offset + _LOCAL.size]
    if len(header) < _LOCAL.size or not header.startswith(b"PK\x03\x04"):
        raise ValueError(
            f"the record {name!r:.120} has no header; expected the header of a record at byte {entry.header_offset}"
        )
    *_, name_length, extra_length = _LOCAL.unpack(header)
    start = entry.header_offset + _LOCAL.size
    if file.data[start : start + name_length] != entry.orig_filename.encode(
        "utf-8" if entry.flag_bits & 0x800 else "cp437"
    ):
        raise ValueError(
            f"the record {name!r:.120} has a different name in its own header; expected the name in the list of records"
        )
    start += name_length + extra_length
    if start + entry.file_size > file.size:
        raise ValueError(
            f"the record {name!r:.120} is truncated; expected at least {start + entry.file_size} bytes, got a "
            f"file of {file.size} bytes"
        )
    return FilePlace(f"the record {name!r:.120}", start, entry.file_size)


def write(path: Path, tree: PyTree) -> None:
    """Write an archive that `torch.load(weights_only=True)` can open. See `weights.save`."""
    pickler = Pickler()
    pickle = pickler.dump(tree)
    with replacing(path) as part, zipfile.ZipFile(part, "w", zipfile.ZIP_STORED) as archive:
        _add(archive, "data.pkl", memoryview(pickle))
        _add(archive, "byteorder", memoryview(b"little"))
        for number in range(pickler.storages):
            array = pickler.array(number)  # one at a time, because arrays on a device or not contiguous are copied
            _add(archive, f"data/{number}", array.reshape(-1).view(np.uint8).data)
        _add(archive, "version", memoryview(b"3\n"))


def _add(archive: zipfile.ZipFile, name: str, content: memoryview) -> None:
    entry = zipfile.ZipInfo(f"{_ROOT}/{name}")  # the date is always 1980, so equal trees make equal files
    entry.file_size = content.nbytes
    large = content.nbytes >= 2**31 - 2**20
    behind = archive.fp.tell() + _LOCAL.size + len(entry.filename) + 4 + (20 if large else 0)  # type: ignore[union-attr]
    padding = -behind % _ALIGNMENT
    entry.extra = struct.pack("<2sH", b"FB", padding) + b"Z" * padding  # torch's padding
    with archive.open(entry, "w", force_zip64=large) as record:
        record.write(content)
