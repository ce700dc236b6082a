"""Settings of commands, composed of groups. Each setting is defined once and shared by the commands that use it.

A *group* is a frozen dataclass of related settings (the text, the optimizer). The settings of a command are a frozen
dataclass whose fields are groups or single settings. On the command line, all settings are flags without prefixes, so
their names must be unique within a command.
"""

import ast
import dataclasses
import functools
import inspect
import itertools
import math
import numbers
import textwrap
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import tyro

__all__ = [
    "Range",
    "annotated",
    "as_json",
    "check_ranges",
    "compose",
    "defaults",
    "differences",
    "flag",
    "flat",
    "from_record",
    "recorded",
    "with_helps",
]

Settings = TypeVar("Settings")
Annotation = TypeVar("Annotation")


@dataclasses.dataclass(frozen=True)
class Range:
    """The allowed values of a numeric setting, as in `steps: Annotated[int, Range(1)] = 2000`.

    Args:
        low: the smallest value.
        high: the largest value.
        above: if True, a value must be greater than `low`.
        below: if True, a value must be less than `high`.
        note: the meaning of a special value, such as "0: only at the end", for the error message.

    Example:
        >>> print(Range(1), Range(0, 1, below=True), Range(0, note="0: never"), Range(0, 2**63 - 1), sep="; ")
        at least 1; from 0 to below 1; at least 0 (0: never); 0 to 2**63 - 1
    """

    low: float
    high: float = math.inf
    above: bool = False
    below: bool = False
    note: str = ""

    def __contains__(self, value: float) -> bool:
        is_above = value > self.low if self.above else value >= self.low
        return is_above and (value < self.high if self.below else value <= self.high)

    def __str__(self) -> str:
        if self.high == math.inf:
            text = f"above {self.low:g}" if self.above else f"at least {self.low:g}"
        elif self.above:
            text = f"above {self.low:g} and {'below' if self.below else 'at most'} {self.high:g}"
        else:
            high = _bound(self.high)
            text = f"{'from ' if self.below else ''}{self.low:g} to {'below ' if self.below else ''}{high}"
        return f"{text} ({self.note})" if self.note else text


def _bound(number: float) -> str:
    """Return a bound as text in a readable form, such as "2**63 - 1" instead of "9223372036854775807"."""
    for minus in (0, 1):
        power = int(number) + minus
        if power >= 2**31 and power & (power - 1) == 0:
            return f"2**{power.bit_length() - 1}{' - 1' * minus}"
    return f"{number:g}"


def with_helps(kind: type[Settings]) -> type[Settings]:
    """Use the string under each field of a class as the help of the field's flag. This function is a class decorator.

    `tyro` can read these strings from the source itself, but keeps the line breaks in them.

    Args:
        kind: a dataclass. If the source code of the class cannot be read, the class does not change.

    Example:
        >>> with_helps(Range) is Range  # no field has such a string
        True
    """
    try:
        (parsed,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    except (OSError, SyntaxError):
        return kind
    body = parsed.body if isinstance(parsed, ast.ClassDef) else []
    for field, below in itertools.pairwise(body):
        if isinstance(field, ast.AnnAssign) and isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
            text = " ".join(str(below.value.value).split())
            name = ast.unparse(field.target)
            kind.__annotations__[name] = Annotated[kind.__annotations__[name], tyro.conf.arg(help=text)]
    return kind


def flag(name: str) -> str:
    """Return the command-line flag of a setting.

    Example:
        >>> flag("batch_size")
        '--batch-size'
    """
    return f"--{name.replace('_', '-')}"


def flat(settings: object) -> dict[str, Any]:
    """Return all settings by name, including those in groups.

    Args:
        settings: the settings of a command.

    Returns:
        {name: value}, in the order of declaration.

    Example:
        >>> @dataclasses.dataclass(frozen=True)
        ... class Text:
        ...     language: str = "en"
        >>> @dataclasses.dataclass(frozen=True)
        ... class Command:
        ...     text: Text = Text()
        ...     steps: Annotated[int, Range(1)] = 10
        >>> flat(Command())
        {'language': 'en', 'steps': 10}
    """
    return {name: functools.reduce(getattr, path, settings) for name, (path, _) in _fields(type(settings)).items()}


def defaults(kind: type) -> dict[str, Any]:
    """Return the default values of the settings of a command, as used by `compose`.

    Args:
        kind: the dataclass of the command.

    Returns:
        {name: default}. Settings without a default are left out.

    Example:
        >>> @dataclasses.dataclass(frozen=True)
        ... class Command:
        ...     out: Path
        ...     steps: int = 10
        >>> defaults(Command)
        {'steps': 10}
    """
    found: dict[str, Any] = {}
    for field in dataclasses.fields(kind):
        default = _default(field)
        group = _group(get_type_hints(kind)[field.name])
        if group is not None:
            found |= defaults(group) if default is dataclasses.MISSING else flat(default)
        elif default is not dataclasses.MISSING:
            found[field.name] = default
    return found


def compose(kind: type[Settings], **values: object) -> Settings:
    """Make the settings of a command from {name: value}. A setting that belongs to a group is set in that group.

    Args:
        kind: the dataclass of the command.
        **values: values of settings, by name. Settings that are not given here get the default values of the command.

    Returns:
        An instance of `kind`.

    Raises:
        TypeError: if the command has no setting of a given name, or a setting without a default is omitted.

    Example:
        >>> @dataclasses.dataclass(frozen=True)
        ... class Text:
        ...     language: str = "en"
        >>> @dataclasses.dataclass(frozen=True)
        ... class Command:
        ...     text: Text = Text()
        ...     steps: int = 10
        >>> compose(Command, language="de")
        Command(text=Text(language='de'), steps=10)
    """
    unknown = sorted(set(values) - set(_fields(kind)))
    if unknown:
        raise TypeError(f"settings.compose: {kind.__name__} has no setting {unknown[0]!r}.")
    chosen: dict[str, Any] = {}
    hints = get_type_hints(kind)
    for field in dataclasses.fields(kind):  # type: ignore[arg-type]
        group, default = _group(hints[field.name]), _default(field)
        if group is None:
            chosen |= {field.name: values[field.name]} if field.name in values else {}
            continue
        own = {name: value for name, value in values.items() if name in _fields(group)}
        start = {} if default is dataclasses.MISSING else flat(default)
        chosen[field.name] = compose(group, **{**start, **own})
    return kind(**chosen)


def annotated(kind: type, annotation: type[Annotation]) -> dict[str, Annotation]:
    """Return the annotations of a type that the settings of a command have.

    Args:
        kind: the dataclass of the command.
        annotation: the type of the annotations, such as `Range`.

    Returns:
        {name: annotation}. Settings without such an annotation are left out.

    Example:
        >>> @dataclasses.dataclass(frozen=True)
        ... class Command:
        ...     steps: Annotated[int, Range(1)] = 10
        >>> print(annotated(Command, Range)["steps"])
        at least 1
    """
    hints = {name: hint for name, (_, hint) in _fields(kind).items()}
    return {name: one for name, hint in hints.items() for one in _metadata(hint) if isinstance(one, annotation)}


def check_ranges(settings: object, where: str, shown: Callable[[str], str] = flag) -> None:
    """Check that every number is in its `Range`. None and the values of a `Literal` are accepted.

    Args:
        settings: the settings of a command.
        where: prefix for error messages, such as the name of the command.
        shown: function that turns the name of a setting into text for the message. By default, the text is the flag.

    Raises:
        ValueError: if a value is not a number or is out of range. The message names the flag, the range and the value.

    Example:
        >>> @dataclasses.dataclass(frozen=True)
        ... class Command:
        ...     steps: Annotated[int, Range(1)] = 10
        >>> check_ranges(Command(steps=0), "pretrain")
        Traceback (most recent call last):
        ValueError: pretrain: --steps is out of range; expected at least 1, got 0.
    """
    values = flat(settings)
    for name, (_, hint) in _fields(type(settings)).items():
        value = values[name]
        for limits in (one for one in _metadata(hint) if isinstance(one, Range)):
            for number in value if isinstance(value, tuple) else (value,):
                wrong = isinstance(number, bool) or not isinstance(number, numbers.Real)
                if number not in (None, *_words(hint)) and (wrong or number not in limits):
                    raise ValueError(f"{where}: {shown(name)} is out of range; expected {limits}, got {number!r}.")


def recorded(settings: object, *, leave_out: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return the settings in a form that JSON can represent: flat, with paths as strings and tuples as lists.

    Args:
        settings: the settings of a command.
        leave_out: names to omit, such as the directory of the run.

    Returns:
        {name: value}, from which `from_record` makes the settings again.

    Example:
        >>> @dataclasses.dataclass(frozen=True)
        ... class Command:
        ...     out: Path
        ...     corpus: tuple[Path, ...] = ()
        >>> recorded(Command(Path("a"), (Path("b"),)), leave_out=("out",))
        {'corpus': ['b']}
    """
    return {name: as_json(value) for name, value in flat(settings).items() if name not in leave_out}


def from_record(kind: type[Settings], record: Mapping[str, Any], **given: object) -> Settings:
    """Make settings from a record. This function is the inverse of `recorded`.

    Args:
        kind: the dataclass of the command.
        record: the result of `recorded`. Missing settings, as in a record of an older release, get their defaults.
        **given: {name: value} for settings that are not in the record.

    Returns:
        An instance of `kind`.

    Raises:
        TypeError: if the command has no setting of a given name, a setting without a default is missing, or a path is
            not a string.

    Example:
        >>> @dataclasses.dataclass(frozen=True)
        ... class Command:
        ...     out: Path
        ...     corpus: tuple[Path, ...] = ()
        >>> from_record(Command, {"corpus": ["b"]}, out=Path("a")).corpus[0].name
        'b'
    """
    values = dict(given)
    for name, value in record.items():
        make = Path if name in _fields(kind) and _has_paths(_fields(kind)[name][1]) else lambda one: one
        values[name] = tuple(map(make, value)) if isinstance(value, list) else None if value is None else make(value)
    return compose(kind, **values)


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Return the differences between two nested records of settings, for an error message.

    Example:
        >>> differences({"steps": 100, "text": {"language": "en"}}, {"steps": 200, "text": {"language": "en"}})
        ['steps was 100, now 200']
    """
    old, new = _dotted(before), _dotted(now)
    shown = {name: [repr(side[name]) if name in side else "absent" for side in (old, new)] for name in old | new}
    return [f"{name} was {was}, now {is_now}" for name, (was, is_now) in shown.items() if was != is_now]


def as_json(value: object) -> Any:
    """Return a value in a form that JSON can represent, with paths as strings, tuples as lists, and NumPy's numbers as
    Python's.

    Example:
        >>> as_json((Path("a"), 1))
        ['a', 1]
    """
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, numbers.Real) and not isinstance(value, bool):
        return int(value) if isinstance(value, numbers.Integral) else float(value)
    if isinstance(value, tuple | list):
        return [as_json(one) for one in value]
    if isinstance(value, Mapping):
        return {name: as_json(one) for name, one in value.items()}
    return value


def _dotted(record: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Flatten a nested record to {dotted name: value}. Tuples become lists, as in JSON."""
    found: dict[str, Any] = {}
    for key, value in record.items():
        if isinstance(value, Mapping):
            found |= _dotted(value, f"{prefix}{key}.")
        else:
            found[f"{prefix}{key}"] = list(value) if isinstance(value, tuple) else value
    return found


def _default(field: dataclasses.Field[Any]) -> Any:
    return field.default if field.default_factory is dataclasses.MISSING else field.default_factory()


def _fields(kind: type) -> dict[str, tuple[tuple[str, ...], Any]]:
    """Return {name of a setting: (names of the nested groups that contain it, its type)}."""
    found: dict[str, tuple[tuple[str, ...], Any]] = {}
    hints = get_type_hints(kind, include_extras=True)
    for field in dataclasses.fields(kind):
        group = _group(hints[field.name])
        own = {field.name: ((), hints[field.name])} if group is None else _fields(group)
        twice = sorted(set(found) & set(own))
        if twice:
            raise TypeError(f"settings: {kind.__name__} has the setting {twice[0]!r} in two groups.")
        found |= {name: ((field.name, *path), hint) for name, (path, hint) in own.items()}
    return found


def _group(hint: object) -> type | None:
    """Return the dataclass if `hint` is the type of a group, or None if `hint` is the type of a single setting."""
    kind = get_args(hint)[0] if get_origin(hint) is Annotated else hint
    return kind if isinstance(kind, type) and dataclasses.is_dataclass(kind) else None


def _has_paths(hint: object) -> bool:
    return hint is Path or any(map(_has_paths, get_args(hint)))


def _words(hint: object) -> tuple[Any, ...]:
    """Return the values that a type names in a `Literal`, such as Annotated[int, Range(1)] | Literal["epoch"]."""
    inner = (one for part in get_args(hint) if not isinstance(part, Range) for one in _words(part))
    return get_args(hint) if get_origin(hint) is Literal else tuple(inner)


def _metadata(hint: Any) -> Iterator[Any]:
    """Yield the metadata of each `Annotated` in a type, also within unions such as Annotated[int, Range(1)] | None."""
    if get_origin(hint) is Annotated:
        yield from hint.__metadata__
    for inner in get_args(hint):
        if not isinstance(inner, Range):
            yield from _metadata(inner)
