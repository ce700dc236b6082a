"""Serving: `inference(directory)` gives one function from texts to answers, jitted, its programs compiled ahead."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

import jax

from funcnet import text, tree
from funcnet.files import read_json
from funcnet.models.bert.buckets import LENGTHS, Bucketed
from funcnet.models.bert.configuration import BertConfig
from funcnet.models.bert.inference_tasks import Answer, Choice, Classify, FillMask, Guess, Served, Tokens
from funcnet.models.bert.pretrained import from_pretrained

__all__ = ["SETTINGS", "Guess", "Inference", "inference", "read_settings", "require_length"]

SETTINGS = "finetuning.json"  # what `funcnet finetune` keeps beside the model: its longest row, how answers are sought

Task = Literal["fill-mask", "classify", "pairs", "regress", "tokens", "choice", "answer"]
_SERVED: dict[str, type[Served]] = {
    "fill-mask": FillMask,
    "classify": Classify,
    "pairs": Classify,
    "regress": Classify,
    "tokens": Tokens,
    "choice": Choice,
    "answer": Answer,
}
# What each can be served as, the usual first.
_ARCHITECTURES: dict[str, tuple[Task, ...]] = {
    "BertForPreTraining": ("fill-mask",),
    "BertForMaskedLM": ("fill-mask",),
    "BertForSequenceClassification": ("classify", "pairs"),  # of one that tells numbers: _NUMBERS
    "BertForTokenClassification": ("tokens",),
    "BertForMultipleChoice": ("choice",),
    "BertForQuestionAnswering": ("answer",),
}
_NUMBERS: tuple[Task, ...] = ("regress", "pairs")


class Inference:
    """A model behind one function. Made by `inference`; safe to call from several threads.

    Attributes:
        path: the model's directory.
        task: as `inference` takes it.
        run: the jitted function with its weights, and the padded shapes it runs in.
        words: the vocabulary's tokens that are whole words.
        truncated: how many texts were cut so far.
        pairs: whether it reads pairs of texts and nothing else, as it was fine-tuned or as the task "pairs" asks;
            None: as the task says, or either.
    """

    def __init__(self, path: Path, task: Task, served: Served, run: Bucketed):
        self.path, self.task, self.run, self.truncated, self.pairs = path, task, run, 0, served.pairs
        self.words = [token for token in text.vocabulary(served.whole) if token.isalpha()]
        self._served, self._lock = served, threading.Lock()

    def __repr__(self) -> str:
        return f"Inference({str(self.path)!r}, {self.task!r}, lengths={self.run.lengths})"

    def __call__(self, item: Any) -> Any:
        """The answer to one item: see `inference`."""
        return self.batch([item])[0]

    def batch(self, items: Iterable[Any]) -> list[Any]:
        """The answers to many, several at a time; each as if it were alone, but for rounding.

        Raises:
            TypeError: one text in place of many; an item is not what the task reads, its number is told.
            ValueError: an item to fill in has no `[MASK]`, or is longer than a row; a text that is no Unicode; the
                item's number is told.
        """
        if isinstance(items, str | bytes):
            raise TypeError(
                f"bert.inference: batch() reads many items; expected a list of them, got {items!r:.60}. Pass one item "
                "to the function itself."
            )
        items = list(items)
        for number, item in enumerate(items):
            _require_unicode(item, number)
        found = [self._served.rows(item, number) for number, item in enumerate(items)]
        if cut := sum(each.cut for each in found):
            with self._lock:
                self.truncated += cut
        rows = [row for each in found for row in each.rows]
        outputs: list[Any] = [None] * len(rows)
        for indices, answered in self.run(rows):
            for place, index in enumerate(indices):
                outputs[index] = jax.tree.map(lambda array, at=place: array[at], answered)
        said, start = [], 0
        for item, each in zip(items, found, strict=True):
            said.append(self._served.said(item, each.rows, outputs[start : start + len(each.rows)]))
            start += len(each.rows)
        return said


def inference(
    path: str | Path,
    task: Task | None = None,
    *,
    guesses: int = 5,
    max_length: int | None = None,
    sizes: Sequence[int] = (1, 8),
    lengths: Sequence[int] = LENGTHS,
    ahead: bool = True,
    dtype: Any = None,
    progress: Callable[[int, int], None] = lambda done, of: None,
) -> Inference:
    """One function that answers, with the model in `path` behind it: weights on the device, programs compiled.

    What it takes, and gives, for each task:

    - "fill-mask": a text with `[MASK]` in it -> for each of them in order a list of `Guess`, the likeliest first.
    - "classify": a text, or two as a tuple -> {"label", "probability", "probabilities"}; of a model with several labels
      {"labels", "probabilities"}. "regress": the same -> {"value"}, of a model with several numbers {"values"}.
      "pairs": two as a tuple, nothing else -> as one of these. What `funcnet finetune` trained on single texts reads no
      pairs, and the other way round.
    - "tokens": a list of words, or a text, split at white space and signs -> {"tokens", "tags"}, and "entities" where
      tags are those of entities.
    - "choice": (text, list of texts) -> {"choice", "text", "probabilities"}.
    - "answer": (question, context) -> {"answer", "start", "n_best"}, as `funcnet predict` tells them.

    `serve(item)` answers one, `serve.batch(items)` many. Both pad to one of a few shapes, so nothing is compiled after
    the start, whatever the texts. Longer texts are cut (of two the longer first) and counted in `serve.truncated`; a
    model that was fine-tuned with `--long-texts parts` reads them whole, and takes no pairs. A context is read in
    windows; a text with `[MASK]` is refused.

    Args:
        path: a run of `funcnet pretrain` or `finetune`, or a directory of Hugging Face with a vocabulary.
        task: one that the head was made for; None: the usual one of the architecture in `config.json`.
        guesses: for each `[MASK]`.
        max_length: tokens of the longest row; None: as it was fine-tuned, else what the position table holds.
        sizes: how many rows a call of the model has: filled up to the next. One row is for the latency of single texts.
        lengths: the padded lengths.
        ahead: compile for all shapes now; else each at its first use.
        dtype: of the weights, such as `jnp.bfloat16`; None: float32.
        progress: `progress(done, of)` after each program compiled ahead.

    Raises:
        FileNotFoundError, ValueError: as `from_pretrained` and `text.load_tokenizer`; a head that the file lacks; a
            vocabulary that does not fit the model's table; a task that is not there, or that the head cannot do; a
            length that is not there; `guesses`, `sizes` or `lengths` below 1.

    Example:
        >>> import jax, tempfile
        >>> from funcnet import text
        >>> from funcnet.models import bert
        >>> tokenizer = text.train_wordpiece(["the cat sat on the mat"] * 3, vocab_size=40)
        >>> config = bert.BertConfig.preset("tiny", vocab_size=tokenizer.get_vocab_size())
        >>> model = bert.BertForPreTraining(config)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     bert.save_pretrained(folder, model, *model.init(jax.random.key(0)))
        ...     text.save_tokenizer(tokenizer, folder)
        ...     fill = bert.inference(folder, lengths=[16], max_length=16)
        >>> [len(guesses) for guesses in fill("The [MASK] sat on the [MASK].")]
        [5, 5]

    Reference: transformers.pipeline
    """
    path = Path(path)
    for name, values in (("guesses", [guesses]), ("sizes", sizes), ("lengths", lengths)):
        if min(values, default=1 if name == "lengths" else 0) < 1:
            raise ValueError(f"bert.inference: {name}; expected numbers from 1 on, got {values}. Raise them.")
    config = BertConfig.load(path)
    told = read_settings(path)
    chosen = _task(path, config, task)
    tokenizer = text.load_tokenizer(path)
    text.require_fit(tokenizer, config.vocab_size, where=f"bert.inference: {path}")
    longest = int(told.get("seq_len", config.max_position_embeddings)) if max_length is None else max_length
    require_length(longest, config.max_position_embeddings, "bert.inference: max_length", path)
    served = _SERVED[chosen](tokenizer, config, longest, {**told, "guesses": guesses})
    if chosen == "pairs":
        if served.pairs is False:
            usual = "regress" if config.tells_numbers else "classify"
            raise ValueError(
                f"bert.inference: {path} was fine-tuned on single texts; expected {usual!r}, got 'pairs'. Leave task "
                "out."
            )
        if served.pairs is None:
            served.pairs, served.takes = True, "a tuple of two texts"
    model, params, state = from_pretrained(path, served.model, new_heads=False)
    if dtype is not None:
        params = tree.cast(params, dtype)
    run = Bucketed(
        served.forward(model),
        params,
        state,
        longest=longest,
        pad_id=text.special_ids(tokenizer)["[PAD]"],
        sizes=sorted(sizes),
        lengths=sorted(lengths),
    )
    if ahead:
        run.compile(progress)
    return Inference(path, chosen, served, run)


def _require_unicode(item: Any, number: int) -> None:
    """Refuses half of a surrogate pair, which no encoding of Unicode holds and the tokenizer cannot take."""
    if isinstance(item, list | tuple):
        for part in item:
            _require_unicode(part, number)
    elif isinstance(item, str) and (found := re.search("[\ud800-\udfff]", item)):
        raise ValueError(
            f"bert.inference: item {number} is no Unicode text; expected whole characters, got {found[0]!a}, half of a "
            f"surrogate pair, at place {found.start()}. Read it again: errors='replace'."
        )


def require_length(length: int, positions: int, where: str, directory: str | Path) -> None:
    """Refuses rows of fewer than 8 tokens, and those longer than the position table.

    Args:
        length: tokens of the longest row.
        positions: rows of the position table.
        where: which setting it is, for the message.
        directory: of the model, for the message.

    Raises:
        ValueError: `length` is not 8 to `positions`.

    Example:
        >>> require_length(128, 512, "--seq-len", "model")
    """
    if not 8 <= length <= positions:
        raise ValueError(
            f"{where}; expected 8 to {positions}, the size of {directory}'s position table, got {length}. Choose a "
            "length in between."
        )


def read_settings(directory: Path) -> dict[str, Any]:
    """What `funcnet finetune` kept beside the model; empty where the directory is from elsewhere.

    Raises:
        ValueError: the file is there, and not as it was written.
    """
    file, counts = directory / SETTINGS, ("seq_len", "doc_stride", "n_best", "max_answer")
    told = read_json(file) if file.exists() else {}
    if not isinstance(told, dict):
        raise ValueError(
            f"bert.inference: {file}; expected a JSON object, got something else. Mend it, or remove it: then its "
            "settings are the usual ones."
        )
    for name in counts:
        if type(value := told.get(name, 1)) is not int or value < 1:
            raise ValueError(
                f"bert.inference: {file}: {name}; expected a whole number from 1 on, got {value!r}. Mend it."
            )
    if (value := told.get("long_texts", "cut")) not in ("cut", "parts"):
        raise ValueError(f"bert.inference: {file}: long_texts; expected 'cut' or 'parts', got {value!r}. Mend it.")
    if not isinstance(value := told.get("pairs"), bool | None):
        raise ValueError(f"bert.inference: {file}: pairs; expected true, false or null, got {value!r}. Mend it.")
    if type(value := told.get("null_threshold", 0.0)) not in (int, float):
        raise ValueError(f"bert.inference: {file}: null_threshold; expected a number, got {value!r}. Mend it.")
    return told


def _task(path: Path, config: BertConfig, task: Task | None) -> Task:
    """The task asked for, else the usual one of the architecture; refuses what its head was not made for."""
    if task is not None and task not in _SERVED:
        raise ValueError(
            f"bert.inference: task is not known; expected one of {', '.join(_SERVED)}, got {task!r}. Choose one."
        )
    name, *_ = (read_json(path / "config.json") or {}).get("architectures") or ["none"]
    fits = _ARCHITECTURES.get(name, ())
    if "classify" in fits and config.tells_numbers:
        fits = _NUMBERS
    if task is None and not fits:
        raise ValueError(
            f"bert.inference: {path}: the architecture tells no task; expected one of {', '.join(_ARCHITECTURES)}, got "
            f"{name}. Name the task."
        )
    if task is not None and fits and task not in fits:
        raise ValueError(
            f"bert.inference: {path}: its head was not made for this task; expected {' or '.join(map(repr, fits))}, of "
            f"a {name} with problem_type {config.problem_type!r} and {config.num_labels} labels, got {task!r}. Leave "
            "task out, or take another model."
        )
    return task or fits[0]
