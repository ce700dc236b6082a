"""Descriptions of what Python provides to WebAssembly modules: functions, memories, tables and globals.

Each call of `link` creates new objects from the descriptions, so several calls can use the same description.
"""

import dataclasses
import inspect
import typing
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from funcnet.export.host.binary import VALUE_TYPES
from funcnet.export.host.matching import FunctionType, GlobalType, MemoryType, TableType

__all__ = ["HostFunction", "HostGlobal", "HostItem", "HostMemory", "HostTable", "function", "impossible"]

_BY_ANNOTATION: dict[Any, str] = {np.int32: "i32", np.int64: "i64", np.float32: "f32", np.float64: "f64", float: "f64"}


@dataclasses.dataclass(frozen=True)
class HostFunction:
    """A Python function with its signature in WebAssembly, as the decorator `function` returns it.

    A `HostFunction` can be called like the Python function itself.

    Attributes:
        call: the Python function.
        type: the signature.
        linked: whether the first argument of the Python function is the mapping that `link` returns.
    """

    call: Callable[..., Any]
    type: FunctionType
    linked: bool = False

    def __call__(self, *args: object) -> Any:
        return self.call(*args)


@dataclasses.dataclass(frozen=True)
class HostMemory:
    """A memory that the host creates, filled with zeros.

    Args:
        minimum: initial size, in pages of 64 KiB.
        maximum: largest size to which the memory can grow, in pages, or None.

    Example:
        >>> print(HostMemory(1, 16).type)
        memory with 1 to 16 pages
    """

    minimum: int
    maximum: int | None = None

    @property
    def type(self) -> MemoryType:
        """The type of the memory. The linker compares it with the types of imports."""
        return MemoryType(self.minimum, self.maximum)


@dataclasses.dataclass(frozen=True)
class HostTable:
    """A table that the host creates, filled with null.

    Args:
        minimum: initial number of elements.
        maximum: largest number of elements to which the table can grow, or None.
        element: "funcref" or "externref".

    Example:
        >>> print(HostTable(4).type)
        table with 4 or more funcref elements
    """

    minimum: int
    maximum: int | None = None
    element: str = "funcref"

    @property
    def type(self) -> TableType:
        """The type of the table. The linker compares it with the types of imports."""
        return TableType(self.element, self.minimum, self.maximum)


@dataclasses.dataclass(frozen=True)
class HostGlobal:
    """A global that the host creates.

    Args:
        value_type: "i32", "i64", "f32", "f64", "funcref" or "externref".
        value: initial value. None is a null reference, which only globals of type "funcref" or "externref" can hold.
        mutable: whether modules and the host may assign a new value.

    Example:
        >>> print(HostGlobal("f32", 0.5, mutable=True).type)
        mutable global f32
    """

    value_type: str
    value: Any = None
    mutable: bool = False

    @property
    def type(self) -> GlobalType:
        """The type of the global. The linker compares it with the types of imports."""
        return GlobalType(self.value_type, self.mutable)


HostItem = HostFunction | HostMemory | HostTable | HostGlobal
"""What the host provides for an import."""

_KNOWN = tuple(sorted(set(VALUE_TYPES.values()) - {"v128"}))  # no host language has values of v128
_MOST: Mapping[str, str] = MappingProxyType({"memory": "65536 pages", "table": "4294967295 elements"})


def impossible(item: HostItem) -> str | None:
    """Return why no engine can create the object that an item describes, or None if it can be created.

    Example:
        >>> impossible(HostGlobal("i33", 1))
        "a value type does not exist; expected one of ['externref', 'f32', 'f64', 'funcref', 'i32', 'i64'], got 'i33'"
        >>> impossible(HostMemory(3, 2))
        'the limits are wrong; expected whole numbers in order, up to 65536 pages, got memory with 3 to 2 pages'
    """
    one = item.type
    known = ("externref", "funcref") if isinstance(one, TableType) else _KNOWN
    if isinstance(one, FunctionType):
        kinds: tuple[str, ...] = (*one.params, *one.results)
    else:
        kinds = () if isinstance(one, MemoryType) else (one.element if isinstance(one, TableType) else one.value,)
    for kind in kinds:
        if kind not in known:
            return f"a value type does not exist; expected one of {[*known]}, got {kind!r}"
    if isinstance(one, MemoryType | TableType):
        sizes = [0, one.minimum, *([] if one.maximum is None else [one.maximum]), int(_MOST[one.kind].split()[0])]
        if any(type(size) is not int for size in sizes) or sizes != sorted(sizes):  # a bool is no size
            return f"the limits are wrong; expected whole numbers in order, up to {_MOST[one.kind]}, got {one}"
    return None


def function(
    *params: str | Callable, returns: str | tuple[str, ...] | None = None, linked: bool = False
) -> Callable[[Callable], HostFunction]:
    """Decorate a Python function with its signature in WebAssembly.

    Without parentheses, the decorator takes the value types from the annotations `np.int32`, `np.int64`, `np.float32`,
    `np.float64` and `float` (f64). The annotation of the result may also be `None`, or a tuple for several results.

    Args:
        *params: value types of the parameters: "i32", "i64", "f32", "f64", "funcref" or "externref".
        returns: the value type of the result, a tuple of value types for several results, or None for no result.
        linked: whether the first argument of the function is the mapping that `link` returns, for example to read
            memories. The signature does not include this argument.

    Returns:
        A decorator, or the `HostFunction` if the decorator is used without parentheses.

    Raises:
        TypeError: if an annotation has no value type, or the function does not take as many arguments as the signature
            has.
        ValueError: if `params` or `returns` contains an unknown value type.

    Example:
        >>> @function("i32", "f32", returns="f32")
        ... def scale(count, factor):
        ...     return count * factor
        >>> print(scale.type)
        function (i32, f32) -> (f32)
        >>> @function
        ... def half(x: np.float32) -> np.float32:
        ...     return x / 2
        >>> print(half.type, half(3.0))
        function (f32) -> (f32) 1.5
    """
    if len(params) == 1 and callable(params[0]):
        return _checked(params[0], _annotated(params[0]), linked)
    results = () if returns is None else (returns,) if isinstance(returns, str) else tuple(returns)
    for one in (*params, *results):
        if one not in _KNOWN:
            raise ValueError(f"function: a value type does not exist; expected one of {[*_KNOWN]}, got {one!r}.")
    names = tuple(one for one in params if isinstance(one, str))
    return lambda call: _checked(call, FunctionType(names, results), linked)


def _checked(call: Callable, signature: FunctionType, linked: bool) -> HostFunction:
    try:
        inspect.signature(call).bind(*[None] * (len(signature.params) + linked))
    except ValueError:  # some functions that are written in C have no signature that Python can read
        return HostFunction(call, signature, linked)
    except TypeError as error:
        name, count = getattr(call, "__name__", "function"), len(signature.params) + linked
        arguments = f"expected one that takes {count} arguments, got {inspect.signature(call)}"
        raise TypeError(f"function: {name} does not fit its signature; {arguments}.") from error
    return HostFunction(call, signature, linked)


def _annotated(call: Callable) -> FunctionType:
    hints = typing.get_type_hints(call)
    returns = hints.pop("return", None)
    several = typing.get_args(returns) if typing.get_origin(returns) is tuple else (returns,)
    results = () if returns in (None, type(None)) else several
    found = [hints.get(name) for name in inspect.signature(call).parameters]
    for one in (*found, *results):
        if one not in _BY_ANNOTATION:
            known = ", ".join(kind.__name__ for kind in _BY_ANNOTATION)
            raise TypeError(f"function: an annotation of {call.__name__} is wrong; expected one of {known}, got {one}.")
    return FunctionType(tuple(_BY_ANNOTATION[one] for one in found), tuple(_BY_ANNOTATION[one] for one in results))
