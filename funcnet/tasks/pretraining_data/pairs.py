"""Builds pairs of segments for next-sentence prediction from tokenised documents: Google's construction, changed so
that the lengths of the segments do not reveal the label.

The tokens of all documents are one array, and a segment is a slice of it. A pair consists of five numbers: the starts
of A and B, their lengths, and whether B is random. A pass over 2 million words takes 0.2 s. A pair takes 37 bytes.

There are two steps, because the corpus is divided into shards and a random B may come from any shard. `cut_documents`
cuts one shard into consecutive pairs, and `join_partners` gives about half of the pairs a random B. The random numbers
of both functions depend only on (seed, pass, shard).

Letters: S sentences, D documents, N pairs, L lengths.
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

TRIES = 16  # rounds of random draws, after which the remaining pairs search for a partner


def build_pairs(
    documents: TokenizedDocuments, *, seq_len: int, seed: int, number: int = 0, short_share: float = 0.1
) -> ShardColumns:
    """Build pairs of segments (A, B) in one pass over the documents of one shard. The pairs are in random order.

    Google's construction collects sentences up to a target length. The target length is `seq_len - 3` or, with
    probability `short_share`, a random length from 2 to `seq_len - 3`. The first few of these sentences are A; their
    number is random. With probability 0.5, B is the rest of these sentences. Otherwise, B is a slice of another
    document, and the next pair starts with the remaining sentences. While A and B together exceed `seq_len - 3` tokens,
    one token is cut from the front or the back of the longer segment.

    Differs from Google's script in two ways. First, the target length is drawn once per pair and not once per document,
    because a short target for a document gives very many short pairs. Second, the lengths do not reveal the label. In
    Google's script, a pair of one sentence is always "random", and a random B is longer at the end of a document. Here,
    a pair has at least two sentences. A random B is a slice that follows some A in another document. Before truncation,
    it has the same length as the B that it replaces. So the lengths have the same distribution under both labels.

    Args:
        documents: the documents, at least two of which must have at least two sentences.
        seq_len: maximum length of a row, including `[CLS]` and both `[SEP]`. At least 5.
        seed, number: the seed, and the number of the pass. Each pass number gives different pairs.
        short_share: share of the pairs with a shorter target length.

    Returns:
        A dict of columns (N,). `a_start` and `b_start` (int64) are positions in `documents.tokens`. `a_length` and
        `b_length` (int32) are at least 1, and their sum is at most `seq_len - 3`. `is_random_next` is uint8.
        `a_document` and `b_document` (int32) are indices of documents. `row` (int32) is the number of the packed row
        (see `packing`), in increasing order.

    Raises:
        ValueError: if `seq_len` is below 5, or fewer than two documents can give a pair.

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
    """The pairs of one shard in one pass, before any B is replaced.

    Attributes:
        columns: a dict of columns (N,). `a_start` and `b_start` (int64) are positions in the corpus. `a_length`,
            `b_length` and `document` are int32. `coin` (uint8) is 1 if B will be replaced by a random segment.
            `by_length` (int32) lists the pairs in the order of `b_length`.
        lengths, counts: (L,) the lengths of B that occur, in increasing order, and the number of pairs with each
            length.
        draws: number of random numbers that `cut_documents` has used.
    """

    columns: ShardColumns
    lengths: NDArray[np.int64]
    counts: NDArray[np.int64]
    draws: int


def check_enough_documents(usable: int, total: int) -> None:
    """Raise ValueError for a corpus that has too few documents to draw a random next sentence from another document."""
    if usable < 2:
        raise ValueError(
            "build_pairs: no random next sentence can be drawn; expected at least 2 documents of 2 sentences or more, "
            f"got {usable} of {total}. Use more documents, or specify how the files are split into documents: "
            "`--documents blank-line` (a blank line ends a document) or `--documents file` (each file is one document)."
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
    """Cut the documents of one shard into consecutive pairs, and draw for each pair whether B will be replaced by a
    random segment.

    `shard` is the number of the shard, on which the random numbers depend. `first_token` and `first_document` are the
    numbers of tokens and documents in earlier shards. For the other arguments, see `build_pairs`.
    """
    if seq_len < 5:
        raise ValueError(
            f"build_pairs: seq_len is too small for a pair; expected at least 5 ([CLS] a [SEP] b [SEP]), got {seq_len}."
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
    draws = 4 * int(np.maximum(np.diff(documents.documents), 1).sum())  # the number of draws in `_chunks`
    return Cuts(columns, *np.unique(b_length, return_counts=True), draws)


def join_partners(cuts: AllCuts, shard: int, *, seq_len: int, seed: int, number: int) -> ShardColumns:
    """Return the pairs of one shard in random order, with random B drawn from the complete corpus, as `build_pairs`
    returns them.

    `cuts` are the cuts of all shards. If the cuts are memory-mapped, only a small part of them is read. `seq_len`,
    `seed` and `number` must be the values that were passed to `cut_documents`.
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
    """The pairs of all shards, sorted by (length of B, shard, row). The sorted list of all pairs is not stored in
    memory.

    A *rank* is a position in the sorted list.

    Args:
        shards: results of `cut_documents`, one per shard.
    """

    def __init__(self, shards: Sequence[Cuts]):
        self.shards = shards
        self._lengths = np.unique(np.concatenate([one.lengths for one in shards]))  # (L,)
        counts = np.zeros((len(self._lengths), len(shards)), np.int64)
        for shard, one in enumerate(shards):
            counts[np.searchsorted(self._lengths, one.lengths), shard] = one.counts
        self._edges = np.concatenate([[0], np.cumsum(counts)])  # rank of the first pair of (length, shard)
        self._before = (np.cumsum(counts, 0) - counts).reshape(-1)  # number of pairs of the shard with a shorter B

    def __len__(self) -> int:
        return int(self._edges[-1])

    def ranks(self, lengths: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """For each length, find the pairs whose B has this length. Return their first rank, and their last rank plus
        one.
        """
        at = np.searchsorted(self._lengths, lengths)
        shards = len(self.shards)
        return self._edges[at * shards], self._edges[(at + 1) * shards]

    def get(self, name: str, ranks: NDArray[np.int64]) -> NDArray[Any]:
        """Return the values of the column `name` for the pairs with these ranks."""
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
    """Cut documents into pairs. Return (N, 4) rows of (first sentence of A, first sentence of B, end of B, document),
    and the coins (N,), which say whether B will be replaced.
    """
    found: list[tuple[int, int, int, int]] = []
    coins: list[bool] = []
    places = documents.sentences.tolist()
    bounds = documents.documents.tolist()
    for document, (first, last) in enumerate(pairwise(bounds)):
        draws = iter(random.random((max(last - first, 1), 4)).tolist())  # at most one chunk per sentence
        while last - first >= 2:
            short, length, cut, coin = next(draws)
            target = 2 + int(length * (most - 1)) if short < short_share else most
            end = max(bisect_left(places, places[first] + target, first + 1, last), first + 2)
            if end == last - 1:
                end = last  # a single sentence cannot be a pair and would be lost
            middle = first + 1 + int(cut * (end - first - 1))
            found.append((first, middle, end, document))
            coins.append(coin < 0.5)
            first = middle if coins[-1] else end
    return np.array(found, np.int64).reshape(-1, 4), np.array(coins, np.bool_)


def _partners(
    index: AllCuts, lengths: NDArray[Any], documents: NDArray[Any], random: np.random.Generator
) -> NDArray[np.int64]:
    """For each pair, draw a pair of another document whose B has the same length. If there is none, draw a pair whose B
    has a similar length (see `_nearest`). Return the ranks of the drawn pairs.

    `lengths` and `documents` are the length of B and the document of each pair.
    """
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
    """Draw a pair of another document with a rank from `low` to `high - 1`. If there is none, widen the range upwards,
    and beyond the last rank also downwards.
    """
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
    """Cut tokens from the longer segment, or from B if both have the same length, at the front or the back at random.
    All pairs are cut at once.
    """
    a, b = pairs["a_length"], pairs["b_length"]
    excess = np.maximum(a + b - most, 0)
    level = np.minimum(excess, np.abs(a - b))  # cut until both are equal, then alternately
    rest = excess - level
    cut_a = np.where(a > b, level, 0) + rest // 2
    cut_b = np.where(b > a, level, 0) + rest - rest // 2
    for name, length, cut in (("a", a, cut_a), ("b", b, cut_b)):
        pairs[f"{name}_start"] = pairs[f"{name}_start"] + random.binomial(cut, 0.5)
        pairs[f"{name}_length"] = (length - cut).astype(np.int32)
