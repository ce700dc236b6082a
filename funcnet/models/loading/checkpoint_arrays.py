"""The arrays of a checkpoint file, under the names that models have now, and with chosen layers only."""

import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from funcnet import tree, weights
from funcnet.files import check_digests
from funcnet.models.loading.naming import Arrays, Naming

__all__ = ["RenamedArrays", "choose_layers", "read_arrays", "renamed_names"]

DATA_PARALLEL = "module."  # prefix of all names in a state_dict of torch's DataParallel


def read_arrays(path: str | Path, naming: Naming, where: str) -> Arrays:
    """Open the arrays of a checkpoint, with old names replaced by the names that models have now. Each array is read
    from the file when it is accessed.

    Args:
        path: file or directory, as for `weights.load`.
        naming: names of the model's family.
        where: prefix for error messages, such as the name of the caller.

    Returns:
        {name: array}.

    Raises:
        FileNotFoundError: if the file does not exist.
        ValueError: if the file does not contain named arrays, or has changed since a run wrote it.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder, "old.safetensors")
        ...     weights.save(path, {"norm.gamma": np.ones(3), "norm.step": np.zeros(1)})
        ...     arrays = read_arrays(path, Naming(renamed=((r"gamma$", "weight"),), ignored=r"step$"), "load")
        >>> {name: array.shape for name, array in arrays.items()}
        {'norm.weight': (3,)}
    """
    path = Path(path)
    if path.is_dir():
        check_digests(path, where)
    else:
        check_digests(path.parent, where, [path.name])
    file = weights.load(path)
    if not isinstance(file, Mapping) or not all(hasattr(array, "shape") for array in file.values()):
        raise ValueError(
            f"{where}: {path}: the weights are not a dict {{name: array}}; expected a model's state_dict, got "
            f"{type(file).__name__}. Save the state_dict alone."
        )
    foreign = naming.foreign(file)
    if foreign is not None:
        names = {ours: theirs for ours, (theirs, _) in foreign.items()}
        return RenamedArrays(file, names, (ours for ours, (_, transposed) in foreign.items() if transposed))
    start = DATA_PARALLEL if file and all(name.startswith(DATA_PARALLEL) for name in file) else ""

    def today(name: str) -> str:
        name = name.removeprefix(start)
        for pattern, replacement in naming.renamed:
            name = re.sub(pattern, replacement, name)
        return name

    names = renamed_names(file, today, f"{where}: {path}")
    return RenamedArrays(file, {ours: theirs for ours, theirs in names.items() if not re.search(naming.ignored, ours)})


def choose_layers(arrays: Arrays, patterns: str | Iterable[str], naming: Naming, where: str) -> tuple[Arrays, int]:
    """Select layers by name.

    Args:
        arrays: the arrays of a file, from `read_arrays`.
        patterns: patterns for the names of the layers, as in `tree.select`.
        naming: names of the model's family. Its attribute `layers` is the pattern of the name of a layer.
        where: prefix for error messages, such as the name of the caller.

    Returns:
        (arrays, number of chosen layers). The arrays of the other layers are left out, and the chosen layers are
        renumbered from 0.

    Raises:
        ValueError: if a pattern matches no layer.

    Example:
        >>> arrays = {f"layer.{i}.bias": np.full(1, i) for i in range(3)} | {"out.bias": np.zeros(1)}
        >>> chosen, number = choose_layers(arrays, ["layer.0", "layer.2"], Naming(layers=r"layer\\.\\d+"), "load")
        >>> {name: array.tolist() for name, array in chosen.items()}, number
        ({'layer.0.bias': [0], 'layer.1.bias': [2], 'out.bias': [0.0]}, 2)
    """
    layer = re.compile(rf"^((?:{re.escape(naming.prefix)})?)({naming.layers})(?=\.)")
    found = {name: match for name in arrays if (match := layer.match(name))}
    there = sorted({match[2] for match in found.values()}, key=lambda name: int(name.rsplit(".", 1)[1]))
    chosen = tree.select(patterns, there, where=where)
    places = {name: f"{name.rsplit('.', 1)[0]}.{place}" for place, name in enumerate(chosen)}
    names = {}
    for name in arrays:
        if name not in found:
            names[name] = name
        elif found[name][2] in places:
            names[found[name][1] + places[found[name][2]] + name[found[name].end() :]] = name
    return RenamedArrays(arrays, names), len(chosen)


class RenamedArrays(Mapping[str, Any]):
    """The arrays of a file under other names, some of them transposed. Each array is read when it is accessed."""

    def __init__(self, file: Arrays, names: Mapping[str, str], transposed: Iterable[str] = ()):
        self._file, self._names, self._transposed = file, names, frozenset(transposed)

    def __getitem__(self, name: str) -> Any:
        array = self._file[self._names[name]]
        return np.transpose(array) if name in self._transposed else array

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def renamed_names(file: Arrays, rename: Callable[[str], str], where: str) -> dict[str, str]:
    """Return {`rename(name)`: name} for the names in a file. If two arrays get the same name, the last one counts, as
    in transformers. Warn if they differ.
    """
    names: dict[str, str] = {}
    for name in file:
        before = names.get(new := rename(name))
        if before is not None and not np.array_equal(file[before], file[name], equal_nan=True):
            warnings.warn(
                f"{where}: two arrays of the file are {new!r} in the model; expected equal arrays, got others under "
                f"{before!r} and {name!r}. The last one is used, as in transformers.",
                stacklevel=5,
            )
        names[new] = name
    return names
