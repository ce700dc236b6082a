"""Tokenised documents -> pairs of segments for next-sentence prediction: Google's construction, except where it leaks.

The tokens of all documents are one array, so a segment is a slice of it, and an instance is five numbers: where A and B
start, how long they are, and whether B is random. A pass over 2 million words takes 0.2 s; a pair takes 37 bytes.

There are two steps, because a corpus is in shards and a random B comes from all of them: `cut_documents` cuts one shard
into consecutive pairs, and `join_partners` gives every second pair another B. Both depend on (seed, pass, shard) alone.

S sentences, D documents, N pairs, L lengths.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from funcnet.tasks.pretraining_data.packing import share_rows
from funcnet.tasks.pretraining_data.shard import ShardColumns
from funcnet.tasks.pretraining_data.token_shards import TokenizedDocuments

__all__ = ["AllCuts", "Cuts", "build_pairs", "check_enough_documents", "cut_documents", "join_partners"]

TRIES = 16  # rounds in which random partners are drawn before the remaining pairs search for theirs


def build_pairs(
    documents: TokenizedDocuments, *, seq_len: int, seed: int, number: int = 0, short_share: float = 0.1
) -> ShardColumns:
    """Make pairs of segments (A, B) in one pass over the documents of one shard, in random order.

    Google's construction: sentences are collected up to a target length, which is `seq_len - 3`, or with probability
    `short_share` any length from 2 up to it. A random number of them is A, and the rest is what follows A. A coin
    decides: B is what follows, or a slice of another document; in the second case, what follows starts the next pair.
    While the two are too long, the longer one loses a token at its front or back.

    Differs from Google's script: the target length is drawn for each pair, not once for each document, where a short
    target gives very many short pairs. And lengths do not reveal the label. In Google's script, a pair of one sentence
    is always "random", and a random B is longer at the end of a document. Here a pair needs two sentences, and a random
    B is a slice that follows some A in another document, with the same length before truncation as the B that it
    replaces. So lengths have the same distribution under both labels.

    Args:
        documents: with at least two documents of at least two sentences.
        seq_len: length of the longest instance, `[CLS]` and both `[SEP]` included; at least 5.
        seed, number: of the pass; another number gives other pairs.
        short_share: share of the pairs that aim for a shorter length.

    Returns:
        `a_start`, `b_start` (N,) int64, positions in `documents.tokens`; `a_length`, `b_length` (N,) int32 >= 1, in sum
        at most `seq_len - 3`; `is_random_next` (N,) uint8; `a_document`, `b_document` (N,) int32; `row` (N,) int32,
        ascending: the row that a pair shares with others in a packed run, see `packing`.

    Raises:
        ValueError: `seq_len` is below 5, or fewer than two documents can give a pair.

    Example:
        >>> from funcnet.tasks.pretraining_data.token_shards import tokenize_documents
        >>> from funcnet.text import BulkTokenizer, train_wordpiece
        >>> tokenizer = BulkTokenizer(train_wordpiece(["a b c d"] * 2, vocab_size=9))
        >>> documents = tokenize_documents([["a b", "c", "d"], ["d c", "b", "a"]], tokenizer)
        >>> pairs = build_pairs(documents, seq_len=8, seed=0)
        >>> all((pairs["a_document"] != pairs["b_document"]) == pairs["is_random_next"])
        True

    Reference: create_instances_from_document in
    https://github.com/google-research/bert/blob/master/create_pretraining_data.py
    """
    cuts = cut_documents(documents, seq_len=seq_len, seed=seed, number=number, short_share=short_share)
    check_enough_documents(len(np.unique(cuts.columns["document"])), len(documents.documents) - 1)
    return join_partners(AllCuts([cuts]), 0, seq_len=seq_len, seed=seed, number=number)


@dataclass(frozen=True)
class Cuts:
    """The pairs of one shard in one pass, before any B is exchanged.

    Attributes:
        columns: each (N,). `a_start`, `b_start` int64, positions in the corpus; `a_length`, `b_length` int32;
            `document` int32; `coin` uint8 (1: B will be exchanged); `by_length` int32, rows sorted by `b_length`.
        lengths, counts: (L,) the lengths of B that occur, ascending, and how many pairs have each.
        draws: how many random numbers were used.
    """

    columns: ShardColumns
    lengths: NDArray[np.int64]
    counts: NDArray[np.int64]
    draws: int


def check_enough_documents(usable: int, total: int) -> None:
    """Refuse a corpus in which no random next sentence can be drawn.

    Raises:
        ValueError: fewer than two documents give a pair.
    """
    if usable < 2:
        raise ValueError(
            "build_pairs: no random next sentence can be drawn; expected at least 2 documents of 2 sentences or "
            f"more, got {usable} of {total}. Give more documents, or say how the files are divided into documents "
            "(--documents blank-line or file; a blank line ends a document)."
        )


def cut_documents(
    documents: TokenizedDocuments,
    *,
    seq_len: int,
    seed: int,
    number: int,
    short_share: float = 0.1,
    shard: int = 0,
    first_token: int = 0,
    first_document: int = 0,
) -> Cuts:
    """Cut the documents of one shard into consecutive pairs, and toss their coins.

    Args:
        documents: of the shard.
        seq_len, seed, number, short_share: see `build_pairs`.
        shard: its number, which determines its random numbers.
        first_token, first_document: how many tokens and documents are in the shards before it.

    Raises:
        ValueError: `seq_len` is below 5.
    """
    if seq_len < 5:
        raise ValueError(
            f"build_pairs: seq_len holds no pair; expected at least 5 ([CLS] a [SEP] b [SEP]), got {seq_len}."
        )
    chunks, coins = _chunks(documents, seq_len - 3, short_share, _random(seed, number, shard))
    start, middle, end, document = chunks.T
    place = documents.sentences
    b_length = (place[end] - place[middle]).astype(np.int32)
    columns = {
        "a_start": place[start] + first_token,
        "a_length": (place[middle] - place[start]).astype(np.int32),
        "b_start": place[middle] + first_token,
        "b_length": b_length,
        "document": (document + first_document).astype(np.int32),
        "coin": coins.astype(np.uint8),
        "by_length": np.argsort(b_length, kind="stable").astype(np.int32),
    }
    draws = 4 * int(np.maximum(np.diff(documents.documents), 1).sum())  # as many as `_chunks` draws
    return Cuts(columns, *np.unique(b_length, return_counts=True), draws)


def join_partners(cuts: AllCuts, shard: int, *, seq_len: int, seed: int, number: int) -> ShardColumns:
    """The pairs of one shard in random order, with their random B drawn from the whole corpus.

    Args:
        cuts: of all shards; if they are memory-mapped, little of them is read.
        shard: the number of the shard.
        seq_len, seed, number: as given to `cut_documents`.

    Returns:
        As `build_pairs`.
    """
    random = _random(seed, number, shard)
    own = cuts.shards[shard].columns
    random.random(cuts.shards[shard].draws)
    rows = np.flatnonzero(own["coin"])
    partner = _partners(cuts, own["b_length"][rows], own["document"][rows], random)
    pairs = {
        "a_start": np.array(own["a_start"]),
        "a_length": own["a_length"].astype(np.int64),
        "b_start": np.array(own["b_start"]),
        "b_length": own["b_length"].astype(np.int64),
    }
    b_document = np.array(own["document"])
    pairs["b_start"][rows], pairs["b_length"][rows] = cuts.get("b_start", partner), cuts.get("b_length", partner)
    b_document[rows] = cuts.get("document", partner)
    _truncate(pairs, seq_len - 3, random)
    pairs["is_random_next"] = np.array(own["coin"])
    pairs["a_document"], pairs["b_document"] = np.array(own["document"]), b_document
    order = random.permutation(len(b_document))
    row = share_rows((pairs["a_length"] + pairs["b_length"] + 3)[order], seq_len, random)
    by_row = np.argsort(row, kind="stable")
    return {name: column[order[by_row]] for name, column in pairs.items()} | {"row": row[by_row]}


class AllCuts:
    """The pairs of all shards, sorted by (length of B, shard, row), without making that list.

    A *rank* is a position in it.

    Args:
        shards: of `cut_documents`, one a shard.
    """

    def __init__(self, shards: Sequence[Cuts]):
        self.shards = shards
        self._lengths = np.unique(np.concatenate([one.lengths for one in shards]))  # (L,)
        counts = np.zeros((len(self._lengths), len(shards)), np.int64)
        for shard, one in enumerate(shards):
            counts[np.searchsorted(self._lengths, one.lengths), shard] = one.counts
        self._edges = np.concatenate([[0], np.cumsum(counts)])  # rank of the first pair of (length, shard)
        self._before = (np.cumsum(counts, 0) - counts).reshape(-1)  # how many pairs of the shard have a shorter B

    def __len__(self) -> int:
        return int(self._edges[-1])

    def ranks(self, lengths: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The first rank, and the one after the last, of the pairs with these lengths."""
        at = np.searchsorted(self._lengths, lengths)
        shards = len(self.shards)
        return self._edges[at * shards], self._edges[(at + 1) * shards]

    def get(self, name: str, ranks: NDArray[np.int64]) -> NDArray[Any]:
        """The values of a column at these ranks."""
        cell = np.searchsorted(self._edges, ranks, "right") - 1
        shards = cell % len(self.shards)
        places = self._before[cell] + ranks - self._edges[cell]
        out = np.empty(len(ranks), self.shards[0].columns[name].dtype)
        for shard in np.unique(shards).tolist():
            here = np.flatnonzero(shards == shard)
            columns = self.shards[shard].columns
            out[here] = columns[name][columns["by_length"][places[here]]]
        return out


def _random(seed: int, number: int, shard: int) -> np.random.Generator:
    return np.random.Generator(np.random.Philox([seed % 2**64, number + (shard << 33)]))


def _chunks(
    documents: TokenizedDocuments, most: int, short_share: float, random: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Cut documents into (first sentence of A, of B, after B, document) with a coin each: (N, 4), (N,)."""
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
                end = last  # a single sentence makes no pair and would be lost
            middle = first + 1 + int(cut * (end - first - 1))
            found.append((first, middle, end, document))
            coins.append(coin < 0.5)
            first = middle if coins[-1] else end
    return np.array(found, np.int64).reshape(-1, 4), np.array(coins, np.bool_)


def _partners(
    index: AllCuts, lengths: NDArray[Any], documents: NDArray[Any], random: np.random.Generator
) -> NDArray[np.int64]:
    """For each pair of these lengths and documents, the rank of a pair from another document whose B has the same
    length; if there is none, the next greater length."""
    low, high = index.ranks(lengths)
    chosen = np.full(len(lengths), -1)
    left = np.arange(len(lengths))
    for _ in range(TRIES):
        drawn = low[left] + (random.random(len(left)) * (high[left] - low[left])).astype(np.int64)
        other = index.get("document", drawn) != documents[left]
        chosen[left[other]] = drawn[other]
        left = left[~other]
        if not left.size:
            return chosen
    for row in left.tolist():
        chosen[row] = _nearest(index, int(low[row]), int(high[row]), int(documents[row]), random)
    return chosen


def _nearest(index: AllCuts, low: int, high: int, own: int, random: np.random.Generator) -> int:
    """Draw among the pairs of other documents with ranks low to high; widen that range upwards, then downwards, until
    there is one."""
    width = 8
    while True:
        others = low + np.flatnonzero(index.get("document", np.arange(low, high)) != own)
        if others.size:
            return int(others[int(random.random() * others.size)])
        if high >= len(index):
            low = max(low - width, 0)
        high = min(high + width, len(index))
        width *= 2


def _truncate(pairs: dict[str, NDArray[Any]], most: int, random: np.random.Generator) -> None:
    """Cut tokens from the longer segment (from B if both are equal), each at the front or back by a coin; all pairs at
    once."""
    a, b = pairs["a_length"], pairs["b_length"]
    excess = np.maximum(a + b - most, 0)
    level = np.minimum(excess, np.abs(a - b))  # cut until both are equal, then in turn
    rest = excess - level
    cut_a = np.where(a > b, level, 0) + rest // 2
    cut_b = np.where(b > a, level, 0) + rest - rest // 2
    for name, length, cut in (("a", a, cut_a), ("b", b, cut_b)):
        pairs[f"{name}_start"] = pairs[f"{name}_start"] + random.binomial(cut, 0.5)
        pairs[f"{name}_length"] = (length - cut).astype(np.int32)
