"""What `read` finds in modules, beside what wasmtime and V8 find."""

import json
import subprocess

import pytest
import wasmtime

from funcnet.export import host
from funcnet.export.host.binary import read
from tests.export.host.cases import NODE, RIGHT, wasm

MODULES = {f"{name}: {key}": data for name, (case, _) in RIGHT.items() for key, data in case.binaries().items()} | {
    "all": wasm(
        '(import "m" "f" (func (param i64 f64 externref) (result f32 funcref))) (import "m" "t" (table 1 2 externref))'
        ' (import "m" "m" (memory 0 65536)) (import "m" "g" (global (mut f64)))'
        ' (global v128 (v128.const i32x4 1 2 3 4)) (global (export "ünï") f32 (f32.const 1)) (global f64 (f64.const 2))'
        ' (global (export "null") externref (ref.null extern)) (global i64 (i64.const -9000000000))'
        ' (global (export "sum") i32 (i32.add (i32.const 1) (i32.mul (i32.const 2) (i32.const 300))))'
        ' (func $f (export "f") (param i32) (result i32 i32) (local.get 0) (local.get 0)) (elem declare func $f)'
        ' (table (export "t") 3 funcref) (export "again" (table 1)) (table 2 funcref (ref.func $f))'
        ' (global (export "r") funcref (ref.func $f)) (@custom "funcnet" "{}")'
    )
}


def _text(one) -> str:
    """The text of wasmtime's type, in our words."""
    kind = lambda value: str(value).replace("anyref", "externref")
    if isinstance(one, wasmtime.FuncType):
        params, results = ([kind(value) for value in side] for side in (one.params, one.results))
        return f"function ({', '.join(params)}) -> ({', '.join(results)})"
    if isinstance(one, wasmtime.GlobalType):
        return f"{'mutable ' if one.mutable else ''}global {kind(one.content)}"
    span = f"{one.limits.min} or more" if one.limits.max is None else f"{one.limits.min} to {one.limits.max}"
    if isinstance(one, wasmtime.MemoryType):
        return f"memory with {span} pages"
    return f"table with {span} {kind(one.element)} elements"


@pytest.mark.parametrize("name", MODULES)
def test_imports_and_exports_are_those_that_wasmtime_finds(name):
    module, found = wasmtime.Module(wasmtime.Engine(), MODULES[name]), read(MODULES[name])
    imports = [(one.module, one.name, _text(one.type)) for one in module.imports]
    assert [(one.module, one.name, str(one.type)) for one in found.imports] == imports
    assert {key: str(one.type) for key, one in found.exports.items()} == {
        one.name: _text(one.type) for one in module.exports
    }


def test_what_v8_finds():
    """V8 tells names and kinds, not types."""
    script = """const module = new WebAssembly.Module(Uint8Array.from(JSON.parse(process.argv[1])));
        const all = [WebAssembly.Module.imports(module), WebAssembly.Module.exports(module)];
        console.log(JSON.stringify(all.map((list) => list.map((one) => [one.name, one.kind]))));"""
    # Node.js 20 does not know constant expressions with additions, nor tables with a first value.
    names = [name for name in MODULES if name != "all"]
    for name in names[:4]:
        given = json.dumps(list(MODULES[name]))
        done = subprocess.run([NODE, "-e", script, given], capture_output=True, text=True, check=True)
        found = read(MODULES[name])
        ours = [[[one.name, one.type.kind] for one in found.imports], [[k, e.kind] for k, e in found.exports.items()]]
        assert json.loads(done.stdout) == ours


def test_vectors():
    """wasmtime's Python package aborts when it is asked for the type of one."""
    vectors = read(wasm('(global (export "g") v128 (v128.const i32x4 1 2 3 4)) (func (export "f") (param v128))'))
    assert [str(one.type) for one in vectors.exports.values()] == ["global v128", "function (v128) -> ()"]


def test_custom_sections():
    module = read(MODULES["all"])
    assert module.custom("funcnet") == b"{}"
    assert module.custom("other") is None
    assert module.filled and not read(wasm("(table 1 funcref)")).filled


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (
            b"\0asm\2\0\0\0",
            "this is not a WebAssembly module; expected it to begin with .*, got 00 61 73 6d 02 00 00 00.",
        ),
        (b"\0asm\1\0\0\0\1\x80", "the module is truncated; expected 11 bytes or more, got 10."),
        (b"\0asm\1\0\0\0\1\2\1\x60", "the section is too short|the module is truncated"),
        (b"\0asm\1\0\0\0\1\2\1\x60\0\1\0", "the section is too short; expected 13 bytes or more, got 12."),
        (
            b"\0asm\1\0\0\0\1" + b"\x80" * 11 + b"\0",
            "the number at byte 9 is too long; expected 10 bytes at most, got 12.",
        ),
        (b"\0asm\1\0\0\0\1\2\1\x5f", "the form of a type at byte 11 is not known; expected one of 0x60, got 0x5f."),
        (
            b"\0asm\1\0\0\0\2\5\1\0\0\4\0",
            "the kind of an import or export at byte 13 is not known; expected .*, got 0x04.",
        ),
        (b"\0asm\1\0\0\0\2\5\1\0\0\0\5", "the index at byte 14 is out of range; expected less than 0, got 5."),
        (b"\0asm\1\0\0\0\7\4\1\0\2\0", "the index at byte 13 is out of range; expected less than 0, got 0."),
        (b"\0asm\1\0\0\0\5\3\1\x08\0", "the limits at byte 11 have a form that is not known; expected 0 to 7, got 8."),
        (
            b"\0asm\1\0\0\0\6\5\1\x7f\0\xfb\x0b",
            "the constant expression at byte 13 has an instruction that is not known",
        ),
    ],
)
def test_bytes_that_are_no_module(data, text):
    with pytest.raises(host.LinkError, match=f"module 'm': ({text})"):
        read(data, "m")
