"""The fixed list of names that a torch file may use, and what each makes here. No name is ever imported."""

from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from funcnet.weights.errors import UnsafeFileError, shown
from funcnet.weights.storages import DTYPES, STORAGE_DTYPES, UNTYPED, Storage

__all__ = ["Maker", "StorageType", "admitted", "require_key"]

_KEYS = (str, int, float, complex, bool, type(None), bytes)


@dataclass(frozen=True)
class Maker:
    """A name that may be called: with these arguments it makes plain data. `make` None: it may only be mentioned."""

    name: str
    make: Callable[..., Any] | None = None


@dataclass(frozen=True)
class StorageType:
    """A class of storages: what its elements are."""

    dtype: np.dtype


def admitted(module: str, name: str) -> Any:
    """What the list has for a name: a Maker, a StorageType or a numpy dtype.

    Raises:
        UnsafeFileError: the list has nothing.
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
    expected = "expected tensors, numbers, texts, lists and dicts"
    raise UnsafeFileError(f"it asks for {full[:120]!r}; {expected}, got {_reason(full)}")


def require_key(key: Any) -> Any:
    """The key, if it is one that plain data has: hashing nested ones can take forever.

    Raises:
        ValueError: it is not.
    """
    for part in key if type(key) is tuple else (key,):
        if type(part) not in _KEYS and not isinstance(part, np.dtype):
            raise ValueError(
                f"a dict or set has a key of type {type(key).__name__}; expected text, a number, a dtype or a tuple of "
                "them"
            )
    return key


def _reason(full: str) -> str:
    for start, reason in _REASONS.items():
        if full.startswith(start):
            return reason
    return (
        "something to run or a class. If it is a whole pickled module, open it in torch and save its state_dict() "
        "instead; do not open it where you do not trust its maker"
    )


def _tensor(storage: Any, offset: Any, size: Any, stride: Any, *rest: Any) -> np.ndarray:
    """_rebuild_tensor, and _v2 with more arguments: requires_grad, hooks, metadata."""
    metadata = rest[2] if len(rest) == 3 else None
    return _flagged(_storage(storage), _storage(storage).tensor(offset, size, stride), metadata)


def _tensor_v3(
    storage: Any, offset: Any, size: Any, stride: Any, _grad: Any, _hooks: Any, dtype: Any, metadata: Any = None
) -> np.ndarray:
    if not isinstance(dtype, np.dtype):
        raise ValueError(f"a tensor has the dtype {shown(dtype)}; expected one of torch's")
    return _flagged(_storage(storage), _storage(storage).tensor(offset, size, stride, dtype), metadata)


def _storage(storage: Any) -> Storage:
    if not isinstance(storage, Storage):
        raise ValueError(f"a tensor is made of a {type(storage).__name__}; expected a storage")
    return storage


def _flagged(storage: Storage, array: np.ndarray, metadata: Any) -> np.ndarray:
    """torch keeps conjugation and negation as flags over the stored values; here they are applied."""
    flags = metadata or {}
    if not isinstance(flags, dict) or not flags.keys() <= {"conj", "neg"}:
        raise ValueError(f"a tensor has the metadata {shown(metadata)}; expected conj and neg at most")
    turns = [turn for flag, turn in (("conj", np.conjugate), ("neg", np.negative)) if flags.get(flag)]
    if turns:
        storage.store.charge(array.nbytes)
        array = np.array(array)
    for turn in turns:
        turn(array, out=array)
    return array


def _same_array(array: Any, *_rest: Any) -> np.ndarray:
    if not isinstance(array, np.ndarray):
        raise ValueError(f"a parameter is made of a {type(array).__name__}; expected a tensor")
    return array


def _from_type(make: Any, _type: Any, args: Any, _state: Any) -> np.ndarray:
    """A tensor with Python attributes, which are left out."""
    if not isinstance(make, Maker) or make not in _REBUILD.values() or not isinstance(args, tuple):
        raise UnsafeFileError(
            f"it calls {shown(make)} through _rebuild_from_type_v2; expected a function that makes tensors"
        )
    assert make.make is not None
    return make.make(*args)


def _on_other_device(array: Any, dtype: Any, _device: Any, _grad: Any) -> np.ndarray:
    if not isinstance(dtype, np.dtype) or _same_array(array).dtype != dtype:
        got = dtype if isinstance(dtype, np.dtype) else shown(dtype)
        raise ValueError(f"a tensor of another device has the dtype {got}; expected {array.dtype}, as on the CPU")
    return array


def _pairs(given: Any) -> Any:
    for pair in given if isinstance(given, list) else ():
        if not isinstance(pair, list | tuple) or len(pair) != 2:
            break
        require_key(pair[0])
    else:
        if isinstance(given, list):
            return given
    raise ValueError(f"an OrderedDict is made of {type(given).__name__}; expected a list of pairs")


def _of(kind: Callable[..., Any], *allowed: type) -> Callable[..., Any]:
    """`kind` of one argument, which has one of the types `allowed`, or of none."""

    def make(*args: Any) -> Any:
        if len(args) > 1 or (args and type(args[0]) not in allowed):
            got = ", ".join(type(arg).__name__ for arg in args)
            raise ValueError(
                f"{kind.__name__} is called with ({got}); expected {' or '.join(t.__name__ for t in allowed)}"
            )
        return kind(*args)

    return make


def _hashed(kind: type) -> Callable[..., Any]:
    return lambda items=(): kind(require_key(item) for item in _of(list, list, tuple)(items))


def _encode(text: Any, encoding: Any = "latin1") -> bytes:
    """How protocol 2 writes bytes."""
    if type(text) is not str or type(encoding) is not str or encoding not in ("latin1", "latin-1"):
        raise ValueError(
            f"_codecs.encode is called with {shown(text)} and {shown(encoding)}; expected a text and latin1"
        )
    return text.encode("latin1")


def _bytearray(*args: Any) -> bytearray:
    return bytearray(_encode(*args)) if len(args) == 2 else _of(bytearray, bytes)(*args)


def _complex(*parts: Any) -> complex:
    if len(parts) > 2 or not all(type(part) in (int, float) for part in parts):
        raise ValueError("complex is called with something else; expected two numbers")
    return complex(*parts)


def _device(kind: Any, index: Any = None) -> str:
    if type(kind) is not str or type(index) not in (int, type(None)):
        raise ValueError("torch.device is called with something else; expected a text and a number")
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
_REASONS = {  # the longest first where one begins another
    "torch._utils._rebuild_sparse": "a sparse tensor, which numpy does not have. Save x.to_dense()",
    "torch._utils._rebuild_qtensor": "a quantized tensor, which numpy does not have. Save x.dequantize() or "
    "x.int_repr()",
    "torch._utils._rebuild_nested": "a nested tensor, which numpy does not have. Save x.to_padded_tensor(0.0) or its "
    "parts",
    "torch._utils._rebuild_meta": "a tensor on the meta device, which has no values. Save it with values",
    "torch._utils._rebuild_wrapper": "a tensor subclass without values of its own. Save what it wraps",
    "torch._utils._rebuild_device_tensor_from_numpy": "a tensor inside a numpy pickle. Save x.cpu()",
    "torch._utils._rebuild_xla": "a tensor inside a numpy pickle. Save x.cpu()",
    "torch.Q": "a quantized storage, which numpy does not have. Save x.dequantize() or x.int_repr()",
    "torch.complex32": "complex numbers of two halves, which numpy does not have. Save x.to(torch.complex64)",
    "torch.distributed": "a tensor spread over processes. Save its full_tensor()",
    "torch.jit": "a TorchScript object. Save its state_dict()",
    "numpy": "a numpy object, which has a pickle of its own. Save it as a tensor or as a Python number",
}
