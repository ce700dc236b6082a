"""A small BERT: its sizes, a batch for it, and directories that hold one."""

import jax
import numpy as np
import pytest

from funcnet import text
from funcnet.models import bert

WORDS = "the cat sat on the mat and the dog lay by the door while rain fell on the roof of the old house"
SMALL = {
    "vocab_size": 97,
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": 24,
}


@pytest.fixture
def sizes():
    return dict(SMALL)


@pytest.fixture
def batch():
    """Three sequences of 20 tokens, two of them padded."""
    random = np.random.default_rng(0)
    lengths = np.array([20, 13, 5])
    shown = np.arange(20) < lengths[:, None]
    ids = np.where(shown, random.integers(5, 97, (3, 20)), 0)
    return {
        "input_ids": ids.astype(np.int32),
        "attention_mask": shown.astype(np.int32),
        "token_type_ids": (shown & (np.arange(20) >= 3)).astype(np.int32),
    }


@pytest.fixture
def saved(tmp_path, sizes):
    """(directory, model, params, state) of a model that we saved."""
    model = bert.BertForPreTraining(bert.BertConfig(**sizes))
    params, state = model.init(jax.random.key(0))
    params = jax.tree.map(lambda a: a + 0.1 * jax.random.normal(jax.random.key(a.size), a.shape), params)
    bert.save_pretrained(tmp_path / "run", model, params, state)
    return tmp_path / "run", model, params, state


@pytest.fixture(params=[0, 7], ids=["exact table", "padded table"])
def directory(request, tmp_path, sizes):
    tokenizer = text.train_wordpiece([WORDS] * 3, vocab_size=90)
    rows = tokenizer.get_vocab_size() + request.param
    model = bert.BertForPreTraining(bert.BertConfig(**sizes | {"max_position_embeddings": 70, "vocab_size": rows}))
    params, state = model.init(jax.random.key(0))
    bert.save_pretrained(tmp_path, model, params, state)
    text.save_tokenizer(tokenizer, tmp_path)
    return tmp_path
