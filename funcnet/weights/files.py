"""`load` and `save`: the suffix of a file's name selects its format."""

from pathlib import Path
from typing import Any

from funcnet.weights import safetensors_format, sharded, torch_legacy, torch_zip
from funcnet.weights.errors import UnsafeFileError
from funcnet.weights.kinds import LEGACY, SAFETENSORS, TORCH_ZIP, kind_of
from funcnet.weights.tensorflow_checkpoint import INDEX, TensorFlowCheckpoint

__all__ = ["load", "save"]

_TORCH = (".pt", ".pth", ".bin")
_FORMATS = (".safetensors", *_TORCH)
_INDEX = ".index.json"


def load(path: str | Path) -> Any:
    """The content of a weights file, read lazily. Neither torch nor any code in the file is run.

    Args:
        path: a `.safetensors` file; a `.pt`, `.pth` or `.bin` file of `torch.save`, in its zip format or the one before
            1.6; the `.index.json` of several such files; a TensorFlow checkpoint (`bert_model.ckpt`, or its `.index`);
            or a directory that holds one of these under Hugging Face's or Google's name (`model.safetensors`,
            `pytorch_model.bin`, `bert_model.ckpt.index`).

    Returns:
        {name: numpy array} in the file's order; for a torch file its whole content: dicts (a state_dict's `_metadata`
        is kept), lists, tuples, numbers, texts, numpy arrays (parameters too), dtypes as numpy's, sizes as tuples,
        devices as texts. For a TensorFlow checkpoint a mapping that checks an array's checksum when it is looked up.
        bfloat16 and float8 come from `ml_dtypes`. Arrays are read-only views of the mapped file, with
        its strides and shared storages; an array is read from the disk when it is used, without a copy. As long as one
        is alive, replace the file (as `save` does) and do not write into it.

    Raises:
        FileNotFoundError: there is no such file.
        UnsafeFileError: a file that asks for more than plain data: to call or import something, a pickled module, a
            sparse or quantized tensor. The message says what; nothing of it was done.
        ValueError: another suffix, a file whose content is not what its suffix says, or that is broken or cut short.

    Differs from torch:
        `torch.load(weights_only=True)` needs torch and reads everything. Attributes of tensors are left out.

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
        raise FileNotFoundError(f"weights.load: {path} does not exist; expected a file.")
    try:
        if is_tensorflow:
            return TensorFlowCheckpoint(path)
        return sharded.read(path, _open) if is_index else _open(path)
    except UnsafeFileError as error:
        raise UnsafeFileError(f"weights.load: {path}: {error}") from None
    except ValueError as error:
        raise ValueError(f"weights.load: {path}: {error}") from None


def save(path: str | Path, tree: Any, *, max_shard_size: int | None = None) -> None:
    """Writes arrays to a file that torch and Hugging Face open; the file is written completely or not at all.

    Args:
        path: ends in `.safetensors`, `.pt`, `.pth` or `.bin`; its directory exists. An existing file is replaced.
        tree: {name: array} of numpy or JAX arrays, flat with dotted names (as `state_dict` gives it) or nested: a
            `.safetensors` file is flat, with dotted names. A torch file takes any tree of dicts, lists, tuples,
            numbers, texts and arrays, as it is; `torch.load(weights_only=True)` opens it. Dicts with an attribute
            `_metadata` keep it, and an array that occurs twice is one storage.
        max_shard_size: in bytes. Larger trees are written as `<stem>-00001-of-0000N<suffix>` and so on, by dotted
            names, with `<path>.index.json` beside them, and `path` itself is removed.

    Raises:
        ValueError: another suffix; two leaves of one dotted name; a dtype that the format does not know; a tree that
            holds itself; a `max_shard_size` that is not above 0.
        TypeError: a leaf that is not an array, or, in a torch file, not plain data.
        OSError: the disk is full or cannot be written; the old file stays.

    Example: that of `load`.

    Reference: https://huggingface.co/docs/safetensors; torch.save
    """
    path = Path(path)
    _require_known(path, "save")
    write = torch_zip.write if path.suffix in _TORCH else safetensors_format.write
    if max_shard_size is None:
        write(path, tree)
    elif max_shard_size <= 0:
        raise ValueError(
            f"weights.save: max_shard_size has to be above 0; expected bytes, got {max_shard_size}. Leave it out for "
            "one file."
        )
    else:
        sharded.write(path, tree, max_shard_size, write)


def _open(path: Path) -> Any:
    """One file, by its suffix, which must agree with its content."""
    kind = kind_of(path)
    expected = (TORCH_ZIP, LEGACY) if path.suffix in _TORCH else (SAFETENSORS,)
    if kind not in expected:
        other = {SAFETENSORS: ".safetensors", TORCH_ZIP: ".pt", LEGACY: ".pt"}.get(kind)
        advice = f" Rename it to {other}." if other else ""
        raise ValueError(
            f"it is not what {path.suffix!r} says; expected {' or '.join(expected)}, got "
            f"{kind or 'bytes of no known kind: it may be cut short or broken'}.{advice}"
        )
    if kind == SAFETENSORS:
        return safetensors_format.read(path)
    return torch_zip.read(path) if kind == TORCH_ZIP else torch_legacy.read(path)


def _require_known(path: Path, what: str) -> None:
    if path.suffix not in _FORMATS:
        raise ValueError(
            f"weights.{what}: {path.name!r} has a suffix that is not supported; expected {' or '.join(_FORMATS)}, "
            f"got {path.suffix!r}. Rename or convert the file."
        )
