"""Linking in wasmtime and in Node.js: the same results, the same errors, for every kind of wrong import."""

import gc
import json
import random
import subprocess
import sys
import weakref
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import wasmtime

from funcnet.export import host
from funcnet.export.wasm.module import to_wasm
from tests.export.host.cases import NEWER, NODE, RIGHT, WRONG, Case, in_node, in_python, wasm


@pytest.fixture(scope="module")
def node():
    """{name of a case: what link.js made of it}."""
    cases = {name: case for name, (case, _) in {**WRONG, **RIGHT, **NEWER}.items()}
    return dict(zip(cases, in_node(list(cases.values())), strict=True))


@pytest.mark.parametrize("name", WRONG)
def test_wrong_imports_are_refused_by_name_in_wasmtime(name):
    case, text = WRONG[name]
    assert in_python(case) == {"name": "LinkError", "error": text}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_imports_are_refused_by_name_in_node(name, node):
    assert node[name] == {"name": "LinkError", "error": WRONG[name][1]}


@pytest.mark.parametrize("name", RIGHT)
def test_results_in_wasmtime(name):
    case, results = RIGHT[name]
    assert in_python(case) == {"results": results}


@pytest.mark.parametrize("name", RIGHT)
def test_results_in_node(name, node):
    assert node[name] == {"results": RIGHT[name][1]}


@pytest.mark.parametrize("name", NEWER)
def test_what_newer_engines_know(name, node):
    """Among it: each of two modules imports the other's function, memory, table and global. Node.js 20 refuses them."""
    case, results = NEWER[name]
    assert in_python(case) == {"results": results}
    script = "console.log(JSON.parse(process.argv[1]).every((one) => WebAssembly.validate(Uint8Array.from(one))))"
    modules = json.dumps([list(data) for data in case.binaries().values()])
    if subprocess.run([NODE, "-e", script, modules], capture_output=True, text=True, check=True).stdout == "true\n":
        assert node[name] == {"results": results}
    else:
        assert node[name]["name"] == "LinkError"
        assert "': the engine refuses it: " in node[name]["error"]


def test_a_module_that_the_engine_refuses():
    """The sections are whole, but the code is not valid."""
    bad = wasm('(func (export "f") (result i32) (i32.const 1))').replace(b"\x41\x01", b"\x42\x01")
    (answer,) = in_node([Case({"code": bad})])
    for found in (answer, in_python(Case({"code": bad}))):
        assert found["name"] == "LinkError"
        assert found["error"].startswith("module 'code': the engine refuses it: ")


@pytest.mark.parametrize("cut", range(8))
def test_every_truncated_module_is_refused(cut):
    """At every eighth byte, beginning with `cut`, so that all bytes are tried."""
    whole = wasm(
        '(import "env" "f" (func)) (memory (export "m") 1) (table 1 funcref) (global i32 (i32.const 5))'
        ' (func (export "g") (param i32) (result i32) (local.get 0)) (data (i32.const 0) "data")'
    )
    ends = _section_ends(whole)
    hosts = {"env": {"f": host.function()(lambda: None)}}
    for size in range(cut, len(whole), 8):
        if size in ends:  # a module may end after a section; then the engine finds what is missing, or nothing is
            continue
        with pytest.raises(host.LinkError, match="module 'code': "):
            host.link({"code": whole[:size]}, hosts)


def _section_ends(data: bytes) -> set[int]:
    return {8} | {end for _, _, end in host.read(data).sections}


@pytest.mark.slow
def test_both_linkers_say_the_same_of_altered_modules():
    """Bytes are changed at random. Errors in sections have the same text in both linkers; engines word the others."""
    draw = random.Random(20)
    cases = []
    for _ in range(200):
        case, _ = draw.choice(list(RIGHT.values()))
        binaries = case.binaries()
        name = draw.choice(list(binaries))
        data = bytearray(binaries[name])
        data[draw.randrange(8, len(data))] = draw.choice([0, 1, 2, 0x7F, 0x80, 0xFF, draw.randrange(256)])
        cases.append(Case({**binaries, name: bytes(data)}, case.hosts))
    answers = [(in_python(case), found) for case, found in zip(cases, in_node(cases), strict=True)]
    for ours, theirs in answers:
        for text in (" the engine refuses it: ", ", when it starts: "):
            for one in (ours, theirs):
                if text in one.get("error", ""):
                    one["error"] = one["error"].split(text)[0]
                    one["name"] = text
        assert ours == theirs
    refused = sum("error" in ours for ours, _ in answers)
    assert 100 < refused < 200, "some bytes are data, and any value of them is valid"


def test_traps_in_node_name_the_functions():
    divide = (
        "(func $divide (param i32) (result i32) (i32.div_u (i32.const 1) (local.get 0)))"
        ' (func $outer (export "outer") (param i32) (result i32) (call $divide (local.get 0)))'
    )
    (found,) = in_node([Case({"code": divide}, calls=(("code", "outer", 0),))])
    assert found == {"name": "RuntimeError", "error": "divide by zero", "frames": ["divide", "outer"]}


def test_a_host_function_gets_what_was_linked():
    code = wasm(
        '(import "env" "total" (func $total (param i32 i32) (result f64))) (memory (export "memory") 1)'
        ' (func (export "run") (result f64) (call $total (i32.const 16) (i32.const 3)))'
    )

    @host.function("i32", "i32", returns="f64", linked=True)
    def total(linked, pointer, count):
        return linked["code"]["memory"].array(pointer, count, np.float32).sum(dtype=np.float64)

    linked = host.link({"code": code}, {"env": {"total": total}})
    linked["code"]["memory"].array(16, 3, np.float32)[:] = [1, 2, 3.5]
    assert linked["code"]["run"]() == 6.5


def test_an_exception_of_a_host_function_arrives_as_it_was_raised():
    code = wasm('(import "env" "f" (func $f)) (func (export "run") (call $f))')

    @host.function()
    def fails():
        raise KeyError("a token")

    linked = host.link({"code": code}, {"env": {"f": fails}})
    with pytest.raises(KeyError, match="a token") as caught:
        linked["code"]["run"]()
    assert caught.value.__notes__ == ["raised in host module 'env', function 'f', which WebAssembly called"]


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        ("x", TypeError, "a value has the wrong type; expected i32, got str."),
        (1.5, TypeError, "a value has the wrong type; expected i32, got float."),
        (1 << 32, ValueError, "a value is out of range; expected i32, got 4294967296."),
        (None, TypeError, "a value has the wrong type; expected i32, got NoneType."),
    ],
)
def test_a_result_of_a_host_function_that_does_not_fit(value, error, text):
    code = wasm('(import "env" "f" (func $f (result i32))) (func (export "run") (result i32) (call $f))')
    linked = host.link({"code": code}, {"env": {"f": host.function(returns="i32")(lambda: value)}})
    with pytest.raises(error) as caught:
        linked["code"]["run"]()
    assert str(caught.value) == f"host module 'env', function 'f': {text}"


@pytest.mark.parametrize(("results", "value"), [((), 1), (("i32", "i32"), 1), (("i32", "i32"), (1, 2, 3))])
def test_a_host_function_with_another_number_of_results(results, value):
    given = " ".join(results)
    code = wasm(f'(import "env" "f" (func $f (result {given}))) (func (export "run") (result {given}) (call $f))')
    linked = host.link({"code": code}, {"env": {"f": host.function(returns=results)(lambda: value)}})
    with pytest.raises(TypeError, match=f"the result is wrong; expected {len(results)} values, got "):
        linked["code"]["run"]()


def test_several_results_and_files(tmp_path):
    path = tmp_path / "code.wasm"
    path.write_bytes(
        wasm(
            '(import "env" "swap" (func $swap (param i32 f64) (result f64 i32)))'
            ' (func (export "run") (param i32 f64) (result f64 i32) (call $swap (local.get 0) (local.get 1)))'
        )
    )
    swap = host.function("i32", "f64", returns=("f64", "i32"))(lambda a, b: (b, a))
    assert host.link({"code": path}, {"env": {"swap": swap}})["code"]["run"](3, 0.25) == (0.25, 3)
    assert host.link({"code": str(path)}, {"env": {"swap": swap}})["code"]["run"](-3, 1) == (1.0, -3)


def test_a_start_function_that_calls_what_does_not_exist_yet():
    modules = {
        "a": '(import "b" "f" (func $f)) (func $s (call $f)) (start $s) (func (export "g"))',
        "b": '(import "a" "g" (func)) (func (export "f"))',
    }
    with pytest.raises(host.WasmTrap, match=r"module 'a', when it starts: .*, in b\.f, called by s\."):
        host.link({name: wasm(text) for name, text in modules.items()})


def test_a_segment_that_lies_outside():
    with pytest.raises(host.WasmTrap, match="module 'code', when it starts: out of bounds memory access"):
        host.link({"code": wasm('(memory 1) (data (i32.const 65536) "x")')})


def test_sources_and_items_of_other_types():
    with pytest.raises(TypeError, match="module 'code': the source is wrong; expected bytes or a path, got int"):
        host.link({"code": 5})
    with pytest.raises(TypeError, match=r"host module 'env', 'f': it is not a host item; expected .*, got function"):
        host.link({}, {"env": {"f": lambda: None}})


def test_what_the_engine_refuses_is_named(monkeypatch):
    def refuse(*args):
        raise wasmtime.WasmtimeError("out of\nmemory")

    monkeypatch.setattr(wasmtime, "Table", refuse)
    with pytest.raises(host.LinkError, match=r"^host module 'env', table 't': the engine refuses it: out of memory\.$"):
        host.link({"code": wasm('(import "env" "t" (table 1 funcref))')}, {"env": {"t": host.HostTable(1)}})
    vector = host.HostFunction(lambda x: None, host.FunctionType(("v128",)))
    with pytest.raises(host.LinkError, match=r"host module 'env', function 'f': a value type does not exist; .*'v128'"):
        host.link({"code": wasm('(import "env" "f" (func (param v128)))')}, {"env": {"f": vector}})


def test_functions_of_another_link():
    text = '(table (export "table") 2 funcref) (func (export "f")) (func (export "g") (param funcref))'
    one, other = (host.link({"code": wasm(text)})["code"] for _ in range(2))
    one["table"][0] = one["f"]
    message = "a function is of another link; expected one of the same link, got <module 'code', function 'f'"
    with pytest.raises(ValueError, match=f"module 'code', table 'table': {message}"):
        one["table"][1] = other["f"]
    with pytest.raises(ValueError, match=f"module 'code', function 'g': {message}"):
        one["g"](other["f"])
    with pytest.raises(ValueError, match=f"host module 'env', global 'x': {message}"):
        host.link({}, {"env": {"x": host.HostGlobal("funcref", one["f"])}})


def test_nothing_is_kept_after_the_last_reference():
    """Host functions do not keep the store, which wasmtime would keep in turn."""
    code = wasm('(import "env" "f" (func)) (memory (export "memory") 16)')
    linked = host.link({"code": code}, {"env": {"f": host.function(linked=True)(lambda linked: None)}})
    array = linked["code"]["memory"].array(0, 4)
    runtime = weakref.ref(linked["code"]["memory"].runtime)
    del linked
    gc.collect()
    assert runtime() is not None, "the array shows its memory"
    array[:] = 7
    assert array.tolist() == [7, 7, 7, 7]
    del array
    gc.collect()
    assert runtime() is None


@pytest.mark.slow  # the first use of zig takes two minutes
def test_a_model_its_weights_and_tokens():
    """Code in one module, weights in another, a table of tokens in a third; as JAX computes it, in both engines."""
    table = jax.random.normal(jax.random.key(0), (16, 8))
    weight = jax.random.normal(jax.random.key(1), (8, 5))
    ids = np.array([3, 0, 15, 7], np.int32)
    model = lambda ids: jnp.tanh(table[ids] @ weight)
    out = to_wasm(model, ids, weights="module")
    tokens = wasm(
        '(import "weights" "memory" (memory 1)) (import "model" "input" (func $input (param i32) (result i32)))'
        ' (func (export "put") (param i32 i32)'
        " (i32.store (i32.add (call $input (i32.const 0)) (i32.mul (local.get 0) (i32.const 4))) (local.get 1)))"
    )
    (pointer,) = {place.address for entry in out.description.entries for place in entry.outputs}
    calls = [*(("tokens", "put", i, int(one)) for i, one in enumerate(ids)), ("model", "run")]
    calls.append(("weights", "memory", pointer, 4 * 5 * 4))
    modules = {"model": out.wasm, "tokens": tokens, "weights": out.weights}
    case = Case(modules, calls=tuple(calls))
    for found in (in_python(case), *in_node([case])):
        got = np.frombuffer(bytes(found["results"][-1]), np.float32).reshape(4, 5)
        np.testing.assert_allclose(got, model(ids), rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_modules_of_c(tmp_path, node):
    """Clang's modules: a static library of functions in one module, its caller in another, one memory, in both."""
    square = "float square(const float *x) { return *x * *x; }"
    caller = """
        __attribute__((import_module("square"), import_name("square"))) float square(const float *x);
        static float cells[4] = {1, 2, 3, 4};
        float total(void) { float all = 0; for (int i = 0; i < 4; i++) all += square(cells + i); return all; }
    """
    flags = ["-target", "wasm32-freestanding", "-nostdlib", "-O2", "-Wl,--no-entry"]
    own = {"square": ["-Wl,--import-memory", "-Wl,--export=square"], "env": ["-Wl,--export=total"]}
    modules = {}
    for name, text in (("square", square), ("env", caller)):
        source, out = tmp_path / f"{name}.c", tmp_path / f"{name}.wasm"
        source.write_text(text)
        command = [sys.executable, "-m", "ziglang", "cc", *flags, *own[name], str(source), "-o", str(out)]
        subprocess.run(command, check=True, capture_output=True)
        modules[name] = Path(out).read_bytes()
    # `square` imports the memory of `env`, and `env` the function of `square`: a circle.
    case = Case(modules, calls=(("env", "total"),))
    assert in_python(case) == {"results": [30.0]}
    assert in_node([case]) == [{"results": [30]}]
