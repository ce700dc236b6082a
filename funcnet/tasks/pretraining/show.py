"""What a person sees of a finished run: the panels of report.png, and a few hidden words with the model's guesses."""

from typing import Any

import jax
import numpy as np

from funcnet import nn
from funcnet.tasks.pretraining.dataset import evaluation_batches
from funcnet.tasks.pretraining.prepare import Prepared
from funcnet.train import Panel

__all__ = ["example_guesses", "panels"]


def panels(values: dict[str, float]) -> list[Panel]:
    """The pictures of report.png.

    Args:
        values: of eval.json, for the lines of the baselines; may be empty.
    """
    unigram = {"unigram": values["unigram_loss"]} if values else {}
    on_mask = {"unigram": values["unigram_loss_on_mask"]} if values else {}
    return [
        Panel("Masked words", "nats", {"training": "mlm_loss", "held-out": "eval_mlm_loss"}, lines=unigram),
        Panel("Masked words that show [MASK]", "nats", {"held-out": "eval_mlm_on_mask_loss"}, lines=on_mask),
        Panel("Masked words guessed", "share", {"training": "mlm_accuracy", "held-out": "eval_mlm_accuracy"}),
        Panel(
            "Next sentence told from a random one",
            "share",
            {"training": "nsp_accuracy", "held-out": "eval_nsp_accuracy"},
            lines={"chance": 0.5},
        ),
        Panel("Learning rate", "", {"rate": "learning_rate"}, smooth=False, from_zero=True),
        Panel("Throughput", "tokens/s", {"real tokens": "tokens_per_second"}, from_zero=True),
    ]


def example_guesses(
    net: nn.Module, params: Any, state: Any, data: Prepared, *, lines: int = 5, words_around: int = 9, top: int = 5
) -> list[str]:
    """A few held-out passages: what stood at a `[MASK]`, and the model's best guesses.

    Returns:
        For each, the passage, and under it the word and the guesses with their probabilities.
    """
    if data.evaluation is None:
        return []
    batch = next(iter(evaluation_batches(data.evaluation, min(32, len(data.evaluation)))))
    logits = jax.jit(
        lambda params, state, batch: net.apply(
            params,
            state,
            batch["input_ids"],
            attention_mask=batch["attention_mask"],
            token_type_ids=batch["token_type_ids"],
            masked_positions=batch["masked_positions"],
        )[0][0]
    )(params, state, batch)
    probabilities, guesses = jax.lax.top_k(jax.nn.softmax(logits), top)
    token = data.tokenizer.id_to_token
    out: list[str] = []
    for row in range(len(batch["input_ids"])):
        ids = batch["input_ids"][row]
        slots = [
            slot
            for slot, place in enumerate(batch["masked_positions"][row])
            if batch["masked_weights"][row, slot] and ids[place] == data.evaluation.masking.mask_id
        ]
        if not slots or len(out) == lines:
            continue
        slot = slots[len(slots) // 2]
        place = batch["masked_positions"][row, slot]
        around = range(max(0, place - words_around), min(int(batch["attention_mask"][row].sum()), place + words_around))
        text = " ".join(token(int(ids[i])) for i in around).replace(" ##", "")
        best = ", ".join(
            f"{token(int(i))} {p:.0%}"
            for i, p in zip(np.asarray(guesses)[row, slot], probabilities[row, slot], strict=True)
        )
        out.append(f"  … {text} …\n    was: {token(int(batch['masked_ids'][row, slot]))}; guessed: {best}")
    return ["Held-out words and what the model makes of them:", *out] if out else []
