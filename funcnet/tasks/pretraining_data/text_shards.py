"""The corpus -> shards of text, every document's role, and the vocabulary. D documents."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from funcnet.data import draw_bits, to_uniform
from funcnet.tasks.pretraining_data.held_out import split_documents
from funcnet.tasks.pretraining_data.manifest import VOCABULARY
from funcnet.tasks.pretraining_data.shard import is_whole, read_shard
from funcnet.tasks.pretraining_data.stages import HELD_OUT, TRAIN, TextTask, has_text, has_tokens, read_text, write_text
from funcnet.tasks.pretraining_data.work import Work
from funcnet.text import Document, load_tokenizer, save_tokenizer, train_wordpiece, vocabulary_digest
from funcnet.text.corpus import empty

SHARD = 16_000_000  # characters of text, give or take a document: what a process has in memory at once
SAMPLE = 32_000_000  # characters that a vocabulary is trained on, at most


@dataclass(frozen=True)
class Documents:
    """What is known of every document of the corpus.

    Attributes:
        characters, sentences: (D,) int64, how long it is.
        digest: (D,) uint64, of its words: equal where it repeats.
        shard: (D,) int64, the shard that it is in.
        role: (D,) uint8, `TRAIN`, `HELD_OUT`, or 0 for one that repeats.
    """

    characters: NDArray[np.int64]
    sentences: NDArray[np.int64]
    digest: NDArray[np.uint64]
    shard: NDArray[np.int64]
    role: NDArray[np.uint8]


def write_texts(work: Work) -> bool:
    """Shards of text: all, or where tokens are there those that something missing follows from; whether any."""
    wanted = _wanted(work)
    if wanted == set():
        return False
    total = sum(source["bytes"] for source in work.told["sources"])
    position = count = 0

    def note(step: str, done: int, _: int) -> None:
        nonlocal position
        position = done

    def tasks() -> Iterator[TextTask]:
        nonlocal count
        for shard, documents in enumerate(_in_shards(work.corpus.documents(note))):
            count = shard + 1
            work.tell("sentences", position, total)
            if (wanted is None or shard in wanted) and not has_text(work.folder, shard, work.plan()):
                texts = [(document.text.encode(), document.wikitext) for document in documents]
                documents.clear()
                yield TextTask(work.folder, shard, work.plan(), work.settings.language, texts)

    work.workers.run(write_text, tasks(), done=lambda shard: work.tell("sentences", position, total))
    work.tell("sentences", total, total)
    work.told["shards"] = count
    if not count:
        raise _empty(work)
    work.write()
    return True


def read_documents(work: Work) -> Documents:
    """The documents of all shards. Those that repeat go, some are held out, the others train.

    Raises:
        ValueError: there are too few.
    """
    columns = [read_shard(work.files.documents(shard))[0] for shard in range(work.told["shards"])]
    found = {name: np.concatenate([one[name] for one in columns]) for name in columns[0]}
    if not len(found["digest"]):
        raise _empty(work)
    kept = np.sort(np.unique(found["digest"], return_index=True)[1])
    train, held_out = split_documents(
        found["characters"][kept],
        work.settings.held_out,
        seed=work.settings.seed,
        usable=found["sentences"][kept] > 1,
    )
    role = np.zeros(len(found["digest"]), np.uint8)
    role[kept[train]], role[kept[held_out]] = TRAIN, HELD_OUT
    shard = np.repeat(np.arange(len(columns)), [len(one["digest"]) for one in columns])
    return Documents(**found, shard=shard, role=role)


def texts_of(folder: Path, documents: Documents, chosen: NDArray[np.bool_]) -> Iterator[list[str]]:
    """The sentences of some documents, in order."""
    for shard in np.unique(documents.shard[chosen]).tolist():
        marks = chosen[documents.shard == shard].tolist()
        for sentences, mark in zip(read_text(folder, shard), marks, strict=True):
            if mark:
                yield sentences


def make_vocabulary(work: Work, documents: Documents) -> None:
    """The vocabulary that was given, or one trained on a sample of the training documents."""
    digest = _vocabulary_in(work.folder)
    if digest is None or digest != work.told["vocabulary"]:
        work.tell("vocabulary", 0, 1)
        settings = work.settings
        if settings.vocab is not None:
            tokenizer = load_tokenizer(settings.vocab, lower_case=False if settings.cased else None)
        else:
            texts = _sample(work, documents)
            tokenizer = train_wordpiece(texts, settings.vocab_size, lower_case=not settings.cased)
        save_tokenizer(tokenizer, work.folder, max_length=max(settings.seq_len))
        work.told["vocabulary"] = vocabulary_digest(tokenizer)
        work.write()
    work.tell("vocabulary", 1, 1)


def has_held_out(work: Work) -> bool:
    """Whether the files of the held-out documents are whole; True where nothing is held out."""
    paths = [work.files.held_out_tokens, *map(work.files.held_out_pairs, work.settings.seq_len)]
    return not work.settings.held_out or all(is_whole(path, work.made_from(path.name)) for path in paths)


def _wanted(work: Work) -> set[int] | None:
    """The shards whose text is read again; None for all."""
    shards = work.told["shards"]
    if shards is None or work.told["vocabulary"] is None or _vocabulary_in(work.folder) is None:
        return None
    if not all(is_whole(work.files.documents(shard), work.plan()) for shard in range(shards)):
        return None
    made_from = work.made_from("tokens")
    missing = {shard for shard in range(shards) if not has_tokens(work.folder, shard, made_from)}
    if missing or not has_held_out(work):  # tokens are compared with what is held out
        documents = read_documents(work)
        missing |= set(documents.shard[documents.role == HELD_OUT].tolist())
    return missing


def _sample(work: Work, documents: Documents) -> Iterator[str]:
    """Training documents drawn at random, some 32 million characters of them; all if there are less."""
    train = documents.role == TRAIN
    share = SAMPLE / max(int(documents.characters[train].sum()), 1)
    chosen = train & (to_uniform(draw_bits(work.settings.seed, np.arange(len(train)))) < share)
    return (" ".join(sentences) for sentences in texts_of(work.folder, documents, chosen))


def _in_shards(documents: Iterable[Document]) -> Iterator[list[Document]]:
    """Documents in lists of some 16 million characters."""
    held: list[Document] = []
    size = 0
    for document in documents:
        held.append(document)
        size += len(document.text)
        if size >= SHARD:
            yield held
            held, size = [], 0
    if held:
        yield held


def _vocabulary_in(folder: Path) -> str | None:
    """The digest of the vocabulary in a folder; None where it is not whole."""
    if not all((folder / name).is_file() for name in VOCABULARY):
        return None
    try:
        return vocabulary_digest(load_tokenizer(folder))
    except ValueError:
        return None


def _empty(work: Work) -> ValueError:
    return empty([source.path for source in work.corpus.sources], len(work.corpus.sources))
