"""The kind of a file, by its first bytes: a wrong suffix needs a better message than 'broken'."""

from pathlib import Path

__all__ = ["LEGACY", "SAFETENSORS", "TORCH_ZIP", "kind_of"]

SAFETENSORS = "a safetensors file"
TORCH_ZIP = "a zip archive, as torch.save writes"
LEGACY = "a torch file of before 1.6"

_STARTS = {
    b"PK\x03\x04": TORCH_ZIP,
    b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.": LEGACY,
    b"\x1f\x8b": "a gzip file: unpack it",
    b"BZh": "a bzip2 file: unpack it",
    b"\xfd7zXZ": "an xz file: unpack it",
    b"\x28\xb5\x2f\xfd": "a zstd file: unpack it",
    b"PK\x05\x06": "an empty zip archive",
    b"GGUF": "a GGUF file: this is llama.cpp's format",
    b"\x89HDF\r\n": "an HDF5 file: this is Keras's format",
    b"\x93NUMPY": "a .npy file: numpy.load opens it",
    b"version https://git-lfs": "a pointer of git-lfs: fetch the file itself (`git lfs pull`)",
    b"<!DOCTYPE": "an HTML page: the download went wrong",
    b"<html": "an HTML page: the download went wrong",
    b"\x80": "a pickle, but not torch's: expected torch.save, got pickle.dump or a cut file",
}


def kind_of(path: Path) -> str:
    """Its kind in words; '' if it is not known."""
    with open(path, "rb") as file:
        head = file.read(512)
    if not head:
        return "an empty file"
    if head[8:9] == b"{":  # after the length of its header, which may look like any other start
        return SAFETENSORS
    for start, kind in _STARTS.items():
        if head.startswith(start):
            return kind
    if head[257:262] == b"ustar":
        return (
            "a tar archive. Before 0.1.10 torch wrote those, and they say nothing that can be read without running "
            "code: open it in torch with weights_only=False, if you trust its maker, and save it again"
        )
    return ""
