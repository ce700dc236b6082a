"""Read WebAssembly modules: their sections, and their imports and exports with types.

Engines report the types of imports and exports in different ways, and JavaScript does not report them at all. Both the
linker in Python and `link.js` therefore read the types from the bytes of a module. Neither linker reads the sections of
code and data, which the engine validates.

A constant expression gives a global its initial value. `read` returns the expression as a tuple of instructions
`(opcode, operand)`, from which `rewrite.py` writes the expression again if modules import from each other. The operand
of the instruction `global.get` is the index of a global, as an int. All other operands are bytes.
"""

import dataclasses
import functools
import os
from collections.abc import Callable, Mapping
from pathlib import Path

from funcnet.export.host.encoding import HEADER
from funcnet.export.host.matching import ExternType, FunctionType, GlobalType, LinkError, MemoryType, TableType

__all__ = [
    "CUSTOM",
    "GLOBAL_GET",
    "REF_FUNC",
    "VALUE_TYPES",
    "Export",
    "Import",
    "WasmBinary",
    "read",
]

CUSTOM, TYPES, IMPORTS, FUNCTIONS, TABLES, MEMORIES, GLOBALS, EXPORTS = range(8)  # the numbers of sections
GLOBAL_GET, REF_FUNC = 0x23, 0xD2
_NAMES = ("i32", "i64", "f32", "f64", "v128")
VALUE_TYPES: Mapping[int, str] = {0x7F - i: name for i, name in enumerate(_NAMES)} | {
    0x70: "funcref",
    0x6F: "externref",
}
Expression = tuple[tuple[int, bytes | int], ...]


@dataclasses.dataclass(frozen=True)
class Import:
    """An import: the name of another module, the name of an export of that module, and the expected type."""

    module: str
    name: str
    type: ExternType


@dataclasses.dataclass(frozen=True)
class Export:
    """An export: its name, kind and type, and its index among the module's imports and definitions of this kind."""

    name: str
    kind: str
    index: int
    type: ExternType


@dataclasses.dataclass(frozen=True)
class WasmBinary:
    """A WebAssembly module: its bytes, and the parts that linking needs.

    Attributes:
        data: the whole module.
        sections: (number of the section, first byte of its content, end of its content) for every section.
        types: the function types of the module, in the order of their indices.
        imports: the imports, in the module's order.
        exports: {name: export}.
        tables, memories, globals: the types of the tables, memories and globals that the module itself defines.
        starts: for each type in `globals`, the constant expression of the global's initial value.
        filled: whether a table has a constant expression for its initial value, which circular imports do not support.
    """

    data: bytes
    sections: tuple[tuple[int, int, int], ...]
    types: tuple[FunctionType, ...]
    imports: tuple[Import, ...]
    exports: Mapping[str, Export]
    tables: tuple[TableType, ...]
    memories: tuple[MemoryType, ...]
    globals: tuple[GlobalType, ...]
    starts: tuple[Expression, ...]
    filled: bool

    def imported(self, kind: str) -> list[Import]:
        """Return the imports of one kind, in the module's order.

        The position of an import in the list is the index by which the code of the module refers to it.

        Args:
            kind: "function", "memory", "table" or "global".
        """
        return [one for one in self.imports if one.type.kind == kind]

    def custom(self, name: str) -> bytes | None:
        """Return the content of a custom section, or None if the module does not have the section.

        Args:
            name: name of the section, such as "name", "producers" or "funcnet".
        """
        for number, start, end in self.sections:
            if number == CUSTOM:
                reader = _Reader(self.data, start, end, "module")
                if reader.text() == name:
                    return self.data[reader.at : end]
        return None


def read(source: WasmBinary | bytes | str | os.PathLike, name: str = "module") -> WasmBinary:
    """Read a WebAssembly module.

    Args:
        source: the bytes of the module, or the path of its file. A `WasmBinary` is returned unchanged.
        name: name of the module in errors.

    Raises:
        LinkError: if the bytes are not a module, are truncated, or use an extension that this reader does not know.
        OSError: if the file cannot be read.
        TypeError: if the source is neither bytes nor a path.

    Example:
        >>> import wasmtime
        >>> module = read(bytes(wasmtime.wat2wasm('(module (memory (export "memory") 1 2))')))
        >>> print(module.exports["memory"].type)
        memory with 1 to 2 pages
    """
    if isinstance(source, WasmBinary):
        return source
    if not isinstance(source, bytes | bytearray | memoryview | str | os.PathLike):
        raise TypeError(f"module '{name}': the source is wrong; expected bytes or a path, got {type(source).__name__}.")
    data = Path(source).read_bytes() if isinstance(source, str | os.PathLike) else bytes(source)
    if data[:8] != HEADER:
        found = f"expected it to begin with {HEADER.hex(' ')}, got {data[:8].hex(' ') or 'nothing'}"
        raise LinkError(f"module '{name}': this is not a WebAssembly module; {found}.")
    reader, sections = _Reader(data, 8, len(data), name), []
    while reader.at < len(data):
        number, size = reader.byte(), reader.number()
        sections.append((number, reader.at, reader.at + size))
        reader.skip(size)
    return _parse(data, tuple(sections), name)


def _parse(data: bytes, sections: tuple[tuple[int, int, int], ...], name: str) -> WasmBinary:
    of = {number: _Reader(data, start, end, name) for number, start, end in sections if number != CUSTOM}
    each = lambda number, form: tuple(form() for _ in range(of[number].number())) if number in of else ()
    types = each(TYPES, lambda: of[TYPES].function_type())
    imports = each(IMPORTS, lambda: of[IMPORTS].imported(types))
    functions = each(FUNCTIONS, lambda: of[FUNCTIONS].pick(types))
    tables = each(TABLES, lambda: of[TABLES].defined_table())
    memories = each(MEMORIES, lambda: of[MEMORIES].memory())
    globals_ = each(GLOBALS, lambda: (of[GLOBALS].global_type(), of[GLOBALS].expression()))
    spaces: dict[str, list[ExternType]] = {kind: [] for kind in _KINDS}
    for one in imports:
        spaces[one.type.kind].append(one.type)
    spaces["function"] += functions
    spaces["table"] += [table for table, _ in tables]
    spaces["memory"] += memories
    spaces["global"] += [one for one, _ in globals_]
    exports = each(EXPORTS, lambda: of[EXPORTS].exported(spaces))
    return WasmBinary(
        data=data,
        sections=sections,
        types=types,
        imports=imports,
        exports={one.name: one for one in exports},
        tables=tuple(table for table, _ in tables),
        memories=memories,
        globals=tuple(one for one, _ in globals_),
        starts=tuple(start for _, start in globals_),
        filled=any(start is not None for _, start in tables),
    )


_KINDS = ("function", "table", "memory", "global")


class _Reader:
    """Reads the bytes of a module from `at` to `end`, and raises LinkError if a value would extend beyond `end`."""

    def __init__(self, data: bytes, at: int, end: int, name: str) -> None:
        self.data, self.at, self.end, self.name = data, at, end, name

    def error(self, problem: str) -> LinkError:
        return LinkError(f"module '{self.name}': {problem}.")

    def skip(self, size: int) -> None:
        self.at += size
        if self.at > self.end:
            part = "module is truncated" if self.end == len(self.data) else "section is too short"
            raise self.error(f"the {part}; expected {self.at} bytes or more, got {self.end}")

    def take(self, size: int) -> bytes:
        self.skip(size)
        return self.data[self.at - size : self.at]

    def byte(self) -> int:
        return self.take(1)[0]

    def leb(self) -> bytes:
        start = self.at
        while self.byte() & 0x80:
            pass
        if self.at - start > 10:
            raise self.error(
                f"the number at byte {start} is too long; expected 10 bytes at most, got {self.at - start}"
            )
        return self.data[start : self.at]

    def number(self) -> int:
        return functools.reduce(lambda value, byte: value << 7 | byte & 0x7F, reversed(self.leb()), 0)

    def text(self) -> str:
        return self.take(self.number()).decode("utf-8", "replace")

    def known(self, what: str, values: Mapping[int, str]) -> str:
        at, value = self.at, self.byte()
        if value not in values:
            known = ", ".join(f"0x{one:02x}" for one in values)
            raise self.error(f"the {what} at byte {at} is not known; expected one of {known}, got 0x{value:02x}")
        return values[value]

    def value_type(self) -> str:
        return self.known("value type", VALUE_TYPES)

    def pick(self, types: tuple) -> FunctionType:
        at, index = self.at, self.number()
        if index >= len(types):
            raise self.error(f"the index at byte {at} is out of range; expected less than {len(types)}, got {index}")
        return types[index]

    def function_type(self) -> FunctionType:
        self.known("form of a type", {0x60: "function"})
        params = tuple(self.value_type() for _ in range(self.number()))
        return FunctionType(params, tuple(self.value_type() for _ in range(self.number())))

    def limits(self) -> tuple[int, int | None, bool, str]:
        at, flags = self.at, self.byte()
        if flags > 7:
            raise self.error(f"the limits at byte {at} have a form that is not known; expected 0 to 7, got {flags}")
        minimum = self.number()
        return minimum, self.number() if flags & 1 else None, bool(flags & 2), "i64" if flags & 4 else "i32"

    def memory(self) -> MemoryType:
        return MemoryType(*self.limits())

    def table(self) -> TableType:
        element = self.value_type()
        minimum, maximum, _, address = self.limits()
        return TableType(element, minimum, maximum, address)

    def defined_table(self) -> tuple[TableType, Expression | None]:
        if self.data[self.at : self.at + 1] != b"\x40":
            return self.table(), None
        self.skip(2)
        return self.table(), self.expression()

    def global_type(self) -> GlobalType:
        return GlobalType(self.value_type(), bool(self.byte()))

    def kind(self) -> str:
        return self.known("kind of an import or export", dict(enumerate(_KINDS)))

    def imported(self, types: tuple) -> Import:
        module, name, kind = self.text(), self.text(), self.kind()
        forms: dict[str, Callable[[], ExternType]] = {
            "table": self.table,
            "memory": self.memory,
            "global": self.global_type,
        }
        return Import(module, name, self.pick(types) if kind == "function" else forms[kind]())

    def exported(self, spaces: dict[str, list[ExternType]]) -> Export:
        name, kind, at = self.text(), self.kind(), self.at
        index = self.number()
        if index >= len(spaces[kind]):
            found = f"expected less than {len(spaces[kind])}, got {index}"
            raise self.error(f"the index at byte {at} is out of range; {found}")
        return Export(name, kind, index, spaces[kind][index])

    def expression(self) -> Expression:
        """Read a constant expression, including its end marker."""
        found: list[tuple[int, bytes | int]] = []
        fixed = {0x43: 4, 0x44: 8} | dict.fromkeys((0x6A, 0x6B, 0x6C, 0x7C, 0x7D, 0x7E), 0)
        while (opcode := self.byte()) != 0x0B:
            at = self.at - 1
            if opcode in (0x41, 0x42, 0xD0, REF_FUNC):
                found.append((opcode, self.leb()))
            elif opcode == GLOBAL_GET:
                found.append((opcode, self.number()))
            elif opcode == 0xFD:
                found.append((opcode, self.leb() + self.take(16)))
            elif opcode in fixed:
                found.append((opcode, self.take(fixed[opcode])))
            else:
                problem = f"the constant expression at byte {at} has an instruction that is not known"
                raise self.error(f"{problem}; expected a constant, got 0x{opcode:02x}")
        return tuple(found)
