"""Recognise the kind of a file by its first bytes, so that the message for a wrong suffix can name the real format."""

from pathlib import Path

__all__ = ["LEGACY", "SAFETENSORS", "TORCH_ZIP", "kind_of"]

SAFETENSORS = "a safetensors file"
TORCH_ZIP = "a zip archive of torch.save"
LEGACY = "a torch file in the format before torch 1.6"

_STARTS = {
    b"PK\x03\x04": TORCH_ZIP,
    b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.": LEGACY,
    b"\x1f\x8b": "a gzip file. Decompress it first",
    b"BZh": "a bzip2 file. Decompress it first",
    b"\xfd7zXZ": "an xz file. Decompress it first",
    b"\x28\xb5\x2f\xfd": "a zstd file. Decompress it first",
    b"PK\x05\x06": "an empty zip archive",
    b"GGUF": "a GGUF file, which is llama.cpp's format",
    b"\x89HDF\r\n": "an HDF5 file, which is Keras's format",
    b"\x93NUMPY": "a .npy file. Open it with numpy.load",
    b"version https://git-lfs": "a Git LFS pointer. Fetch the actual file with `git lfs pull`",
    b"<!DOCTYPE": "an HTML page. The download failed",
    b"<html": "an HTML page. The download failed",
    b"\x80": "a pickle that torch.save did not write. It is from pickle.dump, or the file is truncated",
}


def kind_of(path: Path) -> str:
    """Return a description of the file's kind, or '' if the kind is unknown."""
    with open(path, "rb") as file:
        head = file.read(512)
    if not head:
        return "an empty file"
    if head[8:9] == b"{":  # the eight bytes before it are a length, which may look like any other format
        return SAFETENSORS
    for start, kind in _STARTS.items():
        if head.startswith(start):
            return kind
    if head[257:262] == b"ustar":
        return (
            "a tar archive. torch wrote tar archives before version 0.1.10, and they cannot be read without running "
            "code. If you trust the author, open the file in torch with weights_only=False and save it again"
        )
    return ""
