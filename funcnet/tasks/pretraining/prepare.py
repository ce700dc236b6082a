"""Raw text -> everything that pretraining reads, in one call, kept on disk and found again.

Steps: corpus -> documents, without duplicates -> sentences -> training and held-out documents -> vocabulary (from the
training documents) -> tokens -> pairs. All of it lands in a folder named by the digest of corpus, vocabulary and
settings, so the second call only opens it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from funcnet.data import DataLoader, read_columns, write_columns
from funcnet.tasks.pretraining.dataset import PretrainingDataset
from funcnet.tasks.pretraining.heldout import drop_shared_sentences, split_documents
from funcnet.tasks.pretraining.instances import (
    TokenizedDocuments,
    build_pairs,
    split_into_sentences,
    tokenize_documents,
)
from funcnet.tasks.pretraining.masking import Masking, default_predictions
from funcnet.tasks.pretraining.statistics import describe_documents, describe_pairs, unigram_log_probabilities
from funcnet.text import (
    Corpus,
    drop_duplicates,
    is_lower_case,
    load_tokenizer,
    read_corpus,
    save_tokenizer,
    special_ids,
    train_wordpiece,
    vocabulary,
)
from funcnet.text.corpus import Layout

FORMAT = 1  # of the folder and of how pairs are drawn; another number and old folders are made again
STALE = 86_400  # seconds; by then no living process is still building
HELD_OUT_PASS = 1 << 31  # the number of the held-out documents' only pass, apart from all training passes
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Prepared:
    """What pretraining reads.

    Attributes:
        tokenizer: trained on the training documents, or the one given.
        train: the training examples; see `PretrainingDataset`.
        evaluation: the held-out examples with fixed masks; None where nothing was held out.
        statistics: of the corpus, the documents, tokens and pairs, and the seconds each step took, as JSON takes it.
        fingerprint: digests of corpus and vocabulary, and the settings: what `train.pin` takes.
        directory: the folder that holds it all.
    """

    tokenizer: Tokenizer
    train: PretrainingDataset
    evaluation: PretrainingDataset | None
    statistics: dict[str, Any]
    fingerprint: dict[str, Any]
    directory: Path

    def train_batches(self, batch_size: int) -> DataLoader:
        """The shuffled training batches; read them with `Prefetcher(prepared.train_batches(32).batches(step))`.

        Raises:
            ValueError: there are fewer examples than one batch.
        """
        if len(self.train) < batch_size:
            raise ValueError(
                f"train_batches: the corpus is smaller than one batch; expected at least {batch_size} training "
                "examples, "
                f"got {len(self.train)}. Lower the batch size, or give more text."
            )
        return DataLoader(self.train, batch_size, shuffle=True, seed=self.train.seed, drop_last=True)

    def unigram(self) -> NDArray[np.float32]:
        """(V,) float32 log-probabilities of the training documents' tokens; see `unigram_log_probabilities`."""
        return unigram_log_probabilities(self.train.tokens, self.tokenizer.get_vocab_size())


def prepare(
    corpus: str | Path | Sequence[str | Path] | None = None,
    *,
    directory: str | Path,
    seq_len: int = 128,
    vocab_size: int = 8192,
    vocab: str | Path | None = None,
    lower_case: bool | None = None,
    seed: int = 0,
    held_out: float = 0.05,
    documents: Layout = "auto",
    passes: int = 10,
    short_share: float = 0.1,
    max_predictions: int | None = None,
    language: str = "en",
    progress: Progress | None = None,
) -> Prepared:
    """Makes the data of a pretraining run from raw text, or opens what an earlier call with the same text and settings
    made.

    Args:
        corpus: files and folders of text; None is the default corpus. See `funcnet.text.read_corpus`.
        directory: under it a folder named by the digest is made, whole or not at all; a cache that runs may share.
        seq_len: T, of all batches.
        vocab_size: of a vocabulary to train; without meaning where `vocab` is given.
        vocab: a vocabulary file or directory to use instead; see `funcnet.text.load_tokenizer`.
        lower_case: None: yes for a trained vocabulary, as its files say for a given one.
        seed: of the held-out documents, pairs, masks and order.
        held_out: the share of the text kept for evaluation, by whole documents; 0 keeps none.
        documents: what is a document: `"file"`, `"blank-line"` or `"auto"`; see `funcnet.text.read_corpus`.
        passes: over the text, each with other pairs; epoch e reads pass e modulo passes. 20 bytes a pair and pass, 0.2
            s for 2 million words.
        short_share: of pairs that aim for a shorter length.
        max_predictions: M, slots for hidden words; None: 15 % of `seq_len`, rounded up (20 for 128).
        language: for sentence boundaries.
        progress: called as `progress(step, done, total)`; steps are reading, sentences, vocabulary, tokens, pairs.

    Returns:
        A `Prepared`.

    Raises:
        OSError: a corpus file is not there or cannot be read; the folder cannot be written (nothing of it is left).
        ValueError: the corpus is empty, not UTF-8 or of too few documents; the vocabulary lacks special tokens; a
        setting is out of range.

    Example:
        >>> from pathlib import Path
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     text = "\\n\\n".join(f"This is text {i}. It goes on {i} times. Then it ends." for i in range(40))
        ...     _ = Path(folder, "corpus.txt").write_text(text)
        ...     data = prepare(f"{folder}/corpus.txt", directory=f"{folder}/data", seq_len=32, vocab_size=100)
        ...     batch = next(data.train_batches(8).batches())
        >>> batch["input_ids"].shape, batch["masked_positions"].shape, data.statistics["train"]["documents"]
        ((8, 32), (8, 5), 38)
    """
    if passes < 1:
        raise ValueError(f"prepare: passes is too small; expected at least 1, got {passes}. Raise it.")
    started = time.perf_counter()
    given = None if vocab is None else load_tokenizer(vocab, lower_case=lower_case)
    read, dropped = drop_duplicates(read_corpus(corpus, documents=documents, progress=progress))
    settings = {
        "format": FORMAT,
        "corpus": read.digest(),
        "corpus_documents": len(read.documents),
        "seq_len": seq_len,
        "seed": seed,
        "held_out": held_out,
        "passes": passes,
        "short_share": short_share,
        "max_predictions": default_predictions(seq_len) if max_predictions is None else max_predictions,
        "language": language,
        "vocab_size": vocab_size if given is None else given.get_vocab_size(),
        "lower_case": lower_case is not False if given is None else is_lower_case(given),
    }
    given_digest = None if given is None else _vocabulary_digest(given)
    folder = Path(directory) / _digest({**settings, "vocabulary": given_digest})[:16]
    if not (found := _open(folder)):
        spent = {"reading": time.perf_counter() - started}
        facts = {"files": read.files, "bytes": read.bytes, "layout": read.layout, "duplicates_dropped": dropped}
        _in_place(folder, lambda part: _build(read, given, settings, facts, spent, part, progress))
        found = _open(folder)
        assert found is not None
    return found


def _build(
    corpus: Corpus,
    tokenizer: Tokenizer | None,
    settings: Mapping[str, Any],
    facts: dict[str, Any],
    spent: dict[str, float],
    folder: Path,
    progress: Progress | None,
) -> None:
    """All steps after reading, into an empty folder."""
    clock = _Clock(spent)
    seed, seq_len = settings["seed"], settings["seq_len"]
    sentences = split_into_sentences(corpus.documents, language=settings["language"], progress=progress)
    train_rows, held_rows = split_documents(
        [len(text) for text in corpus.documents],
        settings["held_out"],
        seed=seed,
        usable=[len(s) > 1 for s in sentences],
    )
    train_sentences = [sentences[i] for i in train_rows]
    held_sentences, shared = drop_shared_sentences([sentences[i] for i in held_rows], train_sentences)
    clock.lap("sentences")
    if tokenizer is None:
        _tell(progress, "vocabulary", 0)
        texts = [corpus.documents[i] for i in train_rows]
        tokenizer = train_wordpiece(texts, settings["vocab_size"], lower_case=settings["lower_case"])
        _tell(progress, "vocabulary", 1)
    save_tokenizer(tokenizer, folder, max_length=seq_len)
    clock.lap("vocabulary")
    unknown = special_ids(tokenizer)["[UNK]"]
    statistics: dict[str, Any] = {"corpus": {**facts, "shared_sentences_dropped": shared}}
    for name, split, numbers in (
        ("train", train_sentences, range(settings["passes"])),
        ("evaluation", held_sentences, [HELD_OUT_PASS]),
    ):
        if not split:
            continue
        tokenized = tokenize_documents(split, tokenizer, progress=progress)
        clock.lap("tokens")
        pairs = _build_passes(tokenized, list(numbers), settings, progress)
        write_columns(folder / f"{name}_tokens.arrow", {"token": tokenized.tokens})
        flat = {column: values.reshape(-1) for column, values in pairs.items()}
        write_columns(folder / f"{name}_pairs.arrow", flat, {"passes": len(numbers)})
        statistics[name] = {**describe_documents(tokenized, unknown), **describe_pairs(pairs, seq_len)}
        clock.lap("pairs")
    total = sum(spent.values())
    statistics["seconds"] = {step: round(took, 3) for step, took in {**spent, "total": total}.items()}
    statistics["megabytes_per_second"] = round(facts["bytes"] / 1e6 / total, 2)
    fingerprint = {**settings, "vocabulary": _vocabulary_digest(tokenizer), "vocab_size": tokenizer.get_vocab_size()}
    text = json.dumps({"statistics": statistics, "fingerprint": fingerprint}, indent=2)
    (folder / "data.json").write_text(text + "\n", "utf-8")


def _build_passes(
    documents: TokenizedDocuments, numbers: Sequence[int], settings: Mapping[str, Any], progress: Progress | None
) -> dict[str, NDArray[Any]]:
    """The pairs of several passes, each column (P, N): all passes are cut to the shortest, at most a percent less."""
    passes = []
    for done, number in enumerate(numbers):
        passes.append(
            build_pairs(
                documents,
                seq_len=settings["seq_len"],
                seed=settings["seed"],
                number=number,
                short_share=settings["short_share"],
            )
        )
        _tell(progress, "pairs", done + 1, len(numbers))
    shortest = min(len(columns["a_start"]) for columns in passes)
    return {name: np.stack([columns[name][:shortest] for columns in passes]) for name in passes[0]}


def _open(folder: Path) -> Prepared | None:
    """What a folder holds; None where it is not there, or damaged (it is made again then)."""
    if not (folder / "data.json").is_file():
        return None
    try:
        told = json.loads((folder / "data.json").read_text("utf-8"))
        tokenizer = load_tokenizer(folder)
        special = special_ids(tokenizer)
        fingerprint = told["fingerprint"]
        masking = Masking(
            mask_id=special["[MASK]"],
            never=tuple(special[token] for token in ("[PAD]", "[CLS]", "[SEP]", "[MASK]")),
            vocab_size=tokenizer.get_vocab_size(),
            max_predictions=fingerprint["max_predictions"],
        )
        datasets = {}
        for name in ("train", "evaluation"):
            if name not in told["statistics"]:
                continue
            columns, metadata = read_columns(folder / f"{name}_pairs.arrow")
            datasets[name] = PretrainingDataset(
                tokens=read_columns(folder / f"{name}_tokens.arrow")[0]["token"],
                pairs={column: values.reshape(metadata["passes"], -1) for column, values in columns.items()},
                seq_len=fingerprint["seq_len"],
                masking=masking,
                cls_id=special["[CLS]"],
                sep_id=special["[SEP]"],
                pad_id=special["[PAD]"],
                seed=fingerprint["seed"],
                fixed=name == "evaluation",
            )
        return Prepared(
            tokenizer, datasets["train"], datasets.get("evaluation"), told["statistics"], fingerprint, folder
        )
    except (ValueError, KeyError, OSError):
        return None


def _in_place(folder: Path, build: Callable[[Path], None]) -> None:
    """Builds beside `folder` and renames: a killed process leaves no half folder there, and two at once do not meet."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    for left in folder.parent.glob("*.part"):  # of processes that were killed
        with contextlib.suppress(OSError):  # another process may be clearing too
            if time.time() - left.stat().st_mtime > STALE:
                shutil.rmtree(left)
    part = Path(tempfile.mkdtemp(prefix=f"{folder.name}.", suffix=".part", dir=folder.parent))
    try:
        build(part)
        part.chmod(0o755)  # mkdtemp's folders are for their owner alone
        if folder.exists() and _open(folder) is None:
            shutil.rmtree(folder)
        try:
            os.replace(part, folder)
        except OSError:
            if _open(folder) is None:  # else another process was faster
                raise
    finally:
        shutil.rmtree(part, ignore_errors=True)


class _Clock:
    """Adds the seconds since the last lap to a step."""

    def __init__(self, spent: dict[str, float]):
        self.spent, self.last = spent, time.perf_counter()

    def lap(self, step: str) -> None:
        now = time.perf_counter()
        self.spent[step] = self.spent.get(step, 0.0) + now - self.last
        self.last = now


def _tell(progress: Progress | None, step: str, done: int, total: int = 1) -> None:
    if progress is not None:
        progress(step, done, total)


def _vocabulary_digest(tokenizer: Tokenizer) -> str:
    return _digest({"tokens": vocabulary(tokenizer), "lower_case": is_lower_case(tokenizer)})


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
