"""Measure the memory that BERT and Adam need when a run on `fsdp=8` starts, is resumed, or loads a model.

    python scripts/benchmarks/start_memory.py

With the default sizes, the parameters take 1 GB and the train state 3 GB. Each phase runs in a process of its own, on 8
virtual CPU devices:

- start: `train` draws the parameters and makes the state of the optimizer. The bytes on a device are the arguments,
  outputs and temporary arrays of the program that needs most, as `memory_analysis()` reports them.
- restore: a resumed run reads the state from a checkpoint.
- load: `bert.from_pretrained(..., layout=layout)` reads the parameters from a safetensors file.

The table contains the bytes of all arrays of a phase, the most bytes on a device, their ratio to an eighth of all
bytes, the bytes of NumPy's arrays at their peak beyond those that stay (`tracemalloc`), and by how much the resident
memory of the process grew at most. The arrays of all 8 devices are in the memory of the host, and so are mapped pages
of files. When a checkpoint is restored, some arrays that NumPy has made stay as the arrays of the CPU devices.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import tracemalloc
from pathlib import Path
from typing import Any

PHASES = ("start", "restore", "load")
DEVICES = 8


def resident() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def work(options: argparse.Namespace) -> dict[str, int]:
    """Run a phase in this process, and return its figures."""
    import jax

    from funcnet import optim, parallel, train
    from funcnet.models import bert
    from funcnet.train.initial_state import Start

    config = bert.BertConfig(
        vocab_size=options.words,
        hidden_size=options.width,
        num_hidden_layers=options.layers,
        num_attention_heads=options.width // 64,
        intermediate_size=4 * options.width,
    )
    task = train.Task()
    task.net, task.optimizer = bert.BertForPreTraining(config), optim.bert_adamw(1e-4)
    layout = parallel.make_layout({"fsdp": DEVICES}).for_net(task.net)
    start, checkpoints = Start(task, layout), train.Checkpoints(options.folder / "checkpoints")
    shapes, needed = start.shapes(0), 0
    before = resident()
    tracemalloc.start()
    state: Any
    if options.phase == "start":
        state = jax.block_until_ready(start(0))
    elif options.phase == "restore":
        state = train.resume(checkpoints, shapes, layout).state
    else:
        state = bert.from_pretrained(options.folder / "model", bert.BertForPreTraining, layout=layout)[1:]
    stays, most = tracemalloc.get_traced_memory()
    host, grown = most - stays, resident() - before
    tracemalloc.stop()
    if options.phase == "start":
        for program in start.lower(0):
            found = program.compile().memory_analysis()
            used = found.argument_size_in_bytes + found.output_size_in_bytes + found.temp_size_in_bytes
            needed = max(needed, used - found.alias_size_in_bytes)
        with checkpoints:
            checkpoints.save(state, 1, {})
        bert.save_pretrained(options.folder / "model", task.net, state.params, state.state)
    stored = dict.fromkeys(layout.mesh.devices.flat, 0)
    for leaf in jax.tree.leaves(state):
        for shard in leaf.addressable_shards:
            stored[shard.device] += shard.data.nbytes
    whole = sum(leaf.nbytes for leaf in jax.tree.leaves(state))
    return {"whole": whole, "device": max(needed, *stored.values()), "host": host, "grown": grown}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, default=18)
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--words", type=int, default=30528)
    parser.add_argument("--phase", choices=PHASES, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.phase is not None:
        print(json.dumps(work(options)))
        return
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={DEVICES}"
    environment = os.environ | {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": flags}
    print("phase    all, MB  device, MB  of an eighth  NumPy, MB  process, MB")
    with tempfile.TemporaryDirectory() as folder:
        for phase in PHASES:
            command = [sys.executable, __file__, *sys.argv[1:], "--phase", phase, "--folder", folder]
            done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
            found = json.loads(done.stdout.splitlines()[-1])
            whole, device, host, grown = (found[name] / 1e6 for name in ("whole", "device", "host", "grown"))
            share = device / (whole / DEVICES)
            print(f"{phase:7} {whole:8,.1f} {device:11,.1f} {share:13.3f} {host:10,.1f} {grown:12,.1f}", flush=True)


if __name__ == "__main__":
    main()
