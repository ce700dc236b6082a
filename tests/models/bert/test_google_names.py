"""Google's TensorFlow checkpoints; `scripts/fixtures/make_tensorflow_checkpoint.py` wrote the one that is read here."""

import re
import shutil
import warnings
from pathlib import Path

import jax
import numpy as np
import pytest

from funcnet import text, weights
from funcnet.models import bert
from tests.compare import relative

FOLDER = Path(__file__).parent / "google_checkpoint"
OUTPUTS = ("sequence_output", "pooled_output", "prediction_logits", "seq_relationship_logits")


@pytest.fixture(scope="module")
def expected():
    return dict(np.load(FOLDER / "expected.npz"))


@pytest.mark.slow
def test_google_s_numbers(expected):
    """What Google's formulas give on TensorFlow's own arrays, in float64."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model, params, state = bert.from_pretrained(FOLDER, bert.BertForPreTraining)
        assert bert.from_pretrained(FOLDER / "bert_model.ckpt")[0].config == model.config
    inputs = {name: array for name, array in expected.items() if name not in OUTPUTS}
    (words, follows), _ = model.apply(params, state, **inputs)
    (sequence, pooled), _ = model.bert.apply(params["bert"], state["bert"], **inputs)
    for name, ours in zip(OUTPUTS, (sequence, pooled, words, follows), strict=True):
        assert relative(ours, expected[name], [expected[name]]) < 1e-5, name
    assert text.load_tokenizer(FOLDER).get_vocab_size() == model.config.vocab_size


def test_it_becomes_a_directory_of_hugging_face_s(tmp_path):
    model, params, state = bert.from_pretrained(FOLDER, bert.BertForPreTraining)
    bert.save_pretrained(tmp_path, model, params, state)
    _, again, _ = bert.from_pretrained(tmp_path, bert.BertForPreTraining)
    jax.tree.map(np.testing.assert_array_equal, again, params)


def test_the_heads_of_google_s_fine_tuning():
    """`run_classifier.py` and `run_squad.py` put their layer elsewhere than Hugging Face."""
    from funcnet.models.bert.google_names import from_google

    names = ["output_weights", "output_bias", "cls/squad/output_weights", "cls/squad/output_bias", "global_step"]
    assert from_google(dict.fromkeys(names)) == {
        "classifier.weight": ("output_weights", False),
        "classifier.bias": ("output_bias", False),
        "qa_outputs.weight": ("cls/squad/output_weights", False),
        "qa_outputs.bias": ("cls/squad/output_bias", False),
    }


def test_every_tensor_but_those_of_training_is_taken():
    file = weights.load(FOLDER)
    slots = {"bert/pooler/dense/kernel/adam_m", "bert/pooler/dense/kernel/adam_v", "global_step"}
    model, params, state = bert.from_pretrained(FOLDER, bert.BertForPreTraining)
    taken = {name for name in model.state_dict(params, state) if "decoder" not in name}
    assert slots <= set(file) and len(file) == len(taken) + len(slots)


def test_a_cut_data_file(tmp_path):
    for file in FOLDER.iterdir():
        shutil.copy(file, tmp_path)
    data = tmp_path / "bert_model.ckpt.data-00000-of-00001"
    data.write_bytes(data.read_bytes()[:-5000])
    with pytest.raises(ValueError, match=rf"{re.escape(str(tmp_path))}/bert_model\.ckpt: '.*may be truncated"):
        bert.from_pretrained(tmp_path)
