"""A class, several classes or a number for a text or a pair of texts: `classify`, `pairs`, `regress`. C classes."""

import dataclasses
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from funcnet.models import bert
from funcnet.models.bert import losses, postprocess
from funcnet.models.bert.parts import mean_of_parts
from funcnet.tasks.finetuning import metrics
from funcnet.tasks.finetuning.encoding import Encoded, encode, encode_parts
from funcnet.tasks.finetuning.examples import DEFAULT, Columns, TextExample, read_texts
from funcnet.tasks.finetuning.glue import GlueTask, glue_task, is_glues, read_glue
from funcnet.tasks.finetuning.task import Batch, Sums, right

__all__ = ["TextTask", "learn_labels"]


@dataclasses.dataclass(frozen=True)
class TextTask:
    """`classify` a text, compare `pairs` of texts, or give either a number (`regress`).

    Attributes:
        name: which of the three.
        columns: of the files.
        labels: the classes, in their order; none for numbers.
        several: whether a text may have any number of classes.
        long_texts: whether texts longer than a row are cut, or read whole in parts, whose logits are averaged.
        metric: the figure that tells the best model.
        pairs: whether the training examples were pairs of texts; None: not told, and either is read.
    """

    name: Literal["classify", "pairs", "regress"] = "classify"
    columns: Columns = DEFAULT
    labels: tuple[str, ...] = ()
    several: bool = False
    long_texts: Literal["cut", "parts"] = "cut"
    metric: str = "accuracy"
    pairs: bool | None = None

    @property
    def figures(self) -> tuple[str, ...]:
        if self.name == "regress":
            return "pearson", "spearman", "mse"
        if self.several:
            return "accuracy", "f1_macro", "f1_micro"
        return "accuracy", "f1_macro", "matthews", *(["f1"] if len(self.labels) == 2 else [])

    @property
    def model(self) -> Callable[[bert.BertConfig], Any]:
        return bert.BertForSequenceClassification

    def read(self, path: Path, *, labelled: bool) -> list[TextExample]:
        glue = self._glue(path)
        if glue is None:
            pairs = True if self.name == "pairs" or self.columns.second else None
            numbers = self.name == "regress"
            examples = read_texts(path, self.columns, pairs=pairs, numbers=numbers, labelled=labelled)
            self._require_same(path, examples)
            return examples
        expected = "regress" if glue.is_number else "pairs" if glue.second else "classify"
        if self.name != expected:
            raise ValueError(
                f"finetune: {path} is GLUE's {glue.name}; expected `{expected}`, got `{self.name}`. Use `{expected}`."
            )
        examples, left_out = read_glue(path, glue, labelled=labelled)
        if left_out:
            lines = ", ".join(map(str, left_out[:5])) + (", …" if len(left_out) > 5 else "")
            said = f"{path}: {len(left_out)} lines with too few or too many columns were left out: {lines}."
            print(said, file=sys.stderr)
        self._require_same(path, examples)
        return examples

    def describe_pairs(self, path: Path) -> str:
        """Which columns of a file the model reads as pairs; empty where it reads single texts.

        >>> TextTask(pairs=True).describe_pairs(Path("a.csv"))
        'pairs of columns text and text_b'
        """
        if not self.pairs:
            return ""
        names = self._glue(path) or self.columns
        return f"pairs of columns {names.text or 'text'} and {names.second or 'text_b'}"

    def learn(self, examples: Sequence[TextExample]) -> "TextTask":
        pairs = examples[0].second is not None
        if self.name == "regress":
            return dataclasses.replace(self, pairs=pairs)
        several = any(isinstance(example.label, tuple) for example in examples)
        _require_kind(examples, several)
        labels = learn_labels([example.label if several else (example.label,) for example in examples])
        if len(labels) < 2:
            raise ValueError(
                f"finetune: {examples[0].where_label}: one class, {labels[0]!r}, in all {len(examples)} training "
                "examples; expected at least two. Name the right --label-column, or add examples of another class."
                if labels
                else f"finetune: {examples[0].where_label}: no training example has a label; expected some. Add them."
            )
        metric = "f1_micro" if several else self.metric
        return dataclasses.replace(self, labels=labels, several=several, metric=metric, pairs=pairs)

    def config(self) -> dict[str, Any]:
        if self.name == "regress":
            return {"num_labels": 1, "id2label": {}, "problem_type": "regression"}
        kind = "multi_label_classification" if self.several else "single_label_classification"
        return {"num_labels": len(self.labels), "id2label": dict(enumerate(self.labels)), "problem_type": kind}

    def encode(self, examples: Sequence[TextExample], tokenizer: Tokenizer, seq_len: int, *, labelled: bool) -> Encoded:
        labels = self._label_array(examples) if labelled else None
        if self.long_texts == "cut":
            texts = [e.text if e.second is None else (e.text, e.second) for e in examples]
            return dataclasses.replace(encode(tokenizer, texts, seq_len), labels=labels)
        if pair := next((e for e in examples if e.second is not None), None):
            raise ValueError(
                f"finetune: {pair.where}: --long-texts parts; expected one text in each example, got two. Use "
                "--long-texts cut."
            )
        rows = encode_parts(tokenizer, [e.text for e in examples], seq_len)
        return dataclasses.replace(rows, labels=None if labels is None else labels[rows.owners])

    def _glue(self, path: Path) -> GlueTask | None:
        glue = glue_task(path) if path.suffix.lower() == ".tsv" and self.columns.text is None else None
        return glue if glue is not None and is_glues(path, glue) else None

    def _require_same(self, path: Path, examples: Sequence[TextExample]) -> None:
        """Refuses pairs where the model was trained on single texts, and the other way round."""
        if self.pairs is None or not examples or self.pairs is (examples[0].second is not None):
            return
        second = repr(self.columns.second or "text_b")
        expected, got, advice = (
            ("pairs of texts", f"no column {second}", "Give every text its second one")
            if self.pairs
            else ("single texts", f"a second text, of column {second}", "Leave that column out")
        )
        raise ValueError(f"finetune: {path}: expected {expected}, as the model was trained on, got {got}. {advice}.")

    def _label_array(self, examples: Sequence[TextExample]) -> NDArray[Any]:
        if self.name == "regress":
            return np.array([example.label for example in examples], np.float32)
        known = {name: number for number, name in enumerate(self.labels)}
        _require_kind(examples, self.several)
        given = [e.label if self.several else (e.label,) for e in examples]
        for example, names in zip(examples, given, strict=True):
            unseen = [name for name in names if name not in known]
            if unseen:
                raise ValueError(
                    f"finetune: {example.where_label}: label {unseen[0]!r} was never seen in training; expected one of "
                    f"{', '.join(map(repr, self.labels))}. Train with it, or leave the row out."
                )
        if not self.several:
            return np.array([known[names[0]] for names in given], np.int32)
        array = np.zeros((len(given), len(self.labels)), np.float32)
        for row, names in enumerate(given):
            array[row, [known[name] for name in names]] = 1
        return array

    def counts(self, batch: Batch) -> dict[str, jax.Array]:
        each = len(self.labels) if self.several else 1
        return {"label": each * jnp.sum(batch["counted"].astype(jnp.float32))}

    def sums(self, outputs: jax.Array, batch: Batch) -> Sums:
        kind = self.config()["problem_type"]
        loss = losses.sequence_classification(outputs, batch["labels"], kind, batch["counted"]).sum
        if kind != "single_label_classification":
            return {"label": {"loss": loss}}
        return {"label": {"loss": loss, "accuracy": right(outputs, batch["labels"])}}

    def predictions(
        self, outputs: Sequence[NDArray[np.float32]], examples: Sequence[TextExample], rows: Encoded
    ) -> list[dict[str, Any]]:
        logits: NDArray[Any] = np.stack(outputs)
        if rows.owners is not None:
            logits = mean_of_parts(logits, np.bincount(rows.owners).tolist())
        return postprocess.classes(logits, self.labels, self.config()["problem_type"])

    def scores(self, examples: Sequence[TextExample], predictions: Sequence[Mapping[str, Any]]) -> dict[str, float]:
        labels = self._label_array(examples)
        if self.name == "regress":
            values = np.array([prediction["value"] for prediction in predictions])
            correlations = {"pearson": metrics.pearson(labels, values), "spearman": metrics.spearman(labels, values)}
            return {**correlations, "mse": float(np.mean((values - labels) ** 2))}
        known = {name: number for number, name in enumerate(self.labels)}
        if self.several:
            chosen = np.zeros(labels.shape, bool)
            for row, prediction in enumerate(predictions):
                chosen[row, [known[name] for name in prediction["labels"]]] = True
            macro, micro = metrics.f1_macro(labels > 0, chosen), metrics.f1_micro(labels > 0, chosen)
            return {"accuracy": metrics.accuracy(labels > 0, chosen), "f1_macro": macro, "f1_micro": micro}
        guessed = [known[prediction["label"]] for prediction in predictions]
        figures = {
            "accuracy": metrics.accuracy(labels, guessed),
            "f1_macro": metrics.f1_macro(labels, guessed),
            "matthews": metrics.matthews(labels, guessed),
        }
        return figures | ({"f1": metrics.f1_binary(labels, guessed)} if len(self.labels) == 2 else {})


def learn_labels(given: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """The labels that occur, whole numbers by value, everything else by name.

    >>> learn_labels([("10",), ("9",)]), learn_labels([("b", "a"), ("a",)])
    (('9', '10'), ('a', 'b'))
    """
    seen = sorted({name for names in given for name in names})
    return tuple(sorted(seen, key=int) if all(re.fullmatch(r"-?\d+", name) for name in seen) else seen)


def _require_kind(examples: Sequence[TextExample], several: bool) -> None:
    """One label everywhere, or lists of them everywhere."""
    wrong = next((example for example in examples if isinstance(example.label, tuple) is not several), None)
    if wrong is not None:
        raise ValueError(
            f"finetune: {wrong.where_label}: expected {'a list of labels' if several else 'one label'}, as other "
            f"training examples have, got {wrong.label!r}. Write {'lists' if several else 'one label'} everywhere."
        )
