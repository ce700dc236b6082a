"""`load` and `save`: the suffix of a file's name says its format."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from funcnet.weights import safetensors_format

__all__ = ["load", "save"]

_FORMATS = (".safetensors",)


def load(path: str | Path) -> Mapping[str, Any]:
    """What a weights file holds, read when it is looked at.

    Args:
        path: a `.safetensors` file.

    Returns:
        {dotted name: numpy array} in the file's order. Each look-up reads that array anew, so taking a part of a large
        file costs that part. bfloat16 comes as `ml_dtypes.bfloat16`.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: another suffix, or a file that is broken or cut short.

    Example:
        >>> import pathlib, tempfile, numpy as np
        >>> from funcnet import weights
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder, "model.safetensors")
        ...     weights.save(path, {"fc": {"weight": np.ones((2, 3)), "bias": np.zeros(2)}})
        ...     {name: array.shape for name, array in weights.load(path).items()}
        {'fc.bias': (2,), 'fc.weight': (2, 3)}

    Reference: https://huggingface.co/docs/safetensors
    """
    path = Path(path)
    _require_known(path, "load")
    if not path.is_file():
        raise FileNotFoundError(f"weights.load: {path} is not there; expected a file, got nothing. Check the path.")
    return safetensors_format.read(path)


def save(path: str | Path, tree: Mapping[str, Any]) -> None:
    """Writes arrays to a file that torch and Hugging Face open; the file is there whole or not at all.

    Args:
        path: ends in `.safetensors`; its directory exists. What was there is replaced.
        tree: {name: array} of numpy or JAX arrays, flat with dotted names (as `state_dict` gives it) or nested.

    Raises:
        ValueError: another suffix; two leaves of one dotted name; a dtype that the format does not know.
        TypeError: a leaf that is not an array.
        OSError: the disk is full or cannot be written; what was there stays.
    """
    path = Path(path)
    _require_known(path, "save")
    safetensors_format.write(path, tree)


def _require_known(path: Path, what: str) -> None:
    if path.suffix not in _FORMATS:
        raise ValueError(
            f"weights.{what}: {path.name!r} has a suffix that is not supported; expected {' or '.join(_FORMATS)}, "
            f"got {path.suffix!r}. Rename or convert the file."
        )
