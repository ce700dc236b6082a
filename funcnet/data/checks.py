"""Checks of arguments. Each error names the function, the argument, what was expected, and what was given."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from funcnet.data.sharing import is_iterable_dataset

__all__ = [
    "refuse_class",
    "refuse_generator",
    "refuse_loader",
    "require_bool",
    "require_datasets",
    "require_function",
    "require_int",
    "require_items",
    "require_iterable",
    "require_numbers",
    "require_positive",
    "shown",
]


def require_int(where: str, name: str, value: Any, least: int | None = None) -> int:
    """Return an argument as an int.

    Raises:
        TypeError: if it is not an integer of Python or NumPy.
        ValueError: if it is below `least`.

    Example:
        >>> require_int("f", "depth", np.int64(3), least=1)
        3
    """
    if not hasattr(value, "__index__") or isinstance(value, bool | np.bool_) or np.ndim(value):
        raise TypeError(f"{where}: {name} is not an integer; expected int, got {shown(value)}.")
    if least is not None and value < least:
        raise ValueError(f"{where}: {name} is too small; expected at least {least}, got {value}.")
    return int(value)


def require_positive(where: str, name: str, value: Any) -> None:
    """Check that a value is an integer above 0.

    Raises:
        ValueError: if it is not, with torch's message.

    >>> require_positive("BatchSampler", "batch_size", 0)
    Traceback (most recent call last):
    ValueError: BatchSampler: batch_size should be a positive integer value, but got batch_size=0.
    """
    if not hasattr(value, "__index__") or isinstance(value, bool | np.bool_) or np.ndim(value) or value < 1:
        raise ValueError(f"{where}: {name} should be a positive integer value, but got {name}={value!r}.")


def require_bool(where: str, name: str, value: object, *, or_none: bool = False) -> None:
    """Raise a TypeError if an argument is not a bool, or None if `or_none` is True.

    Example:
        >>> require_bool("f", "shuffle", None, or_none=True)
    """
    if not isinstance(value, bool | np.bool_) and not (or_none and value is None):
        expected = "True, False or None" if or_none else "True or False"
        raise TypeError(f"{where}: {name} is not a bool; expected {expected}, got {shown(value)}.")


def require_function(where: str, name: str, value: object) -> None:
    """Raise a TypeError if an argument is neither a function nor None.

    Example:
        >>> require_function("f", "transform", None)
    """
    if value is not None and not callable(value):
        raise TypeError(f"{where}: {name} is not a function; expected a callable or None, got {shown(value)}.")


def require_numbers(where: str, name: str, values: Any) -> None:
    """Raise a TypeError if an argument is not a sequence or an array (N,) of real numbers.

    Example:
        >>> require_numbers("f", "weights", [1, 0.5])
    """
    if isinstance(values, str | bytes | Mapping) or not (hasattr(values, "__len__") and hasattr(values, "__getitem__")):
        raise TypeError(f"{where}: {name} is not a sequence; expected a list of numbers, got {shown(values)}.")
    for place, value in enumerate(values):
        if isinstance(value, str | bool | np.bool_) or not hasattr(value, "__float__") or np.ndim(value):
            raise TypeError(f"{where}: {name}[{place}] is not a number; expected int or float, got {shown(value)}.")


def require_iterable(where: str, name: str, value: object, expected: str) -> None:
    """Raise a TypeError if an argument cannot be iterated over. A string and a class are refused, too.

    Example:
        >>> require_iterable("f", "source", [1, 2], "an iterable dataset")
    """
    refuse_class(where, name, value, expected)
    if isinstance(value, str | bytes) or not (hasattr(value, "__iter__") or hasattr(value, "__next__")):
        raise TypeError(f"{where}: {name} cannot be iterated over; expected {expected}, got {shown(value)}.")


def require_items(where: str, name: str, dataset: Any, *, length: bool = True) -> None:
    """Raise a TypeError if an argument is not a map-style dataset, with a length if `length` is True.

    Example:
        >>> require_items("f", "dataset", ["a", "b"])
    """
    expected = f"an object with __getitem__{' and __len__' if length else ''}"
    refuse_class(where, name, dataset, expected)
    refuse_loader(where, name, dataset)
    if is_iterable_dataset(dataset):
        raise TypeError(
            f"{where}: {name} is an iterable dataset; expected a map-style dataset, which is {expected}, got "
            f"{shown(dataset)}."
        )
    if hasattr(dataset, "iloc") or isinstance(dataset, Mapping):
        raise TypeError(
            f"{where}: {name} is not a dataset; expected {expected} of numbered items, got a {type(dataset).__name__} "
            "of columns. Write ArrayDataset({'x': array})."
        )
    has_items = hasattr(dataset, "__getitem__") or hasattr(dataset, "__getitems__")
    has_length = hasattr(dataset, "__len__") or hasattr(dataset, "num_rows")
    is_scalar = hasattr(dataset, "shape") and not np.ndim(dataset)
    if isinstance(dataset, str | bytes) or is_scalar or not has_items or (length and not has_length):
        raise TypeError(f"{where}: {name} is not a map-style dataset; expected {expected}, got {shown(dataset)}.")


def require_datasets(where: str, datasets: object) -> None:
    """Raise a TypeError if the argument `datasets` is not a list or another iterable of map-style datasets.

    Example:
        >>> require_datasets("f", [["a", "b"]])
    """
    if isinstance(datasets, str | bytes | Mapping) or not isinstance(datasets, Iterable):
        raise TypeError(f"{where}: datasets is not a list; expected a list of datasets, got {shown(datasets)}.")
    for place, dataset in enumerate(datasets):
        require_items(where, f"datasets[{place}]", dataset)


def refuse_class(where: str, name: str, value: object, expected: str) -> None:
    """Raise a TypeError if an argument is a class instead of an object of it.

    Example:
        >>> refuse_class("f", "sampler", [1], "a sampler")
    """
    if isinstance(value, type):
        raise TypeError(
            f"{where}: {name} is a class; expected {expected}, got the class {value.__name__}. Call the class to make "
            "an object."
        )


def refuse_loader(where: str, name: str, value: object) -> None:
    """Raise a TypeError if an argument is a loader of torch or funcnet where a dataset is expected.

    Example:
        >>> refuse_loader("f", "dataset", [1])
    """
    if any(base.__name__ == "DataLoader" for base in type(value).__mro__):
        library = type(value).__module__.partition(".")[0]
        raise TypeError(
            f"{where}: {name} is a loader; expected a dataset, got a DataLoader of {library}. Pass its attribute "
            "`dataset`."
        )


def refuse_generator(where: str, generator: object) -> None:
    """Raise a TypeError if torch's argument `generator` is given.

    Example:
        >>> refuse_generator("f", None)
    """
    if generator is not None:
        raise TypeError(
            f"{where}: a generator has hidden state that cannot be saved to continue a run; expected None, got "
            f"{type(generator).__name__}. Pass seed= instead."
        )


def require_unmasked(where: str, name: str, array: Any) -> None:
    """Raise a TypeError if a NumPy array has masked values, because a conversion to another array would turn them into
    numbers.

    Example:
        >>> require_unmasked("f", "array 0", np.ma.array([1, 2]))
    """
    if np.ma.is_masked(array):
        raise TypeError(
            f"{where}: {name} has masked values; expected a value in every place, got {np.ma.count_masked(array)} of "
            f"{array.size} masked. Fill them with `array.filled(value)`, or drop these rows."
        )


def shown(value: object) -> str:
    """Return a short text that shows a value in an error message.

    Example:
        >>> shown(np.zeros((2, 3))), shown("a"), shown(int)
        ('ndarray of shape (2, 3)', "'a'", 'the class int')
    """
    if isinstance(value, type):
        return f"the class {value.__name__}"
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return f"{type(value).__name__} of shape {tuple(value.shape)}"
    if value is None or isinstance(value, str | bytes | int | float | list | tuple):
        return f"{value!r:.60}"
    return type(value).__name__
