"""Checkpoints of every kind into models of every kind: what is taken, what starts anew by name, what is refused."""

import dataclasses
import functools
import json
import re
import warnings

import jax
import numpy as np
import pytest

from funcnet import weights
from funcnet.models import bert

NEW = "has new weights, which must be trained:"


@pytest.fixture
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def rewritten(path, change):
    """The file of weights, replaced by what `change` makes of its {name: array}."""
    file = path / "model.safetensors"
    arrays = {name: np.array(array) for name, array in weights.load(file).items()}
    weights.save(file, change(arrays))


def equal(one, other):
    jax.tree.map(np.testing.assert_array_equal, one, other)


# --------------------------------------------------------------------------------------------------- what is taken


def old_names(arrays):
    swap = lambda n: n.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta")
    return {swap(name): array for name, array in arrays.items()}


def leftovers(arrays):
    return arrays | {
        "bert.embeddings.position_ids": np.arange(24)[None],
        "bert.embeddings.token_type_ids": np.zeros(24),
    }


def both_names_of_ties(arrays):
    decoder = {"weight": arrays["bert.embeddings.word_embeddings.weight"], "bias": arrays["cls.predictions.bias"]}
    return arrays | {f"cls.predictions.decoder.{name}": array for name, array in decoder.items()}


@pytest.mark.slow
@pytest.mark.parametrize("change", [old_names, leftovers, both_names_of_ties])
def test_files_of_every_age(saved, change, quiet):
    path, _, params, _ = saved
    rewritten(path, change)
    equal(bert.from_pretrained(path, bert.BertForPreTraining)[1], params)
    equal(bert.from_pretrained(path)[1], params["bert"])


@pytest.mark.parametrize("file", ["pytorch_model.bin", "sharded safetensors", "sharded bin"])
def test_files_of_every_format(saved, file, quiet):
    path, model, params, state = saved
    (path / "model.safetensors").unlink()
    shard = 20_000 if "sharded" in file else None
    if file == "sharded safetensors":
        bert.save_pretrained(path, model, params, state, max_shard_size=shard)
    else:
        weights.save(path / "pytorch_model.bin", model.state_dict(params, state), max_shard_size=shard)
    assert (len(list(path.glob("*-of-*"))) > 3) == (shard is not None)
    equal(bert.from_pretrained(path, bert.BertForPreTraining)[1], params)


def test_heads_that_the_model_has_not_are_left_out_in_silence(saved, quiet):
    path, _, params, _ = saved
    equal(bert.from_pretrained(path)[1], params["bert"])
    _, words, _ = bert.from_pretrained(path, bert.BertForMaskedLM)
    equal(words["cls"]["predictions"], params["cls"]["predictions"])
    _, follows, _ = bert.from_pretrained(path, bert.BertForNextSentencePrediction)
    equal(follows["cls"]["seq_relationship"], params["cls"]["seq_relationship"])


def test_the_scanned_form_reads_and_starts_the_same(saved):
    path, _, params, _ = saved
    config = dataclasses.replace(bert.BertConfig.load(path), scan_layers=True)
    with pytest.warns(UserWarning, match=NEW):
        model, stacked, _ = bert.from_pretrained(path, bert.BertForTokenClassification, config=config)
    encoder = {name: params["bert"][name] for name in ("embeddings", "encoder")}
    equal(model.unstack(stacked)["bert"], encoder)
    with pytest.warns(UserWarning, match=NEW):
        _, plain, _ = bert.from_pretrained(path, bert.BertForTokenClassification)
    equal(stacked["classifier"], plain["classifier"])


# -------------------------------------------------------------------------------------- what starts anew, and is named


def test_a_head_that_the_file_lacks_starts_anew_and_is_named(saved):
    path, _, params, _ = saved
    config = dataclasses.replace(bert.BertConfig.load(path), num_labels=5)
    told = rf"BertForSequenceClassification {NEW} classifier\.weight, classifier\.bias\.$"
    with pytest.warns(UserWarning, match=told) as messages:
        _, read, _ = bert.from_pretrained(path, bert.BertForSequenceClassification, config=config)
    assert len(messages) == 1 and str(path) in str(messages[0].message) and messages[0].filename == __file__
    equal(read["bert"], params["bert"])
    assert read["classifier"]["weight"].shape == (5, 32) and not read["classifier"]["bias"].any()
    with pytest.warns(UserWarning, match=told):
        _, other, _ = bert.from_pretrained(
            path, bert.BertForSequenceClassification, config=config, key=jax.random.key(1)
        )
    assert (other["classifier"]["weight"] != read["classifier"]["weight"]).any()


def test_a_pooler_that_the_file_lacks_starts_anew_and_is_named(saved):
    path = saved[0]
    rewritten(path, lambda arrays: {name: a for name, a in arrays.items() if "pooler" not in name})
    with pytest.warns(UserWarning, match=rf"BertModel {NEW} pooler\.dense\.weight, pooler\.dense\.bias\.$"):
        bert.from_pretrained(path)


def test_a_head_of_another_shape_starts_anew_where_the_caller_asked_for_it(tmp_path, sizes, quiet):
    config = bert.BertConfig(**sizes, num_labels=3)
    model = bert.BertForSequenceClassification(config)
    bert.save_pretrained(tmp_path, model, *model.init(jax.random.key(0)))
    bert.from_pretrained(tmp_path, bert.BertForSequenceClassification)
    wanted = dataclasses.replace(config, num_labels=4)
    told = rf"{NEW} classifier\.weight \(the file's is \(3, 32\)\), classifier\.bias \(the file's is \(3,\)\)\.$"
    with pytest.warns(UserWarning, match=told):
        _, params, _ = bert.from_pretrained(tmp_path, bert.BertForSequenceClassification, config=wanted)
    assert params["classifier"]["bias"].shape == (4,)
    (tmp_path / "config.json").write_text(json.dumps(wanted.to_dict()))
    with pytest.raises(ValueError, match=r"mis-shaped: classifier\.weight expected \(4, 32\), got \(3, 32\)"):
        bert.from_pretrained(tmp_path, bert.BertForSequenceClassification)


def test_what_no_bert_has_is_named(saved):
    path = saved[0]
    extra = {"bert.encoder.layer.0.crossattention.self.query.weight": np.ones((32, 32), np.float32)}
    rewritten(path, lambda arrays: arrays | extra)
    told = r"Ignored weights that the model does not have: bert\.encoder\.layer\.0\.crossattention.*weight\.$"
    with pytest.warns(UserWarning, match=told):
        bert.from_pretrained(path, bert.BertForPreTraining)
    config = dataclasses.replace(bert.BertConfig.load(path), num_hidden_layers=2)
    with pytest.warns(UserWarning, match=r"encoder\.layer\.2\..* and 5 more\.$"):
        bert.from_pretrained(path, config=config)


# ------------------------------------------------------------------------------------------------- some of the layers


def test_some_layers_by_pattern(saved, quiet):
    path, _, params, _ = saved
    layers = params["bert"]["encoder"]["layer"]
    for patterns, expected in (
        (["encoder.layer.0", "encoder.layer.1"], ("0", "1")),
        (["encoder.layer.2", "encoder.layer.0"], ("0", "2")),
        ("encoder.layer.1", ("1",)),
        ("encoder.layer.*", ("0", "1", "2")),
    ):
        for cls in (bert.BertModel, bert.BertForMaskedLM):
            model, read, _ = bert.from_pretrained(path, cls, layers=patterns)
            assert model.config.num_hidden_layers == len(expected)
            read = read.get("bert", read)["encoder"]["layer"]
            equal(read, {str(i): layers[name] for i, name in enumerate(expected)})
    with pytest.raises(ValueError, match=r"from_pretrained: pattern 'encoder\.layer\.7' matches nothing"):
        bert.from_pretrained(path, layers="encoder.layer.7")


# ---------------------------------------------------------------------------------------------------- what is refused


def test_all_that_is_missing_or_mis_shaped_in_one_error(saved):
    path = saved[0]

    def damage(arrays):
        del arrays["bert.encoder.layer.1.output.dense.bias"], arrays["bert.embeddings.LayerNorm.weight"]
        arrays["bert.encoder.layer.2.attention.self.key.weight"] = np.ones((32, 31), np.float32)
        del arrays["cls.predictions.transform.dense.bias"]
        return arrays

    rewritten(path, damage)
    with pytest.raises(ValueError) as error:
        bert.from_pretrained(path, bert.BertForPreTraining)
    assert str(error.value).splitlines() == [
        f"bert.from_pretrained: {path}: the weights do not fit this BertForPreTraining.",
        "  missing: bert.embeddings.LayerNorm.weight",
        "  missing: bert.encoder.layer.1.output.dense.bias",
        "  missing: cls.predictions.transform.dense.bias",
        "  mis-shaped: bert.encoder.layer.2.attention.self.key.weight expected (32, 32), got (32, 31)",
        "  Use the weights that belong to the config, or the config that fits the weights.",
    ]


def test_weights_of_another_architecture(saved):
    path = saved[0]
    names = {"attention.self.query": "attention.q_lin", "bert.": "distilbert.", "encoder.layer": "transformer.layer"}

    def rename(name):
        for old, new in names.items():
            name = name.replace(old, new)
        return name

    rewritten(path, lambda arrays: {rename(name): array for name, array in arrays.items()})
    with pytest.raises(
        ValueError, match=r"do not fit this BertModel\.\n  missing: embeddings\.word_embeddings\.weight"
    ):
        bert.from_pretrained(path)
    weights.save(path / "pytorch_model.bin", {"epoch": 3, "model": {}})
    (path / "model.safetensors").unlink()
    with pytest.raises(ValueError, match=r"the weights are not a dict \{name: array\}; .* Save the state_dict alone"):
        bert.from_pretrained(path)


def test_a_vocabulary_longer_than_the_word_table(saved, quiet):
    path, _, params, _ = saved
    (path / "vocab.txt").write_text("".join(f"w{i}\n" for i in range(97)))
    equal(bert.from_pretrained(path)[1], params["bert"])
    (path / "vocab.txt").write_text("".join(f"w{i}\n" for i in range(99)))
    message = (
        r"vocab\.txt, line 98: the vocabulary is larger than the model's word table; expected at most 97 .* got 99"
    )
    with pytest.raises(ValueError, match=message):
        bert.from_pretrained(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"hidden_act": "mish"}, "hidden_act is unknown; expected one of gelu, .* got 'mish'"),
        (
            {"model_type": "distilbert"},
            "the config belongs to another kind of model; expected model_type 'bert', got 'distilbert'",
        ),
        ({"is_decoder": True}, "is_decoder is not supported"),
        ({"pruned_heads": {"0": [1]}}, "pruned_heads is not supported"),
        ({"quantization_config": {"bits": 4}}, "quantization_config is not supported; expected None"),
        ({"hidden_size": "32"}, "hidden_size has the wrong type; expected an integer, got '32'"),
        ({"num_hidden_layers": True}, "num_hidden_layers has the wrong type; expected an integer, got True"),
        ({"layer_norm_eps": "1e-12"}, "layer_norm_eps has the wrong type; expected a number, got '1e-12'"),
        ({"layer_norm_eps": -1.0}, "layer_norm_eps is out of range; expected 0 or more, got -1.0"),
        ({"initializer_range": None}, "initializer_range has the wrong type; expected a number, got None"),
        ({"hidden_dropout_prob": "0.1"}, "hidden_dropout_prob has the wrong type; expected a number, got '0.1'"),
        ({"classifier_dropout": [0]}, r"classifier_dropout has the wrong type; expected a number or None, got \[0\]"),
        ({"pad_token_id": "0"}, "pad_token_id has the wrong type; expected an integer or None, got '0'"),
        ({"hidden_act": ["gelu"]}, r"hidden_act has the wrong type; expected a string, got \['gelu'\]"),
        ({"problem_type": ["regression"]}, "problem_type has the wrong type; expected a string or None, got"),
        ({"position_embedding_type": 1}, "position_embedding_type has the wrong type; expected a string, got 1"),
        ({"scan_layers": 1}, "scan_layers has the wrong type; expected True or False, got 1"),
        (
            {"architectures": "BertModel"},
            "architectures has the wrong type; expected a list of strings, got 'BertModel'",
        ),
        (
            {"id2label": {"0": ["no"]}},
            r"id2label has the wrong type; expected integer labels with string names, got 0: \['no'\]",
        ),
        ({"id2label": ["no", "yes"]}, r"id2label is not a dict of labels; .* got \['no', 'yes'\]"),
        ({"id2label": {"a": "no"}}, "id2label is not a dict of labels"),
    ],
    ids=str,
)
def test_configs_that_are_refused_name_the_file(saved, change, message):
    path = saved[0]
    values = json.loads((path / "config.json").read_text())
    (path / "config.json").write_text(json.dumps(values | change))
    with pytest.raises(
        ValueError, match=rf"{re.escape(str(path))}/config\.json: BertConfig: .*{message}|{message}"
    ) as error:
        bert.from_pretrained(path)
    assert str(path / "config.json") in str(error.value)


def test_names_of_labels_that_are_no_texts_in_the_file(saved):
    """transformers 4 opens such a file too; in Python they are refused."""
    path = saved[0]
    values = json.loads((path / "config.json").read_text())
    (path / "config.json").write_text(json.dumps(values | {"id2label": {"0": 0, "1": 2.5}, "label2id": {"0": 0}}))
    assert bert.BertConfig.load(path).id2label == {0: "0", 1: "2.5"}
    with pytest.raises(TypeError, match=r"id2label has the wrong type; .* got 0: 0"):
        bert.BertConfig(id2label={0: 0, 1: 1})


def test_unknown_fields_are_named_with_the_file(saved):
    path = saved[0]
    values = json.loads((path / "config.json").read_text())
    (path / "config.json").write_text(
        json.dumps(values | {"rotary_base": 10000, "use_cache": True, "embedding_size": 8})
    )
    told = rf"{re.escape(str(path))}/config\.json has unknown fields, .* got rotary_base, embedding_size\."
    with pytest.warns(UserWarning, match=told) as messages:
        bert.from_pretrained(path)
    assert len(messages) == 1


# ------------------------------------------------------------------------------------------- a word table of round size


@pytest.mark.slow
def test_padded_rows_are_no_words(tmp_path, sizes, batch, quiet):
    """The same logits and losses; no probability, no gradient; and the file is as before."""
    path, model = tmp_path / "run", bert.BertForPreTraining(bert.BertConfig(**sizes | {"num_hidden_layers": 1}))
    params, state = model.init(jax.random.key(0))
    params = jax.tree.map(lambda a: a + 0.1 * jax.random.normal(jax.random.key(a.size), a.shape), params)
    bert.save_pretrained(path, model, params, state)
    padded, config = bert.pad_vocab(params, model.config)
    assert (config.vocab_size, config.vocab_padding) == (97, 31)
    assert padded["bert"]["embeddings"]["word_embeddings"]["weight"].shape == (128, 32)
    wide = bert.BertForPreTraining(config)
    labels = np.where(batch["attention_mask"] == 1, batch["input_ids"], -100)

    @functools.partial(jax.jit, static_argnums=0)
    def run(net, params):
        def loss(params):
            out, _ = net.apply(params, state, **batch, labels=labels)
            return out[0], out[1]

        return jax.value_and_grad(loss, has_aux=True)(params)

    (value, words), gradients = run(wide, padded)
    (narrow_value, narrow_words), narrow = run(model, params)
    np.testing.assert_allclose(value, narrow_value, rtol=1e-6)
    np.testing.assert_allclose(words[..., :97], narrow_words, rtol=1e-5, atol=1e-6)
    assert (jax.nn.softmax(words)[..., 97:] == 0).all()
    assert not gradients["bert"]["embeddings"]["word_embeddings"]["weight"][97:].any()
    assert not gradients["cls"]["predictions"]["bias"][97:].any()
    back, _ = bert.unpad_vocab(gradients, config)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6), back, narrow)

    equal(bert.unpad_vocab(padded, config)[0], params)
    equal(bert.pad_vocab(padded, config, 1)[0], params)
    bert.save_pretrained(path.parent / "wide", wide, padded, state)
    for name in ("model.safetensors", "config.json"):
        assert (path.parent / "wide" / name).read_bytes() == (path / name).read_bytes()


def test_paddings_that_cannot_be(saved):
    _, model, params, _ = saved
    with pytest.raises(ValueError, match="multiple is out of range; expected at least 1, got 0"):
        bert.pad_vocab(params, model.config, 0)
    padded, _ = bert.pad_vocab(params, model.config)
    with pytest.raises(
        ValueError, match=r"word_embeddings\.weight does not match the config; expected .* = 97 rows, got 128"
    ):
        bert.pad_vocab(padded, model.config)
