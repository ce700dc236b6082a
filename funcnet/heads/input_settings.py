"""Settings of `funcnet finetune` that heads use, each with its type, range, default and tasks.

The command line, the check of the settings and the check of `finetuning.json` follow from this declaration. A head gets
the value of each setting whose name is a field of the head.
"""

import dataclasses
from typing import Annotated, Literal

from funcnet.settings import Range, with_helps

__all__ = ["InputSettings", "LongTexts", "OnlyFor"]

LongTexts = Literal["cut", "parts"]


class OnlyFor:
    """The tasks that a setting applies to, as in `n_best: Annotated[int, OnlyFor("answer")] = 20`.

    Example:
        >>> print(OnlyFor("classify", "labels"))
        classify or labels
    """

    def __init__(self, *tasks: str):
        self.tasks = tasks

    def __str__(self) -> str:
        return " or ".join(self.tasks)


@with_helps
@dataclasses.dataclass(frozen=True)
class InputSettings:
    """How texts become rows of tokens, and how answers are found."""

    seq_len: int = 128
    """Maximum number of tokens per row, including [CLS] and [SEP]. Longer texts are truncated, but the context of a
    question is read in windows if it is too long."""
    long_texts: Annotated[LongTexts, OnlyFor("classify", "labels", "regress")] = "cut"
    """For the tasks "classify", "labels" and "regress": "cut" truncates a text that is longer than a row; "parts" reads
    it in parts of equal length and averages their logits."""
    doc_stride: Annotated[int, Range(1), OnlyFor("answer")] = 128
    """For the task "answer": number of tokens from the start of one window to the start of the next."""
    max_answer: Annotated[int, Range(1), OnlyFor("answer")] = 30
    """For the task "answer": maximum number of tokens in an answer."""
    n_best: Annotated[int, Range(1), OnlyFor("answer")] = 20
    """For the task "answer": number of answers to report per question."""
    null_threshold: Annotated[float, OnlyFor("answer")] = 0.0
    """For the task "answer": "no answer" is predicted if its score exceeds that of the best answer by more than this
    margin."""
    buckets: Annotated[int, Range(1)] = 4
    """Maximum number of different padded lengths. A program is compiled for each length."""
