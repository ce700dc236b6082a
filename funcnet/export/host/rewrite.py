"""Write the additional modules that are needed if modules import from each other.

In WebAssembly, everything that a module imports must exist before the module. If modules import from each other, no
order of instantiation fulfils this rule. Two functions write the modules that help:

- `trampolines` writes a module of functions. Each of these trampolines calls the function in one entry of a table. The
  trampolines exist before the other modules. An entry of the table is filled as soon as the module of its function
  exists. A call through a trampoline costs an additional indirect call.
- `split` makes two modules out of one. The first module defines the memories, tables and globals, and the second module
  imports them. The indices of imports come before those of definitions in WebAssembly. *All* definitions of memories,
  tables and globals become imports, in their order and after the original imports. Every index therefore stays the
  same, and code and data stay unchanged.
"""

import dataclasses

from funcnet.export.host.binary import (
    CUSTOM,
    EXPORTS,
    FUNCTIONS,
    GLOBAL_GET,
    GLOBALS,
    IMPORTS,
    MEMORIES,
    REF_FUNC,
    TABLES,
    TYPES,
    VALUE_TYPES,
    Import,
    WasmBinary,
)
from funcnet.export.host.encoding import HEADER, first_number, section, signed, text, unsigned, vector
from funcnet.export.host.matching import ExternType, FunctionType, GlobalType, LinkError, MemoryType, TableType

__all__ = ["Split", "split", "trampolines"]

_CODES = {name: bytes([code]) for code, name in VALUE_TYPES.items()}
_STATE = "(state)"  # the module name in the imports by which the second module gets the exports of the first


@dataclasses.dataclass(frozen=True)
class Split:
    """The two modules into which `split` divides a module.

    Attributes:
        state: the module that defines the memories, tables and globals. The names of its exports contain the indices in
            the original module, such as "memory 0" and "global 2".
        needed: the imports of `state`: globals of other modules, from which the globals of `state` take initial values.
        code: the module with the functions and the data. It imports the exports of `state` after the original imports.
        added: names of the exports of `state`, in the order in which `code` imports them.
    """

    state: bytes
    needed: tuple[Import, ...]
    code: bytes
    added: tuple[str, ...]


def split(module: WasmBinary, name: str) -> Split:
    """Split a module into its state (memories, tables and globals) and its code.

    Args:
        module: the module.
        name: name of the module in errors.

    Raises:
        LinkError: if a global starts as a reference to a function, or a table has an initial value.
    """
    imported = module.imported("global")
    for start in module.starts:
        if any(opcode == REF_FUNC for opcode, _ in start):
            raise LinkError(
                f"module '{name}': it is part of a circle of imports, and one of its globals starts as a reference "
                "to a function; expected a constant or another global, got ref.func."
            )
    if module.filled:
        raise LinkError(
            f"module '{name}': it is part of a circle of imports, and one of its tables has a first value; "
            "expected a table of null, got an expression."
        )
    read = {value for start in module.starts for opcode, value in start if opcode == GLOBAL_GET}
    used = sorted(index for index in read if isinstance(index, int) and index < len(imported))
    places = {index: place for place, index in enumerate(used)}
    places |= {len(imported) + i: len(used) + i for i in range(len(module.globals))}
    needed = tuple(imported[index] for index in used)
    parts: list[tuple[str, tuple[ExternType, ...]]] = [
        ("table", module.tables),
        ("memory", module.memories),
        ("global", module.globals),
    ]
    held = [(kind, i, len(module.imported(kind)) + i, one) for kind, types in parts for i, one in enumerate(types)]
    starts = [_expression(start, places) for start in module.starts]
    exports = [
        text(f"{kind} {index}") + _kind(kind) + unsigned(i + (len(used) if kind == "global" else 0))
        for kind, i, index, _ in held
    ]
    state = HEADER + b"".join(
        [
            _section(IMPORTS, [_import(one.module, one.name, one.type) for one in needed]),
            _section(TABLES, [_type(one) for one in module.tables]),
            _section(MEMORIES, [_type(one) for one in module.memories]),
            _section(GLOBALS, [_type(one) + start for one, start in zip(module.globals, starts, strict=True)]),
            _section(EXPORTS, exports),
        ]
    )
    added = tuple(f"{kind} {index}" for kind, _, index, _ in held)
    more = [_import(_STATE, f"{kind} {index}", one) for kind, _, index, one in held]
    return Split(state, needed, _with_imports(module, more), added)


def _with_imports(module: WasmBinary, more: list[bytes]) -> bytes:
    """Return the bytes of a module with additional imports, and without its definitions of tables, memories and
    globals.
    """
    written, done = [HEADER], False
    old = next((module.data[a:b] for number, a, b in module.sections if number == IMPORTS), b"\0")
    content = unsigned(len(module.imports) + len(more)) + first_number(old)[1] + b"".join(more)
    for number, start, end in module.sections:
        if not done and number not in (CUSTOM, TYPES):
            written.append(section(IMPORTS, content))
            done = True
        if number not in (IMPORTS, TABLES, MEMORIES, GLOBALS):
            written.append(section(number, module.data[start:end]))
    return b"".join(written if done else [*written, section(IMPORTS, content)])


def trampolines(functions: list[tuple[str, ExternType]]) -> bytes:
    """Write a module of trampolines. The i-th trampoline calls the function in the i-th entry of a table.

    Args:
        functions: (name, signature) of each trampoline. Stack traces show the name of the trampoline.

    Returns:
        A module that exports the trampolines as "0", "1", … and the table as "table".
    """
    count = len(functions)
    bodies = []
    for i, (_, signature) in enumerate(functions):
        assert isinstance(signature, FunctionType)
        gets = b"".join(b"\x20" + unsigned(k) for k in range(len(signature.params)))
        body = b"\0" + gets + b"\x41" + signed(i) + b"\x11" + unsigned(i) + b"\0\x0b"
        bodies.append(unsigned(len(body)) + body)
    names = vector([unsigned(i) + text(name) for i, (name, _) in enumerate(functions)])
    exports = [text("table") + _kind("table") + b"\0"]
    exports += [text(str(i)) + _kind("function") + unsigned(i) for i in range(count)]
    return HEADER + b"".join(
        [
            _section(TYPES, [_type(signature) for _, signature in functions]),
            _section(FUNCTIONS, [unsigned(i) for i in range(count)]),
            _section(TABLES, [_type(TableType("funcref", count, count))]),
            _section(EXPORTS, exports),
            _section(10, bodies),
            section(CUSTOM, text("name") + b"\1" + unsigned(len(names)) + names),
        ]
    )


# ------------------------------------------------------------------------------------------------------------ encoding


def _section(number: int, items: list[bytes]) -> bytes:
    return section(number, vector(items)) if items else b""


def _kind(kind: str) -> bytes:
    return bytes([("function", "table", "memory", "global").index(kind)])


def _type(one: ExternType) -> bytes:
    if isinstance(one, FunctionType):
        return b"\x60" + vector([_CODES[p] for p in one.params]) + vector([_CODES[r] for r in one.results])
    if isinstance(one, GlobalType):
        return _CODES[one.value] + bytes([one.mutable])
    if isinstance(one, TableType):
        return _CODES[one.element] + _limits(one, shared=False)
    return _limits(one, one.shared)


def _limits(one: MemoryType | TableType, shared: bool) -> bytes:
    flags = (one.maximum is not None) | shared << 1 | (one.address == "i64") << 2
    return bytes([flags]) + unsigned(one.minimum) + (b"" if one.maximum is None else unsigned(one.maximum))


def _import(module: str, name: str, one: ExternType) -> bytes:
    return text(module) + text(name) + _kind(one.kind) + _type(one)


def _expression(start: tuple, places: dict[int, int]) -> bytes:
    written = [
        bytes([opcode]) + (unsigned(places[operand]) if opcode == GLOBAL_GET else operand) for opcode, operand in start
    ]
    return b"".join(written) + b"\x0b"
