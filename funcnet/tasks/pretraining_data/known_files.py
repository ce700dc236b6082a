"""What is known of files that have not changed since they were read, so that an unchanged corpus, and data that were
checked before, are not read again.

A file is unchanged if its path, its size and its modification time in nanoseconds are the same. A corpus file that was
modified shortly before it was read is not recorded: on some file systems, another change in the same moment would not
change the time. `funcnet data check` reads every file, and so finds changes that leave the time as it was.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from funcnet.files import read_json, write_json

__all__ = ["MARGIN", "Known", "key_of", "read_known", "write_known"]

Known = Mapping[tuple[str, int, int], str]  # {(path, size, modification time in ns): what is known, such as a digest}
MARGIN = 2 * 10**9  # ns; FAT stores times in units of 2 seconds


def key_of(path: Path) -> tuple[str, int, int]:
    """Return (absolute path, size, modification time) of a file."""
    status = path.stat()
    return str(path.absolute()), status.st_size, status.st_mtime_ns


def read_known(file: Path) -> dict[tuple[str, int, int], str]:
    """Return the content of a file that `write_known` wrote. A file that is missing or damaged contains nothing."""
    with contextlib.suppress(OSError, ValueError, TypeError, AttributeError):
        entries: Any = read_json(file)
        return {(path, int(size), int(changed)): str(value) for path, (size, changed, value) in entries.items()}
    return {}


def write_known(file: Path, known: Known) -> None:
    """Write what is known of files that exist, with the newest entry for each path. Nothing depends on this file, so an
    error of the file system is ignored.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "known.json")
    ...     write_known(file, {(folder, 1, 5): "digest", (f"{folder}/missing", 1, 5): "digest"})
    ...     read_known(file) == {(folder, 1, 5): "digest"}
    True
    """
    ordered = sorted(known, key=lambda key: key[2])
    latest = {path: [size, changed, known[path, size, changed]] for path, size, changed in ordered}
    with contextlib.suppress(OSError):
        write_json(file, {path: entry for path, entry in latest.items() if Path(path).exists()})
