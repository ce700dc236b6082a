"""Splits the corpus into shards of text with one sentence per line, and makes a table of all its documents.

Letters: D documents.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from funcnet.files import file_digest, replacing
from funcnet.tasks.pretraining_data.build_state import BuildState
from funcnet.tasks.pretraining_data.held_out import split_documents
from funcnet.tasks.pretraining_data.manifest import DataFiles
from funcnet.tasks.pretraining_data.shard import is_whole, read_shard, write_shard
from funcnet.text import empty_corpus, plain_text, split_sentences

__all__ = [
    "HELD_OUT",
    "TRAIN",
    "DocumentTable",
    "in_groups",
    "read_document_table",
    "read_text_shard",
    "write_text_shards",
]

Item = TypeVar("Item")

# Characters of text in a shard, which ends with a complete document. A process has one shard in memory at a time.
SHARD = 16_000_000
TRAIN, HELD_OUT = 1, 2  # the role of a document; 0 is a duplicate, which is not used


@dataclass(frozen=True)
class DocumentTable:
    """A table of all documents of the corpus.

    Attributes:
        characters, sentences: (D,) int64, the length of each document in characters and in sentences.
        digest: (D,) uint64, a digest of the words of each document. Duplicates have equal digests.
        shard: (D,) int64, the shard that contains each document.
        role: (D,) uint8, `TRAIN`, `HELD_OUT`, or 0 for a duplicate of an earlier document.
    """

    characters: NDArray[np.int64]
    sentences: NDArray[np.int64]
    digest: NDArray[np.uint64]
    shard: NDArray[np.int64]
    role: NDArray[np.uint8]

    def texts(self, folder: Path, chosen: NDArray[np.bool_]) -> Iterator[list[str]]:
        """Yield the documents at which the mask `chosen` (D,) is True, in the order of the corpus, each as a list of
        sentences. The data directory must contain the text of the chosen documents.
        """
        for shard in np.unique(self.shard[chosen]).tolist():
            marks = chosen[self.shard == shard].tolist()
            yield from (text for text, mark in zip(read_text_shard(folder, shard), marks, strict=True) if mark)


def write_text_shards(build: BuildState, wanted: Collection[int] | None) -> None:
    """Read the corpus, write the `wanted` shards of text unless they are complete, and record the total number of
    shards in the manifest. If `wanted` is None, all shards are written.
    """
    total = sum(source.bytes for source in build.manifest.sources)
    position = count = 0

    def note(step: str, done: int, _: int) -> None:
        nonlocal position
        position = done

    def tasks() -> Iterator[tuple[object, ...]]:
        nonlocal count
        origin, language = build.manifest.origin("documents"), build.settings.text.language
        for shard, documents in enumerate(in_groups(build.corpus.documents(note), lambda one: len(one.text), SHARD)):
            count = shard + 1
            build.progress("sentences", position, total)
            if (wanted is None or shard in wanted) and not _has_text(build.folder, shard, origin):
                # UTF-8 takes half of the memory of a str in many alphabets
                texts = [(one.text.encode(), one.hidden if one.wikitext else None) for one in documents]
                documents.clear()
                yield build.folder, shard, origin, language, texts

    build.pool.run(_write_text, tasks(), done=lambda _: build.progress("sentences", position, total))
    build.progress("sentences", total, total)
    if not count:
        raise empty_corpus([source.path for source in build.corpus.sources])
    build.manifest.shards = count
    build.save()


def read_document_table(build: BuildState) -> DocumentTable:
    """Return the documents of all shards, divided into duplicates, held-out documents and training documents."""
    columns = [read_shard(build.files.shard("documents", n))[0] for n in range(build.manifest.shards or 0)]
    found = {name: np.concatenate([one[name] for one in columns]) for name in columns[0]}
    if not len(found["digest"]):
        raise empty_corpus([source.path for source in build.corpus.sources])
    first = np.sort(np.unique(found["digest"], return_index=True)[1])
    train, held_out = split_documents(
        found["characters"][first],
        build.settings.text.held_out,
        seed=build.settings.seed,
        usable=found["sentences"][first] > 1,
    )
    role = np.zeros(len(found["digest"]), np.uint8)
    role[first[train]], role[first[held_out]] = TRAIN, HELD_OUT
    shard = np.repeat(np.arange(len(columns)), [len(one["digest"]) for one in columns])
    return DocumentTable(**found, shard=shard, role=role)


def read_text_shard(folder: Path, shard: int) -> Iterator[list[str]]:
    """Yield the documents of a shard, each as a list of sentences."""
    sentences: list[str] = []
    with DataFiles(folder).text(shard).open(encoding="utf-8", newline="\n") as file:
        for line in file:
            if line != "\n":
                sentences.append(line[:-1])
            else:
                yield sentences
                sentences = []


def _write_text(
    folder: Path,
    shard: int,
    origin: Mapping[str, str],
    language: str,
    documents: Sequence[tuple[bytes, tuple[str, ...] | None]],
) -> None:
    """Split documents, given as (UTF-8 text, `Document.hidden` of wikitext or None), into sentences, and write them.

    The file `text` has one sentence per line and a blank line after each document (Google's format). The file
    `documents` has the number of characters, a digest and the number of sentences of each document.
    """
    files, whole = DataFiles(folder), hashlib.sha256()
    columns: dict[str, list[int]] = {"characters": [], "digest": [], "sentences": []}
    with replacing(files.text(shard)) as part, part.open("wb") as file:
        for encoded, hidden in documents:
            text = encoded.decode()
            text = (text if hidden is None else plain_text(text, hidden=hidden)).strip()
            sentences = split_sentences(text, language=language)
            if not sentences:  # the document has only markup
                continue
            data = "".join(f"{sentence}\n" for sentence in [*sentences, ""]).encode()
            file.write(data)
            whole.update(data)
            digest = hashlib.sha256(" ".join(text.split()).encode()).digest()
            columns["characters"].append(len(text))
            columns["digest"].append(int.from_bytes(digest[:8], "little"))
            columns["sentences"].append(len(sentences))
    arrays = {name: np.array(values, np.uint64 if name == "digest" else np.int64) for name, values in columns.items()}
    write_shard(files.shard("documents", shard), arrays, origin, whole.hexdigest())


def _has_text(folder: Path, shard: int, origin: Mapping[str, str]) -> bool:
    """Return whether both files that `_write_text` writes for a shard are complete."""
    files = DataFiles(folder)
    path = files.shard("documents", shard)
    try:
        return is_whole(path, origin) and read_shard(path)[1] == file_digest(files.text(shard))
    except (OSError, ValueError):
        return False


def in_groups(items: Iterable[Item], size_of: Callable[[Item], int], enough: int) -> Iterator[list[Item]]:
    """Group consecutive items into lists. A list ends as soon as the sum of `size_of(item)` over its items reaches
    `enough`.
    """
    found: list[Item] = []
    size = 0
    for item in items:
        found.append(item)
        size += size_of(item)
        if size >= enough:
            yield found
            found, size = [], 0
    if found:
        yield found
