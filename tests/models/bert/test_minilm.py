"""A real BERT (MiniLM, 22.7 M parameters) against transformers, on real text of every length."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
import transformers

from funcnet import text, tree, weights
from funcnet.models import bert
from tests import real_data
from tests.compare import furthest, relative

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder():
    return real_data.minilm()


@pytest.fixture(scope="module")
def batch(folder):
    """The beginnings of BBC's articles, of lengths from 5 to 128, padded."""
    tokenizer = text.load_tokenizer(folder)
    articles, lengths = sorted(real_data.bbc().glob("*/001.txt")), (128, 77, 40, 19, 5)
    ids = [tokenizer.encode(a.read_text("utf-8", "replace")).ids[:n] for a, n in zip(articles, lengths, strict=True)]
    longest = max(map(len, ids))
    assert longest == 128 and len(ids) == 5
    return {
        "input_ids": np.array([row + [0] * (longest - len(row)) for row in ids], np.int32),
        "attention_mask": np.array([[1] * len(row) + [0] * (longest - len(row)) for row in ids], np.int32),
        "token_type_ids": np.array([[int(p > len(row) // 2) for p in range(longest)] for row in ids], np.int32),
    }


def test_every_layer_and_every_gradient(folder, batch):
    theirs = transformers.BertModel.from_pretrained(folder, attn_implementation="eager").eval()
    random = np.random.default_rng(0)
    shown = batch["attention_mask"][:, :, None]
    cotangents = [random.normal(size=(*shown.shape[:2], 384)) * shown, random.normal(size=(5, 384))]
    out = theirs(**{n: torch.tensor(a, dtype=torch.long) for n, a in batch.items()}, output_hidden_states=True)
    sum((o * torch.tensor(c, dtype=o.dtype)).sum() for o, c in zip(out[:2], cotangents, strict=True)).backward()

    model, params, state = bert.from_pretrained(folder)

    def loss(params):
        out, _ = model.apply(params, state, **batch, output_hidden_states=True)
        return sum((o * jnp.asarray(c, o.dtype)).sum() for o, c in zip(out[:2], cotangents, strict=True)), out

    gradients, (_, pooled, states) = jax.jit(jax.grad(loss, has_aux=True))(params)
    expected = [layer.detach().numpy() * shown for layer in out.hidden_states]
    assert len(states) == len(expected) == 7
    for ours, reference in zip(states, expected, strict=True):
        assert relative(np.asarray(ours) * shown, reference, expected) < 2e-5
    assert relative(pooled, out.pooler_output.detach().numpy(), [out.pooler_output.detach().numpy()]) < 2e-5
    distance, worst = furthest(tree.flatten(gradients), {n: p.grad.numpy() for n, p in theirs.named_parameters()})
    assert distance < 1e-4, worst


def test_saved_back_it_is_the_same_file_to_transformers(folder, tmp_path):
    bert.save_pretrained(tmp_path, *bert.from_pretrained(folder))
    before, after = weights.load(folder / "model.safetensors"), weights.load(tmp_path / "model.safetensors")
    assert set(before) - set(after) <= {"embeddings.position_ids"} and set(after) <= set(before)
    for name, array in after.items():
        assert array.dtype == before[name].dtype and array.tobytes() == before[name].tobytes(), name
    one, told = transformers.BertModel.from_pretrained(tmp_path, output_loading_info=True)
    assert not any(told[kind] for kind in ("missing_keys", "unexpected_keys", "mismatched_keys")), told
    for name, tensor in transformers.BertModel.from_pretrained(folder).state_dict().items():
        assert torch.equal(one.state_dict()[name], tensor), name


def test_half_its_layers(folder, batch):
    """The lower half of the layers gives the whole model's hidden state in the middle."""
    model, params, state = bert.from_pretrained(folder, layers=[f"encoder.layer.{i}" for i in range(3)])
    whole, whole_params, whole_state = bert.from_pretrained(folder)
    (half, _), _ = jax.jit(model.apply)(params, state, **batch)
    run = jax.jit(whole.apply, static_argnames="output_hidden_states")
    (_, _, states), _ = run(whole_params, whole_state, **batch, output_hidden_states=True)
    np.testing.assert_allclose(half, states[3], rtol=1e-5, atol=1e-5)
