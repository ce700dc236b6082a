"""The fixed list of names that a torch file may use, and the object that each name makes. A name is never imported from
the module that a file gives. Other names become a `Placeholder`, or are refused.
"""

import builtins
import re
from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from funcnet.weights.errors import UnsafeFileError, shown
from funcnet.weights.plain_data import Placeholder
from funcnet.weights.storages import DTYPES, STORAGE_DTYPES, UNTYPED, Storage

__all__ = ["Maker", "StorageType", "admitted", "external_in_text", "require_key"]

# Modules and names that run code. A file that uses them is refused, even if it has weights too.
_HARMFUL_MODULES = (
    *("os", "posix", "nt", "sys", "subprocess", "importlib", "runpy", "code", "ctypes", "pickle", "_pickle", "marshal"),
    *("shutil", "socket", "pty", "webbrowser", "torch.hub"),
)
_HARMFUL = (
    *("types.FunctionType", "types.CodeType", "torch.load", "torch.serialization.load"),
    "torch.storage._load_from_bytes",
)
# Functions of builtins that run no code of the file. getattr is in pickles of methods.
_HARMLESS = frozenset({
    *("abs", "all", "any", "ascii", "bin", "callable", "chr", "divmod", "format", "getattr", "hash", "hex", "id"),
    *("isinstance", "issubclass", "iter", "len", "max", "min", "next", "oct", "ord", "pow", "print", "repr", "round"),
    *("sorted", "sum"),
})  # fmt: skip
# In protocol 0, the tuple of a storage, with or without the view None, and that of the class of a module, are text.
_STORAGE = re.compile(rb"\('storage', <class '([\w.]+)'>, '(\w+)', '[\w:]+', (\d{1,19})(?:, None)?\)")
_MODULE = re.compile(rb"\('module', <class '([\w.]+)'>, .*\)")
_KEYS = (str, int, float, complex, bool, type(None), bytes)


@dataclass(frozen=True)
class Maker:
    """A function or class that a pickle may call to make plain data. If `make` is None, the pickle may contain the name
    but must not call it.
    """

    name: str
    make: Callable[..., Any] | None = None


@dataclass(frozen=True)
class StorageType:
    """A class of torch for storages, such as `torch.FloatStorage`, and the dtype of its elements."""

    dtype: np.dtype


def admitted(module: str, name: str) -> Any:
    """Return the entry for a name in the list of admitted names: a `Maker`, a `StorageType` or a numpy dtype. For any
    other name, return a `Placeholder`.

    Raises:
        UnsafeFileError: if the name is one of a function that runs code, such as `os.system`, or of tensors that numpy
            does not support.
    """
    full = f"{'builtins' if module == '__builtin__' else module}.{name}"
    if full in _MAKERS:
        return _MAKERS[full]
    if module == "torch" and name in DTYPES:
        return DTYPES[name]
    if module in ("torch", "torch.cuda", "torch.storage") and name in STORAGE_DTYPES:
        return StorageType(STORAGE_DTYPES[name])
    if module == "torch.storage" and name == UNTYPED:
        return StorageType(np.dtype(np.uint8))
    expected = "expected only names for tensors, numbers, strings, lists and dicts"
    refusal = f"the name {full[:120]!r} is not allowed; {expected}, got {_reason(full)}"
    if _is_harmful(full) or any(full.startswith(start) for start in _TENSORS):
        raise UnsafeFileError(refusal)
    return Placeholder(full, refusal)


def external_in_text(line: bytes) -> tuple[Any, ...] | None:
    """Return the tuple that a line of protocol 0 describes: ('storage', class, key, device, count) or ('module', class,
    file, source). Return None if the line describes something else.

    Raises:
        UnsafeFileError: as `admitted`.
    """
    if found := _STORAGE.fullmatch(line):
        kind, key, count = (part.decode() for part in found.groups())
        return "storage", _class(kind), key, "cpu", int(count)
    found = _MODULE.fullmatch(line)
    return None if found is None else ("module", _class(found[1].decode()), None, None)


def _class(full: str) -> Any:
    module, _, name = full.rpartition(".")
    return admitted(module, name)


def require_key(key: object) -> Any:
    """Return a key of a dict or set, after checking that its type is allowed in plain data. Nested tuples are refused,
    because hashing them could take forever.

    Raises:
        ValueError: if the type of the key is not allowed.
    """
    for part in key if type(key) is tuple else (key,):
        if type(part) not in _KEYS and not isinstance(part, np.dtype | Placeholder):
            raise ValueError(
                f"a dict or set has a key of type {type(key).__name__}; expected a string, a number, a dtype or a "
                "tuple of these"
            )
    return key


def _is_harmful(full: str) -> bool:
    """Return whether a name, such as "os.system", suggests that the file wants to run code."""
    module, _, name = full.rpartition(".")
    if module == "builtins":
        found = getattr(builtins, name, None)
        return callable(found) and not isinstance(found, type) and name not in _HARMLESS
    return full in _HARMFUL or f"{module}.".startswith(tuple(f"{bad}." for bad in _HARMFUL_MODULES))


def _reason(full: str) -> str:
    for start, reason in (_TENSORS | _OTHERS).items():
        if full.startswith(start):
            return reason
    return (
        "a function or a class. If the file contains a pickled module, open it in torch and save its state_dict() "
        "instead, but only if you trust its author"
    )


def _tensor(storage: object, offset: Any, size: Any, stride: Any, *rest: object) -> np.ndarray:
    """Make the tensor that a call of `_rebuild_tensor` or `_rebuild_tensor_v2` describes. For `_rebuild_tensor`, `rest`
    is empty. For `_rebuild_tensor_v2`, it is (requires_grad, hooks) or (requires_grad, hooks, metadata).
    """
    metadata = rest[2] if len(rest) == 3 else None
    return _flagged(_storage(storage), _storage(storage).tensor(offset, size, stride), metadata)


def _tensor_v3(
    storage: object,
    offset: Any,
    size: Any,
    stride: Any,
    _grad: object,
    _hooks: object,
    dtype: object,
    metadata: object = None,
) -> np.ndarray:
    if not isinstance(dtype, np.dtype):
        raise ValueError(f"a tensor has the dtype {shown(dtype)}; expected a torch dtype")
    return _flagged(_storage(storage), _storage(storage).tensor(offset, size, stride, dtype), metadata)


def _storage(storage: object) -> Storage:
    if not isinstance(storage, Storage):
        raise ValueError(f"a tensor has no storage; expected a storage, got {type(storage).__name__}")
    return storage


def _flagged(storage: Storage, array: np.ndarray, metadata: object) -> np.ndarray:
    """Conjugate and negate a tensor according to its metadata, because torch stores both operations as flags."""
    flags = metadata or {}
    if not isinstance(flags, dict) or not flags.keys() <= {"conj", "neg"}:
        raise ValueError(f"a tensor has unknown metadata; expected at most conj and neg, got {shown(metadata)}")
    turns = [turn for flag, turn in (("conj", np.conjugate), ("neg", np.negative)) if flags.get(flag)]
    if turns:
        storage.store.charge(array.nbytes)
        array = np.array(array)
    for turn in turns:
        turn(array, out=array)
    return array


def _same_array(array: Any, *_rest: object) -> np.ndarray:
    if not isinstance(array, np.ndarray):
        raise ValueError(f"a parameter contains no tensor; expected a tensor, got {type(array).__name__}")
    return array


def _from_type(make: object, _type: object, args: Any, _state: object) -> np.ndarray:
    """Make a tensor that torch saved together with its Python attributes. The attributes are left out."""
    if not isinstance(make, Maker) or make not in _REBUILD.values() or not isinstance(args, tuple):
        raise UnsafeFileError(
            f"_rebuild_from_type_v2 may not call {shown(make)}; expected an allowed function that makes tensors"
        )
    assert make.make is not None
    return make.make(*args)


def _on_other_device(array: Any, dtype: object, _device: object, _grad: object) -> np.ndarray:
    if not isinstance(dtype, np.dtype) or _same_array(array).dtype != dtype:
        got = dtype if isinstance(dtype, np.dtype) else shown(dtype)
        raise ValueError(f"a tensor from another device has the dtype {got}; expected {array.dtype}, as on the CPU")
    return array


def _pairs(given: object) -> Any:
    for pair in given if isinstance(given, list) else ():
        if not isinstance(pair, list | tuple) or len(pair) != 2:
            break
        require_key(pair[0])
    else:
        if isinstance(given, list):
            return given
    raise ValueError(f"an OrderedDict has invalid content; expected a list of pairs, got {type(given).__name__}")


def _of(kind: Callable[..., Any], *allowed: type) -> Callable[..., Any]:
    """Return a function that calls `kind` with no argument, or with one argument whose type is in `allowed`."""

    def make(*args: Any) -> Any:
        if len(args) > 1 or (args and type(args[0]) not in allowed):
            got = ", ".join(type(arg).__name__ for arg in args)
            raise ValueError(
                f"{kind.__name__} was called with invalid arguments; expected "
                f"{' or '.join(t.__name__ for t in allowed)}, got ({got})"
            )
        return kind(*args)

    return make


def _hashed(kind: type) -> Callable[..., Any]:
    return lambda items=(): kind(require_key(item) for item in _of(list, list, tuple)(items))


def _encode(text: object, encoding: object = "latin1") -> bytes:
    """Return a bytes object, which pickle protocol 2 stores as a Latin-1 string."""
    if type(text) is not str or type(encoding) is not str or encoding not in ("latin1", "latin-1"):
        raise ValueError(
            f"_codecs.encode was called with invalid arguments; expected a string and 'latin1', got {shown(text)} and "
            f"{shown(encoding)}"
        )
    return text.encode("latin1")


def _bytearray(*args: Any) -> bytearray:
    return bytearray(_encode(*args)) if len(args) == 2 else _of(bytearray, bytes)(*args)


def _complex(*parts: Any) -> complex:
    if len(parts) > 2 or not all(type(part) in (int, float) for part in parts):
        raise ValueError("complex was called with invalid arguments; expected two numbers")
    return complex(*parts)


def _device(kind: object, index: object = None) -> str:
    if type(kind) is not str or type(index) not in (int, type(None)):
        raise ValueError("torch.device was called with invalid arguments; expected a string and a number")
    return kind if index is None else f"{kind}:{index}"


_REBUILD = {
    f"torch._utils.{maker.name}": maker
    for maker in (
        Maker("_rebuild_tensor", _tensor),
        Maker("_rebuild_tensor_v2", _tensor),
        Maker("_rebuild_tensor_v3", _tensor_v3),
        Maker("_rebuild_parameter", _same_array),
        Maker("_rebuild_parameter_with_state", _same_array),
        Maker("_rebuild_device_tensor_from_cpu_tensor", _on_other_device),
    )
}
_MAKERS = _REBUILD | {
    "torch._tensor._rebuild_from_type_v2": Maker("_rebuild_from_type_v2", _from_type),
    "torch._tensor.Tensor": Maker("Tensor"),
    "torch.Tensor": Maker("Tensor"),
    "torch.nn.parameter.Parameter": Maker("Parameter"),
    "torch.Size": Maker("Size", _of(tuple, tuple, list)),
    "torch.device": Maker("device", _device),
    "collections.OrderedDict": Maker("OrderedDict", lambda given=(): OrderedDict(_pairs(given or []))),
    "collections.Counter": Maker("Counter", _of(Counter, dict)),
    "builtins.set": Maker("set", _hashed(set)),
    "builtins.frozenset": Maker("frozenset", _hashed(frozenset)),
    "builtins.bytes": Maker("bytes", _of(bytes)),
    "builtins.bytearray": Maker("bytearray", _bytearray),
    "builtins.complex": Maker("complex", _complex),
    "_codecs.encode": Maker("encode", _encode),
}
_TENSORS = {  # prefixes of names of tensors without an equivalent in numpy; the longer one of two is first
    "torch._utils._rebuild_sparse": "a sparse tensor, which numpy does not support. Save x.to_dense() instead",
    "torch._utils._rebuild_qtensor": "a quantized tensor, which numpy does not support. Save x.dequantize() or "
    "x.int_repr() instead",
    "torch._utils._rebuild_nested": "a nested tensor, which numpy does not support. Save x.to_padded_tensor(0.0) or "
    "the parts of x instead",
    "torch._utils._rebuild_meta": "a tensor on the meta device, which has no values. Save a tensor with values instead",
    "torch._utils._rebuild_wrapper": "a tensor subclass without its own values. Save the wrapped tensor instead",
    "torch._utils._rebuild_device_tensor_from_numpy": "a tensor inside a numpy pickle. Save x.cpu() instead",
    "torch._utils._rebuild_xla": "a tensor inside a numpy pickle. Save x.cpu() instead",
    "torch.Q": "a quantized storage, which numpy does not support. Save x.dequantize() or x.int_repr() instead",
    "torch.complex32": (
        _COMPLEX := "half-precision complex numbers, which numpy does not support. Save x.to(torch.complex64) instead"
    ),
    "torch.ComplexHalf": _COMPLEX,
    "torch.distributed": "a distributed tensor. Save its full_tensor() instead",
    "torch.jit": "a TorchScript object. Save its state_dict() instead",
}
_OTHERS = {"numpy": "a pickled numpy object. Save it as a tensor or as a Python number instead"}
