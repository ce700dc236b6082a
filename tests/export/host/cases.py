"""Sets of modules to link, in wasmtime and in Node: what they import from each other, and what must come of it.

`WRONG` has a line for each kind of wrong import, with the text that both linkers must give. `RIGHT` has calls and their
results, which were worked out by hand. A host function of a case adds its arguments.
"""

import base64
import dataclasses
import functools
import hashlib
import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import wasmtime

from funcnet.export import host

SCRIPT = Path(host.__file__).parent / "link.js"
NODE = os.environ.get("FUNCNET_NODE", "node")


@dataclasses.dataclass(frozen=True)
class Case:
    """Modules as text or bytes, what the host gives, options, and calls as (module, export, *arguments)."""

    modules: Mapping[str, str | bytes]
    hosts: Mapping[str, Mapping[str, dict]] = dataclasses.field(default_factory=dict)
    calls: tuple[tuple, ...] = ()
    memory: int | None = None
    digests: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def binaries(self) -> dict[str, bytes]:
        return {name: wasm(one) if isinstance(one, str) else one for name, one in self.modules.items()}


@functools.cache
def wasm(text: str) -> bytes:
    return bytes(wasmtime.wat2wasm(f"(module {text})"))


def in_python(case: Case) -> dict[str, Any]:
    """Link by `host.link` and make the calls; the form of the answer is that of `run.mjs`."""
    hosts = {name: {key: _item(dict(one)) for key, one in items.items()} for name, items in case.hosts.items()}
    try:
        linked = host.link(case.binaries(), hosts, limits=host.Limits(memory=case.memory), digests=case.digests)
    except (host.LinkError, host.WasmTrap) as error:
        return {"name": type(error).__name__, "error": str(error)}
    return {"results": [_result(linked[module][name], args) for module, name, *args in case.calls]}


def _item(one: dict) -> Any:
    kind = one.pop("kind")
    if kind == "function":
        results = tuple(one["results"])
        return host.function(*one["params"], returns=results)(lambda *args: sum(args) if results else None)
    if kind == "global":
        return host.HostGlobal(one["value"], one["first"], one["mutable"])
    return {"memory": host.HostMemory, "table": host.HostTable}[kind](**one)


def _result(one: Any, args: list) -> Any:
    if isinstance(one, host.LinkedFunction):
        return one(*args)
    if isinstance(one, host.LinkedGlobal):
        return one.value
    if isinstance(one, host.LinkedTable):
        return len(one)
    pointer, what = args  # a number of bytes is read, and a list of bytes is written
    array = one.array(pointer, what if isinstance(what, int) else len(what))
    array[:] = array if isinstance(what, int) else what
    return array.tolist()


def in_node(cases: list[Case]) -> list[dict[str, Any]]:
    """Link by `link.js` in Node.js, all cases in one process."""
    asked = [
        {
            "modules": {name: base64.b64encode(data).decode() for name, data in case.binaries().items()},
            "hosts": {name: dict(items) for name, items in case.hosts.items()},
            "options": {"memory": case.memory, "digests": dict(case.digests)},
            "calls": case.calls,
        }
        for case in cases
    ]
    command = [NODE, str(Path(__file__).parent / "run.mjs"), SCRIPT.as_uri()]
    done = subprocess.run(command, input=json.dumps(asked), capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def function(params: list[str], results: list[str]) -> dict:
    return {"kind": "function", "params": params, "results": results}


def memory(minimum: int, maximum: int | None = None) -> dict:
    return {"kind": "memory", "minimum": minimum, "maximum": maximum}


def table(minimum: int, maximum: int | None = None, element: str = "funcref") -> dict:
    return {"kind": "table", "minimum": minimum, "maximum": maximum, "element": element}


def global_(value: str, first: Any, mutable: bool = False) -> dict:
    return {"kind": "global", "value": value, "first": first, "mutable": mutable}


def _imports(what: str, other: str = "", **options: Any) -> Case:
    """A module `code` that imports "thing" from a module `other`."""
    return Case({"code": f'(import "other" "thing" {what})', "other": other}, **options)


_GOOD = wasm('(memory (export "thing") 1) (data (i32.const 0) "0123456789")')
_ALTERED = _GOOD.replace(b"5", b"6")
_DIGEST, _OTHER = (hashlib.sha256(data).hexdigest() for data in (_GOOD, _ALTERED))
_AT = "module 'code', import 'other'.'thing': "

_LIMITS = "the limits are wrong; expected whole numbers in order, up to"
_TYPE = "a value type does not exist; expected one of"
_IMPOSSIBLE = [
    (memory(65537), f"{_LIMITS} 65536 pages, got memory with 65537 or more pages"),
    (memory(1, 65537), f"{_LIMITS} 65536 pages, got memory with 1 to 65537 pages"),
    (memory(3, 2), f"{_LIMITS} 65536 pages, got memory with 3 to 2 pages"),
    (memory(-1), f"{_LIMITS} 65536 pages, got memory with -1 or more pages"),
    (table(2**32), f"{_LIMITS} 4294967295 elements, got table with 4294967296 or more funcref elements"),
    (table(4, 2), f"{_LIMITS} 4294967295 elements, got table with 4 to 2 funcref elements"),
    (table(1, None, "i32"), f"{_TYPE} ['externref', 'funcref'], got 'i32'"),
    (global_("i33", 1), f"{_TYPE} ['externref', 'f32', 'f64', 'funcref', 'i32', 'i64'], got 'i33'"),
    (global_("v128", 1), f"{_TYPE} ['externref', 'f32', 'f64', 'funcref', 'i32', 'i64'], got 'v128'"),
]

# {what is wrong: (the case, the whole message)}
WRONG: dict[str, tuple[Case, str]] = {
    **{
        f"an item that no engine can make: {number}": (
            Case({"code": '(import "env" "one" (memory 1))'}, {"env": {"one": item}}),
            f"host module 'env', {item['kind']} 'one': {problem}.",
        )
        for number, (item, problem) in enumerate(_IMPOSSIBLE)
    },
    "missing module": (
        Case({"code": '(import "weights" "data" (memory 1))', "other": ""}),
        "module 'code', import 'weights'.'data': there is no module 'weights'; expected memory with 1 or more pages, "
        "got the modules 'code', 'other'.",
    ),
    "missing export": (
        _imports("(func (param i32))", '(func (export "a")) (func (export "b"))'),
        f"{_AT}module 'other' has no export 'thing'; expected function (i32) -> (), got the exports 'a', 'b'.",
    ),
    "a module without exports": (
        _imports("(global i32)"),
        f"{_AT}module 'other' has no export 'thing'; expected global i32, got the exports none.",
    ),
    "a function in place of a memory": (
        _imports("(memory 1)", '(func (export "thing"))'),
        f"{_AT}a function stands where a memory is imported; "
        "expected memory with 1 or more pages, got function () -> ().",
    ),
    "parameters": (
        _imports("(func (param i32 f32))", '(func (export "thing") (param i32 f64))'),
        f"{_AT}the parameters differ; expected function (i32, f32) -> (), got function (i32, f64) -> ().",
    ),
    "results": (
        _imports("(func (result i32))", '(func (export "thing"))'),
        f"{_AT}the results differ; expected function () -> (i32), got function () -> ().",
    ),
    "parameters of a host function": (
        Case({"code": '(import "env" "f" (func (param i32)))'}, {"env": {"f": function(["f32"], [])}}),
        "module 'code', import 'env'.'f': the parameters differ; expected function (i32) -> (), "
        "got function (f32) -> ().",
    ),
    "results of a host function": (
        Case({"code": '(import "env" "f" (func (result f32)))'}, {"env": {"f": function([], ["f32", "f32"])}}),
        "module 'code', import 'env'.'f': the results differ; expected function () -> (f32), "
        "got function () -> (f32, f32).",
    ),
    "memory too small": (
        _imports("(memory 2)", '(memory (export "thing") 1)'),
        f"{_AT}the memory is too small; expected memory with 2 or more pages, got memory with 1 or more pages.",
    ),
    "memory without maximum": (
        _imports("(memory 1 4)", '(memory (export "thing") 1)'),
        f"{_AT}the memory has no maximum; expected memory with 1 to 4 pages, got memory with 1 or more pages.",
    ),
    "memory's maximum too large": (
        _imports("(memory 1 4)", '(memory (export "thing") 1 5)'),
        f"{_AT}the memory's maximum is too large; expected memory with 1 to 4 pages, got memory with 1 to 5 pages.",
    ),
    "memory of the host too small": (
        Case({"code": '(import "env" "memory" (memory 2))'}, {"env": {"memory": memory(1, 4)}}),
        "module 'code', import 'env'.'memory': the memory is too small; expected memory with 2 or more pages, "
        "got memory with 1 to 4 pages.",
    ),
    "memory too small after a start function": (
        _imports("(memory 3)", '(memory (export "thing") 1) (func $s (drop (memory.grow (i32.const 1)))) (start $s)'),
        f"{_AT}the memory is too small; expected memory with 3 or more pages, got memory with 2 or more pages.",
    ),
    "elements of a table": (
        _imports("(table 1 externref)", '(table (export "thing") 1 funcref)'),
        f"{_AT}the types of the elements differ; expected table with 1 or more externref elements, "
        "got table with 1 or more funcref elements.",
    ),
    "table too small": (
        _imports("(table 3 funcref)", '(table (export "thing") 2 funcref)'),
        f"{_AT}the table is too small; expected table with 3 or more funcref elements, "
        "got table with 2 or more funcref elements.",
    ),
    "table's maximum too large": (
        _imports("(table 1 3 funcref)", '(table (export "thing") 2 4 funcref)'),
        f"{_AT}the table's maximum is too large; expected table with 1 to 3 funcref elements, "
        "got table with 2 to 4 funcref elements.",
    ),
    "value of a global": (
        _imports("(global f32)", '(global (export "thing") f64 (f64.const 1))'),
        f"{_AT}the types of the values differ; expected global f32, got global f64.",
    ),
    "mutability of a global": (
        _imports("(global (mut i32))", '(global (export "thing") i32 (i32.const 1))'),
        f"{_AT}the mutability differs; expected mutable global i32, got global i32.",
    ),
    "only passed on": (
        Case(
            {
                "code": '(import "other" "thing" (memory 1)) (export "thing" (memory 0))',
                "other": '(import "code" "thing" (memory 1)) (export "thing" (memory 0))',
            }
        ),
        f"{_AT}modules import it from each other and none defines it; expected memory with 1 or more pages, "
        "got the circle 'other'.'thing', 'code'.'thing'.\n"
        "module 'other', import 'code'.'thing': modules import it from each other and none defines it; "
        "expected memory with 1 or more pages, got the circle 'code'.'thing', 'other'.'thing'.",
    ),
    "a name twice": (
        Case({"env": ""}, {"env": {}}),
        "module 'env': the host and a module have this name; expected different names, got one twice.",
    ),
    "several at once": (
        Case({"code": '(import "a" "f" (func)) (import "env" "g" (global i32))'}, {"env": {"g": global_("i64", 1)}}),
        "module 'code', import 'a'.'f': there is no module 'a'; expected function () -> (), "
        "got the modules 'code', 'env'.\n"
        "module 'code', import 'env'.'g': the types of the values differ; expected global i32, got global i64.",
    ),
    "no module": (
        Case({"code": b"#!/bin/sh"}),
        "module 'code': this is not a WebAssembly module; expected it to begin with 00 61 73 6d 01 00 00 00, "
        "got 23 21 2f 62 69 6e 2f 73.",
    ),
    "empty": (
        Case({"code": b""}),
        "module 'code': this is not a WebAssembly module; expected it to begin with 00 61 73 6d 01 00 00 00, "
        "got nothing.",
    ),
    "truncated": (
        Case({"code": _GOOD[:-3]}),
        f"module 'code': the module is truncated; expected {len(_GOOD)} bytes or more, got {len(_GOOD) - 3}.",
    ),
    "altered": (
        Case({"code": _ALTERED}, digests={"code": _DIGEST.upper()}),
        f"module 'code': it was altered; expected SHA-256 {_DIGEST}, got {_OTHER}.",
    ),
    "a digest of no module": (
        Case({"code": _GOOD}, digests={"weights": _DIGEST}),
        "digest of 'weights': there is no module 'weights'; expected one of 'code', got 'weights'.",
    ),
    "altered type": (
        Case({"code": b"\0asm\1\0\0\0" + b"\1\5\1\x60\1\x44\0"}),
        "module 'code': the value type at byte 13 is not known; "
        "expected one of 0x7f, 0x7e, 0x7d, 0x7c, 0x7b, 0x70, 0x6f, got 0x44.",
    ),
    "memory over the limit": (
        Case({"code": '(memory (export "memory") 3)'}, memory=131072),
        "module 'code': a memory exceeds the limit; expected at most 131072 bytes, got 196608.",
    ),
    "memory of the host over the limit": (
        Case({}, {"env": {"memory": memory(3)}}, memory=131072),
        "host module 'env', memory 'memory': it exceeds the limit; expected at most 131072 bytes, got 196608.",
    ),
    "a function reference in a circle": (
        Case(
            {
                "a": '(import "b" "g" (global i32)) (func $f) (elem declare func $f)'
                ' (global (export "g") funcref (ref.func $f))',
                "b": '(import "a" "g" (global funcref)) (global (export "g") i32 (i32.const 1))',
            }
        ),
        "module 'a': it is part of a circle of imports, and one of its globals starts as a reference to a function; "
        "expected a constant or another global, got ref.func.",
    ),
    "first values in a circle": (
        Case(
            {
                "a": '(import "b" "g" (global i32)) (global (export "g") i32 (global.get 0))',
                "b": '(import "a" "g" (global i32)) (global (export "g") i32 (global.get 0))',
            }
        ),
        "module 'a': globals take their first values from each other in a circle; "
        "expected one that starts with a constant, got the modules 'a', 'b'.",
    ),
}


def _peer(name: str, other: str, number: int, owns: bool) -> str:
    """One of two modules that import each other's function, table, global and, where they own one, memory.

    `both` reads: the other's memory at 0, the other's global, the other's table by an indirect call, its function.
    """
    return f"""
      (import "{other}" "twice" (func $twice (param i32) (result i32)))
      (import "{other}" "table" (table $theirs 2 funcref))
      (import "{other}" "count" (global $count (mut i32)))
      {f'(memory $memory (export "memory") 1) (data (memory $memory) (i32.const 0) "{name}")' if owns else ""}
      (type $unary (func (param i32) (result i32)))
      (table $own (export "table") 2 funcref)
      (global $mine (export "count") (mut i32) (i32.const {number}))
      (func $own_twice (export "twice") (param i32) (result i32)
        (global.set $mine (i32.add (global.get $mine) (i32.const 1)))
        (i32.add (i32.mul (local.get 0) (i32.const 2)) (i32.const {number})))
      (elem (table $own) (i32.const 0) func $own_twice)
      (elem (table $theirs) (i32.const 1) func $twice)
      (func (export "call") (param i32) (result i32) (call $twice (local.get 0)))
      (func (export "indirect") (param i32 i32) (result i32)
        (call_indirect $theirs (type $unary) (local.get 1) (local.get 0)))
      (func (export "theirs") (result i32) (global.get $count))
      (func (export "reset") (param i32) (global.set $count (local.get 0)))
    """


def _mutual(owners: str) -> Case:
    """`a` and `b` import each other's function, table and global, and the memory of those in `owners`."""
    reads = (
        '(import "{other}" "memory" (memory $other 1))',
        '(func (export "read") (result i32) (i32.load8_u $other (i32.const 0)))',
    )
    modules, calls = {}, []
    for name, other, number in (("a", "b", 100), ("b", "a", 200)):
        imports, loads = (one.format(other=other) if other in owners else "" for one in reads)
        modules[name] = imports + _peer(name, other, number, name in owners) + loads
        if other in owners:
            calls.append((name, "read"))
    calls += [
        *(("a", "call", 5), ("b", "call", 5)),  # 2 * 5 + 200 in b, 2 * 5 + 100 in a
        *(("a", "theirs"), ("b", "theirs")),  # each was called once: 201, 101
        *(("a", "indirect", 0, 1), ("a", "indirect", 1, 1)),  # b's table: b's own function, and by a's elem: b's again
        *(("b", "indirect", 0, 1), ("b", "indirect", 1, 1)),
        *(("a", "reset", 7), ("b", "count"), ("b", "reset", 8), ("a", "count")),
        *(("b", "table"), ("a", "call", 0), ("b", "theirs")),
    ]
    return Case(modules, calls=tuple(calls))


_ANSWERS = [210, 110, 201, 101, 202, 202, 102, 102, None, 7, None, 8, 2, 200, 8]

# {what: (the case, the results of its calls)}
RIGHT: dict[str, tuple[Case, list]] = {
    "circle, a has the memory": (_mutual("a"), [ord("a"), *_ANSWERS]),
    "circle, b has the memory": (_mutual("b"), [ord("b"), *_ANSWERS]),
    "circle of functions": (
        Case(
            {
                "even": '(import "odd" "f" (func $odd (param i32) (result i32))) (func (export "f") (param i32)'
                " (result i32) (if (result i32) (local.get 0)"
                " (then (call $odd (i32.sub (local.get 0) (i32.const 1)))) (else (i32.const 1))))",
                "odd": '(import "even" "f" (func $even (param i32) (result i32))) (func (export "f") (param i32)'
                " (result i32) (if (result i32) (local.get 0)"
                " (then (call $even (i32.sub (local.get 0) (i32.const 1)))) (else (i32.const 0))))",
            },
            calls=(("even", "f", 1000), ("odd", "f", 1000), ("odd", "f", 7)),
        ),
        [1, 0, 1],
    ),
    "a circle of 130 functions": (  # numbers beyond 63 and 127 take two bytes
        Case(
            {
                "a": " ".join(f'(import "b" "f{i}" (func (result i32)))' for i in range(130))
                + " (table 130 funcref) (elem (i32.const 0) func "
                + " ".join(map(str, range(130)))
                + ")"
                ' (func (export "f") (param i32) (result i32) (call_indirect (result i32) (local.get 0)))',
                "b": '(import "a" "f" (func (param i32) (result i32)))'
                + " ".join(f'(func (export "f{i}") (result i32) (i32.const {i * i}))' for i in range(130)),
            },
            calls=tuple(("a", "f", i) for i in (0, 1, 63, 64, 65, 127, 128, 129)),
        ),
        [0, 1, 63**2, 64**2, 65**2, 127**2, 128**2, 129**2],
    ),
    "a module that imports from itself": (
        Case(
            {
                "self": '(import "self" "f" (func $f (param i32) (result i32)))'
                ' (import "self" "g" (global $g i32)) (global $own (export "g") i32 (i32.const 70000))'
                ' (func (export "f") (param i32) (result i32) (i32.add (local.get 0) (global.get $g)))'
                ' (func (export "h") (result i32) (call $f (i32.const 1)))'
            },
            calls=(("self", "h"), ("self", "g")),
        ),
        [70001, 70000],
    ),
    "first values through a circle": (
        Case(
            {
                "a": '(import "b" "two" (global $two i32)) (import "b" "far" (global $far (mut i64)))'
                ' (global (export "one") i32 (i32.const 1)) (global (export "three") i32 (global.get $two))'
                ' (func (export "far") (result i32) (i32.wrap_i64 (global.get $far)))',
                "b": '(import "a" "one" (global $one i32)) (global (export "two") i32 (i32.const -2))'
                ' (global (export "far") (mut i64) (i64.const -5000000000))'
                ' (global (export "float") f64 (f64.const 0.5)) (func (export "one") (result i32) (global.get $one))',
            },
            calls=(("a", "three"), ("b", "one"), ("b", "float"), ("a", "far")),
        ),
        [-2, 1, 0.5, -705032704],
    ),
    "weights, code and host": (
        Case(
            {
                "code": '(import "weights" "memory" (memory 1)) (import "env" "add" (func $add (param f32 f32)'
                ' (result f32))) (import "tokens" "shift" (global $shift i32))'
                ' (func (export "run") (param i32) (result f32) (call $add (f32.load (i32.mul (i32.const 4)'
                " (i32.add (local.get 0) (global.get $shift)))) (f32.const 0.5)))",
                "tokens": '(import "env" "shift" (global $s i32)) (export "shift" (global $s))',
                "weights": r'(memory (export "memory") 1) (data (i32.const 0) "\00\00\80\3f\00\00\00\40")',
            },
            {"env": {"add": function(["f32", "f32"], ["f32"]), "shift": global_("i32", 1)}},
            calls=(("code", "run", 0), ("code", "run", -1), ("weights", "memory", 0, 4)),
        ),
        [2.5, 1.5, [0, 0, 128, 63]],
    ),
    "the digest that is expected": (
        Case({"code": _GOOD}, calls=(("code", "thing", 5, 1),), digests={"code": _DIGEST}),
        [[ord("5")]],
    ),
    "growth up to the limit": (
        Case(
            {
                "own": '(memory (export "memory") 1) (func (export "grow") (param i32) (result i32)'
                " (memory.grow (local.get 0)))",
                "host": '(import "env" "memory" (memory 1 9)) (func (export "grow") (param i32) (result i32)'
                " (memory.grow (local.get 0)))",
            },
            {"env": {"memory": memory(1, 4)}},
            calls=(
                *(("own", "grow", 2), ("own", "grow", 1), ("own", "grow", 1)),
                *(("host", "grow", 2), ("host", "grow", 1), ("host", "grow", 1)),
            ),
            memory=3 * 65536,
        ),
        [1, -1, -1, 1, -1, -1],
    ),
    "a memory that a start function lets grow": (
        Case(
            {
                "code": '(import "other" "thing" (memory 2)) (func (export "size") (result i32) memory.size)',
                "other": '(memory (export "thing") 1) (func $s (drop (memory.grow (i32.const 1)))) (start $s)',
            },
            calls=(("code", "size"),),
        ),
        [2],
    ),
}

# The same for modules that Node.js 20 does not know; from version 22 on it does.
NEWER: dict[str, tuple[Case, list]] = {
    "circle, both have a memory": (_mutual("ab"), [ord("b"), ord("a"), *_ANSWERS]),
    "first values from a module's own globals, in a circle": (
        Case(
            {
                "a": '(import "b" "unused" (global i32)) (import "b" "used" (global $used i32))'
                ' (global $own (export "own") i32 (i32.const 7))'
                ' (global (export "copy") i32 (global.get $own)) (global (export "theirs") i32 (global.get $used))',
                "b": '(import "a" "own" (global i32)) (global (export "unused") i32 (i32.const 1))'
                ' (global (export "used") i32 (i32.const 2)) (func (export "f") (result i32) (global.get 0))',
            },
            calls=(("a", "copy"), ("a", "theirs"), ("b", "f")),
        ),
        [7, 2, 7],
    ),
}
