"""The files of a data directory: columns with a digest, whole or not there, that know what they were made from."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from funcnet.data import read_columns, write_columns

Columns = dict[str, NDArray[Any]]


def write_shard(
    path: Path, columns: Mapping[str, NDArray[Any]], made_from: Mapping[str, str], facts: Any = None
) -> None:
    """Writes columns, the digests of what they were made from, and facts about them; whole or not at all.

    Args:
        path: the file.
        columns: of one length; see `write_columns`.
        made_from: name to digest, what another builder must agree with before it takes the file for its own.
        facts: anything JSON can say.
    """
    told = {"made_from": dict(made_from), "facts": facts}
    write_columns(path, columns, {**told, "digest": _digest(columns, told)})


def read_shard(path: Path) -> tuple[Columns, Any]:
    """(columns, facts) of a shard, memory-mapped; its digest is not looked at.

    Raises:
        FileNotFoundError, ValueError: as `read_columns`.
    """
    columns, told = read_columns(path)
    return columns, told["facts"]


def is_whole(path: Path, made_from: Mapping[str, str]) -> bool:
    """Whether a shard is there, was made from what is expected, and has the bytes that were written."""
    try:
        columns, told = read_columns(path)
        return told["made_from"] == dict(made_from) and told.pop("digest") == _digest(columns, told)
    except (OSError, ValueError, KeyError):
        return False


def made_from(path: Path) -> dict[str, str]:
    """The digests that were given when the shard was written.

    Raises:
        FileNotFoundError, ValueError: as `read_columns`; also a file of columns that is no shard.
    """
    told = read_columns(path)[1]
    if "made_from" not in told:
        raise ValueError(f"read_shard: {path} is no shard; expected what it was made from, got {sorted(told)}.")
    return told["made_from"]


def digest_of(value: Any) -> str:
    """SHA-256 of a value as JSON."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def _digest(columns: Mapping[str, NDArray[Any]], told: Mapping[str, Any]) -> str:
    sha = hashlib.sha256(digest_of(told).encode())
    for name, values in columns.items():
        stored = np.ascontiguousarray(values)
        sha.update(f"{name} {stored.dtype} {stored.shape}".encode())
        if stored.size:
            sha.update(stored.view(np.uint8).reshape(-1).data)
    return sha.hexdigest()
