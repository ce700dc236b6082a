"""Read and write weights in several files with an index, in Hugging Face's layout: `{"weight_map": {name: file}}`."""

import contextlib
import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from funcnet.files import replacing, write_json
from funcnet.weights.errors import UnsafeFileError
from funcnet.weights.safetensors_format import flatten

__all__ = ["find", "read", "write"]

_FOUND = (
    *("model.safetensors", "model.safetensors.index.json", "pytorch_model.bin", "pytorch_model.bin.index.json"),
    "bert_model.ckpt.index",  # Google's
)
_MAX_INDEX = 2**26  # bytes; the largest models have some 100,000 names


def find(folder: Path) -> Path:
    """Return the path of the weights in a folder: the first file with one of Hugging Face's or Google's names. Hugging
    Face's names come first, in the order in which transformers looks for them.

    Raises:
        FileNotFoundError: if the folder contains no weights.
    """
    for name in _FOUND:
        if (folder / name).is_file():
            return folder / name
    raise FileNotFoundError(
        f"weights.load: {folder} contains no weights; expected {' or '.join(_FOUND)}. Pass the path of the file itself."
    )


def read(path: Path, open_one: Callable[[Path], Any]) -> dict[str, Any]:
    """Return the arrays of all shards as {name: array}, in the order of the index. `open_one` reads a shard."""
    weight_map = _weight_map(path)
    shards: dict[str, Mapping[str, Any]] = {}
    for file in dict.fromkeys(weight_map.values()):
        if not (path.parent / file).is_file():
            raise FileNotFoundError(
                f"weights.load: {path.parent / file} does not exist; expected all shards that {path.name} lists."
            )
        try:
            shard = open_one(path.parent / file)
        except UnsafeFileError as error:
            raise UnsafeFileError(f"shard {file}: {error}") from None
        except ValueError as error:
            raise ValueError(f"shard {file}: {error}") from None
        if not isinstance(shard, Mapping):
            raise ValueError(
                f"shard {file} does not contain named arrays; expected {{name: array}}, got {type(shard).__name__}"
            )
        shards[file] = shard
    arrays = {}
    for name, file in weight_map.items():
        if name not in shards[file]:
            raise ValueError(f"shard {file} lacks {name!r:.120}; expected all names that the index lists for it")
        arrays[name] = shards[file][name]
    return arrays


def _weight_map(path: Path) -> dict[str, str]:
    if path.stat().st_size > _MAX_INDEX:
        raise ValueError(f"the index is too long; expected at most {_MAX_INDEX} bytes, got {path.stat().st_size}")
    try:
        index = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the file is not JSON; expected an index of shards, got '{str(error)[:120]}'") from None
    weight_map = index.get("weight_map") if isinstance(index, dict) else None
    if not isinstance(weight_map, dict) or not all(isinstance(file, str) for file in weight_map.values()):
        raise ValueError('the file is not an index of shards; expected {"weight_map": {name: file}}')
    for file in weight_map.values():
        if file in ("", ".", "..") or re.search(r"[/\\:\0]", file):
            raise UnsafeFileError(f"shard {file!r:.120} is outside of the folder; expected a plain file name")
    return weight_map


def write(
    path: Path, tree: Mapping[str, Any], limit: int, write_one: Callable[[Path, Mapping[str, Any]], None]
) -> None:
    """Write `tree` as shards of at most `limit` bytes with an index, or as a single file if the tree is small enough.

    All shards are written before the first one is renamed. While the shards are renamed, the index does not exist, so
    it never lists shards of two different trees.
    """
    arrays = flatten(tree)
    shards: list[dict[str, Any]] = [{}]
    room = limit
    for name, array in arrays.items():
        size = array.size * array.dtype.itemsize
        if size > room and shards[-1]:
            shards.append({})
            room = limit
        shards[-1][name] = array
        room -= size
    if len(shards) == 1:
        return write_one(path, arrays)
    index = path.with_name(f"{path.name}.index.json")
    names = [f"{path.stem}-{i + 1:05}-of-{len(shards):05}{path.suffix}" for i in range(len(shards))]
    with contextlib.ExitStack() as parts:
        for name, shard in zip(names, shards, strict=True):
            write_one(parts.enter_context(replacing(path.with_name(name))), shard)
        index.unlink(missing_ok=True)
        path.unlink(missing_ok=True)  # transformers would prefer this file to the index
    weight_map = {name: file for file, shard in zip(names, shards, strict=True) for name in shard}
    total = sum(array.size * array.dtype.itemsize for array in arrays.values())
    write_json(index, {"metadata": {"total_size": total}, "weight_map": weight_map})
    shard_name = re.compile(re.escape(path.stem) + r"-\d{5}-of-\d{5}" + re.escape(path.suffix))
    for old in path.parent.iterdir():
        if shard_name.fullmatch(old.name) and old.name not in names:
            old.unlink()  # a shard of an earlier save with another number of shards
    return None
