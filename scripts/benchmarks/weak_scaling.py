"""Measure a pretraining step by two processes over Gloo against one process with the same number of rows.

    python scripts/benchmarks/weak_scaling.py --out weak_scaling.json

The step is that of `funcnet pretrain` on the default corpus. Each process has one core of its own (its affinity, set
before JAX starts) and XLA's matrix products use one thread. For each mesh of two devices, three settings take turns,
and in going first:

- alone: one process and one core; the other core is idle;
- two at once: two such processes that do not communicate, which shows what the cores share, such as memory bandwidth;
- together: two processes of one run on the mesh, with twice the rows in all, so that each does as much work as alone.

The processes stay alive and wait while another setting has its turn. The table contains the median seconds of a step;
the ratio of the time of one process to that of two together, as median and quartiles over the turns (1 is perfect), in
wall time and in CPU time, which depends less on other work on the machine and does not contain waiting; and the bytes
that a process sends per step, as `parallel.count_collectives` reads them in the compiled program, and by theory.
`--out` writes the table for `scaling.py --weak`.
"""

import argparse
import contextlib
import itertools
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

MESHES = ("data=2", "fsdp=2", "tensor=2", "context=2")
SETTINGS = ("alone", "two at once", "together")
MARK = "weak_scaling: "
NOTES = """By theory, with n = 2 processes, P parameters, L layers and B x T x D hidden states, of 4 bytes each:

- `data`: 2 (n - 1)/n P, the sum of the gradients. XLA also sums the gradient of the lookup of words on its own.
- `fsdp`: 3 (n - 1)/n P, for gathering parameters forward and backward and a reduce-scatter of gradients. XLA gathers
  once, and XLA for CPU sums whole gradients as in `data`.
- `tensor`: 4 L · 2 (n - 1)/n B T D, for four sums per layer. XLA sums the gradients through query, key and value one by
  one.
- `context`: (6 n - 4) L B T D/n in a ring: keys and values go to n - 1 devices forward and again backward, and their
  gradients to all n; and as `data`. With 2 processes, XLA sends keys and values once for both passes."""


# ---------------------------------------------------------------------------------------------------------- a process


def work(options: argparse.Namespace) -> None:
    """Run in a process: compile the step, print its bytes, then make the steps that standard input asks for."""
    os.sched_setaffinity(0, {options.core})
    os.environ |= {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false", "OMP_NUM_THREADS": "1"}
    import jax

    from funcnet import optim, parallel, train
    from funcnet.models import bert
    from funcnet.tasks.pretraining.objective import counts, make_objective
    from funcnet.tasks.pretraining.task import SEQUENCES
    from funcnet.tasks.pretraining_data import open_data

    count = 1 if options.coordinator is None else 2
    if options.coordinator is not None:
        parallel.join_processes(options.coordinator, count, options.index, where="weak_scaling.py")
    data = open_data(options.data, seq_len=options.seq_len, seed=0)
    words = data.tokenizer.get_vocab_size()
    net = bert.BertForPreTraining(bert.BertConfig.preset(options.model, vocab_size=words))
    layout = parallel.make_layout(options.mesh).for_net(net, SEQUENCES)
    optimizer = optim.bert_adamw(optim.warmup_linear_decay(1e-4, 100, 10_000))
    params, buffers = jax.jit(net.init)(jax.random.key(0))
    numbers = sum(leaf.size for leaf in jax.tree.leaves(params))
    state, key = layout.place(train.create(params, buffers, optimizer)), layout.place(jax.random.key(0))
    step = train.make_step(make_objective(net), counts, optimizer)
    rows = data.train_batches(options.rows * count).batches(0)
    batches = [layout.shard(one) for one in itertools.islice(rows, 4)]
    jitted: Any = parallel.parallelize(step, layout, state=state, donate=True)
    run = jitted.lower(state, batches[0], key).compile()
    found = parallel.count_collectives(run)
    answer({"sent": found.sent, "counts": found.counts, "unknown": found.unknown, "parameters": numbers})
    upcoming = itertools.cycle(batches)
    for line in sys.stdin:
        wall, cpu = time.perf_counter(), time.process_time()
        for _ in range(int(line)):
            state, metrics = run(state, next(upcoming), key)
        jax.block_until_ready((state, metrics))
        answer([time.perf_counter() - wall, time.process_time() - cpu])
    parallel.leave(0)


def answer(value: Any) -> None:
    """Print a value for the process that asked. Gloo also prints to standard output."""
    print(f"{MARK}{json.dumps(value)}", flush=True)


class Team:
    """Processes that make the same number of steps at the same time."""

    def __init__(self, cores: list[int], mesh: str, together: bool, arguments: list[str]):
        address = ["--coordinator", f"127.0.0.1:{free_port()}"] if together else []
        environment = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}
        root = str(Path(__file__).parents[2])
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, [root, environment.get("PYTHONPATH")]))
        command = [sys.executable, __file__, "--work", "--mesh", mesh, *address, *arguments]
        self.processes: list[Any] = [
            subprocess.Popen(
                [*command, "--core", str(core), "--index", str(index)],
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for index, core in enumerate(cores)
        ]

    def read(self, first: int | None = None) -> list[Any]:
        """Return the next answer of each process, or of the first ones."""
        found = []
        for process in self.processes[:first]:
            line = next((line for line in process.stdout if line.startswith(MARK)), None)
            if line is None:
                raise SystemExit("weak_scaling.py: a process has ended; see its message above.")
            found.append(json.loads(line.removeprefix(MARK)))
        return found

    def seconds(self, steps: int, first: int | None = None) -> list[float]:
        """Return (wall, CPU) seconds of a step: the larger number of the processes."""
        for process in self.processes[:first]:
            process.stdin.write(f"{steps}\n")
            process.stdin.flush()
        return [max(times) / steps for times in zip(*self.read(first), strict=True)]

    def end(self) -> None:
        for process in self.processes:
            with contextlib.suppress(OSError):
                process.stdin.close()
        for process in self.processes:
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


# ---------------------------------------------------------------------------------------------------------- the table


def theory(mesh: str, options: argparse.Namespace, parameters: int) -> float:
    """Return the bytes that each of two devices sends: P parameters and B x T x D hidden states, of 4 bytes each.

    - data: the sum of the gradients, 2 (n - 1)/n P;
    - fsdp: parameters, gathered forward and backward, and a reduce-scatter of the gradients: 3 (n - 1)/n P;
    - tensor: four sums of hidden states per layer, 4 L 2 (n - 1)/n B T D;
    - context: keys and values go to n - 1 devices forward and again backward, and their gradients to all n, where the
      last is their own: (6 n - 4) L B T D/n; and as data.
    """
    from funcnet.models.bert import PRESETS

    layers, width, _ = PRESETS[options.model]
    hidden = 2 * options.rows * options.seq_len * width
    numbers = {
        "data=2": parameters,
        "fsdp=2": 3 * parameters / 2,
        "tensor=2": 4 * layers * hidden,
        "context=2": 8 * layers * hidden / 2 + parameters,
    }
    return 4 * numbers[mesh]


def measure(mesh: str, single: Team, options: argparse.Namespace, cores: list[int], arguments: list[str]) -> Any:
    """Return the measurements of a mesh: (wall, CPU) seconds {setting: [of each turn]}, and what the step sends."""
    pair = Team(cores, mesh, True, arguments)
    try:
        facts = pair.read()[0]
        run = {
            "alone": lambda steps: single.seconds(steps, first=1),
            "two at once": single.seconds,
            "together": pair.seconds,
        }
        for name in SETTINGS:
            run[name](1)
        seconds: dict[str, list[list[float]]] = {name: [] for name in SETTINGS}
        for turn in range(options.turns):
            for name in (*SETTINGS[turn % 3 :], *SETTINGS[: turn % 3]):
                seconds[name].append(run[name](options.steps))
    finally:
        pair.end()
    return {"mesh": mesh, "seconds": seconds, "theory": theory(mesh, options, facts["parameters"]), **facts}


def section(rows: list[Any], load: float, options: argparse.Namespace) -> str:
    """Return the text for docs/scaling.md."""
    import numpy as np

    ratio = lambda top, bottom: "{1:.2f} ({0:.2f} to {2:.2f})".format(*np.percentile(top / bottom, [25, 50, 75]))
    lines = []
    for row in rows:
        alone, both, together = (np.array(row["seconds"][name])[:, 0] for name in SETTINGS)
        cpu = [np.array(row["seconds"][name])[:, 1] for name in ("alone", "together")]
        assert not row["unknown"], row["unknown"]
        numbers = [f"{np.median(one):.3f}" for one in (alone, both, together)]
        sent = [f"{number / 1e6:.1f}" for number in (sum(row["sent"].values()), row["theory"])]
        ratios = [ratio(alone, together), ratio(both, together), ratio(*cpu)]
        lines.append([f"`{row['mesh']}`", *numbers, *ratios, *sent])
    head = ["mesh", *(f"{name}, s" for name in SETTINGS)]
    head += ["alone / together", "two at once / together", "alone / together, CPU", "MB sent", "MB by theory"]
    table = [head, ["---", *["---:"] * (len(head) - 1)], *lines]
    setting = (
        f"BERT-{options.model} on real text, {options.rows} rows of {options.seq_len} tokens per process, AdamW, "
        "dropout 0.1, float32. Each process has one core of the CPU\nand one thread for matrix products, and exchanges "
        f"data by Gloo. {options.turns} turns of {options.steps} steps in each setting; median and quartiles of the "
        f"ratios,\nwhere 1 is perfect. The load average of the machine was {load:.1f} before the start, on "
        f"{os.cpu_count()} cores. `python scripts/benchmarks/weak_scaling.py --help`\nexplains the settings."
    )
    lines_of_table = "\n".join("| " + " | ".join(line) + " |" for line in table)
    return f"## Measured: two processes on one machine\n\n{setting}\n\n{lines_of_table}\n\n{NOTES}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the text and the measurements to this file")
    parser.add_argument("--meshes", nargs="+", choices=MESHES, default=MESHES)
    parser.add_argument("--model", default="mini", help="size of the model")
    parser.add_argument("--rows", type=int, default=16, help="rows for each process")
    parser.add_argument("--seq-len", type=int, default=128, help="tokens of a row")
    parser.add_argument("--steps", type=int, default=3, help="steps of a turn")
    parser.add_argument("--turns", type=int, default=7, help="turns of each setting")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)  # of the processes that it starts
    for name in ("--mesh", "--coordinator", "--data"):
        parser.add_argument(name, help=argparse.SUPPRESS)
    for name in ("--core", "--index"):
        parser.add_argument(name, type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        work(options)
        return
    load = os.getloadavg()[0]
    available = sorted(os.sched_getaffinity(0))
    cores = [available[0], available[min(1, len(available) - 1)]]
    with tempfile.TemporaryDirectory() as folder:
        code = "from funcnet.cli import main; main()"
        build = ["data", "build", "--out", f"{folder}/data", "--seq-len", str(options.seq_len), "--passes", "1"]
        root = str(Path(__file__).parents[2])
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([root, os.environ.get("PYTHONPATH", "")])}
        subprocess.run([sys.executable, "-c", code, *build], check=True, env=environment, stdout=subprocess.DEVNULL)
        arguments = ["--data", f"{folder}/data", "--model", options.model]
        arguments += ["--rows", str(options.rows), "--seq-len", str(options.seq_len)]
        single = Team(cores, "data=1", False, arguments)
        try:
            single.read()
            rows = [measure(mesh, single, options, cores, arguments) for mesh in options.meshes]
        finally:
            single.end()
    text = section(rows, load, options)
    print(text)
    for row in rows:
        print(row["mesh"], {kind: number for kind, number in row["sent"].items() if number}, row["counts"])
    if options.out:
        options.out.write_text(json.dumps({"text": text, "load": load, "rows": rows}, indent=1), "utf-8")


if __name__ == "__main__":
    main()
