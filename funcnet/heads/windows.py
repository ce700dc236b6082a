"""Windows over a long context, and the answer to a question found in their logits.

Letters: `T tokens of a window, n of them the context's`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from tokenizers import Encoding

from funcnet.heads.head import softmax

__all__ = ["Spans", "Window", "find_answer", "longest_question", "read_windows", "stretches"]


@dataclasses.dataclass(frozen=True)
class Spans:
    """How an answer is searched for.

    The score of a span is log p(it begins there) + log p(it ends there), both within its window. The score of "no
    answer" is that of [CLS], in the window where it is lowest.

    Differs from Google's script, which adds logits: training does not fix their level, which differs between windows.
    So a window without the answer could win over the window with it.

    Attributes:
        doc_stride: tokens from the start of one window to the start of the next.
        n_best: how many beginnings and ends are considered, and how many answers are returned.
        max_answer: tokens of the longest answer.
        null_threshold: how much higher than the best answer "no answer" must score to be given.
        no_answers: whether "no answer" may be given.

    Reference: google-research/bert, `run_squad.py`
    """

    doc_stride: int = 128
    n_best: int = 20
    max_answer: int = 30
    null_threshold: float = 0.0
    no_answers: bool = False


class Window(NamedTuple):
    """A stretch of a question's context, as one row of the model.

    Attributes:
        ids: (T,) `[CLS] question [SEP] stretch [SEP]`.
        prefix: tokens before the stretch; those from there on have token type 1.
        begin: the first token of the stretch, in the context.
        offsets: (n, 2) characters of its tokens in the context: the first, and one after the last.
        leads: (n,) bool: no other window shows more on both sides of the token. Answers begin only at such tokens, so
            each is judged in the window that shows it best.
    """

    ids: list[int]
    prefix: int
    begin: int
    offsets: NDArray[np.int64]
    leads: NDArray[np.bool_]

    @property
    def type_ids(self) -> list[int]:
        """(T,) token types."""
        return [0] * self.prefix + [1] * (len(self.ids) - self.prefix)


def read_windows(
    question: Encoding, context: Encoding, special: dict[str, int], seq_len: int, doc_stride: int
) -> list[Window]:
    """The rows in which a question's context is read.

    Args:
        question, context: without special tokens. A question is cut to 64 tokens, and to half a row.
        special: ids of `[CLS]` and `[SEP]`.
        seq_len: tokens of a row.
        doc_stride: tokens from one window to the next.

    Returns:
        At least one, in order; of an empty context one without a stretch.
    """
    asked = question.ids[: longest_question(seq_len)]
    prefix, room = len(asked) + 2, seq_len - len(asked) - 3
    offsets = np.array(context.offsets, np.int64).reshape(-1, 2)
    found = stretches(len(offsets), room, min(doc_stride, room))
    before, after = [special["[CLS]"], *asked, special["[SEP]"]], special["[SEP]"]
    return [
        Window([*before, *context.ids[at : at + size], after], prefix, at, offsets[at : at + size], leads)
        for (at, size), leads in zip(found, _leads(found), strict=True)
    ]


def find_answer(
    context: str, windows: Sequence[Window], logits: Sequence[NDArray[np.float32]], settings: Spans
) -> dict[str, Any]:
    """The likeliest stretches of a context.

    Args:
        context: the text.
        windows: of `read_windows`.
        logits: of each window (T, 2): begin, end.
        settings: how to search.

    Returns:
        {"answer", "start", "n_best": [{text, start, score, probability}, …]}, and with `settings.no_answers`
        "no_answer", the score of "no answer" minus the best answer's. Without an answer the text is "" and `start` -1.
    """
    chances = [_log_softmax(each) for each in logits]
    scored = [c for window, ends in zip(windows, chances, strict=True) for c in _candidates(window, ends, settings)]
    best: dict[str, tuple[float, int]] = {}
    for score, first, last in sorted(scored, key=lambda candidate: -candidate[0]):
        if context[first:last] not in best and len(best) < settings.n_best:
            best[context[first:last]] = (score, first)
    null = min(float(ends[0].sum()) for ends in chances)
    top = next(iter(best.values()))[0] if best else null
    if settings.no_answers or not best:
        best[""] = (null, -1)
    ranked = sorted(best.items(), key=lambda item: -item[1][0])
    shares = softmax(np.array([score for _, (score, _) in ranked]))
    n_best = [
        {"text": text, "start": start, "score": score, "probability": float(share)}
        for (text, (score, start)), share in zip(ranked, shares, strict=True)
    ]
    spoken = [entry for entry in n_best if entry["text"]]
    is_silent = not spoken or (settings.no_answers and null - top > settings.null_threshold)
    chosen = {"text": "", "start": -1} if is_silent else spoken[0]
    odds = {"no_answer": null - top} if settings.no_answers else {}
    return {"answer": chosen["text"], "start": chosen["start"], **odds, "n_best": n_best}


def longest_question(seq_len: int) -> int:
    """How many tokens of a question are read: 64, as in Google's script, and at most half of the row.

    >>> longest_question(384), longest_question(32)
    (64, 16)
    """
    return min(64, seq_len // 2)


def stretches(tokens: int, room: int, stride: int) -> list[tuple[int, int]]:
    """(first token, how many) of the windows over a context: each starts `stride` tokens later, the last ends with it.

    >>> stretches(10, room=6, stride=3)
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


def _candidates(window: Window, ends: NDArray[np.float64], settings: Spans) -> Iterator[tuple[float, int, int]]:
    """(score, first character, one after the last) of the likeliest stretches in a window."""
    size = len(window.offsets)
    if not size:
        return
    start, end = ends[window.prefix : window.prefix + size].T
    start = np.where(window.leads, start, -np.inf)
    firsts, lasts = (np.argsort(-x, kind="stable")[: settings.n_best] for x in (start, end))
    length = lasts[None, :] - firsts[:, None] + 1
    scores = start[firsts][:, None] + end[lasts][None, :]
    usable = (length >= 1) & (length <= settings.max_answer) & np.isfinite(scores)
    for a, b in zip(*np.nonzero(usable), strict=True):
        first, last = window.offsets[firsts[a], 0], window.offsets[lasts[b], 1]
        yield float(scores[a, b]), int(first), int(last)


def _leads(found: Sequence[tuple[int, int]]) -> list[NDArray[np.bool_]]:
    """For each window which of its tokens it shows best: with the most context on the poorer side, the earlier window
    where two are equal; a hundredth of a window's size counts, as Google has it.
    """
    size = found[-1][0] + found[-1][1]
    best = np.full(size, -np.inf)
    owner = np.zeros(size, np.int64)
    for number, (begin, size) in enumerate(found):
        place = np.arange(size)
        score = np.minimum(place, size - 1 - place) + 0.01 * size
        here = slice(begin, begin + size)
        better = score > best[here]
        best[here] = np.where(better, score, best[here])
        owner[here] = np.where(better, number, owner[here])
    return [owner[begin : begin + size] == number for number, (begin, size) in enumerate(found)]


def _log_softmax(logits: NDArray[np.float32]) -> NDArray[np.float64]:
    """(T, 2) over the tokens."""
    shifted = logits.astype(np.float64) - logits.max(axis=0)
    return shifted - np.log(np.exp(shifted).sum(axis=0))
