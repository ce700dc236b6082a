"""Read pickles that contain only plain data.

Python's own unpickler imports any name and calls the object that it finds. This reader interprets the opcodes itself. A
name is looked up in the list of `admitted_names.py`, and only functions of that list are called. A `Placeholder` takes
the place of an object of another class, and is left out of the result. All other opcodes that make, call or import
objects are refused. All protocols (0 to 5) are supported. The memory is bounded by the length of the file, because
lengths are checked against the remaining bytes, copies are counted, and shared parts are counted once per occurrence.
"""

import codecs
import mmap
import pickle
import struct
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from funcnet.weights.admitted_names import Maker, StorageType, admitted, external_in_text, require_key
from funcnet.weights.errors import UnsafeFileError, shown
from funcnet.weights.plain_data import Omission, Placeholder, plain_data
from funcnet.weights.storages import Store

__all__ = ["Unpickler"]

_MAX_LINE, _MAX_INT = 65_536, 256  # largest sizes in bytes of a line of text, which protocol 0 uses, and of an integer
_SPARE = 100_000  # nodes and copied items that are always allowed
_SHARED, _COPIED = 100, 4  # additional nodes and copied items that are allowed per byte of the pickle


class _Stop(Exception):
    """Raised at the end of the pickle, with the result as its argument."""


class Unpickler:
    """Reads the pickle that begins at byte `start` of `data`. After `load`, `end` is the position after the pickle, and
    `omitted` lists the objects that are left out.
    """

    def __init__(self, data: bytes | mmap.mmap, start: int = 0, store: Store | None = None):
        self._data, self._start, self.end, self._store = data, start, start, store
        self._stack: list[Any] = []
        self._below: list[list[Any]] = []  # the stacks before each mark
        self._memo: dict[int, Any] = {}
        self._copied = 0
        self._at = start  # of the current opcode
        self._placeholders: list[Placeholder] = []
        self.omitted: list[Omission] = []

    def load(self) -> Any:
        """Return the tree: None, numbers, strings, bytes, numpy arrays, dtypes, and lists, tuples, dicts and sets.

        Objects of other classes are left out if the tree has arrays; see `plain_data`.

        Raises:
            UnsafeFileError: if the pickle would run code, or contains objects of other classes but no array.
            ValueError: if the pickle is damaged, is nested too deeply, or needs too much memory for its length.
        """
        try:
            while True:
                self._at = self.end
                code = self._take(1)[0]
                if code in _REFUSED:
                    raise UnsafeFileError(f"the opcode {_REFUSED[code]}; expected plain data")
                if code not in _OPERATIONS:
                    raise ValueError(f"unknown opcode {code:#x}; expected an opcode of pickle protocols 0 to 5")
                _OPERATIONS[code](self)
        except _Stop as stop:
            (value,) = stop.args
        except UnsafeFileError as error:
            raise UnsafeFileError(self._refused(error)) from None
        except (ValueError, TypeError, IndexError, KeyError, OverflowError, struct.error) as error:
            raise ValueError(f"the pickle is invalid at byte {self._at - self._start}: {error}") from None
        tree, omitted = plain_data(value, self._placeholders, _SPARE + _SHARED * (self.end - self._start))
        self.omitted += omitted
        return tree

    def _refused(self, text: object) -> str:
        return f"the pickle is refused at byte {self._at - self._start}: {text}"

    # Helpers of the opcodes

    def _take(self, count: int) -> bytes:
        if count > len(self._data) - self.end:
            raise ValueError(f"the file is truncated; expected {count} more bytes, got {len(self._data) - self.end}")
        self.end += count
        return self._data[self.end - count : self.end]

    def _number(self, form: str) -> int:
        return struct.unpack(form, self._take(struct.calcsize(form)))[0]

    def _line(self) -> bytes:
        stop = self._data.find(b"\n", self.end, self.end + _MAX_LINE)
        if stop < 0:
            raise ValueError(
                f"the file is truncated, or a line is too long; expected a line end within {_MAX_LINE} bytes, got none"
            )
        return self._take(stop + 1 - self.end)[:-1]

    def _push(self, value: object) -> None:
        self._stack.append(value)

    def _pop(self) -> Any:
        if not self._stack:
            raise ValueError("the stack is empty; expected a value on it")
        return self._stack.pop()

    def _top(self, kind: type = object) -> Any:
        if not self._stack:
            raise ValueError("the stack is empty; expected a value on it")
        if self._drops() and kind is not object:
            return kind()
        if not isinstance(self._stack[-1], kind):
            got = type(self._stack[-1]).__name__
            raise ValueError(f"items are added to the wrong type; expected a {kind.__name__}, got a {got}")
        return self._stack[-1]

    def _drops(self) -> bool:  # what is added to an object that is not made
        return isinstance(self._stack[-1], Placeholder)

    def _mark(self) -> None:
        self._below.append(self._stack)
        self._stack = []

    def _since_mark(self) -> list[Any]:
        if not self._below:
            raise ValueError("there is no mark on the stack; expected a mark before this opcode")
        items, self._stack = self._stack, self._below.pop()
        return items

    def _last(self, count: int) -> tuple:
        return tuple([self._pop() for _ in range(count)][::-1])

    def _remember(self, key: int) -> None:
        if not 0 <= key <= len(self._data):
            raise ValueError(f"a memo index is out of range; expected 0 to {len(self._data)}, got {key}")
        self._memo[key] = self._top()

    def _recall(self, key: int) -> None:
        if key not in self._memo:
            raise ValueError(f"the memo has no value {key}; expected an index that was stored before")
        self._push(self._memo[key])

    def _append(self) -> None:
        item = self._pop()
        self._top(list).append(item)

    def _append_all(self) -> None:
        items = self._since_mark()
        self._top(list).extend(items)

    def _add_all(self) -> None:
        items = self._since_mark()
        self._top(set).update(() if self._drops() else map(require_key, items))

    def _dict(self) -> None:
        items = self._since_mark()
        self._push({})
        self._set_items(items)

    def _set_items(self, items: list[Any]) -> None:
        target = self._top(dict)
        if len(items) % 2:
            raise ValueError("a dict has a key without a value; expected pairs of keys and values")
        for key, value in () if self._drops() else zip(items[::2], items[1::2], strict=True):
            target[require_key(key)] = value

    def _integer(self, size: int) -> None:
        if size > _MAX_INT:
            raise ValueError(f"an integer has {size} bytes; expected at most {_MAX_INT}")
        self._push(int.from_bytes(self._take(size), "little", signed=True))

    def _text(self, form: str) -> None:
        self._push(self._take(self._number(form)).decode("utf-8", "surrogatepass"))

    def _protocol(self) -> None:
        if (protocol := self._number("B")) > 5:
            raise ValueError(f"the pickle has an unknown protocol; expected at most 5, got {protocol}")

    def _frame(self) -> None:
        if (size := self._number("<Q")) > len(self._data) - self.end:
            raise ValueError(
                f"the file is truncated; expected a frame of {size} bytes, got {len(self._data) - self.end}"
            )

    def _stop(self) -> None:
        raise _Stop(self._pop())

    def _drop(self) -> None:
        if self._stack:
            self._stack.pop()
        else:
            self._since_mark()

    def _decimal(self) -> None:
        """Push the value of the opcode INT, a line of text: an integer in digits, or a bool as 00 or 01."""
        line = self._line()
        self._push({b"00": False, b"01": True}[line] if line in (b"00", b"01") else self._digits(line))

    def _digits(self, line: bytes) -> int:
        if len(line) > 2 * _MAX_INT:
            raise ValueError(f"an integer has {len(line)} digits; expected at most {2 * _MAX_INT}")
        return int(line.removesuffix(b"L"))

    def _quoted(self) -> None:
        """Push the value of the opcode STRING, a line of text with a Python 2 string in quotes."""
        line = self._line()
        if len(line) < 2 or line[:1] != line[-1:] or line[:1] not in b"'\"":
            raise ValueError("a string has no quotes; expected a string in quotes")
        self._push(codecs.escape_decode(line[1:-1])[0].decode())  # type: ignore[attr-defined]  # pickle does the same

    # Names, calls, storages

    def _name(self) -> None:
        module, name = self._line().decode(), self._line().decode()
        self._push(self._admitted(module, name))

    def _stacked_name(self) -> None:
        module, name = self._last(2)
        if type(module) is not str or type(name) is not str:
            raise ValueError(
                f"a name is not a string; expected two strings, got {type(module).__name__} and {type(name).__name__}"
            )
        self._push(self._admitted(module, name))

    def _admitted(self, module: str, name: str) -> Any:
        found = admitted(module, name)
        if isinstance(found, Placeholder):
            found = Placeholder(found.name, self._refused(found.refusal))
            self._placeholders.append(found)
        return found

    def _instance(self) -> None:
        module, name = self._line(), self._line()
        try:
            kind = self._admitted(module.decode(), name.decode())
        except UnsafeFileError:
            kind = None
        self._since_mark()
        self._object("INST", kind, repr(module + b"." + name)[:120])

    def _object(self, code: str, kind: object, what: str = "a class") -> None:
        """Push the object that an opcode would make of the class `kind`."""
        if not isinstance(kind, Placeholder):
            raise UnsafeFileError(f"the opcode {code} would make an instance of {what}; expected plain data")
        self._push(kind)

    def _call(self) -> None:
        called, args = self._last(2)
        if isinstance(called, Placeholder):
            return self._push(called.called(args))
        if not isinstance(called, Maker) or called.make is None:
            name = called.name if isinstance(called, Maker) else type(called).__name__
            raise UnsafeFileError(f"calling {name!r} is not allowed; expected plain data")
        if type(args) is not tuple:
            raise ValueError(
                f"the arguments of {called.name} have the wrong type; expected a tuple, got {type(args).__name__}"
            )
        self._copied += len(args) + sum(len(arg) for arg in args if isinstance(arg, str | bytes | list | tuple | dict))
        if self._copied > _SPARE + _COPIED * (self.end - self._start):
            most = _SPARE + _COPIED * (self.end - self._start)
            raise ValueError(f"too many items or bytes are copied; expected at most {most}, got {self._copied}")
        unmade = [arg for arg in args if isinstance(arg, Placeholder)]
        try:
            self._push(called.make(*args))
        except TypeError:
            raise ValueError(f"the {len(args)} arguments of {called.name} do not match its signature") from None
        except ValueError:
            if not unmade:
                raise
            raise UnsafeFileError(unmade[0].refusal) from None  # such as an unknown dtype of a tensor
        self.omitted += [Omission(f"an argument of {called.name}", arg.name) for arg in unmade]
        return None

    def _build(self) -> None:
        """Set the attribute `_metadata` of an OrderedDict, which torch saves for a state_dict."""
        target, attributes = self._last(2)
        if isinstance(target, Placeholder):
            return self._push(target)
        if type(target) is not OrderedDict or type(attributes) is not dict or attributes.keys() != {"_metadata"}:
            name = target.name if isinstance(target, Maker) else type(target).__name__
            raise UnsafeFileError(
                f"setting attributes of a {name} is not allowed; expected only _metadata of an OrderedDict"
            )
        target._metadata = attributes["_metadata"]  # type: ignore[attr-defined]
        return self._push(target)

    def _persistent_text(self) -> None:
        asked = external_in_text(self._line())
        if asked is None:
            raise UnsafeFileError("the opcode PERSID requires an external object; expected plain data")
        self._external(asked)

    def _external(self, asked: Any) -> None:
        """Push the storage that the tuple ('storage', class, key, device, count[, view]) describes.

        Only files in the format before torch 1.6 have a `view`, which selects a part of the storage. They also have
        tuples ('module', class, file, source) for the class of a pickled module.
        """
        what = asked[0] if type(asked) is tuple and len(asked) in (4, 5, 6) else None
        if type(what) is str and what == "module" and isinstance(asked[1], Placeholder):
            self._placeholders.append(asked[1])
            return self._push(asked[1])
        if type(what) not in (str, bytes) or what not in ("storage", b"storage") or len(asked) == 4:
            raise UnsafeFileError(
                f"the only external objects that are allowed are storages; expected a storage, got {shown(asked)}"
            )
        _, kind, key, _, count, *view = asked
        if not isinstance(kind, StorageType) or type(key) is not str or type(count) is not int or count < 0:
            raise ValueError(
                f"a storage is invalid; expected ('storage', class, key, device, count), got {shown(asked)}"
            )
        if self._store is None:
            raise ValueError("a storage is not allowed in this pickle; expected a number, a string, a list or a dict")
        storage = self._store.storage(key, kind.dtype, count)
        return self._push(storage if not view or view[0] is None else storage.part(view[0]))


def _operation(name: str) -> int:
    return getattr(pickle, name)[0]


_OPERATIONS: dict[int, Callable[[Unpickler], Any]] = {
    _operation(name): does
    for name, does in {
        "PROTO": Unpickler._protocol,
        "FRAME": Unpickler._frame,
        "STOP": Unpickler._stop,
        "MARK": Unpickler._mark,
        "POP": Unpickler._drop,
        "POP_MARK": Unpickler._since_mark,
        "DUP": lambda self: self._push(self._top()),
        "NONE": lambda self: self._push(None),
        "NEWTRUE": lambda self: self._push(True),
        "NEWFALSE": lambda self: self._push(False),
        "INT": Unpickler._decimal,
        "LONG": lambda self: self._push(self._digits(self._line())),
        "BININT": lambda self: self._push(self._number("<i")),
        "BININT1": lambda self: self._push(self._number("B")),
        "BININT2": lambda self: self._push(self._number("<H")),
        "LONG1": lambda self: self._integer(self._number("B")),
        "LONG4": lambda self: self._integer(self._number("<I")),
        "FLOAT": lambda self: self._push(float(self._line())),
        "BINFLOAT": lambda self: self._push(self._number(">d")),
        "STRING": Unpickler._quoted,
        "BINSTRING": lambda self: self._text("<I"),
        "SHORT_BINSTRING": lambda self: self._text("B"),
        "UNICODE": lambda self: self._push(self._line().decode("raw-unicode-escape")),
        "BINUNICODE": lambda self: self._text("<I"),
        "SHORT_BINUNICODE": lambda self: self._text("B"),
        "BINUNICODE8": lambda self: self._text("<Q"),
        "BINBYTES": lambda self: self._push(self._take(self._number("<I"))),
        "SHORT_BINBYTES": lambda self: self._push(self._take(self._number("B"))),
        "BINBYTES8": lambda self: self._push(self._take(self._number("<Q"))),
        "BYTEARRAY8": lambda self: self._push(bytearray(self._take(self._number("<Q")))),
        "EMPTY_TUPLE": lambda self: self._push(()),
        "EMPTY_LIST": lambda self: self._push([]),
        "EMPTY_DICT": lambda self: self._push({}),
        "EMPTY_SET": lambda self: self._push(set()),
        "TUPLE": lambda self: self._push(tuple(self._since_mark())),
        "TUPLE1": lambda self: self._push(self._last(1)),
        "TUPLE2": lambda self: self._push(self._last(2)),
        "TUPLE3": lambda self: self._push(self._last(3)),
        "LIST": lambda self: self._push(self._since_mark()),
        "DICT": Unpickler._dict,
        "FROZENSET": lambda self: self._push(frozenset(map(require_key, self._since_mark()))),
        "APPEND": Unpickler._append,
        "APPENDS": Unpickler._append_all,
        "SETITEM": lambda self: self._set_items(list(self._last(2))),
        "SETITEMS": lambda self: self._set_items(self._since_mark()),
        "ADDITEMS": Unpickler._add_all,
        "PUT": lambda self: self._remember(self._digits(self._line())),
        "BINPUT": lambda self: self._remember(self._number("B")),
        "LONG_BINPUT": lambda self: self._remember(self._number("<I")),
        "MEMOIZE": lambda self: self._remember(len(self._memo)),
        "GET": lambda self: self._recall(self._digits(self._line())),
        "BINGET": lambda self: self._recall(self._number("B")),
        "LONG_BINGET": lambda self: self._recall(self._number("<I")),
        "GLOBAL": Unpickler._name,
        "STACK_GLOBAL": Unpickler._stacked_name,
        "INST": Unpickler._instance,
        "OBJ": lambda self: self._object("OBJ", (self._since_mark() or [None])[0]),
        "NEWOBJ": lambda self: self._object("NEWOBJ", self._last(2)[0]),
        "NEWOBJ_EX": lambda self: self._object("NEWOBJ_EX", self._last(3)[0]),
        "REDUCE": Unpickler._call,
        "BUILD": Unpickler._build,
        "PERSID": Unpickler._persistent_text,
        "BINPERSID": lambda self: self._external(self._pop()),
    }.items()
}
_REFUSED = {
    _operation(name): f"{name} {does}"
    for name, does in {
        "EXT1": "requires a registered extension",
        "EXT2": "requires a registered extension",
        "EXT4": "requires a registered extension",
        "NEXT_BUFFER": "requires an external buffer",
        "READONLY_BUFFER": "requires an external buffer",
    }.items()
}
