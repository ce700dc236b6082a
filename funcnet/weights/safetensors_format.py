"""`.safetensors` files, by the library of that name; bfloat16 by ml_dtypes."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import ml_dtypes  # noqa: F401  numpy knows bfloat16 by its name once this is imported
import numpy as np
import safetensors
import safetensors.numpy

from funcnet.files import replacing

__all__ = ["read", "write"]


class _File(Mapping[str, np.ndarray]):
    """A file's arrays by name, each read when it is asked for."""

    def __init__(self, path: Path):
        self._path = path
        try:
            self._file = safetensors.safe_open(path, framework="np")
        except safetensors.SafetensorError as error:
            if "I/O" in str(error):
                raise OSError(f"weights.save: cannot write {path}: {error}") from None
            raise ValueError(
                f"weights.load: {path} is no whole safetensors file; expected its header and all its arrays, got "
                f"'{error}'. Fetch or write it again."
            ) from None
        self._names = list(self._file.offset_keys())

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self._names:
            raise KeyError(name)
        return self._file.get_tensor(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __repr__(self) -> str:
        return f"<{len(self)} arrays of {self._path}>"


def read(path: Path) -> Mapping[str, np.ndarray]:
    """{name: array}; see `weights.load`."""
    return _File(path)


def write(path: Path, tree: Mapping[str, Any]) -> None:
    """Writes {name: array}, flat or nested; see `weights.save`."""
    arrays: dict[str, np.ndarray] = {}
    _flatten(tree, "", arrays)
    with replacing(path) as part:
        try:
            # "pt" in the metadata: transformers refuses files that do not say which framework wrote them.
            safetensors.numpy.save_file(arrays, part, metadata={"format": "pt"})
        except safetensors.SafetensorError as error:
            raise ValueError(
                f"weights.save: {path.name}: an array does not fit the format; expected a dtype that safetensors "
                f"knows, got '{error}'. Cast it."
            ) from None


def _flatten(tree: Mapping[str, Any], prefix: str, into: dict[str, np.ndarray]) -> None:
    for key, value in tree.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            _flatten(value, f"{name}.", into)
            continue
        if not hasattr(value, "dtype") or not hasattr(value, "shape"):
            raise TypeError(
                f"weights.save: {name!r} is not an array; expected a numpy or JAX array, got {type(value).__name__}. "
                "Leave it out, or make it one."
            )
        if name in into:
            raise ValueError(f"weights.save: two leaves are called {name!r}; expected each name once. Rename one.")
        # The library writes memory as it lies: an array that is not contiguous would be written scrambled.
        into[name] = np.asarray(value, order="C")
