"""What a head is: how a text becomes rows of tokens, and how a model's outputs for these rows become an answer.

    file --read--> examples --encode--> rows --model--> outputs --answer--> JSON --scores--> figures
    item --example--> example --encode--> rows --model--> outputs --answer--> JSON

The first line is training, `funcnet predict` and `funcnet evaluate`; the second one is serving. A head works on
examples, tokenizers, arrays and names of labels. It knows no model class: it names its architecture.

Letters: `B rows of a batch, T tokens of a row, C classes`.
"""

import dataclasses
import re
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from funcnet.heads.encoding import Encoded, TextEncoder

__all__ = [
    "Batch",
    "Forward",
    "Head",
    "ModelConfig",
    "Output",
    "Sums",
    "TrainedHead",
    "count_right",
    "label_names",
    "learn_labels",
    "make_forward",
    "softmax",
    "warn_of_capitals",
]

Batch = Mapping[str, jax.Array]
Sums = dict[str, dict[str, jax.Array]]
Output = NDArray[np.float32]
Forward = Callable[[Any, Any, Any], Any]


class ModelConfig(Protocol):
    """What heads read of a model's config; Hugging Face's names."""

    @property
    def num_labels(self) -> int: ...
    @property
    def id2label(self) -> Mapping[int, str]: ...
    @property
    def problem_type(self) -> str | None: ...
    @property
    def gives_numbers(self) -> bool: ...
    @property
    def vocab_size(self) -> int: ...
    @property
    def max_position_embeddings(self) -> int: ...


@dataclasses.dataclass(frozen=True)
class Head(ABC):
    """A head that answers. Its fields are settings, which `finetuning.json` holds.

    Attributes:
        name: what the command line and `funcnet.serving.inference` call it.
        architecture: the model class with this head, by Hugging Face's name.
        names: every name that this class has.
        needs: what a text must contain.
    """

    name: str
    architecture: ClassVar[str]
    names: ClassVar[tuple[str, ...]]
    needs: ClassVar[str] = ""

    @classmethod
    def architectures(cls) -> tuple[str, ...]:
        """The architectures whose checkpoints have this head."""
        return (cls.architecture,)

    @classmethod
    def fits(cls, architecture: str, config: ModelConfig) -> tuple[str, ...]:
        """The names under which a saved model can be asked, the usual one first; empty if its head is another one."""
        return cls.names if architecture in cls.architectures() else ()

    @classmethod
    def from_directory(cls, name: str, config: ModelConfig, settings: Mapping[str, Any]) -> Self:
        """The head of a saved model.

        Args:
            name: one of `names`.
            config: the model's.
            settings: those of `finetuning.json`, or none.
        """
        known = {field.name for field in dataclasses.fields(cls)}
        return cls(**{key: value for key, value in settings.items() if key in known} | {"name": name})

    @property
    def reads_pairs(self) -> bool | None:
        """Whether it reads pairs of texts and nothing else (True), single texts (False), or what it is given (None)."""
        return None

    @property
    @abstractmethod
    def takes(self) -> str:
        """What a served item is, for messages."""

    @abstractmethod
    def example(self, item: Any, where: str) -> Any | None:
        """A served item as an example; None if it is not what this head reads."""

    def sample(self, text: str) -> Any:
        """An item made of the words of a text, to measure with."""
        return text

    @property
    def extra_tokens(self) -> int:
        """How many tokens of such an item's row are no words of the text: [CLS], each [SEP], and what the item adds."""
        return 2

    @abstractmethod
    def encode(self, examples: Iterable[Any], encoder: TextEncoder) -> Iterator[Encoded]:
        """What the model reads of each example, in order. Training, predicting and serving all call this."""

    def forward(self, net: Any, tokenizer: Tokenizer) -> Forward:
        """`(params, state, batch) -> outputs`, float32, whose first axis is B; what serving compiles."""
        forward = make_forward(net)

        def run(params: Any, state: Any, batch: Batch) -> jax.Array:
            return forward(params, state, batch, False, None)[0].astype(jnp.float32)

        return run

    @abstractmethod
    def answer(self, example: Any, detail: Any, outputs: Sequence[Any]) -> Any:
        """What the model says of an example, as JSON holds it.

        Args:
            example: an element of what `encode` read.
            detail: of its `Encoded`.
            outputs: float32, of each of its rows; of tokens, there may be more than the row has.
        """

    def answers(
        self, examples: Sequence[Any], details: Sequence[Any], counts: Sequence[int], outputs: Iterable[Any]
    ) -> list[Any]:
        """Return the answer for each example.

        Args:
            examples: N examples.
            details: `Encoded.detail` of each example.
            counts: number of rows of each example.
            outputs: the model's outputs for all rows, in order.
        """
        left = iter(outputs)
        return [
            self.answer(example, detail, [*islice(left, count)])
            for example, detail, count in zip(examples, details, counts, strict=True)
        ]


@dataclasses.dataclass(frozen=True)
class TrainedHead(Head):
    """A head that `funcnet finetune` trains.

    Attributes:
        labels: names of the classes, in the order of the model's outputs; empty if there are none.
        metric: the figure that chooses the best model.
        term: the name of its loss.
        by_token: whether every token has a target.
        rows_together: whether the rows of an example are one row of a batch, as choices are.
    """

    labels: tuple[str, ...] = ()
    metric: str = "accuracy"
    term: ClassVar[str]
    by_token: ClassVar[bool] = False
    rows_together: ClassVar[bool] = False

    @classmethod
    def from_settings(cls, name: str, settings: Mapping[str, Any]) -> Self:
        """The head before it has seen an example, from the settings of `funcnet finetune`."""
        known = {field.name for field in dataclasses.fields(cls)} - {"name", "labels", "metric", "pairs"}
        return cls(**{key: value for key, value in settings.items() if key in known} | {"name": name})

    def settings(self) -> dict[str, Any]:
        """What `finetuning.json` keeps: all fields but the labels, which config.json has."""
        values = dataclasses.asdict(self)
        del values["labels"]
        return values

    @property
    @abstractmethod
    def figures(self) -> tuple[str, ...]:
        """Names of the figures of `scores` that may choose the best model."""

    @abstractmethod
    def read(self, path: Path, *, labelled: bool) -> list[Any]:
        """The examples of a file."""

    def learn(self, examples: Sequence[Any]) -> Self:
        """The head with what only the training examples tell, such as the names of the classes."""
        return self

    def label_names(self, example: Any) -> Sequence[str]:
        """The classes that an example is labelled with; empty if its label is something else."""
        return ()

    @abstractmethod
    def config(self) -> dict[str, Any]:
        """The fields of the model's config that the head decides."""

    @abstractmethod
    def targets(self, example: Any, encoded: Encoded) -> Sequence[NDArray[Any]]:
        """What the loss compares the outputs with: an array for each row of a batch; -100 does not count."""

    def counts(self, batch: Batch) -> dict[str, jax.Array]:
        """Over how much each term of the loss is averaged; see `train.step`."""
        return {self.term: jnp.sum(batch["counted"].astype(jnp.float32))}

    @abstractmethod
    def sums(self, outputs: jax.Array, batch: Batch) -> Sums:
        """The sums of each term of the loss; see `train.step`."""

    def objective(self, net: Any) -> Callable[..., tuple[Sums, Any]]:
        """Return the objective for `train.make_step`.

        Args:
            net: a model with this head.
        """
        forward = make_forward(net)

        def objective(params: Any, state: Any, batch: Batch, *, training: bool, rng: Any) -> tuple[Sums, Any]:
            outputs, state = forward(params, state, batch, training, rng)
            return self.sums(outputs, batch), state

        return objective

    @abstractmethod
    def scores(self, examples: Sequence[Any], answers: Sequence[Mapping[str, Any]]) -> dict[str, float]:
        """The figures of answers to labelled examples."""

    def with_null_threshold(self, threshold: float) -> Self:
        """The head that may say "no answer", from this threshold on.

        Raises:
            ValueError: it answers no questions.
        """
        raise ValueError(
            f"predict: --null-threshold; expected a model that answers questions, got one of {self.name!r}. Leave it "
            "out."
        )

    def shown(self, example: Any) -> dict[str, Any]:
        """What `funcnet predict` writes before the answer to an example."""
        return {}

    def classes(
        self, examples: Sequence[Any], answers: Sequence[Mapping[str, Any]]
    ) -> tuple[list[str], list[str]] | None:
        """(true, predicted) names if every example has exactly one class; None otherwise."""
        return None

    def require_measurable(self, config: ModelConfig, path: str | Path) -> None:
        """Refuses a model whose answers no file can be compared with."""

    @property
    def row_noun(self) -> str:
        """What its rows are called, where an example may take several; else empty."""
        return ""

    def describe_cut(self, count: int, seq_len: int) -> str:
        """How many examples were cut; empty if none was."""
        return f"{count:,} texts longer than {seq_len} tokens were cut" if count else ""

    def describe_columns(self, path: Path) -> str:
        """Which columns of a file are read, where that is a choice; else empty."""
        return ""

    def describe_labels(self, examples: Sequence[Any]) -> str:
        """How many examples each class has, where examples have classes; else empty."""
        return ""


def make_forward(net: Any) -> Callable[..., tuple[jax.Array, Any]]:
    """`forward(params, state, batch, training, rng) -> (outputs, state)`; two outputs are stacked on a last axis."""

    def forward(params: Any, state: Any, batch: Batch, training: bool, rng: Any) -> tuple[jax.Array, Any]:
        names = ("attention_mask", "token_type_ids")
        given = {name: batch[name] for name in names}
        out, state = net.apply(params, state, batch["input_ids"], **given, training=training, rng=rng)
        return jnp.stack(out, axis=-1) if isinstance(out, tuple) else out, state

    return forward


def count_right(logits: jax.Array, labels: jax.Array) -> jax.Array:
    """How many labels (…) have the largest of their logits (…, C); those of -100 do not count.

    >>> count_right(jnp.array([[0.0, 1.0], [2.0, 1.0]]), jnp.array([1, -100]))
    Array(1., dtype=float32)
    """
    best = jnp.argmax(logits, axis=-1).astype(labels.dtype)
    return jnp.sum((best == labels).astype(jnp.float32))


def softmax(logits: NDArray[Any]) -> NDArray[np.float64]:
    """Over the last axis, in float64.

    >>> softmax(np.array([0.0, 0.0])).tolist()
    [0.5, 0.5]
    """
    powers = np.exp(np.asarray(logits, np.float64) - np.max(logits, axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def label_names(config: ModelConfig) -> tuple[str, ...]:
    """The names of a config's labels, in order."""
    return tuple(config.id2label[number] for number in range(config.num_labels))


def learn_labels(given: Iterable[Sequence[str]]) -> tuple[str, ...]:
    """The labels that occur: by value if all are whole numbers, else by name.

    >>> learn_labels([("10",), ("9",)]), learn_labels([("b", "a"), ("a",)])
    (('9', '10'), ('a', 'b'))
    """
    seen = sorted({name for names in given for name in names})
    return tuple(sorted(seen, key=int) if all(re.fullmatch(r"-?\d+", name) for name in seen) else seen)


def warn_of_capitals(where: str, labels: Iterable[str]) -> None:
    """Warn of labels that differ only in capital letters, which are usually one class with two spellings."""
    known: dict[str, list[str]] = {}
    for label in labels:
        known.setdefault(label.casefold(), []).append(label)
    same = [", ".join(map(repr, names)) for names in known.values() if len(names) > 1]
    if same:
        warnings.warn(
            f"{where}: labels that differ only in capital letters are different classes: {'; '.join(same)}. Use one "
            "spelling if they mean the same.",
            stacklevel=3,
        )
