"""The tasks that are served: from an item to rows of the model, and from its outputs to an answer.

Letters: `B rows, T tokens, S slots of masks, C classes, D width`.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from tokenizers import Encoding, Tokenizer

from funcnet import nn, text
from funcnet.models.bert import postprocess, spans
from funcnet.models.bert.buckets import Row
from funcnet.models.bert.classification import (
    BertForMultipleChoice,
    BertForSequenceClassification,
    BertForTokenClassification,
)
from funcnet.models.bert.configuration import BertConfig
from funcnet.models.bert.modeling import BertForMaskedLM
from funcnet.models.bert.parts import mean_of_parts, read_parts
from funcnet.models.bert.question_answering import BertForQuestionAnswering
from funcnet.models.bert.words import split_words

__all__ = ["Answer", "Choice", "Classify", "FillMask", "Guess", "Rows", "Served", "Tokens"]

_SLOTS = 8  # masks that the head over words looks at in one go

Forward = Callable[[Any, Any, Any], Any]


class Guess(NamedTuple):
    """A word for a masked place.

    Attributes:
        token: as in the vocabulary; `##` begins what continues a word.
        probability: the model's, among all words.
    """

    token: str
    probability: float


class Rows(NamedTuple):
    """What the model reads of an item, and how many of its texts were cut."""

    rows: Sequence[Row]
    cut: int = 0


class Served(ABC):
    """A task.

    Args:
        tokenizer: of the model; it stays as it is.
        config: the model's.
        longest: tokens of a row.
        settings: of the task; see `inference`.
    """

    model: ClassVar[type[nn.Module]]
    takes: str
    pairs: bool | None = None  # whether an item is two texts; None: as the task says, or either

    def __init__(self, tokenizer: Tokenizer, config: BertConfig, longest: int, settings: Mapping[str, Any]):
        self.whole, self.config, self.longest, self.settings = tokenizer, config, longest, settings
        self.tokenizer = text.truncating(tokenizer, longest)

    def forward(self, net: nn.Module) -> Forward:
        """`(params, state, batch) -> outputs`, float32, whose first dimension is B."""

        def run(params: Any, state: Any, batch: Mapping[str, jax.Array]) -> Any:
            out, _ = net.apply(params, state, batch["input_ids"], batch["attention_mask"], batch["token_type_ids"])
            return jnp.stack(out, -1).astype(jnp.float32) if isinstance(out, tuple) else out.astype(jnp.float32)

        return run

    @abstractmethod
    def rows(self, item: Any, number: int) -> Rows:
        """What the model reads of an item; `number` is for the message."""

    @abstractmethod
    def said(self, item: Any, rows: Sequence[Any], outputs: Sequence[Any]) -> Any:
        """The answer, from the outputs of the item's rows."""

    def wrong(self, item: Any, number: int) -> TypeError:
        """For an item that is no text of this task."""
        return TypeError(
            f"bert.inference: item {number} is not what this task reads; expected {self.takes}, got {item!r:.60}. "
            "Pass one item to the function, a list of them to its batch()."
        )

    def encoded(self, item: Any, number: int) -> Rows:
        """A text, or two as a tuple."""
        if not isinstance(item, str) and not _is_pair(item, str):
            raise self.wrong(item, number)
        return _counted(self.tokenizer.encode(*([item] if isinstance(item, str) else item)))


class FillMask(Served):
    """Words for `[MASK]`."""

    model = BertForMaskedLM
    takes = "a text with [MASK] in it"

    def forward(self, net: nn.Module) -> Forward:
        mask_id, words = text.special_ids(self.whole)["[MASK]"], self.whole.get_vocab_size()
        count = min(self.settings["guesses"], words)

        def likeliest(head: Callable[[jax.Array], jax.Array], hidden: jax.Array, places: jax.Array) -> Any:
            """hidden (B, T, D), places (B, S) -> probabilities and token ids, (B, S, count)."""
            scores = head(jnp.take_along_axis(hidden, places[:, :, None], axis=1))[:, :, :words]
            return jax.lax.top_k(jax.nn.softmax(scores.astype(jnp.float32)), count)  # a padded table has more rows

        def run(params: Any, state: Any, batch: Mapping[str, jax.Array]) -> Any:
            ids = batch["input_ids"]
            encoder, heads = (net.subtree(name, params, state) for name in ("bert", "cls"))
            (hidden, *_), _ = net.bert.apply(*encoder, ids, batch["attention_mask"], batch["token_type_ids"])
            head = lambda at: net.cls.apply(*heads, at)[0]
            masked = (ids == mask_id) & (batch["attention_mask"] > 0)
            order = jnp.argsort(~masked, axis=1, stable=True)  # the masks first, as they stand
            order = jnp.pad(order, ((0, 0), (0, -ids.shape[1] % _SLOTS)))
            most = jnp.max(jnp.sum(masked, axis=1))

            def some(carry: Any) -> Any:
                start, found = carry
                new = likeliest(head, hidden, jax.lax.dynamic_slice_in_dim(order, start, _SLOTS, axis=1))
                put = lambda old, part: jax.lax.dynamic_update_slice_in_dim(old, part, start, axis=1)
                return start + _SLOTS, tuple(map(put, found, new))

            shape = (*order.shape, count)
            empty = jnp.zeros(shape, jnp.float32), jnp.zeros(shape, jnp.int32)
            _, found = jax.lax.while_loop(lambda carry: carry[0] < most, some, (jnp.int32(0), empty))
            return found

        return run

    def rows(self, item: Any, number: int) -> Rows:
        if not isinstance(item, str):
            raise self.wrong(item, number)
        encoding = self.whole.encode(item)
        if len(encoding.ids) > self.longest:
            raise ValueError(
                f"bert.inference: item {number} is too long; expected at most {self.longest} tokens with [CLS] and "
                f"[SEP], got {len(encoding.ids)}. Cut it around the [MASK]."
            )
        if "[MASK]" not in encoding.tokens:
            raise ValueError(
                f"bert.inference: item {number} has nothing to guess; expected [MASK] in the text, got none. Write "
                "[MASK] in the place of a word."
            )
        return Rows([encoding])

    def said(self, item: str, rows: Sequence[Encoding], outputs: Sequence[Any]) -> list[list[Guess]]:
        chances, tokens = outputs[0]
        count = rows[0].tokens.count("[MASK]")
        name = self.whole.id_to_token
        return [
            [Guess(name(token), float(chance)) for token, chance in zip(tokens[at].tolist(), chances[at], strict=True)]
            for at in range(count)
        ]


class Classify(Served):
    """A class, several classes or a number for a text or two."""

    model = BertForSequenceClassification
    takes = "a text, or a tuple of two"

    def __init__(self, tokenizer: Tokenizer, config: BertConfig, longest: int, settings: Mapping[str, Any]):
        super().__init__(tokenizer, config, longest, settings)
        self.pairs = settings.get("pairs")
        if self.pairs is not None:
            self.takes = f"{'a tuple of two texts' if self.pairs else 'one text'}, as the model was fine-tuned on"
        self.in_parts = settings.get("long_texts") == "parts"
        if self.in_parts:
            self.pairs = False
            self.takes = "one text, as a model fine-tuned with --long-texts parts reads"

    def rows(self, item: Any, number: int) -> Rows:
        if self.pairs is not None and self.pairs is isinstance(item, str):
            raise self.wrong(item, number)
        if not self.in_parts:
            return self.encoded(item, number)
        if not isinstance(item, str):
            raise self.wrong(item, number)
        encoding = self.whole.encode(item, add_special_tokens=False)
        return Rows(read_parts(encoding.ids, text.special_ids(self.whole), self.longest))

    def said(self, item: Any, rows: Sequence[Row], outputs: Sequence[Any]) -> dict[str, Any]:
        kind = "regression" if self.config.tells_numbers else self.config.problem_type
        return postprocess.classes(mean_of_parts(np.stack(outputs), [len(rows)]), _labels(self.config), kind)[0]


class Tokens(Served):
    """A tag for every word."""

    model = BertForTokenClassification
    takes = "a list of words, or a text"

    def rows(self, item: Any, number: int) -> Rows:
        if not isinstance(item, str) and not (isinstance(item, list) and all(isinstance(w, str) for w in item)):
            raise self.wrong(item, number)
        return _counted(self.tokenizer.encode(self._words(item), is_pretokenized=True))

    def said(self, item: Any, rows: Sequence[Encoding], outputs: Sequence[Any]) -> dict[str, Any]:
        length = len(rows[0].ids)
        return postprocess.tags(outputs[0][:length], rows[0].word_ids, self._words(item), _labels(self.config))

    def _words(self, item: str | list[str]) -> list[str]:
        return split_words(self.whole, item) if isinstance(item, str) else item


class Choice(Served):
    """Which of several texts goes on best."""

    model = BertForMultipleChoice
    takes = "a tuple of a text and a list of texts"

    def forward(self, net: nn.Module) -> Forward:
        plain = super().forward(net)

        def run(params: Any, state: Any, batch: Mapping[str, jax.Array]) -> jax.Array:
            logits: jax.Array = plain(params, state, {name: array[:, None] for name, array in batch.items()})
            return logits[:, 0]  # a choice is judged by itself: each may be a row

        return run

    def rows(self, item: Any, number: int) -> Rows:
        if not _is_pair(item, list) or not item[1] or not all(isinstance(choice, str) for choice in item[1]):
            raise self.wrong(item, number)
        found = [self.encoded((item[0], choice), number) for choice in item[1]]
        return Rows([row for each in found for row in each.rows], max(each.cut for each in found))

    def said(self, item: tuple[str, list[str]], rows: Sequence[Row], outputs: Sequence[Any]) -> dict[str, Any]:
        return postprocess.choices(np.stack(outputs), item[1])


class Answer(Served):
    """Where in a context the answer to a question stands."""

    model = BertForQuestionAnswering
    takes = "a tuple of a question and its context"

    def __init__(self, tokenizer: Tokenizer, config: BertConfig, longest: int, settings: Mapping[str, Any]):
        super().__init__(tokenizer, config, longest, settings)
        names = {field.name for field in dataclasses.fields(spans.Spans)}
        self.spans = spans.Spans(**{name: value for name, value in settings.items() if name in names})
        self.special = text.special_ids(tokenizer)

    def rows(self, item: Any, number: int) -> Rows:
        if not _is_pair(item, str):
            raise self.wrong(item, number)
        question, context = (self.whole.encode(part, add_special_tokens=False) for part in item)
        cut = len(question.ids) > spans.longest_question(self.longest)
        return Rows(spans.read_windows(question, context, self.special, self.longest, self.spans.doc_stride), int(cut))

    def said(self, item: tuple[str, str], rows: Sequence[Any], outputs: Sequence[Any]) -> dict[str, Any]:
        logits = [output[: len(row.ids)] for row, output in zip(rows, outputs, strict=True)]
        return spans.answer(item[1], rows, logits, self.spans)


def _counted(encoding: Encoding) -> Rows:
    return Rows([encoding], int(bool(encoding.overflowing)))


def _is_pair(item: Any, second: type) -> bool:
    return isinstance(item, tuple) and len(item) == 2 and isinstance(item[0], str) and isinstance(item[1], second)


def _labels(config: BertConfig) -> list[str]:
    return [config.id2label[number] for number in range(config.num_labels)]
