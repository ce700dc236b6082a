"""What a fine-tuning run learns from: its files, read, split and encoded."""

import dataclasses
import hashlib
from collections import Counter
from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer

from funcnet import text
from funcnet.data import permute
from funcnet.models import bert
from funcnet.tasks.finetuning.answer_task import AnswerTask
from funcnet.tasks.finetuning.batches import bucket_lengths
from funcnet.tasks.finetuning.choice_task import ChoiceTask
from funcnet.tasks.finetuning.configuration import FinetuningConfig
from funcnet.tasks.finetuning.encoding import Encoded, check_fit, describe_cut
from funcnet.tasks.finetuning.examples import Columns, TextExample, TokenExample
from funcnet.tasks.finetuning.glue import glue_task
from funcnet.tasks.finetuning.squad import Question
from funcnet.tasks.finetuning.task import Task
from funcnet.tasks.finetuning.text_task import TextTask
from funcnet.tasks.finetuning.token_task import TokenTask

__all__ = ["Part", "Prepared", "make_task", "prepare", "split"]

MEASURED_BY = {"classify": "accuracy", "pairs": "accuracy", "regress": "pearson"}


@dataclasses.dataclass(frozen=True)
class Part:
    """Examples and their rows."""

    examples: Sequence[Any]
    rows: Encoded


@dataclasses.dataclass(frozen=True)
class Prepared:
    """All that a run reads. `lengths`: what rows are padded to, the same for all parts."""

    task: Task
    tokenizer: Tokenizer
    train: Part
    validation: Part | None
    test: Part | None
    lengths: list[int]

    def fingerprint(self) -> dict[str, str]:
        """SHA-256 of the rows and labels, for a resumed run to compare."""
        parts = {"training": self.train, "validation": self.validation, "test": self.test}
        return {
            f"digest of the {name} examples": _digest(part.rows) for name, part in parts.items() if part is not None
        }

    def sources(self, config: FinetuningConfig) -> dict[str, str]:
        """The file that each digest is of."""
        train, validation = _files(config)
        files = {"training": train, "validation": validation or train, "test": config.test}
        return {f"digest of the {name} examples": str(file) for name, file in files.items()}


def prepare(config: FinetuningConfig) -> Prepared:
    """Reads the files, learns the classes, holds out the validation examples, and encodes all.

    Says how many examples there are, and how many were cut.

    Raises:
        FileNotFoundError: a file or the model's directory is not there.
        ValueError: something in a file is wrong; names file, line and column. A setting that does not go with them, or
            a split that leaves one class.
    """
    model = bert.BertConfig.load(config.model)
    tokenizer = text.load_tokenizer(config.model)
    check_fit(tokenizer, model.vocab_size, model.max_position_embeddings, config.seq_len, str(config.model))
    task = make_task(config)
    train_file, validation_file = _files(config)
    _require_measure(config, is_validated=bool(validation_file or config.split))
    examples: Sequence[Any] = task.read(train_file, labelled=True)
    task = task.learn(examples)
    if config.metric not in (None, "loss", *task.figures):
        raise ValueError(
            f"finetune: --metric; expected one of loss, {', '.join(task.figures)}, got {config.metric!r}. Name one of "
            "them."
        )
    held_out: Sequence[Any] | None = None
    if validation_file is not None:
        held_out = task.read(validation_file, labelled=True)
    elif config.split:
        examples, held_out = split(examples, config.split, seed=config.seed)
        _require_classes(task.labels, examples, config)
    tested = task.read(config.test, labelled=True) if config.test is not None else None
    parts = {"training": examples, "validation": held_out, "test": tested}
    encoded = {
        name: Part(part, task.encode(part, tokenizer, config.seq_len, labelled=True))
        for name, part in parts.items()
        if part is not None
    }
    for name, part in encoded.items():
        pairs = task.describe_pairs(train_file) if name == "training" and isinstance(task, TextTask) else ""
        print(_told(name, part, config.seq_len, pairs))
    if isinstance(task, TextTask) and task.labels:
        print(_count_classes(task.labels, examples))
    lengths = np.concatenate([part.rows.lengths for part in encoded.values()])
    buckets = bucket_lengths(lengths, config.seq_len, config.buckets)
    return Prepared(task, tokenizer, encoded["training"], encoded.get("validation"), encoded.get("test"), buckets)


def make_task(config: FinetuningConfig) -> Task:
    """The task that the settings describe, before it has seen any example."""
    columns = Columns(config.text_column, config.second_column, config.label_column, config.label_separator)
    if config.task == "tokens":
        return TokenTask(columns)
    if config.task == "choice":
        return ChoiceTask(columns)
    if config.task == "answer":
        told = ("doc_stride", "n_best", "max_answer", "null_threshold")
        return AnswerTask(**{name: getattr(config, name) for name in told})
    glue, is_number = glue_task(config.train), config.task == "regress"
    metric = glue.metric if glue and glue.is_number is is_number else MEASURED_BY[config.task]
    return TextTask(config.task, columns, long_texts=config.long_texts, metric=metric)


def split(examples: Sequence[Any], share: float, *, seed: int) -> tuple[list[Any], list[Any]]:
    """(to train on, held out): about `share` of the examples, whole groups of those that share their text.

    Raises:
        ValueError: there are fewer than two different texts.
    """
    groups: dict[Hashable, list[int]] = {}
    for number, example in enumerate(examples):
        groups.setdefault(_group(example), []).append(number)
    if len(groups) < 2:
        raise ValueError(
            "finetune: too few different texts to train on; expected at least two, one of them to hold out, got "
            f"{len(groups)}. Give more, or name a --validation file, or use --split 0."
        )
    order = permute(range(len(groups)), len(groups), seed=seed, epoch=0)
    members, wanted = list(groups.values()), max(1, round(share * len(examples)))
    chosen: set[int] = set()
    for number in order[:-1]:
        if len(chosen) >= wanted:
            break
        chosen.update(members[number])
    return (
        [example for number, example in enumerate(examples) if number not in chosen],
        [example for number, example in enumerate(examples) if number in chosen],
    )


def _group(example: Any) -> Hashable:
    if isinstance(example, Question):
        return example.context
    values = [getattr(example, name, None) for name in ("text", "second", "words", "choices")]
    return tuple(tuple(value) if isinstance(value, list) else value for value in values)


def _files(config: FinetuningConfig) -> tuple[Path, Path | None]:
    """A GLUE folder means its train.tsv and its dev file."""
    if not config.train.is_dir():
        return config.train, config.validation
    glue = glue_task(config.train)
    if glue is None or not (config.train / "train.tsv").is_file():
        raise ValueError(
            f"finetune: --train {config.train}; expected a file, or a folder of GLUE's with its name and a train.tsv, "
            "got another folder. Name the file in it."
        )
    return config.train / "train.tsv", config.validation or config.train / glue.dev


def _require_measure(config: FinetuningConfig, *, is_validated: bool) -> None:
    """Refuses what would silently do nothing."""
    if not is_validated and config.patience:
        raise ValueError(
            f"finetune: --patience {config.patience}; expected examples to measure on, got none. Name a --validation "
            "file, or give a --split above 0."
        )
    if not is_validated and config.test is None and config.seeds > 1:
        raise ValueError(
            f"finetune: --seeds {config.seeds}; expected examples to measure them on, got none. Name a --validation or "
            "--test file, or give a --split above 0."
        )


def _require_classes(labels: Sequence[str], examples: Sequence[Any], config: FinetuningConfig) -> None:
    """Refuses training examples of one class, where the split took the others."""
    given = [e.tags if isinstance(e, TokenExample) else e.label for e in examples] if labels else []
    left = {name for one in given for name in ([one] if isinstance(one, str) else one or [])}
    if labels and len(left) < 2:
        raise ValueError(
            f"finetune: --split {config.split} leaves one class to train on; expected at least two of {len(labels)}, "
            f"got {', '.join(map(repr, left)) or 'none'} in all {len(examples)} training examples. Add examples of the "
            "others, try another --seed, or name a --validation file."
        )


def _told(name: str, part: Part, seq_len: int, pairs: str) -> str:
    told = {"windows": part.rows.windows, "parts": part.rows.owners}
    rows = "".join(f" in {len(part.rows):,} {name}" for name, given in told.items() if given is not None)
    notes = [f"{len(part.examples):,} {name} examples{rows}, {len(part.rows.tokens):,} tokens"]
    notes += filter(None, [pairs, describe_cut(part.rows, seq_len), _describe_empty(part.examples)])
    return f"{'; '.join(notes)}."


def _describe_empty(examples: Sequence[Any]) -> str:
    """What a person should know of texts without a word; empty where there are none.

    >>> _describe_empty([TextExample(" ", None, "good", "a.csv, line 2"), TextExample("fine", None, "bad", "line 3")])
    '1 without a word, the first at a.csv, line 2'
    """
    texts = [one for one in examples if isinstance(one, TextExample)]
    found = [one.where for one in texts if not (one.text + (one.second or "")).strip()]
    return f"{len(found):,} without a word, the first at {found[0]}" if found else ""


def _count_classes(labels: Sequence[str], examples: Sequence[TextExample]) -> str:
    """How many examples each class has, of many classes the most frequent: a label misspelt is seen before the run.

    >>> _count_classes(("Good", "bad", "good"), [TextExample("fine", None, "good", "a.csv, line 2")])
    '3 classes in the training examples: good 1, Good 0, bad 0.'
    """
    counts = Counter(dict.fromkeys(labels, 0))
    for example in examples:
        counts.update(example.label if isinstance(example.label, tuple) else [example.label])
    told = ", ".join(f"{label:.40} {count:,}" for label, count in counts.most_common(10))
    return f"{len(counts):,} classes in the training examples: {told}{', …' if len(counts) > 10 else ''}."


def _digest(rows: Encoded) -> str:
    sha = hashlib.sha256()
    for array in (rows.tokens, rows.types, rows.starts, rows.labels):
        sha.update(b"" if array is None else np.ascontiguousarray(array).tobytes())
    return sha.hexdigest()
