"""Datasets of other libraries, read one batch at a time: arrays, memory maps, Arrow tables, Hugging Face `datasets`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from funcnet.data.arrow_values import as_tensors, column_values, require_distinct
from funcnet.data.collate import default_collate, default_convert
from funcnet.data.joined import Joined

__all__ = ["Arrays", "ArrowTable", "HuggingFace", "Items", "SizedItems", "check_bounds", "items_of", "reader_of"]

ROWS = {kind.__getitem__ for kind in (np.ndarray, np.memmap, np.recarray)}  # methods that return plain rows


class Items(Protocol):
    """A dataset whose items a loader reads by index."""

    def __getitem__(self, index: Any, /) -> Any: ...


class SizedItems(Items, Protocol):
    """A map-style dataset: items with an index, and their number."""

    def __len__(self) -> int: ...


def items_of(dataset: Any) -> Items:
    """Return the dataset, or a view of the dataset whose method `__getitems__` reads a complete batch.

    Views exist for NumPy arrays and memory maps, JAX arrays, `Joined`, pyarrow tables and the map-style datasets of
    Hugging Face. The function does not import these libraries. Every other dataset is returned unchanged, and so are
    arrays of a class that overrides `__getitem__`, such as masked arrays.

    Example:
        >>> items_of(np.arange(5) * 10).__getitems__([3, 0]).tolist()
        [30, 0]
        >>> items_of(["a", "b"])
        ['a', 'b']
    """
    module, _, _ = type(dataset).__module__.partition(".")
    if isinstance(dataset, np.ndarray) and type(dataset).__getitem__ not in ROWS:
        return dataset
    if isinstance(dataset, np.ndarray | Joined) or (module in ("jax", "jaxlib") and hasattr(dataset, "dtype")):
        return Arrays(dataset)
    if module == "pyarrow" and hasattr(dataset, "column_names"):
        return ArrowTable(dataset)
    if module == "datasets" and hasattr(dataset, "set_format"):
        return HuggingFace(dataset)
    return dataset  # type: ignore[no-any-return]


def reader_of(items: Any) -> Callable[[Any], Any] | None:
    """Return the method `__getitems__` of a dataset, or None if the dataset must be read item by item.

    A subclass that overrides only `__getitem__`, such as a `TensorDataset` that augments items, is read item by item.

    Example:
        >>> reader_of(["a", "b"]) is None
        True
    """
    for kind in type(items).__mro__:
        if "__getitems__" in vars(kind):
            return items.__getitems__  # type: ignore[no-any-return]
        if "__getitem__" in vars(kind):
            break
    return None


class Arrays:
    """A map-style dataset of the rows of an array (N, …). An item is a row, and a batch is an array of rows."""

    def __init__(self, array: Any):
        self.array = array.view(np.ndarray) if isinstance(array, np.memmap) else array  # indexing a memmap is slower

    def __len__(self) -> int:
        return len(self.array)

    def __getitem__(self, index: int) -> Any:
        check_bounds([index], len(self.array))
        if isinstance(self.array, Joined):
            return self.array[np.asarray(index)]
        return self.array[index]

    def __getitems__(self, indices: list[int]) -> Any:
        return _rows(self.array, check_bounds(indices, len(self.array)))


class ArrowTable:
    """A map-style dataset of the rows of an Arrow table. A batch is a dict from the name of a column to an array, or to
    a list if the values are not numbers. The dtype of the array is that of the column. Lists of K numbers become an
    array (B, K), and tensors (B, ...). A batch with a null is a TypeError.
    """

    def __init__(self, table: Any):
        require_distinct("ArrowTable", table.column_names)
        self.table = table
        self._columns: dict[str, Any] | None = None  # created in the process that reads the rows

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def __getstate__(self) -> dict[str, Any]:
        return {"table": self.table, "_columns": None}

    def __getitem__(self, index: int) -> dict[str, Any]:
        check_bounds([index], len(self))
        return {name: values[0] for name, values in self._read([index]).items()}

    def __getitems__(self, indices: list[int]) -> dict[str, Any]:
        return {name: _collated(name, values) for name, values in self._read(indices).items()}

    def _read(self, indices: list[int]) -> dict[str, Any]:
        """Return the values of rows: an array, or a list if the values are not numbers."""
        rows = check_bounds(indices, len(self))
        if self._columns is None:
            self._columns = {name: _column(self.table.column(name)) for name in self.table.column_names}
        return {
            name: _rows(column, rows) if isinstance(column, np.ndarray | Joined) else _values(name, column, rows)
            for name, column in self._columns.items()
        }


class HuggingFace:
    """Reads a map-style dataset of Hugging Face's `datasets` in batches, which are dicts {name of a column: values}. A
    null among integers is a TypeError.
    """

    def __init__(self, dataset: Any):
        self.dataset = dataset

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> Any:
        check_bounds([index], len(self.dataset))
        item = self.dataset[index]
        for name, value in item.items() if isinstance(item, dict) else ():
            self._require_integers(name, default_convert(value))
        return item

    def __getitems__(self, indices: list[int]) -> Any:
        check_bounds(indices, len(self.dataset))
        columns = self.dataset[indices]
        if not isinstance(columns, dict):  # the dataset has a different output format, such as pandas
            return [self.dataset[index] for index in indices]
        found = {
            name: default_collate(values) if isinstance(values, list) else default_convert(values)
            for name, values in columns.items()
        }
        for name, values in found.items():
            self._require_integers(name, values)
        return found

    def _require_integers(self, name: str, values: Any) -> None:
        """Raise TypeError if the dataset has turned a column of integers into floats, as its formats do for nulls."""
        feature = self.dataset.features.get(name)
        while hasattr(feature, "feature"):  # lists
            feature = feature.feature
        is_integer = str(getattr(feature, "dtype", "")).removeprefix("u").startswith("int")
        if is_integer and getattr(values, "dtype", np.dtype(int)).kind == "f" and np.isnan(values).any():
            raise TypeError(
                f"column {name!r} has a null; expected {feature.dtype} in every row that is read, got "
                f"{values.dtype} with NaN. Drop these rows with `dataset.filter`, or cast the column to floats."
            )


def check_bounds(indices: list[int], length: int) -> NDArray[np.int64]:
    """Return the indices as an array, after checking that each of them is an integer from 0 to `length - 1`.

    Raises:
        IndexError: if an index is negative or not below `length`.
        TypeError: if an index is not an integer.

    Example:
        >>> check_bounds([2, 0], 3).tolist()
        [2, 0]
    """
    rows = np.asarray(indices)
    if rows.size and rows.dtype.kind not in "iu":
        wrong = next(
            (index for index in indices if isinstance(index, bool) or not hasattr(index, "__index__")), indices
        )
        raise TypeError(f"the index is not an integer; expected an int, got {wrong!r}")
    if rows.size and (rows.min() < 0 or rows.max() >= length):
        wrong = next(index for index in indices if not 0 <= index < length)
        raise IndexError(f"index {wrong} is out of range; expected 0 to {length - 1}")
    return rows.astype(np.int64, copy=False)


def _rows(array: Any, rows: NDArray[np.int64]) -> Any:
    """Return the rows of `array` with the numbers `rows`. `take` is twice as fast as indexing, but it copies an array
    that is not contiguous.
    """
    if isinstance(array, np.ndarray) and array.flags.c_contiguous and array.flags.aligned:
        return array.take(rows, 0)
    return array[rows]


def _column(column: Any) -> Any:
    """Return an Arrow column as an array, without copying, if it has only numbers, no nulls. Return other columns
    unchanged.
    """
    kind, width = _number(column.type), getattr(_storage(column.type), "list_size", None)
    if column.null_count or kind is None:
        return column
    arrays = []
    for chunk in column.chunks:
        values = getattr(chunk, "storage", chunk)
        values = values if width is None else values.flatten()
        if values.null_count:
            return column
        flat = values.to_numpy(zero_copy_only=True)
        arrays.append(flat if width is None else as_tensors(flat.reshape(len(chunk), width), column.type))
    arrays = [array for array in arrays if len(array)] or arrays[:1]
    return column if not arrays else arrays[0] if len(arrays) == 1 else Joined(arrays)


def _storage(kind: Any) -> Any:
    return getattr(kind, "storage_type", kind)


def _number(kind: Any) -> Any:
    """Return the type of the numbers of a column of numbers, of lists of K numbers, or of tensors. Return None for
    other columns.
    """
    import pyarrow as pa

    if isinstance(kind, pa.BaseExtensionType) and not isinstance(kind, pa.FixedShapeTensorType):
        return None
    kind = _storage(kind)
    kind = kind.value_type if pa.types.is_fixed_size_list(kind) else kind
    return kind if pa.types.is_integer(kind) or pa.types.is_floating(kind) else None


def _values(name: str, column: Any, rows: NDArray[np.int64]) -> Any:
    """Return the values of rows of an Arrow column: an array of numbers, or a list of other values."""
    values = column_values(column.take(rows).combine_chunks())
    if values.dtype.kind in "biuf":
        return values
    found = [*map(_plain, values)]
    place = next((place for place, value in enumerate(found) if _has_null(value)), None)
    if place is not None:
        kind = _number(column.type)
        expected = "a value" if kind is None else f"numbers, {np.dtype(kind.to_pandas_dtype())},"
        raise TypeError(
            f"column {name!r} has a null in row {rows[place]}; expected {expected} in every row of a batch, got "
            f"{column[rows[place]].as_py()!r:.60}. Fill the nulls with `pyarrow.compute.fill_null`, or drop these rows."
        )
    return found


def _plain(value: Any) -> Any:
    """Return a value with lists in the place of arrays of objects."""
    is_list = isinstance(value, np.ndarray) and value.dtype.kind == "O"
    return [*map(_plain, value)] if is_list else value


def _has_null(value: object) -> bool:
    if isinstance(value, dict | list | tuple):
        return any(map(_has_null, value.values() if isinstance(value, dict) else value))
    return value is None


def _collated(name: str, values: Any) -> Any:
    if isinstance(values, np.ndarray):
        return values
    try:
        return default_collate(values)
    except (TypeError, RuntimeError, ValueError) as error:
        error.add_note(f"in column {name!r}")
        raise
