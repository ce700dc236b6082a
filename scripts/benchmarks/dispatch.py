"""Measure the Python overhead of a compiled training step of BERT-base: the time until the call returns.

    python scripts/benchmarks/dispatch.py --calls 300

A dispatch flattens the arguments, looks up the program and makes the arrays of the results. Its cost depends on the
number of arrays, not on their sizes. So this benchmark makes the train state of BERT-base (parameters, the two moments
of Adam, counters: about 600 arrays) with one number per array, and a compiled step that adds one to each, which takes
negligible time. The step goes through `parallelize` and donates the state, as in training. Only the call is timed, not
the wait for the result: in wall time, and in CPU time of the calling thread, which does not depend on other work on the
machine. The target is less than 1 ms.

`train state` is the state as a tree of dicts. `flat list` has the same arrays in one list, which shows the cost of JAX
without a tree.
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
    """The train state of BERT-base, with one number per array."""
    model, optimizer = bert.BertForPreTraining(bert.BertConfig.preset("base")), optim.bert_adamw(1e-4)

    def start(key: jax.Array) -> TrainState:
        return create(*model.init(key), optimizer)

    shapes = jax.eval_shape(start, jax.random.key(0))
    return jax.tree.map(lambda leaf: jnp.zeros((1,) * bool(leaf.shape), leaf.dtype), shapes)


def clock(name: str, step: Callable[..., Any], state: Any, *arguments: Any, calls: int) -> None:
    """Print the time that the calls take to return."""
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
