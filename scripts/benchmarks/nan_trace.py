"""Measure the cost of --nan-trace, and of skipping steps that are not finite, in the training step.

    python scripts/benchmarks/nan_trace.py --pairs 20

The models are BERT-mini on 32 x 128 tokens, with dropout 0.1, and a ResNet-18 on 64 images of 32 x 32 pixels. Each step
runs in three forms, in turns in one process:

- plain: the step that `funcnet pretrain` and `train-images` run. It skips steps that are not finite.
- traced: the same with `nan_trace=True`, which records for each layer whether its output and its gradient are finite.
- unguarded: the plain step, with the check for finite values taken out of the compiled program.

The script prints the median of each form, and the ratios traced / plain and plain / unguarded, with the quartiles of
adjacent steps, in wall time and in CPU time, which depends less on other work on the machine. All forms must give the
same loss.
"""

import argparse
import sys
import time
from pathlib import Path
from typing import Any
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import optax

from funcnet import functional as F
from funcnet import optim
from funcnet.models import bert, resnet
from funcnet.parallel import make_layout, parallelize
from funcnet.tasks.pretraining import objective as pretraining
from funcnet.train import create, make_step

sys.path.insert(0, str(Path(__file__).parent))
import bare_bert_step as bare

FORMS = ("plain", "traced", "unguarded")


def bert_step() -> tuple[Any, Any, Any, Any, Any]:
    """(objective, counts, optimizer, (params, state), batch) of BERT-mini."""
    config = bare.Config()
    sizes = {"vocab_size": config.vocabulary, "hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1}
    net = bert.BertForPreTraining(bert.BertConfig.preset("mini", **sizes))
    batch = bare.make_batch(config)
    batch["masked_ids"], batch["next_sentence_label"] = batch["masked_labels"], batch["next_sentence_labels"]
    optimizer = optim.bert_adamw(optim.warmup_linear_decay(1e-4, 100, 10_000))
    return pretraining.make_objective(net), pretraining.counts, optimizer, net.init(jax.random.key(0)), batch


def resnet_step() -> tuple[Any, Any, Any, Any, Any]:
    """The same of ResNet-18."""
    net = resnet.resnet18(num_classes=10, in_channels=3, small_images=True)
    random = np.random.default_rng(0)
    batch = {"image": random.standard_normal((64, 3, 32, 32)).astype(np.float32), "label": random.integers(0, 10, 64)}

    def objective(params: Any, state: Any, batch: Any, *, training: bool, rng: Any) -> Any:
        logits, state = net.apply(params, state, batch["image"], training=training, rng=rng)
        return {"image": {"loss": F.cross_entropy(logits, batch["label"], reduction="sum")}}, state

    counts = lambda batch: {"image": jnp.float32(len(batch["label"]))}
    return objective, counts, optax.sgd(0.05, momentum=0.9), net.init(jax.random.key(0)), batch


class Form:
    """A compiled step and its state."""

    def __init__(self, form: str, objective: Any, counts: Any, optimizer: Any, start: Any, batch: Any):
        layout = make_layout({"data": 1})
        step = parallelize(make_step(objective, counts, optimizer, nan_trace=form == "traced"), layout, donate=True)
        self.state, self.key = layout.place(create(*start, optimizer)), layout.place(jax.random.key(0))
        self.batch, finite = layout.shard(batch), jnp.isfinite
        always = lambda x: jnp.ones_like(finite(x))
        with mock.patch.object(jnp, "isfinite", always if form == "unguarded" else finite):
            self.step = step.lower(self.state, self.batch, self.key).compile()

    def seconds(self) -> tuple[float, float, float]:
        """(wall seconds, CPU seconds, loss) of one step."""
        wall, cpu = time.perf_counter(), time.process_time()
        self.state, metrics = self.step(self.state, self.batch, self.key)
        jax.block_until_ready((self.state, metrics))
        return time.perf_counter() - wall, time.process_time() - cpu, float(metrics["loss"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=20, help="number of steps of each form")
    arguments = parser.parse_args()
    for name, make in {"BERT-mini": bert_step, "ResNet-18": resnet_step}.items():
        parts = make()
        forms = [Form(form, *parts) for form in FORMS]
        for _ in range(2):
            losses = [form.seconds()[2] for form in forms]
            np.testing.assert_allclose(losses, losses[0], rtol=1e-5)
        times = np.empty((arguments.pairs, len(FORMS), 2))  # step, form, (wall, CPU)
        for turn in range(arguments.pairs):
            for who in np.roll(np.arange(len(FORMS)), turn):
                times[turn, who] = forms[who].seconds()[:2]
        for clock, measured in zip(("wall", "CPU"), times.transpose(2, 1, 0), strict=True):
            plain, traced, unguarded = measured
            medians = [f"{form} {np.median(own) * 1e3:.1f} ms" for form, own in zip(FORMS, measured, strict=True)]
            print(f"{name}, {clock}: {', '.join(medians)}")
            for label, ratio in {"traced / plain": traced / plain, "plain / unguarded": plain / unguarded}.items():
                low, middle, high = np.percentile(ratio, [25, 50, 75])
                print(f"  {label}: {middle:.3f} ({low:.3f} to {high:.3f})")


if __name__ == "__main__":
    main()
