"""Recognise the format of a file by its content, so that the message for a wrong suffix can name the real format."""

import re
import zipfile
from collections.abc import Iterable
from pathlib import Path

from funcnet.weights import torch_legacy

__all__ = ["LEGACY", "SAFETENSORS", "TORCH_ZIP", "describe", "describe_zip", "kind_of"]

SAFETENSORS = "a safetensors file"
TORCH_ZIP = "a zip archive of torch.save"
LEGACY = "a torch file in the format before torch 1.6"

_MAX_HEADER = 100_000_000  # bytes; the limit of the safetensors library
_STARTS = {
    b"PK\x03\x04": TORCH_ZIP,
    b"\x1f\x8b": "a gzip file. Decompress it first",
    b"BZh": "a bzip2 file. Decompress it first",
    b"\xfd7zXZ": "an xz file. Decompress it first",
    b"\x28\xb5\x2f\xfd": "a zstd file. Decompress it first",
    b"PK\x05\x06": "an empty zip archive",
    b"GGUF": "a GGUF file, which is llama.cpp's format",
    b"\x89HDF\r\n": "an HDF5 file, which is Keras's format",
    b"\x93NUMPY": "a .npy file. Open it with numpy.load",
    b"version https://git-lfs": "a Git LFS pointer. Fetch the actual file with `git lfs pull`",
}
_HTML = "an HTML page. The download failed"
_PICKLE = "a pickle that torch.save did not write. It is from pickle.dump, or the file is truncated"
# the first opcodes of a dict, a list, a tuple or an object, in the protocols 0, 1 and from 2 on
_PICKLED = re.compile(rb"\x80|\([dlt]p0\n|[}\]]q|\(lp|\(dp|c[\w.]+\n[\w.]+\n")
_TAR = (
    "a tar archive. torch wrote tar archives before version 0.1.10, and they cannot be read without running code. If "
    "you trust the author, open the file in torch with weights_only=False and save it again"
)
_INSIDE = {4: (b"TFL3", "a TensorFlow Lite file"), 257: (b"ustar", _TAR)}  # by their place in the file


def kind_of(path: Path) -> str:
    """Return a description of the file's kind, or '' if the kind is unknown. Every zip archive is a `TORCH_ZIP`."""
    with open(path, "rb") as file:
        head = file.read(512)
    if not head:
        return "an empty file"
    is_object = head[8:9] == b"{"  # the eight bytes before it are a length, which may look like any other format
    is_json = head[9:].lstrip()[:1] in (b'"', b"}", b"")
    if is_object and is_json and int.from_bytes(head[:8], "little") <= _MAX_HEADER:
        return SAFETENSORS
    if torch_legacy.begins(head):
        return LEGACY
    for start, kind in _STARTS.items():
        if head.startswith(start):
            return kind
    if _PICKLED.match(head):
        return _PICKLE
    if head.removeprefix(b"\xef\xbb\xbf").lstrip().lower().startswith((b"<!doctype", b"<html")):
        return _HTML
    for place, (sign, kind) in _INSIDE.items():
        if head[place : place + len(sign)] == sign:
            return kind
    if head.lstrip()[:1] in (b"{", b"["):
        return "JSON text"
    return SAFETENSORS if is_object else ""


def describe(path: Path) -> str:
    """Return the kind of a file as `kind_of`, but distinguish the kinds of zip archives."""
    kind = kind_of(path)
    if kind != TORCH_ZIP:
        return kind
    try:
        with zipfile.ZipFile(path) as archive:
            return describe_zip(archive.namelist()) or kind
    except (zipfile.BadZipFile, NotImplementedError, ValueError, OSError, EOFError):
        return kind


def describe_zip(names: Iterable[str]) -> str:
    """Return what a zip archive with records of these names is, or '' if it may be an archive of torch.save."""
    names = list(names)
    if names and all(name.endswith(".npy") for name in names):
        return "a NumPy archive. Open it with numpy.load"
    if "model.weights.h5" in names:
        return "a Keras file"
    if any(name.endswith("/archive_format") for name in names):
        return "a program of torch.export"
    return "" if any(name.endswith("data.pkl") for name in names) else "a zip archive that torch.save did not write"
