"""Convert a column of Arrow to NumPy, with a dtype that depends only on the type of the column."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

__all__ = ["as_tensors", "column_values", "require_distinct"]

_NUMBERS = (
    *(pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean),
    *(pa.types.is_timestamp, pa.types.is_date, pa.types.is_duration),
)
_LISTS = (
    *(pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list),
    *(pa.types.is_list_view, pa.types.is_large_list_view),
)


def column_values(column: pa.Array) -> NDArray[Any]:
    """Return the values of an Arrow array, exactly. A null is None.

    Differs from `pa.Array.to_numpy`, which turns integers into floats if one of them is null. Such a column has other
    dtypes in other blocks of a file, and integers above 2**53 are rounded.

    Args:
        column: array of N values.

    Returns:
        (N,), one value per row:

        - integers, floats, booleans, timestamps, dates, durations: an array of NumPy's dtype for the type of the
          column. If there are nulls, an array of objects, which are scalars of this dtype or None.
        - lists: an array of objects, which are the arrays that this function returns for each list.
        - tensors of a fixed shape: an array of objects, which are arrays of this shape.
        - other types, such as strings and structs: an array of Python objects.

    Example:
        >>> column_values(pa.array([2**53 + 1, None]))
        array([np.int64(9007199254740993), None], dtype=object)
        >>> column_values(pa.array([[1, 2], [3]], pa.list_(pa.int8())))[0]
        array([1, 2], dtype=int8)
    """
    kind = column.type
    if isinstance(kind, pa.BaseExtensionType):
        values = column_values(column.storage)
        is_tensor = isinstance(kind, pa.FixedShapeTensorType)
        rows = (as_tensors(row, kind) if is_tensor and row is not None else row for row in values)
        return _objects(rows, len(values)) if is_tensor else values
    if pa.types.is_dictionary(kind):
        return column_values(column.dictionary_decode())
    if any(is_kind(kind) for is_kind in _NUMBERS):
        return _with_nulls(_numbers(column), column.is_valid().to_numpy(zero_copy_only=False))
    if any(is_kind(kind) for is_kind in _LISTS):
        return _lists(column)
    return _objects(column.to_pylist(), len(column))


def as_tensors(flat: NDArray[Any], kind: pa.DataType) -> NDArray[Any]:
    """Return flat rows (..., K) of a column as tensors if the column has a tensor type, and unchanged otherwise.

    Example:
        >>> as_tensors(np.arange(4), pa.fixed_shape_tensor(pa.int64(), (2, 2))).tolist()
        [[0, 1], [2, 3]]
    """
    if not isinstance(kind, pa.FixedShapeTensorType):
        return flat
    rows = flat.shape[:-1]
    order = kind.permutation or range(len(kind.shape))  # the dimensions of the stored tensor, in the order of ours
    return flat.reshape(*rows, *kind.shape).transpose(*range(len(rows)), *(len(rows) + place for place in order))


def require_distinct(where: str, names: Sequence[str]) -> None:
    """Raise a ValueError if two columns have the same name, because rows are dicts.

    Example:
        >>> require_distinct("ArrowTable", ["a", "b"])
    """
    repeated = [name for name in names if names.count(name) > 1]
    if repeated:
        raise ValueError(
            f"{where}: columns have the same name; expected different names, got {len(repeated)} columns with the "
            f"names {sorted(set(repeated))}. Rename or drop columns."
        )


def _numbers(column: pa.Array) -> NDArray[Any]:
    """Return numbers as an array. Nulls have any value."""
    if column.null_count:
        column = pa.Array.from_buffers(column.type, len(column), [None, column.buffers()[1]], offset=column.offset)
    return column.to_numpy(zero_copy_only=False)


def _with_nulls(values: NDArray[Any], valid: NDArray[np.bool_]) -> NDArray[Any]:
    if valid.all():
        return values
    return _objects((value if here else None for value, here in zip(values, valid, strict=True)), len(values))


def _lists(column: pa.Array) -> NDArray[Any]:
    flat = column.flatten()  # without the values of lists that are null
    is_number = any(is_kind(flat.type) for is_kind in _NUMBERS)
    values = _numbers(flat) if is_number else column_values(flat)
    valid = flat.is_valid().to_numpy(zero_copy_only=False)
    rows, end = [], 0
    for length in pc.list_value_length(column).to_pylist():
        start, end = end, end + (length or 0)
        part = values[start:end].copy()  # does not keep the block in memory
        rows.append(None if length is None else _with_nulls(part, valid[start:end]) if is_number else part)
    return _objects(rows, len(rows))


def _objects(values: Iterable[Any], count: int) -> NDArray[Any]:
    return np.fromiter(values, object, count)
