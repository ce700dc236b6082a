"""A record of files that were read before, so that an unchanged corpus, or data that were already checked, need not be
read again.

A file is unchanged if its path, its size and its modification time in nanoseconds are the same. A corpus file that was
modified shortly before it was read is not recorded: on some file systems, another change in the same moment would not
change the time. `funcnet data check` reads every file, and so finds changes that leave the time as it was.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, get_args

from funcnet.files import json_digest, read_json, write_json
from funcnet.text.readers import TextLayout

__all__ = ["MARGIN", "Known", "key_of", "known_layout", "read_known", "write_known", "write_layout"]

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


def known_layout(file: Path, sources: Iterable[Path], guess: Callable[[], TextLayout]) -> TextLayout:
    """Return the layout of the text in some files. The layout is read from `file`, which `write_layout` wrote. If it is
    not in `file`, or if a file of the text is new or has changed, the function `guess` reads the text.
    """
    key, known = json_digest([key_of(source) for source in sources]), _layouts(file)
    for layout in get_args(TextLayout):
        if known.get(key) == layout:
            return layout  # type: ignore[no-any-return]
    return guess()


def write_layout(file: Path, sources: Iterable[Path], layout: TextLayout, *, read: int) -> None:
    """Record the layout of the text in some files in `file`, a JSON object. Nothing depends on this file, so an error
    of the file system is ignored.

    Args:
        file: path of the JSON object.
        sources: paths of the files of the text.
        layout: their layout.
        read: time in nanoseconds, at which the files had not been read yet. If a file was modified shortly before it,
            or later, nothing is recorded.

    >>> import os, tempfile, time
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     table, text = Path(folder, "known.json"), Path(folder, "old.txt")
    ...     _ = text.write_text("Old."), os.utime(text, (0, 0))
    ...     write_layout(table, [text], "file", read=time.time_ns())
    ...     known_layout(table, [text], lambda: "blank-line")
    'file'
    """
    keys, known = [key_of(source) for source in sources], _layouts(file)
    if all(changed < read - MARGIN for _, _, changed in keys) and known.get(key := json_digest(keys)) != layout:
        with contextlib.suppress(OSError):
            write_json(file, {**known, key: layout})


def _layouts(file: Path) -> dict[str, object]:
    known: object = read_json(file)
    return known if isinstance(known, dict) else {}
