"""What Python costs a training step of BERT-base once it is compiled: the time until the call gives control back.

    python scripts/benchmarks/dispatch.py --calls 300

A dispatch flattens the arguments, looks the program up and makes the results' arrays: its cost grows with the number of
arrays and not with their sizes. So the train state of BERT-base is made with its true structure (parameters, Adam's two
moments, counters: some 600 arrays), every array is shrunk to one number, and the compiled step only adds one to each
(which takes too little to see). It goes through `parallelize` and donates the state, as in training. What is timed is
the call alone, in wall time and in the calling thread's own CPU time, which other work on the machine does not stretch;
the wait for the result is not. The target is under 1 ms.

`train state` is the state as it is, a tree of dicts; `flat list` holds the same arrays in one list: what JAX costs
without any tree.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from funcnet import optim
from funcnet.models import bert
from funcnet.parallel import make_layout, parallelize
from funcnet.train import TrainState, create


def train_state() -> TrainState:
    """BERT-base's, with every array shrunk to one number."""
    model, optimizer = bert.BertForPreTraining(bert.BertConfig.preset("base")), optim.bert_adamw(1e-4)

    def start(key: jax.Array) -> TrainState:
        return create(*model.init(key), optimizer)

    shapes = jax.eval_shape(start, jax.random.key(0))
    return jax.tree.map(lambda leaf: jnp.zeros((1,) * bool(leaf.shape), leaf.dtype), shapes)


def clock(name: str, step: Callable[..., Any], state: Any, *arguments: Any, calls: int) -> None:
    """Prints what the calls took until they returned."""
    wall, thread = [], []
    for _ in range(calls + 20):
        start, start_of_thread = time.perf_counter(), time.thread_time()
        state, metrics = step(state, *arguments)
        thread.append((time.thread_time() - start_of_thread) * 1e3)
        wall.append((time.perf_counter() - start) * 1e3)
        jax.block_until_ready((state, metrics))
    print(
        f"{name:12} {len(jax.tree.leaves(state))} arrays in and out: wall median {statistics.median(wall[20:]):.3f} ms "
        f"(best {min(wall):.3f}), thread's CPU median {statistics.median(thread[20:]):.3f} ms (best {min(thread):.3f})"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=300)
    calls = parser.parse_args().calls

    def step(state, batch, key, *, axis_name):
        return jax.tree.map(lambda leaf: leaf + 1, state), {name: batch["input_ids"].sum() for name in ("loss", "mlm")}

    plan = make_layout({"data": 1})
    state = plan.place(train_state())
    copies = [leaf + 0 for leaf in jax.tree.leaves(state)]
    inputs = ("input_ids", "attention_mask", "token_type_ids", "masked_positions", "masked_ids", "masked_weights")
    batch = plan.shard({name: jnp.zeros((1, 1), jnp.int32) for name in inputs})
    key = plan.place(jax.random.key(0))
    clock("train state", parallelize(step, plan, donate=True), state, batch, key, calls=calls)
    clock("flat list", parallelize(step, plan, donate=True), copies, batch, key, calls=calls)


if __name__ == "__main__":
    main()
