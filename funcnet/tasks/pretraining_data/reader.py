"""A data directory -> what a pretraining run reads, by memory map."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from funcnet.data import DataLoader, Joined
from funcnet.tasks.pretraining_data.dataset import Masks, PretrainingDataset
from funcnet.tasks.pretraining_data.manifest import EXAMPLES, VOCABULARY, Directory, read_manifest
from funcnet.tasks.pretraining_data.masking import Masking, default_predictions, word_pieces
from funcnet.tasks.pretraining_data.packing import PackedDataset, number_of_rows
from funcnet.tasks.pretraining_data.shard import digest_of, is_whole, made_from, read_shard
from funcnet.tasks.pretraining_data.statistics import unigram_log_probabilities
from funcnet.tasks.pretraining_data.work import describe_file
from funcnet.text import load_tokenizer, special_ids

SMALL = (*VOCABULARY, "report.json")  # files that every run reads whole


@dataclass(frozen=True)
class Prepared:
    """What pretraining reads.

    Attributes:
        tokenizer: trained on the training documents, or the one given.
        train: the training examples; see `PretrainingDataset`.
        evaluation: the held-out examples with fixed masks; None where nothing was held out.
        statistics: of the corpus, the documents, tokens and pairs, as JSON takes it.
        fingerprint: digests of corpus and vocabulary, and the settings: what `train.pin` takes.
        directory: the folder that holds it all.
    """

    tokenizer: Tokenizer
    train: PretrainingDataset
    evaluation: PretrainingDataset | None
    statistics: dict[str, Any]
    fingerprint: dict[str, Any]
    directory: Path

    def train_batches(self, batch_size: int, *, packed: bool = False) -> DataLoader:
        """The shuffled training batches; read them with `Prefetcher(prepared.train_batches(32).batches(step))`.

        Args:
            batch_size: rows of a batch.
            packed: several short examples in a row, see `PackedDataset`.

        Raises:
            ValueError: there are fewer rows than one batch; packed rows of data that were not built from text.
        """
        rows = self.packed() if packed else self.train
        if len(rows) < batch_size:
            raise ValueError(
                f"train_batches: the corpus is smaller than one batch; expected at least {batch_size} training "
                f"examples, got {len(rows)}{' packed rows' if packed else ''}. Lower the batch size, or give more text."
            )
        return DataLoader(rows, batch_size, shuffle=True, seed=self.train.seed, drop_last=True)

    def packed(self) -> PackedDataset:
        """The training examples, several in a row.

        Raises:
            ValueError: the data were not built from text.
        """
        if "row" not in self.train.pairs[0]:
            raise ValueError(
                f"data: {self.directory} was imported as rows; expected data built from text for packed rows, got "
                "Google's examples. Leave --packed away, or build from the text."
            )
        passes, shards = self.train.passes, len(self.train.pairs[0]["row"].arrays)
        pairs = joined_pairs(Directory(self.directory), self.train.seq_len, passes, shards, packed=True)
        return PackedDataset(dataclasses.replace(self.train, pairs=pairs))

    def unigram(self) -> NDArray[np.float32]:
        """(V,) float32 log-probabilities of the training documents' tokens; see `unigram_log_probabilities`."""
        return unigram_log_probabilities(read_shard(Directory(self.directory).counts)[0]["count"])


def open_data(folder: str | Path, *, seq_len: int | None = None, seed: int = 0) -> Prepared:
    """Opens a data directory that `build` made; nothing of it is read into memory.

    Args:
        folder: with a manifest.
        seq_len: T, one of those that it was built for; None where there is one alone.
        seed: of masks and order.

    Raises:
        FileNotFoundError: there is no such folder, or no manifest in it.
        ValueError: it is not complete, has no rows of this length, or a file in it is cut short, missing, made with
            another vocabulary, or, of the vocabulary and the report, changed; the message names it.
    """
    folder = Path(folder)
    told = check_data(folder)
    lengths = told["settings"]["seq_len"]
    if seq_len is None and len(lengths) == 1:
        seq_len = lengths[0]
    if seq_len is None or seq_len not in lengths:
        raise ValueError(
            f"data: {folder} has no rows of {seq_len} tokens; expected one of {lengths}, got {seq_len}. Give such a "
            "--seq-len, or build with this one."
        )
    tokenizer = load_tokenizer(folder)
    train, evaluation = datasets(Directory(folder), told, tokenizer, seq_len, seed)
    return Prepared(tokenizer, train, evaluation, _statistics(folder, seq_len), _fingerprint(told, seq_len), folder)


def check_data(folder: Path, *, every_byte: bool = False) -> dict[str, Any]:
    """The manifest of a complete data directory, whose files all have their sizes and were made for each other.

    Args:
        folder: the directory.
        every_byte: compares each file's digest, which reads them all; else only those of small files that a run reads.

    Raises:
        FileNotFoundError, ValueError: as `open_data`.
    """
    told = read_manifest(folder)
    if told is None:
        raise FileNotFoundError(
            f"data: {folder} holds no data; expected a folder that `funcnet data build` made, got no manifest.json "
            "there. Check the path."
        )
    if told["files"] is None:
        raise ValueError(
            f"data: {folder} is not complete; expected a build that ended, got one that was cut off. Run the same "
            "`funcnet data build` again: it goes on."
        )
    expected = {"plan": told["plan"], "vocabulary": told["vocabulary"]}
    again = "Run the same `funcnet data build` again: it makes what is damaged."
    if told["layout"] == EXAMPLES:
        again = "Run `funcnet data import` again, into another folder."
    for name, described in told["files"].items():
        path, size = folder / name, described["bytes"]
        found = path.stat().st_size if path.is_file() else None
        if found != size:
            got = "no file" if found is None else f"{found:,}"
            raise ValueError(
                f"data: {path} is {'missing' if found is None else 'cut short or changed'}; expected {size:,} bytes, "
                f"got {got}. {again}"
            )
        if path.suffix == ".arrow" and (other := made_from(path)) != {one: expected[one] for one in other}:
            what = "vocabulary" if other["plan"] == told["plan"] else "corpus"
            raise ValueError(
                f"data: {path} was made with another {what} than {folder}'s; expected "
                f"{expected['vocabulary' if what == 'vocabulary' else 'plan'][:12]}, got "
                f"{other['vocabulary' if what == 'vocabulary' else 'plan'][:12]}. {again}"
            )
        if not every_byte and name not in SMALL:
            continue
        if describe_file(path) != described or (path.suffix == ".arrow" and not is_whole(path, made_from(path))):
            raise ValueError(
                f"data: {path} is damaged or changed; expected the bytes that were written, got others (its digest "
                f"tells). {again}"
            )
    return told


def datasets(
    files: Directory, told: Mapping[str, Any], tokenizer: Tokenizer, seq_len: int, seed: int
) -> tuple[PretrainingDataset, PretrainingDataset | None]:
    """(training, held-out) examples for rows of one length; None where nothing was held out.

    Args:
        files: all shards are there.
        told: the manifest.
        tokenizer: the vocabulary that lies beside them.
        seq_len: T.
        seed: of the masks.
    """
    special, settings = special_ids(tokenizer), told["settings"]
    masking = Masking(
        mask_id=special["[MASK]"],
        never=tuple(special[token] for token in ("[PAD]", "[CLS]", "[SEP]", "[MASK]")),
        vocab_size=tokenizer.get_vocab_size(),
        max_predictions=settings["max_predictions"] or default_predictions(seq_len),
        pieces=word_pieces(tokenizer) if settings["whole_words"] else None,
    )

    def dataset(tokens: Joined, pairs: list[dict[str, Joined]], masks: Masks) -> PretrainingDataset:
        ids = {"cls_id": special["[CLS]"], "sep_id": special["[SEP]"], "pad_id": special["[PAD]"]}
        return PretrainingDataset(tokens, pairs, seq_len, masking, **ids, seed=seed, masks=masks)

    shards = range(told["shards"])
    tokens = Joined([read_shard(files.tokens(shard))[0]["token"] for shard in shards])
    pairs = joined_pairs(files, seq_len, settings["passes"], told["shards"])
    train = dataset(tokens, pairs, "of the pass" if settings["static_masks"] else "of the visit")
    if not settings["held_out"]:
        return train, None
    held_tokens = Joined([read_shard(files.held_out_tokens)[0]["token"]])
    columns = read_shard(files.held_out_pairs(seq_len))[0]
    held_pairs = [{name: Joined([values]) for name, values in columns.items()}]
    return train, dataset(held_tokens, held_pairs, "of the pass")


def joined_pairs(
    files: Directory, seq_len: int, passes: int, shards: int, *, packed: bool = False
) -> list[dict[str, Joined]]:
    """Of each pass the columns of all shards; of a shard each pass is cut to what its shortest has, at most a percent
    less, so that epochs have one length: to as many pairs, or to as many packed rows."""
    columns = [[read_shard(files.pairs(seq_len, p, shard))[0] for shard in range(shards)] for p in range(passes)]
    if packed:
        rows = [[number_of_rows(one["row"]) for one in found] for found in columns]
        fewest = [min(counts) for counts in zip(*rows, strict=True)]
        sizes = [
            [int(np.searchsorted(one["row"], np.int32(rows))) for one, rows in zip(found, fewest, strict=True)]
            for found in columns
        ]
    else:
        counts = [[len(one["a_start"]) for one in found] for found in columns]
        sizes = [[min(of_shard) for of_shard in zip(*counts, strict=True)]] * len(columns)
    return [
        {name: Joined([one[name][:size] for one, size in zip(found, cut, strict=True)]) for name in found[0]}
        for found, cut in zip(columns, sizes, strict=True)
    ]


def _statistics(folder: Path, seq_len: int) -> dict[str, Any]:
    told: dict[str, Any] = json.loads((folder / "report.json").read_text("utf-8"))
    pairs = told["pairs"][str(seq_len)]
    found = {"corpus": told["corpus"], "train": {**told["train"], **pairs["train"]}}
    if "evaluation" in told:
        found["evaluation"] = {**told["evaluation"], **pairs["evaluation"]}
    return found


def _fingerprint(told: Mapping[str, Any], seq_len: int) -> dict[str, Any]:
    settings = told["settings"]
    return {
        "format": told["format"],
        "corpus": digest_of([one["sha256"] for one in told["sources"]]),
        **{name: settings[name] for name in sorted(settings) if name not in ("vocab", "vocab_size")},
        "seq_len": seq_len,
        "max_predictions": settings["max_predictions"] or default_predictions(seq_len),
        "layout": told["layout"],
        "vocabulary": told["vocabulary"],
    }
