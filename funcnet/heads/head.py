"""Base classes of heads. A head turns a text into rows of tokens, and a model's outputs for these rows into an answer.

    file --read--> examples --encode--> rows --model--> outputs --answer--> JSON --scores--> metrics
    item --example--> example --encode--> rows --model--> outputs --answer--> JSON

The first line shows training, `funcnet predict` and `funcnet evaluate`. The second line shows serving. The methods of a
head work on examples, tokenizers, arrays and label names. A head stores the name of its architecture, but depends on no
model class.

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

from funcnet import losses, nn
from funcnet.heads.encoding import Encoded, TextEncoder
from funcnet.heads.reading.examples import Columns
from funcnet.tree import Params, State

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
    "warn_of_labels",
]

Batch = Mapping[str, jax.Array]
Sums = dict[str, dict[str, jax.Array]]
Output = NDArray[np.float32]
Forward = Callable[[Any, Any, Any], Any]
MISSING = ("nan", "<na>", "nat", "null")  # how pandas, NumPy and others write a missing value, in lower case


class ModelConfig(Protocol):
    """The config fields that a head reads, under their Hugging Face names."""

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
    @property
    def type_vocab_size(self) -> int: ...


@dataclasses.dataclass(frozen=True)
class Head(ABC):
    """Base class of all heads. The fields of a head are settings, which `finetuning.json` stores.

    Attributes:
        name: name of the task, for the command line and `funcnet.serving.inference`.
        architecture: Hugging Face's name of the model class with this head.
        names: names of all tasks that this class can do.
        needs: string that every text must contain, such as "[MASK]".
    """

    name: str
    architecture: ClassVar[str]
    names: ClassVar[tuple[str, ...]]
    needs: ClassVar[str] = ""

    @classmethod
    def architectures(cls) -> tuple[str, ...]:
        """Return the names of the architectures whose checkpoints have weights for this head."""
        return (cls.architecture,)

    @classmethod
    def fits(cls, architecture: str, config: ModelConfig) -> tuple[str, ...]:
        """Return the names of the tasks that a saved model can do with this head, the usual task first. Return () if
        the model has another head.
        """
        return cls.names if architecture in cls.architectures() else ()

    @classmethod
    def from_directory(cls, name: str, config: ModelConfig, settings: Mapping[str, Any]) -> Self:
        """Return the head with the settings of a saved model. `settings` are the contents of `finetuning.json`, or
        empty.
        """
        known = {field.name for field in dataclasses.fields(cls)}
        return cls(**{key: value for key, value in settings.items() if key in known} | {"name": name})

    @property
    def reads_pairs(self) -> bool | None:
        """True if items must be pairs of texts, False if they must be single texts, and None if both are allowed."""
        return None

    @property
    @abstractmethod
    def takes(self) -> str:
        """Description of the items that `example` accepts, such as "a text", for error messages."""

    @abstractmethod
    def example(self, item: object, where: str) -> Any | None:
        """Convert an item that a caller of the model passes, such as a text, to an example. Return None if the item has
        the wrong type. `where` is the place of the item, for error messages.
        """

    def sample(self, text: str) -> Any:
        """Return an item with the words of `text`, with which the speed of the model is measured."""
        return text

    @property
    def extra_tokens(self) -> int:
        """Number of special tokens, such as [CLS] and [SEP], in the row of an item that `sample` returns."""
        return 2

    @property
    def token_types(self) -> int:
        """Number of token types in the rows: 2 if all rows contain two texts, otherwise 1."""
        return 1

    @abstractmethod
    def encode(self, examples: Iterable[Any], encoder: TextEncoder) -> Iterator[Encoded]:
        """Yield the rows of tokens of each example, in the order of the examples. Training, prediction and serving all
        call this method.
        """

    def forward(self, net: nn.Module, tokenizer: Tokenizer) -> Forward:
        """Return the function of the model that serving compiles, `(params, state, batch) -> float32 outputs (B,
        …)`.
        """
        forward = make_forward(net)

        def run(params: Params, state: State, batch: Batch) -> jax.Array:
            return forward(params, state, batch, False, None)[0].astype(jnp.float32)

        return run

    @abstractmethod
    def answer(self, example: Any, detail: Any, outputs: Sequence[Any]) -> Any:
        """Return the answer for an example, as JSON data.

        Args:
            example: an example that `encode` has read.
            detail: `Encoded.detail` of the example.
            outputs: float32 outputs for each row of the example. If there is one output per token, padding tokens may
                have outputs too.
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
        labels: names of the classes, in the order of the model's outputs. The tuple is empty if the task has no
            classes.
        metric: metric that chooses the best model.
        term: name of the head's loss, as a key of `counts` and `sums`.
        by_token: whether the loss has a target for every token.
        rows_together: whether all rows of an example together form one entry of a batch, as in the task `choice`.

    Example:
        >>> from funcnet.heads.text import Classify
        >>> head = Classify(labels=("bad", "fine"))
        >>> head.figures, head.config()["num_labels"]
        (('accuracy', 'f1_macro', 'matthews', 'f1'), 2)
    """

    labels: tuple[str, ...] = ()
    metric: str = "accuracy"
    term: ClassVar[str]
    by_token: ClassVar[bool] = False
    rows_together: ClassVar[bool] = False

    @classmethod
    def from_settings(cls, name: str, settings: Mapping[str, Any]) -> Self:
        """Return the head that the settings of `funcnet finetune` describe. Its classes are set later, by `learn`."""
        known = {field.name for field in dataclasses.fields(cls)} - {"name", "labels", "metric", "pairs"}
        values = {**settings, "columns": Columns.from_settings(settings)}
        return cls(name=name, **{key: value for key, value in values.items() if key in known})

    def settings(self) -> dict[str, Any]:
        """Return the settings of the head that are stored in `finetuning.json`. The labels are omitted, because
        config.json has them.
        """
        values = dataclasses.asdict(self)
        del values["labels"]
        return values

    @property
    @abstractmethod
    def figures(self) -> tuple[str, ...]:
        """Names of the metrics in `scores` by which the best model can be chosen."""

    @abstractmethod
    def read(self, path: Path, *, labelled: bool) -> list[Any]:
        """Read the examples of the task from a file."""

    def learn(self, examples: Sequence[Any]) -> Self:
        """Return a head with the settings that are found in the training examples, such as the class names."""
        return self

    def label_names(self, example: Any) -> Sequence[str]:
        """Return the classes of an example. The result is empty if the label of the example is not a class."""
        return ()

    @abstractmethod
    def config(self) -> dict[str, Any]:
        """Return the fields of the model's config that depend on the head, such as the number of labels."""

    @abstractmethod
    def targets(self, example: Any, encoded: Encoded) -> Sequence[NDArray[Any]]:
        """Return the targets of the loss for an example, one array per row of a batch. Targets of -100 are ignored."""

    def counts(self, batch: Batch) -> dict[str, jax.Array]:
        """Return {term of the loss: number of entries of a batch over which it is averaged} (see `train.step`)."""
        return {self.term: jnp.sum(batch["counted"].astype(jnp.float32))}

    def sums(self, outputs: jax.Array, batch: Batch) -> Sums:
        """Return the loss and the metrics of a batch, as sums over its entries (see `train.step`). The base class
        returns the cross-entropy and the number of correct predictions, for labels that are classes.
        """
        loss = losses.cross_entropy(outputs, batch["labels"]).sum
        return {self.term: {"loss": loss, "accuracy": count_right(outputs, batch["labels"])}}

    def objective(self, net: nn.Module) -> Callable[..., tuple[Sums, Any]]:
        """Return the objective of a model with this head, for `train.make_step`."""
        forward = make_forward(net)

        def objective(
            params: Params, state: State, batch: Batch, *, training: bool, rng: jax.Array | None
        ) -> tuple[Sums, Any]:
            outputs, state = forward(params, state, batch, training, rng)
            return self.sums(outputs, batch), state

        return objective

    @abstractmethod
    def scores(self, examples: Sequence[Any], answers: Sequence[Mapping[str, Any]]) -> dict[str, float]:
        """Compare answers with the labels of the examples, and return the metrics."""

    def with_null_threshold(self, threshold: float) -> Self:
        """Return a copy of the head with this threshold for "no answer". Raise ValueError if the task is not
        `answer`.
        """
        raise ValueError(
            f"predict: --null-threshold does not apply to this model; expected a model for the task 'answer', "
            f"got one for {self.name!r}. Omit the setting."
        )

    def shown(self, example: Any) -> dict[str, Any]:
        """Return the fields of an example that `funcnet predict` writes before the answer."""
        return {}

    def classes(
        self, examples: Sequence[Any], answers: Sequence[Mapping[str, Any]]
    ) -> tuple[list[str], list[str]] | None:
        """Return the true and the predicted class names if every example has exactly one class, otherwise None."""
        return None

    def require_measurable(self, config: ModelConfig, path: str | Path) -> None:
        """Raise ValueError if the model has more outputs per text than a labelled file can have labels. The base class
        accepts every model.
        """

    @property
    def row_noun(self) -> str:
        """Word by which messages call the rows of an example, such as "parts", or "" if every example has one row."""
        return ""

    def describe_cut(self, count: int, seq_len: int) -> str:
        """Return a note for the user on the number of examples that were cut, or "" if no example was cut."""
        return f"{count:,} texts longer than {seq_len} tokens were cut" if count else ""

    def describe_columns(self, path: Path) -> str:
        """Return a note for the user on the columns that are read from a file, or "" if no note is needed."""
        return ""

    def describe_labels(self, examples: Sequence[Any]) -> str:
        """Return a note for the user on the number of examples per class, or "" if the task has no classes."""
        return ""


def make_forward(net: nn.Module) -> Callable[..., tuple[jax.Array, Any]]:
    """Return `forward(params, state, batch, training, rng) -> (outputs, state)`.

    If the model has several outputs, they are stacked along a new last axis.
    """

    def forward(
        params: Params, state: State, batch: Batch, training: bool, rng: jax.Array | None
    ) -> tuple[jax.Array, Any]:
        names = ("attention_mask", "token_type_ids")
        given: dict[str, Any] = {name: batch[name] for name in names}
        out, state = net.apply(params, state, batch["input_ids"], **given, training=training, rng=rng)
        return jnp.stack(out, axis=-1) if isinstance(out, tuple) else out, state

    return forward


def count_right(logits: jax.Array, labels: jax.Array) -> jax.Array:
    """Count the correct predictions: labels (…) that equal the index of the largest of the C logits in (…, C). Labels
    of -100 are ignored.

    >>> count_right(jnp.array([[0.0, 1.0], [2.0, 1.0]]), jnp.array([1, -100]))
    Array(1., dtype=float32)
    """
    best = jnp.argmax(logits, axis=-1).astype(labels.dtype)
    return jnp.sum((best == labels).astype(jnp.float32))


def softmax(logits: NDArray[Any]) -> NDArray[np.float64]:
    """Return the softmax over the last axis, in float64.

    >>> softmax(np.array([0.0, 0.0])).tolist()
    [0.5, 0.5]
    """
    powers = np.exp(np.asarray(logits, np.float64) - np.max(logits, axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def label_names(config: ModelConfig) -> tuple[str, ...]:
    """Return the names of the labels in a model's config, in the order of the labels."""
    return tuple(config.id2label[number] for number in range(config.num_labels))


def learn_labels(given: Iterable[Sequence[str]]) -> tuple[str, ...]:
    """Return the distinct labels, sorted by value if all of them are integers, otherwise by name.

    >>> learn_labels([("10",), ("9",)]), learn_labels([("b", "a"), ("a",)])
    (('9', '10'), ('a', 'b'))
    """
    seen = sorted({name for names in given for name in names})
    return tuple(sorted(seen, key=int) if all(re.fullmatch(r"-?\d+", name) for name in seen) else seen)


def warn_of_labels(where: str, labels: Iterable[str]) -> None:
    """Warn about labels that differ only in case, because these are usually two spellings of one class, and about
    labels such as "nan", with which other programs write a missing value as text.
    """
    missing = [repr(label) for label in labels if label.casefold() in MISSING]
    if missing:
        warnings.warn(
            f"{where}: the class {', '.join(missing)} looks like a missing value that was written as text. Leave the "
            "cell empty, or remove the row, if its label is missing.",
            stacklevel=3,
        )
    known: dict[str, list[str]] = {}
    for label in labels:
        known.setdefault(label.casefold(), []).append(label)
    same = [", ".join(map(repr, names)) for names in known.values() if len(names) > 1]
    if same:
        warnings.warn(
            f"{where}: some labels differ only in case, but count as different classes: {'; '.join(same)}. Use a "
            "single spelling if they mean the same class.",
            stacklevel=3,
        )
