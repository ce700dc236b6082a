"""A small BERT in transformers, and batches for it."""

import numpy as np
import pytest

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
    """Three sequences of 20 tokens, two of them padded; and three masked positions in each."""
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
def reference():
    """Makes transformers' model: random weights, biases and norms moved off their start; eval mode."""
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")

    def make(cls=transformers.BertForPreTraining, dtype=torch.float32, **options):
        torch.manual_seed(0)
        config = transformers.BertConfig(**(SMALL | options), attn_implementation="eager")
        model = cls(config).to(dtype).eval()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(0.1 * torch.randn_like(parameter))
        return model

    return make
