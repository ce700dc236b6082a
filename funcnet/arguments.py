"""Checks of the arguments of public functions.

In all functions of this file, `where` is the name of the function that the user called, and `name` is the name of the
argument. Every message reads `<where>: <name> …; expected <X>, got <Y>.`, followed by advice if there is any.
"""

import inspect
import math
import numbers
import operator
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

__all__ = [
    "boolean",
    "choice",
    "expect",
    "function",
    "integer",
    "is_integer",
    "is_real",
    "mapping",
    "number",
    "path",
    "patterns",
    "shown",
    "strings",
    "transformation",
]

LONGEST = 60  # characters of a value in a message


def shown(value: object) -> str:
    """Return a short description of a value, for an error message.

    >>> import numpy as np
    >>> shown("8"), shown(np.zeros((2, 3), np.float32)), shown({"data": 8}), shown(np.float64(1.5))
    ("'8'", 'an array float32[2, 3]', "{'data': 8}", '1.5')
    """
    kind = type(value)
    if isinstance(value, np.generic):
        return repr(value.item()) if value.dtype.kind in "SU" else str(value)
    if hasattr(value, "shape") and hasattr(value, "dtype") and not isinstance(value, type):
        arrays = {"torch": "a torch tensor", "numpy": "an array", "jax": "an array", "jaxlib": "an array"}
        what = arrays.get(_root(value), f"a {kind.__name__}")
        return f"{what} {str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
    if inspect.isfunction(value) or inspect.ismethod(value):
        return f"the function {value.__name__}"
    if isinstance(value, list | tuple | dict) and any(hasattr(leaf, "shape") for leaf in _values(value)):
        return f"a {kind.__name__} of {', '.join(map(shown, list(_values(value))[:3]))}"
    if isinstance(value, type):
        return f"the class {value.__name__}"
    unknown = f"an object of the class {kind.__module__}.{kind.__qualname__}"
    text = unknown if kind.__repr__ is object.__repr__ else repr(value)  # object's would print an address
    if len(text) <= LONGEST and "\n" not in text:
        return text
    if isinstance(value, str):
        return f"{text[:LONGEST]}…"
    if isinstance(value, list | tuple | dict | set | bytes):
        return f"a {kind.__name__} with {len(value)} items"
    return unknown


def expect(is_right: object, where: str, name: str, expected: str, value: object, advice: str = "") -> None:
    """Raise a TypeError if `is_right` is false.

    >>> expect(False, "train.fit", "net", "a module", 3)
    Traceback (most recent call last):
    TypeError: train.fit: net has the wrong type; expected a module, got 3.
    """
    if not is_right:
        advice = f" {advice}" if advice else ""
        raise TypeError(f"{where}: {name} has the wrong type; expected {expected}, got {shown(value)}.{advice}")


def integer(where: str, name: str, value: Any, low: int | None = None) -> int:
    """Return `value` as an int. NumPy's integers and scalar arrays of integers are integers; True and 1.0 are not.

    Raises:
        TypeError: if `value` is not an integer.
        ValueError: if `value` is below `low`.

    >>> integer("optim.warmup_linear_decay", "total_steps", 1e3)
    Traceback (most recent call last):
    TypeError: optim.warmup_linear_decay: total_steps has the wrong type; expected an int, got 1000.0.
    """
    expect(is_integer(value), where, name, "an int", value)
    found = operator.index(value)
    if low is not None and found < low:
        raise ValueError(f"{where}: {name} is out of range; expected at least {low}, got {found}.")
    return found


def is_integer(value: Any) -> bool:
    """Return whether a value is an int, or a scalar array of integers whose value is known.

    >>> is_integer(np.int64(1)), is_integer(True), is_integer(1.0)
    (True, False, False)
    """
    if isinstance(value, numbers.Integral):
        return not isinstance(value, bool)
    if not _is_scalar_array(value) or value.dtype.kind not in "iu":
        return False
    try:
        operator.index(value)
    except TypeError:  # a tracer
        return False
    return True


def is_real(value: Any) -> bool:
    """Return whether a value is a real number, or a scalar array of real numbers whose value is known.

    >>> is_real(np.float32(0.5)), is_real(True), is_real("1")
    (True, False, False)
    """
    if isinstance(value, numbers.Real):
        return not isinstance(value, bool)
    if not _is_scalar_array(value) or value.dtype.kind in "bcOSUMm":
        return False
    try:
        float(value)
    except TypeError:  # a tracer
        return False
    return True


def _is_scalar_array(value: object) -> bool:
    return (
        getattr(value, "shape", None) == () and hasattr(value, "dtype") and _root(value) in ("numpy", "jax", "jaxlib")
    )


def number(
    where: str, name: str, value: Any, low: float = -math.inf, high: float = math.inf, *, above: bool = False,
    below: bool = False, advice: str = "",
) -> None:  # fmt: skip
    """Check that `value` is a real number from `low` to `high`. Scalar arrays are numbers, and traced ones are not
    compared with the bounds.

    Args:
        above: whether `low` itself is out of range.
        below: whether `high` itself is out of range.
        advice: a sentence to add to the message of a number that is out of range.

    Raises:
        TypeError: if `value` is not a number.
        ValueError: if it is out of range, or NaN.

    Example:
        >>> number("optim.lamb", "b1", 0.9, 0, 1, below=True)
        >>> number("optim.lamb", "b1", 1, 0, 1, below=True)
        Traceback (most recent call last):
        ValueError: optim.lamb: b1 is out of range; expected a number from 0 to below 1, got 1.
    """
    is_number = isinstance(value, int | float | np.number) or _is_scalar_array(value)  # not a Fraction
    expect(is_number and not isinstance(value, bool), where, name, "a number", value)
    try:
        found = float(value)
    except TypeError:  # a tracer
        return
    is_right = (found > low if above else found >= low) and (found < high if below else found <= high)
    if not is_right:
        advice = f" {advice}" if advice else ""
        raise ValueError(
            f"{where}: {name} is out of range; expected {_bounds(low, high, above, below)}, got {shown(value)}.{advice}"
        )


def boolean(where: str, name: str, value: object) -> None:
    """Check that `value` is True or False, of Python or NumPy.

    Raises:
        TypeError: if `value` is something else, such as 1.

    Example:
        >>> boolean("train.fit", "resume", 1)
        Traceback (most recent call last):
        TypeError: train.fit: resume has the wrong type; expected True or False, got 1.
    """
    expect(isinstance(value, bool | np.bool_), where, name, "True or False", value)


def choice(where: str, name: str, value: object, choices: Iterable[str]) -> None:
    """Check that `value` is one of some strings.

    >>> choice("parallel.make_layout", "kind", "jot", ("jit", "pmap"))
    Traceback (most recent call last):
    ValueError: parallel.make_layout: unknown kind; expected 'jit' or 'pmap', got 'jot'.
    """
    known = list(choices)
    if not isinstance(value, str) or value not in known:
        raise ValueError(f"{where}: unknown {name}; expected {' or '.join(map(repr, known))}, got {shown(value)}.")


def function(
    where: str,
    name: str,
    value: Any,
    form: str,
    count: int | None = None,
    *keywords: str,
    sometimes: str = "",
    advice: str = "",
) -> None:
    """Check that `value` is a function that can be called with `count` positional arguments.

    Args:
        form: the call, such as "loss(model, batch)".
        count: number of positional arguments. None does not check the arguments.
        keywords: names of keyword arguments that are also passed.
        sometimes: name of a keyword argument that is also passed if the function has such a parameter.
        advice: a sentence to add to the message of a value that cannot be called.

    >>> function("train.fit", "weight", lambda batch, x: 1, "weight(batch)", 1)
    Traceback (most recent call last):
    TypeError: train.fit: weight takes the wrong arguments; expected a function weight(batch), got weight(batch, x).
    """
    expect(callable(value), where, name, f"a function {form}", value, advice)
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):  # a function written in C has none
        return
    try:
        if count is not None:
            known = [name for name in (sometimes,) if name in signature.parameters]
            signature.bind(*[None] * count, **dict.fromkeys([*keywords, *known]))
    except TypeError:
        raise TypeError(
            f"{where}: {name} takes the wrong arguments; expected a function {form}, got {name}{signature}."
        ) from None


def transformation(where: str, name: str, value: object) -> None:
    """Check that `value` is an optax transformation, which has the methods `init` and `update`.

    Raises:
        TypeError: if `value` is something else, such as a function that returns a transformation.

    Example:
        >>> import optax
        >>> transformation("train.fit", "optimizer", optax.sgd(0.1))
        >>> transformation("train.fit", "optimizer", optax.sgd)
        Traceback (most recent call last):
        TypeError: train.fit: optimizer has the wrong type; expected an optax transformation, such as ...(1e-3), got ...
    """
    is_right = callable(getattr(value, "init", None)) and callable(getattr(value, "update", None))
    expect(is_right, where, name, "an optax transformation, such as optax.adamw(1e-3)", value)


def mapping(where: str, name: str, value: object, expected: str, advice: str = "") -> None:
    """Check that `value` is a mapping with strings as keys.

    Args:
        expected: a description of the mapping, for the message.
        advice: a sentence to add to the message.

    Raises:
        TypeError: if `value` is not a mapping, or a key is not a string.

    Example:
        >>> mapping("train.fit", "metadata", {1: "a"}, "a dict from name to value")
        Traceback (most recent call last):
        TypeError: train.fit: metadata has the wrong type; expected a dict from name to value, got {1: 'a'}.
    """
    is_right = isinstance(value, Mapping) and all(isinstance(key, str) for key in value)
    expect(is_right, where, name, expected, value, advice)


def strings(where: str, name: str, value: object, expected: str) -> None:
    """Check that `value` is a list or a tuple of strings, and not one string.

    Args:
        expected: a description of the list, for the message.

    Raises:
        TypeError: if `value` is something else. For one string, the message advises to put it into a list.

    Example:
        >>> strings("train.fit", "shard", "a=b", "a list of rules")
        Traceback (most recent call last):
        TypeError: train.fit: shard has the wrong type; expected a list of rules, got 'a=b'. Put it into a list.
    """
    is_right = isinstance(value, list | tuple) and all(isinstance(part, str) for part in value)
    expect(is_right, where, name, expected, value, "Put it into a list." if isinstance(value, str) else "")


def patterns(where: str, name: str, value: object) -> None:
    """Check that `value` is a name pattern of `funcnet.tree`, or several. Whether they match any name is not checked.

    Raises:
        TypeError: if `value` is neither a string nor a list, tuple or set of strings.

    Example:
        >>> patterns("train.fit", "trainable", ["head.**", "**.bias"])
        >>> patterns("train.fit", "trainable", None)
        Traceback (most recent call last):
        TypeError: train.fit: trainable has the wrong type; expected a name pattern such as '**.bias', ... got None.
    """
    several = isinstance(value, list | tuple | set | frozenset) and all(isinstance(part, str) for part in value)
    is_right = isinstance(value, str) or several
    expect(is_right, where, name, "a name pattern such as '**.bias', or a list of them", value)


def path(where: str, name: str, value: Any) -> Path:
    """Return `value`, which is a string or a path, as a Path.

    Raises:
        TypeError: if `value` is neither a string nor a path.
        ValueError: if `value` is the empty string.

    Example:
        >>> path("train.fit", "out", "runs/first").name
        'first'
        >>> path("train.fit", "out", "")
        Traceback (most recent call last):
        ValueError: train.fit: out is empty; expected a path, such as 'runs/first', got ''.
    """
    expect(isinstance(value, str | os.PathLike), where, name, "a path, such as 'runs/first'", value)
    if value == "":
        raise ValueError(f"{where}: {name} is empty; expected a path, such as 'runs/first', got ''.")
    return Path(value)


def _values(value: object) -> Any:
    return value.values() if isinstance(value, dict) else value


def _root(value: object) -> str:
    return type(value).__module__.partition(".")[0]


def _bounds(low: float, high: float, above: bool, below: bool) -> str:
    """Return the range of a number as text.

    >>> _bounds(0, 1, False, True), _bounds(0, math.inf, True, False), _bounds(0, math.inf, False, False)
    ('a number from 0 to below 1', 'a number above 0', 'a number of at least 0')
    """
    if low == -math.inf and high == math.inf:
        return "a number other than NaN"
    if low > -math.inf and high < math.inf:
        return f"a number {'above' if above else 'from'} {low:g} to {'below ' if below else ''}{high:g}"
    if low > -math.inf:
        return f"a number above {low:g}" if above else f"a number of at least {low:g}"
    return f"a number below {high:g}" if below else f"a number of at most {high:g}"
