"""The error of `funcnet port`, and the place in a source where an exception was raised."""

from __future__ import annotations

import linecache
import traceback
from collections.abc import Container

__all__ = ["PortError", "place_of"]


class PortError(ValueError):
    """The error for a torch source that cannot be ported or run, for a reason that the user can fix."""


def place_of(error: BaseException, files: Container[str]) -> str:
    """Return the innermost line in the traceback of an exception that is in one of the given files.

    Args:
        error: the exception, with its traceback.
        files: paths of the files to look for.
    Returns:
        The path, the line number and the text of the line. The result is "" if no line of the traceback is in these
        files.

    Example:
        >>> import pathlib, runpy, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder, "net.py")
        ...     _ = path.write_text("width = 4\\nwidth / 0\\n")
        ...     try:
        ...         _ = runpy.run_path(str(path))
        ...     except ZeroDivisionError as error:
        ...         print(place_of(error, [str(path)]))
        /...net.py:2 (width / 0)
    """
    found = ""
    for frame, line in traceback.walk_tb(error.__traceback__):
        path = frame.f_code.co_filename
        if path in files:
            found = f"{path}:{line} ({linecache.getline(path, line).strip()})"
    return found
