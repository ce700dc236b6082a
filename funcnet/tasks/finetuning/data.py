"""Reads, splits and encodes the files of a fine-tuning run."""

import dataclasses
from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer

from funcnet import text
from funcnet.data import bucket_lengths, permute
from funcnet.files import bytes_digest
from funcnet.heads import TrainedHead, check_length, require_types, trained_head
from funcnet.heads.reading.glue import glue_task
from funcnet.models import bert
from funcnet.settings import flat
from funcnet.tasks.finetuning.rows import Rows, encode_rows
from funcnet.tasks.finetuning.settings import FinetuningSettings

__all__ = ["EncodedExamples", "FinetuningData", "make_head", "read_data", "split"]


@dataclasses.dataclass(frozen=True)
class EncodedExamples:
    """Examples and their rows."""

    examples: Sequence[Any]
    rows: Rows


@dataclasses.dataclass(frozen=True)
class FinetuningData:
    """The data of a run. `lengths` are the lengths to which rows are padded in training, validation and test."""

    head: TrainedHead
    tokenizer: Tokenizer
    train: EncodedExamples
    validation: EncodedExamples | None
    test: EncodedExamples | None
    lengths: list[int]

    def fingerprint(self) -> dict[str, str]:
        """Return SHA-256 digests of the rows and labels, so that a resumed run can check that they have not changed."""
        sets = {"training": self.train, "validation": self.validation, "test": self.test}
        return {f"digest of the {name} examples": _digest(one.rows) for name, one in sets.items() if one is not None}

    def sources(self, settings: FinetuningSettings) -> dict[str, str]:
        """Return {name of a digest in `fingerprint`: the file that it describes}."""
        train, validation = _files(settings)
        files = {"training": train, "validation": validation or train, "test": settings.examples.test}
        return {f"digest of the {name} examples": str(file) for name, file in files.items()}


def read_data(settings: FinetuningSettings) -> FinetuningData:
    """Read and encode the files of a fine-tuning run, learn the classes, hold out the validation examples, and print
    the sizes of all sets.

    Raises:
        FileNotFoundError: if a file or the model's directory is missing.
        ValueError: if a file is invalid (the message has its line and column), if a setting does not fit the files, or
            if the split leaves only one class for training.
    """
    model = bert.BertConfig.load(settings.model)
    tokenizer = text.load_tokenizer(settings.model)
    text.require_fit(tokenizer, model.vocab_size, where=f"finetune: {settings.model}")
    check_length(settings.input.seq_len, model.max_position_embeddings, "finetune: --seq-len", settings.model)
    train_file, validation_file = _files(settings)
    _require_measure(settings, is_validated=bool(validation_file or settings.examples.split))
    head = make_head(settings)
    examples: Sequence[Any] = head.read(train_file, labelled=True)
    head = head.learn(examples)
    require_types(head, model, f"finetune: {settings.model}")
    metric, share = settings.evaluation.metric, settings.examples.split
    if metric not in (None, "loss", *head.figures):
        raise ValueError(
            f"finetune: --metric: unknown metric; expected one of loss, {', '.join(head.figures)}, got {metric!r}."
        )
    held_out: Sequence[Any] | None = None
    if validation_file is not None:
        held_out = head.read(validation_file, labelled=True)
    elif share:
        examples, held_out = split(examples, share, seed=settings.run.seed)
        _require_classes(head, examples, settings)
    tested = head.read(settings.examples.test, labelled=True) if settings.examples.test is not None else None
    sets = {"training": examples, "validation": held_out, "test": tested}
    encoded = {
        name: EncodedExamples(one, encode_rows(head, one, tokenizer, settings.input.seq_len, labelled=True))
        for name, one in sets.items()
        if one is not None
    }
    for name, one in encoded.items():
        columns = head.describe_columns(train_file) if name == "training" else ""
        print(_describe(head, name, one, settings.input.seq_len, columns))
    if classes := head.describe_labels(examples):
        print(classes)
    lengths = np.concatenate([one.rows.lengths for one in encoded.values()])
    buckets = bucket_lengths(lengths, settings.input.seq_len, settings.input.buckets)
    return FinetuningData(head, tokenizer, encoded["training"], encoded.get("validation"), encoded.get("test"), buckets)


def make_head(settings: FinetuningSettings) -> TrainedHead:
    """Return the head that the settings choose. The head does not know the classes yet, because `learn` was not
    called.
    """
    return trained_head(settings.task).from_settings(settings.task, flat(settings))


def split(examples: Sequence[Any], share: float, *, seed: int) -> tuple[list[Any], list[Any]]:
    """Split examples into training examples and about `share` of held-out examples.

    Examples with the same text stay together.

    Raises:
        ValueError: if there are fewer than two different texts.
    """
    groups: dict[Hashable, list[int]] = {}
    for number, example in enumerate(examples):
        groups.setdefault(example.group, []).append(number)
    if len(groups) < 2:
        raise ValueError(
            "finetune: too few different texts to hold out some for validation; expected at least two, got "
            f"{len(groups)}. Add texts, pass a --validation file, or use --split 0."
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


def _files(settings: FinetuningSettings) -> tuple[Path, Path | None]:
    """Return the training and validation files. For a GLUE folder, these are train.tsv and the dev file."""
    if not settings.train.is_dir():
        return settings.train, settings.examples.validation
    glue = glue_task(settings.train)
    if glue is None or not (settings.train / "train.tsv").is_file():
        raise ValueError(
            f"finetune: --train {settings.train} is not a GLUE folder; expected a file, or a folder that is named "
            "after a GLUE task and contains train.tsv, got another folder. Pass the training file itself."
        )
    return settings.train / "train.tsv", settings.examples.validation or settings.train / glue.dev


def _require_measure(settings: FinetuningSettings, *, is_validated: bool) -> None:
    """Raise ValueError if a setting needs validation or test examples, but the run has none."""
    patience, seeds = settings.evaluation.patience, settings.evaluation.seeds
    if not is_validated and patience:
        raise ValueError(
            f"finetune: --patience {patience} needs validation examples; expected some, got none. Pass a --validation "
            "file, or set --split above 0."
        )
    if not is_validated and settings.examples.test is None and seeds > 1:
        raise ValueError(
            f"finetune: --seeds {seeds} needs validation or test examples; expected some, got none. Pass a "
            "--validation or --test file, or set --split above 0."
        )


def _require_classes(head: TrainedHead, examples: Sequence[Any], settings: FinetuningSettings) -> None:
    """Raise ValueError if only one class is left in the training examples after the validation examples were held
    out.
    """
    left = {name for example in examples for name in head.label_names(example)} if head.labels else set()
    if head.labels and len(left) < 2:
        raise ValueError(
            f"finetune: --split {settings.examples.split} leaves too few classes to train on; expected at least two of "
            f"{len(head.labels)}, got {', '.join(map(repr, left)) or 'none'} in all {len(examples)} training examples. "
            "Add examples of the other classes, try another --seed, or pass a --validation file."
        )


def _describe(head: TrainedHead, name: str, one: EncodedExamples, seq_len: int, columns: str) -> str:
    rows = f" in {len(one.rows):,} {head.row_noun}" if head.row_noun else ""
    notes = [f"{len(one.examples):,} {name} examples{rows}, {len(one.rows.tokens):,} tokens"]
    notes += filter(None, [columns, head.describe_cut(one.rows.truncated, seq_len), _describe_empty(one.examples)])
    return f"{'; '.join(notes)}."


def _describe_empty(examples: Sequence[Any]) -> str:
    """Return a note for the user on the number of empty texts, or an empty string if no text is empty.

    >>> from funcnet.heads.reading.examples import TextExample
    >>> _describe_empty([TextExample(" ", None, "good", "a.csv, line 2"), TextExample("fine", None, "bad", "line 3")])
    '1 without words, the first at a.csv, line 2'
    """
    found = [one.where for one in examples if one.is_empty]
    return f"{len(found):,} without words, the first at {found[0]}" if found else ""


def _digest(rows: Rows) -> str:
    arrays = (rows.tokens, rows.types, rows.starts, rows.labels)
    return bytes_digest(b"".join(array.tobytes() for array in arrays if array is not None))
