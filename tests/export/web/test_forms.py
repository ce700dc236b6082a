"""A directory becomes the form of a page: its task, labels and lengths; and the function gives the model's output."""

import jax
import numpy as np
import pytest

from funcnet.export.web.export import TITLES
from funcnet.export.web.forms import TASKS, open_form
from funcnet.heads import HEADS
from funcnet.models import bert
from tests.export.web.models import LABELS, TAGS, saved


@pytest.mark.slow
def test_the_task_is_that_of_the_model(tmp_path):
    cases = [
        ("BertForPreTraining", {}, None, ("fill-mask", False, [])),
        ("BertForMaskedLM", {}, None, ("fill-mask", False, [])),
        ("BertForSequenceClassification", {"labels": LABELS}, None, ("classify", False, LABELS)),
        ("BertForSequenceClassification", {"labels": LABELS}, "pairs", ("classify", True, LABELS)),
        (
            "BertForSequenceClassification",
            {"labels": LABELS, "problem_type": "multi_label_classification"},
            None,
            ("labels", False, LABELS),
        ),
        ("BertForTokenClassification", {"labels": TAGS}, None, ("tokens", False, TAGS)),
        ("BertModel", {}, None, ("similarity", True, [])),
        ("BertForPreTraining", {}, "similarity", ("similarity", True, [])),
        ("BertForQuestionAnswering", {}, None, ("answer", True, [])),
        ("BertForMultipleChoice", {}, None, ("choice", True, [])),
    ]
    for number, (architecture, more, task, expected) in enumerate(cases):
        form = open_form(saved(tmp_path / str(number), architecture, **more), task)
        assert (form.facts["task"], form.facts["pairs"], [*form.facts["labels"]]) == expected


def test_every_task_has_a_page():
    assert {*TASKS} == {"similarity", *(name for head in HEADS for name in head.names)}
    assert {*TITLES} == {*TASKS} - {"pairs"}


def test_the_settings_of_answers_are_known_to_the_page(tmp_path):
    settings = {"name": "answer", "seq_len": 40, "doc_stride": 11, "no_answers": True, "null_threshold": -2.5}
    form = open_form(saved(tmp_path, "BertForQuestionAnswering", settings=settings))
    expected = {"doc_stride": 11, "n_best": 20, "max_answer": 30, "null_threshold": -2.5, "no_answers": True}
    assert form.facts["spans"] == expected and form.lengths == (16, 32, 40)


def test_lengths(tmp_path):
    folder = saved(tmp_path / "a", "BertForMaskedLM")
    assert open_form(folder).lengths == (16, 32, 64, 128)
    assert open_form(folder, lengths=[64, 8, 8]).lengths == (8, 64)
    assert open_form(saved(tmp_path / "b", "BertForMaskedLM", max_position_embeddings=40)).lengths == (16, 32, 40)
    tuned = saved(
        tmp_path / "c", "BertForTokenClassification", labels=TAGS, settings={"seq_len": 200, "name": "tokens"}
    )
    assert open_form(tuned).lengths == (16, 32, 64, 128, 200)
    for lengths in ([], [3], [16, 513]):
        with pytest.raises(ValueError, match=r"lengths are out of range; expected 4 to 512"):
            open_form(folder, lengths=lengths)


def test_what_has_no_page_is_refused(tmp_path):
    folder = saved(tmp_path / "a", "BertForMaskedLM")
    with pytest.raises(ValueError, match=r"task is unknown; expected one of fill-mask, .*, got 'summary'"):
        open_form(folder, "summary")
    with pytest.raises(ValueError, match=r"was not trained for this task"):
        open_form(folder, "tokens")
    answers = saved(tmp_path / "answers", "BertForQuestionAnswering")
    with pytest.raises(ValueError, match=r"too short for a question and a text; expected at least 8 tokens, got 7"):
        open_form(answers, lengths=[4, 7])
    with pytest.raises(FileNotFoundError):
        open_form(tmp_path / "missing")


def test_logits_at_the_masks_are_those_of_all_tokens(tmp_path):
    folder = saved(tmp_path, "BertForPreTraining")
    form = open_form(folder, lengths=[12])
    ids, mask, types, places = form.examples
    net, params, state = bert.from_pretrained(folder, bert.BertForPreTraining)
    (logits, _), _ = jax.jit(net.apply)(params, state, ids, mask, types)
    got = jax.jit(form.function)(ids, mask, types, places)
    np.testing.assert_allclose(got, logits[:, places], rtol=0, atol=1e-5)


def test_padding_changes_nothing(tmp_path):
    form = open_form(saved(tmp_path, "BertModel"), lengths=[12])
    ids, mask, types = (np.array(array) for array in form.examples)
    mask[:] = np.arange(12) < 7
    vector = jax.jit(form.function)
    short = np.asarray(vector(ids[:, :7], mask[:, :7], types[:, :7]))
    np.testing.assert_allclose(vector(ids, mask, types), short, rtol=0, atol=1e-6)
    assert abs(np.linalg.norm(short) - 1) < 1e-6
