"""BERT's two losses as sums over what they count: hidden words (mlm) and the next sentence (nsp).

B batch, T sequence, M slots for hidden words, V vocabulary.
"""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp

from funcnet import functional as F
from funcnet import nn
from funcnet.functional.checks import wide_dtype
from funcnet.tasks.pretraining_data.dataset import IGNORE

Batch = Mapping[str, jax.Array]
Sums = dict[str, dict[str, jax.Array]]

__all__ = ["counts", "evaluation_counts", "make_evaluation", "make_objective"]


def counts(batch: Batch) -> dict[str, jax.Array]:
    """Over how many things each loss is averaged: hidden words, and examples whose label is not -100."""
    return {
        "mlm": jnp.sum(batch["masked_weights"]),
        "nsp": jnp.sum((batch["next_sentence_label"] != IGNORE).astype(jnp.float32)),
    }


def make_objective(net: nn.Module) -> Callable[..., tuple[Sums, dict[str, Any]]]:
    """The objective of `train.make_step` for a `BertForPreTraining`.

    Args:
        net: gives (logits (B, M, V) at `masked_positions`, next-sentence logits (B, 2)).

    Returns:
        `objective(params, state, batch, *, training, rng) -> ({"mlm": {"loss", "accuracy"}, "nsp": {…}}, state)`, all
        sums in float32; see `PretrainingDataset` for the batch, or `PackedDataset`.
    """

    def objective(params: Any, state: Any, batch: Batch, *, training: bool, rng: Any) -> tuple[Sums, Any]:
        (words, sentence), state = _run(net, params, state, batch, training, rng)
        return {"mlm": _words(words, batch)[0], "nsp": _sentence(sentence, batch)}, state

    return objective


def evaluation_counts(batch: Batch) -> dict[str, jax.Array]:
    """As `counts`, and the hidden words that show `[MASK]` (`shows_mask` in the batch)."""
    return {**counts(batch), "mlm_on_mask": jnp.sum(batch["masked_weights"] * batch["shows_mask"])}


def make_evaluation(net: nn.Module, unigram: jax.Array) -> Callable[..., tuple[Sums, dict[str, Any]]]:
    """The objective of `train.make_eval_step`: as `make_objective`, and a model that knows only frequencies beside it.

    Args:
        net: as above.
        unigram: (V,) log-probabilities of the training text's tokens.

    Returns:
        As `make_objective`, with `unigram_loss` in "mlm" and a term "mlm_on_mask" that looks at the positions that
        show `[MASK]` alone. The batch holds `shows_mask` (B, M) too: 1 there, 0 elsewhere.
    """

    def objective(params: Any, state: Any, batch: Batch, *, training: bool, rng: Any) -> tuple[Sums, Any]:
        (words, sentence), state = _run(net, params, state, batch, training, rng)
        mlm, losses = _words(words, batch)
        unigram_losses = -unigram[batch["masked_ids"]] * batch["masked_weights"]
        shown = batch["shows_mask"]
        on_mask = {"loss": jnp.sum(losses * shown), "unigram_loss": jnp.sum(unigram_losses * shown)}
        mlm["unigram_loss"] = jnp.sum(unigram_losses)
        return {"mlm": mlm, "nsp": _sentence(sentence, batch), "mlm_on_mask": on_mask}, state

    return objective


def _run(net: nn.Module, params: Any, state: Any, batch: Batch, training: bool, rng: Any) -> Any:
    shown = batch["attention_mask"]
    packed: dict[str, Any] = {}
    if "sequence_ids" in batch:  # packed rows: each example sees itself alone, and has its own positions and label
        own = batch["sequence_ids"]  # (B, T), 0 at padding
        shown = (own[:, :, None] == own[:, None, :]) & (own > 0)[:, None, :]
        packed = {name: batch[name] for name in ("position_ids", "pooled_positions")}
    return net.apply(
        params,
        state,
        batch["input_ids"],
        attention_mask=shown,
        token_type_ids=batch["token_type_ids"],
        masked_positions=batch["masked_positions"],
        **packed,
        training=training,
        rng=rng,
    )


def _losses(logits: jax.Array, labels: jax.Array) -> tuple[jax.Array, jax.Array]:
    """(cross-entropy, whether the label's logit is the largest) of each row, in at least float32; 0 for IGNORE."""
    rows, ids = logits.reshape(-1, logits.shape[-1]), labels.reshape(-1)
    rows = rows.astype(wide_dtype(rows))
    losses = F.cross_entropy(rows, ids, ignore_index=IGNORE, reduction="none")
    at_label = jnp.take_along_axis(rows, jnp.maximum(ids, 0)[:, None], axis=1)[:, 0]
    right = (at_label >= rows.max(1)) & (ids != IGNORE)  # cheaper than argmax
    return losses.reshape(labels.shape), right.astype(rows.dtype).reshape(labels.shape)


def _words(logits: jax.Array, batch: Batch) -> tuple[dict[str, jax.Array], jax.Array]:
    losses, right = _losses(logits, batch["masked_ids"])
    weights = batch["masked_weights"].astype(losses.dtype)
    losses = losses * weights
    return {"loss": jnp.sum(losses), "accuracy": jnp.sum(right * weights)}, losses


def _sentence(logits: jax.Array, batch: Batch) -> dict[str, jax.Array]:
    losses, right = _losses(logits, batch["next_sentence_label"])
    return {"loss": jnp.sum(losses), "accuracy": jnp.sum(right)}
