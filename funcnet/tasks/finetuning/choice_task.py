"""Which of several texts goes on best: `choice`. C choices, the same number everywhere."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from funcnet.models import bert
from funcnet.models.bert import losses, postprocess
from funcnet.tasks.finetuning import metrics
from funcnet.tasks.finetuning.encoding import Encoded, encode
from funcnet.tasks.finetuning.examples import DEFAULT, ChoiceExample, Columns, read_choices
from funcnet.tasks.finetuning.task import Batch, Sums, right

__all__ = ["ChoiceTask"]


@dataclasses.dataclass(frozen=True)
class ChoiceTask:
    """Multiple choice: each choice is read behind the text, and gets a number."""

    columns: Columns = DEFAULT
    labels: tuple[str, ...] = ()
    name: str = "choice"
    metric: str = "accuracy"

    @property
    def figures(self) -> tuple[str, ...]:
        return ("accuracy",)

    @property
    def model(self) -> Callable[[bert.BertConfig], Any]:
        return bert.BertForMultipleChoice

    def read(self, path: Path, *, labelled: bool) -> list[ChoiceExample]:
        return read_choices(path, self.columns, labelled=labelled)

    def learn(self, examples: Sequence[ChoiceExample]) -> "ChoiceTask":
        return self

    def config(self) -> dict[str, Any]:
        return {"problem_type": None}

    def encode(
        self, examples: Sequence[ChoiceExample], tokenizer: Tokenizer, seq_len: int, *, labelled: bool
    ) -> Encoded:
        width = len(examples[0].choices)
        for example in examples:
            if len(example.choices) != width:
                raise ValueError(
                    f"finetune: {example.where}: expected {width} choices as in the first row, got "
                    f"{len(example.choices)}. Mend it."
                )
        pairs = [(example.text, choice) for example in examples for choice in example.choices]
        rows = encode(tokenizer, pairs, seq_len, choices=width)
        labels = np.array([example.label for example in examples], np.int32) if labelled else None
        return dataclasses.replace(rows, labels=labels)

    def counts(self, batch: Batch) -> dict[str, jax.Array]:
        return {"choice": jnp.sum(batch["counted"].astype(jnp.float32))}

    def sums(self, outputs: jax.Array, batch: Batch) -> Sums:
        loss = losses.cross_entropy(outputs, batch["labels"]).sum
        return {"choice": {"loss": loss, "accuracy": right(outputs, batch["labels"])}}

    def predictions(
        self, outputs: Sequence[NDArray[np.float32]], examples: Sequence[ChoiceExample], rows: Encoded
    ) -> list[dict[str, Any]]:
        return [postprocess.choices(row, example.choices) for row, example in zip(outputs, examples, strict=True)]

    def scores(self, examples: Sequence[ChoiceExample], predictions: Sequence[Mapping[str, Any]]) -> dict[str, float]:
        guessed = [prediction["choice"] for prediction in predictions]
        return {"accuracy": metrics.accuracy([example.label for example in examples], guessed)}
