"""Export and import of `tf_examples.tfrecord`, the format that the BERT scripts of Google, NVIDIA and others read. An
import keeps the masked positions that are stored in the examples.

An import puts the original words back at the masked positions. A row then consists of two slices of one array of
tokens, as in data that are built from text. The masked positions and the ids that replace the words are stored
separately. A `tf_examples.tfrecord` file does not say which document a row comes from. Therefore held-out rows must be
in separate files, and rows cannot be packed.

Letters: N examples, T tokens, M slots.
"""

from __future__ import annotations

import itertools
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from funcnet.data import read_examples, write_examples
from funcnet.files import require_folder
from funcnet.tasks.pretraining_data.build import require_new_folder
from funcnet.tasks.pretraining_data.data_report import write_report
from funcnet.tasks.pretraining_data.dataset import PretrainingDataset
from funcnet.tasks.pretraining_data.manifest import (
    EXAMPLES,
    DataFiles,
    Manifest,
    describe_file,
    describe_source,
    write_manifest,
)
from funcnet.tasks.pretraining_data.reader import open_data
from funcnet.tasks.pretraining_data.shard import ShardColumns, write_shard
from funcnet.text import load_tokenizer, save_tokenizer, special_ids, vocabulary_digest

__all__ = ["export_examples", "import_examples"]

Example = tuple[Path, int, dict[str, NDArray[Any]]]  # file, number of the record in it, features
SHARD = 4_000_000  # number of tokens, including padding, that are in memory at once
ROWS = 1024  # number of examples whose masks are drawn at a time
NAMES = {  # our name -> Google's name, in the order of Google's script
    "input_ids": "input_ids",
    "attention_mask": "input_mask",
    "token_type_ids": "segment_ids",
    "masked_positions": "masked_lm_positions",
    "masked_ids": "masked_lm_ids",
    "masked_weights": "masked_lm_weights",
    "next_sentence_label": "next_sentence_labels",
}


def export_examples(
    folder: str | Path, out: str | Path, *, seq_len: int | None = None, seed: int = 0, held_out: bool = False
) -> int:
    """Write all examples of all passes, with masks, in the format of `create_pretraining_data.py`. Return the number of
    examples.

    If `held_out` is True, the held-out examples are written instead of the training examples. `seq_len`, `seed` and the
    errors are those of `open_data`. A ValueError is also raised if `held_out` is True and no example is held out.

    Reference: write_instance_to_example_files in
    https://github.com/google-research/bert/blob/master/create_pretraining_data.py
    """
    require_folder(out, "data export: --out")
    data = open_data(folder, seq_len=seq_len, seed=seed)
    chosen = data.evaluation if held_out else data.train
    if chosen is None:
        raise ValueError(
            f"data export: {folder} has no held-out examples; expected some, got a folder built with --held-out 0. "
            "Omit --held-out."
        )
    return write_examples(out, _exported(chosen))


def import_examples(
    files: Sequence[str | Path],
    folder: str | Path,
    *,
    vocab: str | Path,
    held_out: Sequence[str | Path] = (),
    cased: bool = False,
) -> int:
    """Make a data directory from Google's examples. Return the number of training examples.

    Args:
        files: files from `create_pretraining_data.py` or `export_examples`.
        folder: the data directory, which must be new or empty. The directory is written completely or not at all.
        vocab: the vocabulary with which the examples were made.
        held_out: files with examples for evaluation. Without such files, runs on these data are not evaluated.
        cased: see `load_tokenizer`.

    Raises:
        OSError: if a file does not exist, or the folder cannot be written.
        ValueError: if the folder is not empty, or a file is empty or damaged, has rows of different lengths, or was
            made with a different vocabulary. The message has the path of the file and the number of the record.
    """
    if not files:
        raise ValueError("data import: no files are given; expected at least one file with examples, got none.")
    folder = Path(folder).absolute()
    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError(f"data import: --out {folder} is a file; expected a folder.")
    require_new_folder(folder, "data import")
    tokenizer = load_tokenizer(vocab, lower_case=False if cased else None)
    part = folder.with_name(f".{folder.name}.part")
    shutil.rmtree(part, ignore_errors=True)  # left by an import that was killed
    part.mkdir(parents=True)
    try:
        number = _write(part, tokenizer, [Path(file) for file in files], [Path(file) for file in held_out])
        os.replace(part, folder)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return number


def _exported(data: PretrainingDataset) -> Iterator[dict[str, NDArray[Any]]]:
    for number in range(data.passes):
        epoch = data.at_epoch(number)
        for start in range(0, len(data), ROWS):
            batch = epoch[np.arange(start, min(start + ROWS, len(data)))]
            for row in range(len(batch["input_ids"])):
                yield {theirs: np.atleast_1d(batch[ours][row]) for ours, theirs in NAMES.items()}


def _write(folder: Path, tokenizer: Tokenizer, training: Sequence[Path], held_out: Sequence[Path]) -> int:
    """Write all files of a data directory of imported examples. Return the number of training examples."""
    first = next(_examples(training, None, None))[2]
    seq_len, slots = len(first["input_ids"]), len(first["masked_lm_positions"])
    vocabulary = vocabulary_digest(tokenizer)
    settings = {
        "seq_len": [seq_len],
        "passes": 1,
        "max_predictions": slots,
        "held_out": len(held_out),
        "static_masks": True,
        "whole_words": False,
        "seed": 0,
        "vocab": vocabulary,
    }
    sources = [describe_source(path) for path in (*training, *held_out)]
    manifest = Manifest(settings, EXAMPLES, sources, vocabulary, shards=0)
    files, origin = DataFiles(folder), manifest.origin()
    save_tokenizer(tokenizer, folder, max_length=seq_len)
    examples = tokens_before = shards = 0
    found = _examples(training, seq_len, slots)
    while group := list(itertools.islice(found, max(SHARD // seq_len, 1))):
        tokens, pairs = _columns(group, tokenizer, tokens_before)
        write_shard(files.shard("tokens", shards), {"token": tokens}, origin)
        write_shard(files.pairs(seq_len, 0, shards), pairs, origin)
        examples, tokens_before, shards = examples + len(group), tokens_before + len(tokens), shards + 1
    manifest.shards = shards
    if held_out:
        tokens, pairs = _columns(list(_examples(held_out, seq_len, slots)), tokenizer, 0)
        write_shard(files.held_out_tokens, {"token": tokens}, origin)
        write_shard(files.held_out_pairs(seq_len), pairs, origin)
    facts = {"files": len(sources), "bytes": sum(source.bytes for source in sources), "layout": EXAMPLES}
    write_report(folder, manifest, facts, origin)
    manifest.files = {path.name: describe_file(path) for path in files.all(manifest)}
    write_manifest(folder, manifest)
    return examples


def _examples(files: Sequence[Path], seq_len: int | None, slots: int | None) -> Iterator[Example]:
    """Yield the examples of all files. Check that each example has all of Google's features, and that all examples have
    the same length.
    """
    for path in files:
        number = 0
        for number, features in enumerate(read_examples(path), 1):
            missing = [name for name in NAMES.values() if name not in features]
            if missing:
                raise ValueError(
                    f"data import: {path}, record {number} lacks {', '.join(missing)}; expected Google's features "
                    f"{', '.join(NAMES.values())}, got {', '.join(sorted(features)) or 'none'}. Make the file with "
                    "create_pretraining_data.py."
                )
            width, most = seq_len or len(features["input_ids"]), slots or len(features["masked_lm_positions"])
            wanted = {name: 1 if "next" in name else most if "lm" in name else width for name in NAMES.values()}
            found = {name: len(features[name]) for name in wanted}
            if found != wanted:
                raise ValueError(
                    f"data import: {path}, record {number} differs in length from the first record; expected {wanted}, "
                    f"got {found}. Import files of different lengths into different folders."
                )
            yield path, number, features
        if not number:
            raise ValueError(f"data import: {path} is empty; expected examples, got none.")


def _columns(
    examples: Sequence[Example], tokenizer: Tokenizer, tokens_before: int
) -> tuple[NDArray[Any], ShardColumns]:
    """Return the token ids of N examples as one array, and the columns that describe the pairs in this array. See
    `build_pairs` and `PretrainingDataset`.
    """
    names = NAMES.items()
    batch = {ours: np.stack([one[theirs] for _, _, one in examples]).astype(np.int32) for ours, theirs in names}
    real, second = batch["attention_mask"] == 1, batch["token_type_ids"] == 1
    used = batch["masked_weights"] == 1
    length, b_length = real.sum(1), (real & second).sum(1) - 1
    a_length = length - b_length - 3
    place = np.arange(real.shape[1])
    seps = np.stack([a_length + 1, length - 1], 1)  # (N, 2)
    most = tokenizer.get_vocab_size()
    ids = batch["input_ids"].copy()
    known = (np.minimum(ids, batch["masked_ids"].min(1, keepdims=True)) >= 0).all(1)
    known &= (ids < most).all(1) & (batch["masked_ids"] < most).all(1)
    known &= ((batch["masked_positions"] >= 0) & (batch["masked_positions"] < length[:, None]) | ~used).all(1)
    known &= (a_length >= 1) & (b_length >= 1) & (real == (place < length[:, None])).all(1)
    known &= np.isin(batch["next_sentence_label"][:, 0], (0, 1))
    known &= (second == ((place > seps[:, :1]) & (place < length[:, None]))).all(1)
    positions = np.where(used & known[:, None], batch["masked_positions"], -1)
    where = np.nonzero(positions >= 0)[0], positions[positions >= 0]
    shown = np.zeros_like(positions)
    shown[positions >= 0] = ids[where]
    ids[where] = batch["masked_ids"][positions >= 0]
    special = special_ids(tokenizer)
    known &= ids[:, 0] == special["[CLS]"]
    known &= (np.take_along_axis(ids, np.maximum(seps, 0), 1) == special["[SEP]"]).all(1)
    if not known.all():
        path, number, features = examples[int(np.argmin(known))]
        raise ValueError(
            f"data import: {path}, record {number} is not a sentence pair in this vocabulary; expected [CLS] A [SEP] B "
            f"[SEP], ids below {most:,}, masked words inside A or B, labels 0 or 1, got "
            f"{features['input_ids'][:8].tolist()}…. Pass the --vocab with which the file was made."
        )
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
