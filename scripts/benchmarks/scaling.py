"""Compile BERT-large's pretraining step for 8 to 1,736 devices, and predict its speed on nodes of H200 GPUs.

    python scripts/benchmarks/scaling.py --write docs/scaling.md --weak weak_scaling.json

Each step is compiled in a separate process for CPU devices, and is not run: the batch and the state are shapes with
shardings. All devices of a mesh run the same program, so the program for 1,024 devices is not larger than that for 8.
The page contains, for each mesh: the bytes that one device sends, by collective; the memory of a device; floating-point
operations, as XLA counts them and by formula; the time to compile. A model then predicts the time of a step from the
published speeds of the hardware, and compares it with published runs of MLPerf. The page states what it assumes.

The collectives are those of the program after XLA's partitioner (`xla_dump_hlo_pass_re=spmd-partitioning`), because
XLA for CPU later converts bfloat16 to float32. An all-reduce of which each device uses only its own slice counts as a
reduce-scatter, as XLA for GPU makes it. `--weak` adds the table of `weak_scaling.py --out`. Without `--write`, the page
is printed. `scaling_page.md`, next to this file, has its text. All of it takes 15 to 30 minutes and 2 GB of memory.
"""

import argparse
import collections
import dataclasses
import json
import math
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

NODE = 8  # GPUs of a node
MOST = 2048  # CPU devices of a process; of more, XLA says "multiprocess computations aren't implemented"
PEAK, HBM, NVLINK, NIC = 989e12, 4.8e12, 450e9, 50e9  # H200: dense bf16 FLOP/s; bytes/s; a direction; 400 Gb/s a GPU
FRACTION = 0.5  # of the peak: MLPerf's own run on 8 H200 GPUs reaches 0.49 PFLOP/s a GPU by the formula below
UPDATE = 28  # bytes a parameter: LAMB reads the gradient, the parameter and two moments, and writes the last three
BACKWARD = 2 / 3  # share of the matrix products in the backward pass
PACKED, REAL = 1.999, 254.5  # MLPerf: sequences in a row of 512 positions, and real tokens of a sequence
PUBLISHED = (  # devices, rows a GPU in NVIDIA's configuration files, sequences/s a GPU, machine
    (8, 48, "999", "8 H200, v4.1"),
    (64, 36, "831–909", "64 H100"),
    (3472, 2, "228", "3,472 H100"),
)
MESHES = {
    8: ("data=8", "fsdp=8", "data=2,fsdp=2,tensor=2", "tensor=8"),
    64: ("data=64", "data=8,fsdp=8", "fsdp=8,tensor=8"),
    1024: ("data=1024", "data=128,fsdp=8", "data=16,fsdp=8,tensor=8"),
}
Results = dict[str, dict[str, dict[str, Any]]]  # {mesh: {type: what compile_case returns}}


@dataclasses.dataclass(frozen=True)
class Case:
    """A step to compile: `rows` of `length` positions for each device, `masked` of them in the head."""

    mesh: str
    rows: int
    dtype: str
    model: str
    length: int
    masked: int
    words: int = 30528  # a multiple of 64

    @property
    def devices(self) -> int:
        return math.prod(map(int, re.findall(r"=(\d+)", self.mesh)))


# ------------------------------------------------------------------------------------------------------- one program


def compile_case(case: Case, dump: str) -> dict[str, Any]:
    """Compile a step in this process, and describe it. `dump` is a folder for the partitioned program."""
    import jax
    import numpy as np

    from funcnet import optim, parallel, train, tree
    from funcnet.models import bert
    from funcnet.tasks.pretraining.objective import counts, make_objective
    from funcnet.tasks.pretraining.task import SEQUENCES
    from funcnet.train.precision import BFLOAT16, FLOAT32

    net = bert.BertForPreTraining(bert.BertConfig.preset(case.model, vocab_size=case.words))
    layout = parallel.make_layout(case.mesh).for_net(net, SEQUENCES)
    optimizer = optim.lamb(optim.lamb_schedule(6e-3, 2000, 7000))
    placed = lambda leaf, sharding: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding)
    state = jax.eval_shape(lambda: train.create(*net.init(jax.random.key(0)), optimizer))
    shardings = layout.shardings(state)
    state = jax.tree.map(placed, state, shardings)
    own = lambda leaf: int(np.prod(leaf.sharding.shard_shape(leaf.shape)))
    rows = case.rows * case.devices
    entries = lambda *shape, dtype=np.int32: jax.ShapeDtypeStruct((rows, *shape), dtype, sharding=layout.by_rows)
    batch = {name: entries(case.length) for name in ("input_ids", "attention_mask", "token_type_ids")}
    batch |= {name: entries(case.masked) for name in ("masked_positions", "masked_ids")}
    batch |= {"masked_weights": entries(case.masked, dtype=np.float32), "next_sentence_label": entries()}
    key = placed(jax.eval_shape(lambda: jax.random.key(0)), layout.whole)
    precision = BFLOAT16 if case.dtype == "bfloat16" else FLOAT32
    step = train.make_step(make_objective(net), counts, optimizer, precision=precision)

    start = time.perf_counter()
    jitted: Any = parallel.parallelize(step, layout, state=state, donate=True)
    lowered = jitted.lower(state, batch, key)
    traced = time.perf_counter()
    options = {"xla_dump_to": dump, "xla_dump_hlo_pass_re": "spmd-partitioning", "xla_dump_hlo_module_re": "jit_step"}
    compiled = lowered.compile(compiler_options=options)
    done = time.perf_counter()
    memory = compiled.memory_analysis()
    partitioned = next(Path(dump).glob("*after_spmd-partitioning*.txt")).read_text("utf-8")
    return {
        "trace": traced - start,
        "compile": done - traced,
        "parameters": sum(own(leaf) for leaf in jax.tree.leaves(state.params)),
        "all parameters": sum(leaf.size for leaf in tree.flatten(state.params).values()),
        "arguments": memory.argument_size_in_bytes,
        "temporaries": memory.temp_size_in_bytes,
        "output": memory.output_size_in_bytes,
        "alias": memory.alias_size_in_bytes,
        "flops": compiled.cost_analysis()["flops"],
        "traffic": traffic(as_on_gpu(partitioned)),
        "unsliced": sum(parallel.count_collectives(partitioned).sent.values()),
        "on CPU": sum(parallel.count_collectives(compiled).sent.values()),
    }


def as_on_gpu(text: str) -> str:
    """Write `reduce-scatter` for each all-reduce of a partitioned program of which each device uses its own n-th part.

    The partitioner sums a gradient over the n devices of an axis and lets each take its part with a dynamic-slice. XLA
    for GPU makes one reduce-scatter of this (its pass ReduceScatterCreator). The shape of the result does not matter.
    """
    from funcnet import parallel

    devices = {one.name: max(map(len, one.groups)) for one in parallel.count_collectives(text).operations if one.groups}
    entries = lambda sizes: math.prod(int(size) for size in sizes.split(",") if size)
    whole = dict(re.findall(r"%(all-reduce[\w.\-]*) = \w+\[([\d,]*)\]", text))
    uses: dict[str, list[int]] = {}  # entries that each use takes, or 0 if it is no slice
    for line in text.splitlines():
        body = line.partition(" = ")[2]
        slice_of = re.match(r"\w+\[([\d,]*)\]\S* dynamic-slice\(", body)
        for name in set(re.findall(r"%(all-reduce[\w.\-]*)", body)):
            uses.setdefault(name, []).append(entries(slice_of[1]) if slice_of else 0)
    sliced = {name for name in whole if uses.get(name) == [entries(whole[name]) / devices[name]]}

    def renamed(found: re.Match[str]) -> str:
        return found[0].replace(" all-reduce(", " reduce-scatter(") if found[1] in sliced else found[0]

    return re.sub(r"%(all-reduce[\w.\-]*) = \S+ all-reduce\(", renamed, text)


def traffic(text: str) -> list[tuple[str, float, int, float]]:
    """Return (kind, bytes/s with which a GPU sends to its group, executions, bytes that a GPU sends)."""
    from funcnet import parallel

    totals: dict[tuple[str, float], list[float]] = collections.defaultdict(lambda: [0, 0.0])
    speeds: dict[Any, float] = {}
    found = parallel.count_collectives(text)
    assert not found.unknown, found.unknown
    for one in found.operations:
        if one.groups not in speeds:
            speeds[one.groups] = min(map(speed, one.groups), default=NVLINK)
        total = totals[one.kind, speeds[one.groups]]
        total[0] += one.times
        total[1] += one.sent
    return [(kind, rate, int(count), sent) for (kind, rate), (count, sent) in sorted(totals.items())]


def speed(group: tuple[int, ...]) -> float:
    """Return the bytes/s with which each GPU of a group sends: NVLink in a node, else the adapters of its own GPUs.

    The rings of a group leave a node through the adapters of all its GPUs in that node, one ring through each.
    """
    nodes = collections.Counter(device // NODE for device in group)
    return NVLINK if len(nodes) == 1 else min(NVLINK, min(nodes.values()) * NIC)


def in_process(case: Case) -> dict[str, Any]:
    """Compile a case in a separate process, because the number of devices is fixed when JAX starts."""
    environment = {**os.environ, "JAX_PLATFORMS": "cpu"}
    environment["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={case.devices}"
    root = str(Path(__file__).parents[2])
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [root, environment.get("PYTHONPATH")]))
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, __file__, "--case", json.dumps(dataclasses.asdict(case)), "--dump", folder]
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"scaling.py: {case} does not compile:\n{done.stderr[-3000:]}")
    return json.loads(done.stdout.splitlines()[-1])


# --------------------------------------------------------------------------------------------------------- the model


def flops_per_token(model: str, words: int, length: float, masked: float) -> float:
    """Return the operations of a training step a token: 6 N + 12 L h s + 6 (h² + h V) m, with N = 12 L h²."""
    from funcnet.models.bert import PRESETS

    layers, width, _ = PRESETS[model]
    return 72 * layers * width**2 + 12 * layers * width * length + 6 * (width**2 + width * words) * masked


def predict(case: Case, found: dict[str, Any]) -> dict[str, float]:
    """Return seconds of a step and sequences/s a GPU of packed rows, without and with full overlap."""
    share = case.masked / case.length
    work = case.rows * PACKED * REAL * flops_per_token(case.model, case.words, REAL, share)
    compute = work / (FRACTION * PEAK)
    update = UPDATE * found["parameters"] / HBM
    exchange = sum(sent / rate for _, rate, _, sent in found["traffic"])
    none = compute + update + exchange
    full = compute + update + max(0.0, exchange - BACKWARD * compute)
    rates = {"slow": case.rows * PACKED / none, "fast": case.rows * PACKED / full}
    return {"compute": compute, "update": update, "exchange": exchange, "none": none, "full": full, **rates}


# ---------------------------------------------------------------------------------------------------------- the page


def markdown(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def exchanged(results: Results) -> str:
    kinds = ("all-reduce", "reduce-scatter", "all-gather", "collective-permute")
    rows = []
    for mesh, types in results.items():
        found = types.get("bfloat16") or types["float32"]
        by_kind = [sum(sent for kind, _, _, sent in found["traffic"] if kind == one) for one in kinds]
        total = {name: sum(sent for *_, sent in one["traffic"]) for name, one in types.items()}
        between = sum(sent for _, rate, _, sent in found["traffic"] if rate < NVLINK)
        numbers = [*by_kind, sum(by_kind), between, total.get("float32", float("nan"))]
        rows.append([f"`{mesh}`", *(f"{number / 1e6:,.0f}" for number in numbers)])
    return markdown(["mesh", *kinds, "all", "between nodes", "all, float32"], rows)


def stored(results: Results, case: Case) -> str:
    formula = case.rows * case.length * flops_per_token(case.model, case.words, case.length, case.masked / case.length)
    rows = []
    for mesh, types in results.items():
        each = lambda show, types=types: " / ".join(show(types[one]) for one in ("bfloat16", "float32") if one in types)
        state = each(lambda one: f"{one['arguments'] / 1e9:.2f}").split(" / ")[0]
        temporary = each(lambda one: f"{one['temporaries'] / 1e9:,.0f}")
        counted = each(lambda one: f"{one['flops'] / 1e12:.1f}")
        seconds = each(lambda one: f"{one['trace'] + one['compile']:.0f}")
        rows.append([f"`{mesh}`", state, temporary, counted, f"{formula / 1e12:.1f}", seconds])
    return markdown(["mesh", "state and batch", "temporary", "TFLOP, XLA", "formula", "seconds"], rows)


def predicted(results: Results, case: Case) -> str:
    rows = []
    for mesh, types in results.items():
        dtype = "bfloat16" if "bfloat16" in types else "float32"
        of = predict(dataclasses.replace(case, mesh=mesh), types[dtype])
        times = [f"{of[name] * 1e3:.1f}" for name in ("compute", "update", "exchange", "none", "full")]
        rows.append([f"`{mesh}`", *times, f"{of['slow']:,.0f}", f"{of['fast']:,.0f}"])
    ends = [f"{what}, {overlap} overlap" for what in ("step", "sequences/s") for overlap in ("no", "full")]
    return markdown(["mesh", "compute", "update", "exchange", *ends], rows)


def compared(found: list[tuple[Case, str, str, dict[str, Any]]]) -> str:
    rows = []
    for case, published, machine, one in found:
        of = predict(case, one)
        ends = [float(number) for number in published.split("–")]
        low, high = of["slow"] / max(ends), of["fast"] / min(ends)
        ratio = f"{low:.2f} to {high:.2f}"
        rows.append([machine, str(case.rows), published, f"{of['slow']:,.0f} to {of['fast']:,.0f}", ratio])
    return markdown(["run", "rows a GPU", "published", "predicted", "predicted / published"], rows)


class Kept:
    """The compiled cases, in a file if there is one, so that another run compiles only what is missing."""

    def __init__(self, file: Path | None):
        self.file = file
        self.known: dict[str, Any] = json.loads(file.read_text("utf-8")) if file and file.exists() else {}

    def __call__(self, case: Case) -> dict[str, Any]:
        name = json.dumps(dataclasses.asdict(case))
        if name not in self.known:
            self.known[name] = in_process(case)
            of = self.known[name]
            seconds = of["trace"] + of["compile"]
            print(
                f"{case.mesh}, {case.rows} rows, {case.dtype}: compiled in {seconds:.0f} s", file=sys.stderr, flush=True
            )
            if self.file:
                self.file.write_text(json.dumps(self.known, indent=1), "utf-8")
        return self.known[name]


def page(options: argparse.Namespace) -> str:
    """Return the text of docs/scaling.md: the template `scaling_page.md` with tables and numbers."""
    compiled = Kept(options.results)
    make = lambda mesh, rows, dtype: Case(mesh, rows, dtype, options.model, options.seq_len, options.masked)
    results: Results = {
        mesh: {dtype: compiled(make(mesh, options.rows, dtype)) for dtype in options.types} for mesh in options.meshes
    }
    published = []
    if options.published:
        mesh = lambda n: f"data={n if n <= MOST else n // 2}"  # the bytes, 2 (n - 1)/n, are the same within 0.03 %
        cases = [(make(mesh(n), rows, "bfloat16"), figure, machine) for n, rows, figure, machine in PUBLISHED]
        published = [(*one, compiled(one[0])) for one in cases]
    case = make(options.meshes[0], options.rows, options.types[0])
    every = [one for types in results.values() for one in types.values()]
    exact = [types["float32"] for types in results.values() if "float32" in types]
    gradients = 2 * every[0]["all parameters"] / 1e6
    largest = dict.fromkeys(("compute", "none", "full", "published"), float("nan"))
    if published:
        last, figure, _, found = published[-1]
        of = predict(last, found) | {"published": last.rows * PACKED / float(figure)}
        largest = {name: 1e3 * of[name] for name in largest}
    template = Path(__file__).with_name("scaling_page.md").read_text("utf-8")
    text = template.format(
        **dataclasses.asdict(case),
        **largest,
        node=NODE,
        exchanged=exchanged(results),
        differs=max((abs(one["unsliced"] / one["on CPU"] - 1) for one in exact), default=0),
        parameters=every[0]["all parameters"],
        gradients=gradients,
        ring=2 * 7 / 8 * gradients,
        fresh=max(one["output"] - one["alias"] for one in every),
        stored=stored(results, case),
        fraction=FRACTION,
        update=UPDATE,
        backward=BACKWARD,
        packed=PACKED,
        real=REAL,
        predicted=predicted(results, case),
        compared=compared(published) if published else "(not compiled)",
        weak=json.loads(options.weak.read_text("utf-8"))["text"] if options.weak else "",
    )
    return text.rstrip("\n") + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the page to this file")
    parser.add_argument("--weak", type=Path, metavar="FILE", help="add the table that weak_scaling.py --out wrote")
    parser.add_argument(
        "--results", type=Path, metavar="FILE", help="keep what was compiled in this file, and reuse it"
    )
    parser.add_argument("--meshes", nargs="+", default=[mesh for meshes in MESHES.values() for mesh in meshes])
    parser.add_argument("--types", nargs="+", choices=["bfloat16", "float32"], default=["bfloat16", "float32"])
    parser.add_argument("--model", default="large", help="size of the model")
    parser.add_argument(
        "--rows", type=int, default=48, help="rows for each device (default: as MLPerf's run on 8 GPUs)"
    )
    parser.add_argument("--seq-len", type=int, default=512, help="tokens of a row")
    parser.add_argument("--masked", type=int, default=76, help="masked positions of a row")
    parser.add_argument("--no-published", dest="published", action="store_false", help="no comparison with MLPerf")
    parser.add_argument("--case", help=argparse.SUPPRESS)
    parser.add_argument("--dump", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.case:
        print(json.dumps(compile_case(Case(**json.loads(options.case)), options.dump)))
        return
    text = page(options)
    if options.write:
        options.write.write_text(text, "utf-8")
    else:
        print(text)


if __name__ == "__main__":
    main()
