"""The start at neighbours: what the heads see, and what it leaves alone."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from funcnet.models import bert
from funcnet.models.bert.start import start_at_neighbours


@pytest.fixture(scope="module")
def config():
    return bert.BertConfig.preset("tiny", vocab_size=300)


@pytest.fixture(scope="module")
def params(config):
    return bert.BertForPreTraining(config).init(jax.random.key(0))[0]


def attention_weights(params, config, ids):
    """(heads, T, T) of layer 0, from the parameters alone."""
    tables, heads = params["bert"]["embeddings"], config.num_attention_heads
    x = tables["word_embeddings"]["weight"][ids] + tables["position_embeddings"]["weight"][: len(ids)]
    x = x + tables["token_type_embeddings"]["weight"][0]
    x = np.asarray((x - x.mean(-1, keepdims=True)) / x.std(-1, keepdims=True))
    layer = params["bert"]["encoder"]["layer"]["0"]["attention"]["self"]
    query, key = ((x @ np.asarray(layer[name]["weight"]).T).reshape(len(ids), heads, -1) for name in ("query", "key"))
    return jax.nn.softmax(np.einsum("qhk,thk->hqt", query, key) * query.shape[-1] ** -0.5, axis=-1)


def test_two_heads_see_the_neighbours_and_cls_sees_everything(params, config):
    ids = np.random.default_rng(0).integers(0, 300, 128)
    before, after = np.asarray(attention_weights(start_at_neighbours(params, config), config, ids))
    inner = np.arange(2, 127)
    for weights, seen in ((before, inner - 1), (after, inner + 1)):
        np.testing.assert_array_equal(weights[inner].argmax(-1), seen)
        assert np.median(weights[inner, seen]) > 0.8
    assert before[0].max() < 0.1 and after[0].max() < 0.1  # spread over 128 tokens


def test_structure_shapes_and_dtypes_stay_and_the_input_is_not_touched(params, config):
    before = jax.tree.map(np.array, params)
    started = start_at_neighbours(params, config)
    jax.tree.map(np.testing.assert_array_equal, before, params)
    assert jax.tree.structure(started) == jax.tree.structure(params)
    kinds = [jax.tree.map(lambda a: (a.shape, a.dtype), tree) for tree in (started, params)]
    assert kinds[0] == kinds[1]
    half = start_at_neighbours(jax.tree.map(lambda a: a.astype(jnp.bfloat16), params), config)
    assert {a.dtype for a in jax.tree.leaves(half)} == {jnp.dtype(jnp.bfloat16)}


def test_the_encoder_alone_starts_alike(params, config):
    alone = start_at_neighbours(params["bert"], config)
    jax.tree.map(np.testing.assert_array_equal, alone, start_at_neighbours(params, config)["bert"])


def test_jitted_it_is_the_same(params, config):
    jitted = jax.jit(lambda params: start_at_neighbours(params, config))(params)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6), jitted, start_at_neighbours(params, config))


def test_what_is_refused(params, config):
    narrow = bert.BertConfig(vocab_size=50, hidden_size=24, num_hidden_layers=1, num_attention_heads=3)
    with pytest.raises(ValueError, match="expected at least 2 heads of width 16 or more, got 3 of width 8"):
        start_at_neighbours({}, narrow)
    encoder = params["bert"]["encoder"]["layer"]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *encoder.values())
    bert_params = {**params["bert"], "encoder": {"layer": {"*": stacked}}}
    with pytest.raises(ValueError, match="one subtree a layer"):
        start_at_neighbours({**params, "bert": bert_params}, config)
