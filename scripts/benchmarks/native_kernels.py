"""The kernels of `funcnet.operators.native` beside torch eager and beside XLA: forward and backward, in three sizes.
The last rows are operations that have no kernel of their own, because XLA is fast enough.

    python scripts/benchmarks/native_kernels.py                   all kernels, some four minutes
    python scripts/benchmarks/native_kernels.py --only Conv       those whose line contains a text

Each case computes the result and the gradients of all arguments from one gradient of the result: funcnet's in one
compiled program with kernels, and in one without, and torch's eager. The three take turns in one process, and in going
first. First, the results and gradients of both programs are compared with torch. A line has the median of the
kernel time, its rate, and the median of its ratio to the time of torch in the same turn with quartiles, and the same
for XLA. The rate is that of the products of a convolution (GFLOP/s), and that of the memory which the others must read
and write at least (GB/s). The first line has what this machine reaches: in one large product, and in a copy.
"""

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jax
import numpy as np
import torch
import torch.nn.functional as TF

from funcnet import functional as F
from funcnet.operators import native

TOLERANCE = 2e-5


@dataclass
class Case:
    """A function of both libraries.

    Attributes:
        name: its name in both.
        shapes: shapes of the array arguments.
        settings: the other arguments.
        title: a name for the table.
        has_kernel: whether the package has a kernel for it.
    """

    name: str
    shapes: tuple[tuple[int, ...], ...]
    settings: dict[str, Any] = field(default_factory=dict)
    title: str = ""
    has_kernel: bool = True

    def __str__(self) -> str:
        shapes = " ".join("x".join(map(str, shape)) for shape in self.shapes[:2])
        return f"{self.title or self.name} {shapes}"

    def call(self, library: Any, arrays: Any) -> Any:
        """Call the function of a library. The vectors of a normalisation are named, because their places differ."""
        if self.name in COMPOSED:
            return COMPOSED[self.name](library, *arrays)
        names = ("weight", "bias") if "norm" in self.name else ()
        named = dict(zip(names, arrays[1:], strict=False))
        return getattr(library, self.name)(*(arrays[:1] if names else arrays), **named, **self.settings)

    def rate(self, seconds: float) -> str:
        """Return its rate in `seconds`."""
        result = arguments(self)[1]
        if self.name.startswith("conv"):
            products = 3 * 2 * result.size * np.prod(self.shapes[1][1:])  # forward, and two gradients
            return f"{products / seconds / 1e9:4.0f} GFLOP/s"
        large = sum(int(np.prod(shape)) for shape in self.shapes if len(shape) > 1)
        # Forward reads the arrays, and writes the result. Backward reads both and writes the gradients of the arrays.
        return f"{4 * (3 * large + 2 * result.size) / seconds / 1e9:4.0f} GB/s"


def cross_entropy(library: Any, x: Any) -> Any:
    labels = np.arange(len(x)) % x.shape[1]
    return library.cross_entropy(x, torch.tensor(labels) if library is TF else labels.astype(np.int32))


def dropped(library: Any, x: Any) -> Any:
    """Dropout. The key of funcnet's mask depends on x, or XLA would draw the mask when it compiles."""
    if library is TF:
        return TF.dropout(x, 0.1)
    return F.dropout(x, 0.1, rng=jax.random.fold_in(jax.random.key(0), x.reshape(-1)[0].astype("int32")))


COMPOSED: dict[str, Callable[..., Any]] = {
    "bias + gelu": lambda library, x, bias: library.gelu(x + bias),
    "cross entropy": cross_entropy,
    "dropout": dropped,
    "dropout + add + layer_norm": lambda library, x, y, weight, bias: library.layer_norm(
        dropped(library, x) + y, weight.shape, weight, bias
    ),
}


def norm(name: str, shape: tuple[int, ...], **settings: Any) -> Case:
    """A normalisation with weight and bias."""
    size = shape[1:2] if name == "group_norm" else shape[-1:]
    vectors = 1 if name == "rms_norm" else 2
    if name != "group_norm":
        settings["normalized_shape"] = size
    return Case(name, (shape, *[size] * vectors), settings)


def conv(title: str, x: tuple[int, ...], w: tuple[int, ...], stride: int = 1, groups: int = 1) -> Case:
    """A convolution with the usual padding."""
    settings = {"stride": stride, "padding": w[-1] // 2, "groups": groups}
    return Case(f"conv{len(x) - 2}d", (x, w), settings, title)


CASES = [
    *(norm("layer_norm", shape) for shape in ((512, 256), (4096, 768), (2048, 4096))),
    *(norm("rms_norm", shape) for shape in ((512, 256), (4096, 768), (2048, 4096))),
    *(norm("group_norm", shape, num_groups=32) for shape in ((2, 64, 28, 28), (8, 64, 56, 56), (8, 256, 56, 56))),
    *(Case("softmax", (shape,), {"dim": -1}) for shape in ((512, 128), (8, 12, 128, 128), (1024, 8192))),
    *(Case("log_softmax", (shape,), {"dim": -1}) for shape in ((512, 128), (1024, 1000), (160, 30522))),
    *(
        conv("conv 3x3", (8, channels, size, size), (channels, channels, 3, 3))
        for channels, size in ((64, 56), (128, 28), (512, 7))
    ),
    *(
        conv("conv 1x1", (8, inside, size, size), (out, inside, 1, 1))
        for inside, out, size in ((64, 256, 56), (256, 64, 28), (512, 2048, 7))
    ),
    *(
        conv(f"conv depthwise {size}x{size}", (8, channels, width, width), (channels, 1, size, size), stride, channels)
        for channels, width, size, stride in ((96, 56, 3, 1), (96, 112, 3, 2), (144, 56, 5, 2), (480, 14, 5, 1))
    ),
    conv("conv stem", (8, 3, 224, 224), (32, 3, 3, 3), 2),
    conv("conv stem", (8, 3, 224, 224), (64, 3, 7, 7), 2),
    conv("conv groups", (8, 128, 28, 28), (128, 4, 3, 3), 1, 32),
    conv("conv 1d", (16, 64, 512), (64, 64, 3)),
    conv("conv 3d", (2, 16, 16, 28, 28), (16, 16, 3, 3, 3)),
    *(Case("dropout + add + layer_norm", ((n, d), (n, d), (d,), (d,))) for n, d in ((512, 256), (4096, 768))),
    *(Case("gelu", ((n, d),), has_kernel=False) for n, d in ((512, 1024), (4096, 1024), (4096, 3072))),
    *(Case("bias + gelu", ((n, d), (d,)), has_kernel=False) for n, d in ((512, 1024), (4096, 1024), (4096, 3072))),
    *(Case("dropout", ((n, d),), has_kernel=False) for n, d in ((512, 256), (4096, 256), (4096, 768))),
    *(Case("cross entropy", ((n, d),), has_kernel=False) for n, d in ((512, 128), (1024, 1000), (160, 30522))),
]


def arguments(case: Case) -> tuple[list[np.ndarray], np.ndarray]:
    """The arrays of a case, and a gradient of its result."""
    draw = np.random.default_rng(0)
    arrays = [draw.normal(size=shape).astype(np.float32) for shape in case.shapes]
    shape = case.call(TF, [torch.tensor(one) for one in arrays]).shape
    return arrays, draw.normal(size=tuple(shape)).astype(np.float32)


def torch_run(case: Case) -> Callable[[], list[Any]]:
    """Torch's result and gradients."""
    arrays, gradient = arguments(case)
    given, gradient = [torch.tensor(one, requires_grad=True) for one in arrays], torch.tensor(gradient)

    def run() -> list[Any]:
        y = case.call(TF, given)
        return [y.detach(), *torch.autograd.grad(y, given, gradient)]

    return run


def jax_run(case: Case, kernels: bool) -> Callable[[], list[Any]]:
    """Funcnet's result and gradients."""
    arrays, gradient = arguments(case)

    def both(gradient: Any, *arrays: Any) -> Any:
        y, back = jax.vjp(lambda *arrays: case.call(F, arrays), *arrays)
        return [y, *back(gradient)]

    given = jax.device_put([gradient, *arrays])
    with native.allowed(kernels):
        compiled = jax.jit(both).lower(*given).compile()
        if kernels and case.has_kernel and "funcnet" not in compiled.as_text():
            raise SystemExit(f"{case}: no kernel is used: {native.describe()}")
    return lambda: jax.block_until_ready(compiled(*given))


def measure(runs: dict[str, Callable[[], Any]], turns: int, budget: float) -> dict[str, np.ndarray]:
    """{contender: seconds of each turn}."""
    for run in runs.values():
        run()
    start = time.perf_counter()
    for run in runs.values():
        run()
    calls = max(1, int(budget / turns / (time.perf_counter() - start)))
    times: dict[str, list[float]] = {name: [] for name in runs}
    for turn in range(turns):
        for name in list(runs) if turn % 2 == 0 else list(runs)[::-1]:
            start = time.perf_counter()
            for _ in range(calls):
                runs[name]()
            times[name].append((time.perf_counter() - start) / calls)
    return {name: np.array(values) for name, values in times.items()}


def check(case: Case, runs: dict[str, Callable[[], Any]]) -> None:
    """Compare all results with torch's."""
    if "dropout" in case.name:
        return
    expected = [one.numpy() for one in runs["torch"]()]
    for name in ("kernel", "XLA"):
        for found, wanted in zip(runs[name](), expected, strict=True):
            error = np.abs(found - wanted).max() / np.abs(wanted).max()
            if not error < TOLERANCE:
                raise SystemExit(f"{case}: {name} differs from torch by {error:.1e} of the largest entry.")


def peaks() -> str:
    """Return the rates that this machine reaches."""
    square, large = np.ones((2048, 2048), np.float32), jax.numpy.ones(1 << 24)
    copy, given = jax.jit(lambda x: x + 1), torch.tensor(square)
    runs = {"product": lambda: given @ given, "copy": lambda: jax.block_until_ready(copy(large))}
    best = {name: float(times.min()) for name, times in measure(runs, 9, 1.0).items()}
    product, copied = 2 * len(square) ** 3 / best["product"] / 1e9, 2 * large.nbytes / best["copy"] / 1e9
    return f"This machine: {product:.0f} GFLOP/s in a product, {copied:.0f} GB/s in a copy of {large.nbytes >> 20} MB"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="cases whose line contains this text")
    parser.add_argument("--turns", type=int, default=11, help="how often the three take turns")
    parser.add_argument("--budget", type=float, default=5.0, help="seconds of measuring a case")
    parser.add_argument("--json", type=Path, help="a file for the ratios")
    options = parser.parse_args()
    print(peaks())
    print(f"{'case':54} {'kernel':>9} {'rate':>13} {'kernel / torch':>24} {'XLA / torch':>24}")
    records = []
    for case in [one for one in CASES if options.only.lower() in str(one).lower()]:
        runs = {"kernel": jax_run(case, True), "torch": torch_run(case), "XLA": jax_run(case, False)}
        check(case, runs)
        times = measure(runs, options.turns, options.budget)
        record: dict[str, Any] = {"case": str(case), "milliseconds": float(np.median(times["kernel"]) * 1e3)}
        shown = []
        for name in ("kernel", "XLA"):
            low, middle, high = record[name] = np.percentile(times[name] / times["torch"], [25, 50, 75]).tolist()
            shown.append(f"{middle:6.2f} ({low:5.2f} to {high:5.2f})")
        rate = case.rate(record["milliseconds"] / 1e3)
        print(f"{case!s:54} {record['milliseconds']:6.2f} ms {rate:>13} {shown[0]:>24} {shown[1]:>24}", flush=True)
        records.append(record)
    if options.json:
        options.json.write_text(json.dumps(records, indent=1) + "\n")


if __name__ == "__main__":
    main()
