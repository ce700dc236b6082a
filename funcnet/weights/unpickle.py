"""A reader of pickles that can make only plain data.

Python's own unpickler looks up any name and calls what it finds. This one walks the opcodes itself: a name is looked up
in `admitted.py`'s list, a call goes to a function of that list, and every other way to make, call or import is refused
by its name. It takes all protocols (0 to 5), and its memory is bounded by the length of the file: no length is trusted
before the bytes are seen, copies are counted, and shared parts are counted as often as they are shared.
"""

import codecs
import mmap
import pickle
import struct
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np

from funcnet.weights.admitted import Maker, StorageType, admitted, require_key
from funcnet.weights.errors import UnsafeFileError, shown
from funcnet.weights.storages import Store

__all__ = ["Unpickler"]

_MAX_DEPTH = 200
_MAX_LINE, _MAX_INT = 65_536, 256  # bytes of a line of protocol 0, and of an integer
_SPARE = 100_000  # nodes and copies that need no reason
_SHARED, _COPIED = 100, 4  # how often a byte of the pickle may come again: in nodes that are shared, in copies
_LEAVES = (type(None), bool, int, float, complex, str, bytes, bytearray, np.ndarray)
_BRANCHES = (list, tuple, dict, set, frozenset)


class _Stop(Exception):
    """The end of the pickle; carries the result."""


class Unpickler:
    """Reads one pickle of `data` at `start`; `end` is then where it stopped."""

    def __init__(self, data: bytes | mmap.mmap, start: int = 0, store: Store | None = None):
        self._data, self._start, self.end, self._store = data, start, start, store
        self._stack: list[Any] = []
        self._below: list[list[Any]] = []  # the stacks under the marks
        self._memo: dict[int, Any] = {}
        self._copied = 0

    def load(self) -> Any:
        """The tree: None, numbers, texts, bytes, numpy arrays, dtypes, and lists, tuples, dicts and sets of them.

        Raises:
            UnsafeFileError: the pickle wants something that is not in the list.
            ValueError: it is broken, too deep, or too large for its length.
        """
        at = self._start
        try:
            while True:
                at = self.end
                code = self._take(1)[0]
                if code in _REFUSED:
                    raise UnsafeFileError(f"it {_REFUSED[code]}; expected plain data")
                if code not in _OPERATIONS:
                    raise ValueError(f"there is no such opcode as {code:#x}")
                _OPERATIONS[code](self)
        except _Stop as stop:
            (value,) = stop.args
        except UnsafeFileError as error:
            raise UnsafeFileError(f"at byte {at - self._start} of its pickle {error}") from None
        except (ValueError, TypeError, IndexError, KeyError, OverflowError, struct.error) as error:
            raise ValueError(f"its pickle is broken at byte {at - self._start}: {error}") from None
        _require_plain(value, _SPARE + _SHARED * (self.end - self._start))
        return value

    # What the opcodes are made of

    def _take(self, count: int) -> bytes:
        if count > len(self._data) - self.end:
            raise ValueError(f"it is cut short; expected {count} more bytes, got {len(self._data) - self.end}")
        self.end += count
        return self._data[self.end - count : self.end]

    def _number(self, form: str) -> int:
        return struct.unpack(form, self._take(struct.calcsize(form)))[0]

    def _line(self) -> bytes:
        stop = self._data.find(b"\n", self.end, self.end + _MAX_LINE)
        if stop < 0:
            raise ValueError("it is cut short; expected the end of a line, got none")
        return self._take(stop + 1 - self.end)[:-1]

    def _push(self, value: Any) -> None:
        self._stack.append(value)

    def _pop(self) -> Any:
        if not self._stack:
            raise ValueError("it takes from an empty stack")
        return self._stack.pop()

    def _top(self, kind: type = object) -> Any:
        if not self._stack:
            raise ValueError("it takes from an empty stack")
        if not isinstance(self._stack[-1], kind):
            got = type(self._stack[-1]).__name__
            raise ValueError(f"it adds to something else; expected a {kind.__name__}, got a {got}")
        return self._stack[-1]

    def _mark(self) -> None:
        self._below.append(self._stack)
        self._stack = []

    def _since_mark(self) -> list[Any]:
        if not self._below:
            raise ValueError("it goes back to a mark that it never set")
        items, self._stack = self._stack, self._below.pop()
        return items

    def _last(self, count: int) -> tuple:
        return tuple([self._pop() for _ in range(count)][::-1])

    def _remember(self, key: int) -> None:
        if not 0 <= key <= len(self._data):
            raise ValueError(f"it numbers its parts up to {key}; expected less than its length")
        self._memo[key] = self._top()

    def _recall(self, key: int) -> None:
        if key not in self._memo:
            raise ValueError(f"it recalls part {key}, which it has not kept")
        self._push(self._memo[key])

    def _append(self) -> None:
        item = self._pop()
        self._top(list).append(item)

    def _append_all(self) -> None:
        items = self._since_mark()
        self._top(list).extend(items)

    def _add_all(self) -> None:
        items = self._since_mark()
        self._top(set).update(map(require_key, items))

    def _dict(self) -> None:
        items = self._since_mark()
        self._push({})
        self._set_items(items)

    def _set_items(self, items: list[Any]) -> None:
        target = self._top(dict)
        if len(items) % 2:
            raise ValueError("a dict has a key without a value")
        for key, value in zip(items[::2], items[1::2], strict=True):
            target[require_key(key)] = value

    def _integer(self, size: int) -> None:
        if size > _MAX_INT:
            raise ValueError(f"an integer has {size} bytes; expected at most {_MAX_INT}")
        self._push(int.from_bytes(self._take(size), "little", signed=True))

    def _text(self, form: str) -> None:
        self._push(self._take(self._number(form)).decode("utf-8", "surrogatepass"))

    def _protocol(self) -> None:
        if (protocol := self._number("B")) > 5:
            raise ValueError(f"it is of protocol {protocol}; expected at most 5")

    def _frame(self) -> None:
        if (size := self._number("<Q")) > len(self._data) - self.end:
            raise ValueError(f"it is cut short; expected a frame of {size} bytes, got {len(self._data) - self.end}")

    def _stop(self) -> None:
        raise _Stop(self._pop())

    def _drop(self) -> None:
        if self._stack:
            self._stack.pop()
        else:
            self._since_mark()

    def _drop_all(self) -> None:
        self._since_mark()

    def _decimal(self) -> None:
        """Protocol 0: an integer in digits, or a bool as 00 and 01."""
        line = self._line()
        self._push({b"00": False, b"01": True}[line] if line in (b"00", b"01") else self._digits(line))

    def _digits(self, line: bytes) -> int:
        if len(line) > 2 * _MAX_INT:
            raise ValueError(f"an integer has {len(line)} digits; expected at most {2 * _MAX_INT}")
        return int(line.removesuffix(b"L"))

    def _quoted(self) -> None:
        """Protocol 0: a text of Python 2 in quotes."""
        line = self._line()
        if len(line) < 2 or line[:1] != line[-1:] or line[:1] not in b"'\"":
            raise ValueError("a text has no quotes")
        self._push(codecs.escape_decode(line[1:-1])[0].decode())  # type: ignore[attr-defined]  # as pickle itself

    # Names, calls, storages

    def _name(self) -> None:
        module, name = self._line().decode(), self._line().decode()
        self._push(admitted(module, name))

    def _stacked_name(self) -> None:
        module, name = self._last(2)
        if type(module) is not str or type(name) is not str:
            raise ValueError("a name is not a text")
        self._push(admitted(module, name))

    def _instance(self) -> None:
        module, name = self._line(), self._line()
        raise UnsafeFileError(f"it makes an instance of {module + b'.' + name!r:.120} (INST); expected plain data")

    def _call(self) -> None:
        called, args = self._last(2)
        if not isinstance(called, Maker) or called.make is None:
            name = called.name if isinstance(called, Maker) else type(called).__name__
            raise UnsafeFileError(f"it calls {name!r}, which is not to be called; expected plain data")
        if type(args) is not tuple:
            raise ValueError(f"it calls {called.name} with a {type(args).__name__}; expected a tuple")
        self._copied += len(args) + sum(len(arg) for arg in args if isinstance(arg, str | bytes | list | tuple | dict))
        if self._copied > _SPARE + _COPIED * (self.end - self._start):
            raise ValueError(f"it copies {self._copied} items or bytes; expected a few for each of its own")
        try:
            self._push(called.make(*args))
        except TypeError:
            raise ValueError(f"it calls {called.name} with {len(args)} arguments that do not fit") from None

    def _build(self) -> None:
        """Attributes of an object: torch keeps a state_dict's `_metadata` so."""
        target, attributes = self._last(2)
        if type(target) is not OrderedDict or type(attributes) is not dict or attributes.keys() != {"_metadata"}:
            name = target.name if isinstance(target, Maker) else type(target).__name__
            raise UnsafeFileError(
                f"it sets attributes of a {name}; expected _metadata of an OrderedDict and nothing else"
            )
        target._metadata = attributes["_metadata"]  # type: ignore[attr-defined]
        self._push(target)

    def _persistent(self) -> None:
        """('storage', class, key, device, count[, view]): a storage, or of the old format a part of one."""
        asked = self._pop()
        what = asked[0] if type(asked) is tuple and len(asked) in (5, 6) else None
        if type(what) not in (str, bytes) or what not in ("storage", b"storage"):
            raise UnsafeFileError(f"it asks for {shown(asked)} from outside; expected a storage")
        _, kind, key, _, count, *view = asked
        if not isinstance(kind, StorageType) or type(key) is not str or type(count) is not int or count < 0:
            raise ValueError(f"a storage is described by {shown(asked)}; expected its class, key, device and count")
        if self._store is None:
            raise ValueError("a storage is asked for; expected none here")
        storage = self._store.storage(key, kind.dtype, count)
        self._push(storage if not view or view[0] is None else storage.part(view[0]))


def _children(node: Any) -> list[Any]:
    """The branches right under `node`; its leaves are plain."""
    values: list[Any] = list(node.values()) if isinstance(node, dict) else list(node)
    if type(node) is OrderedDict and vars(node):
        values.append(vars(node)["_metadata"])
    for value in values:
        if type(value) not in _LEAVES and not isinstance(value, (*_BRANCHES, np.dtype)):
            name = value.name if isinstance(value, Maker) else type(value).__name__
            raise UnsafeFileError(f"its pickle holds {name!r} as a value; expected plain data")
    return [value for value in values if isinstance(value, _BRANCHES)]


def _require_plain(root: Any, most: int) -> None:
    """Refuses what is not plain data, contains itself, is too deep, or unfolds to more than `most` nodes."""
    sizes: dict[int, tuple[int, int]] = {}  # of a finished branch: its nodes, each as often as it is met; its depth
    open_branches: set[int] = set()
    todo: list[tuple[Any, list[Any] | None]] = [([root], None)]
    while todo:
        node, below = todo.pop()
        if below is None:
            if id(node) in sizes:
                continue
            if id(node) in open_branches:
                raise ValueError("its pickle is broken: a list or dict holds itself; expected a tree")
            open_branches.add(id(node))
            below = _children(node)
            todo.append((node, below))
            todo.extend((child, None) for child in below)
            continue
        open_branches.discard(id(node))
        nodes = len(node) + sum(sizes[id(child)][0] for child in below)
        depth = 1 + max((sizes[id(child)][1] for child in below), default=0)
        if nodes > most:
            raise ValueError(f"its pickle is broken: it unfolds to more than {most} parts; expected some for each byte")
        if depth > _MAX_DEPTH:
            raise ValueError(f"its pickle is broken: it is nested deeper than {_MAX_DEPTH} levels; expected less")
        sizes[id(node)] = nodes, depth


def _operation(name: str) -> int:
    return getattr(pickle, name)[0]


_OPERATIONS: dict[int, Callable[[Unpickler], None]] = {
    _operation(name): does
    for name, does in {
        "PROTO": Unpickler._protocol,
        "FRAME": Unpickler._frame,
        "STOP": Unpickler._stop,
        "MARK": Unpickler._mark,
        "POP": Unpickler._drop,
        "POP_MARK": Unpickler._drop_all,
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
        "REDUCE": Unpickler._call,
        "BUILD": Unpickler._build,
        "BINPERSID": Unpickler._persistent,
    }.items()
}
_REFUSED = {
    _operation(name): f"{does} ({name})"
    for name, does in {
        "OBJ": "makes an instance of a class",
        "NEWOBJ": "makes an instance of a class",
        "NEWOBJ_EX": "makes an instance of a class",
        "EXT1": "asks for a registered extension",
        "EXT2": "asks for a registered extension",
        "EXT4": "asks for a registered extension",
        "PERSID": "asks for something from outside by a text",
        "NEXT_BUFFER": "asks for a buffer from outside",
        "READONLY_BUFFER": "asks for a buffer from outside",
    }.items()
}
