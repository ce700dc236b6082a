"""Directories with small models of every task that has a page, saved as `funcnet finetune` saves them."""

import json
from pathlib import Path
from typing import Any

import jax
import numpy as np

from funcnet import text, tree
from funcnet.models import bert

__all__ = ["LABELS", "TAGS", "TEXTS", "saved"]

TEXTS = [
    "The cat sat on the mat, and the dog did not.",
    "A naïve café in Zürich! 中文 and Ελληνικά ς.",
    "Congress of the United States: fellow citizens, we met in peace (1863).",
]
LABELS = ["good", "bad <i>", "neither"]
TAGS = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]


def saved(folder: Path, architecture: str, *, labels: list[str] = (), settings: Any = None, **config: Any) -> Path:
    """Save a model with random weights, large enough that its answers differ, and its tokenizer.

    The weights are drawn by NumPy, which takes no time; no bias is zero.
    """
    tokenizer = text.train_wordpiece(TEXTS * 4, vocab_size=160)
    names = {"num_labels": len(labels), "id2label": dict(enumerate(labels))} if labels else {}
    sizes = {"hidden_size": 32, "num_attention_heads": 2, "intermediate_size": 64, "num_hidden_layers": 2}
    known = {"vocab_size": tokenizer.get_vocab_size(), **sizes, **names, **config}
    net = bert.ARCHITECTURES[architecture](bert.BertConfig.preset("tiny", **known))
    shapes, state = jax.eval_shape(net.init, jax.random.key(0))
    assert not tree.flatten(state)
    draw = np.random.default_rng(1)
    values = {name: draw.normal(0.02, 0.3, one.shape).astype(np.float32) for name, one in tree.flatten(shapes).items()}
    params = tree.unflatten(values)
    bert.save_pretrained(folder, net, params, state)
    text.save_tokenizer(tokenizer, folder)
    if settings:
        (folder / "finetuning.json").write_text(json.dumps(settings))
    return folder
