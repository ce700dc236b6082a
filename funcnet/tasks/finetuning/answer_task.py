"""Where in a text the answer to a question stands: `answer`. A long text is read in windows that overlap.

Letters: T tokens of a window, W windows.
"""

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from funcnet import text
from funcnet.models import bert
from funcnet.models.bert import losses
from funcnet.tasks.finetuning.encoding import LONGEST_QUESTION, Encoded
from funcnet.tasks.finetuning.squad import Question, read_squad, squad_scores
from funcnet.tasks.finetuning.task import Batch, Sums, softmax
from funcnet.tasks.finetuning.text_task import right

__all__ = ["AnswerTask", "Window", "windows"]

CHUNK = 1024


class Window(NamedTuple):
    """A stretch of a question's context, as one row of the model.

    Attributes:
        question: its number.
        prefix: tokens before the context: [CLS], the question, [SEP].
        begin: the first token of the context.
        offsets: (n, 2) characters of its tokens in the context, first and behind the last.
        leads: (n,) bool: no other window shows more on both sides of the token. Answers begin at such tokens alone, so
            that each is judged where it is seen best.
    """

    question: int
    prefix: int
    begin: int
    offsets: NDArray[np.int64]
    leads: NDArray[np.bool_]


@dataclasses.dataclass(frozen=True)
class AnswerTask:
    """SQuAD: the answer is a stretch of the context; with `no_answers` (SQuAD 2.0) there may be none.

    A stretch scores log p(it begins there) + log p(it ends there), both within its window; "no answer" what [CLS]
    scores so, in the window that believes in it least.

    Differs from Google's script, which adds logits: training leaves their level free in each window, so that a window
    without the answer may outbid the one with it.

    Attributes:
        doc_stride: tokens from the begin of one window to the next.
        n_best: ends and begins that are looked at, and answers told.
        max_answer: tokens of the longest answer.
        null_threshold: how much more than the best answer "no answer" must score to be told.
        no_answers: whether "no answer" may be told; learned from the training file.
    """

    doc_stride: int = 128
    n_best: int = 20
    max_answer: int = 30
    null_threshold: float = 0.0
    no_answers: bool = False
    labels: tuple[str, ...] = ()
    name: str = "answer"
    metric: str = "f1"

    @property
    def model(self) -> Callable[[bert.BertConfig], Any]:
        return bert.BertForQuestionAnswering

    def read(self, path: Path, *, labelled: bool) -> list[Question]:
        return read_squad(path, labelled=labelled)

    def learn(self, examples: Sequence[Question]) -> "AnswerTask":
        return dataclasses.replace(self, no_answers=any(q.has_answer is not None for q in examples))

    def config(self) -> dict[str, Any]:
        return {"num_labels": 2, "id2label": {}, "problem_type": None}

    def encode(self, examples: Sequence[Question], tokenizer: Tokenizer, seq_len: int, *, labelled: bool) -> Encoded:
        special = text.special_ids(tokenizer)
        ids: list[list[int]] = []
        found: list[Window] = []
        longest, cut = min(LONGEST_QUESTION, seq_len // 2), 0
        for number, (question, context) in enumerate(_tokenized(examples, tokenizer)):
            asked = question.ids[:longest]
            cut += len(asked) < len(question.ids)
            prefix, room = len(asked) + 2, seq_len - len(asked) - 3
            offsets = np.array(context.offsets, np.int64).reshape(-1, 2)
            stretches = windows(len(offsets), room, min(self.doc_stride, room))
            for (begin, size), leads in zip(stretches, _leads(stretches), strict=True):
                part = context.ids[begin : begin + size]
                ids.append([special["[CLS]"], *asked, special["[SEP]"], *part, special["[SEP]"]])
                found.append(Window(number, prefix, begin, offsets[begin : begin + size], leads))
        sizes = [len(row) for row in ids]
        types = [np.arange(len(row)) >= window.prefix for row, window in zip(ids, found, strict=True)]
        labels = np.array([_span(window, examples[window.question]) for window in found], np.int32)
        return Encoded(
            np.concatenate([np.array(row, np.int32) for row in ids]),
            np.concatenate(types).astype(np.uint8),
            np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)]),
            labels=labels if labelled else None,
            truncated=cut,
            windows=found,
        )

    def counts(self, batch: Batch) -> dict[str, jax.Array]:
        count = jnp.sum(batch["counted"].astype(jnp.float32))
        return {"start": count, "end": count}

    def sums(self, outputs: jax.Array, batch: Batch) -> Sums:
        start, end = outputs[..., 0], outputs[..., 1]
        first, last = batch["labels"][:, 0], batch["labels"][:, 1]
        of_start, of_end = losses.question_answering(start, end, first, last, batch["counted"])
        return {
            "start": {"loss": of_start.sum, "accuracy": right(start, first)},
            "end": {"loss": of_end.sum, "accuracy": right(end, last)},
        }

    def predictions(
        self, outputs: Sequence[NDArray[np.float32]], examples: Sequence[Question], rows: Encoded
    ) -> list[dict[str, Any]]:
        assert rows.windows is not None
        of_question: list[list[tuple[Window, NDArray[np.float64]]]] = [[] for _ in examples]
        for window, logits in zip(rows.windows, outputs, strict=True):
            of_question[window.question].append((window, _log_softmax(logits)))
        return [self._answer(question, parts) for question, parts in zip(examples, of_question, strict=True)]

    def _answer(self, question: Question, parts: list[tuple[Window, NDArray[np.float64]]]) -> dict[str, Any]:
        scored = [candidate for window, chances in parts for candidate in self._candidates(window, chances)]
        best: dict[str, tuple[float, int]] = {}
        for score, first, last in sorted(scored, key=lambda c: -c[0]):
            answer = question.context[first:last]
            if answer not in best and len(best) < self.n_best:
                best[answer] = (score, first)
        null = min(float(ends[0].sum()) for _, ends in parts)
        top = next(iter(best.values()))[0] if best else null
        if self.no_answers or not best:
            best[""] = (null, -1)
        ranked = sorted(best.items(), key=lambda item: -item[1][0])
        chances = softmax(np.array([score for _, (score, _) in ranked]))
        n_best = [
            {"text": answer, "start": start, "score": score, "probability": float(chance)}
            for (answer, (score, start)), chance in zip(ranked, chances, strict=True)
        ]
        spoken = [entry for entry in n_best if entry["text"]]
        is_silent = not spoken or (self.no_answers and null - top > self.null_threshold)
        told = {"text": "", "start": -1} if is_silent else spoken[0]
        prediction = {"id": question.id, "answer": told["text"], "start": told["start"]}
        return prediction | ({"no_answer": null - top} if self.no_answers else {}) | {"n_best": n_best}

    def _candidates(self, window: Window, ends: NDArray[np.float64]) -> Iterator[tuple[float, int, int]]:
        """(score, first character, behind the last) of the likeliest stretches in a window."""
        size = len(window.offsets)
        if not size:
            return
        start, end = ends[window.prefix : window.prefix + size].T
        start = np.where(window.leads, start, -np.inf)
        firsts, lasts = (np.argsort(-x, kind="stable")[: self.n_best] for x in (start, end))
        length = lasts[None, :] - firsts[:, None] + 1
        scores = start[firsts][:, None] + end[lasts][None, :]
        usable = (length >= 1) & (length <= self.max_answer) & np.isfinite(scores)
        for a, b in zip(*np.nonzero(usable), strict=True):
            first, last = window.offsets[firsts[a], 0], window.offsets[lasts[b], 1]
            yield float(scores[a, b]), int(first), int(last)

    def scores(self, examples: Sequence[Question], predictions: Sequence[Mapping[str, Any]]) -> dict[str, float]:
        answers = {prediction["id"]: prediction["answer"] for prediction in predictions}
        odds = None
        if self.no_answers:
            spoken = {p["id"]: next((e["text"] for e in p["n_best"] if e["text"]), "") for p in predictions}
            odds = {p["id"]: (spoken[p["id"]], p["no_answer"]) for p in predictions}
        return squad_scores(examples, answers, odds)


def windows(tokens: int, room: int, stride: int) -> list[tuple[int, int]]:
    """(first token, how many) of the windows over a context, each `stride` tokens on, the last one ending where it
    ends.

    >>> windows(10, room=6, stride=3)
    [(0, 6), (3, 6), (6, 4)]

    Reference: google-research/bert, `run_squad.py`
    """
    out, begin = [], 0
    while True:
        size = min(room, tokens - begin)
        out.append((begin, size))
        if begin + size >= tokens:
            return out
        begin += min(size, stride)


def _leads(stretches: Sequence[tuple[int, int]]) -> list[NDArray[np.bool_]]:
    """For each window which of its tokens it shows best: with the most context on the poorer side, the earlier window
    where two are equal; a hundredth of a window's size counts, as Google has it.
    """
    behind = stretches[-1][0] + stretches[-1][1]
    best = np.full(behind, -np.inf)
    owner = np.zeros(behind, np.int64)
    for number, (begin, size) in enumerate(stretches):
        place = np.arange(size)
        score = np.minimum(place, size - 1 - place) + 0.01 * size
        here = slice(begin, begin + size)
        better = score > best[here]
        best[here] = np.where(better, score, best[here])
        owner[here] = np.where(better, number, owner[here])
    return [owner[begin : begin + size] == number for number, (begin, size) in enumerate(stretches)]


def _log_softmax(logits: NDArray[np.float32]) -> NDArray[np.float64]:
    """(T, 2) over the tokens."""
    shifted = logits.astype(np.float64) - logits.max(axis=0)
    return shifted - np.log(np.exp(shifted).sum(axis=0))


def _span(window: Window, question: Question) -> tuple[int, int]:
    """The row's tokens that begin and end the first answer; (0, 0), at [CLS], where the window does not hold all."""
    if not question.answers or not len(window.offsets):
        return 0, 0
    answer, start = question.answers[0]
    inside = np.flatnonzero((window.offsets[:, 1] > start) & (window.offsets[:, 0] < start + len(answer)))
    whole = window.offsets[0, 0] <= start and window.offsets[-1, 1] >= start + len(answer.rstrip())
    if not len(inside) or not whole:
        return 0, 0
    return window.prefix + int(inside[0]), window.prefix + int(inside[-1])


def _tokenized(questions: Sequence[Question], tokenizer: Tokenizer) -> Iterator[tuple[Any, Any]]:
    """(question, context) as encodings without special tokens; a context that many questions share is read once."""
    last: tuple[str, Any] | None = None
    for begin in range(0, len(questions), CHUNK):
        part = questions[begin : begin + CHUNK]
        asked = tokenizer.encode_batch([q.question for q in part], add_special_tokens=False)
        for question, encoding in zip(part, asked, strict=True):
            if last is None or last[0] != question.context:
                last = question.context, tokenizer.encode(question.context, add_special_tokens=False)
            yield encoding, last[1]
