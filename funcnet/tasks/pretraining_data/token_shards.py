"""Builds shards of token ids from shards of text. Letters: S sentences, D documents."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from funcnet.tasks.pretraining_data.build_state import BuildState
from funcnet.tasks.pretraining_data.held_out import HEAD, plain_head, plain_sentences
from funcnet.tasks.pretraining_data.manifest import DataFiles
from funcnet.tasks.pretraining_data.shard import is_whole, read_shard, write_shard
from funcnet.tasks.pretraining_data.text_shards import TRAIN, DocumentTable, in_groups, read_text_shard
from funcnet.text import BulkTokenizer, load_tokenizer

__all__ = ["TokenizedDocuments", "missing_tokens", "read_token_shard", "tokenize_documents", "write_token_shards"]

GROUP = 4000  # number of sentences that are tokenised at a time


@dataclass(frozen=True)
class TokenizedDocuments:
    """Documents as token ids in a single array.

    Attributes:
        tokens: (sum of lengths,) uint16 or int32, the concatenated sentences.
        sentences: (S + 1,) int64, the start of each sentence in `tokens`, and the end of the last one.
        documents: (D + 1,) int64, the start of each document in `sentences`, and the end of the last one.
    """

    tokens: NDArray[Any]
    sentences: NDArray[np.int64]
    documents: NDArray[np.int64]


def tokenize_documents(documents: Sequence[Sequence[str]], tokenizer: BulkTokenizer) -> TokenizedDocuments:
    """Tokenise documents, given as lists of sentences. Sentences without a token (those with only control characters)
    are dropped.

    Example:
        >>> from funcnet.text import train_wordpiece
        >>> tokenizer = BulkTokenizer(train_wordpiece(["a b c"] * 2, vocab_size=8))
        >>> tokenized = tokenize_documents([["a b", "c"], ["b"]], tokenizer)
        >>> tokenized.tokens.tolist(), tokenized.sentences.tolist(), tokenized.documents.tolist()
        ([5, 6, 7, 6], [0, 2, 3, 4], [0, 2, 3])
    """
    tokens, lengths = tokenizer([sentence for document in documents for sentence in document])
    document_of = np.repeat(np.arange(len(documents)), [len(document) for document in documents])[lengths > 0]
    sentences = np.concatenate([[0], np.cumsum(lengths[lengths > 0])])
    return TokenizedDocuments(tokens, sentences, np.searchsorted(document_of, np.arange(len(documents) + 1)))


def missing_tokens(build: BuildState) -> list[int]:
    """Return the numbers of the shards whose files of token ids are not complete."""
    origin, shards = build.manifest.origin("tokens"), range(build.manifest.shards or 0)
    kinds = ("tokens", "sentences")
    return [n for n in shards if not all(is_whole(build.files.shard(kind, n), origin) for kind in kinds)]


def write_token_shards(build: BuildState, documents: DocumentTable) -> set[int]:
    """Write the tokens of every shard that is not complete. Return the line numbers of the held-out sentences that
    training documents also contain. The numbers count the lines of the file `DataFiles.held_out_sentences`, from 0.
    """
    origin, missing, shards = build.manifest.origin("tokens"), missing_tokens(build), build.manifest.shards or 0
    tasks = [(build.folder, shard, origin, documents.role[documents.shard == shard]) for shard in missing]
    build.run("tokens", _write_tokens, tasks, done=shards - len(missing), total=shards)
    facts = (read_shard(build.files.shard("sentences", shard))[1] for shard in range(shards))
    return {number for one in facts for number in one["shared"]}


def read_token_shard(folder: Path, shard: int) -> TokenizedDocuments:
    """Return the training documents of a shard, memory-mapped."""
    files = DataFiles(folder)
    columns, facts = read_shard(files.shard("sentences", shard))
    tokens = read_shard(files.shard("tokens", shard))[0]["token"]
    bounds = np.searchsorted(columns["document"], np.arange(facts["documents"] + 1))
    return TokenizedDocuments(tokens, np.concatenate([[0], np.cumsum(columns["length"], dtype=np.int64)]), bounds)


def _write_tokens(folder: Path, shard: int, origin: Mapping[str, str], roles: NDArray[np.uint8]) -> None:
    """Tokenise the training documents of a shard, and record which held-out sentences they contain. `roles` says for
    each document in the shard whether it is for training, held out or a duplicate.
    """
    files, made_from = DataFiles(folder), tuple(origin.values())
    tokenizer = _bulk_tokenizer(folder, made_from)
    known, heads = _held_out_sentences(folder, made_from)
    parts: list[TokenizedDocuments] = []
    shared: set[int] = set()
    texts = zip(read_text_shard(folder, shard), roles.tolist(), strict=True)
    for documents in in_groups((text for text, role in texts if role == TRAIN), len, GROUP):
        parts.append(tokenize_documents(documents, tokenizer))
        alike = [sentence for sentences in documents for sentence in sentences if plain_head(sentence) in heads]
        shared.update(known[plain] for plain in plain_sentences(alike) if plain in known)
    counts = [np.diff(part.documents) for part in parts]  # sentences of each document
    lengths = [np.diff(part.sentences).astype(np.int32) for part in parts]
    number = sum(map(len, counts))
    document_of = np.repeat(np.arange(number, dtype=np.int32), _joined(counts, np.int64))
    tokens = _joined([part.tokens for part in parts], tokenizer.dtype)
    write_shard(files.shard("tokens", shard), {"token": tokens}, origin)
    columns = {"length": _joined(lengths, np.int32), "document": document_of}
    write_shard(files.shard("sentences", shard), columns, origin, {"documents": number, "shared": sorted(shared)})


def _joined(arrays: Sequence[NDArray[Any]], dtype: DTypeLike) -> NDArray[Any]:
    return np.concatenate([np.empty(0, dtype), *arrays])


@functools.lru_cache(maxsize=1)  # a tokenizer caches the words that it has seen
def _bulk_tokenizer(folder: Path, made_from: tuple[str, ...]) -> BulkTokenizer:
    return BulkTokenizer(load_tokenizer(folder))


@functools.lru_cache(maxsize=1)
def _held_out_sentences(folder: Path, made_from: tuple[str, ...]) -> tuple[dict[str, int], frozenset[str]]:
    """Return the long sentences of the held-out documents as {plain sentence: line number}. Return also the set of the
    first letters (`plain_head`) of these sentences. See `plain_sentences`.
    """
    file = DataFiles(folder).held_out_sentences
    lines = file.read_text("utf-8").split("\n") if file.exists() else []
    known = {line: number for number, line in enumerate(lines) if line}
    return known, frozenset(line[:HEAD] for line in known)
