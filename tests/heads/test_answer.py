"""From a model's outputs to answers: windows compared whatever the level of their logits, no answer, limits, n-best."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from funcnet.heads.answer import Answer
from funcnet.heads.reading.squad import Question, read_squad
from funcnet.tasks.finetuning import directory
from funcnet.tasks.finetuning.predict import predict
from funcnet.tasks.finetuning.rows import encode_rows
from funcnet.text import load_tokenizer, train_wordpiece
from tests import real_data
from tests.tasks.small_bert import write_model


@pytest.fixture(scope="module")
def tokenizer():
    return load_tokenizer(real_data.minilm())


def sure(rows, rng):
    """The logits of a model that knows its labels; their level is another in every window, as training leaves it."""
    outputs = []
    for length, ends in zip(rows.lengths, rows.labels, strict=True):
        logits = rng.normal(size=(length, 2)) + 30 * rng.normal(size=2)
        logits[ends, [0, 1]] += 25
        outputs.append(logits.astype(np.float32))
    return outputs


def test_a_sure_model_answers_every_question(tokenizer):
    questions = read_squad(real_data.squad())
    head = Answer(doc_stride=16)
    rows = encode_rows(head, questions, tokenizer, 64, labelled=True)
    assert len(rows) > 3 * len(questions)
    predictions = head.answers(questions, rows.details, rows.counts, sure(rows, np.random.default_rng(0)))
    assert head.scores(questions, predictions) == {"exact": 100.0, "f1": 100.0, "total": 5}
    assert set(head.figures) <= set(head.scores(questions, predictions))
    for question, told in zip(questions, predictions, strict=True):
        assert question.context[told["start"] :].startswith(told["answer"])
        assert len({entry["text"] for entry in told["n_best"]}) == len(told["n_best"]) <= 20
        assert sum(entry["probability"] for entry in told["n_best"]) == pytest.approx(1)


def test_no_answer_is_told_above_the_threshold(tokenizer):
    (first, *_) = read_squad(real_data.squad())
    asked = [dataclasses.replace(first, has_answer=True)]
    asked.append(Question("none", "Is there one?", first.context, (), False, ""))
    head = Answer(doc_stride=32).learn(asked)
    rows = encode_rows(head, asked, tokenizer, 96, labelled=True)
    outputs = sure(rows, np.random.default_rng(1))
    one, none = head.answers(asked, rows.details, rows.counts, outputs)
    assert (one["answer"], none["answer"], none["start"]) == (first.answers[0][0], "", -1)
    assert one["no_answer"] < 0 < none["no_answer"]
    scores = head.scores(asked, [one, none])
    assert scores["exact"] == scores["HasAns_exact"] == scores["NoAns_exact"] == scores["best_exact"] == 100.0
    bold = dataclasses.replace(head, null_threshold=1e3)
    assert all(told["answer"] for told in bold.answers(asked, rows.details, rows.counts, outputs))
    assert set(head.figures) <= set(head.scores(asked[:1], [one])) and "best_f1" in head.figures


@pytest.mark.slow
def test_the_threshold_may_be_another_than_in_training(tokenizer, tmp_path):
    """best_f1_thresh of `evaluate`, given to `predict`; and a directory of Hugging Face, which names none."""
    model = write_model(tmp_path / "model", tokenizer)
    head = Answer(doc_stride=32)
    net, params, state = directory.start(model, head)
    directory.save(model, directory.FineTuned(head, tokenizer, net, params, state, 64))
    bold, shy = (predict(model, real_data.squad(), null_threshold=value)[0] for value in (1e3, -1e3))
    assert all(told["answer"] and "no_answer" in told for told in bold) and not any(told["answer"] for told in shy)
    assert all(told["answer"] and "no_answer" not in told for told in predict(model, real_data.squad())[0])


def test_no_answer_is_longer_than_allowed(tokenizer):
    questions = read_squad(real_data.squad())
    head = Answer(doc_stride=32, max_answer=1, n_best=3)
    rows = encode_rows(head, questions, tokenizer, 96, labelled=True)
    for told in head.answers(questions, rows.details, rows.counts, sure(rows, np.random.default_rng(2))):
        assert 1 <= len(told["n_best"]) <= 3
        assert all(len(tokenizer.encode(e["text"], add_special_tokens=False).ids) <= 1 for e in told["n_best"])


# What normalisation drops: accents (of uncased models), characters that are not seen, and those that stand for none.
DROPPED = "\u0301\u0308\u3099\ufe0f\u200b\u200d\u00ad\ufeff\x00\x7f\ufffd\ue000"
LETTERS = train_wordpiece(["cafe zurich naive ka s a c e f i k n r u v z ( , ."] * 3, vocab_size=60)


def predicted(context, answer, start, seq_len=64):
    """What a model that knows its labels answers, by way of training's labels."""
    question = Question("1", "a", context, ((answer, start),), None, "")
    rows = encode_rows(Answer(doc_stride=16), [question], LETTERS, seq_len, labelled=True)
    (told,) = Answer().answers([question], rows.details, rows.counts, sure(rows, np.random.default_rng(0)))
    assert context[told["start"] :].startswith(told["answer"])
    return told["answer"]


@pytest.mark.every_row
@pytest.mark.parametrize(
    ("before", "answer", "after"),
    [
        ("a ", "cafe\u0301", ""),  # at the end of the text, where the label was "no answer"
        ("a ", "cafe\u0301", ", a"),
        ("a (", "Zu\u0308rich", ")"),
        ("a ", "cafe\u0301s nai\u0308ve", " a"),
        ("a ", "か\u3099", "。"),
        ("", "\u200bcafe", " a"),  # at the start of the text
        ("a ", "\u200b\u200bcafe", " a"),
        ("a ", "ca\u00adfe\u00ad", "-a"),
        ("a ", "cafe\x00\ufffd", " \u0301 a"),
        ("a ", "\ue000 cafe \ufe0f", " a"),  # words of dropped characters alone: a part of no answer
        ("a ", " cafe ", " a"),
        ("a" + "\u0301 a" * 80 + " ", "cafe\u0301", " \u0301a" * 80),
    ],
)
def test_an_answer_reaches_over_what_normalisation_drops(before, answer, after):
    assert predicted(before + answer + after, answer, len(before)) == answer.strip("\ue000\ufe0f ")


@given(
    st.lists(st.tuples(st.text(DROPPED, max_size=2), st.text("cafezurins", min_size=1), st.text(DROPPED)), min_size=1),
    st.data(),
)
def test_words_are_answered_with_all_that_they_have(parts, data):
    words = [before + "".join(a + after[:1] for a in letters[:4]) + after for before, letters, after in parts]
    first = data.draw(st.integers(0, len(words) - 1))
    answer = " ".join(words[first : first + data.draw(st.integers(1, 3))])
    assert predicted(" ".join(words), answer, len("".join(f"{word} " for word in words[:first]))) == answer
