"""Google's `tf_examples.tfrecord` -> a data directory, the masks as they are.

What was hidden is put back, so a row is again two stretches of one array of tokens, as in data built from text; the
places that its file hides, and what it shows there, stand beside it. Of which documents the rows are is not known: so
what is held out comes in files of its own, and rows cannot be packed.

N examples, T tokens, M slots.
"""

from __future__ import annotations

import itertools
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from funcnet.data import read_examples
from funcnet.tasks.pretraining_data.export import NAMES
from funcnet.tasks.pretraining_data.manifest import (
    EXAMPLES,
    FORMAT,
    Directory,
    plan_digest,
    write_manifest,
)
from funcnet.tasks.pretraining_data.report import write_report
from funcnet.tasks.pretraining_data.shard import Columns, write_shard
from funcnet.tasks.pretraining_data.sources import describe_source
from funcnet.tasks.pretraining_data.work import describe_file
from funcnet.text import load_tokenizer, save_tokenizer, special_ids, vocabulary_digest

Row = tuple[Path, int, dict[str, NDArray[Any]]]  # an example, its file, and its number in there
SHARD = 4_000_000  # tokens, padding included: what is in memory at once

__all__ = ["import_examples"]


def import_examples(
    files: Sequence[str | Path],
    folder: str | Path,
    *,
    vocab: str | Path,
    held_out: Sequence[str | Path] = (),
    cased: bool = False,
) -> int:
    """Makes a data directory from Google's examples; returns how many there are to train on.

    Args:
        files: of `create_pretraining_data.py` or `export_examples`.
        folder: a new or empty one; it is there whole or not at all.
        vocab: the vocabulary that they were made with.
        held_out: files of examples to evaluate on; none: no evaluation.
        cased: see `load_tokenizer`.

    Raises:
        OSError: a file is not there; the folder cannot be written.
        ValueError: the folder holds something; a file is empty, damaged, of rows that differ in length, or was made
            with another vocabulary; the message has the file and the record's number.
    """
    if not files:
        raise ValueError("data import: no files; expected at least one of examples, got none. Name it.")
    folder = Path(folder).absolute()
    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError(f"data import: --out {folder}; expected a folder, got a file. Name another --out.")
    if folder.exists() and any(folder.iterdir()):
        raise ValueError(
            f"data import: {folder} holds other files; expected a new or empty folder, got "
            f"{min(path.name for path in folder.iterdir())} there. Name another --out."
        )
    tokenizer = load_tokenizer(vocab, lower_case=False if cased else None)
    part = folder.with_name(f".{folder.name}.part")
    shutil.rmtree(part, ignore_errors=True)  # of an import that was killed
    part.mkdir(parents=True)
    try:
        number = _write(part, tokenizer, [Path(file) for file in files], [Path(file) for file in held_out])
        os.replace(part, folder)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return number


def _write(folder: Path, tokenizer: Tokenizer, training: Sequence[Path], held_out: Sequence[Path]) -> int:
    """Everything that lies in a data directory; returns how many examples there are to train on."""
    seq_len, slots = _sizes(training)
    settings = {
        "seq_len": [seq_len],
        "passes": 1,
        "max_predictions": slots,
        "held_out": len(held_out),
        "static_masks": True,
        "whole_words": False,
        "seed": 0,
        "vocab": vocabulary_digest(tokenizer),
    }
    sources = [describe_source(path) for path in (*training, *held_out)]
    told: dict[str, Any] = {
        "format": FORMAT,
        "plan": plan_digest(settings, sources, EXAMPLES),
        "settings": settings,
        "sources": sources,
        "layout": EXAMPLES,
        "vocabulary": settings["vocab"],
        "shards": 0,
    }
    files, made_from = Directory(folder), {"plan": told["plan"], "vocabulary": told["vocabulary"]}
    save_tokenizer(tokenizer, folder, max_length=seq_len)
    examples = tokens_before = 0
    for rows in _batched(_rows(training, seq_len, slots), max(SHARD // seq_len, 1)):
        tokens, pairs = _columns(rows, tokenizer, tokens_before)
        write_shard(files.tokens(told["shards"]), {"token": tokens}, made_from)
        write_shard(files.pairs(seq_len, 0, told["shards"]), pairs, made_from)
        told["shards"] += 1
        examples, tokens_before = examples + len(rows), tokens_before + len(tokens)
    if held_out:
        tokens, pairs = _columns(list(_rows(held_out, seq_len, slots)), tokenizer, 0)
        write_shard(files.held_out_tokens, {"token": tokens}, made_from)
        write_shard(files.held_out_pairs(seq_len), pairs, made_from)
    facts = {"files": len(sources), "bytes": sum(source["bytes"] for source in sources), "layout": EXAMPLES}
    write_report(folder, told, facts, made_from)
    told["files"] = {path.name: describe_file(path) for path in files.files(told)}
    write_manifest(folder, told)
    return examples


def _sizes(files: Sequence[Path]) -> tuple[int, int]:
    """(T, M) of the first example."""
    first = next(_rows(files, None, None))[2]
    return len(first["input_ids"]), len(first["masked_lm_positions"])


def _rows(files: Sequence[Path], seq_len: int | None, slots: int | None) -> Iterator[Row]:
    """The examples of all files, each with its file and number; each is checked to have all features, of one length."""
    for path in files:
        number = 0
        for number, row in enumerate(read_examples(path), 1):
            missing = [name for name in NAMES.values() if name not in row]
            if missing:
                raise ValueError(
                    f"data import: {path}, record {number} lacks {', '.join(missing)}; expected Google's features "
                    f"{', '.join(NAMES.values())}, got {', '.join(sorted(row)) or 'none'}. Make the file with "
                    "create_pretraining_data.py."
                )
            width, places = seq_len or len(row["input_ids"]), slots or len(row["masked_lm_positions"])
            wanted = {name: 1 if "next" in name else places if "lm" in name else width for name in NAMES.values()}
            found = {name: len(row[name]) for name in wanted}
            if found != wanted:
                raise ValueError(
                    f"data import: {path}, record {number} differs in length from the first; expected {wanted}, got "
                    f"{found}. Import files of one length at a time."
                )
            yield path, number, row
        if not number:
            raise ValueError(f"data import: {path} is empty; expected examples, got none. Leave it out.")


def _batched(rows: Iterator[Row], size: int) -> Iterator[list[Row]]:
    while held := list(itertools.islice(rows, size)):
        yield held


def _columns(rows: Sequence[Row], tokenizer: Tokenizer, tokens_before: int) -> tuple[NDArray[Any], Columns]:
    """(the words of N examples one after the other, their pairs): see `build_pairs` and `PretrainingDataset`."""
    names = NAMES.items()
    batch = {ours: np.stack([row[theirs] for _, _, row in rows]).astype(np.int32) for ours, theirs in names}
    real, second = batch["attention_mask"] == 1, batch["token_type_ids"] == 1
    taken = batch["masked_weights"] == 1
    length, b_length = real.sum(1), (real & second).sum(1) - 1
    a_length = length - b_length - 3
    place = np.arange(real.shape[1])
    seps = np.stack([a_length + 1, length - 1], 1)  # (N, 2)
    most = tokenizer.get_vocab_size()
    ids = batch["input_ids"].copy()
    known = (np.minimum(ids, batch["masked_ids"].min(1, keepdims=True)) >= 0).all(1)
    known &= (ids < most).all(1) & (batch["masked_ids"] < most).all(1)
    known &= ((batch["masked_positions"] >= 0) & (batch["masked_positions"] < length[:, None]) | ~taken).all(1)
    known &= (a_length >= 1) & (b_length >= 1) & (real == (place < length[:, None])).all(1)
    known &= np.isin(batch["next_sentence_label"][:, 0], (0, 1))
    known &= (second == ((place > seps[:, :1]) & (place < length[:, None]))).all(1)
    positions = np.where(taken & known[:, None], batch["masked_positions"], -1)
    where = np.nonzero(positions >= 0)[0], positions[positions >= 0]
    shown = np.zeros_like(positions)
    shown[positions >= 0] = ids[where]
    ids[where] = batch["masked_ids"][positions >= 0]
    special = special_ids(tokenizer)
    known &= ids[:, 0] == special["[CLS]"]
    known &= (np.take_along_axis(ids, np.maximum(seps, 0), 1) == special["[SEP]"]).all(1)
    if not known.all():
        _refuse(rows[int(np.argmin(known))], most)
    words = (place >= 1) & (place < length[:, None] - 1) & (place != seps[:, :1])
    start = tokens_before + np.cumsum(length - 3) - (length - 3)
    pairs = {
        "a_start": start,
        "b_start": start + a_length,
        "a_length": a_length.astype(np.int32),
        "b_length": b_length.astype(np.int32),
        "is_random_next": batch["next_sentence_label"][:, 0].astype(np.uint8),
        "masked_positions": positions,
        "masked_shown": shown,
    }
    return ids[words].astype(np.uint16 if most <= 1 << 16 else np.int32), pairs


def _refuse(row: Row, most: int) -> NoReturn:
    path, number, features = row
    raise ValueError(
        f"data import: {path}, record {number} is no pair of this vocabulary; expected [CLS] A [SEP] B [SEP], ids "
        f"below {most:,}, words hidden within, labels of 0 or 1, got {features['input_ids'][:8].tolist()}…. Give the "
        "--vocab that it was made with."
    )
