"""Read the bytes of a file, decompressed according to its suffix, with errors that name the file."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

__all__ = ["BLOCK", "BROKEN", "OPENERS", "Advance", "broken", "open_bytes", "read_block", "unreadable"]

Advance = Callable[[float], None]
BLOCK = 1 << 20  # bytes read at a time
OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
BROKEN = (EOFError, gzip.BadGzipFile, zlib.error, lzma.LZMAError)


def open_bytes(path: Path, advance: Advance) -> IO[bytes]:
    """Open a file for reading its bytes, decompressed according to its suffix.

    Args:
        path: file to open.
        advance: function that is called with the fraction of the (compressed) file that has been read.

    Raises:
        OSError: if the file cannot be opened.
    """
    try:
        raw = io.BufferedReader(_Counted(path, advance), BLOCK)
    except OSError as error:
        raise type(error)(unreadable(path, error)) from error
    opener = OPENERS.get(path.suffix.lower())
    return raw if opener is None else opener(raw, "rb")


def unreadable(path: Path, error: OSError) -> str:
    """Return the message for a file that the operating system refuses to read."""
    return f"read_corpus: {path} cannot be read; expected readable text, got '{error.strerror}'. Check its permissions."


def broken(path: Path, error: Exception) -> ValueError:
    """Return the error for a compressed file that is truncated or damaged."""
    return ValueError(
        f"read_corpus: {path} cannot be decompressed; expected a complete {path.suffix[1:]} file, got '{error}'. "
        "Download or create the file again."
    )


def read_block(stream: IO[bytes], size: int, path: Path) -> bytes:
    """Read up to `size` bytes from a stream that `open_bytes` returned. The result is empty at the end of the file.

    Raises:
        OSError: if the file cannot be read.
        ValueError: if the file cannot be decompressed.
    """
    try:
        return stream.read(size)
    except BROKEN as error:
        raise broken(path, error) from error
    except OSError as error:
        if path.suffix.lower() in OPENERS and error.errno is None:  # bz2 reports damaged data in this way
            raise broken(path, error) from error
        raise type(error)(unreadable(path, error)) from error


class _Counted(io.FileIO):
    """A file that reports after each read which fraction of its bytes has been read."""

    def __init__(self, path: Path, advance: Advance):
        super().__init__(path, "rb")
        self._advance, self._size = advance, max(path.stat().st_size, 1)

    def readinto(self, buffer: Any) -> int | None:  # type: ignore[override]
        count = super().readinto(buffer)
        self._advance(min(self.tell() / self._size, 1.0))
        return count
