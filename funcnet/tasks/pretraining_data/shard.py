"""Shards: files of columns that are written atomically, and that contain digests of their content and their sources."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from funcnet.data import read_columns, write_columns

__all__ = ["ShardColumns", "digest_of", "is_whole", "origin_of", "read_shard", "write_shard"]

ShardColumns = dict[str, NDArray[Any]]


def write_shard(path: Path, columns: Mapping[str, NDArray[Any]], origin: Mapping[str, str], facts: Any = None) -> None:
    """Write columns of equal length, the digests of their sources, and facts about them, in one atomic step.

    `origin` is {name of a source: digest}; another build uses the file only if its origin is the same. `facts` is any
    JSON value.
    """
    metadata = {"made_from": dict(origin), "facts": facts}
    write_columns(path, columns, {**metadata, "digest": _digest(columns, metadata)})


def read_shard(path: Path) -> tuple[ShardColumns, Any]:
    """Return the (columns, facts) of a shard, memory-mapped. Its digest is not checked."""
    columns, metadata = read_columns(path)
    return columns, metadata["facts"]


def is_whole(path: Path, origin: Mapping[str, str]) -> bool:
    """Return whether a shard exists, has this origin, and is not damaged."""
    try:
        columns, metadata = read_columns(path)
        return metadata["made_from"] == dict(origin) and metadata.pop("digest") == _digest(columns, metadata)
    except (OSError, ValueError, KeyError):
        return False


def origin_of(path: Path) -> dict[str, str] | None:
    """Return the origin of a shard, as passed to `write_shard`, or None for a damaged file."""
    try:
        return read_columns(path)[1]["made_from"]
    except (OSError, ValueError, KeyError):
        return None


def digest_of(value: Any) -> str:
    """Return the SHA-256 digest of a value as JSON."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def _digest(columns: Mapping[str, NDArray[Any]], metadata: Mapping[str, Any]) -> str:
    sha = hashlib.sha256(digest_of(metadata).encode())
    for name, values in columns.items():
        stored = np.ascontiguousarray(values)
        sha.update(f"{name} {stored.dtype} {stored.shape}".encode())
        if stored.size:
            sha.update(stored.view(np.uint8).reshape(-1).data)
    return sha.hexdigest()
