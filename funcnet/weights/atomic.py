"""Files that are there whole or not at all, whatever kills the process that writes them."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

__all__ = ["replacing"]


@contextlib.contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """A temporary path beside `path`; what was written there takes `path`'s place when the block ends without error.

    The bytes are on the disk before the name points to them (fsync, rename, fsync of the directory): after a crash
    `path` holds the old file or the new one.

    Raises:
        OSError: the directory is not there or cannot be written, or the disk is full; `path` is as it was.

    Example:
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with replacing(pathlib.Path(folder, "a.txt")) as part:
        ...         _ = part.write_text("whole")
        ...     [file.name for file in pathlib.Path(folder).iterdir()]
        ['a.txt']
    """
    path = Path(path)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        yield part
        _sync(part)
        os.replace(part, path)
        _sync(path.parent)
    finally:
        part.unlink(missing_ok=True)


def _sync(path: Path) -> None:
    if os.name == "nt" and path.is_dir():
        return  # Windows has no handles for directories
    handle = os.open(path, os.O_RDONLY if os.name != "nt" else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
