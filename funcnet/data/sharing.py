"""Divide an iterable dataset among workers, and refuse a dataset that cannot be divided.

Each worker iterates over a copy of the dataset. A dataset that yields only the worker's share calls `get_worker_info`
of funcnet or of torch. A dataset that never calls it yields the same items in each worker, and is refused.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterable, Iterator, Mapping, MappingView, Sequence
from typing import Any

import numpy as np

from funcnet.data.collate import is_torch
from funcnet.data.worker import get_worker_info, worker_here

__all__ = [
    "DivisionCheck",
    "follows_epochs",
    "has_own_state",
    "is_iterable_dataset",
    "own_copy",
    "share_of",
    "unshare_epochs",
]


def share_of(dataset: Any) -> Any:
    """Return the part of an iterable dataset that this worker iterates over, or None if there is none for this worker.

    Sequences and views of dicts are divided item by item. An iterable dataset of Hugging Face is copied, because all
    its later iterators begin at a state that it has loaded. It is divided into its shards, unless torch is installed,
    because it then asks torch's `get_worker_info` itself. Any other dataset is returned unchanged.

    Example:
        >>> share_of(range(3))  # outside a worker
        range(0, 3)
    """
    info = worker_here()
    is_theirs = type(dataset).__module__.partition(".")[0] == "datasets" and is_iterable_dataset(dataset)
    if is_theirs:
        dataset = own_copy(dataset)
    if info is None or info.num_workers == 1:
        return dataset
    is_collection = isinstance(dataset, Sequence | Mapping | MappingView | np.ndarray)
    if is_collection and not is_iterable_dataset(dataset) and not hasattr(dataset, "load_state_dict"):
        get_worker_info()
        return _EveryNth(dataset, info.id, info.num_workers)
    if type(dataset).__module__.partition(".")[0] != "datasets":
        return dataset
    if hasattr(dataset, "column_name"):  # an IterableColumn
        source = share_of(dataset.source)
        return None if source is None else source[dataset.column_name]
    if any(base.__module__.partition(".")[0] == "torch" for base in type(dataset).__mro__):
        return dataset
    get_worker_info()
    try:
        return dataset.shard(num_shards=info.num_workers, index=info.id, contiguous=False)
    except IndexError:
        if info.id < dataset.num_shards:
            raise
        return None  # there are more workers than shards


def has_own_state(dataset: object) -> bool:
    """Return whether the state of an iterable dataset determines which items follow.

    The result is False for two of Hugging Face's datasets, whose position is therefore a number of items: `shuffle`
    loses the items of its buffer when its state is loaded, and the state of a worker cannot be loaded into concatenated
    datasets.

    Example:
        >>> has_own_state(range(3))
        False
    """
    if not (hasattr(dataset, "state_dict") and hasattr(dataset, "load_state_dict")):
        return False
    return not any(name.startswith(("BufferShuffled", "VerticallyConcatenated")) for name in _parts(dataset))


def follows_epochs(dataset: object) -> bool:
    """Return whether to call `set_epoch` of an iterable dataset before an epoch.

    After `set_epoch` with a number other than 0, Hugging Face's iterable datasets shuffle their shards even if the
    dataset is not shuffled, and those with `take` or `skip` raise an error.

    Example:
        >>> follows_epochs(range(3))
        False
    """
    names = list(_parts(dataset))
    if names and not any(name.startswith(("BufferShuffled", "RandomlyCycling")) for name in names):
        return False
    return hasattr(dataset, "set_epoch") and not any(name.startswith(("Take", "Skip")) for name in names)


def _parts(dataset: object) -> Iterator[str]:
    """Yield the names of the classes of the parts of an iterable dataset of Hugging Face."""
    if type(dataset).__module__ != "datasets.iterable_dataset":
        return
    yield type(dataset).__name__
    for value in vars(dataset).values():
        for part in value if type(value) in (list, tuple) else [value]:
            yield from _parts(part)


def own_copy(dataset: Any) -> Any:
    """Return a shallow copy of a dataset for a worker thread. The iterable datasets that it reads are copied too, and
    get their own epochs (see `unshare_epochs`).

    Example:
        >>> from funcnet.data import ChainDataset, IterableDataset
        >>> chain = ChainDataset([IterableDataset()])
        >>> own_copy(chain).datasets[0] is chain.datasets[0]
        False
    """
    new = copy.copy(dataset)
    if hasattr(new, "__dict__"):
        new.__dict__ = {name: _own(value) for name, value in vars(new).items()}  # copies of Hugging Face share theirs
    unshare_epochs(new)
    return new


def _own(value: Any) -> Any:
    if _is_stream(value):
        return own_copy(value)
    if type(value) in (list, tuple) and any(map(_is_stream, value)):
        return type(value)(map(_own, value))
    if type(value) is dict and any(map(_is_stream, value.values())):
        return {key: _own(one) for key, one in value.items()}
    return value


def unshare_epochs(dataset: object) -> None:
    """Give each of Hugging Face's iterable datasets that `dataset` reads its own epoch.

    With torch, their epoch is a tensor in memory that all workers share. Workers that set it at the same time would
    begin different epochs.
    """
    for name, value in vars(dataset).items() if hasattr(dataset, "__dict__") else ():
        if type(dataset).__module__.startswith("datasets.") and is_torch(value) and value.ndim == 0:
            setattr(dataset, name, value.clone())
        for inner in value if type(value) in (list, tuple) else (value,):
            if _is_stream(inner):
                unshare_epochs(inner)


def is_iterable_dataset(value: object) -> bool:
    """Return whether a value is an `IterableDataset` of funcnet, of torch or of Hugging Face.

    Example:
        >>> is_iterable_dataset([1, 2])
        False
    """
    return any(base.__name__ == "IterableDataset" for base in type(value).__mro__)


def _is_stream(value: object) -> bool:
    """Return whether a value is a dataset that may keep a position while it is read."""
    return is_iterable_dataset(value) or (hasattr(value, "__iter__") and hasattr(value, "load_state_dict"))


class _EveryNth:
    """The items first, first + step, first + 2 * step, … of a collection."""

    def __init__(self, items: Iterable[Any], first: int, step: int):
        self._items, self._first, self._step = items, first, step

    def __iter__(self) -> Iterator[Any]:
        return itertools.islice(iter(self._items), self._first, None, self._step)


class DivisionCheck:
    """If there are several workers, checks that a dataset calls `get_worker_info` to find out which worker reads it.

    Use the object in a `with` statement around `iter(dataset)` and around the first `next`. Then call
    `after_first_item`.

    Args:
        dataset: the iterable dataset.
    """

    def __init__(self, dataset: Any):
        self._dataset, self._info = dataset, worker_here()
        self._asked, self._before = False, 0

    def __enter__(self) -> None:
        self._before = 0 if self._info is None else self._info.questions

    def __exit__(self, *_: object) -> None:
        self._asked = self._asked or (self._info is not None and self._info.questions > self._before)

    def after_first_item(self) -> None:
        """Raise a TypeError if the dataset yields the same items in each worker."""
        info = self._info
        if info is None or info.num_workers == 1 or info.is_configured or self._asked:
            return
        raise TypeError(
            f"DataLoader: a {type(self._dataset).__name__} cannot be divided among workers; expected an iterable "
            "dataset that calls get_worker_info() in __iter__ and yields the share of its worker, got one that yields "
            f"all items in each of {info.num_workers} workers. Pass num_workers=1, divide the items in __iter__, or "
            "pass a worker_init_fn that does it."
        )
