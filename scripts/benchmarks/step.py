"""Measure the overhead of the library: its BERT step compared with the same step in bare jax.numpy.

    python scripts/benchmarks/step.py --pairs 20

The setting is BERT-mini, 32 x 128 tokens, 20 of them masked per row, dropout 0.1, one device. `BertForPreTraining`,
`make_objective`, `make_step` and `bert_adamw` run through `parallelize`; `bare_bert_step.py` has the same clipping,
schedule, metrics and kind of dropout. First, both make three steps without dropout from the same weights and must give
the same losses. Then they take turns in one process, and in going first. The script prints

- for each: seconds to trace and to compile, floating-point operations and bytes as XLA counts them, and memory;
- for each: the median of a step in wall time and in CPU time, which depends less on other work on the machine;
- library / bare: the ratio of the medians, and quartiles of the ratio of adjacent steps. The target is at most 1.03.
"""

import argparse
import dataclasses
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from funcnet import optim, tree
from funcnet.models import bert
from funcnet.parallel import make_layout, parallelize
from funcnet.tasks.pretraining.objective import counts, make_objective
from funcnet.train import create, make_step

sys.path.insert(0, str(Path(__file__).parent))
import bare_bert_step as bare

SCHEDULE = optim.warmup_linear_decay(1e-4, 100, 10_000)


@dataclasses.dataclass
class Contender:
    """A compiled step and its state."""

    name: str
    call: Callable[..., tuple[Any, dict[str, jax.Array]]]
    state: Any
    arguments: tuple[Any, ...]
    trace_seconds: float
    compile_seconds: float

    @classmethod
    def compiled(cls, name: str, step: Any, state: Any, *arguments: Any) -> "Contender":
        start = time.perf_counter()
        lowered = step.lower(state, *arguments)
        traced = time.perf_counter()
        call = lowered.compile()
        return cls(name, call, state, arguments, traced - start, time.perf_counter() - traced)

    def step(self) -> dict[str, jax.Array]:
        """Make a step, and wait for it."""
        self.state, metrics = self.call(self.state, *self.arguments)
        return jax.block_until_ready((self.state, metrics))[1]

    def seconds(self) -> tuple[float, float]:
        """(wall, CPU) seconds of one step."""
        wall, cpu = time.perf_counter(), time.process_time()
        self.step()
        return time.perf_counter() - wall, time.process_time() - cpu


def library(config: bare.Config, batch: dict[str, jax.Array]) -> Contender:
    """The step of `funcnet pretrain`, with the weights of the bare step."""
    net = bert.BertForPreTraining(
        bert.BertConfig.preset(
            "mini",
            vocab_size=config.vocabulary,
            hidden_dropout_prob=config.dropout,
            attention_probs_dropout_prob=config.attention_dropout,
        )
    )
    weights = tree.flatten(bare.initial_params(config))
    params, state = net.load_state_dict({**weights, "cls.predictions.decoder.bias": weights["cls.predictions.bias"]})
    optimizer = optim.bert_adamw(SCHEDULE, weight_decay=config.weight_decay, max_norm=config.clip)
    plan = make_layout({"data": 1})
    step = parallelize(make_step(make_objective(net), counts, optimizer, schedule=SCHEDULE), plan, donate=True)
    renamed = {
        **{name: batch[name] for name in ("input_ids", "attention_mask", "token_type_ids", "masked_positions")},
        "masked_ids": batch["masked_labels"],
        "masked_weights": batch["masked_weights"],
        "next_sentence_label": batch["next_sentence_labels"],
    }
    start = plan.place(create(params, state, optimizer))
    return Contender.compiled("library", step, start, plan.shard(renamed), plan.place(jax.random.key(0)))


def by_hand(config: bare.Config, batch: dict[str, jax.Array]) -> Contender:
    """The bare step, with the accuracies and the handling of keys of the library."""

    def loss(params, batch, key):
        words, sentence = bare.logits(params, batch, key, config)
        weights, total = batch["masked_weights"], jnp.maximum(batch["masked_weights"].sum(), 1.0)
        mlm = (bare.cross_entropy(words, batch["masked_labels"]) * weights).sum() / total
        nsp = bare.cross_entropy(sentence, batch["next_sentence_labels"]).mean()
        metrics = {
            "mlm_accuracy": (right(words, batch["masked_labels"]) * weights).sum() / total,
            "nsp_accuracy": right(sentence, batch["next_sentence_labels"]).mean(),
        }
        return mlm + nsp, {"loss": mlm + nsp, "mlm_loss": mlm, "nsp_loss": nsp, **metrics}

    def right(logits, labels):
        return jnp.take_along_axis(logits, labels[..., None], axis=-1)[..., 0] >= logits.max(-1)

    def step(state, batch, key):
        params, opt_state = state
        key = jax.random.fold_in(key, opt_state["step"])
        (_, metrics), gradients = jax.value_and_grad(loss, has_aux=True)(params, batch, key)
        return bare.adamw(params, gradients, opt_state, config), metrics

    params = bare.initial_params(config)
    state = (params, bare.initial_opt_state(params))
    return Contender.compiled("bare", jax.jit(step, donate_argnums=0), state, batch, jax.random.key(0))


def check_same(config: bare.Config, batch: dict[str, jax.Array]) -> None:
    """Three steps without dropout from the same weights."""
    config = dataclasses.replace(config, dropout=0.0, attention_dropout=0.0)
    both = [make(config, batch) for make in (library, by_hand)]
    names = ("loss", "mlm_loss", "nsp_loss", "mlm_accuracy", "nsp_accuracy")
    ours, theirs = (
        [[float(metrics[name]) for name in names] for metrics in map(run, range(3))]
        for run in [lambda _, c=contender: c.step() for contender in both]
    )
    np.testing.assert_allclose(ours, theirs, rtol=1e-5)
    print(f"The losses without dropout are equal: {', '.join(f'{row[0]:.6f}' for row in ours)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=20, help="number of pairs of steps")
    parser.add_argument("--no-check", action="store_true", help="do not compare the losses first")
    parser.add_argument("--hlo", type=Path, help="folder for the optimized programs")
    arguments = parser.parse_args()
    config = bare.Config(learning_rate=SCHEDULE)
    batch = bare.make_batch(config)
    if not arguments.no_check:
        check_same(config, batch)

    both = [library(config, batch), by_hand(config, batch)]
    for contender in both:
        cost, memory = contender.call.cost_analysis(), contender.call.memory_analysis()
        print(
            f"{contender.name:8} trace {contender.trace_seconds:5.2f} s  compile {contender.compile_seconds:5.2f} s  "
            f"{cost['flops'] / 1e9:.2f} GFLOP  {cost['bytes accessed'] / 1e9:.3f} GB  "
            f"temporary {memory.temp_size_in_bytes / 2**20:.0f} MiB"
        )
        if arguments.hlo:
            arguments.hlo.mkdir(parents=True, exist_ok=True)
            (arguments.hlo / f"{contender.name}.txt").write_text(contender.call.as_text())
    for contender in both * 2:
        contender.step()

    times = np.empty((arguments.pairs, 2, 2))  # pair, who, (wall, CPU)
    for pair in range(arguments.pairs):
        for who in (0, 1) if pair % 2 == 0 else (1, 0):
            times[pair, who] = both[who].seconds()
    for clock, (ours, theirs) in zip(("wall", "CPU"), times.transpose(2, 1, 0), strict=True):
        low, middle, high = np.percentile(ours / theirs, [25, 50, 75])
        print(
            f"{clock:5} library {np.median(ours) * 1e3:6.1f} ms  bare {np.median(theirs) * 1e3:6.1f} ms  ratio "
            f"of medians {np.median(ours) / np.median(theirs):.3f}  adjacent {middle:.3f} ({low:.3f} to {high:.3f})"
        )


if __name__ == "__main__":
    main()
