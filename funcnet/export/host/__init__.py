"""Instantiate WebAssembly modules, and link them with each other and with Python functions.

    linked = host.link({"code": "code.wasm", "weights": "weights.wasm"}, {"env": {"log": log}})
    linked["code"]["run"](pointer)

The host is the program that loads the modules, here Python. `link` looks up each import among the exports of the
modules and among the items of the host. The decorator `function` gives a Python function its signature in WebAssembly.
`HostMemory`, `HostTable` and `HostGlobal` describe memories, tables and globals that the host creates. `link.js` in
this folder is the same linker for Node.js and browsers, with the same order of instantiation and the same errors.

`matching.py` defines the types of imports and exports, and compares them. `binary.py` reads modules. `items.py`
describes the items of the host. `plan.py` finds the source of each import, and the order of the modules. `rewrite.py`
writes the modules that circular imports need. `objects.py` has the Python objects that represent exports. `limits.py`
defines the limits of memory and time, and `linking.py` defines `link`.
"""

from funcnet.export.host.binary import Export, Import, WasmBinary, read
from funcnet.export.host.items import HostFunction, HostGlobal, HostItem, HostMemory, HostTable, function
from funcnet.export.host.limits import Limits
from funcnet.export.host.linking import link
from funcnet.export.host.matching import ExternType, FunctionType, GlobalType, LinkError, MemoryType, TableType
from funcnet.export.host.objects import LinkedFunction, LinkedGlobal, LinkedMemory, LinkedTable, WasmTrap

__all__ = [
    "Export",
    "ExternType",
    "FunctionType",
    "GlobalType",
    "HostFunction",
    "HostGlobal",
    "HostItem",
    "HostMemory",
    "HostTable",
    "Import",
    "Limits",
    "LinkError",
    "LinkedFunction",
    "LinkedGlobal",
    "LinkedMemory",
    "LinkedTable",
    "MemoryType",
    "TableType",
    "WasmBinary",
    "WasmTrap",
    "function",
    "link",
    "read",
]
