"""Sections of modules, which an engine then accepts."""

import pytest
import wasmtime

from funcnet.export.wasm import binary


@pytest.mark.parametrize("address", [0, 63, 64, 8191, 8192, 131072])
def test_an_engine_reads_the_weights(address):
    content = bytes(range(256))
    module = binary.weights_module(address, content, 4, binary.custom("note", b"hello"))
    store = wasmtime.Store()
    memory = wasmtime.Instance(store, wasmtime.Module(store.engine, module), []).exports(store)["memory"]
    assert bytes(memory.read(store, address, address + 256)) == content
    assert binary.read_custom(module, "note") == b"hello"
    longer = binary.data_section(module, address + 256, b"more")
    memory = wasmtime.Instance(store, wasmtime.Module(store.engine, longer), []).exports(store)["memory"]
    assert bytes(memory.read(store, address + 254, address + 260)) == content[-2:] + b"more"


def test_cut_off_modules_are_refused():
    module = binary.weights_module(0, b"abc", 1, binary.custom("note", b""))
    for end in range(8, len(module)):
        try:
            kept = binary.sections(module[:end])
        except ValueError as error:
            assert "the module is truncated" in str(error)
        else:  # cut between two sections
            assert binary.assembled(kept) == module[:end]
