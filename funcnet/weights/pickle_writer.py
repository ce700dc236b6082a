"""Write the pickles of torch's files without torch: plain data in protocol 2, with arrays as tensors."""

import struct
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from funcnet.tree import PyTree
from funcnet.weights.errors import check_array
from funcnet.weights.storages import DTYPES, STORAGE_DTYPES, UNTYPED

__all__ = ["Pickler"]

_MAX_DEPTH = 200
_NAMES = {dtype: name for name, dtype in DTYPES.items()}
_CLASSES = {dtype: name for name, dtype in STORAGE_DTYPES.items()}
_HOOKS = b"ccollections\nOrderedDict\n)R"


class Pickler:
    """Writes a tree of plain data and arrays as a pickle. The pickle refers to each array of the tree by a number.
    After `dump`, `array(number)` returns the array with this number, from 0 to `storages - 1`.

    An array that occurs twice in the tree has a single number and a single storage, like tied weights in torch.
    """

    def __init__(self) -> None:
        self._arrays: list[Any] = []
        self._numbers: dict[int, int] = {}  # id of an array -> its number; _arrays keeps it alive
        self._out = bytearray()

    @property
    def storages(self) -> int:
        """The number of storages."""
        return len(self._arrays)

    def array(self, number: int) -> np.ndarray:
        """Return the array with number `number`, contiguous and little-endian, as torch stores its values."""
        array = np.asarray(self._arrays[number], order="C")
        return array.astype(array.dtype.newbyteorder("<")) if array.dtype.byteorder == ">" else array

    def dump(self, tree: PyTree) -> bytes:
        """Return the pickle of `tree`.

        Raises:
            TypeError: if the tree contains an object that is neither plain data nor an array.
            ValueError: if torch does not support a dtype, or the tree is too deep or contains itself.
        """
        self._out += b"\x80\x02"
        self._write(tree, "the tree", 0)
        self._out += b"."
        return bytes(self._out)

    def _write(self, value: object, where: str, depth: int) -> None:
        if depth > _MAX_DEPTH:
            raise ValueError(
                f"{where[:120]} is nested deeper than {_MAX_DEPTH} levels, or contains itself; expected a finite tree"
            )
        if isinstance(value, Mapping):
            self._mapping(value, where, depth)
        elif isinstance(value, list | set | tuple):
            self._items(value, where, depth)
        elif isinstance(value, np.ndarray | np.generic | jax.Array):
            self._tensor(value, where)
        elif hasattr(value, "detach"):  # a torch tensor, such as those of optim.to_torch
            self._tensor(value.detach().cpu().numpy(), where)
        else:
            self._plain(value, where)

    def _mapping(self, value: Mapping[Any, Any], where: str, depth: int) -> None:
        metadata = getattr(value, "_metadata", None)
        self._out += _HOOKS if metadata is not None or isinstance(value, OrderedDict) else b"}"
        self._out += b"("
        for key, item in value.items():
            self._key(key, where)
            self._write(item, f"{where}[{key!r}]", depth + 1)
        self._out += b"u"
        if metadata is not None:
            self._out += b"}"
            self._plain("_metadata", where)
            self._write(metadata, f"{where}._metadata", depth + 1)
            self._out += b"sb"

    def _key(self, key: object, where: str) -> None:
        if isinstance(key, tuple):
            self._out += b"("
            for part in key:
                self._plain(part, f"a key of {where}")
            self._out += b"t"
        else:
            self._plain(key, f"a key of {where}")

    def _items(self, value: Any, where: str, depth: int) -> None:
        start, end = b"(", b"t"
        if isinstance(value, list):
            start, end = b"](", b"e"
        elif not isinstance(value, tuple):
            start, end = b"c__builtin__\nset\n](", b"e\x85R"
        self._out += start
        for number, item in enumerate(value):
            self._write(item, f"{where}[{number}]", depth + 1)
        self._out += end

    def _plain(self, value: object, where: str) -> None:
        out = self._out
        if value is None or isinstance(value, bool):
            out += {None: b"N", True: b"\x88", False: b"\x89"}[value]
        elif isinstance(value, int):
            self._integer(value, where)
        elif isinstance(value, float):
            out += struct.pack(">cd", b"G", value)
        elif isinstance(value, complex):
            out += b"c__builtin__\ncomplex\n" + struct.pack(">cdcd", b"G", value.real, b"G", value.imag) + b"\x86R"
        elif isinstance(value, str):
            text = value.encode("utf-8", "surrogatepass")
            out += struct.pack("<cI", b"X", len(text)) + text
        elif isinstance(value, bytes):
            out += b"c_codecs\nencode\n"
            self._plain(value.decode("latin1"), where)
            self._plain("latin1", where)
            out += b"\x86R"
        elif isinstance(value, bytearray):
            out += b"c__builtin__\nbytearray\n"
            self._plain(bytes(value), where)
            out += b"\x85R"
        elif isinstance(value, np.dtype) and value in _NAMES:
            out += f"ctorch\n{_NAMES[value]}\n".encode()
        else:  # also a frozenset, which torch.load(weights_only=True) refuses
            raise TypeError(
                f"{where} is not plain data; expected arrays, numbers, strings, lists, sets and dicts, got "
                f"{type(value).__name__}. Omit or convert this value."
            )

    def _integer(self, value: int, where: str) -> None:
        if -(2**31) <= value < 2**31:
            self._out += struct.pack("<ci", b"J", value)
            return
        size = value.bit_length() // 8 + 1
        if size > 255:
            raise ValueError(f"{where} is an integer of {size} bytes; expected at most 255. Save it as a string.")
        self._out += b"\x8a" + bytes([size]) + value.to_bytes(size, "little", signed=True)

    def _tensor(self, value: Any, where: str) -> None:
        """Write an array as the call `_rebuild_tensor_v2(storage, 0, shape, strides, False, OrderedDict())`.

        For a dtype without a storage class in torch, write `_rebuild_tensor_v3` with the dtype as its last argument.
        """
        check_array(where, value)
        dtype = np.dtype(value.dtype)
        dtype = dtype.newbyteorder("=") if dtype.byteorder == ">" else dtype
        if dtype not in _NAMES:
            known = ", ".join(_NAMES.values())
            raise ValueError(
                f"{where} has a dtype that torch does not support; expected one of {known}, got {dtype}. Cast the "
                "array to one of these dtypes."
            )
        number = self._numbers.setdefault(id(value), len(self._arrays))
        if number == len(self._arrays):
            self._arrays.append(value)
        typed = dtype in _CLASSES
        self._out += f"ctorch._utils\n_rebuild_tensor_v{2 if typed else 3}\n((".encode()
        self._plain("storage", where)
        self._out += f"ctorch\n{_CLASSES[dtype]}\n".encode() if typed else f"ctorch.storage\n{UNTYPED}\n".encode()
        self._plain(str(number), where)
        self._plain("cpu", where)
        self._plain(value.size if typed else value.size * dtype.itemsize, where)
        self._out += b"tQ"
        strides: list[int] = []
        step = 1
        for n in reversed(value.shape):
            strides.insert(0, step)
            step *= max(n, 1)
        for part in (0, tuple(value.shape), tuple(strides)):
            self._write(part, where, 0)
        self._out += b"\x89" + _HOOKS
        if not typed:
            self._plain(dtype, where)
        self._out += b"tR"
