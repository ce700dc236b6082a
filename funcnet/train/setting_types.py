"""Check that the settings of a run have the types that their dataclasses declare.

The command line converts its texts to these types. A call in Python can pass anything.
"""

import dataclasses
import operator
import types
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import numpy as np

from funcnet.arguments import is_integer, is_real, shown
from funcnet.settings import flag

__all__ = ["check_types", "plain"]

NAMES = {int: "an int", float: "a number", str: "a string", bool: "True or False", Path: "a path", type(None): "None"}


def check_types(settings: Any, where: str, named: Callable[[str], str] = flag) -> None:
    """Check the types of all settings, including those in groups.

    Args:
        settings: a dataclass of settings; see `funcnet.settings`.
        where: prefix for error messages, such as the name of the command.
        named: function that turns the name of a setting into text for the message. By default, the text is the flag.

    Raises:
        TypeError: if a value has a different type from its field declares.
        ValueError: if a value is not one of the values that the field declares as a `Literal`.

    Example:
        >>> from funcnet.train import LoopSettings
        >>> check_types(LoopSettings(batch_size=8.0), "pretrain")
        Traceback (most recent call last):
        TypeError: pretrain: --batch-size has the wrong type; expected an int, got 8.0.
    """
    hints = typing.get_type_hints(type(settings), include_extras=True)
    for field in dataclasses.fields(settings):
        value, hint = getattr(settings, field.name), hints[field.name]
        if dataclasses.is_dataclass(value) and dataclasses.is_dataclass(hint):
            check_types(value, where, named)
        elif not _fits(value, hint):
            text = f"{named(field.name)} has the wrong type; expected {_text(hint)}, got {shown(value)}."
            if isinstance(value, str) and any(get_origin(one) is Literal for one in _alternatives(hint)):
                raise ValueError(f"{where}: {text.replace(' has the wrong type', ' is unknown', 1)}")
            is_list = get_origin(hint) is tuple and get_args(hint)[1:] == (...,)
            advice = " Put it into a list." if isinstance(value, str) and is_list else ""
            raise TypeError(f"{where}: {text}{advice}")


def plain(settings: Any) -> Any:
    """Return settings with Python's numbers in place of those of NumPy and JAX, whose arithmetic can overflow.

    >>> import numpy as np
    >>> from funcnet.train import LoopSettings
    >>> type(plain(LoopSettings(batch_size=np.int64(8))).batch_size)
    <class 'int'>
    """
    values = {field.name: getattr(settings, field.name) for field in dataclasses.fields(settings)}
    own = {name: plain(value) if dataclasses.is_dataclass(value) else _plain(value) for name, value in values.items()}
    return dataclasses.replace(settings, **own)


def _plain(value: Any) -> Any:
    if isinstance(value, np.bool_):
        return bool(value)
    if is_integer(value):
        return operator.index(value)
    return float(value) if is_real(value) else value


def _alternatives(hint: object) -> list[Any]:
    """Return the types of a union, without their annotations."""
    if get_origin(hint) is Annotated:
        return _alternatives(get_args(hint)[0])
    if get_origin(hint) in (Union, types.UnionType):
        return [one for inner in get_args(hint) for one in _alternatives(inner)]
    return [hint]


def _fits(value: object, hint: object) -> bool:
    return any(_is(value, one) for one in _alternatives(hint))


def _is(value: object, kind: object) -> bool:
    if kind is None:
        return value is None
    if get_origin(kind) is Literal:
        return any(type(value) is type(one) and value == one for one in get_args(kind))
    if get_origin(kind) is tuple:
        inner = get_args(kind)
        inner = inner[:1] * len(value) if inner[1:] == (...,) and isinstance(value, tuple) else inner
        return isinstance(value, tuple) and len(value) == len(inner) and all(map(_fits, value, inner))
    if kind is bool:
        return isinstance(value, bool | np.bool_)
    if kind is int:
        return is_integer(value)
    if kind is float:
        return is_real(value)
    return kind is Any or typing.is_typeddict(kind) or not isinstance(kind, type) or isinstance(value, kind)


def _text(hint: object) -> str:
    found: list[str] = []
    for kind in _alternatives(hint):
        if get_origin(kind) is Literal:
            found += map(repr, get_args(kind))
        elif get_origin(kind) is tuple and get_args(kind)[1:] != (...,):
            found.append(f"a tuple ({', '.join(map(_text, get_args(kind)))})")
        elif get_origin(kind) is tuple:
            found.append(f"a list of {_text(get_args(kind)[0]).removeprefix('a ').removeprefix('an ')}s")
        else:
            found.append(NAMES.get(kind, getattr(kind, "__name__", str(kind))))
    return " or ".join(found)
