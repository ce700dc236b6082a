"""BERT beyond parity: masked positions, dropout, precision, its start, its errors, its config."""

import inspect
import pydoc

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from funcnet import nn, tree
from funcnet.models import bert
from funcnet.models.bert.activation import activation


@pytest.fixture
def model(sizes):
    return bert.BertForPreTraining(bert.BertConfig(**sizes))


@pytest.fixture
def start(model):
    return model.init(jax.random.key(0))


def test_masked_positions_give_the_full_logits_there(model, start, batch):
    places = np.array([[1, 7, 19], [0, 12, 0], [4, 2, 2]])
    (full, follows), _ = model.apply(*start, **batch)
    (some, same), _ = model.apply(*start, **batch, masked_positions=places)
    np.testing.assert_allclose(some, np.take_along_axis(np.asarray(full), places[:, :, None], 1), rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(same, follows)


def test_dropout_draws_by_key_and_by_layer(model, start, batch):
    run = lambda key: model.apply(*start, **batch, training=True, rng=jax.random.key(key))[0][0]
    np.testing.assert_array_equal(run(1), run(1))
    assert np.abs(run(1) - run(2)).max() > 1e-3
    with pytest.raises(ValueError, match=r"embeddings\.dropout .*needs randomness.*rng="):
        model.apply(*start, **batch, training=True)


def test_dropout_of_one_probability_alone(sizes, batch):
    """Each of the two probabilities reaches its layers and no other."""
    config = bert.BertConfig(**sizes, hidden_dropout_prob=0.25, attention_probs_dropout_prob=0.5)
    model = bert.BertForPreTraining(config)
    rates = {name: part.p for name, part in model.named_modules() if name.endswith("dropout")}
    assert len(rates) == 1 + 3 * 3
    assert {rate for name, rate in rates.items() if "self" in name} == {0.5}
    assert {rate for name, rate in rates.items() if "self" not in name} == {0.25}


def test_both_forms_of_the_stack_are_one_model(sizes, batch):
    """Loop and scan: the same start, the same dropout, the same output, the same names."""
    loop, scan = (bert.BertForPreTraining(bert.BertConfig(**sizes, scan_layers=scan)) for scan in (False, True))
    params, state = loop.init(jax.random.key(3))
    stacked, stacked_state = scan.init(jax.random.key(3))
    for name, array in scan.state_dict(stacked, stacked_state).items():
        np.testing.assert_array_equal(array, loop.state_dict(params, state)[name])
    run = lambda net, params, state: net.apply(params, state, **batch, training=True, rng=jax.random.key(5))[0]
    for one, other in zip(run(loop, params, state), run(scan, stacked, stacked_state), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


def test_bfloat16_parameters_compute_in_bfloat16(model, start, batch):
    params, state = start
    (logits, _), _ = model.apply(params, state, **batch)
    (half, half_follows), _ = model.apply(tree.cast(params, jnp.bfloat16), state, **batch)
    assert half.dtype == half_follows.dtype == jnp.bfloat16
    assert np.abs(half.astype(np.float32) - logits).max() < 0.05 * np.abs(logits).max()


def test_the_start_is_berts(sizes):
    """Weights N(0, 0.02²) cut at two standard deviations; biases, padding row 0; norms 1 and 0; ties hold."""
    model = bert.BertForPreTraining(bert.BertConfig(**sizes | {"vocab_size": 3000}, initializer_range=0.02))
    sd = model.state_dict(*model.init(jax.random.key(0)))
    for name, array in sd.items():
        if name.endswith("LayerNorm.weight"):
            assert (array == 1).all(), name
        elif name.endswith("bias"):
            assert (array == 0).all(), name
        else:
            assert np.abs(array).max() <= 0.04 and np.abs(array).max() > 0.02, name
    words = np.asarray(sd["bert.embeddings.word_embeddings.weight"])
    assert (words[0] == 0).all() and (words[1:] != 0).any(axis=1).all()
    # A normal cut at two deviations has 0.880 of its deviation.
    assert words[1:].std() == pytest.approx(0.0176, rel=0.01) and np.abs(words).max() > 0.0399
    assert np.abs(words.mean()) < 2e-4
    different = [sd[f"bert.encoder.layer.{i}.intermediate.dense.weight"] for i in range(3)]
    assert not np.array_equal(different[0], different[1])


@pytest.mark.slow
def test_padding_row_gets_its_gradient_from_the_decoder_alone(model, start, batch):
    params, state = start

    def loss(params, which):
        sequence, pooled = model.apply(params, state, **batch)[0]
        return pooled.sum() if which == "follows" else sequence.std()

    row = lambda which: jax.grad(loss)(params, which)["bert"]["embeddings"]["word_embeddings"]["weight"][0]
    assert (row("follows") == 0).all()
    assert (row("words") != 0).any()


@pytest.mark.parametrize("new", [nn.ReLU(), jax.nn.relu, "relu"], ids=["module", "function", "name"])
@pytest.mark.parametrize("place", ["intermediate_act_fn", "transform_act_fn", "activation"])
def test_activations_have_transformers_names_and_may_be_replaced(sizes, batch, place, new):
    """Under the names of transformers, by what runs there: the numbers change, the parameters' names do not."""
    model = bert.BertForPreTraining(bert.BertConfig(**sizes))
    params, state = model.init(jax.random.key(0))
    before, _ = model.apply(params, state, **batch)
    names, described = list(model.state_dict(params, state)), repr(model)
    for name, part in model.named_modules():
        if place in vars(part):
            setattr(part, place, new)
            assert place in repr(part), name
    after, _ = model.apply(params, state, **batch)
    assert list(model.state_dict(params, state)) == names and repr(model) != described
    expected, _ = _relu_in(place, sizes).apply(params, state, **batch)
    for now, said in zip(after, expected, strict=True):
        np.testing.assert_array_equal(now, said)
    assert any(np.abs(now - was).max() > 1e-4 for was, now in zip(before, after, strict=True))


def _relu_in(place, sizes):
    """The same model, made with relu in one of the three places from the start."""
    relu, gelu = (bert.BertForPreTraining(bert.BertConfig(**sizes, hidden_act=name)) for name in ("relu", "gelu"))
    if place == "intermediate_act_fn":
        gelu.bert.encoder = relu.bert.encoder
    elif place == "transform_act_fn":
        gelu.cls.predictions.transform = relu.cls.predictions.transform
    else:
        gelu.bert.pooler.activation = jax.nn.relu
    return gelu


def test_an_activation_of_an_unknown_name(model, start, batch):
    model.bert.pooler.activation = "mish"
    with pytest.raises(ValueError, match=r"hidden_act is unknown; expected one of gelu, .*, got 'mish'"):
        model.apply(*start, **batch)


def test_a_model_without_pooler(sizes, batch):
    model = bert.BertModel(bert.BertConfig(**sizes), add_pooling_layer=False)
    params, state = model.init(jax.random.key(0))
    (sequence, pooled), _ = model.apply(params, state, **batch)
    assert sequence.shape == (3, 20, 32) and pooled is None and "pooler" not in params


def test_inputs_that_do_not_fit(model, start):
    with pytest.raises(ValueError, match=r"longer than the position table; expected at most 24 tokens, got 25"):
        model.apply(*start, jnp.ones((1, 25), jnp.int32))
    with pytest.raises(ValueError, match=r"input_ids has the wrong rank; expected \(batch, sequence\), got \(5,\)"):
        model.apply(*start, jnp.ones(5, jnp.int32))
    with pytest.raises(ValueError, match=r"attention_mask has the wrong rank; .* got \(5,\)"):
        model.apply(*start, jnp.ones((1, 5), jnp.int32), jnp.ones(5))
    with pytest.raises(TypeError, match="integers"):
        model.apply(*start, jnp.ones((1, 5)))


@pytest.mark.parametrize("dtype", [np.float32, jnp.bfloat16, np.int32])
@pytest.mark.parametrize("as_array", [np.asarray, jnp.asarray])
def test_an_additive_mask_is_not_read_inverted(model, start, batch, dtype, as_array):
    """0 shows and -1e9 hides: refused where it is seen, NaN under jit; what the message says to write is right."""
    run = lambda mask: model.apply(*start, batch["input_ids"], mask)[0][0]
    shown = batch["attention_mask"]
    expected, added = run(shown), as_array(np.where(shown, 0, -1e9).astype(dtype))
    for mask in (added, added[:, None].repeat(20, axis=1)):
        with pytest.raises(ValueError, match=r"other than 0 and 1; .* got -\S+\. For an additive .* `mask == 0`"):
            run(mask)
        assert np.isnan(jax.jit(run)(mask)[1:]).all()
    np.testing.assert_array_equal(run(added == 0), expected)
    for one in (run, jax.jit(run)):
        np.testing.assert_allclose(one(as_array(shown.astype(dtype))), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("name", "layers", "width", "heads"),
    [
        ("tiny", 2, 128, 2),
        ("mini", 4, 256, 4),
        ("small", 4, 512, 8),
        ("medium", 8, 512, 8),
        ("base", 12, 768, 12),
        ("large", 24, 1024, 16),
    ],
)
def test_presets_are_googles(name, layers, width, heads):
    config = bert.BertConfig.preset(name, vocab_size=7)
    assert (config.num_hidden_layers, config.hidden_size, config.num_attention_heads) == (layers, width, heads)
    assert config.intermediate_size == 4 * width and config.vocab_size == 7


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"hidden_size": 10, "num_attention_heads": 4},
            "hidden_size is not divisible by num_attention_heads.* = 4, got 10",
        ),
        ({"num_hidden_layers": 0}, "num_hidden_layers is too small; expected at least 1, got 0"),
        ({"hidden_dropout_prob": 1.5}, "hidden_dropout_prob is out of range; expected 0 to 1, got 1.5"),
        ({"pad_token_id": 99999}, "pad_token_id is out of range"),
        (
            {"position_embedding_type": "rotary"},
            "position_embedding_type is unknown; expected 'absolute' or .* 'rotary'",
        ),
        ({"problem_type": "ranking"}, "problem_type is unknown; expected None or 'regression' .*, got 'ranking'"),
        ({"hidden_act": "mish"}, "hidden_act is unknown; expected one of gelu, .*, got 'mish'"),
        ({"classifier_dropout": 2}, "classifier_dropout is out of range; expected 0 to 1, got 2"),
        ({"vocab_padding": -1}, "vocab_padding is out of range; expected 0 or more, got -1"),
        (
            {"num_labels": 3, "id2label": {0: "ham", 1: "spam"}},
            "id2label does not have one name per label; .*2, got 0, 1",
        ),
    ],
)
def test_configs_that_cannot_be(change, message):
    with pytest.raises(ValueError, match=message):
        bert.BertConfig(**change)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"vocab_padding": 0.5}, "vocab_padding has the wrong type; expected an integer, got 0.5"),
        ({"id2label": ["ham", "spam"]}, r"id2label has the wrong type; expected a dict of .*, got \['ham', 'spam'\]"),
        ({"id2label": {"0": "ham", 1: "spam"}}, "id2label has the wrong type; .* with string names, got '0': 'ham'"),
    ],
)
def test_fields_of_another_kind(change, message):
    with pytest.raises(TypeError, match=message):
        bert.BertConfig(**change)


def test_configs_of_other_models(tmp_path):
    for values, message in (
        (
            {"model_type": "roberta"},
            "the config belongs to another kind of model; expected model_type 'bert', got 'roberta'",
        ),
        ({"is_decoder": True}, "is_decoder is not supported; expected False, got True"),
        ({"tie_word_embeddings": False}, "tie_word_embeddings is not supported"),
    ):
        with pytest.raises(ValueError, match=message):
            bert.BertConfig.from_dict(values)
    with pytest.raises(ValueError, match=r"unknown size; expected one of tiny, .*, got 'huge'"):
        bert.BertConfig.preset("huge")
    with pytest.raises(FileNotFoundError, match=r"config\.json is missing"):
        bert.BertConfig.load(tmp_path)
    for text, message in (("{", "is not valid JSON"), ("[]", "expected a JSON object, got list")):
        (tmp_path / "config.json").write_text(text)
        with pytest.raises(ValueError, match=message):
            bert.BertConfig.load(tmp_path)
    with pytest.raises(ValueError, match=r"hidden_act is unknown; expected one of gelu, .*, got 'mish'"):
        activation("mish")


def test_help_lists_what_the_package_holds():
    """`help` passes over what a package imports, unless `__all__` names it."""
    told = pydoc.render_doc(bert, renderer=pydoc.plaintext)
    modules = {name for name, value in vars(bert).items() if inspect.ismodule(value)} - {"losses"}
    assert set(bert.__all__) == {name for name in vars(bert) if name[0] != "_"} - modules
    assert "class BertForPreTraining(" in told and "from_pretrained(path" in told and "quick_start(" in told


def test_heads_that_cannot_be(sizes, batch):
    with pytest.raises(ValueError, match=r"num_labels is wrong; expected 2 \(the start and the end\), got 3"):
        bert.BertForQuestionAnswering(bert.BertConfig(**sizes, num_labels=3))
    model = bert.BertForQuestionAnswering(bert.BertConfig(**sizes))
    params, state = model.init(jax.random.key(0))
    with pytest.raises(ValueError, match="expected start_positions and end_positions, got one of them"):
        model.apply(params, state, **batch, end_positions=jnp.zeros(3, jnp.int32))
    choices = bert.BertForMultipleChoice(bert.BertConfig(**sizes))
    with pytest.raises(ValueError, match=r"expected \(batch, choices, sequence\), got \(3, 20\)"):
        choices.apply(*choices.init(jax.random.key(0)), **batch)
