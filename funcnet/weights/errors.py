"""The error for unsafe files, a check of the arrays that are saved, and a function that shows part of a file."""

from typing import Any

import numpy as np

from funcnet.random import is_key

__all__ = ["UnsafeFileError", "check_array", "shown"]


class UnsafeFileError(ValueError):
    """Raised for a file that requires more than plain data: a call, an import, an object, or a path outside its folder.

    The file is rejected before anything is called, imported or opened.
    """


def check_array(name: str, array: Any) -> None:
    """Raise a TypeError for an array that a file would not give back: random keys, or an array with a mask."""
    if is_key(array):
        raise TypeError(
            f"{name} is a random key; expected an array of numbers, got {array.dtype}. Save jax.random.key_data(key)."
        )
    if isinstance(array, np.ma.MaskedArray):
        raise TypeError(
            f"{name} has a mask; expected a plain array, got a MaskedArray. Save array.filled(value), or both parts."
        )


def shown(value: object) -> str:
    """Return a short text for a value: a string or number itself, the first parts of a tuple, or else the type.

    A full repr could run out of memory if parts are shared or repeated, and overflow the stack if they are nested.

    >>> shown(("storage", 3, [[1]]))
    "('storage', 3, list)"
    """
    if type(value) is tuple:
        end = ", …" if len(value) > 8 else "," * (len(value) == 1)
        return f"({', '.join(map(_plain, value[:8]))}{end})"
    return _plain(value)


def _plain(value: object) -> str:
    if isinstance(value, str | bytes):
        return repr(value[:40])
    return repr(value)[:40] if isinstance(value, int | float | None) else type(value).__name__
