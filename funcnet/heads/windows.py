"""Splits a long context into windows, and finds the answer to a question in the logits of the windows.

Letters: `T tokens of a window, n tokens of the context in the window`.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from tokenizers import Encoding

from funcnet.heads.head import softmax

__all__ = ["Spans", "Window", "find_answer", "longest_question", "read_windows", "stretches"]

END = np.iinfo(np.int64).max  # index after the last character of any text


@dataclasses.dataclass(frozen=True)
class Spans:
    """Settings of the search for an answer.

    The score of a span is log p(start) + log p(end), with probabilities over the tokens of its window. The score of "no
    answer" is the score of [CLS] in the window where the score of [CLS] is lowest.

    Differs from Google's script, which adds logits. The level of the logits is arbitrary and differs between windows,
    so a window that does not contain the answer could get a higher score than the window that contains the answer.

    Attributes:
        doc_stride: number of tokens from the start of one window to the start of the next.
        n_best: number of starts and number of ends to consider in each window, and number of answers to return.
        max_answer: largest number of tokens in an answer.
        null_threshold: margin by which the score of "no answer" must exceed that of the best answer.
        no_answers: whether "no answer" is allowed.

    Reference: google-research/bert, `run_squad.py`
    """

    doc_stride: int = 128
    n_best: int = 20
    max_answer: int = 30
    null_threshold: float = 0.0
    no_answers: bool = False


class Window(NamedTuple):
    """A part of a question's context, as one row of the model's input.

    Attributes:
        ids: (T,), token ids of `[CLS] question [SEP] part [SEP]`.
        prefix: number of tokens before the part of the context. All tokens after these have token type 1.
        begin: index, among the tokens of the whole context, of the first token of the part.
        offsets: (n, 2), for each token the index of its first character in the context, and the index after its last
            character.
        leads: (n,) bool, True if this is the window with the most context around the token. Answers begin only at such
            tokens, so that each answer gets its score from the window with the most context around it.
        bounds: (n, 2), for each token the index after the last character of the token before it in the context, and the
            index of the first character of the token after it.
    """

    ids: list[int]
    prefix: int
    begin: int
    offsets: NDArray[np.int64]
    leads: NDArray[np.bool_]
    bounds: NDArray[np.int64]

    @property
    def type_ids(self) -> list[int]:
        """(T,), token types."""
        return [0] * self.prefix + [1] * (len(self.ids) - self.prefix)

    def characters(self, context: str, first: int, last: int) -> tuple[int, int]:
        """Return the index of the first character, and the index after the last character, of the tokens `first` to
        `last` of the part, together with the characters around them that belong to no token.

        An uncased tokenizer drops combining accents, and every BERT tokenizer drops control and format characters. A
        dropped character belongs to the token directly before it. If there is no token directly before it, as at the
        start of a word, it belongs to the token directly after it.

        >>> tokens = np.array([[0, 4], [5, 6]])
        >>> window = Window([], 2, 0, tokens, np.ones(2, bool), np.array([[0, 5], [4, 9]]))
        >>> window.characters("cafe\u0301!", 0, 0)
        (0, 5)

        Reference: google-research/bert, `run_squad.py`, whose `get_final_text` returns the words of the context
        """
        begin, end = int(self.offsets[first, 0]), int(self.offsets[last, 1])
        before, after = context[self.bounds[first, 0] : begin], context[end : self.bounds[last, 1]]
        dropped = len(re.split(r"\s", before)[-1])
        if dropped < len(before) or len(before) == begin:
            begin -= dropped
        return begin, end + len(re.split(r"\s", after, maxsplit=1)[0])


def read_windows(
    question: Encoding, context: Encoding, special: dict[str, int], seq_len: int, doc_stride: int
) -> list[Window]:
    """Return the windows over a context, each as one row of the model's input that also contains the question.

    Args:
        question, context: encodings without special tokens. The question is cut to `longest_question(seq_len)` tokens.
        special: ids of `[CLS]` and `[SEP]`.
        seq_len: largest number of tokens per row.
        doc_stride: number of tokens from the start of one window to the start of the next.

    Returns:
        At least one window, in order. The window of an empty context has no context tokens.
    """
    asked = question.ids[: longest_question(seq_len)]
    prefix, room = len(asked) + 2, seq_len - len(asked) - 3
    offsets = np.array(context.offsets, np.int64).reshape(-1, 2)
    bounds = np.stack([[0, *offsets[:-1, 1]], [*offsets[1:, 0], END]], axis=1) if len(offsets) else offsets
    found = stretches(len(offsets), room, min(doc_stride, room))
    before, after = [special["[CLS]"], *asked, special["[SEP]"]], special["[SEP]"]
    rows = ((slice(at, at + size), leads) for (at, size), leads in zip(found, _leads(found), strict=True))
    return [
        Window([*before, *context.ids[part], after], prefix, part.start, offsets[part], leads, bounds[part])
        for part, leads in rows
    ]


def find_answer(
    context: str, windows: Sequence[Window], logits: Sequence[NDArray[np.float32]], settings: Spans
) -> dict[str, Any]:
    """Find the most likely answers in a context.

    Args:
        context: text of the context.
        windows: windows from `read_windows`.
        logits: (T, 2) for each window, the logits of the start and of the end.
        settings: settings of the search.

    Returns:
        {"answer", "start", "n_best": [{text, start, score, probability}, …]}. With `settings.no_answers`, the key
        "no_answer" has the score of "no answer" minus that of the best answer. For "no answer", the text is "" and
        `start` is -1.
    """
    chances = [_log_softmax(each) for each in logits]
    scored = [
        candidate
        for window, ends in zip(windows, chances, strict=True)
        for candidate in _candidates(context, window, ends, settings)
    ]
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
    """Return the largest number of tokens of a question: 64, as in Google's script, but at most half of the row.

    >>> longest_question(384), longest_question(32)
    (64, 16)
    """
    return min(64, seq_len // 2)


def stretches(tokens: int, room: int, stride: int) -> list[tuple[int, int]]:
    """Return (index of the first token, number of tokens) of each window over a context.

    Args:
        tokens: number of tokens of the context.
        room: largest number of tokens per window.
        stride: number of tokens from the start of one window to the start of the next.

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


def _candidates(
    context: str, window: Window, ends: NDArray[np.float64], settings: Spans
) -> Iterator[tuple[float, int, int]]:
    """Yield the most likely answers in a window as (score, index of the first character, index after the last
    character).
    """
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
        yield float(scores[a, b]), *window.characters(context, firsts[a], lasts[b])


def _leads(found: Sequence[tuple[int, int]]) -> list[NDArray[np.bool_]]:
    """Compute the masks `Window.leads` of all windows over a context.

    The mask of a window is True at a token if the score of the token is larger in this window than in the others. As in
    Google's script, the score is the number of context tokens on the shorter side of the token, plus a hundredth of the
    window's size. If two windows have equal scores, the earlier one is chosen.
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
    """Return the log-softmax of (T, 2) logits over the T tokens."""
    shifted = logits.astype(np.float64) - logits.max(axis=0)
    return shifted - np.log(np.exp(shifted).sum(axis=0))
