"""The types of imports and exports of WebAssembly modules, their text in errors, and the rules of import matching.

A module may import a function, a memory, a table or a global. By the rules of the standard, an imported function or
global must have exactly the type that the import demands. An imported memory or table must be at least as large as the
import demands. If the import has a maximum, the memory or table must also have a maximum, which must not exceed that of
the import.
"""

import dataclasses

__all__ = ["PAGE", "ExternType", "FunctionType", "GlobalType", "LinkError", "MemoryType", "TableType", "mismatch"]

PAGE = 65536  # bytes


class LinkError(ValueError):
    """Raised if modules cannot be linked. The message has a line for each problem.

    Args:
        *problems: one line for each problem.

    Example:
        >>> str(LinkError("module 'a': one thing is wrong.", "module 'b': another is.")).count("\\n")
        1
    """

    def __init__(self, *problems: str) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


@dataclasses.dataclass(frozen=True)
class FunctionType:
    """The value types of a function's parameters and results, such as `("i32", "f32")` and `("f32",)`.

    Example:
        >>> str(FunctionType(("i32", "f32"), ("f32",)))
        'function (i32, f32) -> (f32)'
    """

    params: tuple[str, ...] = ()
    results: tuple[str, ...] = ()

    kind = "function"

    def __str__(self) -> str:
        return f"function ({', '.join(self.params)}) -> ({', '.join(self.results)})"


@dataclasses.dataclass(frozen=True)
class MemoryType:
    """The minimum and maximum size of a memory in pages of 64 KiB. `address` is "i64" if the memory has 64-bit
    addresses.

    Example:
        >>> str(MemoryType(1, 16)), str(MemoryType(2))
        ('memory with 1 to 16 pages', 'memory with 2 or more pages')
    """

    minimum: int
    maximum: int | None = None
    shared: bool = False
    address: str = "i32"

    kind = "memory"

    def __str__(self) -> str:
        before = ("shared " if self.shared else "") + ("64-bit " if self.address == "i64" else "")
        return f"{before}memory with {_span(self)} pages"


@dataclasses.dataclass(frozen=True)
class TableType:
    """The type of a table's elements (`funcref` or `externref`), and their minimum and maximum number.

    Example:
        >>> str(TableType("funcref", 4))
        'table with 4 or more funcref elements'
    """

    element: str
    minimum: int
    maximum: int | None = None
    address: str = "i32"

    kind = "table"

    def __str__(self) -> str:
        return f"{'64-bit ' if self.address == 'i64' else ''}table with {_span(self)} {self.element} elements"


@dataclasses.dataclass(frozen=True)
class GlobalType:
    """The value type of a global, and whether the global can be assigned a new value.

    Example:
        >>> str(GlobalType("i32", mutable=True))
        'mutable global i32'
    """

    value: str
    mutable: bool = False

    kind = "global"

    def __str__(self) -> str:
        return f"{'mutable ' if self.mutable else ''}global {self.value}"


ExternType = FunctionType | MemoryType | TableType | GlobalType
"""The type of an import or export."""


def mismatch(expected: ExternType, found: ExternType) -> str | None:
    """Return why an export of type `found` does not fit an import of type `expected`, or None if it fits.

    Args:
        expected: the type that the import demands.
        found: the type of the export. If the memory or table exists already, `found.minimum` is its present size.

    Returns:
        A clause such as "the parameters differ", or None if the export fits.

    Example:
        >>> mismatch(MemoryType(2), MemoryType(1, 4))
        'the memory is too small'
        >>> mismatch(MemoryType(1), MemoryType(1, 4)) is None
        True
    """
    if expected.kind != found.kind:
        return f"a {found.kind} stands where a {expected.kind} is imported"
    if isinstance(expected, FunctionType) and isinstance(found, FunctionType):
        if expected.params != found.params:
            return "the parameters differ"
        return "the results differ" if expected.results != found.results else None
    if isinstance(expected, GlobalType) and isinstance(found, GlobalType):
        if expected.value != found.value:
            return "the types of the values differ"
        return "the mutability differs" if expected.mutable != found.mutable else None
    return _limits_mismatch(expected, found)


def _limits_mismatch(expected: ExternType, found: ExternType) -> str | None:
    assert isinstance(expected, MemoryType | TableType) and isinstance(found, MemoryType | TableType)
    if isinstance(expected, TableType) and isinstance(found, TableType) and expected.element != found.element:
        return "the types of the elements differ"
    if expected.address != found.address:
        return f"the {found.kind}'s addresses have another width"
    if isinstance(expected, MemoryType) and isinstance(found, MemoryType) and expected.shared != found.shared:
        return "only one of the two memories is shared"
    if found.minimum < expected.minimum:
        return f"the {found.kind} is too small"
    if expected.maximum is not None:
        if found.maximum is None:
            return f"the {found.kind} has no maximum"
        if found.maximum > expected.maximum:
            return f"the {found.kind}'s maximum is too large"
    return None


def _span(limits: MemoryType | TableType) -> str:
    return f"{limits.minimum} or more" if limits.maximum is None else f"{limits.minimum} to {limits.maximum}"
