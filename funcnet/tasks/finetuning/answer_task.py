"""Where in a text the answer to a question stands: `answer`. `bert.spans` has the windows."""

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray
from tokenizers import Encoding, Tokenizer

from funcnet import text
from funcnet.models import bert
from funcnet.models.bert import losses
from funcnet.models.bert.spans import Spans, Window, answer, longest_question, read_windows
from funcnet.tasks.finetuning.encoding import Encoded
from funcnet.tasks.finetuning.squad import Question, read_squad, squad_scores
from funcnet.tasks.finetuning.task import Batch, Sums, right

__all__ = ["AnswerTask"]

CHUNK = 1024


@dataclasses.dataclass(frozen=True)
class AnswerTask(Spans):
    """SQuAD: the answer is a stretch of the context; with `no_answers` (SQuAD 2.0) there may be none.

    `no_answers` is learned from the training file; the other settings are those of `Spans`.
    """

    labels: tuple[str, ...] = ()
    name: str = "answer"
    metric: str = "f1"

    @property
    def figures(self) -> tuple[str, ...]:
        return "f1", "exact", *(["best_f1", "best_exact"] if self.no_answers else [])

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
        cut = 0
        found: list[list[Window]] = []
        for question, context in _tokenized(examples, tokenizer):
            cut += len(question.ids) > longest_question(seq_len)
            found.append(read_windows(question, context, special, seq_len, self.doc_stride))
        every = [window for windows in found for window in windows]
        spans = [_span(window, e) for e, windows in zip(examples, found, strict=True) for window in windows]
        return Encoded(
            np.concatenate([np.array(window.ids, np.int32) for window in every]),
            np.concatenate([np.array(window.type_ids, np.uint8) for window in every]),
            np.concatenate([[0], np.cumsum([len(window.ids) for window in every], dtype=np.int64)]),
            labels=np.array(spans, np.int32) if labelled else None,
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
        logits = iter(outputs)
        return [
            {"id": question.id, **answer(question.context, windows, [*islice(logits, len(windows))], self)}
            for question, windows in zip(examples, rows.windows, strict=True)
        ]

    def scores(self, examples: Sequence[Question], predictions: Sequence[Mapping[str, Any]]) -> dict[str, float]:
        answers = {prediction["id"]: prediction["answer"] for prediction in predictions}
        odds = None
        if self.no_answers:
            spoken = {p["id"]: next((e["text"] for e in p["n_best"] if e["text"]), "") for p in predictions}
            odds = {p["id"]: (spoken[p["id"]], p["no_answer"]) for p in predictions}
        return squad_scores(examples, answers, odds)


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


def _tokenized(questions: Sequence[Question], tokenizer: Tokenizer) -> Iterator[tuple[Encoding, Encoding]]:
    """(question, context) as encodings without special tokens; a context that many questions share is read once."""
    last: tuple[str, Encoding] | None = None
    for begin in range(0, len(questions), CHUNK):
        part = questions[begin : begin + CHUNK]
        asked = tokenizer.encode_batch([q.question for q in part], add_special_tokens=False)
        for question, encoding in zip(part, asked, strict=True):
            if last is None or last[0] != question.context:
                last = question.context, tokenizer.encode(question.context, add_special_tokens=False)
            yield encoding, last[1]
