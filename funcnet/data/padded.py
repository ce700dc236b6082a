"""Padding to fixed shapes: batches up to a number of rows, and rows of numbers up to a length."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from funcnet.arguments import integer
from funcnet.data.dataloader import DataLoader

__all__ = ["pad_batch", "padded_batches", "padded_rows"]


def pad_batch(batch: object, rows: int) -> tuple[Any, Any]:
    """Fill a batch up to `rows` rows with copies of its first row.

    Args:
        batch: nested dicts, lists and tuples of arrays (n, …) with 0 < n <= rows. Other leaves, such as strings, stay
            as they are.
        rows: number of rows.

    Returns:
        The filled batch, and a (rows,) bool array that is True for the first n rows.

    Raises:
        ValueError: if n is 0 or larger than `rows`, the arrays differ in n, or there is no array.

    Example:
        >>> pad_batch({"x": np.array([7, 8])}, 3)
        ({'x': array([7, 8, 7])}, array([ True,  True, False]))
    """
    integer("pad_batch", "rows", rows, 1)
    found = {len(leaf) for leaf in _arrays(batch)}
    if len(found) != 1:
        got = f"{sorted(found)}" if found else "no array"
        raise ValueError(f"pad_batch: the arrays differ in their first dimension; expected one size, got {got}.")
    count = found.pop()
    if not 0 < count <= rows:
        raise ValueError(f"pad_batch: the batch has the wrong size; expected 1 to {rows} rows, got {count}.")
    return (batch if count == rows else _filled(batch, rows - count)), np.arange(rows) < count


def padded_batches(dataset: Any, batch_size: int, own: NDArray[np.int64] | None = None) -> Iterator[tuple[Any, Any]]:
    """Yield all items of a dataset once, in order, in batches of equal size, as (batch, mask). `pad_batch` fills the
    last batch.

    Args:
        dataset: map-style dataset.
        batch_size: number of rows of a complete batch.
        own: the rows of each batch that are read, in ascending order. None means all rows. If the last batch has none
            of them, its last item is read, and the mask is False everywhere.

    Example:
        >>> [(batch.tolist(), mask.tolist()) for batch, mask in padded_batches(np.arange(5), 4, np.array([2, 3]))]
        [([2, 3], [True, True]), ([4, 4], [False, False])]
    """
    rows = np.arange(batch_size) if own is None else own
    loader = DataLoader(dataset, batch_size)
    loader.read_rows(lambda count: rows[rows < count] if rows[0] < count else np.array([count - 1]))
    for number, batch in enumerate(loader.epoch()):
        padded, _ = pad_batch(batch, len(rows))
        yield padded, rows < len(dataset) - number * batch_size


def padded_rows(
    rows: Sequence[Sequence[int] | NDArray[Any]], count: int, length: int, fill: float = 0, dtype: DTypeLike = np.int32
) -> NDArray[Any]:
    """Return rows of numbers as one array (count, length).

    Args:
        rows: at most `count` rows (T,) with T <= length. Further rows of the array have only `fill`.
        count, length: the shape of the array.
        fill: the number after the end of a row.
        dtype: dtype of the array.

    Example:
        >>> padded_rows([[5, 6, 7], [8]], 3, 4, fill=-1).tolist()
        [[5, 6, 7, -1], [8, -1, -1, -1], [-1, -1, -1, -1]]
    """
    out = np.full((count, length), fill, dtype)
    for place, row in enumerate(rows):
        out[place, : len(row)] = row
    return out


def _arrays(batch: object) -> list[Any]:
    if isinstance(batch, Mapping):
        return [leaf for part in batch.values() for leaf in _arrays(part)]
    if isinstance(batch, list | tuple):
        return [leaf for part in batch for leaf in _arrays(part)]
    return [batch] if getattr(batch, "ndim", 0) else []


def _filled(batch: Any, missing: int) -> Any:
    if isinstance(batch, Mapping):
        return {name: _filled(part, missing) for name, part in batch.items()}
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*(_filled(part, missing) for part in batch))
    if isinstance(batch, list | tuple):
        return type(batch)(_filled(part, missing) for part in batch)
    if not getattr(batch, "ndim", 0):
        return batch
    return np.concatenate([batch, np.repeat(batch[:1], missing, 0)])
