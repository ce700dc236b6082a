"""Serving: `inference(directory)` gives one function from texts to answers, jitted and compiled in advance."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import jax

from funcnet import text, tree
from funcnet.heads import HEADS, Head, TextEncoder, open_head
from funcnet.heads.buckets import LENGTHS, Bucketed
from funcnet.heads.encoding import Encoded
from funcnet.models import bert

__all__ = ["Inference", "inference"]

WHERE = "serving.inference"


class Inference:
    """A model as one function, made by `inference`. Several threads may call it.

    Attributes:
        path: the model's directory.
        head: turns items into rows, and outputs into answers.
        task: the head's name.
        run: the jitted function, with the padded shapes that it runs in.
        model: (params, state), on the device.
        words: the tokens of the vocabulary that are whole words.
        truncated: how many items were cut so far.
        pairs: whether it reads pairs of texts and nothing else, as it was fine-tuned or as the task "pairs" asks;
            False: single texts; None: as the task says, or either.
    """

    def __init__(self, path: Path, head: Head, encoder: TextEncoder, run: Bucketed, model: tuple[Any, Any]):
        self.path, self.head, self.run, self.model, self.truncated = path, head, run, model, 0
        self.task, self.pairs = head.name, head.reads_pairs
        self.words = [token for token in text.vocabulary(encoder.tokenizer) if token.isalpha()]
        self._encoder, self._lock = encoder, threading.Lock()

    def __repr__(self) -> str:
        return f"Inference({str(self.path)!r}, {self.task!r}, lengths={self.run.lengths})"

    def __call__(self, item: Any) -> Any:
        """The answer to one item: see `inference`."""
        return self.batch([item])[0]

    def batch(self, items: Iterable[Any]) -> list[Any]:
        """The answers to many items, several at a time; each as if it were alone, except for rounding.

        Raises:
            TypeError: one text instead of many; an item that the task does not read (the message has its number).
            ValueError: an item to fill in has no `[MASK]`, or is longer than a row; a text that is no Unicode (the
                message has the item's number).
        """
        if isinstance(items, str | bytes):
            raise TypeError(
                f"{WHERE}: batch() reads many items; expected a list of them, got {items!r:.60}. Pass one item to the "
                "function itself."
            )
        examples = [self._example(item, number) for number, item in enumerate(items)]
        encoded = self.encode(examples)
        if cut := sum(one.is_cut for one in encoded):
            with self._lock:
                self.truncated += cut
        rows = [row for one in encoded for row in one.rows]
        details, counts = [one.detail for one in encoded], [len(one.rows) for one in encoded]
        return self.head.answers(examples, details, counts, self.run(self.model, rows))

    def encode(self, examples: Iterable[Any]) -> list[Encoded]:
        """What the model reads of each of the head's examples."""
        return [*self.head.encode(examples, self._encoder)]

    def _example(self, item: Any, number: int) -> Any:
        _require_unicode(item, number)
        example = self.head.example(item, f"item {number}")
        if example is None:
            raise TypeError(
                f"{WHERE}: item {number} is not what this task reads; expected {self.head.takes}, got {item!r:.60}. "
                "Pass one item to the function, a list of them to its batch()."
            )
        return example


def inference(
    path: str | Path,
    task: str | None = None,
    *,
    guesses: int = 5,
    max_length: int | None = None,
    sizes: Sequence[int] = (1, 8),
    lengths: Sequence[int] = LENGTHS,
    ahead: bool = True,
    dtype: Any = None,
    progress: Callable[[int, int], None] = lambda done, of: None,
) -> Inference:
    """The model in a directory as one function: its weights on the device, its programs compiled.

    What it takes and returns for each task:

    - "fill-mask": a text with `[MASK]` in it -> for each `[MASK]` in order a list of `Guess`, the likeliest first.
    - "classify": a text, or two as a tuple -> {"label", "probability", "probabilities"}. "labels": the same
      input -> {"labels", "probabilities"}. "regress": the same input -> {"value"}, or {"values"} if the model has
      several numbers. "pairs": only two texts as a tuple -> as one of these.
      A model that `funcnet finetune` trained on single texts reads no pairs, and one trained on pairs no single texts.
    - "tokens": a list of words, or a text, which is split at white space and signs -> {"tokens", "tags"}, and
      "entities" if the tags are those of entities.
    - "choice": (text, list of texts) -> {"choice", "text", "probabilities"}.
    - "answer": (question, context) -> {"answer", "start", "n_best"}, as in `funcnet predict`.

    `serve(item)` answers one item, `serve.batch(items)` many. Both pad to one of a few shapes, so nothing is compiled
    later, whatever the texts are. Longer texts are cut (the longer of two first) and counted in `serve.truncated`. A
    model that was fine-tuned with `--long-texts parts` reads them whole, and takes no pairs. A context is read in
    windows. A text with `[MASK]` that is too long is refused.

    Args:
        path: a run of `funcnet pretrain` or `finetune`, or a directory of Hugging Face with a vocabulary.
        task: one that the model's head was made for; None: the one it was fine-tuned for, or the usual one of the
            architecture in `config.json`.
        guesses: for each `[MASK]`.
        max_length: tokens of the longest row; None: as it was fine-tuned, else what the position table holds.
        sizes: how many rows a call of the model may have; a batch is filled up to the next one. A single row gives
            single texts their low latency.
        lengths: the padded lengths.
        ahead: compile for all shapes now; False: compile each at its first use.
        dtype: of the weights, such as `jnp.bfloat16`; None: float32.
        progress: `progress(done, of)` after each program that is compiled in advance.

    Raises:
        FileNotFoundError, ValueError: as `from_pretrained` and `text.load_tokenizer`; the file lacks the head; the
            vocabulary does not fit the model's table; an unknown task, or one that the head cannot do; a length out of
            range; `guesses`, `sizes` or `lengths` below 1.

    Example:
        >>> import jax, tempfile
        >>> from funcnet import serving, text
        >>> from funcnet.models import bert
        >>> tokenizer = text.train_wordpiece(["the cat sat on the mat"] * 3, vocab_size=40)
        >>> config = bert.BertConfig.preset("tiny", vocab_size=tokenizer.get_vocab_size())
        >>> model = bert.BertForPreTraining(config)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     bert.save_pretrained(folder, model, *model.init(jax.random.key(0)))
        ...     text.save_tokenizer(tokenizer, folder)
        ...     fill = serving.inference(folder, lengths=[16], max_length=16)
        >>> [len(guesses) for guesses in fill("The [MASK] sat on the [MASK].")]
        [5, 5]

    Reference: transformers.pipeline
    """
    path = Path(path)
    for name, values in (("guesses", [guesses]), ("sizes", sizes), ("lengths", lengths)):
        if min(values, default=1 if name == "lengths" else 0) < 1:
            raise ValueError(f"{WHERE}: {name}; expected numbers from 1 on, got {values}.")
    config = bert.BertConfig.load(path)
    more = {"guesses": guesses}
    head, tokenizer, longest = open_head(path, config, task, WHERE, heads=HEADS, max_length=max_length, more=more)
    net, params, state = bert.from_pretrained(path, bert.ARCHITECTURES[head.architecture], new_heads=False)
    if dtype is not None:
        params = tree.cast(params, dtype)
    run = Bucketed(
        head.forward(net, tokenizer),
        longest=longest,
        pad_id=text.special_ids(tokenizer)["[PAD]"],
        sizes=sorted(sizes),
        lengths=sorted(lengths),
    )
    model = jax.device_put((params, state))
    if ahead:
        run.compile(model, progress)
    return Inference(path, head, TextEncoder(tokenizer, longest), run, model)


def _require_unicode(item: Any, number: int) -> None:
    """Refuses half of a surrogate pair, which no encoding of Unicode holds and the tokenizer cannot take."""
    if isinstance(item, list | tuple):
        for part in item:
            _require_unicode(part, number)
    elif isinstance(item, str) and (found := re.search("[\ud800-\udfff]", item)):
        raise ValueError(
            f"{WHERE}: item {number} is no Unicode text; expected whole characters, got {found[0]!a}, half of a "
            f"surrogate pair, at place {found.start()}. Read it again: errors='replace'."
        )
