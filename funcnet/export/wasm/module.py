"""Compile a pure function of arrays to a WebAssembly module of a few kilobytes, plus its weights.

By default, the module imports nothing. Its memory is laid out at export, so that a host has nothing to allocate:

- `memory` is the exported memory. The weights begin at address 131072, and all other arrays follow.
- `input(i)` and `output(i)` return the address of the i-th input or output, or -1 if there is no i-th input or output.
- `run()` reads the inputs and writes the outputs. A call of `run` does not change the inputs.
- The custom section "funcnet" has names, shapes, dtypes and addresses in JSON (`description.py`), and the digest of the
  weights. JavaScript reads the section with `WebAssembly.Module.customSections(module, "funcnet")`.

A call in JavaScript:

    const {instance} = await WebAssembly.instantiate(bytes, {});
    const {memory, input, output, run} = instance.exports;
    new Int32Array(memory.buffer, input(0), 16).set(ids);
    run();
    const logits = new Float32Array(memory.buffer, output(0), 16 * 384);

If `to_wasm` gets several lengths, the module has functions for each length, such as `run_16`, `input_16` and
`output_16`. All lengths share the weights and the memory. With `weights="beside"`, the host copies the weights to their
address before the first run. With `weights="module"`, the weights are in a second module, which must be linked under
the name "weights". The module with the code then imports its memory from the module of the weights.
"""

import hashlib
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import jax
import numpy as np
from jax.typing import ArrayLike

from funcnet.export.check import ExportCheck, require_agreement
from funcnet.export.host.encoding import text
from funcnet.export.tracing import canonical
from funcnet.export.wasm.binary import CODE, IMPORT, assembled, custom, data_section, sections, weights_module
from funcnet.export.wasm.build import compiled
from funcnet.export.wasm.description import SECTION, ArrayPlace, EntryPoint, ModuleDescription, WeightsPlace
from funcnet.export.wasm.rules import RULES
from funcnet.export.wasm.runner import Runner
from funcnet.export.wasm.trace import trace
from funcnet.export.weights_path import weights_beside
from funcnet.files import write_bytes
from funcnet.loops.c_math import MATH
from funcnet.loops.constant_storage import Weights
from funcnet.loops.conv import IM2COL
from funcnet.loops.lowering import lowered
from funcnet.loops.matmul import MATMUL
from funcnet.loops.operations import ArrayValue, Block
from funcnet.loops.program import Kernels, Program
from funcnet.operators import native
from funcnet.tree import PyTree

__all__ = ["WasmExport", "to_wasm"]

_BASE = 131072  # below it are the stack and the compiler's constants
_PAGE = 65536


@dataclass(frozen=True)
class WasmExport:
    """An exported module, and the difference between its results and those of JAX.

    Args:
        wasm: the bytes of the module.
        weights: the bytes of the weights beside the module, or of the second module with the weights. None if the
            weights are inside the module.
        description: names, shapes, dtypes and addresses of the inputs and outputs, and the place of the weights.
        code_size: number of bytes in the module's code section.
        check: the difference between the module and the JAX function on the example arrays.
    """

    wasm: bytes
    weights: bytes | None
    description: ModuleDescription
    code_size: int
    check: ExportCheck

    def save(self, path: str | Path) -> list[Path]:
        """Write the module to `path`.

        Weights beside the module go to a file of the same name with the suffix `.weights`. A second module with the
        weights gets the suffix `.weights.wasm`.

        Returns:
            The files that were written.

        Raises:
            OSError: if a file cannot be written.
            ValueError: if `path` itself has the suffix of the weights.
        """
        path = Path(path)
        if self.weights is None:
            write_bytes(path, self.wasm)
            return [path]
        suffix = ".weights" if self.description.weights.where == "beside" else ".weights.wasm"
        other = weights_beside("WasmExport.save", path, suffix)
        write_bytes(other, self.weights)
        write_bytes(path, self.wasm)
        return [path, other]

    def runner(self) -> Runner:
        """Instantiate the module in `wasmtime`, and return it as a function of arrays."""
        return Runner(self.wasm, self.weights)


def to_wasm(
    function: Callable[..., Any],
    *example_arrays: ArrayLike,
    weights: Literal["inside", "beside", "module"] = "inside",
    lengths: Sequence[int] = (),
    axis: int = 1,
    import_memory: bool = False,
    relaxed_simd: bool = False,
) -> WasmExport:
    """Compile a pure function of arrays to WebAssembly, and compare the module with JAX on the example arrays.

    Args:
        function: a pure function of arrays. The arrays that the function closes over are the weights.
        *example_arrays: example arguments of the function: arrays of float32, bool, or integers of up to 32 bits, or
            trees of them. The module takes only arrays of these shapes. 64-bit numbers become 32-bit ones, as in JAX.
        weights: "inside" the module, "beside" it as plain bytes, or in a second "module".
        lengths: sizes of axis `axis` of the inputs. The module has a function for each of these sizes. The example
            arrays are cut or repeated to each size. By default, the module has one function, for the sizes of the
            example arrays.
        axis: the axis whose sizes are in `lengths`. Inputs with fewer axes stay as they are.
        import_memory: whether the module imports its memory, as "memory" of the module "env", instead of exporting it.
        relaxed_simd: whether products of float32 use relaxed SIMD, which has one instruction for a multiplication and
            an addition. The instruction rounds once or twice, depending on the machine, so the last bits of results may
            differ between machines. The module needs an engine with relaxed SIMD: browsers since 2024 except Safari,
            wasmtime, Node 22.

    Returns:
        The module, and the difference between its results and those of JAX on the example arrays.

    Raises:
        ValueError: if `weights` is unknown, a length is repeated or not positive, the function has a primitive that is
            not supported, draws random numbers or uses a dtype that is not supported, or the results differ from those
            of the JAX function.
        ModuleNotFoundError: if `ziglang` or `wasmtime` is not installed.
        RuntimeError: if the C compiler fails, which is a defect of funcnet.

    Example:
        >>> import jax.numpy as jnp
        >>> export = to_wasm(lambda x: jnp.tanh(x @ jnp.ones((3, 2))), jnp.ones((4, 3)))
        >>> export.check.largest < 1e-6, export.runner()(np.zeros((4, 3), np.float32))[0].shape
        (True, (4, 2))
    """
    if weights not in ("inside", "beside", "module"):
        raise ValueError(f"to_wasm: weights has an unknown value; expected inside, beside or module, got {weights!r}.")
    if any(n < 1 for n in lengths) or len({*lengths}) < len(lengths):
        raise ValueError(
            f"to_wasm: lengths has wrong values; expected positive numbers, each once, got {tuple(lengths)}."
        )
    example_arrays = jax.tree.map(_example, example_arrays)
    sets = [_resized(example_arrays, n, axis) for n in lengths] or [example_arrays]  # the examples for each length
    store, kernels = Weights(), Kernels()
    traced = [trace(function, examples, RULES) for examples in sets]
    programs = [lowered(block, store, kernels) for block in traced]
    built = [_build(function, *parts) for parts in zip(sets, traced, programs, strict=True)]
    # The addresses in `built` count from the end of the weights. Only one length runs at a time, so the arrays of all
    # lengths share one part of the memory.
    start = _BASE + store.size
    pages = -(-(start + max(size for *_, size in built)) // _PAGE)
    names = [f"_{n}" for n in lengths] or [""]
    code = [_HEAD.replace("BASE", str(_BASE)).replace("SIZE", str(store.size)), MATH, MATMUL, IM2COL, kernels.source()]
    entries = []
    known: list[int | None] = [*lengths] or [None]
    for name, length, (source, inputs, outputs, _) in zip(names, known, built, strict=True):
        places = [
            tuple(ArrayPlace(p.name, p.shape, p.dtype, p.address + start) for p in ps) for ps in (inputs, outputs)
        ]
        entries.append(EntryPoint(f"run{name}", length, *places))
        code.append(_function(name, source, *places))
    module = compiled("".join(code), pages, import_memory or weights == "module", relaxed_simd)
    memory = "weights.memory" if weights == "module" else "env.memory" if import_memory else "exported"
    data = store.data()
    where = WeightsPlace(weights, _BASE, len(data), hashlib.sha256(data).hexdigest())
    description = ModuleDescription(1, memory, pages, where, tuple(entries))
    note = custom(SECTION, description.to_json())
    beside: bytes | None = None
    if weights == "inside":
        module = data_section(module, _BASE, data) if data else module
    else:
        beside = data
    if weights == "module":
        beside = weights_module(_BASE, data, pages, custom(SECTION + ".weights", where.sha256.encode()))
        module = _imported_from(module, "weights")
    parts = sections(module)
    module = assembled([*parts, note])  # last: the other steps rewrite the module
    code_size = sum(len(content) for kind, content in parts if kind == CODE)
    check = _checked(Runner(module, beside), function, sets)
    return WasmExport(module, beside, description, code_size, check)


def _build(function: Callable[..., Any], examples: Sequence[Any], block: Block, program: Program) -> tuple:
    source, offsets, size = program.source(program.lives(block.inputs, block.outputs))
    outputs = jax.eval_shape(function, *examples)
    return (
        source,
        _places(_argument_names(function, examples), block.inputs, offsets),
        _places(_names(outputs, "output"), block.outputs, offsets),
        size,
    )


def _places(names: Sequence[str], values: Sequence[ArrayValue], offsets: dict[ArrayValue, int]) -> list[ArrayPlace]:
    return [ArrayPlace(n, v.shape, str(v.dtype), offsets[v]) for n, v in zip(names, values, strict=True)]


def _names(tree: PyTree, root: str) -> list[str]:
    """Return a dotted name for each array of a tree, such as "output.logits"."""
    paths = jax.tree_util.tree_flatten_with_path(tree)[0]
    return [".".join([*([root] if root else []), *(_key(k) for k in path)]) for path, _ in paths]


def _key(key: object) -> str:
    for name in ("key", "idx", "name"):
        if hasattr(key, name):
            return str(getattr(key, name))
    return str(key)


def _argument_names(function: Callable[..., Any], examples: Sequence[Any]) -> list[str]:
    try:
        known = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        known = []
    fixed = [p.name for p in known if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    names = fixed + [f"input{i}" for i in range(len(fixed), len(examples))]
    return [name for root, one in zip(names, examples, strict=False) for name in _names(one, root)]


def _example(array: Any) -> Any:
    if hasattr(array, "dtype") and jax.numpy.issubdtype(array.dtype, jax.dtypes.prng_key):
        return array  # which the trace refuses
    return canonical(array)


def _resized(examples: Sequence[Any], length: int, axis: int) -> tuple[Any, ...]:
    def one(x: ArrayLike) -> Any:
        x = np.asarray(x)
        return np.take(x, np.arange(length) % x.shape[axis], axis) if x.ndim > axis else x

    return tuple(jax.tree.map(one, examples))


_HEAD = """#include <wasm_simd128.h>
#define WEIGHTS BASE
#define ARRAYS (WEIGHTS + SIZE)
"""


def _function(name: str, source: str, inputs: Sequence[ArrayPlace], outputs: Sequence[ArrayPlace]) -> str:
    def table(what: str, places: Sequence[ArrayPlace]) -> str:
        cases = "".join(f"case {i}: return {p.address};" for i, p in enumerate(places))
        export = f'__attribute__((export_name("{what}{name}")))'
        return f"{export} int {what}{name}(int i) {{ switch (i) {{ {cases} }} return -1; }}\n"

    run = f'__attribute__((export_name("run{name}"))) void run{name}(void) {{\n{source}}}\n'
    return table("input", inputs) + table("output", outputs) + run


def _imported_from(module: bytes, name: str) -> bytes:
    """Return a module that imports its memory from the module `name` instead of "env"."""
    parts = sections(module)
    return assembled([(kind, c.replace(text("env"), text(name), 1) if kind == IMPORT else c) for kind, c in parts])


def _checked(runner: Runner, function: Callable[..., Any], sets: Sequence[Sequence[Any]]) -> ExportCheck:
    checks = []
    for examples, entry in zip(sets, runner.description.entries, strict=True):
        with native.allowed(False):
            program = jax.make_jaxpr(function)(*examples)
        # The weights are arguments, because XLA would spend minutes on computing with them if they were constants.
        run = jax.jit(lambda weights, *inputs, program=program: jax.core.eval_jaxpr(program.jaxpr, weights, *inputs))
        expected = run(program.consts, *jax.tree.leaves(examples))
        got = runner(*[np.asarray(x) for x in jax.tree.leaves(examples)])
        names = [place.name for place in entry.outputs]
        checks.append(require_agreement("to_wasm", program.jaxpr, names, got, expected))
    return max(checks, key=lambda check: check.largest)
