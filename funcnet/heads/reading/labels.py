"""Converts the labels of rows to classes, numbers and indices. A label that is missing is refused.

Error messages begin with the argument `where`, the place of the label in its file.
"""

import math
import re
from typing import Any

__all__ = ["as_class", "as_classes", "as_index", "as_number"]

LARGEST = 1e37  # bound of labels that are numbers, because they are learned in float32
EXACT = 2**53  # floats below are exact if they are integers


def as_class(where: str, value: object) -> str:
    """Convert a label to the name of a class. A label that is null, NaN, empty or blank is missing. A number without
    a fraction has one name: 7 and 7.0 in JSON are the class 7.

    >>> as_class("a.jsonl, line 3", 7), as_class("a.jsonl, line 4", 7.0)
    ('7', '7')
    """
    if isinstance(value, list | dict):
        raise ValueError(f"{where}: not a label; expected a string or a number, got {value!r:.40}.")
    if isinstance(value, float) and value.is_integer() and abs(value) < EXACT:
        value = int(value)
    name = "" if value is None else str(value).strip()  # a trailing space, which is invisible, makes no new class
    is_number = not isinstance(value, float) or math.isfinite(value)
    if not name or not is_number:
        raise ValueError(
            f"{where}: the label is missing; expected a label, got {name or 'nothing'}. Add a label to every row."
        )
    return name


def as_classes(where: str, value: object, separator: str | None) -> str | tuple[str, ...]:
    """Convert a label to the name of a class. A list, or a cell that is split at `separator`, becomes a tuple of names.

    >>> as_classes("a.csv, line 3", "fast | fine", "|")
    ('fast', 'fine')
    """
    if isinstance(value, list):
        return tuple(as_class(where, one) for one in value)
    if isinstance(value, str) and re.fullmatch(r'\s+".*"\s*', value, re.DOTALL):
        raise ValueError(
            f"{where}: a space before a quote makes the quotes part of the label; expected a label, got {value!r:.40}. "
            "Remove the space and the quotes."
        )
    if separator is not None and isinstance(value, str):
        return tuple(one.strip() for one in value.split(separator) if one.strip())
    return as_class(where, value)


def as_number(where: str, value: Any) -> float:
    """Convert a label to a number in the range of float32.

    >>> as_number("a.csv, line 3", "2.5")
    2.5
    """
    try:
        is_other = isinstance(value, bool) or (isinstance(value, str) and "_" in value)  # Python reads 1_000 as 1000
        found = math.nan if is_other else float(value)
    except (TypeError, ValueError, OverflowError):
        found = math.nan
    if not abs(found) < LARGEST:
        got = "nothing" if value in (None, "") else repr(value)
        raise ValueError(
            f"{where}: invalid number; expected a number between -{LARGEST} and {LARGEST}, got {got}. Use the task "
            "`classify` for labels that are not numbers."
        )
    return found


def as_index(where: str, value: Any, count: int) -> int:
    """Convert a label to the index of one of `count` choices.

    >>> as_index("a.csv, line 3", "1", 2)
    1
    """
    try:
        if isinstance(value, str):
            which = -1 if "_" in value else int(value)  # Python reads 1_0 as a number
        else:
            which = int(value) if int(value) == value and not isinstance(value, bool) else -1
    except (TypeError, ValueError, OverflowError):
        which = -1
    if not 0 <= which < count:
        raise ValueError(f"{where}: the label is out of range; expected an index from 0 to {count - 1}, got {value!r}.")
    return which
