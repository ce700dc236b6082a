"""Reads and writes shards: files of columns that contain digests of their content and of the data they are made
from.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from funcnet.data import read_columns, write_columns
from funcnet.files import json_digest

__all__ = ["ShardColumns", "is_whole", "origin_of", "read_shard", "write_shard"]

ShardColumns = dict[str, NDArray[Any]]


def write_shard(
    path: Path, columns: Mapping[str, NDArray[Any]], origin: Mapping[str, str], facts: object = None
) -> None:
    """Write a shard: columns of equal length, the digests of the data they are made from, and facts about the columns.
    The file is written completely or not at all.

    `origin` is {name of a source: digest}. A later build uses the file again only if it would make the file from the
    same sources. `facts` is any JSON value.
    """
    metadata = {"made_from": dict(origin), "facts": facts}
    write_columns(path, columns, {**metadata, "digest": _digest(columns, metadata)})


def read_shard(path: Path) -> tuple[ShardColumns, Any]:
    """Return the (columns, facts) of a shard. The columns are memory-mapped, and the digest of the file is not
    checked.
    """
    columns, metadata = read_columns(path)
    return columns, metadata["facts"]


def is_whole(path: Path, origin: Mapping[str, str]) -> bool:
    """Return whether the file of a shard exists, was made from the sources in `origin`, and is not damaged."""
    try:
        columns, metadata = read_columns(path)
        return metadata["made_from"] == dict(origin) and metadata.pop("digest") == _digest(columns, metadata)
    except (OSError, ValueError, KeyError):
        return False


def origin_of(path: Path) -> dict[str, str] | None:
    """Return {name of a source: digest} of a shard, which `write_shard` stored as its origin, or None if the file is
    damaged.
    """
    try:
        return read_columns(path)[1]["made_from"]
    except (OSError, ValueError, KeyError):
        return None


def _digest(columns: Mapping[str, NDArray[Any]], metadata: Mapping[str, Any]) -> str:
    sha = hashlib.sha256(json_digest(metadata).encode())
    for name, values in columns.items():
        stored = np.ascontiguousarray(values)
        sha.update(f"{name} {stored.dtype} {stored.shape}".encode())
        if stored.size:
            sha.update(stored.view(np.uint8).reshape(-1).data)
    return sha.hexdigest()
