"""The heads of `classify`, `pairs` and `regress`, which predict a class or a number for a text or a pair of texts."""

import dataclasses
import itertools
import sys
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import jax
import numpy as np
from numpy.typing import NDArray

from funcnet import losses
from funcnet.heads import metrics
from funcnet.heads.encoding import Encoded, PlainRow, TextEncoder
from funcnet.heads.head import (
    Batch,
    ModelConfig,
    Output,
    Sums,
    TrainedHead,
    label_names,
    learn_labels,
    softmax,
    warn_of_labels,
)
from funcnet.heads.input_settings import InputSettings, LongTexts
from funcnet.heads.reading.examples import DEFAULT, Columns, TextExample, read_texts
from funcnet.heads.reading.glue import GlueTask, glue_task, is_glues, read_glue

__all__ = ["Classify", "Regress", "TextHead", "named_probabilities", "split_in_parts"]


@dataclasses.dataclass(frozen=True)
class TextHead(TrainedHead):
    """A head with one answer per text or pair of texts.

    Attributes:
        columns: names of the columns in files.
        long_texts: "cut" cuts a text that is longer than a row. "parts" splits it and averages the logits of its parts.
        pairs: whether the training examples were pairs of texts. None means that this is unknown. The model then
            accepts both pairs and single texts.
    """

    columns: Columns = DEFAULT
    long_texts: LongTexts = InputSettings.long_texts
    pairs: bool | None = None
    architecture = "BertForSequenceClassification"
    term = "label"
    numbers = False

    @classmethod
    def from_settings(cls, name: str, settings: Mapping[str, Any]) -> Self:
        head = super().from_settings(name, settings)
        glue = glue_task(settings["train"])
        return dataclasses.replace(head, metric=glue.metric) if glue and glue.is_number is cls.numbers else head

    @classmethod
    def from_directory(cls, name: str, config: ModelConfig, settings: Mapping[str, Any]) -> Self:
        head = super().from_directory(name, config, settings)
        return head if cls.numbers else dataclasses.replace(head, labels=label_names(config))

    @property
    def row_noun(self) -> str:
        return "parts" if self.long_texts == "parts" else ""

    @property
    def reads_pairs(self) -> bool | None:
        """Like the field `pairs`, but False if long texts are read in parts."""
        return False if self.long_texts == "parts" else self.pairs

    @property
    def takes(self) -> str:
        if self.long_texts == "parts":
            return "one text, because the model was fine-tuned with --long-texts parts"
        if self.pairs is None:
            return "a text, or a tuple of two"
        if self.name == "pairs":
            return "a tuple of two texts"
        return f"{'a tuple of two texts' if self.pairs else 'one text'}, as in fine-tuning"

    def example(self, item: object, where: str) -> TextExample | None:
        texts = (item,) if isinstance(item, str) else item
        if not isinstance(texts, tuple) or not all(isinstance(one, str) for one in texts):
            return None
        expected = {None: (1, 2), True: (2,), False: (1,)}[self.reads_pairs]
        return TextExample(texts[0], (*texts, None)[1], None, where) if len(texts) in expected else None

    def sample(self, text: str) -> Any:
        first, _, rest = text.partition(" ")
        return (first, rest) if self.reads_pairs else text

    @property
    def extra_tokens(self) -> int:
        return 3 if self.reads_pairs else 2

    @property
    def token_types(self) -> int:
        return 2 if self.reads_pairs else 1

    # -------------------------------------------------------------------------------------------------- files

    def read(self, path: Path, *, labelled: bool) -> list[TextExample]:
        glue = self._glue(path)
        if glue is None:
            pairs = True if self.name == "pairs" or self.columns.second else None
            examples = read_texts(path, self.columns, pairs=pairs, numbers=self.numbers, labelled=labelled)
            self._require_same(path, examples)
            return examples
        expected = "regress" if glue.is_number else "pairs" if glue.second else "classify"
        if self.name != expected:
            raise ValueError(
                f"{self.name}: {path} is GLUE's {glue.name}; expected the task `{expected}`, got `{self.name}`."
            )
        examples, left_out = read_glue(path, glue, labelled=labelled)
        if left_out:
            lines = ", ".join(map(str, left_out[:5])) + (", …" if len(left_out) > 5 else "")
            note = f"{path}: {len(left_out)} lines with too few or too many columns were left out: {lines}."
            print(note, file=sys.stderr)
        self._require_same(path, examples)
        return examples

    def describe_columns(self, path: Path) -> str:
        """Return a note for the user on the columns from which the pairs are read, or "" for single texts.

        >>> Classify(pairs=True).describe_columns(Path("a.csv"))
        'pairs of columns text and text_b'
        """
        if not self.pairs:
            return ""
        names = self._glue(path) or self.columns
        return f"pairs of columns {names.text or 'text'} and {names.second or 'text_b'}"

    def shown(self, example: TextExample) -> dict[str, Any]:
        second = {} if example.second is None else {"text_b": example.second}
        return {"text": example.text, **second}

    def _glue(self, path: Path) -> GlueTask | None:
        glue = glue_task(path) if path.suffix.lower() == ".tsv" and self.columns.text is None else None
        return glue if glue is not None and is_glues(path, glue) else None

    def _require_same(self, path: Path, examples: Sequence[TextExample]) -> None:
        """Raise ValueError for pairs if the model was trained on single texts, and vice versa."""
        if self.pairs is None or not examples or self.pairs is (examples[0].second is not None):
            return
        second = repr(self.columns.second or "text_b")
        expected, got, advice = (
            ("pairs of texts", f"no second text in column {second}", "Add a second text to every row")
            if self.pairs
            else ("single texts", f"a second text in column {second}", "Remove that column")
        )
        raise ValueError(
            f"{self.name}: {path} does not fit the model; expected {expected}, as in fine-tuning, got {got}. {advice}."
        )

    # --------------------------------------------------------------------------------------------------- rows

    def encode(self, examples: Iterable[TextExample], encoder: TextEncoder) -> Iterator[Encoded]:
        if self.long_texts == "cut":
            texts = (e.text if e.second is None else (e.text, e.second) for e in examples)
            for found in encoder.cut(texts):
                yield Encoded([found], bool(found.overflowing))
            return
        for found in encoder.whole(map(self._single, examples)):
            yield Encoded(split_in_parts(found.ids, encoder.special, encoder.seq_len))

    def _single(self, example: TextExample) -> str:
        if example.second is not None:
            raise ValueError(
                f"{self.name}: {example.where}: `--long-texts parts` does not apply to pairs; expected one text, got "
                "two. Use `--long-texts cut`."
            )
        return example.text

    @abstractmethod
    def target(self, example: TextExample) -> NDArray[Any]:
        """Return the target of the loss for a text, as an array of shape () or (C,)."""

    def targets(self, example: TextExample, encoded: Encoded) -> Sequence[NDArray[Any]]:
        return [self.target(example)] * len(encoded.rows)

    def answer(self, example: TextExample, detail: None, outputs: Sequence[Output]) -> dict[str, Any]:
        total: NDArray[Any] = np.sum(outputs, axis=0)
        return self.say(total.astype(np.float64) / len(outputs))

    @abstractmethod
    def say(self, logits: NDArray[np.float64]) -> dict[str, Any]:
        """Return the answer for a text from its logits (C,). If the text was read in parts, the logits are the average
        over the parts.
        """


@dataclasses.dataclass(frozen=True)
class Classify(TextHead):
    """Predicts one class for a text (`classify`) or for a pair of texts (`pairs`)."""

    name: str = "classify"
    names = ("classify", "pairs")

    @classmethod
    def fits(cls, architecture: str, config: ModelConfig) -> tuple[str, ...]:
        several = config.problem_type == "multi_label_classification"
        return () if several or config.gives_numbers else super().fits(architecture, config)

    @property
    def figures(self) -> tuple[str, ...]:
        return "accuracy", "f1_macro", "matthews", *(["f1"] if len(self.labels) == 2 else [])

    def learn(self, examples: Sequence[TextExample]) -> Self:
        labels = learn_labels(map(self.label_names, examples))
        if len(labels) < 2:
            raise ValueError(
                f"{self.name}: {examples[0].where_label}: all {len(examples)} training examples have the same class, "
                f"{labels[0]!r}; expected at least two classes. Pass the right --label-column, or add examples of "
                "another class."
            )
        warn_of_labels(self.name, labels)
        return dataclasses.replace(self, labels=labels, pairs=examples[0].second is not None)

    def label_names(self, example: TextExample) -> Sequence[str]:
        if isinstance(example.label, tuple):
            raise ValueError(
                f"{self.name}: {example.where_label}: the label is a list; expected a single label for `{self.name}`, "
                f"got {example.label!r}. Give every example one label, or use `funcnet finetune labels`."
            )
        return (example.label,)

    def describe_labels(self, examples: Sequence[TextExample]) -> str:
        """Return a note with the numbers of examples in the ten most frequent classes, to reveal misspelt labels.

        >>> head = Classify(labels=("Good", "bad", "good"))
        >>> head.describe_labels([TextExample("fine", None, "good", "a.csv, line 2")])
        '3 classes in the training examples: good 1, Good 0, bad 0.'
        """
        counts = Counter(dict.fromkeys(self.labels, 0))
        for example in examples:
            counts.update(self.label_names(example))
        shown = ", ".join(f"{label:.40} {count:,}" for label, count in counts.most_common(10))
        return f"{len(counts):,} classes in the training examples: {shown}{', …' if len(counts) > 10 else ''}."

    def config(self) -> dict[str, Any]:
        return {
            "num_labels": len(self.labels),
            "id2label": dict(enumerate(self.labels)),
            "problem_type": "single_label_classification",
        }

    def places(self, example: TextExample) -> list[int]:
        """Return the indices of an example's classes. Raise ValueError if one of these classes did not occur in
        training.
        """
        names = self.label_names(example)
        unseen = [name for name in names if name not in self.labels]
        if unseen:
            raise ValueError(
                f"{self.name}: {example.where_label}: label {unseen[0]!r} did not occur in training; expected one of "
                f"{', '.join(map(repr, self.labels))}. Add the label to the training file, or remove this row."
            )
        return [self.labels.index(name) for name in names]

    def target(self, example: TextExample) -> NDArray[Any]:
        return np.array(self.places(example)[0], np.int32)

    def say(self, logits: NDArray[np.float64]) -> dict[str, Any]:
        """Return the class with the largest logit, and all probabilities.

        >>> Classify(labels=("no", "yes")).say(np.array([0.0, np.log(3.0)]))
        {'label': 'yes', 'probability': 0.75, 'probabilities': {'no': 0.25, 'yes': 0.75}}
        """
        chances = softmax(logits)
        label = self.labels[int(chances.argmax())]
        probabilities = named_probabilities(self.labels, chances)
        return {"label": label, "probability": probabilities[label], "probabilities": probabilities}

    def scores(self, examples: Sequence[TextExample], answers: Sequence[Mapping[str, Any]]) -> dict[str, float]:
        true = [self.places(example)[0] for example in examples]
        guessed = [self.labels.index(answer["label"]) for answer in answers]
        figures = {
            "accuracy": metrics.accuracy(true, guessed),
            "f1_macro": metrics.f1_macro(true, guessed),
            "matthews": metrics.matthews(true, guessed),
        }
        return figures | ({"f1": metrics.f1_binary(true, guessed)} if len(self.labels) == 2 else {})

    def classes(
        self, examples: Sequence[TextExample], answers: Sequence[Mapping[str, Any]]
    ) -> tuple[list[str], list[str]] | None:
        return [example.label for example in examples], [answer["label"] for answer in answers]


@dataclasses.dataclass(frozen=True)
class Regress(TextHead):
    """Predicts a number for a text or for a pair of texts."""

    name: str = "regress"
    metric: str = "pearson"
    names = ("regress", "pairs")
    numbers = True

    @classmethod
    def fits(cls, architecture: str, config: ModelConfig) -> tuple[str, ...]:
        return super().fits(architecture, config) if config.gives_numbers else ()

    @property
    def figures(self) -> tuple[str, ...]:
        return "pearson", "spearman", "mse"

    def learn(self, examples: Sequence[TextExample]) -> Self:
        return dataclasses.replace(self, pairs=examples[0].second is not None)

    def config(self) -> dict[str, Any]:
        return {"num_labels": 1, "id2label": {}, "problem_type": "regression"}

    def target(self, example: TextExample) -> NDArray[Any]:
        return np.array(example.label, np.float32)

    def sums(self, outputs: jax.Array, batch: Batch) -> Sums:
        return {self.term: {"loss": losses.regression(outputs, batch["labels"], batch["counted"]).sum}}

    def say(self, logits: NDArray[np.float64]) -> dict[str, Any]:
        """Return the predicted number, or all predicted numbers if the model has several outputs.

        >>> Regress().say(np.array([2.5])), Regress().say(np.array([2.5, 1.0]))
        ({'value': 2.5}, {'values': [2.5, 1.0]})
        """
        numbers = logits.tolist()
        return {"value": numbers[0]} if len(numbers) == 1 else {"values": numbers}

    def scores(self, examples: Sequence[TextExample], answers: Sequence[Mapping[str, Any]]) -> dict[str, float]:
        true = np.array([example.label for example in examples], np.float32)
        given = np.array([answer["value"] for answer in answers])
        correlations = {"pearson": metrics.pearson(true, given), "spearman": metrics.spearman(true, given)}
        return {**correlations, "mse": float(np.mean((given - true) ** 2))}

    def require_measurable(self, config: ModelConfig, path: str | Path) -> None:
        if config.num_labels > 1:
            raise ValueError(
                f"evaluate: {path} predicts {config.num_labels} numbers per text; expected one, because files have one "
                f"label per text, got {config.num_labels}. Use `funcnet predict`, and evaluate its output yourself."
            )


def named_probabilities(labels: Sequence[str], chances: NDArray[np.float64]) -> dict[str, float]:
    """Return {label: probability}. Raise ValueError if two labels have the same name."""
    if len(set(labels)) < len(labels):
        raise ValueError(
            f"classify: two classes have the same name; expected different names, got {', '.join(map(repr, labels))}. "
            "Rename them under id2label in config.json."
        )
    return dict(zip(labels, chances.tolist(), strict=True))


def split_in_parts(ids: Sequence[int], special: Mapping[str, int], seq_len: int) -> list[PlainRow]:
    """Split a long text into as few rows as possible. The lengths of the rows differ by at most one token.

    When the logits are averaged, all rows have the same weight. Therefore no row may be much shorter than the other
    rows.

    Args:
        ids: token ids of the text, without special tokens.
        special: ids of `[CLS]` and `[SEP]`.
        seq_len: largest number of tokens per row, including special tokens; at least 3.

    Returns:
        At least one row, in order. The row of an empty text has only special tokens.

    Example:
        >>> [part.ids for part in split_in_parts([5, 6, 7, 8], {"[CLS]": 2, "[SEP]": 3}, seq_len=5)]
        [[2, 5, 6, 3], [2, 7, 8, 3]]
    """
    count = max(1, -(-len(ids) // (seq_len - 2)))
    ends = [len(ids) * part // count for part in range(count + 1)]
    rows = [[special["[CLS]"], *ids[a:b], special["[SEP]"]] for a, b in itertools.pairwise(ends)]
    return [PlainRow(row, [0] * len(row)) for row in rows]
