"""The head of the task `tokens`, which predicts a tag for every word from the first token of the word.

Letters: `C tags, T tokens of a row`.
"""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer
from tokenizers.normalizers import BertNormalizer

from funcnet import losses
from funcnet.heads.encoding import Encoded, TextEncoder
from funcnet.heads.entities import OUTSIDE, entities, entity_scores, spell_entities
from funcnet.heads.head import (
    Batch,
    ModelConfig,
    Output,
    TrainedHead,
    label_names,
    learn_labels,
    warn_of_labels,
)
from funcnet.heads.reading.examples import DEFAULT, Columns, TokenExample, read_tokens

__all__ = ["Tokens", "first_tokens", "split_words"]


class Words(NamedTuple):
    """The words of a sentence, and for each token in the row the index of its word (None for special tokens)."""

    words: Sequence[str]
    word_ids: Sequence[int | None]


@dataclasses.dataclass(frozen=True)
class Tokens(TrainedHead):
    """Predicts a tag for every word. If the tags mark entities, such as `B-PER`, the metrics cover entities too."""

    name: str = "tokens"
    columns: Columns = DEFAULT
    architecture = "BertForTokenClassification"
    names = ("tokens",)
    takes = "a list of words, or a text"
    term = "tag"
    by_token = True

    @classmethod
    def from_directory(cls, name: str, config: ModelConfig, settings: Mapping[str, Any]) -> Self:
        return dataclasses.replace(super().from_directory(name, config, settings), labels=label_names(config))

    @property
    def figures(self) -> tuple[str, ...]:
        return "accuracy", *(["precision", "recall", "f1"] if spell_entities(self.labels) else [])

    def read(self, path: Path, *, labelled: bool) -> list[TokenExample]:
        return read_tokens(path, self.columns, labelled=labelled, known=self.labels)

    def example(self, item: Any, where: str) -> TokenExample | None:
        is_words = isinstance(item, list) and all(isinstance(word, str) for word in item)
        return TokenExample(item, None, where) if is_words or isinstance(item, str) else None

    def label_names(self, example: TokenExample) -> Sequence[str]:
        return example.tags or ()

    def learn(self, examples: Sequence[TokenExample]) -> Self:
        labels = learn_labels(map(self.label_names, examples))
        if len(labels) < 2:
            raise ValueError(
                f"tokens: {examples[0].where}: all training words have the same tag, {labels[0] if labels else ''!r}; "
                "expected at least two tags. Pass the right --label-column, or add sentences with another tag."
            )
        warn_of_labels(self.name, labels)
        return dataclasses.replace(self, labels=labels, metric="f1" if spell_entities(labels) else "accuracy")

    def config(self) -> dict[str, Any]:
        return {"num_labels": len(self.labels), "id2label": dict(enumerate(self.labels)), "problem_type": None}

    def encode(self, examples: Iterable[TokenExample], encoder: TextEncoder) -> Iterator[Encoded]:
        split = lambda words: split_words(encoder.tokenizer, words) if isinstance(words, str) else words
        words = [split(example.words) for example in examples]
        for some, found in zip(words, encoder.cut(words, words=True), strict=True):
            yield Encoded([found], bool(found.overflowing), Words(some, found.word_ids))

    def targets(self, example: TokenExample, encoded: Encoded) -> Sequence[NDArray[Any]]:
        target = np.full(len(encoded.rows[0].ids), losses.IGNORE, np.int32)
        for place, word in first_tokens(encoded.detail.word_ids):
            tag = (example.tags or [])[word]
            if tag not in self.labels:
                raise ValueError(
                    f"tokens: {example.where}, word {word + 1}: tag {tag!r} did not occur in training; expected one of "
                    f"{', '.join(map(repr, self.labels))}. Add the tag to the training file, or remove this sentence."
                )
            target[place] = self.labels.index(tag)
        return [target]

    def counts(self, batch: Batch) -> dict[str, jax.Array]:
        return {self.term: jnp.sum((batch["labels"] != losses.IGNORE).astype(jnp.float32))}

    def answer(self, example: TokenExample, detail: Words, outputs: Sequence[Output]) -> dict[str, Any]:
        """Return the tag of every word, and also the entities if the tags mark entities.

        A word that was cut off or has no token gets the tag `O`. If the model does not know the tag `O`, the word gets
        the model's first tag.

        >>> head = Tokens(labels=("O", "B-PER"))
        >>> head.answer(None, Words(["Ann"], [None, 0, None]), [np.array([[0, 0], [0, 1.0], [0, 0]])])["entities"]
        [{'type': 'PER', 'first': 0, 'last': 0, 'text': 'Ann'}]
        """
        tags = [OUTSIDE if OUTSIDE in self.labels else self.labels[0]] * len(detail.words)
        for place, word in first_tokens(detail.word_ids):
            tags[word] = self.labels[int(outputs[0][place].argmax())]
        found: dict[str, Any] = {"tokens": list(detail.words), "tags": tags}
        if spell_entities(self.labels):
            found["entities"] = [
                {"type": kind, "first": first, "last": last, "text": " ".join(detail.words[first : last + 1])}
                for kind, first, last in entities(tags)
            ]
        return found

    def scores(self, examples: Sequence[TokenExample], answers: Sequence[Mapping[str, Any]]) -> dict[str, float]:
        true, guessed = [e.tags or [] for e in examples], [answer["tags"] for answer in answers]
        pairs = [a == b for t, g in zip(true, guessed, strict=True) for a, b in zip(t, g, strict=True)]
        accuracy = {"accuracy": float(np.mean(pairs)) if pairs else 0.0}
        return accuracy | (entity_scores(true, guessed) if spell_entities(self.labels) else {})


def first_tokens(word_ids: Sequence[int | None]) -> list[tuple[int, int]]:
    """Return a pair (index of the token in the row, index of the word) for the first token of every word.

    >>> first_tokens([None, 0, 0, 1, None])
    [(1, 0), (3, 1)]
    """
    before = [None, *word_ids]
    return [(p, w) for p, (w, last) in enumerate(zip(word_ids, before, strict=False)) if w is not None and w != last]


def split_words(tokenizer: Tokenizer, line: str) -> list[str]:
    """Split a line of text into words and punctuation, as in files of tagged words. Case and accents are kept.

    The line is split where the tokenizer splits: at spaces, around punctuation, and for some tokenizers also around
    Chinese characters.

    Example:
        >>> from funcnet import text
        >>> split_words(text.train_wordpiece(["fine soup"] * 2, vocab_size=24), "(Fine) soup!")
        ['(', 'Fine', ')', 'soup', '!']
    """
    if getattr(tokenizer.normalizer, "handle_chinese_chars", False):
        apart = BertNormalizer(clean_text=False, handle_chinese_chars=True, strip_accents=False, lowercase=False)
        line = apart.normalize_str(line)
    return [word for word, _ in tokenizer.pre_tokenizer.pre_tokenize_str(line)]
