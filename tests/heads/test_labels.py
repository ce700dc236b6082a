"""`funcnet finetune labels`: several labels a text, through training, predict, evaluate and serving."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
import transformers

from funcnet import text
from funcnet.heads.labels import Labels
from funcnet.heads.reading.examples import Columns, TextExample, read_texts
from funcnet.heads.text import Classify
from funcnet.models import bert
from funcnet.serving import inference
from funcnet.tasks.finetuning import directory
from funcnet.tasks.finetuning.predict import evaluate, predict
from tests.models.transformers_bert import make_reference
from tests.tasks.command import run_here
from tests.tasks.small_bert import all_texts, labels, near, sentence, write_model

LAZY = {"sizes": (1, 4), "lengths": (16, 32), "ahead": False}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return write_model(tmp_path_factory.mktemp("model"), all_texts())


def rows(count=48, empty=8):
    """(text, labels): good or bad, and long with a "really"; one text in `empty` has none."""
    texts = [(sentence(number, label), label) for number, label in enumerate(labels(count))]
    return [
        (t, [label, *(["long"] if "really" in t else [])] if not empty or n % empty else [])
        for n, (t, label) in enumerate(texts)
    ]


@pytest.mark.slow
def test_it_learns_and_its_directory_answers(model, tmp_path, capsys):
    train, out = tmp_path / "train.csv", tmp_path / "out"
    lines = rows(empty=0)
    train.write_text("text,label\n" + "".join(f"{t},{'|'.join(found)}\n" for t, found in lines))
    fast = ["--epochs", "20", "--batch-size", "8", "--learning-rate", "2e-3", "--devices", "1", "--split", "0"]
    given = ["--label-separator", "|", "--test", train, "--long-texts", "parts", "--seq-len", "16"]
    assert run_here("finetune", "labels", "--model", model, "--train", train, "--out", out, *fast, *given) == 0
    assert "3 classes in the training examples: " in capsys.readouterr().out
    values = json.loads((out / "eval.json").read_text())
    assert values["test_f1_micro"] > 0.95 and values["test_f1_macro"] > 0.9 and 0 < values["test_loss"] < 0.3
    assert run_here("evaluate", out, train) == 0
    assert json.loads(capsys.readouterr().out)["f1_micro"] == pytest.approx(values["test_f1_micro"])
    found, _ = predict(out, train)
    serve = inference(out, ahead=False)
    assert serve.task == "labels"
    for one, other in zip(found, serve.batch([t for t, _ in lines]), strict=True):
        assert near({"labels": one["labels"], "probabilities": one["probabilities"]}, other)
    assert json.loads((out / "config.json").read_text())["problem_type"] == "multi_label_classification"


def test_the_loss_is_binary_cross_entropy_and_rows_that_fill_a_batch_do_not_count():
    head = Labels(labels=("a", "b", "c"))
    logits = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)
    examples = [TextExample("", None, names, "") for names in (("a", "c"), (), ("b",))]
    target = np.stack([*(head.target(example) for example in examples), np.full(3, -100.0, np.float32)])
    batch = {"labels": jnp.array(target), "counted": jnp.array([True, True, True, False])}
    loss = head.sums(jnp.array(logits), batch)["label"]["loss"] / head.counts(batch)["label"]
    expected = torch.nn.functional.binary_cross_entropy_with_logits(*map(torch.tensor, (logits[:3], target[:3])))
    assert float(loss) == pytest.approx(float(expected), rel=1e-6)
    figures = head.scores(examples, [head.say(row.astype(np.float64)) for row in logits[:3]])
    assert set(head.figures) == set(figures) and all(np.isfinite(list(figures.values())))


def test_labels_in_a_cell_or_a_list(tmp_path):
    (tmp_path / "a.csv").write_text("text,label\na,x|y\nb,\n")
    (tmp_path / "a.jsonl").write_text('{"text":"a","label":["x","y"]}\n{"text":"b","label":[]}')
    cells = read_texts(tmp_path / "a.csv", Columns(separator="|"))
    lists = read_texts(tmp_path / "a.jsonl", Columns())
    assert [e.label for e in cells] == [e.label for e in lists] == [("x", "y"), ()]
    head = Labels().learn(cells)
    assert head.labels == ("x", "y") and head.config()["problem_type"] == "multi_label_classification"
    assert head.target(cells[0]).tolist() == [1, 1] and head.target(cells[1]).tolist() == [0, 0]


def test_lists_and_single_labels_do_not_mix(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"text": "a", "label": ["good", "cheap"]}\n{"text": "b", "label": "good"}\n')
    mixed = read_texts(tmp_path / "a.jsonl", Columns())
    with pytest.raises(ValueError, match=r"line 2, column 'label': the label is not a list; expected .*, got 'good'"):
        Labels().learn(mixed)
    with pytest.raises(
        ValueError, match=r"line 1, .* expected a single label for .*, or use `funcnet finetune labels`"
    ):
        Classify().learn(mixed)
    with pytest.raises(ValueError, match=r"no training example has a label; expected at least one"):
        Labels().learn([TextExample("a", None, (), "a.csv, line 2")])
    with pytest.raises(ValueError, match=r"label 'new' did not occur in training; expected one of 'a', 'b'"):
        Labels(labels=("a", "b")).target(TextExample("a", None, ("new",), "a.csv, line 2"))


def test_the_flag_of_the_release_before_names_the_task(model, tmp_path, capsys):
    given = ["--model", model, "--train", tmp_path / "a.csv", "--out", tmp_path / "out", "--label-separator", "|"]
    assert run_here("finetune", "classify", *given) == 2
    assert (
        "--label-separator does not apply to this task; expected the task labels, got classify"
        in capsys.readouterr().err
    )


def test_answers_are_those_of_transformers(tmp_path):
    tokenizer = text.train_wordpiece(all_texts(), 400, min_frequency=1)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 24}
    more = {"num_labels": 4, "problem_type": "multi_label_classification", "max_position_embeddings": 48}
    more |= {"vocab_size": tokenizer.get_vocab_size(), "initializer_range": 0.5}
    theirs = make_reference(sizes | more, transformers.BertForSequenceClassification)
    theirs.save_pretrained(tmp_path)
    text.save_tokenizer(tokenizer, tmp_path, max_length=48)
    inputs = transformers.BertTokenizerFast.from_pretrained(tmp_path)("the soup was fine", return_tensors="pt")
    with torch.no_grad():
        expected = torch.sigmoid(theirs(**inputs).logits[0]).numpy()
    found = inference(tmp_path, **LAZY)("the soup was fine")
    np.testing.assert_allclose([*found["probabilities"].values()], expected, rtol=1e-4)
    assert found["labels"] == [f"LABEL_{i}" for i in range(4) if expected[i] > 0.5]
    assert inference(tmp_path, "pairs", **LAZY)(("the soup", "was fine"))["labels"] is not None
    with pytest.raises(ValueError, match=r"expected 'labels' or 'pairs' for a BertForSequenceClassification .*'classi"):
        inference(tmp_path, "classify", **LAZY)


def test_a_directory_of_the_release_before(model, tmp_path):
    """Its finetuning.json says `classify` with `several`."""
    examples = [TextExample(t, None, tuple(found), "") for t, found in rows(16)]
    head = Labels().learn(examples)
    net, params, state = directory.start(model, head)
    tokenizer, path = text.load_tokenizer(model), tmp_path / "m"
    params = jax.tree.map(lambda a: a + 0.1 * jax.random.normal(jax.random.key(a.size), a.shape), params)
    directory.save(path, directory.FineTuned(head, tokenizer, net, params, state, 32))
    columns = {"text": None, "second": None, "label": None, "separator": ";"}
    settings = {"several": True, "long_texts": "cut", "metric": "f1_micro", "pairs": False}
    (path / "finetuning.json").write_text(
        json.dumps({"seq_len": 32, "name": "classify", "columns": columns, **settings})
    )
    file = tmp_path / "a.csv"
    file.write_text("text,label\n" + "".join(f"{t},{';'.join(found)}\n" for t, found in rows(16)))
    figures = evaluate(path, file)
    assert {"loss", "accuracy", "f1_macro", "f1_micro"} <= figures.keys() and figures["examples"] == 16
    assert inference(path, ahead=False)("the soup was fine").keys() == {"labels", "probabilities"}
    assert bert.BertConfig.load(path).id2label == {0: "bad", 1: "good", 2: "long"}
