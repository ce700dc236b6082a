"""Stream the rows of many files (shards) that together are larger than memory."""

from __future__ import annotations

import itertools
import json
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from funcnet.arguments import boolean, function, integer, shown
from funcnet.data.arrow import read_columns
from funcnet.data.arrow_values import column_values, require_distinct
from funcnet.data.checks import require_iterable
from funcnet.data.hashed_draws import permute
from funcnet.data.resumable import ResumableDataset
from funcnet.data.tfrecord import read_examples
from funcnet.data.worker import get_worker_info
from funcnet.files import json_digest

__all__ = ["ShardDataset"]

READ = 1 << 20  # bytes per read from a .npy file
MAPPED = 1 << 23  # bytes of an .arrow file that are read before the file is mapped again
Reader = Callable[[str], Iterable[Any]]


class ShardDataset(ResumableDataset):
    """An iterable dataset of the rows of many files, which together may be larger than memory.

    Each epoch reads the shards in an order that depends only on (seed, epoch), and the rows of a shard from first to
    last. The process with rank `k % num_replicas` reads the shard at position k of that order. The workers of a process
    read its shards in turn. To shuffle rows, add a `ShuffleBuffer`:
    `DataLoader(ShuffleBuffer(ShardDataset(paths), 10_000), batch_size=64)`.

    The suffix of a file determines how the file is read and what an item is:

    - `.npy`: a row of the array.
    - `.arrow` from `write_columns`: a dict {name of a column: the value in this row}.
    - `.parquet`: a dict {name of a column: value}, with NumPy scalars, arrays (from lists) or other objects. A null is
      None, whatever the type of its column (see `column_values`). `default_collate` refuses None among numbers.
    - `.tfrecord`, `.tfrecord-00000-of-00010`: a dict {name of a feature: array} (see `read_examples`).
    - `.jsonl`: the JSON value of a line. Empty lines are skipped.
    - `.txt`: a line as a string, without the line ending.

    Memory use does not grow with the size of the shards, because files are read in small parts. Items are copies of the
    data, so an item does not keep a part of a file in memory.

    Args:
        paths: paths of the shards. The paths are sorted, so the order in which a directory lists them does not matter.
        read: function that returns the items of a file as an iterable, for other formats. If a run is resumed within
            such a file, the items before the saved position are read and dropped.
        shuffle: whether the order of the shards is random. If False, the shards are read in the order of their sorted
            paths.
        seed: seed for the random order.
        num_replicas: number of processes that share the shards.
        rank: number of this process.

    Raises:
        TypeError: if `paths` is a single path, or an argument has the wrong type.
        ValueError: if there are fewer shards than replicas, paths are repeated, a suffix is unknown, or the rank is not
            in [0, num_replicas). ValueError is also raised while iterating if a shard is damaged. The message names the
            damaged file.
        FileNotFoundError: while iterating, if a shard does not exist.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     for number in range(3):
        ...         np.save(f"{folder}/{number}.npy", np.arange(2) + 10 * number)
        ...     shards = ShardDataset(Path(folder).glob("*.npy"), seed=1)
        ...     [int(row) for row in shards], [int(row) for row in shards]
        ([10, 11, 20, 21, 0, 1], [20, 21, 0, 1, 10, 11])
    """

    def __init__(
        self,
        paths: Iterable[str | Path],
        *,
        read: Reader | None = None,
        shuffle: bool = True,
        seed: int = 0,
        num_replicas: int = 1,
        rank: int = 0,
    ):
        super().__init__()
        if isinstance(paths, str | Path):
            raise TypeError(f"ShardDataset: paths is a single path; expected a list of paths, got {str(paths)!r}.")
        require_iterable("ShardDataset", "paths", paths, "a list of paths")
        paths = list(paths)
        wrong = next((path for path in paths if not isinstance(path, str | os.PathLike)), None)
        if wrong is not None:
            raise TypeError(
                f"ShardDataset: paths has an entry that is no path; expected str or Path, got {shown(wrong)}."
            )
        if read is not None:
            function("ShardDataset", "read", read, "read(path)")
        boolean("ShardDataset", "shuffle", shuffle)
        for name, number in {"seed": seed, "num_replicas": num_replicas, "rank": rank}.items():
            integer("ShardDataset", name, number)
        self.paths = tuple(sorted(os.fspath(path) for path in paths))
        if len(set(self.paths)) < len(self.paths):
            repeated = next(path for path, after in itertools.pairwise(self.paths) if path == after)
            raise ValueError(f"ShardDataset: a path is repeated; expected different paths, got {repeated!r} twice.")
        if not 0 <= rank < num_replicas:
            raise ValueError(
                f"ShardDataset: the rank is out of range; expected 0 <= rank < num_replicas, got rank {rank} of "
                f"{num_replicas}."
            )
        if len(self.paths) < num_replicas:
            raise ValueError(
                f"ShardDataset: there are too few shards; expected at least one per replica ({num_replicas}), got "
                f"{len(self.paths)}."
            )
        for path in self.paths if read is None else ():
            _reader_of(path)
        self.read, self.shuffle, self.seed = read, shuffle, seed
        self.num_replicas, self.rank = num_replicas, rank
        self._digest = _digest(self.paths)

    def order(self, epoch: int) -> NDArray[np.int64]:
        """Return the order of the shards in an epoch, over all replicas and workers, as indices of `paths`."""
        places = np.arange(len(self.paths))
        return permute(places, len(places), seed=self.seed, epoch=epoch) if self.shuffle else places

    def first_state(self, epoch: int) -> dict[str, Any]:
        """Return the state of the dataset at the start of an epoch."""
        shards = {"number": len(self.paths), "digest": self._digest, "shuffle": self.shuffle, "seed": self.seed}
        return {"epoch": epoch, "shard": 0, "row": 0, "reader": None, "shards": shards}

    def items_from(self, state: dict[str, Any]) -> Iterator[Any]:
        """Yield the items after the position `state`, and update `state` to the position after each item."""
        info = get_worker_info()
        worker, workers = (0, 1) if info is None else (info.id, info.num_workers)
        reader = [self.rank + worker * self.num_replicas, self.num_replicas * workers]
        if state["reader"] not in (None, reader):
            raise ValueError(
                f"ShardDataset: the state is from a different reader; expected reader {reader[0]} of {reader[1]} "
                f"(replicas times workers), got {state['reader'][0]} of {state['reader'][1]}. Resume with "
                "the same numbers of replicas and workers."
            )
        state["reader"] = reader
        own = self.order(state["epoch"])[reader[0] :: reader[1]].tolist()
        for number in own[state["shard"] :]:
            for item in self._rows(self.paths[number], state["row"]):
                state["row"] += 1
                yield item
            state["shard"], state["row"] = state["shard"] + 1, 0

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Make the next `iter(dataset)` continue at the position that `state_dict` returned as `state`.

        Raises:
            ValueError: if the state was saved with different shards or a different seed.
        """
        expected, got = self.first_state(0)["shards"], state.get("shards")
        if expected != got:
            raise ValueError(
                f"ShardDataset.load_state_dict: the state is from different shards; expected {expected}, got {got}. "
                "The digest is computed from the names of the files."
            )
        super().load_state_dict(state)

    def _rows(self, path: str, start: int) -> Iterator[Any]:
        """Yield the items of a shard from row `start` on. If the shard is damaged, raise a ValueError that names it."""
        if self.read is not None:
            try:
                yield from itertools.islice(self.read(path), start, None)
            except Exception as error:
                error.add_note(f"while reading {path} of ShardDataset")
                raise
            return
        try:
            yield from _reader_of(path)(path, start)
        except (ValueError, EOFError, pa.ArrowException) as error:
            raise ValueError(
                f"ShardDataset: {path} is damaged; expected a file in the format of its suffix, got '{error}'."
            ) from error


def _digest(paths: Sequence[str]) -> str:
    """Return a digest of the paths relative to their common folder, which does not change if the folder is moved."""
    folder = os.path.commonpath([os.path.dirname(os.path.abspath(path)) for path in paths])
    names = [Path(os.path.relpath(os.path.abspath(path), folder)).as_posix() for path in paths]
    return json_digest(names)[:16]


# ----------------------------------------------------------------------------------------- readers: (path, first row)


def _reader_of(path: str) -> Callable[[str, int], Iterator[Any]]:
    suffix = Path(path).suffix
    readers = {
        ".npy": _npy,
        ".arrow": _arrow,
        ".parquet": _parquet,
        ".tfrecord": lambda path, start: itertools.islice(read_examples(path), start, None),
        ".jsonl": _jsonl,
        ".txt": _txt,
    }
    suffix = ".tfrecord" if suffix.startswith(".tfrecord-") else suffix
    if suffix not in readers:
        raise ValueError(
            f"ShardDataset: {path} has an unknown suffix; expected {', '.join(readers)}, got {suffix!r}. Pass a "
            "function as `read`."
        )
    return readers[suffix]


def _npy(path: str, start: int) -> Iterator[Any]:
    """Yield the rows of a `.npy` file. The rows are read into one buffer, which is faster than a memory map."""
    array = _load(path)  # checks the header and the length of the file
    if not isinstance(array, np.memmap) or array.ndim < 1 or not array.flags.c_contiguous:
        raise ValueError("no array, or an array without dimensions or in Fortran order")
    size, dtype, offset = len(array), array.dtype, array.offset
    row_bytes = dtype.itemsize * math.prod(array.shape[1:])
    count = min(size, max(1, READ // max(1, row_bytes)))
    data = np.empty(count * row_bytes, np.uint8)
    rows = data.view(dtype).reshape(count, *array.shape[1:])
    with open(path, "rb") as file:
        file.seek(offset + start * row_bytes)
        while start < size:
            count = min(count, size - start)
            if file.readinto(data[: count * row_bytes].data) < count * row_bytes:
                raise ValueError("the end of the file")
            for row in rows[:count]:
                yield row.copy()
            start += count


def _load(path: str) -> Any:
    """Return `np.load(path, mmap_mode="r")`, safely even if other threads load at the same time.

    NumPy parses the header with `ast`. In CPython 3.11, this rarely raises a SystemError ("AST constructor recursion
    depth mismatch"), if garbage collection lets another thread parse in the meantime. A second attempt succeeds.
    """
    for _ in range(10):
        try:
            return np.load(path, mmap_mode="r")
        except SystemError as error:
            last = error
    raise last


def _arrow(path: str, start: int) -> Iterator[dict[str, Any]]:
    """Yield copies of the rows of a file that `write_columns` wrote. The file is mapped again every MAPPED bytes."""
    columns, _ = read_columns(path)
    size = len(next(iter(columns.values()), ()))
    row_bytes = sum(column[:1].nbytes for column in columns.values())
    count = max(1, MAPPED // max(1, row_bytes))
    while start < size:
        columns, _ = read_columns(path)
        for row in zip(*(column[start : start + count] for column in columns.values()), strict=True):
            yield {name: value.copy() for name, value in zip(columns, row, strict=True)}
        del columns, row  # the last references to the map
        start += count


def _parquet(path: str, start: int) -> Iterator[dict[str, Any]]:
    from pyarrow import parquet  # 20 ms, and only this format needs it

    with parquet.ParquetFile(path) as file:
        require_distinct("the schema", file.schema_arrow.names)
        for group in range(file.num_row_groups):
            rows = file.metadata.row_group(group).num_rows
            if start >= rows:  # a row group that was read before
                start -= rows
                continue
            for batch in file.iter_batches(1024, row_groups=[group]):
                names = batch.schema.names
                columns = [column_values(column) for column in batch.columns]
                for row in itertools.islice(zip(*columns, strict=True), start, None):
                    yield dict(zip(names, row, strict=True))
                start = max(0, start - batch.num_rows)


def _txt(path: str, start: int) -> Iterator[str]:
    with open(path, encoding="utf-8") as file:
        for line in itertools.islice(file, start, None):
            yield line.rstrip("\r\n")


def _jsonl(path: str, start: int) -> Iterator[Any]:
    rows = ((number, line) for number, line in enumerate(_txt(path, 0), 1) if line.strip())
    for number, line in itertools.islice(rows, start, None):
        try:
            yield json.loads(line)
        except ValueError as error:
            raise ValueError(f"line {number}: {error}") from error
