"""Read and write `.safetensors` files. The `safetensors` library checks the headers and writes the files. The arrays
that are read are views of the memory-mapped file.
"""

import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import safetensors
import safetensors.numpy

from funcnet.files import replacing
from funcnet.weights.errors import check_array
from funcnet.weights.mapped import FilePlace, MappedFile

__all__ = ["flatten", "read", "write"]

_DTYPES = {
    "BOOL": np.dtype(np.bool_),
    "BF16": np.dtype(ml_dtypes.bfloat16),
    "C64": np.dtype(np.complex64),
    **{f"{kind[0].upper()}{bits}": np.dtype(f"{kind}{bits}") for kind in ("int", "uint") for bits in (8, 16, 32, 64)},
    **{f"F{bits}": np.dtype(f"float{bits}") for bits in (16, 32, 64)},
    "F8_E4M3": np.dtype(ml_dtypes.float8_e4m3fn),
    "F8_E5M2": np.dtype(ml_dtypes.float8_e5m2),
    "F8_E4M3FNUZ": np.dtype(ml_dtypes.float8_e4m3fnuz),
    "F8_E5M2FNUZ": np.dtype(ml_dtypes.float8_e5m2fnuz),
    "F8_E8M0": np.dtype(ml_dtypes.float8_e8m0fnu),
}


def read(path: Path) -> dict[str, np.ndarray]:
    """Read a file, and return its arrays as {name: array} in the order of the file. See `weights.load`."""
    try:
        header = safetensors.safe_open(path, framework="np")
    except safetensors.SafetensorError as error:
        raise ValueError(
            f"the file is not a complete safetensors file; expected a header and all arrays, got '{error}'. "
            "Download or save it again."
        ) from None
    file = MappedFile(path)
    (length,) = struct.unpack("<Q", file.data[:8])
    position = 8 + length
    arrays = {}
    for name in header.offset_keys():  # the library has checked that the arrays follow each other without a gap
        described = header.get_slice(name)
        kind, shape = described.get_dtype(), described.get_shape()
        if kind not in _DTYPES:
            raise ValueError(
                f"{name!r:.120} has a dtype that numpy does not support; expected one of {', '.join(_DTYPES)}, got "
                f"{kind}"
            )
        dtype = _DTYPES[kind]
        arrays[name] = file.array(FilePlace(f"{name!r:.120}", position, file.size - position), dtype, shape)
        position += arrays[name].nbytes
    return arrays


def write(path: Path, tree: Mapping[str, Any]) -> None:
    """Write a tree {name: array}, flat or nested, to a file. See `weights.save`."""
    # The library writes memory in its own order, so an array that is not contiguous would be scrambled.
    arrays = {name: np.asarray(value, order="C") for name, value in flatten(tree).items()}
    with replacing(path) as part:
        try:
            # The metadata needs "pt", because transformers refuses files that do not name the framework.
            safetensors.numpy.save_file(arrays, part, metadata={"format": "pt"})
        except safetensors.SafetensorError as error:
            if "I/O" in str(error):
                raise OSError(f"weights.save: cannot write {path}: {error}") from None
            raise ValueError(
                f"weights.save: {path.name}: the format does not support an array; expected a dtype of safetensors, "
                f"got '{error}'. Cast the array to a supported dtype."
            ) from None


def flatten(tree: Mapping[str, Any]) -> dict[str, Any]:
    """Return {dotted name: array} for a tree that contains only arrays."""
    arrays: dict[str, Any] = {}
    _flatten(tree, "", arrays)
    return arrays


def _flatten(tree: Mapping[str, Any], prefix: str, into: dict[str, Any]) -> None:
    for key, value in tree.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            _flatten(value, f"{name}.", into)
            continue
        if not hasattr(value, "dtype") or not hasattr(value, "shape"):
            raise TypeError(
                f"weights.save: {name!r} is not an array; expected a numpy or JAX array, got {type(value).__name__}. "
                "Omit or convert this value."
            )
        check_array(f"weights.save: {name!r}", value)
        if name in into:
            raise ValueError(
                f"weights.save: two leaves have the same name; expected each name once, got {name!r} twice. Rename one."
            )
        into[name] = value
