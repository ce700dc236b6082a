"""The head of the task `choice`, which chooses the best continuation of a text.

Letters: `B rows, C choices`. All examples of a file have the same number of choices.
"""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from funcnet import nn
from funcnet.heads import metrics
from funcnet.heads.encoding import Encoded, TextEncoder
from funcnet.heads.head import Batch, Forward, Output, TrainedHead, softmax
from funcnet.heads.reading.examples import DEFAULT, ChoiceExample, Columns, read_choices
from funcnet.tree import Params, State

__all__ = ["Choice"]


@dataclasses.dataclass(frozen=True)
class Choice(TrainedHead):
    """Multiple choice. The model reads the text followed by each choice, and returns one score per choice."""

    name: str = "choice"
    columns: Columns = DEFAULT
    architecture = "BertForMultipleChoice"
    names = ("choice",)
    takes = "a tuple of a text and a list of texts"
    term = "choice"
    extra_tokens = 3
    token_types = 2
    rows_together = True

    @property
    def figures(self) -> tuple[str, ...]:
        return ("accuracy",)

    def read(self, path: Path, *, labelled: bool) -> list[ChoiceExample]:
        return read_choices(path, self.columns, labelled=labelled)

    def example(self, item: object, where: str) -> ChoiceExample | None:
        if not isinstance(item, tuple) or len(item) != 2 or not isinstance(item[0], str):
            return None
        choices = item[1]
        if not isinstance(choices, list) or not choices or not all(isinstance(one, str) for one in choices):
            return None
        return ChoiceExample(item[0], choices, None, where)

    def sample(self, text: str) -> tuple[str, list[str]]:
        first, _, rest = text.partition(" ")
        return first, [rest, " ".join(reversed(rest.split()))]

    def config(self) -> dict[str, Any]:
        return {"problem_type": None}

    def encode(self, examples: Iterable[ChoiceExample], encoder: TextEncoder) -> Iterator[Encoded]:
        examples = list(examples)
        found = encoder.cut((example.text, choice) for example in examples for choice in example.choices)
        for example in examples:
            rows = [*islice(found, len(example.choices))]
            yield Encoded(rows, any(row.overflowing for row in rows))

    def targets(self, example: ChoiceExample, encoded: Encoded) -> Sequence[NDArray[Any]]:
        return [np.array(example.label, np.int32)]

    def forward(self, net: nn.Module, tokenizer: Tokenizer) -> Forward:
        """Return a function that runs the model on rows with one choice each, so that items may have any number of
        choices.
        """
        plain = super().forward(net, tokenizer)

        def run(params: Params, state: State, batch: Batch) -> jax.Array:
            logits: jax.Array = plain(params, state, {name: array[:, None] for name, array in batch.items()})
            return logits[:, 0]

        return run

    def answer(self, example: ChoiceExample, detail: None, outputs: Sequence[Output]) -> dict[str, Any]:
        """Return the most likely choice. `outputs` has one score per choice, in one array or in several.

        >>> Choice().answer(ChoiceExample("", ["a", "b", "c"], None, ""), None, [np.array([0.0, 0.0, 1e3])])
        {'choice': 2, 'text': 'c', 'probabilities': [0.0, 0.0, 1.0]}
        """
        chances = softmax(np.hstack(outputs))
        best = int(chances.argmax())
        return {"choice": best, "text": example.choices[best], "probabilities": chances.tolist()}

    def scores(self, examples: Sequence[ChoiceExample], answers: Sequence[Mapping[str, Any]]) -> dict[str, float]:
        true, guessed = [example.label for example in examples], [answer["choice"] for answer in answers]
        return {"accuracy": metrics.accuracy(true, guessed)}
