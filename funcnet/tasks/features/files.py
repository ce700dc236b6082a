"""Streams features to a file: Arrow, NumPy, or JSON lines in the format of Google's script.

Letters: `N texts, L layers, T tokens of a text, D hidden size`.
"""

from __future__ import annotations

import contextlib
import itertools
import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from funcnet.files import replacing
from funcnet.tasks.features.extract import Features

__all__ = ["SUFFIXES", "starts_file", "write_features"]

SUFFIXES = (".arrow", ".npy", ".jsonl")
_ROWS = 1024  # texts in a batch of an Arrow file
_HEADER = 128  # bytes reserved for the header of a .npy file, because the number of rows is known only at the end


def write_features(path: str | Path, found: Iterable[Features], layers: Sequence[int]) -> int:
    """Write the vectors of texts to a file, and return the number of texts, N. If an error occurs, no incomplete file
    is left.

    - `.arrow`: an Arrow IPC file with one row per text. Its columns are `tokens` (a list of strings) and one column per
      layer, such as `layer_-1`. Each cell of a layer's column has D floats if the vectors are pooled, otherwise T lists
      of D floats.
    - `.npy`: an array. Pooled vectors have the shape (N, D), or (N, L, D) for several layers. Vectors of tokens have
      the shape (sum of T, D) or (sum of T, L, D). The file `NAME.starts.npy`, of shape (N + 1,), then has the first row
      of each text.
    - `.jsonl`: the format of Google's `extract_features.py`. If the vectors are pooled, an object has `layers` instead
      of `features`.

    Args:
        path: file to write. Its suffix, in lower or upper case, selects the format.
        found: the vectors of the texts, as a `FeatureExtractor` yields them.
        layers: the requested layers, which name the columns.

    Raises:
        ValueError: if the suffix is unknown.
        OSError: if the file cannot be written.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> found = [Features(["[CLS]", "[SEP]"], np.ones((1, 4), np.float32))] * 3
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_features(Path(folder, "a.npy"), found, [-1]), np.load(Path(folder, "a.npy")).shape
        (3, (3, 4))

    Reference: google-research/bert, `extract_features.py`
    """
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise ValueError(f"features: {path}: unknown format; expected {', '.join(SUFFIXES)}, got {path.suffix!r}.")
    write = {".arrow": _write_arrow, ".npy": _write_npy, ".jsonl": _write_json_lines}[suffix]
    with replacing(path) as part:
        count, starts = write(part, found, list(layers))
    if suffix == ".npy":
        starts_file(path).unlink(missing_ok=True)  # left over from vectors of every token
    if starts is not None:
        with replacing(starts_file(path)) as part, part.open("wb") as file:
            np.save(file, starts)
    return count


def starts_file(path: Path) -> Path:
    """Return the path of the file that has the first row of each text, for a .npy file of token vectors.

    >>> starts_file(Path("a.npy")).name
    'a.starts.npy'
    """
    return path.with_suffix(".starts.npy")


def _write_arrow(part: Path, found: Iterable[Features], layers: list[int]) -> tuple[int, None]:
    count, writer, left = 0, None, iter(found)
    with contextlib.ExitStack() as stack:
        while rows := [*itertools.islice(left, _ROWS)]:
            table = _record_batch(rows, layers)
            if writer is None:
                writer = stack.enter_context(pa.ipc.new_file(str(part), table.schema))
            writer.write_batch(table)
            count += len(rows)
        if writer is None:
            schema = pa.schema([("tokens", pa.list_(pa.string()))])
            stack.enter_context(pa.ipc.new_file(str(part), schema))
    return count, None


def _record_batch(rows: list[Features], layers: list[int]) -> pa.RecordBatch:
    columns: dict[str, pa.Array] = {"tokens": pa.array([row.tokens for row in rows], pa.list_(pa.string()))}
    for place, layer in enumerate(layers):
        values = [row.values[place] for row in rows]
        width = values[0].shape[-1]
        vectors = pa.FixedSizeListArray.from_arrays(pa.array(np.concatenate([v.reshape(-1) for v in values])), width)
        if values[0].ndim == 2:
            starts = np.cumsum([0, *map(len, values)]).astype(np.int32)
            vectors = pa.ListArray.from_arrays(pa.array(starts), vectors)
        columns[f"layer_{layer}"] = vectors
    return pa.RecordBatch.from_pydict(columns)


def _write_npy(part: Path, found: Iterable[Features], layers: list[int]) -> tuple[int, NDArray[np.int64] | None]:
    rows, count, starts, tail, every_token = 0, 0, [0], (0,), False
    with part.open("wb") as file:
        file.write(b"\0" * _HEADER)
        for one in found:
            every_token = one.values.ndim == 3
            values = np.moveaxis(one.values, 1, 0) if every_token else one.values[None]  # (rows, L, D)
            values = values[:, 0] if len(layers) == 1 else values
            tail = values.shape[1:]
            file.write(np.ascontiguousarray(values, np.float32).tobytes())
            rows, count = rows + len(values), count + 1
            starts.append(rows)
        file.seek(0)
        file.write(_npy_header((rows, *tail)))
    return count, np.array(starts, np.int64) if every_token else None


def _npy_header(shape: tuple[int, ...]) -> bytes:
    """Return the header of a float32 .npy file, version 1.0, padded with spaces to `_HEADER` bytes."""
    text = repr({"descr": "<f4", "fortran_order": False, "shape": shape}).encode()
    magic = b"\x93NUMPY\x01\x00" + (_HEADER - 10).to_bytes(2, "little")
    return magic + text.ljust(_HEADER - 11) + b"\n"


def _write_json_lines(part: Path, found: Iterable[Features], layers: list[int]) -> tuple[int, None]:
    count = 0
    with part.open("w", encoding="utf-8") as file:
        for one in found:
            _write_line(file, count, one, layers)
            count += 1
    return count, None


def _write_line(file: IO[str], index: int, one: Features, layers: list[int]) -> None:
    every_token = one.values.ndim == 3
    of: Callable[[NDArray[Any]], list[Any]] = lambda vectors: [
        {"index": layer, "values": [round(x, 6) for x in vector.tolist()]}
        for layer, vector in zip(layers, vectors, strict=True)
    ]
    if every_token:
        features = [{"token": token, "layers": of(one.values[:, place])} for place, token in enumerate(one.tokens)]
        line = {"linex_index": index, "features": features}
    else:
        line = {"linex_index": index, "layers": of(one.values)}
    file.write(json.dumps(line, ensure_ascii=False) + "\n")
