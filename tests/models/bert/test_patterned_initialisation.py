"""The quick start: what the heads see, and what it leaves alone."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from funcnet.models import bert
from funcnet.models.bert.patterned_initialisation import quick_start


@pytest.fixture(scope="module")
def config():
    return bert.BertConfig.preset("tiny", vocab_size=300)


@pytest.fixture(scope="module")
def params(config):
    return bert.BertForPreTraining(config).init(jax.random.key(0))[0]


def attention_weights(params, config, ids, types, layer):
    """(heads, T, T) of a layer that is given the embeddings, from the parameters alone."""
    tables, heads = params["bert"]["embeddings"], config.num_attention_heads
    x = tables["word_embeddings"]["weight"][ids] + tables["position_embeddings"]["weight"][: len(ids)]
    x = x + tables["token_type_embeddings"]["weight"][types]
    x = np.asarray((x - x.mean(-1, keepdims=True)) / x.std(-1, keepdims=True))
    layer = params["bert"]["encoder"]["layer"][layer]["attention"]["self"]
    query, key = ((x @ np.asarray(layer[name]["weight"]).T).reshape(len(ids), heads, -1) for name in ("query", "key"))
    return np.asarray(jax.nn.softmax(np.einsum("qhk,thk->hqt", query, key) * query.shape[-1] ** -0.5, axis=-1))


@pytest.mark.slow
def test_what_the_four_heads_see(params, config):
    started = quick_start(params, config)
    ids = np.random.default_rng(0).permutation(300)[:128]
    ids[90] = ids[40]  # a word that both segments hold
    types = (np.arange(128) >= 64).astype(int)
    before, same = attention_weights(started, config, ids, types, "0")
    after, reader = attention_weights(started, config, ids, types, "1")
    inner = np.arange(2, 127)
    for weights, seen in ((before, inner - 1), (after, inner + 1)):
        assert (weights[inner].argmax(-1) == seen).mean() > 0.97
        assert np.median(weights[inner, seen]) > 0.8
    assert before[0].max() < 0.1 and after[0].max() < 0.1  # [CLS] has no position: spread over 128 tokens
    assert same[40, 90] > 0.8 and same[90, 40] > 0.8  # the copy in the other segment, before itself
    assert np.median(np.delete(same[inner, inner], (38, 88))) > 0.8  # a word of its own finds itself
    assert reader[0, types == 1].sum() > 0.9  # [CLS] reads the second segment
    assert reader[5].max() < 2 / 128  # the others average


def test_log_frequencies_say_which_words_are_rare(params, config):
    counts = np.r_[[1] * 5, [1000] * 95, [10] * 200]  # five markers, which the text never holds
    log_frequencies = np.log(counts / counts.sum())
    started = quick_start(params, config, log_frequencies)
    np.testing.assert_allclose(started["cls"]["predictions"]["bias"], log_frequencies, rtol=1e-6)
    rarity = started["bert"]["embeddings"]["word_embeddings"]["weight"][:, 19]
    assert np.ptp(rarity[:100]) == 0 and np.ptp(rarity[100:]) == 0 and rarity[100] > 5 * abs(rarity[5])

    ids = np.random.default_rng(0).permutation(np.arange(5, 300))[:128]
    types = (np.arange(128) >= 64).astype(int)
    reader = attention_weights(started, config, ids, types, "1")[1]
    rare = ids >= 100
    assert reader[0, types == 1].sum() > 0.99
    assert reader[0, (types == 1) & rare].mean() > 5 * reader[0, (types == 1) & ~rare].mean()


@pytest.mark.slow
def test_structure_shapes_and_dtypes_stay_and_the_input_is_not_touched(params, config):
    before = jax.tree.map(np.array, params)
    started = quick_start(params, config)
    jax.tree.map(np.testing.assert_array_equal, before, params)
    assert jax.tree.structure(started) == jax.tree.structure(params)
    kinds = [jax.tree.map(lambda a: (a.shape, a.dtype), tree) for tree in (started, params)]
    assert kinds[0] == kinds[1]
    half = quick_start(jax.tree.map(lambda a: a.astype(jnp.bfloat16), params), config)
    assert {a.dtype for a in jax.tree.leaves(half)} == {jnp.dtype(jnp.bfloat16)}


def test_the_encoder_alone_starts_alike(params, config):
    alone = quick_start(params["bert"], config)
    jax.tree.map(np.testing.assert_array_equal, alone, quick_start(params, config)["bert"])


def test_jitted_it_is_the_same(params, config):
    jitted = jax.jit(lambda params: quick_start(params, config))(params)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6), jitted, quick_start(params, config))


def test_what_is_refused(params, config):
    narrow = bert.BertConfig(vocab_size=50, hidden_size=24, num_hidden_layers=1, num_attention_heads=3)
    with pytest.raises(ValueError, match="heads of width 20 or more, got 1 layers and 3 heads of width 8"):
        quick_start({}, narrow)
    with pytest.raises(ValueError, match=r"log_frequencies has the wrong shape; expected \(300,\), .* got \(299,\)"):
        quick_start(params, config, np.zeros(299))
    encoder = params["bert"]["encoder"]["layer"]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *encoder.values())
    bert_params = {**params["bert"], "encoder": {"layer": {"*": stacked}}}
    with pytest.raises(ValueError, match="one subtree per layer"):
        quick_start({**params, "bert": bert_params}, config)
