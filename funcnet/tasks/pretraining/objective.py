"""The two losses of BERT, as sums: masked words (mlm) and next sentence (nsp).

Letters: B batch, T sequence, M slots for masked words, V vocabulary.
"""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp

from funcnet import functional as F
from funcnet import nn
from funcnet.functional.checks import wide_dtype
from funcnet.tasks.pretraining_data.dataset import IGNORE
from funcnet.tree import Params, State

Batch = Mapping[str, jax.Array]
Sums = dict[str, dict[str, jax.Array]]

__all__ = ["counts", "evaluation_counts", "make_evaluation", "make_objective", "run"]


def counts(batch: Batch) -> dict[str, jax.Array]:
    """Return the counts by which the losses are divided: {"mlm": the number of masked words, "nsp": the number of
    examples whose label is not -100}.
    """
    return {
        "mlm": jnp.sum(batch["masked_weights"]),
        "nsp": jnp.sum((batch["next_sentence_label"] != IGNORE).astype(jnp.float32)),
    }


def make_objective(net: nn.Module) -> Callable[..., tuple[Sums, dict[str, Any]]]:
    """Make the objective of `train.make_step` for a `BertForPreTraining`.

    The result is `objective(params, state, batch, *, training, rng) -> ({"mlm": {"loss", "accuracy"}, "nsp": {…}},
    state)`, with sums in float32. The batch comes from `PretrainingDataset` or `PackedDataset`.
    """

    def objective(
        params: Params, state: State, batch: Batch, *, training: bool, rng: jax.Array | None
    ) -> tuple[Sums, Any]:
        (words, sentence), state = run(net, params, state, batch, training, rng)
        return {"mlm": _words(words, batch)[0], "nsp": _sentence(sentence, batch)}, state

    return objective


def evaluation_counts(batch: Batch) -> dict[str, jax.Array]:
    """Return the dict that `counts` returns, with one more entry "mlm_on_mask": the number of masked words that are
    replaced by `[MASK]`.
    """
    return {**counts(batch), "mlm_on_mask": jnp.sum(batch["masked_weights"] * batch["shows_mask"])}


def make_evaluation(net: nn.Module, unigram: jax.Array) -> Callable[..., tuple[Sums, dict[str, Any]]]:
    """Make the objective for `train.make_eval_step`. It is the objective of `make_objective`, with the loss of a
    unigram model as an additional metric.

    `unigram` (V,) has the log-probabilities of the tokens in the training text. The metric `unigram_loss` of the term
    "mlm" is the loss of these log-probabilities on the masked words. The additional term "mlm_on_mask" covers only the
    masked words that are replaced by `[MASK]`. The batch must therefore have `shows_mask` (B, M), which is 1 for these
    words and 0 for others.
    """

    def objective(
        params: Params, state: State, batch: Batch, *, training: bool, rng: jax.Array | None
    ) -> tuple[Sums, Any]:
        (words, sentence), state = run(net, params, state, batch, training, rng)
        mlm, losses = _words(words, batch)
        unigram_losses = -unigram[batch["masked_ids"]] * batch["masked_weights"]
        shown = batch["shows_mask"]
        on_mask = {"loss": jnp.sum(losses * shown), "unigram_loss": jnp.sum(unigram_losses * shown)}
        mlm["unigram_loss"] = jnp.sum(unigram_losses)
        return {"mlm": mlm, "nsp": _sentence(sentence, batch), "mlm_on_mask": on_mask}, state

    return objective


def run(
    net: nn.Module, params: Params, state: State, batch: Batch, training: bool = False, rng: jax.Array | None = None
) -> Any:
    """Run the model on a batch, packed or not. Return ((logits of the masked words, logits of the next sentence),
    state).
    """
    shown = batch["attention_mask"]
    packed: dict[str, Any] = {}
    if "sequence_ids" in batch:  # packed rows: each example attends only to itself
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
    """Return (cross-entropy, whether the logit of the label is the largest) per row, in at least float32. If the label
    of a row is IGNORE, both values are 0.
    """
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
