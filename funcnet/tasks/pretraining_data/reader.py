"""Opens a data directory for a pretraining run, memory-mapped.

Letters: `T` is the number of tokens per row, and `V` the size of the vocabulary.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from funcnet.data import DataLoader, Joined
from funcnet.files import json_digest
from funcnet.tasks.pretraining_data.dataset import PretrainingDataset
from funcnet.tasks.pretraining_data.manifest import (
    EXAMPLES,
    FORMAT,
    VOCABULARY,
    DataFiles,
    Manifest,
    file_problem,
    read_manifest,
)
from funcnet.tasks.pretraining_data.masking import Masking, default_predictions, word_pieces
from funcnet.tasks.pretraining_data.packing import PackedDataset, number_of_rows
from funcnet.tasks.pretraining_data.shard import read_shard
from funcnet.text import load_tokenizer, special_ids

__all__ = ["PretrainingData", "check_data", "open_data", "open_datasets", "unigram_log_probabilities"]

SMALL = (*VOCABULARY, "report.json")  # files that every run reads completely


@dataclass(frozen=True)
class PretrainingData:
    """The data of a pretraining run.

    Attributes:
        tokenizer: the tokenizer, which is either given or trained on the training documents.
        train: the training examples; see `PretrainingDataset`.
        evaluation: the held-out examples with fixed masks, or None if nothing is held out.
        statistics: statistics of the corpus, documents, tokens and pairs, as JSON values.
        fingerprint: digests of the corpus and the vocabulary, and the settings, for the record of a run.
        directory: the data directory.
    """

    tokenizer: Tokenizer
    train: PretrainingDataset
    evaluation: PretrainingDataset | None
    statistics: dict[str, Any]
    fingerprint: dict[str, Any]
    directory: Path

    def train_batches(self, batch_size: int, *, packed: bool = False) -> DataLoader:
        """Return a loader of shuffled training batches, for `Prefetcher(data.train_batches(32).batches(step))`.

        Args:
            batch_size: number of rows per batch.
            packed: if True, pack several short examples into one row (see `PackedDataset`).

        Raises:
            ValueError: if there are fewer rows than `batch_size`, or `packed` is True and the data were not built from
                text.
        """
        rows = self.packed() if packed else self.train
        if len(rows) < batch_size:
            raise ValueError(
                f"train_batches: the corpus is smaller than one batch; expected at least {batch_size} training "
                f"examples, got {len(rows)}{' packed rows' if packed else ''}. Lower the batch size, or use more text."
            )
        return DataLoader(rows, batch_size, shuffle=True, seed=self.train.seed, drop_last=True)

    def packed(self) -> PackedDataset:
        """Return the training examples packed into rows.

        Raises:
            ValueError: if the data were not built from text.
        """
        if "row" not in self.train.pairs[0]:
            raise ValueError(
                f"data: {self.directory} was imported as rows, which cannot be packed; expected data that was built "
                "from text, got Google's examples. Omit --packed."
            )
        manifest = read_manifest(self.directory)
        assert manifest is not None
        pairs = _joined_pairs(DataFiles(self.directory), manifest, self.train.seq_len, packed=True)
        return PackedDataset(replace(self.train, pairs=pairs))

    def unigram(self) -> NDArray[np.float32]:
        """Return (V,) float32 log-probabilities of the tokens of the training documents; see
        `unigram_log_probabilities`.
        """
        return unigram_log_probabilities(read_shard(DataFiles(self.directory).counts)[0]["count"])


def open_data(folder: str | Path, *, seq_len: int | None = None, seed: int = 0) -> PretrainingData:
    """Open a data directory that `build` made, without reading it into memory.

    Args:
        folder: the data directory.
        seq_len: T, one of the lengths for which the data were built. If the data were built for only one length, None
            selects this length.
        seed: seed of the masks and of the order of examples.

    Returns:
        A `PretrainingData`.

    Raises:
        FileNotFoundError: if the folder does not exist, or contains no manifest.
        ValueError: if the directory is not complete or has no rows of this length. The error is also raised if a file
            is truncated, missing, or made with a different vocabulary, or if a file of the vocabulary or the report was
            changed. The message names the file.

    Example:
        >>> import tempfile
        >>> from funcnet.settings import compose
        >>> from funcnet.tasks.pretraining_data.build import build
        >>> from funcnet.tasks.pretraining_data.data_settings import DataSettings
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     corpus = Path(folder, "corpus.txt")
        ...     texts = [f"This is text {i}. It goes on {i} times. Then it ends." for i in range(40)]
        ...     _ = corpus.write_text("\\n\\n".join(texts))
        ...     settings = compose(DataSettings, corpus=(corpus,), seq_len=(32,), passes=1, vocab_size=100)
        ...     _ = build(f"{folder}/data", settings)
        ...     data = open_data(f"{folder}/data")
        ...     data.train[[0, 1]]["input_ids"].shape
        (2, 32)
    """
    folder = Path(folder)
    manifest = check_data(folder)
    lengths = manifest.settings["seq_len"]
    if seq_len is None and len(lengths) == 1:
        seq_len = lengths[0]
    if seq_len is None or seq_len not in lengths:
        raise ValueError(
            f"data: {folder} has no rows of {seq_len} tokens; expected one of {lengths}, got {seq_len}. Pass one of "
            "these lengths with --seq-len, or build the data with another --seq-len."
        )
    tokenizer = load_tokenizer(folder)
    train, evaluation = open_datasets(folder, manifest, tokenizer, seq_len, seed)
    statistics, fingerprint = _statistics(folder, seq_len), _fingerprint(manifest, seq_len)
    return PretrainingData(tokenizer, train, evaluation, statistics, fingerprint, folder)


def check_data(folder: Path, *, every_byte: bool = False) -> Manifest:
    """Return the manifest of a data directory. Check that the directory is complete, and that all files have the right
    size and belong to the same build.

    The SHA-256 digests of the small files that every run reads are compared with the manifest. If `every_byte` is True,
    all files are read and compared in this way. For the errors, see `open_data`.
    """
    manifest = read_manifest(folder)
    if manifest is None:
        raise FileNotFoundError(
            f"data: {folder} contains no data; expected a folder from `funcnet data build`, got one without "
            "manifest.json."
        )
    if manifest.files is None:
        raise ValueError(
            f"data: {folder} is not complete; expected a finished build, got one that was stopped. Run the same "
            "`funcnet data build` again to continue it."
        )
    again = "Run the same `funcnet data build` again to repair the data."
    if manifest.layout == EXAMPLES:
        again = "Run `funcnet data import` again with another --out."
    origin = manifest.origin()
    for name, described in manifest.files.items():
        problem = file_problem(folder / name, described, origin, every_byte=every_byte or name in SMALL)
        if problem is not None:
            raise ValueError(f"data: {folder / name} {problem}. {again}")
    return manifest


def open_datasets(
    folder: Path, manifest: Manifest, tokenizer: Tokenizer, seq_len: int, seed: int
) -> tuple[PretrainingDataset, PretrainingDataset | None]:
    """Return the (training, held-out) examples for rows of `seq_len` tokens, with masks of this seed. If nothing
    is held out, the held-out examples are None.
    """
    files, settings, special = DataFiles(folder), manifest.settings, special_ids(tokenizer)
    masking = Masking(
        mask_id=special["[MASK]"],
        never=tuple(special[token] for token in ("[PAD]", "[CLS]", "[SEP]", "[MASK]")),
        vocab_size=tokenizer.get_vocab_size(),
        max_predictions=settings["max_predictions"] or default_predictions(seq_len),
        pieces=word_pieces(tokenizer) if settings["whole_words"] else None,
    )

    train = PretrainingDataset(
        tokens=Joined([read_shard(files.shard("tokens", n))[0]["token"] for n in range(manifest.shards or 0)]),
        pairs=_joined_pairs(files, manifest, seq_len),
        seq_len=seq_len,
        masking=masking,
        cls_id=special["[CLS]"],
        sep_id=special["[SEP]"],
        pad_id=special["[PAD]"],
        seed=seed,
        masks="of the pass" if settings["static_masks"] else "of the visit",
    )
    if not settings["held_out"]:
        return train, None
    tokens = Joined([read_shard(files.held_out_tokens)[0]["token"]])
    pairs = {name: Joined([values]) for name, values in read_shard(files.held_out_pairs(seq_len))[0].items()}
    return train, replace(train, tokens=tokens, pairs=[pairs], masks="of the pass")


def _joined_pairs(
    files: DataFiles, manifest: Manifest, seq_len: int, *, packed: bool = False
) -> list[dict[str, Joined]]:
    """Return the concatenated columns of all shards, for each pass. In each shard, the pairs of every pass are cut to
    the number of pairs in its shortest pass, so that all epochs have the same number of pairs (or of packed rows). At
    most one percent is cut.
    """
    shards, passes = range(manifest.shards or 0), range(manifest.settings["passes"])
    columns = [[read_shard(files.pairs(seq_len, p, shard))[0] for shard in shards] for p in passes]
    size = (lambda one: number_of_rows(one["row"])) if packed else (lambda one: len(one["a_start"]))
    fewest = [min(map(size, of_shard)) for of_shard in zip(*columns, strict=True)]

    def cut(one: dict[str, NDArray[Any]], most: int) -> dict[str, NDArray[Any]]:
        end = int(np.searchsorted(one["row"], np.int32(most))) if packed else most
        return {name: values[:end] for name, values in one.items()}

    cuts = [[cut(*one) for one in zip(found, fewest, strict=True)] for found in columns]
    return [{name: Joined([one[name] for one in found]) for name in found[0]} for found in cuts]


def unigram_log_probabilities(counts: NDArray[Any]) -> NDArray[np.float32]:
    """Return the logarithms of the token frequencies, with add-one (Laplace) smoothing.

    `-log_probabilities[masked_ids]`, averaged over the masked positions, is the loss that a model reaches without
    using context.

    Args:
        counts: (V,) number of occurrences of each token in the training documents.

    Returns:
        (V,) float32, the logarithms of numbers that sum to 1.

    Example:
        >>> np.exp(unigram_log_probabilities(np.array([2, 1, 0]))).round(3).tolist()
        [0.5, 0.333..., 0.16...]
    """
    counts = counts + 1.0
    return np.log(counts / counts.sum()).astype(np.float32)


def _statistics(folder: Path, seq_len: int) -> dict[str, Any]:
    report: dict[str, Any] = json.loads((folder / "report.json").read_text("utf-8"))
    pairs = report["pairs"][str(seq_len)]
    parts = [name for name in ("train", "evaluation") if name in report]
    return {"corpus": report["corpus"], **{name: {**report[name], **pairs[name]} for name in parts}}


def _fingerprint(manifest: Manifest, seq_len: int) -> dict[str, Any]:
    settings = manifest.settings
    return {
        "format": FORMAT,
        "corpus": json_digest([source.sha256 for source in manifest.sources]),
        **{name: settings[name] for name in sorted(settings) if name not in ("vocab", "vocab_size")},
        "seq_len": seq_len,
        "max_predictions": settings["max_predictions"] or default_predictions(seq_len),
        "layout": manifest.layout,
        "vocabulary": manifest.vocabulary,
    }
