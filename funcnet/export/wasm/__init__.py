"""Compile a pure function of arrays to a WebAssembly module.

    function --trace--> operations --funcnet.loops--> kernels and steps in C --Zig's compiler--> module --check--> file

`trace.py` and `rules.py` translate a traced function into the operations of `funcnet.loops`, which makes loop nests and
C of them. `unsupported.py` says what has no translation, and why. `build.py` compiles the C. `module.py` has `to_wasm`,
and describes the functions and the memory that the finished module exports.
"""

from funcnet.export.wasm.description import ModuleDescription
from funcnet.export.wasm.module import WasmExport, to_wasm
from funcnet.export.wasm.runner import Runner, load_wasm

__all__ = ["ModuleDescription", "Runner", "WasmExport", "load_wasm", "to_wasm"]
