"""The head of the task `answer`, which finds the answer to a question in a text.

If a text is longer than a row, the model reads it in overlapping windows. Letter: `T tokens of a window`.
"""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import tee
from pathlib import Path
from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray
from tokenizers import Encoding

from funcnet import losses
from funcnet.heads.encoding import Encoded, TextEncoder
from funcnet.heads.head import Batch, Output, Sums, TrainedHead, count_right
from funcnet.heads.reading.squad import Question, read_squad, squad_scores
from funcnet.heads.windows import Spans, Window, find_answer, longest_question, read_windows

__all__ = ["Answer"]


@dataclasses.dataclass(frozen=True)
class Answer(TrainedHead, Spans):
    """Finds an answer as a span of the context, as in SQuAD.

    If `no_answers` is True, a question may have no answer, as in SQuAD 2.0. Fine-tuning sets `no_answers` to True if
    the training file has the field `is_impossible`. All other settings are inherited from `Spans`.
    """

    name: str = "answer"
    metric: str = "f1"
    architecture = "BertForQuestionAnswering"
    names = ("answer",)
    takes = "a tuple of a question and its context"
    term = "start"
    extra_tokens = 4
    token_types = 2
    row_noun = "windows"

    @property
    def figures(self) -> tuple[str, ...]:
        return "f1", "exact", *(["best_f1", "best_exact"] if self.no_answers else [])

    def read(self, path: Path, *, labelled: bool) -> list[Question]:
        return read_squad(path, labelled=labelled)

    def example(self, item: object, where: str) -> Question | None:
        if not isinstance(item, tuple) or len(item) != 2 or not all(isinstance(one, str) for one in item):
            return None
        return Question("", *item, answers=(), has_answer=None, where=where)

    def sample(self, text: str) -> tuple[str, str]:
        first, _, rest = text.partition(" ")
        return f"{first}?", rest

    def learn(self, examples: Sequence[Question]) -> Self:
        return dataclasses.replace(self, no_answers=any(q.has_answer is not None for q in examples))

    def config(self) -> dict[str, Any]:
        return {"num_labels": 2, "id2label": {}, "problem_type": None}

    def with_null_threshold(self, threshold: float) -> Self:
        return dataclasses.replace(self, no_answers=True, null_threshold=threshold)

    def describe_cut(self, count: int, seq_len: int) -> str:
        return f"{count:,} questions longer than {longest_question(seq_len)} tokens were cut" if count else ""

    def encode(self, examples: Iterable[Question], encoder: TextEncoder) -> Iterator[Encoded]:
        for question, context in _tokenized(examples, encoder):
            windows = read_windows(question, context, encoder.special, encoder.seq_len, self.doc_stride)
            yield Encoded(windows, len(question.ids) > longest_question(encoder.seq_len), windows)

    def targets(self, example: Question, encoded: Encoded) -> Sequence[NDArray[Any]]:
        return [np.array(_span(window, example), np.int32) for window in encoded.detail]

    def counts(self, batch: Batch) -> dict[str, jax.Array]:
        count = jnp.sum(batch["counted"].astype(jnp.float32))
        return {"start": count, "end": count}

    def sums(self, outputs: jax.Array, batch: Batch) -> Sums:
        start, end = outputs[..., 0], outputs[..., 1]
        first, last = batch["labels"][:, 0], batch["labels"][:, 1]
        of_start, of_end = losses.question_answering(start, end, first, last, batch["counted"])
        return {
            "start": {"loss": of_start.sum, "accuracy": count_right(start, first)},
            "end": {"loss": of_end.sum, "accuracy": count_right(end, last)},
        }

    def answer(self, example: Question, detail: Sequence[Window], outputs: Sequence[Output]) -> dict[str, Any]:
        logits = [output[: len(window.ids)] for window, output in zip(detail, outputs, strict=True)]
        return find_answer(example.context, detail, logits, self)

    def shown(self, example: Question) -> dict[str, Any]:
        return {"id": example.id}

    def scores(self, examples: Sequence[Question], answers: Sequence[Mapping[str, Any]]) -> dict[str, float]:
        given = {example.id: answer for example, answer in zip(examples, answers, strict=True)}
        no_answer = None
        if self.no_answers:
            best = {i: next((e["text"] for e in one["n_best"] if e["text"]), "") for i, one in given.items()}
            no_answer = {i: (best[i], one["no_answer"]) for i, one in given.items()}
        return squad_scores(examples, {i: one["answer"] for i, one in given.items()}, no_answer)


def _span(window: Window, question: Question) -> tuple[int, int]:
    """Return the indices of the first and the last token of a question's first answer in the row of a window.

    The result is (0, 0), the index of [CLS], if there is no answer or the window does not contain the complete answer.
    """
    if not question.answers or not len(window.offsets):
        return 0, 0
    answer, start = question.answers[0]
    begin, end = start + len(answer) - len(answer.lstrip()), start + len(answer.rstrip())
    inside = np.flatnonzero((window.offsets[:, 1] > begin) & (window.offsets[:, 0] < end))
    first, last = window.characters(question.context, 0, len(window.offsets) - 1)
    if not len(inside) or first > begin or last < end:
        return 0, 0
    return window.prefix + int(inside[0]), window.prefix + int(inside[-1])


def _tokenized(questions: Iterable[Question], encoder: TextEncoder) -> Iterator[tuple[Encoding, Encoding]]:
    """Yield the encodings of each question and of its context, without special tokens.

    A context that several consecutive questions share is tokenized only once.
    """
    last: tuple[str, Encoding] | None = None
    ours, theirs = tee(questions)
    for question, encoding in zip(ours, encoder.whole(one.question for one in theirs), strict=True):
        if last is None or last[0] != question.context:
            last = question.context, next(encoder.whole([question.context]))
        yield encoding, last[1]
