"""Compile C to WebAssembly with Zig's compiler, which the package `ziglang` contains. No C library is linked."""

import importlib
import subprocess
import sys
import tempfile
from pathlib import Path

__all__ = ["compiled"]

_MACHINE = ("-target", "wasm32-freestanding", "-msimd128", "-mbulk-memory", "-mnontrapping-fptoint", "-msign-ext")
# Multiplication and addition round separately, as on every engine. Integers wrap. There is no C library to call.
_LANGUAGE = ("-std=c11", "-O3", "-w", "-fwrapv", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math")
_LIBRARY = ("-fno-builtin", "-fno-sanitize=undefined", "-nostdlib")
_LINKER = ("-Wl,--no-entry", "-Wl,--strip-all", "-Wl,-z,stack-size=49152")


def compiled(source: str, pages: int, import_memory: bool = False, relaxed_simd: bool = False) -> bytes:
    """Compile a C source, and return the bytes of the module.

    Args:
        source: the C source. Functions with the attribute `export_name` are exported.
        pages: size of the memory in pages of 64 KiB.
        import_memory: whether the module imports its memory, as "memory" of the module "env", instead of exporting it.
        relaxed_simd: whether the module may have relaxed SIMD instructions.

    Raises:
        ModuleNotFoundError: if `ziglang` is not installed.
        RuntimeError: if the compiler fails, which is a defect of funcnet.
    """
    try:
        importlib.import_module("ziglang")
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "to_wasm: the compiler is not installed; expected the package ziglang, got none. "
            'Write pip install "funcnet[export]".'
        ) from error
    memory = ["-Wl,--import-memory"] if import_memory else ["-Wl,--export-memory"]
    with tempfile.TemporaryDirectory() as folder:
        file, out = Path(folder, "module.c"), Path(folder, "module.wasm")
        file.write_text(source, encoding="utf-8")
        size = f"-Wl,--initial-memory={pages * 65536}"
        machine = [*_MACHINE, "-mrelaxed-simd"] if relaxed_simd else _MACHINE
        flags = [*machine, *_LANGUAGE, *_LIBRARY, *_LINKER, *memory, size]
        command = [sys.executable, "-m", "ziglang", "cc", *flags, "-o", str(out), str(file)]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode:
            raise RuntimeError(f"to_wasm: the C compiler failed:\n{result.stderr[:4000]}")
        return out.read_bytes()
