"""Tokenised documents -> pairs of segments for next-sentence prediction, as Google's script makes them, and where it
leaks, better.

The tokens of all documents lie in one array, so a segment is a stretch of it, and an instance five numbers: where A
and B start, how long they are, and whether B is random. A pass over 2 million words takes 0.2 s, and its pairs 20
bytes each.

S sentences, D documents, N pairs.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from funcnet.text import split_sentences

Progress = Callable[[str, int, int], None]
CHUNK = 8192  # sentences tokenised at a time: enough for all cores, little enough for a progress bar
TRIES = 16  # rounds of drawing a random partner before the few that are left are searched for


@dataclass(frozen=True)
class TokenizedDocuments:
    """Documents as token ids.

    Attributes:
        tokens: (sum of lengths,) uint16 or int32, sentence after sentence.
        sentences: (S + 1,) int64, where each sentence starts in `tokens`; last, where the last one ends.
        documents: (D + 1,) int64, where each document starts in `sentences`.
    """

    tokens: NDArray[Any]
    sentences: NDArray[np.int64]
    documents: NDArray[np.int64]


def tokenize_documents(
    documents: Sequence[Sequence[str]], tokenizer: Tokenizer, *, progress: Progress | None = None
) -> TokenizedDocuments:
    """Tokenises documents, given as lists of sentences; sentences without a token (of control characters alone) are
    left out.

    Example:
        >>> from funcnet.text import train_wordpiece
        >>> tokenizer = train_wordpiece(["a b c"] * 2, vocab_size=8)
        >>> tokenized = tokenize_documents([["a b", "c"], ["b"]], tokenizer)
        >>> tokenized.tokens.tolist(), tokenized.sentences.tolist(), tokenized.documents.tolist()
        ([5, 6, 7, 6], [0, 2, 3, 4], [0, 2, 3])
    """
    flat = [sentence for document in documents for sentence in document]
    dtype = np.uint16 if tokenizer.get_vocab_size() <= 1 << 16 else np.int32
    parts: list[NDArray[Any]] = []
    lengths: list[int] = []
    for start in range(0, len(flat), CHUNK):
        encoded = tokenizer.encode_batch_fast(flat[start : start + CHUNK], add_special_tokens=False)
        ids = [encoding.ids for encoding in encoded]
        lengths.extend(map(len, ids))
        parts.append(np.fromiter((token for sentence in ids for token in sentence), dtype))
        if progress is not None:
            progress("tokens", min(start + CHUNK, len(flat)), len(flat))
    tokens = np.concatenate([np.empty(0, dtype), *parts])
    counts = np.array(lengths, np.int64)
    document_of = np.repeat(np.arange(len(documents)), [len(document) for document in documents])[counts > 0]
    sentences = np.concatenate([[0], np.cumsum(counts[counts > 0])])
    return TokenizedDocuments(tokens, sentences, np.searchsorted(document_of, np.arange(len(documents) + 1)))


def build_pairs(
    documents: TokenizedDocuments, *, seq_len: int, seed: int, number: int = 0, short_share: float = 0.1
) -> dict[str, NDArray[Any]]:
    """Pairs of segments (A, B) from one pass over the documents, in random order.

    Google's construction: sentences are gathered up to a target length, `seq_len - 3`, or with probability
    `short_share` anything from 2 up to it; a random number of them is A, the rest is what follows. A coin decides: B
    is what follows, or a stretch of another document, and then what follows is put back to start the next pair. While
    the two are too long, the longer loses a token at its front or back.

    Where this differs, because there length gives the answer away (a pair of one sentence is always "random" there,
    and a random B is longer at the end of a document): a pair needs two sentences, and a random B is a stretch that
    follows some A in another document, of the same length before truncation as the B it replaces. So the lengths have
    the same distribution under both labels.

    Args:
        documents: with at least two documents of at least two sentences.
        seq_len: the longest instance, `[CLS]` and both `[SEP]` included; at least 5.
        seed, number: of the pass; another number gives other pairs.
        short_share: of pairs that aim for a shorter length.

    Returns:
        `a_start`, `b_start` (N,) int64 places in `documents.tokens`; `a_length`, `b_length` (N,) int32 >= 1, in sum at
        most `seq_len - 3`; `is_random_next` (N,) uint8; `a_document`, `b_document` (N,) int32.

    Raises:
        ValueError: `seq_len` is below 5, or fewer than two documents can give a pair.

    Example:
        >>> from funcnet.text import train_wordpiece
        >>> tokenizer = train_wordpiece(["a b c d"] * 2, vocab_size=9)
        >>> documents = tokenize_documents([["a b", "c", "d"], ["d c", "b", "a"]], tokenizer)
        >>> pairs = build_pairs(documents, seq_len=8, seed=0)
        >>> all((pairs["a_document"] != pairs["b_document"]) == pairs["is_random_next"])
        True

    Reference: create_instances_from_document in
    https://github.com/google-research/bert/blob/master/create_pretraining_data.py
    """
    if seq_len < 5:
        raise ValueError(
            f"build_pairs: seq_len holds no pair; expected at least 5 ([CLS] a [SEP] b [SEP]), got {seq_len}. Raise it."
        )
    random = np.random.Generator(np.random.Philox([seed % 2**64, number]))
    chunks, is_random = _chunks(documents, seq_len - 3, short_share, random)
    usable = len(np.unique(chunks[:, 3])) if len(chunks) else 0
    if usable < 2:
        raise ValueError(
            "build_pairs: no random next sentence can be drawn; expected at least 2 documents of 2 sentences or "
            f"more, got {usable} "
            f"of {len(documents.documents) - 1}. Give more documents, or say how the files hold them "
            "(--documents blank-line or file; a blank line ends a document)."
        )
    start, middle, end, document = chunks.T
    place = documents.sentences
    rows = np.flatnonzero(is_random)
    partner = np.arange(len(chunks))
    partner[rows] = _partners(place[end] - place[middle], document, rows, random)
    pairs = {
        "a_start": place[start],
        "a_length": place[middle] - place[start],
        "b_start": place[middle][partner],
        "b_length": (place[end] - place[middle])[partner],
    }
    _truncate(pairs, seq_len - 3, random)
    pairs["is_random_next"] = is_random.astype(np.uint8)
    pairs["a_document"], pairs["b_document"] = document.astype(np.int32), document[partner].astype(np.int32)
    order = random.permutation(len(chunks))
    return {name: column[order] for name, column in pairs.items()}


def _chunks(
    documents: TokenizedDocuments, most: int, short_share: float, random: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Cuts documents into (first sentence of A, of B, after B, document), with each chunk's coin: (N, 4), (N,)."""
    found: list[tuple[int, int, int, int]] = []
    coins: list[bool] = []
    places = documents.sentences.tolist()
    bounds = documents.documents.tolist()
    for document, (first, last) in enumerate(pairwise(bounds)):
        draws = iter(random.random((max(last - first, 1), 4)).tolist())  # at most a chunk a sentence
        while last - first >= 2:
            short, length, cut, coin = next(draws)
            target = 2 + int(length * (most - 1)) if short < short_share else most
            end = max(bisect_left(places, places[first] + target, first + 1, last), first + 2)
            if end == last - 1:
                end = last  # one sentence alone makes no pair, and would be lost
            middle = first + 1 + int(cut * (end - first - 1))
            found.append((first, middle, end, document))
            coins.append(coin < 0.5)
            first = middle if coins[-1] else end
    return np.array(found, np.int64).reshape(-1, 4), np.array(coins, np.bool_)


def _partners(
    lengths: NDArray[np.int64], document: NDArray[np.int64], rows: NDArray[np.int64], random: np.random.Generator
) -> NDArray[np.int64]:
    """For each of `rows` a pair of another document whose B is as long; where there is none, the next longer."""
    order = np.argsort(lengths, kind="stable")
    in_order = lengths[order]
    low = np.searchsorted(in_order, lengths[rows], "left")
    high = np.searchsorted(in_order, lengths[rows], "right")
    chosen = np.full(len(rows), -1)
    left = np.arange(len(rows))
    for _ in range(TRIES):
        drawn = order[low[left] + (random.random(len(left)) * (high[left] - low[left])).astype(np.int64)]
        other = document[drawn] != document[rows[left]]
        chosen[left[other]] = drawn[other]
        left = left[~other]
        if not left.size:
            return chosen
    for index in left.tolist():
        chosen[index] = _nearest(order, document, int(low[index]), int(high[index]), document[rows[index]], random)
    return chosen


def _nearest(
    order: NDArray[np.int64], document: NDArray[np.int64], low: int, high: int, own: int, random: np.random.Generator
) -> int:
    """Draws among other documents' pairs in `order[low:high]`, widened upwards, then downwards, until there is one."""
    width = 8
    while True:
        others = order[low:high][document[order[low:high]] != own]
        if others.size:
            return int(others[int(random.random() * others.size)])
        if high >= len(order):
            low = max(low - width, 0)
        high = min(high + width, len(order))
        width *= 2


def _truncate(pairs: dict[str, NDArray[Any]], most: int, random: np.random.Generator) -> None:
    """Cuts tokens from the longer (B where equal), each at the front or back as a coin falls; all at once."""
    a, b = pairs["a_length"], pairs["b_length"]
    excess = np.maximum(a + b - most, 0)
    level = np.minimum(excess, np.abs(a - b))  # cut until both are equal, then by turns
    rest = excess - level
    cut_a = np.where(a > b, level, 0) + rest // 2
    cut_b = np.where(b > a, level, 0) + rest - rest // 2
    for name, length, cut in (("a", a, cut_a), ("b", b, cut_b)):
        pairs[f"{name}_start"] = pairs[f"{name}_start"] + random.binomial(cut, 0.5)
        pairs[f"{name}_length"] = (length - cut).astype(np.int32)


def split_into_sentences(
    documents: Sequence[str], *, language: str = "en", progress: Progress | None = None
) -> list[list[str]]:
    """Each document's sentences."""
    split = []
    for done, document in enumerate(documents):
        split.append(split_sentences(document, language=language))
        if progress is not None:
            progress("sentences", done + 1, len(documents))
    return split
