"""The figures against scikit-learn's and scipy's, entities against conlleval's rule, SQuAD's against transformers' port
of the official script and against its published cases."""

import numpy as np
import pytest
import scipy.stats
import sklearn.metrics
from hypothesis import given
from hypothesis import strategies as st
from transformers.data.metrics import squad_metrics

from funcnet.heads import metrics
from funcnet.heads.choice import Choice
from funcnet.heads.entities import Entity, entities, entity_scores
from funcnet.heads.reading import squad
from funcnet.heads.reading.examples import ChoiceExample, TextExample, TokenExample
from funcnet.heads.text import Classify, Regress
from funcnet.heads.tokens import Tokens

CLASSES = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=30)
NUMBERS = st.lists(st.tuples(st.integers(-5, 5), st.integers(-5, 5)), min_size=2, max_size=30)


@pytest.mark.filterwarnings("ignore:A single label was found")
@given(CLASSES)
def test_classes_are_measured_as_in_scikit_learn(pairs):
    labels, predicted = np.array(pairs).T
    assert metrics.accuracy(labels, predicted) == pytest.approx(sklearn.metrics.accuracy_score(labels, predicted))
    macro = sklearn.metrics.f1_score(labels, predicted, average="macro", zero_division=0)
    assert metrics.f1_macro(labels, predicted) == pytest.approx(macro)
    theirs = sklearn.metrics.matthews_corrcoef(labels, predicted)
    assert metrics.matthews(labels, predicted) == pytest.approx(theirs, abs=1e-12)
    table = sklearn.metrics.confusion_matrix(labels, predicted, labels=range(4))
    np.testing.assert_array_equal(metrics.confusion(labels, predicted, 4), table)
    binary = labels > 1, predicted > 1
    assert metrics.f1_binary(*binary) == pytest.approx(sklearn.metrics.f1_score(*binary, zero_division=0))


def test_several_labels_are_measured_as_in_scikit_learn():
    rng = np.random.default_rng(0)
    labels, predicted = rng.random((20, 4)) < 0.3, rng.random((20, 4)) < 0.4
    labels[:, 3] = predicted[:, 3] = False
    for average, ours in (("macro", metrics.f1_macro), ("micro", metrics.f1_micro)):
        theirs = sklearn.metrics.f1_score(labels, predicted, average=average, zero_division=0)
        assert ours(labels, predicted) == pytest.approx(theirs)
    assert metrics.accuracy(labels, predicted) == sklearn.metrics.accuracy_score(labels, predicted)


@given(NUMBERS)
def test_correlations_are_scipys(pairs):
    x, y = np.array(pairs, np.float64).T
    if len(set(x)) > 1 and len(set(y)) > 1:
        assert metrics.pearson(x, y) == pytest.approx(scipy.stats.pearsonr(x, y).statistic, abs=1e-12)
        assert metrics.spearman(x, y) == pytest.approx(scipy.stats.spearmanr(x, y).statistic, abs=1e-12)
    else:
        assert metrics.pearson(x, y) == metrics.spearman(x, y) == 0.0


# Sequences and entities as seqeval 1.2.2 reads them (get_entities); all three schemes, and what a model may say.
READ = [
    ("B-P I-P O B-L", [("P", 0, 1), ("L", 3, 3)]),
    ("I-P I-P B-P I-P", [("P", 0, 1), ("P", 2, 3)]),
    ("B-P I-L I-L", [("P", 0, 0), ("L", 1, 2)]),
    ("S-P B-P I-P E-P E-P", [("P", 0, 0), ("P", 1, 3), ("P", 4, 4)]),
    ("B-P E-P I-P", [("P", 0, 1), ("P", 2, 2)]),
    ("O I-P O", [("P", 1, 1)]),
    ("E-P S-P S-P", [("P", 0, 0), ("P", 1, 1), ("P", 2, 2)]),
    ("B-a-b I-a-b", [("a-b", 0, 1)]),
]


@pytest.mark.parametrize(("tags", "expected"), READ)
def test_entities_are_conllevals(tags, expected):
    assert entities(tags.split()) == [Entity(*entity) for entity in expected]


def test_entity_scores_are_those_of_seqevals_readme():
    true = [["O", "O", "O", "B-MISC", "I-MISC", "I-MISC", "O"], ["B-PER", "I-PER", "O"]]
    guessed = [["O", "O", "B-MISC", "I-MISC", "I-MISC", "I-MISC", "O"], ["B-PER", "I-PER", "O"]]
    assert entity_scores(true, guessed) == {"precision": 0.5, "recall": 0.5, "f1": 0.5}
    assert entity_scores([["O"]], [["O"]])["f1"] == 0.0


WORDS = st.lists(st.sampled_from(["the", "a", "An", "Cat", "cat!", "U.S.", "«x»", "...", "12", "é"]), max_size=5)


@given(WORDS, WORDS)
def test_answers_are_measured_as_by_the_official_script(true, predicted):
    true, predicted = " ".join(true), " ".join(predicted)
    assert squad.normalize_answer(true) == squad_metrics.normalize_answer(true)
    assert squad.exact_match(true, predicted) == squad_metrics.compute_exact(true, predicted)
    assert squad.f1_score(true, predicted) == pytest.approx(squad_metrics.compute_f1(true, predicted))


def test_two_empty_answers_score_in_squad_2_alone():
    """evaluate-v1.1.py: no common word, F1 0; evaluate-v2.0.py: either empty, F1 is whether both are."""
    assert squad.f1_score("the", "a", empty_is_right=False) == 0.0
    assert squad.f1_score("the", "a") == squad_metrics.compute_f1("the", "a") == 1.0


class Example:
    """What transformers' port asks of an example."""

    def __init__(self, question):
        self.qas_id, self.answers = question.id, [{"text": text} for text, _ in question.answers]


def test_squad_2_is_measured_as_by_the_official_script():
    rng = np.random.default_rng(0)
    answers = ["the cat", "a dog", "cat dog", "", "Dog!"]
    questions, told, odds = [], {}, {}
    for number in range(60):
        gold = () if number % 3 == 0 else tuple((answers[i], 0) for i in rng.integers(0, 3, 2))
        questions.append(squad.Question(str(number), "?", "", gold, bool(gold), ""))
        told[str(number)] = answers[rng.integers(0, 5)]
        odds[str(number)] = float(rng.normal())
    theirs = squad_metrics.squad_evaluate(
        [Example(q) for q in questions], told, odds, no_answer_probability_threshold=9
    )
    ours = squad.squad_scores(questions, told, {i: (told[i], odds[i]) for i in told})
    assert set(ours) == set(theirs)
    assert ours == pytest.approx(theirs)


@pytest.mark.parametrize(
    ("head", "examples", "found"),
    [
        (Classify(labels=("a", "b")), [TextExample("", None, "a", "")], [{"label": "b"}]),
        (Classify(labels=("a", "b", "c")), [TextExample("", None, "a", "")], [{"label": "b"}]),
        (Regress(), [TextExample("", None, 1.0, "")], [{"value": 1.0}]),
        (Tokens(labels=("O", "B-X")), [TokenExample(["a"], ["O"], "")], [{"tags": ["O"]}]),
        (Tokens(labels=("N", "V")), [TokenExample([], [], "")], [{"tags": []}]),
        (Choice(), [ChoiceExample("", ["a", "b"], 0, "")], [{"choice": 0}]),
    ],
)
def test_any_figure_may_choose_the_best_model(head, examples, found):
    figures = head.scores(examples, found)
    assert set(head.figures) == set(figures) and all(np.isfinite(list(figures.values())))


def test_squad_1_takes_the_best_of_its_true_answers():
    question = squad.Question("q", "?", "", (("the black cat", 0), ("cat", 10)), None, "")
    assert squad.squad_scores([question], {"q": "Cat."}) == {"exact": 100.0, "f1": 100.0, "total": 1}
    assert squad.squad_scores([question], {"q": "black dog"})["f1"] == pytest.approx(50.0)
    with pytest.raises(
        ValueError,
        match=r"squad_scores: .* expected one for each question, got none for 1 questions, the first of which is 'q'",
    ):
        squad.squad_scores([question], {})
