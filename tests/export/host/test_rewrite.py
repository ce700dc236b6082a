"""The modules that the linker writes are valid, and have the types that they must have, by wasmtime."""

import pytest
import wasmtime

from funcnet.export.host.binary import read
from funcnet.export.host.matching import FunctionType
from funcnet.export.host.rewrite import split, trampolines
from tests.export.host.cases import wasm

ENGINE = wasmtime.Engine()
ALL = wasm(
    """
    (import "o" "f" (func $f (param i32) (result i32)))
    (import "o" "unused" (global f32))
    (import "o" "used" (global $used i32))
    (import "o" "m" (memory $theirs 1))
    (import "o" "later" (global $later (mut i64)))
    (memory $own (export "own") 2 9)
    (table $table (export "table") 1 3 funcref)
    (table (export "objects") 4 externref)
    (global (export "copy") i32 (global.get $used))
    (global (export "sum") i32 (i32.add (global.get $used) (i32.const 1000)))
    (global (export "vector") v128 (v128.const i32x4 1 2 3 4))
    (global (export "half") (mut f64) (f64.const 0.5))
    (global (export "null") externref (ref.null extern))
    (elem (table $table) (global.get $used) func $f)
    (data (memory $own) (global.get $used) "own")
    (data (memory $theirs) (i32.const 0) "theirs")
    (func (export "read") (result i32 i32 i32)
      (i32.load8_u $own (i32.const 0)) (i32.load8_u $theirs (i32.const 0)) (global.get $used))
    """
)


def test_both_halves_are_valid_and_keep_their_types():
    whole, name = read(ALL), "m"
    halves = split(whole, name)
    state, code = (wasmtime.Module(ENGINE, data) for data in (halves.state, halves.code))
    assert [one.name for one in halves.needed] == ["used"] == [one.name for one in state.imports]
    kept = {one.name: str(whole.exports[key].type) for key, one in _held(whole)}
    assert {key: str(one.type) for key, one in read(halves.state).exports.items()} == kept
    assert [one.name for one in code.imports] == ["f", "unused", "used", "m", "later", *halves.added]
    assert {key: str(one.type) for key, one in read(halves.code).exports.items()} == {
        key: str(one.type) for key, one in whole.exports.items()
    }


class _Held:
    def __init__(self, name: str) -> None:
        self.name = name


def _held(whole):
    for key, export in whole.exports.items():
        if export.kind != "function":
            yield key, _Held(f"{export.kind} {export.index}")


def test_the_halves_run_as_the_whole():
    store = wasmtime.Store(ENGINE)
    i32, f32, i64 = wasmtime.ValType.i32(), wasmtime.ValType.f32(), wasmtime.ValType.i64()
    unary = wasmtime.FuncType([i32], [i32])
    used = wasmtime.Global(store, wasmtime.GlobalType(i32, False), 0)
    given = [
        wasmtime.Func(store, unary, lambda x: x + 1),
        wasmtime.Global(store, wasmtime.GlobalType(f32, False), 1.0),
        used,
        wasmtime.Memory(store, wasmtime.MemoryType(wasmtime.Limits(1, None))),
        wasmtime.Global(store, wasmtime.GlobalType(i64, True), 1),
    ]
    halves = split(read(ALL), "m")
    state = wasmtime.Instance(store, wasmtime.Module(ENGINE, halves.state), [used]).exports(store)
    code = wasmtime.Instance(
        store, wasmtime.Module(ENGINE, halves.code), [*given, *(state[key] for key in halves.added)]
    ).exports(store)
    assert code["read"](store) == [ord("o"), ord("t"), 0]
    assert [code[key].value(store) for key in ("copy", "sum", "half")] == [0, 1000, 0.5]
    assert state["table 0"].get(store, 0)(store, 4) == 5
    assert code["own"].size(store) == 2 == state["memory 1"].size(store)


@pytest.mark.parametrize("count", [1, 63, 64, 65, 127, 128, 200])
def test_trampolines_call_what_the_table_holds(count):
    """Counts around those where a number takes another byte."""
    kinds = [FunctionType(("i32",), ("i32",)), FunctionType(("f64", "i32"), ("i32", "f64")), FunctionType()]
    store = wasmtime.Store(ENGINE)
    module = wasmtime.Module(ENGINE, trampolines([(f"m.f{i}", kinds[i % 3]) for i in range(count)]))
    exports = wasmtime.Instance(store, module, []).exports(store)
    with pytest.raises(wasmtime.Trap) as caught:
        exports[str(count - 1)](store, *[(1,), (1.0, 1), ()][(count - 1) % 3])
    assert caught.value.frames[0].func_name == f"m.f{count - 1}"
    value_type = lambda name: getattr(wasmtime.ValType, name)()
    answers = [lambda i: lambda x: x + i, lambda i: lambda a, b: [b + i, a], lambda i: lambda: None]
    for i in range(count):
        kind = kinds[i % 3]
        signature = wasmtime.FuncType(*[[value_type(one) for one in side] for side in (kind.params, kind.results)])
        exports["table"].set(store, i, wasmtime.Func(store, signature, answers[i % 3](i)))
    for i in range(count):
        got = exports[str(i)](store, *[(7,), (0.5, 7), ()][i % 3])
        assert got == [7 + i, [7 + i, 0.5], None][i % 3]


def test_no_split_without_state():
    """A module of functions alone stays as it is, but for an empty list of imports."""
    halves = split(read(wasm('(func (export "f") (result i32) (i32.const 3))')), "m")
    store = wasmtime.Store(ENGINE)
    assert halves.added == () == halves.needed
    assert wasmtime.Instance(store, wasmtime.Module(ENGINE, halves.code), []).exports(store)["f"](store) == 3
