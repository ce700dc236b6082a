"""`funcnet predict` and `evaluate` of directories that transformers wrote: no `finetuning.json` tells the task."""

import json
import math

import pytest
import torch
import transformers

from funcnet.serving import inference
from funcnet.tasks.finetuning import directory
from funcnet.tasks.finetuning.predict import evaluate, predict, write_predictions
from funcnet.text import save_tokenizer, train_wordpiece
from tests.models.transformers_bert import make_reference
from tests.tasks.command import run_here
from tests.tasks.small_bert import all_texts, near, write_task

SIZES = {
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "max_position_embeddings": 32,
}
WHOLE = transformers.BertForSequenceClassification
TASKS = {
    "classify": (WHOLE, ["bad", "good"], lambda e: e.text),
    "pairs": (WHOLE, ["False", "True"], lambda e: (e.text, e.second)),
    "regress": (WHOLE, ["LABEL_0"], lambda e: e.text),
    "tokens": (transformers.BertForTokenClassification, ["B-BAD", "B-GOOD", "O"], lambda e: e.words),
    "choice": (transformers.BertForMultipleChoice, [], lambda e: (e.text, e.choices)),
    "answer": (transformers.BertForQuestionAnswering, [], lambda e: (e.question, e.context)),
}


@pytest.fixture(scope="module")
def tokenizer():
    return train_wordpiece(all_texts(), 400, min_frequency=1)


def write(folder, tokenizer, architecture, labels=(), **options):
    """transformers' model with random weights; the labels' names in its config."""
    names = {"id2label": dict(enumerate(labels))} if labels else {}
    theirs = make_reference(SIZES, architecture, vocab_size=tokenizer.get_vocab_size(), **names, **options)
    theirs.save_pretrained(folder)
    save_tokenizer(tokenizer, folder, max_length=32)
    return folder, theirs


@pytest.mark.slow
@pytest.mark.parametrize("name", TASKS)
def test_every_task_is_told_by_the_architecture(tokenizer, tmp_path, name):
    architecture, labels, item = TASKS[name]
    path, _ = write(tmp_path / "model", tokenizer, architecture, labels)
    file = write_task(tmp_path, name, 6)
    told, _ = predict(path, file)
    examples = directory.load(path).head.read(file, labelled=True)
    said = inference(path, ahead=False, lengths=[32], sizes=[8]).batch([item(e) for e in examples])
    for one, other in zip(told, said, strict=True):
        assert other and near({key: one[key] for key in other}, other)
    figures = evaluate(path, file)
    assert {*directory.load(path).head.figures, "loss"} <= figures.keys()
    assert all(map(math.isfinite, figures.values()))
    assert figures.get("examples", figures.get("total")) == 6


def test_several_numbers_a_text(tokenizer, tmp_path, capsys):
    """All of them are told; there is no file to measure them on."""
    path, theirs = write(tmp_path / "model", tokenizer, WHOLE, num_labels=3, problem_type="regression")
    lines = tmp_path / "lines.txt"
    lines.write_text("the soup was fine\nso so\n")
    inputs = transformers.BertTokenizerFast.from_pretrained(path)("the soup was fine", return_tensors="pt")
    with torch.no_grad():
        expected = theirs(**inputs).logits[0].tolist()
    assert run_here("predict", path, lines) == 0
    first, second = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert first["values"] == pytest.approx(expected, rel=1e-4) and len(second["values"]) == 3
    said = inference(path, ahead=False, lengths=[32])("the soup was fine")
    assert said == {"values": pytest.approx(expected, rel=1e-4)}
    with pytest.raises(ValueError, match=r"model predicts 3 numbers per text; expected one, .* `funcnet predict`"):
        evaluate(path, write_task(tmp_path, "regress", 6))


def test_texts_that_were_cut_are_counted(tokenizer, tmp_path, capsys):
    path, _ = write(tmp_path / "model", tokenizer, WHOLE, ["bad", "good"])
    lines = tmp_path / "lines.txt"
    lines.write_text("fine\n" + ("fine " * 40 + "\n") * 2)
    assert run_here("predict", path, lines) == 0
    out, err = capsys.readouterr()
    assert err == "2 texts longer than 32 tokens were cut.\n" and len(out.splitlines()) == 3


def test_a_table_of_no_predictions_and_of_predictions_with_different_names(tmp_path):
    out = tmp_path / "out.csv"
    write_predictions([], out)
    assert out.read_text() == ""
    write_predictions([{"label": "a"}, {"label": "b", "probabilities": {"b": 1.0}}], out)
    assert out.read_text() == "label,probability of b\na,\nb,1.0\n"


@pytest.mark.parametrize("command", ["predict", "evaluate"])
def test_an_unknown_form_of_output_is_refused(tmp_path, capsys, command):
    assert run_here(command, tmp_path, tmp_path / "a.csv", "--out", tmp_path / "o.xyz") == 2
    assert "--out" in (said := capsys.readouterr().err) and "got '.xyz'" in said
