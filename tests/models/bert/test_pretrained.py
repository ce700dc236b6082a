"""Directories: what is saved comes back; and the guesses for masked words."""

import dataclasses
import json

import jax
import numpy as np
import pytest

from funcnet import nn, text, weights
from funcnet.models import bert
from funcnet.serving import inference
from tests.models.conftest import WORDS


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


def test_layers_that_hold_one_array_are_all_written(tmp_path, saved):
    """A deeper model started from copies of a layer: only what the description ties is one entry."""
    _, model, params, state = saved
    layers = params["bert"]["encoder"]["layer"]
    layers["1"] = layers["0"]
    bert.save_pretrained(tmp_path, model, params, state)
    _, read, _ = bert.from_pretrained(tmp_path, bert.BertForPreTraining)
    jax.tree.map(np.testing.assert_array_equal, read, params)


def test_the_scanned_form_saves_the_same_file(tmp_path, saved, sizes):
    path, _, params, state = saved
    scan = bert.BertForPreTraining(bert.BertConfig(**sizes, scan_layers=True))
    bert.save_pretrained(tmp_path / "scan", scan, scan.stack(params), scan.stack(state))
    assert (tmp_path / "scan" / "model.safetensors").read_bytes() == (path / "model.safetensors").read_bytes()
    _, read, _ = bert.from_pretrained(tmp_path / "scan", bert.BertForPreTraining)
    jax.tree.map(np.testing.assert_array_equal, read, scan.stack(params))


def test_the_encoder_from_every_kind_of_directory(tmp_path, saved):
    """From a model with heads, with the prefix and without it, and back into a model with heads."""
    path, _, params, _ = saved
    model, encoder, encoder_state = bert.from_pretrained(path)
    jax.tree.map(np.testing.assert_array_equal, encoder, params["bert"])
    bert.save_pretrained(tmp_path / "bare", model, encoder, encoder_state)
    assert "embeddings.LayerNorm.bias" in weights.load(tmp_path / "bare" / "model.safetensors")
    jax.tree.map(np.testing.assert_array_equal, bert.from_pretrained(tmp_path / "bare")[1], encoder)

    told = r"BertForPreTraining has new weights, .* trained: cls\.predictions\.bias, .*cls\.seq_relationship\.weight"
    with pytest.warns(UserWarning, match=told):
        _, read, _ = bert.from_pretrained(tmp_path / "bare", bert.BertForPreTraining)
    jax.tree.map(np.testing.assert_array_equal, read["bert"], encoder)
    file = dict(weights.load(tmp_path / "bare" / "model.safetensors"))
    heads = {n: a for n, a in weights.load(path / "model.safetensors").items() if n.startswith("cls.")}
    weights.save(tmp_path / "bare" / "model.safetensors", file | heads)
    _, read, _ = bert.from_pretrained(tmp_path / "bare", bert.BertForPreTraining)
    jax.tree.map(np.testing.assert_array_equal, read, params)


def test_directories_that_do_not_fit(saved, sizes):
    path = saved[0]
    with pytest.raises(FileNotFoundError, match=r"nowhere is missing; expected a directory"):
        bert.from_pretrained(path / "nowhere")
    config = json.loads((path / "config.json").read_text())
    (path / "config.json").write_text(json.dumps(config | {"intermediate_size": 50}))
    with pytest.raises(ValueError, match=r"mis-shaped: encoder\.layer\.0\.interm.*expected \(50, 32\), got \(48, 32\)"):
        bert.from_pretrained(path)
    (path / "model.safetensors").unlink()
    with pytest.raises(FileNotFoundError, match=r"contains no weights; expected model\.safetensors or"):
        bert.from_pretrained(path)


def test_a_model_cut_by_hand_is_not_saved_under_its_old_config(tmp_path, saved, sizes):
    _, model, params, state = saved
    del model.bert.encoder.layer[1:]
    told = r"encoder\.layer does not .* num_hidden_layers = 3, got 1\. .*`from_pretrained\(…, layers=…\)`, .*layers=1\)"
    with pytest.raises(ValueError, match=told):
        bert.save_pretrained(tmp_path / "cut", model, params, state)
    assert not (tmp_path / "cut").exists()
    model.config = dataclasses.replace(model.config, num_hidden_layers=1)
    layers = params["bert"]["encoder"]["layer"]
    params["bert"]["encoder"]["layer"] = {"0": layers["0"]}
    state["bert"]["encoder"]["layer"] = {"0": state["bert"]["encoder"]["layer"]["0"]}
    bert.save_pretrained(tmp_path / "cut", model, params, state)
    again, read, _ = bert.from_pretrained(tmp_path / "cut", bert.BertForPreTraining)
    assert again.config.num_hidden_layers == 1
    jax.tree.map(np.testing.assert_array_equal, read, params)


@pytest.mark.parametrize(
    ("place", "new", "told"),
    [
        (
            "intermediate_act_fn",
            nn.ReLU(),
            r"0\.intermediate\.intermediate_act_fn .* gelu, got ReLU\(\)\. .*hidden_act",
        ),
        ("intermediate_act_fn", nn.GELU("tanh"), r"expected gelu, got GELU\(approximate='tanh'\)"),
        ("intermediate_act_fn", nn.PReLU(), r"expected gelu, got PReLU\(num_parameters=1\)"),
        ("transform_act_fn", "silu", r"cls\.predictions\.transform\.transform_act_fn .*expected gelu, got silu\. "),
        ("activation", jax.nn.relu, r"bert\.pooler\.activation .*expected tanh, got relu. Restore that function"),
    ],
)
def test_an_activation_swapped_by_hand_is_not_saved_under_its_old_config(tmp_path, saved, place, new, told):
    _, model, params, state = saved
    for part in model.modules():
        if place in vars(part):
            setattr(part, place, new)
    with pytest.raises(ValueError, match=told):
        bert.save_pretrained(tmp_path / "swapped", model, params, state)


def test_an_activation_written_another_way_is_saved(tmp_path, saved):
    _, model, params, state = saved
    model.bert.encoder.layer[1].intermediate.intermediate_act_fn = nn.GELU()
    model.bert.pooler.activation = "tanh"
    model.cls.predictions.transform.transform_act_fn = lambda x: jax.nn.gelu(x, approximate=False)
    bert.save_pretrained(tmp_path / "same", model, params, state)


# ------------------------------------------------------------------------------------------------- masked words


def test_texts_that_cannot_be_filled(directory):
    fill = inference(directory, guesses=2, ahead=False)
    with pytest.raises(ValueError, match=r"item 1 has no \[MASK\]; expected \[MASK\] in the text"):
        fill.batch(["a [MASK]", "no mask"])
    with pytest.raises(ValueError, match=r"item 0 is too long; expected at most 70 tokens, .* got 73"):
        fill(" ".join(["cat"] * 70 + ["[MASK]"]))
    text.save_tokenizer(
        text.train_wordpiece([WORDS + WORDS.upper()], 120, lower_case=False, min_frequency=1), directory
    )
    with pytest.raises(
        ValueError, match=r"does not fit the model's word table; expected ids below \d+, got the id \d+"
    ):
        inference(directory)
