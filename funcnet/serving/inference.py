"""`inference(directory)` returns a function that is compiled in advance and maps texts to answers."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import jax
from jax.typing import DTypeLike

from funcnet import text, tree
from funcnet.heads import HEADS, Head, TextEncoder, open_head
from funcnet.heads.buckets import LENGTHS, Bucketed
from funcnet.heads.encoding import Encoded
from funcnet.models import bert
from funcnet.models.integers import open_bert
from funcnet.quantization import refuse_int8

__all__ = ["Inference", "inference"]

WHERE = "serving.inference"


class Inference:
    """A function, made by `inference`, that runs a model. Several threads may call it at the same time.

    Attributes:
        path: directory of the model.
        head: head that converts items to rows, and the outputs of the model to answers.
        task: name of the task.
        run: compiled model, which pads rows to a few fixed shapes.
        model: (params, state), on the device.
        words: tokens of the vocabulary that are complete words.
        truncated: number of items so far that were cut to the length of a row.
        pairs: True if the function takes only pairs of texts, False if it takes only single texts, and None if it
            takes both or another kind of item.
    """

    def __init__(self, path: Path, head: Head, encoder: TextEncoder, run: Bucketed, model: tuple[Any, Any]):
        self.path, self.head, self.run, self.model, self.truncated = path, head, run, model, 0
        self.task, self.pairs = head.name, head.reads_pairs
        self.words = [token for token in text.vocabulary(encoder.tokenizer) if token.isalpha()]
        self._encoder, self._lock = encoder, threading.Lock()

    def __repr__(self) -> str:
        return f"Inference({str(self.path)!r}, {self.task!r}, lengths={self.run.lengths})"

    def __call__(self, item: object) -> Any:
        """Return the answer for one item. `inference` lists the items and answers of each task."""
        return self.batch([item])[0]

    def batch(self, items: Iterable[Any]) -> list[Any]:
        """Return the answers for many items, several of which run in one batch.

        Except for rounding, the answers do not depend on which items run together.

        Raises:
            TypeError: if `items` is a single text, or an item has the wrong type for the task.
            ValueError: if a text for "fill-mask" has no `[MASK]` or is longer than a row, or if a text is not valid
                Unicode.
        """
        if isinstance(items, str | bytes):
            raise TypeError(
                f"{WHERE}: batch() takes a list of items; expected a list, got {items!r:.60}. Call the function "
                "itself for one item."
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
        """Encode the head's examples as rows for the model."""
        return [*self.head.encode(examples, self._encoder)]

    def _example(self, item: object, number: int) -> Any:
        _require_unicode(item, number)
        example = self.head.example(item, f"item {number}")
        if example is None:
            raise TypeError(
                f"{WHERE}: item {number} has the wrong type; expected {self.head.takes}, got {item!r:.60}. Pass one "
                "item to the function, or a list of items to its batch()."
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
    dtype: DTypeLike | None = None,
    progress: Callable[[int, int], None] = lambda done, of: None,
) -> Inference:
    """Return a function that runs the model in a directory, with its weights on the device and its programs compiled.

    The tasks have these items and answers:

    - "fill-mask": a text with `[MASK]` -> for each `[MASK]`, in order, a list of `Guess`, the most likely first.
    - "classify": a text, or a tuple of two texts -> {"label", "probability", "probabilities"}. "labels": a text, or a
      tuple of two texts -> {"labels", "probabilities"}. "regress": a text, or a tuple of two texts -> {"value"}, or
      {"values"} if the model has several outputs. "pairs": takes only a tuple of two texts, and returns the answer for
      one of these three tasks. A model that `funcnet finetune` trained on single texts does not take pairs, and vice
      versa.
    - "tokens": a list of words, or a text, which is split at spaces and punctuation -> {"tokens", "tags"}, and also
      "entities" if the tags mark entities.
    - "choice": (text, list of texts) -> {"choice", "text", "probabilities"}.
    - "answer": (question, context) -> {"answer", "start", "n_best"}, as in `funcnet predict`.

    If `serve` is the returned function, `serve(item)` answers one item, and `serve.batch(items)` answers many. Both
    calls pad their inputs to one of a few shapes, so that no later text causes a compilation. Texts that are longer
    than a row are cut, starting with the longer text of a pair, and are counted in `serve.truncated`. There are three
    exceptions. A model that was fine-tuned with `--long-texts parts` reads all parts of a long text, and does not
    accept pairs. The context of a question is read in windows if it is too long for one row. A text with `[MASK]` that
    is longer than a row causes an error.

    Args:
        path: output directory of `funcnet pretrain`, `finetune` or `quantize`, or a Hugging Face directory with a
            vocabulary.
        task: a task that the model's head was trained for. The default is the task that the model was fine-tuned for
            or, if there is none, the usual task of the architecture in `config.json`.
        guesses: number of guesses per `[MASK]`.
        max_length: largest number of tokens per row. The default is the row length with which the model was fine-tuned,
            or the size of the model's position table if it was not fine-tuned.
        sizes: allowed batch sizes, in rows. A batch is padded to the next larger size. With the size 1, a single text
            is answered with a low latency.
        lengths: allowed padded lengths, in tokens.
        ahead: if True, compile the programs for all shapes before the function is returned. If False, compile each
            program at its first use.
        dtype: dtype of the weights, such as `jnp.bfloat16`. The default is float32.
        progress: function that is called as `progress(done, of)` after each program that is compiled in advance.

    Raises:
        FileNotFoundError, ValueError: if `from_pretrained` or `text.load_tokenizer` cannot read the directory.
        ValueError: if the file of weights lacks the head, if the vocabulary has more entries than the embedding table,
            if the task is unknown or does not fit the head, if a length is out of range, if `guesses`, `sizes` or
            `lengths` has a number below 1, or if `dtype` is given for an int8 model.

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
            raise ValueError(f"{WHERE}: {name} is out of range; expected numbers >= 1, got {values}.")
    config = bert.BertConfig.load(path)
    more = {"guesses": guesses}
    head, tokenizer, longest = open_head(path, config, task, WHERE, heads=HEADS, max_length=max_length, more=more)
    net, params, state = open_bert(path, head.architecture, WHERE)
    if dtype is not None:
        refuse_int8(path, f"{WHERE}: dtype")
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


def _require_unicode(item: object, number: int) -> None:
    """Raise a ValueError if a text of the item contains half of a surrogate pair, which the tokenizer cannot read."""
    if isinstance(item, list | tuple):
        for part in item:
            _require_unicode(part, number)
    elif isinstance(item, str) and (found := re.search("[\ud800-\udfff]", item)):
        raise ValueError(
            f"{WHERE}: item {number} is not valid Unicode; expected complete characters, got {found[0]!a}, half of a "
            f"surrogate pair, at index {found.start()}. Decode the text with errors='replace'."
        )
