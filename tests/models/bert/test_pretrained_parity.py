"""Directories and transformers: what we save it opens with equal logits, and back; and the same guesses."""

import warnings

import numpy as np
import pytest
import safetensors.torch
import torch
import transformers

from funcnet import text
from funcnet.models import bert
from funcnet.serving import inference
from tests.compare import relative
from tests.models.transformers_bert import make_reference, run_reference


def test_transformers_opens_what_we_save(saved, batch):
    path, model, params, state = saved
    theirs, told = transformers.BertForPreTraining.from_pretrained(path, output_loading_info=True)
    assert not any(told[kind] for kind in ("missing_keys", "unexpected_keys", "mismatched_keys")), told
    expected = run_reference(theirs, batch)
    for ours, other in zip(model.apply(params, state, **batch)[0], expected, strict=True):
        assert relative(ours, other, expected) < 1e-5
    encoder = transformers.BertModel.from_pretrained(path)
    (ours, _), _ = model.bert.apply(params["bert"], state["bert"], **batch)
    assert relative(ours, run_reference(encoder, batch)[0], [ours]) < 1e-5


def test_we_open_what_transformers_saves(tmp_path, sizes, batch):
    theirs = make_reference(sizes)
    theirs.save_pretrained(tmp_path)
    model, params, state = bert.from_pretrained(tmp_path, bert.BertForPreTraining)
    expected = run_reference(theirs, batch)
    for ours, other in zip(model.apply(params, state, **batch)[0], expected, strict=True):
        assert relative(ours, other, expected) < 1e-5


def test_guesses_are_transformers(directory):
    fill = inference(directory, ahead=False)
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


def test_the_encoder_out_of_transformers_models_with_other_heads(tmp_path, sizes, batch):
    theirs = make_reference(sizes, transformers.BertForSequenceClassification)
    theirs.save_pretrained(tmp_path)
    model, params, state = bert.from_pretrained(tmp_path)
    expected = run_reference(theirs.bert, batch)
    assert relative(model.apply(params, state, **batch)[0][1], expected[1], expected) < 1e-5


WORDS, DECODER = "bert.embeddings.word_embeddings.weight", "cls.predictions.decoder.weight"
BIAS, DECODER_BIAS = "cls.predictions.bias", "cls.predictions.decoder.bias"


@pytest.mark.parametrize("file", ["model.safetensors", "pytorch_model.bin"])
@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({DECODER: 1.0}, [f"{DECODER} is not equal to {WORDS}"]),
        ({WORDS: 1.0}, [f"{DECODER} is not equal to {WORDS}"]),
        ({DECODER_BIAS: 1.0, BIAS: 2.0}, [f"{DECODER_BIAS} is not equal to {BIAS}"]),
        ({DECODER: np.nan, DECODER_BIAS: 1.0}, [f"{DECODER} is not equal to {WORDS}", f"{DECODER_BIAS} is not"]),
        ({WORDS: 1.0, DECODER: 1.0, BIAS: np.nan, DECODER_BIAS: np.nan}, []),
        ({DECODER: None, BIAS: 2.0, DECODER_BIAS: None}, []),
    ],
)
def test_of_tied_weights_that_differ_in_a_file_we_take_those_of_transformers(tmp_path, sizes, file, changed, told):
    reference = make_reference(sizes)
    reference.config.save_pretrained(tmp_path)
    arrays = {name: tensor.clone() for name, tensor in reference.state_dict().items()}
    for name, value in changed.items():
        tensor = arrays.pop(name)
        arrays |= {} if value is None else {name: torch.full_like(tensor, value)}
    if file == "pytorch_model.bin":
        torch.save(arrays, tmp_path / file)
    else:
        safetensors.torch.save_file(arrays, tmp_path / file, metadata={"format": "pt"})
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model, params, state = bert.from_pretrained(tmp_path, bert.BertForPreTraining)
    said = [str(w.message) for w in caught if "differ in the file" in str(w.message)]
    assert len(said) == bool(told) and all(text in said[0] for text in told), said
    theirs = transformers.BertForPreTraining.from_pretrained(tmp_path).state_dict()
    for name, array in model.state_dict(params, state).items():
        np.testing.assert_array_equal(array, theirs[name])
