"""Serving: the answers are transformers', nothing is compiled after the start, threads do not mix, errors tell."""

import contextlib
import json
import re
from concurrent.futures import ThreadPoolExecutor

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
import transformers

from funcnet import text
from funcnet.serving import inference
from funcnet.tasks.finetuning import directory
from tests.models.conftest import WORDS
from tests.models.transformers_bert import make_reference

SHAPES = {"sizes": (1, 4), "lengths": (16, 32)}
LAZY = SHAPES | {"ahead": False}


@pytest.fixture
def served(tmp_path, sizes):
    """Makes a directory with a head of transformers; gives (its path, the model, its tokenizer)."""

    def make(head, **more):
        tokenizer = text.train_wordpiece([WORDS] * 3, vocab_size=90)
        sizes.update(max_position_embeddings=48, vocab_size=tokenizer.get_vocab_size(), initializer_range=0.5)
        theirs = make_reference(sizes | more, head)
        theirs.save_pretrained(tmp_path)
        text.save_tokenizer(tokenizer, tmp_path, max_length=48)
        return tmp_path, theirs, transformers.BertTokenizerFast.from_pretrained(tmp_path)

    return make


def logits_of(model, tokenizer, *texts, **more):
    """transformers' outputs for one item, alone and unpadded."""
    inputs = tokenizer(*texts, return_tensors="pt", truncation=True, max_length=48, **more)
    with torch.no_grad():
        return model(**inputs), inputs


TEXTS = ["the cat sat", ("rain fell", "on the old house"), "the dog lay by the door " * 5, "the roof"]


@pytest.mark.slow
def test_classes(served):
    path, theirs, tokenizer = served(transformers.BertForSequenceClassification, num_labels=3)
    serve = inference(path, **LAZY)
    for item, said in zip(TEXTS, serve.batch(TEXTS), strict=True):
        out, _ = logits_of(theirs, tokenizer, *([item] if isinstance(item, str) else item))
        expected = torch.softmax(out.logits[0].double(), -1).numpy()
        np.testing.assert_allclose([*said["probabilities"].values()], expected, rtol=1e-4)
        assert said["label"] == theirs.config.id2label[int(expected.argmax())]
        alone = serve(item)
        assert alone["label"] == said["label"] and abs(alone["probability"] - said["probability"]) < 1e-5
    assert serve.task == "classify" and serve.truncated == 0
    serve("the cat " * 40)
    assert serve.truncated == 1


def test_numbers(served):
    path, theirs, tokenizer = served(transformers.BertForSequenceClassification, num_labels=1)
    out, _ = logits_of(theirs, tokenizer, "the cat", "sat on the mat")
    said = inference(path, "regress", **LAZY)(("the cat", "sat on the mat"))
    assert said["value"] == pytest.approx(float(out.logits[0, 0]), rel=1e-4)


def test_a_cross_encoder_is_asked_for_pairs(served):
    """Where nothing tells what it was trained on, the task does."""
    path, theirs, tokenizer = served(transformers.BertForSequenceClassification, num_labels=1)
    serve = inference(path, "pairs", **LAZY)
    out, _ = logits_of(theirs, tokenizer, "the cat", "sat on the mat")
    assert serve(("the cat", "sat on the mat")) == {"value": pytest.approx(float(out.logits[0, 0]), rel=1e-4)}
    assert serve.pairs is True and inference(path, **LAZY).pairs is None
    with pytest.raises(TypeError, match=r"has the wrong type; expected a tuple of two texts, got 'the cat'"):
        serve("the cat")
    for told in ({"pairs": False}, {"long_texts": "parts"}):
        (path / "finetuning.json").write_text(json.dumps(told))
        with pytest.raises(
            ValueError, match=r"fine-tuned on single texts; expected the task 'regress', got 'pairs'. Omit"
        ):
            inference(path, "pairs", **LAZY)


def test_two_labels_of_one_name_are_refused(served):
    """Their probabilities would be told as one, the last one's."""
    names = {"id2label": {0: "X", 1: "X", 2: "Y"}, "num_labels": 3}
    path, *_ = served(transformers.BertForSequenceClassification, **names)
    with pytest.raises(ValueError, match=r"two classes have the same name; expected different .* got 'X', 'X', 'Y'"):
        inference(path, **LAZY)("the cat")


def test_tags(served):
    names = dict(enumerate(["O", "B-PER", "I-PER"]))
    path, theirs, tokenizer = served(transformers.BertForTokenClassification, num_labels=3, id2label=names)
    serve = inference(path, **LAZY)
    sentence = "the cat sat on the unknownly mat, and rain fell"
    words = sentence.replace(",", " ,").split()
    out, inputs = logits_of(theirs, tokenizer, words, is_split_into_words=True)
    first = {word: place for place, word in reversed([*enumerate(inputs.word_ids())]) if word is not None}
    expected = [names[int(out.logits[0, first[word]].argmax())] for word in range(len(words))]
    said = serve(sentence)
    assert said == serve(words) and (said["tokens"], said["tags"]) == (words, expected)
    assert all(said["tokens"][e["first"] : e["last"] + 1] == e["text"].split() for e in said["entities"])


def test_choices(served):
    path, theirs, tokenizer = served(transformers.BertForMultipleChoice)
    items = [("the cat", ["sat", "fell on the old roof"]), ("rain", ["fell", "sat", "lay by the door"])]
    for (first, choices), said in zip(items, inference(path, **LAZY).batch(items), strict=True):
        inputs = tokenizer([first] * len(choices), choices, return_tensors="pt", padding=True)
        with torch.no_grad():
            expected = torch.softmax(theirs(**{k: v[None] for k, v in inputs.items()}).logits[0], -1)
        np.testing.assert_allclose(said["probabilities"], expected, rtol=1e-4)
        assert said["text"] == choices[int(expected.argmax())]


def test_answers_of_one_window(served):
    path, theirs, tokenizer = served(transformers.BertForQuestionAnswering)
    question, context = "who sat?", "The Cat sat on the mat and the Dog lay by the door."
    out, _ = logits_of(theirs, tokenizer, question, context)
    offsets = tokenizer(question, context, return_offsets_mapping=True)
    there = [place for place, part in enumerate(offsets.sequence_ids()) if part == 1]
    score = out.start_logits[0][:, None] + out.end_logits[0][None, :]
    pairs = [(float(score[a, b]), a, b) for a in there for b in there if a <= b < a + 30]
    _, a, b = max(pairs)
    told = inference(path, **LAZY)((question, context))
    expected = context[offsets["offset_mapping"][a][0] : offsets["offset_mapping"][b][1]]
    assert told["answer"] == expected == context[told["start"] :][: len(expected)]


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


@pytest.mark.slow
def test_all_is_compiled_before_the_first_text(served):
    path, *_ = served(transformers.BertForMaskedLM)
    seen = []
    fill = inference(path, progress=lambda done, of: seen.append((done, of)), **SHAPES)
    assert seen[-1] == (6, 6) and fill.run.shapes() == [(s, t) for t in (16, 32, 48) for s in (1, 4)]
    with count_compiles() as compiled:
        for words in range(1, 44):
            fill("cat " * words + "[MASK]")
            fill.batch(["cat " * words + "[MASK]", "[MASK] " * min(words, 20), "the [MASK]"])
    assert not compiled


def test_threads_get_their_own_answers(served):
    path, *_ = served(transformers.BertForMaskedLM)
    fill = inference(path, guesses=2, **LAZY)
    words = WORDS.split()
    texts = [f"{' '.join(words[i : i + i % 9])} [MASK] {words[i % 7]}" for i in range(60)]
    expected = [fill(one) for one in texts]
    with ThreadPoolExecutor(8) as pool:
        for _ in range(3):
            assert [*pool.map(fill, texts)] == expected


def test_half_precision_is_near(served):
    path, *_ = served(transformers.BertForSequenceClassification, num_labels=3, initializer_range=0.02)
    whole, half = (inference(path, dtype=dtype, **LAZY)("the cat sat") for dtype in (None, jnp.bfloat16))
    for label, chance in whole["probabilities"].items():
        assert half["probabilities"][label] == pytest.approx(chance, abs=0.01)
    assert half != whole


def test_what_is_wrong_is_said(served):
    path, *_ = served(transformers.BertForSequenceClassification, num_labels=3)
    serve = inference(path, ahead=False)
    with pytest.raises(TypeError, match=r"item 1 has the wrong type; expected a text, or a tuple of two, got 3"):
        serve.batch(["fine", 3])
    with pytest.raises(TypeError, match=r"got \['a', 'b'\]. Pass one item to the function, or a list of"):
        serve(["a", "b"])
    with pytest.raises(ValueError, match=r"task is unknown; expected one of fill-mask, .*, got 'ner'"):
        inference(path, "ner")
    with pytest.raises(
        ValueError,
        match=r"max_length is out of range; expected 8 to 48 \(the size of the position table in .*\), got 49",
    ):
        inference(path, max_length=49)
    for name, value in (("sizes", []), ("sizes", [0, 1]), ("lengths", [-1, 16]), ("guesses", 0)):
        with pytest.raises(
            ValueError, match=rf"serving.inference: {name} is out of range; expected numbers >= 1, got \["
        ):
            inference(path, **{name: value})
    config = json.loads((path / "config.json").read_text())
    (path / "config.json").write_text(json.dumps(config | {"architectures": ["BertModel"]}))
    with pytest.raises(ValueError, match=r"architecture has no default task; .* got BertModel\. Pass the name"):
        inference(path)
    with pytest.raises(ValueError, match=r"lacks the head of BertForMaskedLM; expected cls\.predictions\.bias"):
        inference(path, "fill-mask")


def test_batches_of_anything_but_one_text(served):
    """A text is not the list of its letters; a generator is read once."""
    path, *_ = served(transformers.BertForSequenceClassification, num_labels=3)
    serve = inference(path, **LAZY)
    with pytest.raises(
        TypeError, match=r"batch\(\) takes a list of items; expected a list, got 'the cat'. Call the function"
    ):
        serve.batch("the cat")
    assert serve.batch(one for one in TEXTS) == serve.batch(TEXTS)
    assert serve.batch([]) == []


@pytest.mark.parametrize(
    ("head", "make"),
    [
        ("BertForSequenceClassification", lambda text: text),
        ("BertForSequenceClassification", lambda text: ("the cat", text)),
        ("BertForTokenClassification", lambda text: ["the", text]),
        ("BertForMultipleChoice", lambda text: ("the cat", ["sat", text])),
        ("BertForMaskedLM", lambda text: f"{text} [MASK]"),
        ("BertForQuestionAnswering", lambda text: (text, "the cat sat")),
    ],
)
def test_half_of_a_surrogate_pair(served, head, make):
    path, *_ = served(getattr(transformers, head))
    told = r"item 1 is not valid Unicode; expected complete characters, got '\\ud800', half of .* at index 3. Decode"
    with pytest.raises(ValueError, match=told):
        inference(path, **LAZY).batch([make("the cat"), make("abc\ud800")])
    assert len(inference(path, **LAZY).batch([make("a \U0001f600")])) == 1


def test_how_it_looks(served):
    path, *_ = served(transformers.BertForSequenceClassification, num_labels=3)
    assert repr(inference(path, **LAZY)) == f"Inference({str(path)!r}, 'classify', lengths=(16, 32, 48))"


@pytest.mark.parametrize(
    ("head", "more", "fits"),
    [
        ("BertForPreTraining", {}, ["fill-mask"]),
        ("BertForMaskedLM", {}, ["fill-mask"]),
        ("BertForSequenceClassification", {"num_labels": 3}, ["classify", "pairs"]),
        ("BertForSequenceClassification", {"num_labels": 1}, ["regress", "pairs"]),
        ("BertForSequenceClassification", {"num_labels": 3, "problem_type": "regression"}, ["regress", "pairs"]),
        ("BertForTokenClassification", {"num_labels": 3}, ["tokens"]),
        ("BertForMultipleChoice", {}, ["choice"]),
        ("BertForQuestionAnswering", {}, ["answer"]),
    ],
)
def test_a_head_does_what_it_was_made_for(served, head, more, fits):
    """A classifier's weights would tag words, and a number would pass for the probability of a class."""
    path, *_ = served(getattr(transformers, head), **more)
    assert inference(path, ahead=False).task == fits[0]
    kind = re.escape(f"problem_type {more.get('problem_type')!r} and {more.get('num_labels', 2)} labels")
    for task in ("fill-mask", "classify", "pairs", "regress", "tokens", "choice", "answer"):
        if task in fits:
            assert inference(path, task, ahead=False).task == task
            continue
        expected = " or ".join(map(repr, fits))
        told = rf"not trained for this task; expected {expected} for a {head} with {kind}, got '{task}'"
        with pytest.raises(ValueError, match=told):
            inference(path, task, ahead=False)


def test_a_config_without_architectures_is_served_as_asked(served):
    path, *_ = served(transformers.BertForSequenceClassification, num_labels=3)
    config = json.loads((path / "config.json").read_text())
    del config["architectures"]
    (path / "config.json").write_text(json.dumps(config))
    assert inference(path, "pairs", ahead=False)(("the cat", "sat"))["label"].startswith("LABEL_")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "is invalid; expected a JSON object, got other content"),
        ("[1]", "is invalid; expected a JSON object, got other content"),
        ('{"seq_len": "64"}', "seq_len is invalid; expected an integer >= 1, got '64'"),
        ('{"doc_stride": 0}', "doc_stride is invalid; expected an integer >= 1, got 0"),
        ('{"long_texts": "windows"}', "long_texts is invalid; expected 'cut' or 'parts', got 'windows'"),
        ('{"pairs": 1}', "pairs is invalid; expected true, false or null, got 1"),
        ('{"null_threshold": "0"}', "null_threshold is invalid; expected a number, got '0'"),
    ],
)
def test_settings_that_were_changed_by_hand(served, content, message):
    path, *_ = served(transformers.BertForQuestionAnswering)
    (path / "finetuning.json").write_text(content)
    for load in (inference, directory.load):
        with pytest.raises(ValueError, match=f"finetuning.json.*{message}"):
            load(path)


@pytest.mark.parametrize("columns", ['{"text": "a", "foo": 1}', '["a"]', "3"])
def test_columns_that_were_changed_by_hand(served, columns):
    path, *_ = served(transformers.BertForTokenClassification)
    (path / "finetuning.json").write_text(f'{{"columns": {columns}}}')
    with pytest.raises(
        ValueError, match=r"columns is invalid; expected an object with the keys text, second, label, sep"
    ):
        directory.load(path)


@pytest.mark.parametrize(
    ("head", "item", "takes"),
    [
        (transformers.BertForMaskedLM, ("a", "b"), r"a text with \[MASK\] in it"),
        (transformers.BertForTokenClassification, ("a", "b"), "a list of words, or a text"),
        (transformers.BertForMultipleChoice, ("a", []), "a tuple of a text and a list of texts"),
        (transformers.BertForQuestionAnswering, "why?", "a tuple of a question and its context"),
    ],
)
def test_items_of_another_task(served, head, item, takes):
    path, *_ = served(head)
    with pytest.raises(TypeError, match=rf"item 0 has the wrong type; expected {takes}"):
        inference(path, ahead=False)(item)
