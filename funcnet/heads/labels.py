"""The head of the task `labels`, which predicts any number of labels for a text or a pair of texts."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from funcnet import losses
from funcnet.heads import metrics
from funcnet.heads.head import Batch, ModelConfig, Sums
from funcnet.heads.reading.examples import TextExample
from funcnet.heads.text import Classify, TextHead, named_probabilities

__all__ = ["Labels"]


@dataclasses.dataclass(frozen=True)
class Labels(Classify):
    """Several labels per text. Each label has a separate sigmoid, which is trained with binary cross-entropy.

    A label is predicted if its probability is above 0.5.
    """

    name: str = "labels"
    metric: str = "f1_micro"
    names = ("labels", "pairs")

    @classmethod
    def fits(cls, architecture: str, config: ModelConfig) -> tuple[str, ...]:
        several = config.problem_type == "multi_label_classification"
        return super(TextHead, cls).fits(architecture, config) if several else ()

    @property
    def figures(self) -> tuple[str, ...]:
        return "accuracy", "f1_macro", "f1_micro"

    def learn(self, examples: Sequence[TextExample]) -> Self:
        if not any(map(self.label_names, examples)):
            raise ValueError(
                f"labels: {examples[0].where_label}: no training example has a label; expected at least one label."
            )
        return super().learn(examples)

    def label_names(self, example: TextExample) -> Sequence[str]:
        if not isinstance(example.label, tuple):
            raise ValueError(
                f"labels: {example.where_label}: the label is not a list; expected a list of labels, got "
                f"{example.label!r}. Write the labels as lists in a JSON lines file, or pass the separator between "
                "labels with --label-separator."
            )
        return example.label

    def config(self) -> dict[str, Any]:
        return super().config() | {"problem_type": "multi_label_classification"}

    def target(self, example: TextExample) -> NDArray[Any]:
        target = np.zeros(len(self.labels), np.float32)
        target[self.places(example)] = 1
        return target

    def counts(self, batch: Batch) -> dict[str, jax.Array]:
        return {self.term: len(self.labels) * jnp.sum(batch["counted"].astype(jnp.float32))}

    def sums(self, outputs: jax.Array, batch: Batch) -> Sums:
        return {self.term: {"loss": losses.multi_label(outputs, batch["labels"], batch["counted"]).sum}}

    def say(self, logits: NDArray[np.float64]) -> dict[str, Any]:
        """Return the labels with a probability above 0.5, and all probabilities.

        >>> Labels(labels=("fast", "fine")).say(np.array([0.0, np.log(3.0)]))
        {'labels': ['fine'], 'probabilities': {'fast': 0.5, 'fine': 0.75}}
        """
        probabilities = named_probabilities(self.labels, 1 / (1 + np.exp(-logits)))
        return {"labels": [name for name, p in probabilities.items() if p > 0.5], "probabilities": probabilities}

    def scores(self, examples: Sequence[TextExample], answers: Sequence[Mapping[str, Any]]) -> dict[str, float]:
        true = np.stack([self.target(example) > 0 for example in examples])
        guessed = np.array([[name in answer["labels"] for name in self.labels] for answer in answers])
        macro, micro = metrics.f1_macro(true, guessed), metrics.f1_micro(true, guessed)
        return {"accuracy": metrics.accuracy(true, guessed), "f1_macro": macro, "f1_micro": micro}

    def classes(self, examples: Sequence[TextExample], answers: Sequence[Mapping[str, Any]]) -> None:
        return None
