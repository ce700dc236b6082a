"""Check the arguments of `DataLoader`. The error messages follow those of torch."""

from __future__ import annotations

import multiprocessing
import multiprocessing.context
import os
import warnings
from collections.abc import Iterable, Mapping
from multiprocessing.context import BaseContext
from typing import Any

from funcnet.arguments import boolean, function, integer, number
from funcnet.data.checks import refuse_class, refuse_loader, require_items, require_iterable, require_positive
from funcnet.data.describe import describe
from funcnet.data.sharing import is_iterable_dataset

__all__ = [
    "check_arguments",
    "check_context",
    "check_types",
    "check_unchanged",
    "is_iterable_style",
    "refuse_override",
    "require_steps",
    "warn_of_length",
]

METHODS = ("spawn", "forkserver")


def is_iterable_style(dataset: object) -> bool:
    """Return whether a dataset is read by iteration. This is True for an `IterableDataset` (funcnet's or torch's), and
    for an object that has `__iter__` but no `__getitem__`.

    Raises:
        TypeError: if the dataset has neither `__getitem__` nor `__iter__`, is an iterator, which can be read only once,
            or is a class, a loader, a string, a table or an array without dimensions.
    """
    refuse_class("DataLoader", "dataset", dataset, "a dataset")
    refuse_loader("DataLoader", "dataset", dataset)
    if is_iterable_dataset(dataset):
        return True
    module = type(dataset).__module__.partition(".")[0]
    if module == "datasets" and hasattr(dataset, "__iter__") and not hasattr(dataset, "__len__"):
        return True  # a column of an iterable dataset of Hugging Face
    if isinstance(dataset, Mapping):
        return False  # its keys may come from a sampler
    if hasattr(dataset, "__getitem__") or hasattr(dataset, "__getitems__"):
        require_items("DataLoader", "dataset", dataset, length=False)
        return False
    if hasattr(dataset, "__next__"):
        raise TypeError(
            f"DataLoader: the dataset can be read only once; expected a dataset, got {type(dataset).__name__}. Pass an "
            "object whose __iter__ returns a new iterator, or list(dataset)."
        )
    if hasattr(dataset, "__iter__"):
        return True
    raise TypeError(
        "DataLoader: the dataset has no items; expected an object with __getitem__ and __len__, or with __iter__, got "
        f"{type(dataset).__name__}."
    )


def check_types(seed: object, functions: Mapping[str, Any], flags: Mapping[str, Any]) -> None:
    """Check the arguments of `DataLoader` whose types do not depend on the others: functions by their calls, such as
    "collate_fn(items)", and flags by name.
    """
    for form, value in functions.items():
        if value is not None:
            function("DataLoader", form.partition("(")[0], value, form)
    for name, flag in flags.items():
        boolean("DataLoader", name, flag)
    integer("DataLoader", "seed", seed)


def check_arguments(
    dataset: object,
    batch_size: int | None,
    shuffle: bool | None,
    sampler: Iterable[Any] | None,
    batch_sampler: Iterable[Any] | None,
    num_workers: int,
    drop_last: bool,
    timeout: float,
    prefetch_factor: int | None,
    persistent_workers: bool,
    *,
    is_iterable: bool,
) -> None:
    """Check those arguments of `DataLoader` that depend on each other.

    Raises:
        TypeError: if an argument has the wrong type, or a map-style dataset has no length and there is no sampler.
        ValueError: if a value is out of range, or arguments contradict each other.
    """
    _check_workers(num_workers, timeout, prefetch_factor, persistent_workers)
    if is_iterable:
        _check_iterable(shuffle, sampler, batch_sampler)
    if sampler is not None and shuffle:
        raise ValueError("DataLoader: sampler option is mutually exclusive with shuffle.")
    if batch_sampler is not None and (batch_size != 1 or shuffle or sampler is not None or drop_last):
        raise ValueError(
            "DataLoader: batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and drop_last."
        )
    if batch_size is None and batch_sampler is None and drop_last:
        raise ValueError(
            "DataLoader: batch_size=None option disables auto-batching and is mutually exclusive with drop_last."
        )
    if shuffle is not None:
        boolean("DataLoader", "shuffle", shuffle)
    for name, value in (("sampler", sampler), ("batch_sampler", batch_sampler)):
        if value is not None:
            require_iterable("DataLoader", name, value, f"an iterable of {'lists of ' * (name != 'sampler')}indices")
    if batch_size is not None:
        require_positive("DataLoader", "batch_size", batch_size)
    if is_iterable or sampler is not None or batch_sampler is not None:
        return
    if not hasattr(dataset, "__len__") and not hasattr(dataset, "num_rows"):
        raise TypeError(
            f"DataLoader: the dataset has no length; expected __len__, got {describe(dataset)}. Define __len__, or "
            "pass a sampler."
        )
    require_items("DataLoader", "dataset", dataset)


def _check_workers(num_workers: int, timeout: float, prefetch_factor: int | None, persistent_workers: bool) -> None:
    integer("DataLoader", "num_workers", num_workers)
    if num_workers < 0:
        raise ValueError(
            "DataLoader: num_workers option should be non-negative; use num_workers=0 to read without workers, got "
            f"{num_workers}."
        )
    number("DataLoader", "timeout", timeout)
    if timeout < 0:
        raise ValueError(f"DataLoader: timeout option should be non-negative, got {timeout}.")
    if not num_workers and prefetch_factor is not None:
        raise ValueError(
            "DataLoader: prefetch_factor option could only be specified with workers; expected None for num_workers=0, "
            f"got {prefetch_factor}."
        )
    if prefetch_factor is not None and integer("DataLoader", "prefetch_factor", prefetch_factor) < 0:
        raise ValueError(f"DataLoader: prefetch_factor option should be non-negative, got {prefetch_factor}.")
    if persistent_workers and not num_workers:
        raise ValueError("DataLoader: persistent_workers option needs num_workers > 0.")


def _check_iterable(shuffle: bool | None, sampler: Iterable[Any] | None, batch_sampler: Iterable[Any] | None) -> None:
    for name, value, is_set in (
        ("shuffle", shuffle, bool(shuffle)),
        ("sampler", sampler, sampler is not None),
        ("batch_sampler", batch_sampler, batch_sampler is not None),
    ):
        if is_set:
            hint = " Use ShuffleBuffer to shuffle a stream." if name == "shuffle" else ""
            raise ValueError(
                f"DataLoader with IterableDataset: expected unspecified {name} option, but got {name}={value}.{hint}"
            )


def check_context(context: str | BaseContext | None, num_workers: int) -> Any:
    """Return a context of `multiprocessing` that starts worker processes, or None for threads. Warn if there are more
    worker processes than processors.

    Raises:
        ValueError: if `context` is given but `num_workers` is 0, or if the start method is unknown or "fork".
        TypeError: if `context` is neither a context nor a string.
    """
    if context is None:
        return None
    if not num_workers:
        raise ValueError(
            "DataLoader: multiprocessing_context can only be used with multi-process loading (num_workers > 0), but "
            f"got num_workers={num_workers}."
        )
    if isinstance(context, str):
        if context not in (*METHODS, "fork"):
            raise ValueError(
                f"DataLoader: multiprocessing_context option should specify a valid start method in {list(METHODS)}, "
                f"but got multiprocessing_context={context!r}."
            )
        context = multiprocessing.get_context(context)
    if not isinstance(context, multiprocessing.context.BaseContext):
        raise TypeError(
            "DataLoader: multiprocessing_context option should be a valid context object or a string specifying the "
            f"start method, but got multiprocessing_context={context!r}."
        )
    if context.get_start_method() == "fork":
        raise ValueError(
            "DataLoader: multiprocessing_context is 'fork', and a fork of a process that runs JAX can deadlock; "
            "expected 'spawn' or 'forkserver', got 'fork'. To use threads instead, omit multiprocessing_context."
        )
    _warn_of_workers(num_workers)
    return context


def _warn_of_workers(num_workers: int) -> None:
    """Warn if there are more worker processes than processors that this process may use."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if num_workers > usable:
        warnings.warn(
            f"DataLoader: there are more worker processes than processors; expected at most {usable}, got "
            f"{num_workers}. Please be aware that excessive worker creation might get DataLoader running slow or even "
            "freeze, lower the worker number to avoid it.",
            UserWarning,
            stacklevel=4,
        )


def warn_of_length(dataset: str, reported: int | None, fetched: int) -> None:
    """Warn if an iterable dataset yielded more items than the length that `len(loader)` reported."""
    if reported is not None and fetched > reported:
        warnings.warn(
            f"DataLoader: the length of {dataset} was reported to be {reported} (when accessing len(loader)), but "
            f"{fetched} samples have been fetched. For multiprocessing data-loading, this is the case if each worker "
            "reads the whole dataset; use get_worker_info in __iter__ to read a share.",
            UserWarning,
            stacklevel=4,
        )


def refuse_override(loader: object, base: type, method: str) -> None:
    """Raise a TypeError if the class of a loader overrides `__iter__` of `base`, which `method` would bypass."""
    if type(loader).__iter__ is not base.__iter__:  # type: ignore[attr-defined]
        name = type(loader).__name__
        raise TypeError(
            f"DataLoader.{method}: {name} has an __iter__ of its own, which {method} would bypass; expected a class "
            f"without it, got {name}. Change the batches in collate_fn, or in the dataset."
        )


def require_steps(is_iterable: bool, described: str) -> None:
    """Raise a TypeError if a dataset is iterable, because its batches have no numbers. `described` is the name of the
    dataset.
    """
    if is_iterable:
        raise TypeError(
            f"DataLoader: an iterable dataset has no steps; expected a map-style dataset, got {described}. Write `for "
            "batch in loader`."
        )


def check_unchanged(dataset: object, described: str) -> None:
    """Raise a ValueError if a dataset is not described as it was when the loader was made."""
    if (now := describe(dataset)) != described:
        raise ValueError(
            f"DataLoader: the dataset has changed since the loader was made; expected {described}, got {now}. Make a "
            "new loader."
        )
