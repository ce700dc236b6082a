"""Write columns of numbers to an Arrow IPC file, and read them as memory-mapped numpy arrays.

A column is an array of one or two dimensions. The first dimension has the same length in all columns of a file.
Two-dimensional columns are stored as Arrow's fixed-size lists. Opening a file takes no memory, because the operating
system loads a page of the file only when the page is used. All processes that open the file share these pages.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from funcnet.files import replacing

__all__ = ["read_columns", "write_columns"]

KEY = b"funcnet"


def write_columns(
    path: str | Path, columns: Mapping[str, NDArray[Any]], metadata: Mapping[str, Any] | None = None
) -> None:
    """Write columns to a file atomically.

    Args:
        path: file to write. Its directory must exist.
        columns: dict from name to array (N,) or (N, K) of integers or floats. Booleans are stored as uint8.
        metadata: dict of JSON values to store in the file. `read_columns` returns this dict with the columns.

    Raises:
        ValueError: if the columns differ in length, a column has neither one nor two dimensions, or the values of a
            column are not numbers or are partly missing, as in a masked array or in pandas' nullable columns.
        OSError: if the file cannot be written. No incomplete file remains on the disk.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_columns(f"{folder}/x.arrow", {"ids": np.arange(6).reshape(3, 2)}, {"width": 2})
        ...     columns, metadata = read_columns(f"{folder}/x.arrow")
        >>> columns["ids"].tolist(), metadata
        ([[0, 1], [2, 3], [4, 5]], {'width': 2})
    """
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"write_columns: columns differ in length; expected equal lengths, got {lengths}.")
    arrays = {name: _to_arrow(name, column) for name, column in columns.items()}
    schema = pa.schema(
        {name: array.type for name, array in arrays.items()}, metadata={KEY: json.dumps(dict(metadata or {}))}
    )
    batch = pa.record_batch(list(arrays.values()), schema=schema)
    with (
        replacing(path) as part,
        pa.OSFile(str(part), "wb") as sink,
        pa.ipc.new_file(sink, schema) as writer,
    ):
        writer.write_batch(batch)


def read_columns(path: str | Path) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Open a file that `write_columns` wrote, without reading it into memory.

    Args:
        path: the file.

    Returns:
        (columns, metadata): a dict from name to read-only memory-mapped array, and the metadata.

    Raises:
        FileNotFoundError: if the file does not exist.
        ValueError: if the file was not written by `write_columns`, or is truncated.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_columns(f"{folder}/x.arrow", {"length": np.array([7, 4])}, {"unit": "tokens"})
        ...     columns, metadata = read_columns(f"{folder}/x.arrow")
        >>> columns["length"].tolist(), columns["length"].flags.writeable, metadata
        ([7, 4], False, {'unit': 'tokens'})
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"read_columns: {path} does not exist; expected an Arrow file.")
    try:
        table = pa.ipc.open_file(pa.memory_map(str(path))).read_all()
        columns = {name: _to_numpy(table.column(name)) for name in table.column_names}
        return columns, json.loads((table.schema.metadata or {})[KEY])
    except (pa.ArrowException, KeyError, OSError) as error:
        raise ValueError(
            f"read_columns: {path} cannot be read; expected an Arrow file from write_columns, got '{error}'."
        ) from error


def _to_arrow(name: str, column: NDArray[Any]) -> pa.Array:
    is_masked = np.ma.is_masked(column)
    column = np.asarray(column)
    if is_masked or column.dtype.kind not in "biuf" or column.dtype.itemsize > 8:
        got = "masked values" if is_masked else f"an array of dtype {column.dtype}"
        raise ValueError(
            f"write_columns: column '{name}' has values that are missing or not numbers; expected integers, floats of "
            f"at most 64 bits or booleans, got {got}. Convert the column to numbers, and fill or drop missing values."
        )
    if column.dtype == np.bool_:
        column = column.astype(np.uint8)
    column = column.astype(column.dtype.newbyteorder("="), copy=False)  # Arrow has no big-endian numbers
    if column.ndim == 1:
        return pa.array(column)
    if column.ndim == 2:
        return pa.FixedSizeListArray.from_arrays(pa.array(np.ascontiguousarray(column).reshape(-1)), column.shape[1])
    raise ValueError(
        f"write_columns: column '{name}' has {column.ndim} dimensions; expected 1 or 2 dimensions, got an array of "
        f"shape {column.shape}."
    )


def _to_numpy(column: pa.ChunkedArray) -> NDArray[Any]:
    """Return an Arrow column as an array, without copying if the column has one chunk, as `write_columns` writes it."""
    array = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    if pa.types.is_fixed_size_list(array.type):
        return array.flatten().to_numpy(zero_copy_only=True).reshape(-1, array.type.list_size)
    return array.to_numpy(zero_copy_only=True)
