"""Directories: what we save transformers opens with equal logits, and back; and the guesses for masked words."""

import contextlib
import json

import jax
import numpy as np
import pytest
import torch
import transformers

from funcnet import text, weights
from funcnet.models import bert
from tests.compare import relative


@pytest.fixture
def saved(tmp_path, sizes):
    """(directory, model, params, state) of a model that we saved."""
    model = bert.BertForPreTraining(bert.BertConfig(**sizes))
    params, state = model.init(jax.random.key(0))
    params = jax.tree.map(lambda a: a + 0.1 * jax.random.normal(jax.random.key(a.size), a.shape), params)
    bert.save_pretrained(tmp_path / "run", model, params, state)
    return tmp_path / "run", model, params, state


def theirs_on(model, batch):
    with torch.no_grad():
        out = model.eval()(**{name: torch.tensor(array, dtype=torch.long) for name, array in batch.items()})
    return [o.numpy() for o in out[:2]]


def test_transformers_opens_what_we_save(saved, batch):
    path, model, params, state = saved
    theirs, told = transformers.BertForPreTraining.from_pretrained(path, output_loading_info=True)
    assert not any(told[kind] for kind in ("missing_keys", "unexpected_keys", "mismatched_keys")), told
    expected = theirs_on(theirs, batch)
    for ours, other in zip(model.apply(params, state, **batch)[0], expected, strict=True):
        assert relative(ours, other, expected) < 1e-5
    encoder = transformers.BertModel.from_pretrained(path)
    (ours, _), _ = model.bert.apply(params["bert"], state["bert"], **batch)
    assert relative(ours, theirs_on(encoder, batch)[0], [ours]) < 1e-5


def test_we_open_what_transformers_saves(tmp_path, reference, batch):
    theirs = reference()
    theirs.save_pretrained(tmp_path)
    model, params, state = bert.from_pretrained(tmp_path, bert.BertForPreTraining)
    expected = theirs_on(theirs, batch)
    for ours, other in zip(model.apply(params, state, **batch)[0], expected, strict=True):
        assert relative(ours, other, expected) < 1e-5


def test_what_is_saved_comes_back_bit_for_bit(saved):
    path, model, params, state = saved
    again, read, read_state = bert.from_pretrained(path, bert.BertForPreTraining)
    assert again.config == model.config and jax.tree.structure(read) == jax.tree.structure(params)
    jax.tree.map(np.testing.assert_array_equal, read, params)
    assert read_state == state
    assert sorted(file.name for file in path.iterdir()) == ["config.json", "model.safetensors"]
    assert json.loads((path / "config.json").read_text())["architectures"] == ["BertForPreTraining"]
    names = set(weights.load(path / "model.safetensors"))  # shared weights once, as transformers writes them
    assert "cls.predictions.bias" in names and not any("decoder" in name for name in names)


def test_the_scanned_form_saves_the_same_file(tmp_path, saved, sizes):
    path, _, params, state = saved
    scan = bert.BertForPreTraining(bert.BertConfig(**sizes, scan_layers=True))
    bert.save_pretrained(tmp_path / "scan", scan, scan.stack(params), scan.stack(state))
    assert (tmp_path / "scan" / "model.safetensors").read_bytes() == (path / "model.safetensors").read_bytes()
    _, read, _ = bert.from_pretrained(tmp_path / "scan", bert.BertForPreTraining)
    jax.tree.map(np.testing.assert_array_equal, read, scan.stack(params))


def test_the_encoder_from_every_kind_of_directory(tmp_path, saved, reference):
    """From a model with heads, with the prefix and without it, and back into a model with heads."""
    path, _, params, _ = saved
    model, encoder, encoder_state = bert.from_pretrained(path)
    jax.tree.map(np.testing.assert_array_equal, encoder, params["bert"])
    bert.save_pretrained(tmp_path / "bare", model, encoder, encoder_state)
    assert "embeddings.LayerNorm.bias" in weights.load(tmp_path / "bare" / "model.safetensors")
    jax.tree.map(np.testing.assert_array_equal, bert.from_pretrained(tmp_path / "bare")[1], encoder)

    with pytest.raises(ValueError, match=r"missing: cls\.predictions\.bias, .*cls\.seq_relationship\.weight"):
        bert.from_pretrained(tmp_path / "bare", bert.BertForPreTraining)
    file = dict(weights.load(tmp_path / "bare" / "model.safetensors"))
    heads = {n: a for n, a in weights.load(path / "model.safetensors").items() if n.startswith("cls.")}
    weights.save(tmp_path / "bare" / "model.safetensors", file | heads)
    _, read, _ = bert.from_pretrained(tmp_path / "bare", bert.BertForPreTraining)
    jax.tree.map(np.testing.assert_array_equal, read, params)

    reference(cls=transformers.BertForSequenceClassification).save_pretrained(tmp_path / "classifier")
    bert.from_pretrained(tmp_path / "classifier")


def test_directories_that_do_not_fit(saved, sizes):
    path = saved[0]
    with pytest.raises(FileNotFoundError, match=r"nowhere is not there; expected a directory"):
        bert.from_pretrained(path / "nowhere")
    config = json.loads((path / "config.json").read_text())
    (path / "config.json").write_text(json.dumps(config | {"intermediate_size": 50}))
    with pytest.raises(ValueError, match=r"mis-shaped: .*expected \(50, 32\), got \(48, 32\)"):
        bert.from_pretrained(path)
    (path / "model.safetensors").unlink()
    with pytest.raises(FileNotFoundError, match=r"model\.safetensors is not there"):
        bert.from_pretrained(path)


# ------------------------------------------------------------------------------------------------- masked words


WORDS = "the cat sat on the mat and the dog lay by the door while rain fell on the roof of the old house"


@pytest.fixture(params=[0, 7], ids=["exact table", "padded table"])
def directory(request, tmp_path, sizes):
    tokenizer = text.train_wordpiece([WORDS] * 3, vocab_size=90)
    rows = tokenizer.get_vocab_size() + request.param
    model = bert.BertForPreTraining(bert.BertConfig(**sizes | {"max_position_embeddings": 70, "vocab_size": rows}))
    params, state = model.init(jax.random.key(0))
    bert.save_pretrained(tmp_path, model, params, state)
    text.save_tokenizer(tokenizer, tmp_path)
    return tmp_path


@contextlib.contextmanager
def count_compiles():
    compiled = []

    def listen(event, duration, **_):
        if event == "/jax/core/compile/backend_compile_duration":
            compiled.append(event)

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        yield compiled
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)


def test_guesses_are_transformers(directory):
    fill = bert.inference(directory)
    theirs = transformers.BertForPreTraining.from_pretrained(directory).eval()
    tokenizer = transformers.BertTokenizerFast.from_pretrained(directory)
    vocabulary = text.vocabulary(text.load_tokenizer(directory))
    for sentence in ("The cat sat on the [MASK].", "The [MASK] sat on the [MASK] and the dog lay by the door"):
        ids = tokenizer(sentence, return_tensors="pt")
        with torch.no_grad():
            logits = theirs(**ids).prediction_logits[0, :, : len(vocabulary)]  # rows beyond it are no words
        expected = torch.softmax(logits[ids["input_ids"][0] == tokenizer.mask_token_id], -1).topk(5)
        ours = fill(sentence)
        assert [[vocabulary.index(guess.token) for guess in guesses] for guesses in ours] == expected.indices.tolist()
        np.testing.assert_allclose([[g.probability for g in guesses] for guesses in ours], expected.values, rtol=1e-4)


def test_a_handful_of_programs_serves_every_length(directory):
    fill = bert.inference(directory)
    with count_compiles() as compiled:
        for words in range(66):
            fill(" ".join(["cat"] * words + ["[MASK]"]))
    assert len(compiled) <= 4, len(compiled)  # 16, 32, 64 and the position table's 70
    with count_compiles() as compiled:
        guesses = fill(" ".join(["[MASK] cat"] * 20))  # 20 masks: more than the slots of one call
    assert not compiled and len(guesses) == 20
    assert fill(" ".join(["[MASK] cat"] * 20)) == guesses


def test_texts_that_cannot_be_filled(directory):
    fill = bert.inference(directory, guesses=2)
    with pytest.raises(ValueError, match=r"nothing to guess; expected \[MASK\] in the text"):
        fill("no mask")
    with pytest.raises(ValueError, match=r"too long; expected at most 70 tokens .* got 73"):
        fill(" ".join(["cat"] * 70 + ["[MASK]"]))
    text.save_tokenizer(
        text.train_wordpiece([WORDS + WORDS.upper()], 120, lower_case=False, min_frequency=1), directory
    )
    with pytest.raises(ValueError, match=r"larger than the model's word table; expected at most \d+ tokens, got \d+"):
        bert.inference(directory)
