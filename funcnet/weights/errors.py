"""The one error of this folder, and how a part of a file is shown in it."""

from typing import Any

__all__ = ["UnsafeFileError", "shown"]


class UnsafeFileError(ValueError):
    """A file that asks for more than plain data: to call, to import, to make an object, to leave its folder.

    Nothing that it asks for was done.
    """


def shown(value: Any) -> str:
    """A text or a number as it is, the first parts of a tuple, the type of anything else.

    A repr of shared or repeated parts can be longer than any memory, and one of nested parts deeper than any stack.

    >>> shown(("storage", 3, [[1]]))
    "('storage', 3, list)"
    """
    if type(value) is tuple:
        end = ", …" if len(value) > 8 else "," * (len(value) == 1)
        return f"({', '.join(map(_plain, value[:8]))}{end})"
    return _plain(value)


def _plain(value: Any) -> str:
    if isinstance(value, str | bytes):
        return repr(value[:40])
    return repr(value)[:40] if isinstance(value, int | float | None) else type(value).__name__
