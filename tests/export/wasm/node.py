"""Run an exported module in Node with nothing but what its custom section says."""

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from funcnet.export.wasm.description import ModuleDescription

_SCRIPT = """
import fs from "node:fs";
const [module, weights, inputs, outputs, length] = process.argv.slice(2);
const compiled = await WebAssembly.compile(fs.readFileSync(module));
const section = WebAssembly.Module.customSections(compiled, "funcnet")[0];
const description = JSON.parse(new TextDecoder().decode(section));
const imports = {};
if (description.weights.where === "module") {
  const other = await WebAssembly.instantiate(fs.readFileSync(weights), {});
  imports.weights = {memory: other.instance.exports.memory};
}
if (description.memory === "env.memory") imports.env = {memory: new WebAssembly.Memory({initial: description.pages})};
const {exports} = await WebAssembly.instantiate(compiled, imports);
const memory = exports.memory ?? imports.weights?.memory ?? imports.env.memory;
if (description.weights.where === "beside")
  new Uint8Array(memory.buffer).set(fs.readFileSync(weights), description.weights.address);
const entry = description.entries.find(e => e.length === JSON.parse(length));
const bytes = new Uint8Array(memory.buffer), given = fs.readFileSync(inputs);
const width = {float32: 4, int32: 4, uint32: 4, int16: 2, uint16: 2};
const size = p => p.shape.reduce((a, b) => a * b, 1) * (width[p.dtype] ?? 1);
const suffix = entry.run.slice(3);
let at = 0;
entry.inputs.forEach((p, i) => {
  bytes.set(given.subarray(at, at += size(p)), exports["input" + suffix](i));
});
exports[entry.run]();
fs.writeFileSync(outputs, Buffer.concat(entry.outputs.map((p, i) => {
  const address = exports["output" + suffix](i);
  return Buffer.from(bytes.slice(address, address + size(p)));
})));
console.log(WebAssembly.Module.imports(compiled).map(i => `${i.module}.${i.name}`).join(" "));
"""


def run(files: Sequence[Path], arrays: Sequence[np.ndarray], length: int | None = None) -> tuple[list, str]:
    """Return the outputs, and the imports that the engine saw.

    Args:
        files: the module, and the file of its weights if there is one.
        arrays: the inputs.
        length: the length whose function is called.
    """
    folder = files[0].parent
    script, inputs, outputs = folder / "run.mjs", folder / "inputs.bin", folder / "outputs.bin"
    script.write_text(_SCRIPT)
    inputs.write_bytes(b"".join(np.ascontiguousarray(a).tobytes() for a in arrays))
    names = [files[0], files[1] if len(files) > 1 else "", inputs, outputs, json.dumps(length)]
    done = subprocess.run(["node", script, *map(str, names)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    raw, at, results = outputs.read_bytes(), 0, []
    entries = {entry.length: entry for entry in ModuleDescription.of(files[0].read_bytes()).entries}
    for place in entries[length].outputs:
        count = int(np.prod(place.shape))
        results.append(np.frombuffer(raw, place.dtype, count, at).reshape(place.shape))
        at += count * np.dtype(place.dtype).itemsize
    return results, done.stdout.strip()
