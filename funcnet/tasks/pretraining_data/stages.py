"""What a worker does for one shard: text -> sentences -> tokens -> cuts -> pairs. Each is a function of its task alone.

Every stage leaves a file as it is that is whole and made from the same; so a build that was cut off goes on.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from funcnet.files import replacing
from funcnet.tasks.pretraining_data.held_out import HEAD, plain_head, plain_sentences
from funcnet.tasks.pretraining_data.manifest import Directory
from funcnet.tasks.pretraining_data.pairs import AllCuts, Cuts, cut_documents, join_partners
from funcnet.tasks.pretraining_data.shard import is_whole, read_shard, write_shard
from funcnet.tasks.pretraining_data.tokens import TokenizedDocuments, tokenize_documents
from funcnet.text import BulkTokenizer, load_tokenizer, plain_text, split_sentences

MadeFrom = Mapping[str, str]
GROUP = 4000  # sentences tokenised at a time
TRAIN, HELD_OUT = 1, 2  # a document's role; 0 is a duplicate, which is left out


# ------------------------------------------------------------------------------------------------- text -> sentences


@dataclass(frozen=True)
class TextTask:
    """Documents of one shard, as their files hold them: of each its text and whether that is wikitext."""

    folder: Path
    shard: int
    made_from: MadeFrom
    language: str
    documents: Sequence[tuple[bytes, bool]]  # UTF-8, half of what a str of many alphabets takes; whether it is wikitext


def write_text(task: TextTask) -> int:
    """Splits documents into sentences: `text` has a sentence a line and a blank line after each document (Google's
    format), `documents` the characters, a digest and the number of sentences of each. Returns the shard."""
    files, whole = Directory(task.folder), hashlib.sha256()
    columns: dict[str, list[int]] = {"characters": [], "digest": [], "sentences": []}
    with replacing(files.text(task.shard)) as part, part.open("wb") as file:
        for encoded, is_wikitext in task.documents:
            text = encoded.decode()
            text = (plain_text(text) if is_wikitext else text).strip()
            sentences = split_sentences(text, language=task.language)
            if not sentences:  # of markup alone
                continue
            data = "".join(f"{sentence}\n" for sentence in [*sentences, ""]).encode()
            file.write(data)
            whole.update(data)
            digest = hashlib.sha256(" ".join(text.split()).encode()).digest()
            columns["characters"].append(len(text))
            columns["digest"].append(int.from_bytes(digest[:8], "little"))
            columns["sentences"].append(len(sentences))
    arrays = {name: np.array(values, np.uint64 if name == "digest" else np.int64) for name, values in columns.items()}
    write_shard(files.documents(task.shard), arrays, task.made_from, whole.hexdigest())
    return task.shard


def has_text(folder: Path, shard: int, made_from: MadeFrom) -> bool:
    """Whether both files of `write_text` are whole."""
    files = Directory(folder)
    try:
        found = hashlib.sha256(files.text(shard).read_bytes()).hexdigest()
        return is_whole(files.documents(shard), made_from) and read_shard(files.documents(shard))[1] == found
    except (OSError, ValueError):
        return False


def read_text(folder: Path, shard: int) -> Iterator[list[str]]:
    """The documents of a shard, each as its sentences."""
    sentences: list[str] = []
    with Directory(folder).text(shard).open(encoding="utf-8", newline="\n") as file:
        for line in file:
            if line != "\n":
                sentences.append(line[:-1])
            else:
                yield sentences
                sentences = []


# ------------------------------------------------------------------------------------------------ sentences -> tokens


@dataclass(frozen=True)
class TokensTask:
    """A shard's text, with the role of each document."""

    folder: Path
    shard: int
    made_from: MadeFrom
    roles: NDArray[np.uint8]


def has_tokens(folder: Path, shard: int, made_from: MadeFrom) -> bool:
    """Whether both files of `write_tokens` are whole."""
    files = Directory(folder)
    return is_whole(files.tokens(shard), made_from) and is_whole(files.sentences(shard), made_from)


def write_tokens(task: TokensTask) -> int:
    """Tokenises the training documents of a shard; notes which held-out sentences stand among them too."""
    files = Directory(task.folder)
    tokenizer = _bulk_tokenizer(task.folder, tuple(task.made_from.values()))
    known, heads = _held_out_sentences(task.folder, tuple(task.made_from.values()))
    parts: list[TokenizedDocuments] = []
    shared: set[int] = set()
    for documents in _groups(task):
        parts.append(tokenize_documents(documents, tokenizer))
        alike = [sentence for sentences in documents for sentence in sentences if plain_head(sentence) in heads]
        shared.update(known[plain] for plain in plain_sentences(alike) if plain in known)
    counts = [np.diff(part.documents) for part in parts]  # sentences of each document
    lengths = [np.diff(part.sentences).astype(np.int32) for part in parts]
    number = sum(map(len, counts))
    document_of = np.repeat(np.arange(number, dtype=np.int32), _joined(counts, np.int64))
    write_shard(
        files.tokens(task.shard), {"token": _joined([p.tokens for p in parts], tokenizer.dtype)}, task.made_from
    )
    columns = {"length": _joined(lengths, np.int32), "document": document_of}
    write_shard(files.sentences(task.shard), columns, task.made_from, {"documents": number, "shared": sorted(shared)})
    return task.shard


def _groups(task: TokensTask) -> Iterator[list[list[str]]]:
    """A shard's training documents, some thousand sentences at a time."""
    held: list[list[str]] = []
    size = 0
    for sentences, role in zip(read_text(task.folder, task.shard), task.roles.tolist(), strict=True):
        if role == TRAIN:
            held.append(sentences)
            size += len(sentences)
        if size > GROUP:
            yield held
            held, size = [], 0
    if held:
        yield held


def _joined(arrays: Sequence[NDArray[Any]], dtype: DTypeLike) -> NDArray[Any]:
    return np.concatenate([np.empty(0, dtype), *arrays])


@functools.lru_cache(maxsize=1)  # what it has met so far only makes it faster
def _bulk_tokenizer(folder: Path, made_from: tuple[str, ...]) -> BulkTokenizer:
    return BulkTokenizer(load_tokenizer(folder))


@functools.lru_cache(maxsize=1)
def _held_out_sentences(folder: Path, made_from: tuple[str, ...]) -> tuple[dict[str, int], frozenset[str]]:
    """The held-out documents' long sentences as `plain_sentences` gives them, with their numbers; and their heads."""
    file = Directory(folder).held_out_sentences
    lines = file.read_text("utf-8").split("\n") if file.exists() else []
    known = {line: number for number, line in enumerate(lines) if line}
    return known, frozenset(line[:HEAD] for line in known)


def read_tokens(folder: Path, shard: int) -> TokenizedDocuments:
    """A shard's training documents, over the mapped files."""
    files = Directory(folder)
    columns, facts = read_shard(files.sentences(shard))
    tokens = read_shard(files.tokens(shard))[0]["token"]
    bounds = np.searchsorted(columns["document"], np.arange(facts["documents"] + 1))
    return TokenizedDocuments(tokens, np.concatenate([[0], np.cumsum(columns["length"], dtype=np.int64)]), bounds)


# --------------------------------------------------------------------------------------------------- tokens -> pairs


@dataclass(frozen=True)
class PairsTask:
    """One shard's pairs of one pass."""

    folder: Path
    shard: int
    made_from: MadeFrom
    seq_len: int
    number: int
    seed: int
    short_share: float
    first_tokens: Sequence[int]  # of every shard, what stands before it in the corpus
    first_documents: Sequence[int]


def write_cuts(task: PairsTask) -> int:
    """Cuts a shard's documents into pairs; all shards of a pass are cut before one can draw partners."""
    path = Directory(task.folder).cuts(task.seq_len, task.number, task.shard)
    if not is_whole(path, task.made_from):
        cuts = cut_documents(
            read_tokens(task.folder, task.shard),
            seq_len=task.seq_len,
            seed=task.seed,
            number=task.number,
            short_share=task.short_share,
            shard=task.shard,
            first_token=task.first_tokens[task.shard],
            first_document=task.first_documents[task.shard],
        )
        facts = {"lengths": cuts.lengths.tolist(), "counts": cuts.counts.tolist(), "draws": cuts.draws}
        write_shard(path, cuts.columns, task.made_from, facts)
    return task.shard


def write_pairs(task: PairsTask) -> int:
    """Draws the partners of a shard's pairs from all shards."""
    if not has_pairs(task):
        made_from, shards = tuple(task.made_from.values()), len(task.first_tokens)
        cuts = _read_cuts(task.folder, made_from, shards, task.seq_len, task.number)
        pairs = join_partners(cuts, task.shard, seq_len=task.seq_len, seed=task.seed, number=task.number)
        write_shard(Directory(task.folder).pairs(task.seq_len, task.number, task.shard), pairs, task.made_from)
    return task.shard


def has_pairs(task: PairsTask) -> bool:
    """Whether the file of `write_pairs` is whole."""
    return is_whole(Directory(task.folder).pairs(task.seq_len, task.number, task.shard), task.made_from)


def pass_without_pairs(task: PairsTask) -> tuple[int, int] | None:
    """The pass of a task whose pairs are still to be made, as (seq_len, number)."""
    return None if has_pairs(task) else (task.seq_len, task.number)


@functools.lru_cache(maxsize=1)  # all shards of a pass need it
def _read_cuts(folder: Path, made_from: tuple[str, ...], shards: int, seq_len: int, number: int) -> AllCuts:
    """What `write_cuts` wrote for the shards of a pass."""
    found = [read_shard(Directory(folder).cuts(seq_len, number, shard)) for shard in range(shards)]
    return AllCuts(
        [
            Cuts(columns, np.array(facts["lengths"], np.int64), np.array(facts["counts"], np.int64), facts["draws"])
            for columns, facts in found
        ]
    )
