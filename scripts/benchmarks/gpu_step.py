"""Measure the step of BERT-base on a GPU: its share of the peak, and the kernels on which it spends its time.

    python scripts/benchmarks/gpu_step.py --batch-size 256 --seq-len 128

The step is that of `funcnet pretrain --model base --precision bfloat16`, on random tokens without padding. The script
prints the median of a step, the floating-point operations per second by the usual formula
(`6 · N` per token for the encoder, plus attention and the head on the masked positions), with and without dropout, and
the kernels by their time in a profile of five steps.
"""

import argparse
import collections
import tempfile
import time
from pathlib import Path

import jax
import numpy as np

from funcnet import optim
from funcnet.models import bert
from funcnet.parallel import make_layout, parallelize
from funcnet.tasks.pretraining.objective import counts, make_objective
from funcnet.train import BFLOAT16, FLOAT32, create, make_step

MASKED = 20 / 128  # share of the positions whose words are predicted


def make_batch(config: bert.BertConfig, rows: int, length: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng(0)
    slots = int(MASKED * length)
    return {
        "input_ids": random.integers(5, config.vocab_size, (rows, length), np.int32),
        "attention_mask": np.ones((rows, length), np.int32),
        "token_type_ids": np.zeros((rows, length), np.int32),
        "masked_positions": np.sort(
            random.permuted(np.tile(np.arange(length, dtype=np.int32), (rows, 1)), axis=1)[:, :slots]
        ),
        "masked_ids": random.integers(5, config.vocab_size, (rows, slots), np.int32),
        "masked_weights": np.ones((rows, slots), np.float32),
        "next_sentence_label": np.zeros(rows, np.int32),
    }


def flops_per_token(config: bert.BertConfig, length: int) -> float:
    """Return the floating-point operations of a training step per token, without recomputation."""
    width, layers = config.hidden_size, config.num_hidden_layers
    head = 6 * (width**2 + width * config.vocab_size) * MASKED
    return 6 * 12 * layers * width**2 + 12 * layers * width * length + head


def kernels(folder: str) -> collections.Counter[str]:
    """Return the seconds of each kernel in a profile. Numbers in the names of kernels are dropped."""
    found: collections.Counter[str] = collections.Counter()
    for path in Path(folder).rglob("*.xplane.pb"):
        for plane in jax.profiler.ProfileData.from_file(str(path)).planes:
            if "GPU" in plane.name:
                for line in plane.lines:
                    if "Stream" in line.name:
                        for event in line.events:
                            name = "".join(c for c in event.name if not c.isdigit())
                            found[name[:70]] += event.duration_ns * 1e-9
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="base", help="a preset of BertConfig")
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--seq-len", type=int, default=128)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--float32", action="store_true", help="compute in float32")
    parser.add_argument("--peak", type=float, default=989, help="the peak of the GPU in TFLOP/s")
    parser.add_argument("--dropout", type=float, nargs="+", default=[0.1, 0.0])
    arguments = parser.parse_args()
    for dropout in arguments.dropout:
        config = bert.BertConfig.preset(
            arguments.model, hidden_dropout_prob=dropout, attention_probs_dropout_prob=dropout
        )
        net = bert.BertForPreTraining(config)
        schedule = optim.warmup_linear_decay(1e-4, 100, 10_000)
        optimizer = optim.bert_adamw(schedule, weight_decay=0.01, max_norm=1.0)
        plan = make_layout({"data": 1})
        precision = FLOAT32 if arguments.float32 else BFLOAT16
        step = parallelize(
            make_step(make_objective(net), counts, optimizer, schedule=schedule, precision=precision), plan, donate=True
        )
        params, buffers = jax.jit(net.init)(jax.random.key(0))
        state = plan.place(create(params, buffers, optimizer))
        batch = plan.shard(make_batch(config, arguments.batch_size, arguments.seq_len))
        key = plan.place(jax.random.key(1))
        start = time.perf_counter()
        compiled = step.lower(state, batch, key).compile()
        print(f"dropout {dropout}: compiled in {time.perf_counter() - start:.0f} s", flush=True)
        times = []
        for _ in range(arguments.steps):
            start = time.perf_counter()
            state, metrics = compiled(state, batch, key)
            jax.block_until_ready((state, metrics))
            times.append(time.perf_counter() - start)
        with tempfile.TemporaryDirectory() as folder:
            with jax.profiler.trace(folder):
                for _ in range(5):
                    state, metrics = compiled(state, batch, key)
                jax.block_until_ready((state, metrics))
            spent = kernels(folder)
        low, middle, high = np.percentile(times[5:], [25, 50, 75])
        tokens = arguments.batch_size * arguments.seq_len
        rate = tokens * flops_per_token(config, arguments.seq_len) / middle / 1e12
        print(
            f"  {middle * 1e3:.1f} ms a step ({low * 1e3:.1f} to {high * 1e3:.1f}), {tokens / middle:,.0f} tokens/s, "
            f"{rate:.0f} TFLOP/s, {rate / arguments.peak:.1%} of the peak; temporary memory "
            f"{compiled.memory_analysis().temp_size_in_bytes / 2**30:.1f} GiB"
        )
        whole = sum(spent.values())
        for name, seconds in spent.most_common(25):
            print(f"  {seconds / 5 * 1e3:7.2f} ms  {seconds / whole:5.1%}  {name}")


if __name__ == "__main__":
    main()
