"""A tag for every word: `tokens`. The first token of a word speaks for it."""

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
from funcnet.models.bert.words import split_words
from funcnet.tasks.finetuning.encoding import Encoded, encode
from funcnet.tasks.finetuning.entities import entity_scores
from funcnet.tasks.finetuning.examples import DEFAULT, Columns, TokenExample, read_tokens
from funcnet.tasks.finetuning.task import Batch, Sums, right
from funcnet.tasks.finetuning.text_task import learn_labels

__all__ = ["TokenTask"]


@dataclasses.dataclass(frozen=True)
class TokenTask:
    """Tags of words; where they are those of entities (`B-PER`), whole entities are measured."""

    columns: Columns = DEFAULT
    labels: tuple[str, ...] = ()
    name: str = "tokens"

    @property
    def metric(self) -> str:
        return "f1" if self._is_entities else "accuracy"

    @property
    def figures(self) -> tuple[str, ...]:
        return "accuracy", *(["precision", "recall", "f1"] if self._is_entities else [])

    @property
    def model(self) -> Callable[[bert.BertConfig], Any]:
        return bert.BertForTokenClassification

    @property
    def _is_entities(self) -> bool:
        return postprocess.spell_entities(self.labels)

    def read(self, path: Path, *, labelled: bool) -> list[TokenExample]:
        return read_tokens(path, self.columns, labelled=labelled, known=self.labels)

    def learn(self, examples: Sequence[TokenExample]) -> "TokenTask":
        labels = learn_labels([example.tags or () for example in examples])
        if len(labels) < 2:
            raise ValueError(
                f"finetune: {examples[0].where}: one tag, {labels[0] if labels else ''!r}, in all training sentences; "
                "expected at least two. Name the right --label-column, or add sentences with another tag."
            )
        return dataclasses.replace(self, labels=labels)

    def config(self) -> dict[str, Any]:
        return {"num_labels": len(self.labels), "id2label": dict(enumerate(self.labels)), "problem_type": None}

    def encode(
        self, examples: Sequence[TokenExample], tokenizer: Tokenizer, seq_len: int, *, labelled: bool
    ) -> Encoded:
        words = [split_words(tokenizer, e.words) if isinstance(e.words, str) else e.words for e in examples]
        rows = encode(tokenizer, words, seq_len, words=True)
        if not labelled:
            return rows
        assert rows.word_ids is not None
        known = {name: number for number, name in enumerate(self.labels)}
        labels = np.full(len(rows.tokens), losses.IGNORE, np.int32)
        for number, example in enumerate(examples):
            for place, word in postprocess.first_tokens(rows.word_ids[number]):
                tag = (example.tags or [])[word]
                if tag not in known:
                    raise ValueError(
                        f"finetune: {example.where}, word {word + 1}: tag {tag!r} was never seen in training; expected "
                        f"one of {', '.join(map(repr, self.labels))}. Train with it, or leave the sentence out."
                    )
                labels[rows.starts[number] + place] = known[tag]
        return dataclasses.replace(rows, labels=labels, by_token=True)

    def counts(self, batch: Batch) -> dict[str, jax.Array]:
        return {"tag": jnp.sum((batch["labels"] != losses.IGNORE).astype(jnp.float32))}

    def sums(self, outputs: jax.Array, batch: Batch) -> Sums:
        loss = losses.cross_entropy(outputs, batch["labels"]).sum
        return {"tag": {"loss": loss, "accuracy": right(outputs, batch["labels"])}}

    def predictions(
        self, outputs: Sequence[NDArray[np.float32]], examples: Sequence[TokenExample], rows: Encoded
    ) -> list[dict[str, Any]]:
        assert rows.words is not None and rows.word_ids is not None
        return [
            postprocess.tags(logits, word_ids, words, self.labels)
            for logits, word_ids, words in zip(outputs, rows.word_ids, rows.words, strict=True)
        ]

    def scores(self, examples: Sequence[TokenExample], predictions: Sequence[Mapping[str, Any]]) -> dict[str, float]:
        true, guessed = [e.tags or [] for e in examples], [p["tags"] for p in predictions]
        pairs = [a == b for t, g in zip(true, guessed, strict=True) for a, b in zip(t, g, strict=True)]
        accuracy = {"accuracy": float(np.mean(pairs)) if pairs else 0.0}
        return accuracy | (entity_scores(true, guessed) if self._is_entities else {})
