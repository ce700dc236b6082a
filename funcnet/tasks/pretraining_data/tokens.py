"""Sentences -> token ids in one array, and what a document is in it. S sentences, D documents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from funcnet.text import BulkTokenizer


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


def tokenize_documents(documents: Sequence[Sequence[str]], tokenizer: BulkTokenizer) -> TokenizedDocuments:
    """Tokenises documents, given as lists of sentences; sentences without a token (of control characters alone) are
    left out.

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
