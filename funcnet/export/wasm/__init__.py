"""Compile a pure function of arrays to a WebAssembly module.

    function --trace--> operations --lower--> kernels and steps in C --Zig's compiler--> module --check--> file

`trace.py` and `rules.py` translate a traced function into the operations of `ir.py`. `fusion.py` decides which values
are stored in arrays. `lower.py` turns each operation into kernels: `nest.py` and `loops.py` for loop nests,
`matmul.py`, `conv.py`, `sorting.py`, `pieces.py` and `control.py` for the rest. `store.py` lays out the weights, and
`memory.py` all other arrays. `module.py` has `to_wasm`, and describes the functions and the memory that the finished
module exports.
"""

from funcnet.export.wasm.description import ModuleDescription
from funcnet.export.wasm.module import WasmExport, to_wasm
from funcnet.export.wasm.runner import Runner, load_wasm

__all__ = ["ModuleDescription", "Runner", "WasmExport", "load_wasm", "to_wasm"]
