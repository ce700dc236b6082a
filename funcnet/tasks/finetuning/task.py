"""What the six tasks have in common: a model's head, its loss, and the way from a file to figures and back.

file --read--> examples --encode--> rows --model--> outputs --predictions--> dicts --scores--> figures
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from funcnet import nn
from funcnet.models import bert
from funcnet.tasks.finetuning.encoding import Encoded

__all__ = ["Task", "make_forward", "make_objective", "right"]

Batch = Mapping[str, jax.Array]
Sums = dict[str, dict[str, jax.Array]]


class Task(Protocol):
    """One way of using BERT. What it holds are settings, which a directory keeps beside the model."""

    @property
    def name(self) -> str:
        """As the command line calls it."""

    @property
    def metric(self) -> str:
        """Which of the figures tells the best model; larger is better."""

    @property
    def figures(self) -> tuple[str, ...]:
        """Names of the figures of `scores` that may tell the best model."""

    @property
    def model(self) -> Callable[[bert.BertConfig], nn.Module]:
        """The class of the model."""

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the classes; empty where there are none."""

    def read(self, path: Path, *, labelled: bool) -> list[Any]:
        """The examples of a file."""

    def learn(self, examples: Sequence[Any]) -> "Task":
        """The task with what the training examples alone tell: the classes."""

    def config(self) -> dict[str, Any]:
        """The fields of BertConfig that the head needs."""

    def encode(self, examples: Sequence[Any], tokenizer: Tokenizer, seq_len: int, *, labelled: bool) -> Encoded:
        """The rows that the model reads. A row is an example, but for questions, whose contexts may take several."""

    def counts(self, batch: Batch) -> dict[str, jax.Array]:
        """See `train.step`."""

    def sums(self, outputs: jax.Array, batch: Batch) -> Sums:
        """See `train.step`."""

    def predictions(
        self, outputs: Sequence[NDArray[np.float32]], examples: Sequence[Any], rows: Encoded
    ) -> list[dict[str, Any]]:
        """For each example what the model says, as JSON. `outputs`: of each row."""

    def scores(self, examples: Sequence[Any], predictions: Sequence[Mapping[str, Any]]) -> dict[str, float]:
        """The figures."""


def make_forward(net: nn.Module) -> Callable[..., tuple[jax.Array, Any]]:
    """`forward(params, state, batch, training, rng) -> (outputs, state)`, one array: of two ends stacked last."""

    def forward(params: Any, state: Any, batch: Batch, training: bool, rng: Any) -> tuple[jax.Array, Any]:
        out, state = net.apply(
            params,
            state,
            batch["input_ids"],
            attention_mask=batch["attention_mask"],
            token_type_ids=batch["token_type_ids"],
            training=training,
            rng=rng,
        )
        return jnp.stack(out, axis=-1) if isinstance(out, tuple) else out, state

    return forward


def make_objective(net: nn.Module, task: Task) -> Callable[..., tuple[Sums, Any]]:
    """The objective of `train.make_step`."""
    forward = make_forward(net)

    def objective(params: Any, state: Any, batch: Batch, *, training: bool, rng: Any) -> tuple[Sums, Any]:
        outputs, state = forward(params, state, batch, training, rng)
        return task.sums(outputs, batch), state

    return objective


def right(logits: jax.Array, labels: jax.Array) -> jax.Array:
    """How many labels (…) have the largest of their logits (…, C); those of -100 do not count.

    >>> right(jnp.array([[0.0, 1.0], [2.0, 1.0]]), jnp.array([1, -100]))
    Array(1., dtype=float32)
    """
    best = jnp.argmax(logits, axis=-1).astype(labels.dtype)
    return jnp.sum((best == labels).astype(jnp.float32))
