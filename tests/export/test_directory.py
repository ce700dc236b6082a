"""Directories as pure functions: every kind of BERT, a ResNet, and what is no model."""

import jax
import pytest

from funcnet import weights
from funcnet.export.directory import open_directory
from funcnet.files import write_json
from funcnet.models import bert, resnet
from tests.export.models import drawn


def saved(folder, kind, **more):
    model = bert.ARCHITECTURES[kind](bert.BertConfig.preset("tiny", vocab_size=40, num_hidden_layers=1, **more))
    bert.save_pretrained(folder, model, *drawn(model))
    return folder


@pytest.mark.parametrize(
    "kind, shapes",
    [
        ("BertModel", {"last_hidden_state": (2, 16, 128), "pooler_output": (2, 128)}),
        ("BertForPreTraining", {"prediction_logits": (2, 16, 40), "seq_relationship_logits": (2, 2)}),
        ("BertForMaskedLM", {"logits": (2, 16, 40)}),
        ("BertForNextSentencePrediction", {"logits": (2, 2)}),
        ("BertForSequenceClassification", {"logits": (2, 3)}),
        ("BertForTokenClassification", {"logits": (2, 16, 3)}),
        ("BertForMultipleChoice", {"logits": (2, 3)}),
        ("BertForQuestionAnswering", {"start_logits": (2, 16), "end_logits": (2, 16)}),
    ],
)
def test_every_architecture(tmp_path, kind, shapes):
    found = open_directory(saved(tmp_path, kind, num_labels=2 if kind.endswith("Answering") else 3))
    out = jax.eval_shape(found.function, *found.examples)
    assert {name: array.shape for name, array in out.items()} == shapes
    assert found.kind == kind and found.constraints == ("length <= 512",)
    assert found.dynamic == ("batch, choices, length" if "Choice" in kind else "batch, length")


def test_sizes(tmp_path):
    folder = saved(tmp_path, "BertForMaskedLM", max_position_embeddings=20)
    found = open_directory(folder, batch_size=3, length=20)
    assert found.dynamic == "_, _" and found.constraints == () and found.examples[0].shape == (3, 20)
    with pytest.raises(ValueError, match="--length is out of range; expected 1 to 20, got 21"):
        open_directory(folder, length=21)
    with pytest.raises(ValueError, match="--batch-size is out of range; expected at least 1, got 0"):
        open_directory(folder, batch_size=0)


def test_images(tmp_path):
    net = resnet.resnet18(num_classes=2, in_channels=1, small_images=True)
    params, state = drawn(net)
    facts = {"model": "resnet18", "classes": ["a", "b"], "image_size": 8, "channels": 1, "mean": 0.0, "deviation": 1.0}
    write_json(tmp_path / "images.json", facts)
    weights.save(tmp_path / "model.safetensors", net.state_dict(params, state))
    found = open_directory(tmp_path)
    assert jax.eval_shape(found.function, *found.examples)["logits"].shape == (2, 2) and found.dynamic == "batch, ..."
    with pytest.raises(ValueError, match="--length is for texts; expected no length for a model of images, got 4"):
        open_directory(tmp_path, length=4)
    write_json(tmp_path / "images.json", facts | {"model": "vgg"})
    with pytest.raises(ValueError, match=r"images.json is invalid; expected a model of resnet18, resnet50"):
        open_directory(tmp_path)


def test_what_is_no_model(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"has no model; expected config.json"):
        open_directory(tmp_path)
    write_json(tmp_path / "config.json", {"architectures": ["GPT2LMHeadModel"]})
    with pytest.raises(ValueError, match=r"unknown architecture; expected one of BertModel, .* got GPT2LMHeadModel"):
        open_directory(tmp_path)
