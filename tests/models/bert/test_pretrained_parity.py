"""Directories and transformers: what we save it opens with equal logits, and back; and the same guesses."""

import numpy as np
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
