"""The compiler: what it makes of C, and what is said if it is missing or fails."""

import sys

import pytest
import wasmtime

from funcnet.export.wasm.build import compiled

SOURCE = '__attribute__((export_name("twice"))) int twice(int x) { return 2 * x; }\n'


def test_a_function():
    store = wasmtime.Store()
    module = wasmtime.Module(store.engine, compiled(SOURCE, 3))
    exports = wasmtime.Instance(store, module, []).exports(store)
    assert exports["twice"](store, 21) == 42
    assert exports["memory"].size(store) == 3 and not module.imports


def test_an_imported_memory():
    text = SOURCE.replace("2 * x", "*(int *)x")
    (one,) = wasmtime.Module(wasmtime.Engine(), compiled(text, 3, import_memory=True)).imports
    assert (one.module, one.name, one.type.limits.min) == ("env", "memory", 3)


def test_no_compiler(monkeypatch):
    monkeypatch.setitem(sys.modules, "ziglang", None)
    with pytest.raises(ModuleNotFoundError, match=r'to_wasm: the compiler is not installed.*"funcnet\[export\]"'):
        compiled(SOURCE, 3)


def test_a_mistake_in_the_source():
    with pytest.raises(RuntimeError, match=r"(?s)to_wasm: the C compiler failed:.*undeclared identifier 'y'"):
        compiled(SOURCE.replace("2 * x", "y"), 3)
