"""Serving what was fine-tuned: the same answers as `funcnet predict`, and its latency told."""

import json
import shutil

import jax
import numpy as np
import pytest
import torch
import transformers

from funcnet.heads.answer import Answer
from funcnet.heads.choice import Choice
from funcnet.heads.text import Classify, Regress
from funcnet.heads.tokens import Tokens
from funcnet.serving import bench, inference
from funcnet.tasks.finetuning import directory
from funcnet.tasks.finetuning.predict import predict
from funcnet.text import load_tokenizer
from tests.tasks.command import run_here
from tests.tasks.small_bert import all_texts, near, write_model, write_task

TASKS = {
    "classify": (Classify(), lambda e: e.text),
    "classify-parts": (Classify(long_texts="parts"), lambda e: e.text),
    "pairs": (Classify("pairs"), lambda e: (e.text, e.second)),
    "regress": (Regress(), lambda e: e.text),
    "tokens": (Tokens(), lambda e: e.words),
    "choice": (Choice(), lambda e: (e.text, e.choices)),
    "answer": (Answer(doc_stride=8, n_best=5, max_answer=4), lambda e: (e.question, e.context)),
}


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory):
    return write_model(tmp_path_factory.mktemp("model"), all_texts())


def fine_tuned(pretrained, folder, name):
    """(directory, file, examples) of a task, its head as it starts. Rows are of 24 tokens, or short for parts."""
    head, item = TASKS[name]
    file, seq_len = write_task(folder, name.removesuffix("-parts")), 8 if name.endswith("parts") else 24
    examples = head.read(file, labelled=True)
    head = head.learn(examples)
    net, params, state = directory.start(pretrained, head)
    params = jax.tree.map(lambda a: a + 0.2 * jax.random.normal(jax.random.key(a.size), a.shape), params)
    model = directory.FineTuned(head, load_tokenizer(pretrained), net, params, state, seq_len)
    directory.save(folder / "model", model)
    return folder / "model", file, [item(example) for example in examples]


@pytest.mark.slow
@pytest.mark.parametrize("name", TASKS)
def test_the_answers_are_those_of_predict(pretrained, tmp_path, name):
    path, file, items = fine_tuned(pretrained, tmp_path, name)
    told, _ = predict(path, file)
    serve = inference(path, name.removesuffix("-parts"), ahead=False)
    assert serve.run.longest == (8 if name.endswith("parts") else 24)
    said = serve.batch(items)
    only = [{key: value for key, value in one.items() if key not in ("text", "text_b", "id")} for one in told]
    for one, other in zip(only, said, strict=True):
        assert near(one, {key: value for key, value in other.items() if key != "text"}), (one, other)


@pytest.mark.parametrize("name", ["classify", "tokens"])
def test_plain_lines_with_signs(pretrained, tmp_path, name):
    """Words are split in the same way by both."""
    path, *_ = fine_tuned(pretrained, tmp_path, name)
    lines = ["(fine) soup, poor!", "  it was\tgreat-and-warm... ", "O'Hara's caf\u00e9: 3.50$", "很好。ok"]
    (tmp_path / "lines.txt").write_text("\n\n".join(lines), "utf-8")
    told, _ = predict(path, tmp_path / "lines.txt")
    said = inference(path, name, ahead=False).batch(lines)
    assert [one.pop("text", line) for one, line in zip(told, lines, strict=True)] == lines
    assert near(told, said)
    if name == "tokens":
        assert told[0]["tokens"] == ["(", "fine", ")", "soup", ",", "poor", "!"]
        assert told[3]["tokens"] == ["很", "好", "。", "ok"]


def test_parts_of_a_text_speak_with_the_mean_of_their_logits(pretrained, tmp_path):
    path, _, items = fine_tuned(pretrained, tmp_path, "classify-parts")
    tokenizer = transformers.BertTokenizerFast.from_pretrained(path)
    model = transformers.BertForSequenceClassification.from_pretrained(path).eval()
    long = ", ".join(items[:4])
    ids = tokenizer(long, add_special_tokens=False)["input_ids"]
    cuts = np.array_split(ids, -(-len(ids) // 6))
    assert len(cuts) > 4
    rows = [tokenizer.build_inputs_with_special_tokens(cut.tolist()) for cut in cuts]
    with torch.no_grad():
        logits = torch.cat([model(torch.tensor([row])).logits for row in rows]).mean(0)
    expected = dict(zip(model.config.id2label.values(), logits.softmax(0).tolist(), strict=True))
    serve = inference(path, ahead=False)
    assert serve(long)["probabilities"] == pytest.approx(expected, abs=1e-6)
    assert serve.truncated == 0
    (tmp_path / "long.txt").write_text(f"{long}\nshort\n\n")
    assert predict(path, tmp_path / "long.txt")[0][0]["probabilities"] == pytest.approx(expected, abs=1e-6)
    with pytest.raises(TypeError, match=r"item 1 .* expected one text, because the model was fine-tuned with --long"):
        serve.batch([long, (long, "short")])


@pytest.mark.parametrize("name", ["classify", "pairs", "regress"])
def test_single_texts_and_pairs_are_not_answered_for_each_other(pretrained, tmp_path, name):
    path, _, items = fine_tuned(pretrained, tmp_path, name)
    settings = json.loads((path / "finetuning.json").read_text())
    assert settings["pairs"] is (name == "pairs")
    single = "one text, as in fine-tuning"
    other, takes = ("alone", "a tuple of two texts") if name == "pairs" else (("one", "two"), single)
    serve = inference(path, ahead=False)
    with pytest.raises(TypeError, match=f"item 1 .* expected {takes}, got"):
        serve.batch([items[0], other])
    objects = [{"text": "one", "label": 1}, {"text": "one", "text_b": "two", "label": 1}]
    for number, one in enumerate(objects):
        (tmp_path / f"{number}.jsonl").write_text(json.dumps(one))
    wrong = tmp_path / ("0.jsonl" if name == "pairs" else "1.jsonl")
    message = {
        "pairs": r"no column 'text_b'; expected the columns 'text', 'text_b'",
        "classify": r"does not fit the model; expected single texts, as in fine-tuning, "
        r"got a second text in column 'text_b'. Remove",
    }
    with pytest.raises(ValueError, match=message.get(name, message["classify"])):
        predict(path, wrong)
    # not told, as by older releases: either
    del settings["pairs"]
    (path / "finetuning.json").write_text(json.dumps(settings))
    assert len(inference(path, ahead=False).batch([items[0], other])) == 2
    assert name == "pairs" or len(predict(path, wrong)[0]) == 1


def test_a_model_of_single_texts_compares_no_pairs(pretrained, tmp_path):
    path, *_ = fine_tuned(pretrained, tmp_path, "classify")
    with pytest.raises(
        ValueError, match=r"was fine-tuned on single texts; expected the task 'classify', got 'pairs'. Omit"
    ):
        inference(path, "pairs", ahead=False)


@pytest.mark.slow
def test_the_command_tells_the_latency(pretrained, tmp_path, capsys):
    texts, out = tmp_path / "texts.txt", tmp_path / "latency.json"
    texts.write_text("the soup was [MASK]\n\nno mask here\nwas it [MASK] or [MASK]?\n")
    few = ["--seconds", "0.05", "--threads", "1", "2", "--seq-len", "16"]
    assert run_here("bench", "serve", pretrained, "--file", texts, "--out", out, *few) == 0
    assert "fill-mask, 2 programs, ready after" in capsys.readouterr().out
    rows = json.loads(out.read_text())["rows"]
    assert [(row["texts"], row["threads"]) for row in rows] == [("texts.txt", 1), ("texts.txt", 2)]
    assert all(0 < row["median"] <= row["p95"] <= row["p99"] and row["answers"] > 0 for row in rows)
    assert run_here("bench", "serve", pretrained, "--lengths", "8", "16", *few) == 0
    said = capsys.readouterr().out
    assert "8 tokens" in said and "were measured" not in said
    assert run_here("bench", "serve", pretrained, "--lengths", "8", "64", "80", *few) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "Instead of the lengths 64, 80, texts of 16 tokens were measured, the longest that --seq-len allows." in said


@pytest.mark.parametrize("name", ["fill-mask", *TASKS])
def test_items_of_the_bench_have_the_tokens_that_it_names(pretrained, tmp_path, name):
    path = pretrained if name == "fill-mask" else fine_tuned(pretrained, tmp_path, name)[0]
    serve = inference(path, name.removesuffix("-parts"), max_length=24, ahead=False)
    for length in (8, 16, 24):
        (items,) = bench.random_items(serve, [length]).values()
        rows = [row for one in serve.encode(serve.head.example(item, "") for item in items) for row in one.rows]
        assert {len(row.ids) for row in rows} == {length}, name


def test_a_cross_encoder_from_elsewhere_is_asked_pairs(pretrained, tmp_path, capsys, monkeypatch):
    path, *_ = fine_tuned(pretrained, tmp_path, "regress")
    (path / "finetuning.json").unlink()
    (tmp_path / "texts.txt").write_text("the soup was good\n")
    asked, measure = [], bench.measure
    monkeypatch.setattr(bench, "measure", lambda serve, items, *_: asked.extend(items) or measure(serve, items, *_))
    few = ["--seconds", "0.01", "--threads", "1", "--seq-len", "16", "--task", "pairs"]
    assert run_here("bench", "serve", path, "--file", tmp_path / "texts.txt", *few) == 0
    assert asked == [("the", "soup was good")]


def test_a_bench_that_cannot_be(pretrained, tmp_path, capsys):
    texts = tmp_path / "texts.txt"
    texts.write_text("no mask here\n")
    assert run_here("bench", "serve", pretrained, "--file", texts, "--seq-len", "16") == 2
    assert "has no text to measure; expected lines with [MASK] in them" in capsys.readouterr().err
    assert run_here("bench", "serve", pretrained, "--seconds", "0") == 2
    assert "--seconds or --threads is out of range; expected positive numbers, got 0" in capsys.readouterr().err
    assert run_here("bench", "serve", pretrained, "--lengths", "16", "0") == 2
    assert "--lengths is invalid; expected positive numbers, got 16 0" in capsys.readouterr().err
    assert run_here("bench", "serve", pretrained, "--out", tmp_path / "none/a.json") == 2
    assert "bench serve: --out" in capsys.readouterr().err
    assert run_here("bench", "serve", pretrained, "--file", texts, "--out", texts) == 2
    assert "bench serve: --out" in (told := capsys.readouterr().err) and "also an input" in told
    assert run_here("bench", "serve", pretrained, "--file", tmp_path / "none.txt") == 2
    assert "none.txt is missing; expected a text f" in capsys.readouterr().err
    assert run_here("bench", "serve", pretrained, "--seq-len", "999") == 2
    told = capsys.readouterr().err
    assert "bench serve: --seq-len is out of range; expected 8 to " in told and "got 999." in told
    shutil.copytree(pretrained, tmp_path / "model")
    config = json.loads((pretrained / "config.json").read_text())
    (tmp_path / "model/config.json").write_text(json.dumps(config | {"architectures": ["BertModel"]}))
    assert run_here("bench", "serve", tmp_path / "model") == 2
    assert (told := capsys.readouterr().err).endswith("got BertModel. Pass the name of a task.\n")
    texts.write_bytes(b"fine\nb\xffd\n")
    assert run_here("bench", "serve", pretrained, "--file", texts) == 2
    assert "texts.txt, line 2 is not UTF-8; expected UTF-8 text, got byte 0xff" in capsys.readouterr().err
