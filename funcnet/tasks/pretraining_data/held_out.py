"""The choice of held-out documents, and the removal of sentences that they share with training documents.

Letters: D documents.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["HEAD", "drop_shared_sentences", "plain_head", "plain_sentences", "split_documents"]

LEAST = 2  # training documents, and also held-out ones; from a single one, no random next sentence can be drawn
SHARED_WORDS = 8  # words; a repeated sentence of this length was copied, and is not a set phrase ("God bless America.")
MOST = 4_000_000  # characters held out from a corpus of any size: about 8,000 pairs, which every evaluation reads
HEAD = 10  # letters; few different sentences have the same first ten letters
NO_LETTERS = re.compile(r"[^\w\n]+|_+")


def split_documents(
    sizes: Sequence[int] | NDArray[Any],
    share: float,
    *,
    seed: int,
    usable: Sequence[bool] | NDArray[Any] | None = None,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Choose held-out documents at random, up to a share of the text. Return the indices of the training documents and
    of the held-out documents, both int64, in increasing order.

    Documents are visited in a random order that depends on `seed`. Each document is held out, unless the held-out text
    would then exceed the share or four million characters, or fewer than two usable documents would remain for
    training. If fewer than two documents are held out in this way, the two smallest are held out instead.

    Args:
        sizes: (D,) length of each document, in characters.
        share: share of all characters to hold out, in [0, 1). 0 holds out nothing.
        seed: seed of the random order.
        usable: (D,) whether a document has at least two sentences. Documents with fewer sentences are not held out.

    Raises:
        ValueError: if `share` is out of range, or there are too few usable documents.
    """
    if not 0 <= share < 1:
        raise ValueError(f"split_documents: held_out is out of range; expected 0 <= held_out < 1, got {share}.")
    candidates = np.flatnonzero(np.ones(len(sizes), np.bool_) if usable is None else np.asarray(usable, np.bool_))
    least = 2 * LEAST if share else LEAST
    if len(candidates) < least:
        single = "there is no other document to draw a random next sentence from"
        raise ValueError(
            f"split_documents: {single if len(sizes) == 1 else 'too few documents'}; expected at least {least} "
            f"different documents of two sentences or more{' (two to train on, two held out)' if share else ''}, got "
            f"{len(candidates)} (of {len(sizes)} documents). Use more text, or specify how the files are split into "
            "documents: `--documents blank-line` (a blank line ends a document) or `--documents file` (each file is "
            "one document)."
        )
    if not share:
        return np.arange(len(sizes)), np.empty(0, np.int64)
    size = np.asarray(sizes, np.int64)
    room = min(share * size.sum(), MOST)
    chosen: list[int] = []
    for index in np.random.Generator(np.random.Philox([seed % 2**64, 1 << 32])).permutation(candidates).tolist():
        if size[index] <= room and len(chosen) < len(candidates) - LEAST:
            chosen.append(index)
            room -= size[index]
    if len(chosen) < LEAST:
        chosen = candidates[np.argsort(size[candidates], kind="stable")[:LEAST]].tolist()
    held_out = np.sort(np.array(chosen, np.int64))
    return np.setdiff1d(np.arange(len(sizes)), held_out), held_out


def plain_sentences(sentences: Sequence[str]) -> list[str]:
    """Return the sentences of eight words or more, lowercased, with everything but letters and digits removed.

    Example:
        >>> plain_sentences(["Thank you.", "One two three-four five, six seven 8 NINE."])
        ['onetwothreefourfivesixseven8nine']
    """
    long = "\n".join(sentence for sentence in sentences if sentence.count(" ") >= SHARED_WORDS - 1)
    return NO_LETTERS.sub("", long.lower()).split("\n") if long else []


def plain_head(sentence: str) -> str:
    """Return the first ten characters that `plain_sentences` would return for a sentence, at a tenth of the cost.

    >>> plain_head('"One two three-four five, six seven 8 NINE."')
    'onetwothre'
    """
    head = NO_LETTERS.sub("", sentence[: 3 * HEAD].lower())
    return (head if len(head) >= HEAD else NO_LETTERS.sub("", sentence.lower()))[:HEAD]


def drop_shared_sentences(held_out: Sequence[Sequence[str]], shared: Collection[str]) -> tuple[list[list[str]], int]:
    """Drop the sentences of held-out documents whose plain sentence (`plain_sentences`) is in `shared`. Return the
    documents, and the number of dropped sentences.

    Copies of complete documents were dropped earlier. This function drops passages that one document quotes from
    another.
    """
    kept = [
        [sentence for sentence in document if not any(plain in shared for plain in plain_sentences([sentence]))]
        for document in held_out
    ]
    return kept, sum(map(len, held_out)) - sum(map(len, kept))
