"""Checks of datasets and of other arguments that only loading has. Each error says what was expected and given."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from funcnet.arguments import is_integer, shown
from funcnet.data.sharing import is_iterable_dataset

__all__ = [
    "refuse_class",
    "refuse_generator",
    "refuse_loader",
    "require_datasets",
    "require_items",
    "require_iterable",
    "require_numbers",
    "require_positive",
]


def require_positive(where: str, name: str, value: Any) -> None:
    """Check that a value is an integer above 0.

    Raises:
        ValueError: if it is not, with torch's message.

    >>> require_positive("BatchSampler", "batch_size", 0)
    Traceback (most recent call last):
    ValueError: BatchSampler: batch_size should be a positive integer value, but got batch_size=0.
    """
    if not is_integer(value) or value < 1:
        raise ValueError(f"{where}: {name} should be a positive integer value, but got {name}={shown(value)}.")


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
