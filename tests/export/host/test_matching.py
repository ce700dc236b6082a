"""Which export fits which import, beside what wasmtime's own linker says."""

import itertools

import pytest
import wasmtime

from funcnet.export.host.matching import FunctionType, GlobalType, MemoryType, TableType, mismatch

LIMITS = [(0, None), (1, None), (2, None), (0, 2), (1, 1), (1, 2), (2, 2), (2, 3)]
TYPES = [
    *(FunctionType(*one) for one in itertools.product([(), ("i32",), ("i64", "f32")], [(), ("f64",), ("i32", "i32")])),
    *(MemoryType(*limits) for limits in LIMITS),
    *(TableType(element, *limits) for element in ("funcref", "externref") for limits in LIMITS),
    *(GlobalType(value, mutable) for value in ("i32", "i64", "f32", "f64", "externref") for mutable in (False, True)),
]


def _written(one, name: str) -> str:
    """The type in WebAssembly's text format, exported under a name."""
    if isinstance(one, FunctionType):
        body = " ".join(f"({kind}.const 0)" for kind in one.results)
        return f'(func (export "{name}") (param {" ".join(one.params)}) (result {" ".join(one.results)}) {body})'
    if isinstance(one, GlobalType):
        first = "(ref.null extern)" if one.value == "externref" else f"({one.value}.const 0)"
        return f'(global (export "{name}") {_of_global(one)} {first})'
    return f'({one.kind} (export "{name}") {_limits(one)})'


def _of_global(one: GlobalType) -> str:
    return f"(mut {one.value})" if one.mutable else one.value


def _limits(one) -> str:
    limits = f"{one.minimum} {'' if one.maximum is None else one.maximum}"
    return limits + (f" {one.element}" if isinstance(one, TableType) else "")


def _imported(one) -> str:
    if isinstance(one, FunctionType):
        return f"(func (param {' '.join(one.params)}) (result {' '.join(one.results)}))"
    return f"(global {_of_global(one)})" if isinstance(one, GlobalType) else f"({one.kind} {_limits(one)})"


def test_every_pair_of_types_as_wasmtime_links_it():
    """43 types, each as an import and as an export."""
    engine = wasmtime.Engine()
    store = wasmtime.Store(engine)
    text = " ".join(_written(one, str(i)) for i, one in enumerate(TYPES))
    exports = wasmtime.Instance(store, wasmtime.Module(engine, f"(module {text})"), []).exports(store)
    fits = 0
    for expected in TYPES:
        module = wasmtime.Module(engine, f'(module (import "m" "x" {_imported(expected)}))')
        for i, found in enumerate(TYPES):
            try:
                wasmtime.Instance(store, module, [exports[str(i)]])
                assert mismatch(expected, found) is None, (expected, found)
                fits += 1
            except wasmtime.WasmtimeError:
                assert mismatch(expected, found) is not None, (expected, found)
    assert len(TYPES) <= fits < len(TYPES) ** 2


@pytest.mark.parametrize(
    ("expected", "found", "problem"),
    [
        (MemoryType(1, 2, shared=True), MemoryType(1, 2), "only one of the two memories is shared"),
        (MemoryType(1, address="i64"), MemoryType(1), "the memory's addresses have another width"),
        (TableType("funcref", 1), TableType("funcref", 1, address="i64"), "the table's addresses have another width"),
    ],
)
def test_what_needs_settings_of_the_engine(expected, found, problem):
    assert mismatch(expected, found) == problem


def test_texts():
    assert str(MemoryType(1, 2, shared=True)) == "shared memory with 1 to 2 pages"
    assert str(MemoryType(1, address="i64")) == "64-bit memory with 1 or more pages"
    assert str(TableType("externref", 1, address="i64")) == "64-bit table with 1 or more externref elements"
