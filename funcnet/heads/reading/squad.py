"""Reads files of SQuAD 1.1 and 2.0, which have questions about contexts, and computes the official metrics.

An answer is a span of its context, so the text of the answer must be in the context at the answer's offset. If the text
is not at this offset, the error message names the question.
"""

import collections
import json
import re
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from funcnet.files import wrong_json
from funcnet.heads.reading.tables import read_text, require_characters

__all__ = ["Question", "exact_match", "f1_score", "normalize_answer", "read_squad", "squad_scores"]

KINDS = {list: "a list", str: "a string", int: "an integer", bool: "true or false"}
SHOWN = 5  # wrong answers that a message lists


@dataclass(frozen=True)
class Question:
    """A question about a context.

    Attributes:
        answers: (text, offset in the context) of each answer. The tuple is empty if the question has no answer.
        has_answer: False if the file marks the question as `is_impossible`, otherwise True. None in files of SQuAD 1.1,
            in which every question has an answer.
    """

    id: str
    question: str
    context: str
    answers: tuple[tuple[str, int], ...]
    has_answer: bool | None
    where: str
    is_empty = False

    @property
    def group(self) -> str:
        """Key that is equal for all questions about one context."""
        return self.context


def read_squad(path: str | Path, *, labelled: bool = True) -> list[Question]:
    """Read the questions of a file in SQuAD's format.

    Args:
        path: JSON file, `{"data": [{"paragraphs": [{"context", "qas": [{"id", "question", "answers"}]}]}]}`.
        labelled: if True, every question must have an answer or be marked as `is_impossible`.

    Raises:
        FileNotFoundError: if the file is missing.
        ValueError: if the file is not JSON, is not in SQuAD's format or has no questions, or an id occurs more than
            once.
        ValueError: if `labelled` is True, and an answer is missing or is not at its offset. The message gives the line,
            and the text that is at the offset.

    Reference: Rajpurkar et al., 2016 and 2018
    """
    path = Path(path)
    text = read_text(path)
    try:
        articles = json.loads(text)
    except (ValueError, RecursionError) as error:
        where, why = wrong_json(error)
        raise ValueError(f"read_squad: {path}, {where}: invalid JSON; expected SQuAD's format, got '{why}'.") from None
    require_characters(path, text, articles)
    form = _Form(path)
    questions = [
        _question(form, paragraph, number, qa)
        for article in form.take(articles, "data", list, "the file")
        for paragraph in form.take(article, "paragraphs", list, "an article of data")
        for number, qa in enumerate(form.take(paragraph, "qas", list, "a paragraph"), start=1)
    ]
    if not questions:
        raise ValueError(f"read_squad: {path} has no questions; expected at least one, got none.")
    twice = [(q, count) for q, count in collections.Counter(q.id for q in questions).items() if count > 1]
    if twice:
        raise ValueError(
            f"read_squad: {path}: {_line_of(path, twice[0][0])}question {twice[0][0]!r} occurs more than once; "
            f"expected each id once, got this id {twice[0][1]} times. Remove the copies."
        )
    if labelled:
        _check(path, questions)
    return questions


def squad_scores(
    questions: Sequence[Question],
    answers: Mapping[str, str],
    no_answer: Mapping[str, tuple[str, float]] | None = None,
) -> dict[str, float]:
    """Compute the official metrics, in percent.

    If the file of the questions has the field `is_impossible`, these are the metrics of SQuAD 2.0, otherwise those of
    SQuAD 1.1.

    Args:
        questions: questions with their answers.
        answers: {id: text}. An empty text means "no answer".
        no_answer: {id: (best answer that is not empty, score of "no answer" minus the score of this answer)}. The best
            threshold of SQuAD 2.0 is computed from these scores.

    Returns:
        {"exact", "f1", "total"}, where "total" is the number of questions. SQuAD 2.0 adds the same metrics for
        questions with an answer ("HasAns_exact", …) and for questions without an answer ("NoAns_exact", …). The
        argument `no_answer` adds "best_exact", "best_exact_thresh", "best_f1" and "best_f1_thresh".

    Raises:
        ValueError: if a question has no prediction.

    Example:
        >>> question = Question("1", "Who?", "The cat sat.", (("The cat", 0),), None, "")
        >>> squad_scores([question], {"1": "cat."})
        {'exact': 100.0, 'f1': 100.0, 'total': 1}

    Reference: SQuAD's evaluate-v1.1.py and evaluate-v2.0.py
    """
    missing = [question.id for question in questions if question.id not in answers]
    if missing:
        raise ValueError(
            f"squad_scores: predictions are missing; expected one for each question, got none for {len(missing)} "
            f"questions, the first of which is {missing[0]!r}. For a question without an answer, pass an empty string."
        )
    second = any(question.has_answer is not None for question in questions)
    gold = {q.id: _gold(q, second) for q in questions}
    exact, f1 = _each(gold, answers, second)
    scores = _means("", exact, f1, [q.id for q in questions])
    if second:
        for name, has_answer in (("HasAns_", True), ("NoAns_", False)):
            ids = [q.id for q in questions if bool(q.answers) is has_answer]
            if ids:
                scores |= _means(name, exact, f1, ids)
    if no_answer is not None:
        texts = {i: text for i, (text, _) in no_answer.items()}
        odds = {i: score for i, (_, score) in no_answer.items()}
        for name, raw in zip(("exact", "f1"), _each(gold, texts, second), strict=True):
            scores |= _best(name, raw, texts, gold, odds)
    return scores


def exact_match(true: str, predicted: str) -> float:
    """Return 1 if a true answer and a predicted answer are equal after normalisation, otherwise 0.

    >>> exact_match("the Cat", "cat!")
    1.0
    """
    return float(normalize_answer(true) == normalize_answer(predicted))


def f1_score(true: str, predicted: str, *, empty_is_right: bool = True) -> float:
    """Return the F1 score of the words that a true answer and a predicted answer share after normalisation. A word that
    occurs twice in both answers counts twice.

    Args:
        empty_is_right: if True, two answers that are empty after normalisation score 1, as in SQuAD 2.0. If False, they
            score 0, as in SQuAD 1.1.

    >>> round(f1_score("the black cat", "a cat"), 4)
    0.6667
    """
    gold, guessed = normalize_answer(true).split(), normalize_answer(predicted).split()
    if empty_is_right and not (gold and guessed):
        return float(gold == guessed)
    same = (collections.Counter(gold) & collections.Counter(guessed)).total()
    return 2 * same / (len(gold) + len(guessed)) if same else 0.0


def normalize_answer(text: str) -> str:
    """Return the text in lower case, without ASCII punctuation and articles, and with single spaces.

    >>> normalize_answer("  The U.S.A., an  example ")
    'usa example'
    """
    letters = "".join(letter for letter in text.lower() if letter not in string.punctuation)
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", letters).split())


@dataclass(frozen=True)
class _Form:
    """Reads fields from the JSON of a SQuAD file, and raises ValueError if a field is missing or has the wrong type."""

    path: Path
    identity: str = ""  # id of the question

    def take(self, holder: object, name: str, kind: type, where: str) -> Any:
        value = holder.get(name) if isinstance(holder, dict) else None
        if type(value) is not kind:
            got = f"{value!r:.60}" if isinstance(holder, dict) and name in holder else f"{holder!r:.60}"
            raise ValueError(
                f"read_squad: {self.path}: {self.identity and _line_of(self.path, self.identity)}not SQuAD's format; "
                f"expected {where} to have {name!r}, {KINDS[kind]}, got {got}."
            )
        return value


def _question(form: _Form, paragraph: dict[str, Any], number: int, qa: dict[str, Any]) -> Question:
    context = form.take(paragraph, "context", str, "a paragraph")
    where = f"question {number} of the context {context[:40]!r}"
    given = qa.get("id") if isinstance(qa, dict) else None
    identity = str(given) if isinstance(given, int) else form.take(qa, "id", str, where)
    form, where = _Form(form.path, identity), f"question {identity!r}"
    impossible = form.take(qa, "is_impossible", bool, where) if qa.get("is_impossible") is not None else None
    has_none = impossible or qa.get("answers") is None
    found = [] if has_none else form.take(qa, "answers", list, where)
    take = lambda answer, name, kind: form.take(answer, name, kind, f"each answer of {where}")
    answers = tuple((take(answer, "text", str), take(answer, "answer_start", int)) for answer in found)
    has_answer = None if impossible is None else not impossible
    asked = form.take(qa, "question", str, where)
    return Question(identity, asked, context, answers, has_answer, f"{form.path}, question {identity!r}")


def _check(path: Path, questions: Sequence[Question]) -> None:
    lines: list[str] = []
    wrong = 0
    for question in questions:
        problems = []
        for answer, start in question.answers:
            there = question.context[start : start + len(answer)] if start >= 0 else ""
            if there != answer or not answer:
                problems.append(f"expected {answer!r} at character {start} of its context, got {there!r}")
        if not question.answers and question.has_answer is not False:
            problems.append("expected an answer, got none")
        wrong += bool(problems)
        if problems and len(lines) < SHOWN:
            lines.append(f"  {_line_of(path, question.id)}question {question.id!r}: {problems[0]}")
    if wrong:
        more = f"\n  and {wrong - len(lines)} more" if wrong > len(lines) else ""
        raise ValueError(
            f"read_squad: {path}: the answers of {wrong} questions are wrong; expected the text of each answer at its "
            "offset in the context. Correct or remove these questions:\n" + "\n".join(lines) + more
        )


def _line_of(path: Path, identity: str) -> str:
    """Find the id of a question in the file. Return its line and character as text for an error message, or "" if the
    id is not found.

    In the file, the id may be a number, or a string with escapes.
    """
    text = read_text(path)
    ids = re.finditer(r'"id"\s*:\s*("(?:[^"\\]|\\.)*"|-?\d+)', text)
    found = next((one for one in ids if str(json.loads(one[1])) == identity), None)
    if found is None:
        return ""
    line = text.count("\n", 0, found.start()) + 1
    return f"line {line}, character {found.start() - text.rfind(chr(10), 0, found.start())}, "


def _gold(question: Question, second: bool) -> list[str]:
    texts = [text for text, _ in question.answers]
    if second:
        texts = [text for text in texts if normalize_answer(text)]
    return texts or [""]


def _each(
    gold: Mapping[str, list[str]], answers: Mapping[str, str], second: bool
) -> tuple[dict[str, float], dict[str, float]]:
    """Return {question id: exact match} and {question id: F1}. If a question has several true answers, the one that
    gives the largest value counts.
    """
    exact = {i: max(exact_match(true, answers[i]) for true in texts) for i, texts in gold.items()}
    f1 = {i: max(f1_score(true, answers[i], empty_is_right=second) for true in texts) for i, texts in gold.items()}
    return exact, f1


def _means(name: str, exact: Mapping[str, float], f1: Mapping[str, float], ids: Sequence[str]) -> dict[str, float]:
    share = 100.0 / len(ids)
    return {
        f"{name}exact": share * sum(exact[i] for i in ids),
        f"{name}f1": share * sum(f1[i] for i in ids),
        f"{name}total": len(ids),
    }


def _best(
    name: str,
    scores: Mapping[str, float],
    answers: Mapping[str, str],
    gold: Mapping[str, list[str]],
    no_answer: Mapping[str, float],
) -> dict[str, float]:
    """Return the best mean score that a threshold for "no answer" can give, and the threshold that gives this score.

    The thresholds that are compared are the values of `no_answer`, from the smallest to the largest.
    """
    current = float(sum(gold[i] == [""] for i in scores))
    best, threshold = current, 0.0
    for i in sorted(scores, key=lambda i: no_answer[i]):
        if gold[i] != [""]:
            current += scores[i]
        elif answers[i]:
            current -= 1
        if current > best:
            best, threshold = current, no_answer[i]
    return {f"best_{name}": 100.0 * best / len(scores), f"best_{name}_thresh": threshold}
