"""What `link.js` takes beside what the cases show: responses of a server, values of JavaScript, its own mistakes."""

import json
import subprocess

import pytest

from tests.export.host.cases import NODE, SCRIPT, wasm


def run(script: str, *modules: bytes) -> list:
    """Run a script that fills `out`, with `modules` as arrays of bytes."""
    given = json.dumps([list(data) for data in modules])
    head = f"import * as host from {json.dumps(SCRIPT.as_uri())}; const out = [];"
    head += f"const modules = {given}.map((one) => Uint8Array.from(one));"
    tail = "console.log(JSON.stringify(out));"
    command = [NODE, "--input-type=module", "-e", f"{head}\n{script}\n{tail}"]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def test_responses_and_buffers():
    code = wasm('(func (export "f") (result i32) (i32.const 7))')
    script = """
      const response = () => new Response(modules[0]);
      for (const source of [response(), Promise.resolve(response()), modules[0].buffer, Buffer.from(modules[0])]) {
        out.push((await host.link({ code: source })).code.f());
      }
      const missing = new Response("not here", { status: 404 });
      await host.link({ code: missing }).catch((error) => out.push(error.message));
      await host.link({ code: "code.wasm" }).catch((error) => out.push(error.message));
    """
    assert run(script, code) == [
        *[7] * 4,
        "module 'code': it was not sent; expected HTTP status 200, got 404.",
        "module 'code': the source is wrong; expected bytes, got string.",
    ]


def test_host_functions_reach_what_was_linked():
    code = wasm(
        '(import "env" "sum" (func $sum (param i32 i64) (result i64))) (import "env" "memory" (memory 1))'
        ' (import "env" "table" (table 2 funcref)) (import "env" "count" (global $count (mut i64)))'
        ' (data (i32.const 8) "\\05\\06") (elem (i32.const 1) func $run)'
        " (func $start (global.set $count (call $sum (i32.const 8) (i64.const 1)))) (start $start)"
        ' (func $run (export "run") (result i64) (call $sum (i32.const 8) (i64.const 2)))'
    )
    script = """
      const sum = host.hostFunction(["i32", "i64"], ["i64"], (linked, pointer, count) => {
        const bytes = new Uint8Array(linked.env.memory.buffer, pointer, Number(count));
        return BigInt(bytes.reduce((a, b) => a + b, 0));
      }, { linked: true });
      const items = { sum, memory: host.hostMemory(1, 2), table: host.hostTable(2) };
      items.count = host.hostGlobal("i64", 3, { mutable: true });
      const linked = await host.link({ code: modules[0] }, { env: items });
      out.push(Number(linked.env.count.value), Number(linked.code.run()), Number(linked.env.table.get(1)()));
      out.push(linked.env.table.get(0));
    """
    assert run(script, code) == [5, 11, 11, None]


@pytest.mark.parametrize("kind", ["int32", "v128"])
def test_value_types_that_do_not_exist(kind):
    script = f"try {{ host.hostFunction(['{kind}'], [], () => 1) }} catch (error) {{ out.push(error.message) }}"
    known = "['externref', 'f32', 'f64', 'funcref', 'i32', 'i64']"
    assert run(script) == [f"function: a value type does not exist; expected one of {known}, got '{kind}'."]
