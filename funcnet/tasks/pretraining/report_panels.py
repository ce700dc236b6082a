"""The report of a finished run: the panels of report.png, and examples of predicted masked words."""

import jax
import numpy as np

from funcnet import nn
from funcnet.tasks.pretraining.objective import run
from funcnet.tasks.pretraining_data.dataset import evaluation_batches
from funcnet.tasks.pretraining_data.reader import PretrainingData
from funcnet.train import Panel
from funcnet.tree import Params, State

__all__ = ["example_guesses", "pretraining_panels"]

PASSAGES, AROUND, TOP = 5, 9, 5  # examples; tokens shown on each side of the masked word; predictions per word


def pretraining_panels(values: dict[str, float]) -> list[Panel]:
    """Return the panels of report.png. If eval.json has values, the losses of simple models in it are drawn as
    baselines.
    """
    unigram = {"unigram": values["unigram_loss"]} if values else {}
    on_mask = {"unigram": values["unigram_loss_on_mask"]} if values else {}
    return [
        Panel("Masked words", "nats", {"training": "mlm_loss", "held-out": "eval_mlm_loss"}, lines=unigram),
        Panel("Masked words replaced by [MASK]", "nats", {"held-out": "eval_mlm_on_mask_loss"}, lines=on_mask),
        Panel(
            "Masked words predicted correctly", "share", {"training": "mlm_accuracy", "held-out": "eval_mlm_accuracy"}
        ),
        Panel(
            "Next or random sentence, predicted correctly",
            "share",
            {"training": "nsp_accuracy", "held-out": "eval_nsp_accuracy"},
            lines={"chance": 0.5},
        ),
        Panel("Learning rate", "", {"rate": "learning_rate"}, smooth=False, from_zero=True),
        Panel("Throughput", "tokens/s", {"real tokens": "tokens_per_second"}, from_zero=True),
    ]


def example_guesses(net: nn.Module, params: Params, state: State, data: PretrainingData) -> list[str]:
    """Predict one masked word in each of a few held-out passages.

    Return a heading, and for each passage its text, the masked word, and the predictions with their probabilities. The
    list is empty if there are no held-out data.
    """
    if data.evaluation is None:
        return []
    batch = next(iter(evaluation_batches(data.evaluation, min(32, len(data.evaluation)))))
    logits = jax.jit(lambda *inputs: run(net, *inputs)[0][0])(params, state, batch)
    probabilities, guesses = jax.lax.top_k(jax.nn.softmax(logits), TOP)
    token, mask = data.tokenizer.id_to_token, data.evaluation.masking.mask_id
    out: list[str] = []
    for row, ids in enumerate(batch["input_ids"]):
        places, weights = batch["masked_positions"][row], batch["masked_weights"][row]
        words = [token(int(i)) for i in batch["masked_ids"][row]]
        slots = [i for i, p in enumerate(places) if weights[i] and ids[p] == mask and words[i].isalpha()]
        if not slots or len(out) == PASSAGES:
            continue
        slot = slots[len(slots) // 2]
        around = range(
            max(0, places[slot] - AROUND),
            min(int(batch["attention_mask"][row].sum()), places[slot] + AROUND),
        )
        shown = ["____" if ids[i] == mask and i != places[slot] else token(int(ids[i])) for i in around]
        text = " ".join(shown).replace(" ##", "")
        best = ", ".join(
            f"{token(int(i))!r} {p:.0%}"
            for i, p in zip(np.asarray(guesses)[row, slot], probabilities[row, slot], strict=True)
        )
        out.append(f"  … {text} …\n    original: {words[slot]!r}; predicted: {best}")
    return ["Held-out words and their predictions (other masked words: ____):", *out] if out else []
