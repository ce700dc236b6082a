"""`load` and `save`: the suffix of a file's name selects its format."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from funcnet.tree import PyTree
from funcnet.weights import safetensors_format, sharded, torch_legacy, torch_zip
from funcnet.weights.errors import UnsafeFileError
from funcnet.weights.file_formats import LEGACY, SAFETENSORS, TORCH_ZIP, describe, kind_of
from funcnet.weights.tensorflow_checkpoint import INDEX, TensorFlowCheckpoint

__all__ = ["load", "save"]

_TORCH = (".pt", ".pth", ".bin")
_FORMATS = (".safetensors", *_TORCH)
_INDEX = ".index.json"


def load(path: str | Path) -> Any:
    """Load the content of a weights file lazily. Loading does not import torch, and runs no code from the file.

    Args:
        path: one of the following.
            A `.safetensors` file.
            A `.pt`, `.pth` or `.bin` file of `torch.save`, in the zip format or the format before torch 1.6, with any
            pickle protocol.
            The `.index.json` file of weights that are split into several files of these formats.
            A TensorFlow checkpoint (`bert_model.ckpt` or its `.index` file).
            A directory that contains one of these files under Hugging Face's or Google's name (`model.safetensors`,
            `pytorch_model.bin`, `bert_model.ckpt.index`).

    Returns:
        {name: numpy array} in the order of the file. For a TensorFlow checkpoint, the result is a mapping that verifies
        the checksum of an array when the array is looked up. For a torch file, the complete content is returned: dicts
        (including the `_metadata` of a state_dict), lists, tuples, numbers and strings. Tensors and parameters become
        numpy arrays, dtypes become numpy dtypes, sizes become tuples, and devices become strings. The dtypes bfloat16
        and float8 are from `ml_dtypes`. Arrays are read-only views of the memory-mapped file, with the strides and
        shared storages of the file. An array is read from disk when it is used, without a copy. As long as an array is
        in use, do not modify the file in place. Replacing the file, as `save` does, is safe.

    Raises:
        FileNotFoundError: if the file or a file that its index lists does not exist, or the directory has no weights.
        UnsafeFileError: if the file would run code, such as `os.system`, has a sparse or quantized tensor, or contains
            objects that are not plain data, such as a pickled module, but no arrays. The message names the call or the
            object. No code of the file is run.
        ValueError: if the suffix is not supported, the content does not match the suffix (the message says what the
            file contains), or the file is truncated or damaged.

    Warns:
        UserWarning: if a torch file has other objects besides the arrays, such as an `argparse.Namespace` or a numpy
            scalar. They are left out and named: an entry of a dict or a set is removed, and None takes the place of an
            item of a list or a tuple.

    Differs from torch:
        `torch.load(weights_only=True)` requires torch and reads the complete file. `load` leaves out the Python
        attributes of tensors.

    Example:
        >>> import pathlib, tempfile, numpy as np
        >>> from funcnet import weights
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder, "model.safetensors")
        ...     weights.save(path, {"fc": {"weight": np.ones((2, 3)), "bias": np.zeros(2)}})
        ...     {name: array.shape for name, array in weights.load(path).items()}
        {'fc.bias': (2,), 'fc.weight': (2, 3)}
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder, "run.pt")
        ...     weights.save(path, {"epoch": 3, "net": {"fc.bias": np.zeros(2, np.float32)}})
        ...     weights.load(path)
        {'epoch': 3, 'net': {'fc.bias': array([0., 0.], dtype=float32)}}

    Reference: https://huggingface.co/docs/safetensors; torch.save; torch.load
    """
    path = Path(path)
    if path.is_dir():
        path = sharded.find(path)
    is_index = path.name.endswith(_INDEX)
    is_tensorflow = path.suffix == INDEX or path.with_name(path.name + INDEX).is_file()
    if not is_index and not is_tensorflow:
        _require_known(path, "load")
    if not path.is_file() and not is_tensorflow:
        raise FileNotFoundError(f"weights.load: {path} does not exist; expected an existing file.")
    try:
        if is_tensorflow:
            return TensorFlowCheckpoint(path)
        return sharded.read(path, _open) if is_index else _open(path)
    except UnsafeFileError as error:
        raise UnsafeFileError(f"weights.load: {path}: {error}") from None
    except ValueError as error:
        raise ValueError(f"weights.load: {path}: {error}") from None


def save(path: str | Path, tree: PyTree, *, max_shard_size: int | None = None) -> None:
    """Write arrays to a file that torch and Hugging Face can open. The file is written atomically.

    Args:
        path: file to write, ending in `.safetensors`, `.pt`, `.pth` or `.bin`. Its directory must exist. An existing
            file is replaced.
        tree: {name: array} of numpy or JAX arrays, either flat with dotted names (as returned by `state_dict`) or
            nested. A `.safetensors` file is always flat, with dotted names. A torch file keeps the structure of any
            tree of dicts, lists, tuples, numbers, strings and arrays, and `torch.load(weights_only=True)` can open it.
            A torch file also keeps the attribute `_metadata` of dicts, and stores an array that occurs twice only once.
        max_shard_size: maximum size of a file in bytes. A larger tree is flattened to dotted names and written to
            several files, `<stem>-00001-of-0000N<suffix>` and so on, with the index `<path>.index.json`. A file at
            `path` itself is removed if the tree is written to several files.

    Raises:
        ValueError: if the suffix is not supported, two leaves have the same dotted name, the format does not support a
            dtype, the tree contains itself, or `max_shard_size` is not above 0.
        TypeError: if `path` or `tree` has the wrong type, or a leaf is not an array. In a torch file, a leaf may also
            be plain data.
        OSError: if the file cannot be written, for example because the disk is full or the directory does not exist.
            If the file already existed, the error leaves it unchanged.

    Example:
        >>> import pathlib, tempfile, numpy as np
        >>> from funcnet import weights
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     tree = {"fc": {"weight": np.ones((2, 3), np.float32), "bias": np.zeros(2, np.float32)}}
        ...     weights.save(pathlib.Path(folder, "model.safetensors"), tree, max_shard_size=24)
        ...     print(*sorted(file.name for file in pathlib.Path(folder).iterdir()), sep="\\n")
        model-00001-of-00002.safetensors
        model-00002-of-00002.safetensors
        model.safetensors.index.json

    Reference: https://huggingface.co/docs/safetensors; torch.save
    """
    if not isinstance(path, str | Path):
        raise TypeError(
            f"weights.save: path has the wrong type; expected a path, got {type(path).__name__}. The order is "
            "save(path, tree)."
        )
    path = Path(path)
    _require_known(path, "save")
    if not isinstance(tree, Mapping) and (path.suffix not in _TORCH or hasattr(tree, "named_parameters")):
        raise TypeError(
            f"weights.save: tree has the wrong type; expected a dict of names and arrays, got {type(tree).__name__}. "
            "For a net, pass net.state_dict(params, state)."
        )
    if not path.parent.is_dir():
        raise FileNotFoundError(f"weights.save: the folder {path.parent} does not exist; expected an existing folder.")
    write = torch_zip.write if path.suffix in _TORCH else safetensors_format.write
    if max_shard_size is None:
        write(path, tree)
    elif max_shard_size <= 0:
        raise ValueError(
            f"weights.save: max_shard_size is out of range; expected a number of bytes above 0, got {max_shard_size}. "
            "Omit it to write one file."
        )
    else:
        sharded.write(path, tree, max_shard_size, write)


def _open(path: Path) -> Any:
    """Load one file according to its suffix, which must match its content."""
    kind = kind_of(path)
    expected = (TORCH_ZIP, LEGACY) if path.suffix in _TORCH else (SAFETENSORS,)
    if kind not in expected:
        raise ValueError(
            f"the content does not match the suffix {path.suffix!r}; expected {' or '.join(expected)}, got "
            f"{_content(path)}"
        )
    if kind == SAFETENSORS:
        return safetensors_format.read(path)
    return torch_zip.read(path) if kind == TORCH_ZIP else torch_legacy.read(path)


def _content(path: Path) -> str:
    """Return what a file contains, and what to do about its suffix."""
    kind = describe(path)
    other = {SAFETENSORS: ".safetensors", TORCH_ZIP: ".pt", LEGACY: ".pt"}.get(kind)
    advice = f" Rename it to {other}." if other else ""
    return f"{kind or 'an unknown format. The file may be truncated or damaged'}.{advice}"


def _require_known(path: Path, what: str) -> None:
    if path.suffix not in _FORMATS:
        is_read = what == "load" and path.is_file()
        raise ValueError(
            f"weights.{what}: {path.name!r} has a suffix that is not supported; expected {' or '.join(_FORMATS)}, "
            f"got {path.suffix!r}{f' and {_content(path)}' if is_read else '. Rename or convert the file.'}"
        )
