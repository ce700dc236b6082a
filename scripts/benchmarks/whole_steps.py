"""Whole training steps beside torch eager: forward, loss, backward and optimizer, with and without kernels.

    python scripts/benchmarks/whole_steps.py                      all models, some ten minutes
    python scripts/benchmarks/whole_steps.py gpt efficientnet     some of them

Each model is written once for both libraries (`tests/ported_models.py`), but BERT-mini is funcnet's
own and that of transformers. Both begin with the same weights, and their first losses must agree where no dropout is
drawn. Then torch, funcnet with kernels, and funcnet without take turns in one process, and in going first. A line has
the median of a step, and of its ratio to torch's step in the same turn, with quartiles. The last columns have the
GFLOP of all products of a step, in torch and in funcnet, and the share of this machine's rate in a large product that
funcnet reaches with kernels. Transformers' BERT computes the logits of all tokens, funcnet's those of masked tokens.
"""

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import torch
import torch.nn.functional as TF
import transformers
from torch.utils.flop_counter import FlopCounterMode, conv_flop_count

from funcnet import functional as F
from funcnet import nn
from funcnet.operators import native

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).parent))
import bare_bert_step
from step import SCHEDULE, library

from tests.ported_models import efficientnet_lite0, gpt, resnet50

Step = Callable[[], float]
Shape = tuple[int, ...]
CONVOLUTION_BACKWARD = torch.ops.aten.convolution_backward
RATE = 1e-3


class Model:
    """A model in both libraries, with a batch: the arguments of `forward`, and labels for the cross-entropy."""

    def __init__(self, build: Callable[..., Any], batch: list[np.ndarray], labels: np.ndarray, draws: bool = False):
        torch.manual_seed(0)
        self.theirs, self.ours = build(torch.nn, TF), build(nn, F)
        self.batch, self.labels, self.draws = batch, labels, draws
        self.weights = {name: value.detach().numpy().copy() for name, value in self.theirs.state_dict().items()}

    def torch_step(self) -> Step:
        """A step of torch, eager."""
        optimizer = torch.optim.AdamW(self.theirs.parameters(), RATE)
        given, labels = [torch.tensor(one) for one in self.batch], torch.tensor(self.labels).flatten()

        def step() -> float:
            optimizer.zero_grad()
            logits = self.theirs(*given)
            loss = TF.cross_entropy(logits.reshape(-1, logits.shape[-1]), labels)
            loss.backward()
            optimizer.step()
            return loss.item()

        return step

    def jax_step(self, kernels: bool) -> Step:
        """A compiled step of funcnet."""
        params, state = self.ours.load_state_dict(self.weights)
        optimizer = optax.adamw(RATE, weight_decay=0.01)
        labels = jnp.asarray(self.labels.astype(np.int32)).ravel()

        def loss_of(params: Any, state: Any, key: Any, batch: Any) -> Any:
            logits, state = self.ours.apply(params, state, *batch, training=True, rng=key)
            return F.cross_entropy(logits.reshape(-1, logits.shape[-1]), labels), state

        def step(carry: Any, batch: Any) -> Any:
            params, state, moments, key = carry
            key, own = jax.random.split(key)
            (loss, state), gradients = jax.value_and_grad(loss_of, has_aux=True)(params, state, own, batch)
            updates, moments = optimizer.update(gradients, moments, params)
            return (optax.apply_updates(params, updates), state, moments, key), loss

        batch = [jnp.asarray(one.astype(np.int32) if one.dtype == np.int64 else one) for one in self.batch]
        carry = jax.device_put((params, state, optimizer.init(params), jax.random.key(0)))
        with native.allowed(kernels):
            compiled = jax.jit(step, donate_argnums=0).lower(carry, batch).compile()
        held = [carry]

        def run() -> float:
            held[0], loss = compiled(held[0], batch)
            return float(loss)

        return run


def images(build: Callable[..., Any], draws: bool = False, rows: int = 8, size: int = 224) -> Model:
    """A model of images."""
    draw = np.random.default_rng(0)
    batch = [draw.normal(size=(rows, 3, size, size)).astype(np.float32)]
    return Model(lambda lib, functional: build(lib), batch, draw.integers(1000, size=rows), draws)


def language(rows: int = 8, length: int = 128, words: int = 8192) -> Model:
    """A causal language model, 256 wide, of 4 layers."""
    ids = np.random.default_rng(0).integers(words, size=(rows, length + 1))
    build = lambda lib, functional: gpt(lib, functional, 256, 4, 4, words, length)
    return Model(build, [ids[:, :-1], np.arange(length)], ids[:, 1:])


def flops(step: Step) -> float:
    """Count the floating-point operations of the products of a step of torch."""
    with FlopCounterMode(display=False, custom_mapping={CONVOLUTION_BACKWARD: backward_flops}) as counter:
        step()
    return float(counter.get_total_flops())


def backward_flops(slopes: Shape, x: Shape, weight: Shape, *given: Any, out_shape: Any, **_: Any) -> int:
    """Count the floating-point operations of a convolution's gradients. torch's own count has no groups, and is as many
    times too large as there are groups. Each gradient has as many products as the convolution itself.
    """
    transposed, gradients = given[4], sum(given[-1][:2])
    return gradients * conv_flop_count(list(x), list(weight), list(slopes), transposed)


def peak() -> float:
    """Measure the floating-point operations a second of a product of 2048 x 2048 in XLA: the median of 20."""
    square = jnp.ones((2048, 2048))
    run = jax.jit(jnp.matmul)
    step = lambda: jax.block_until_ready(run(square, square))
    step()
    return 2 * 2048**3 / float(np.median(measure({"product": step}, 20)["product"]))


class Bert:
    """BERT-mini as `step.py` trains it: 32 x 128 tokens, 20 of them masked in each row, dropout 0.1, clipping."""

    draws = True

    def __init__(self) -> None:
        self.config = bare_bert_step.Config(learning_rate=SCHEDULE)
        self.batch = bare_bert_step.make_batch(self.config)

    def flops(self) -> float:
        """Floating-point operations of the products of funcnet's step."""
        c = self.config
        encoder = c.layers * (6 * (4 * c.width**2 + 2 * c.width * c.intermediate) + 12 * c.width * c.length)
        return c.batch * (c.length * encoder + c.masked * 6 * (c.width**2 + c.width * c.vocabulary))

    def torch_step(self) -> Step:
        """A step of transformers' model."""
        sizes = transformers.BertConfig(
            vocab_size=self.config.vocabulary,
            hidden_size=self.config.width,
            num_hidden_layers=self.config.layers,
            num_attention_heads=self.config.heads,
            intermediate_size=self.config.intermediate,
        )
        model = transformers.BertForPreTraining(sizes).train()
        optimizer = torch.optim.AdamW(model.parameters(), 1e-4)
        given = {name: torch.tensor(np.asarray(value)).long() for name, value in self.batch.items()}
        labels = torch.full(given["input_ids"].shape, -100)
        labels.scatter_(1, given["masked_positions"], given["masked_labels"])
        inputs = {name: given[name] for name in ("input_ids", "token_type_ids", "attention_mask")}

        def step() -> float:
            optimizer.zero_grad()
            loss = model(**inputs, labels=labels, next_sentence_label=given["next_sentence_labels"]).loss
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), self.config.clip)
            optimizer.step()
            return float(loss.item())

        return step

    def jax_step(self, kernels: bool) -> Step:
        """The step of `funcnet pretrain`."""
        with native.allowed(kernels):
            compiled = library(self.config, self.batch)
        return lambda: float(compiled.step()["loss"])


MODELS: dict[str, Callable[[], Any]] = {
    "bert": Bert,
    "gpt": language,
    "efficientnet": lambda: images(efficientnet_lite0, draws=True),
    "resnet50": lambda: images(resnet50),
}


def measure(steps: dict[str, Step], turns: int) -> dict[str, np.ndarray]:
    """{contender: seconds of each turn}."""
    times: dict[str, list[float]] = {name: [] for name in steps}
    for turn in range(turns):
        for name in list(steps) if turn % 2 == 0 else list(steps)[::-1]:
            start = time.perf_counter()
            steps[name]()
            times[name].append(time.perf_counter() - start)
    return {name: np.array(values) for name, values in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", help=f"some of {', '.join(MODELS)}")
    parser.add_argument("--turns", type=int, default=15, help="number of steps of each contender")
    options = parser.parse_args()
    if unknown := set(options.models) - set(MODELS):
        parser.error(f"unknown models {', '.join(sorted(unknown))}; expected some of {', '.join(MODELS)}")
    with native.allowed(True):
        print(native.describe())
    highest = peak()
    print(f"A product of 2048 x 2048: {highest / 1e9:.0f} GFLOP/s")
    columns = f"{'kernels / torch':>24} {'XLA / torch':>24} {'GFLOP':>11} {'share':>6}"
    print(f"{'model':14} {'torch':>10} {'kernels':>10} {columns}")
    for name in options.models or MODELS:
        model = MODELS[name]()
        steps = {"torch": model.torch_step(), "kernels": model.jax_step(True), "XLA": model.jax_step(False)}
        losses = {contender: step() for contender, step in steps.items()}
        if not model.draws:
            np.testing.assert_allclose(list(losses.values()), losses["torch"], rtol=1e-4, err_msg=f"{name}: {losses}")
        for step in steps.values():
            step()
        times = measure(steps, options.turns)
        shown = []
        for contender in ("kernels", "XLA"):
            low, middle, high = np.percentile(times[contender] / times["torch"], [25, 50, 75])
            shown.append(f"{middle:6.2f} ({low:5.2f} to {high:5.2f})")
        own = [f"{np.median(times[contender]) * 1e3:7.1f} ms" for contender in ("torch", "kernels")]
        counted = flops(steps["torch"])
        ours = model.flops() if isinstance(model, Bert) else counted
        shown += [
            f"{counted / 1e9:5.0f} {ours / 1e9:5.0f}",
            f"{ours / np.median(times['kernels']) / highest:6.0%}",
        ]
        print(f"{name:14} {own[0]:>10} {own[1]:>10} {shown[0]:>24} {shown[1]:>24} {' '.join(shown[2:])}", flush=True)


if __name__ == "__main__":
    main()
