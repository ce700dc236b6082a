"""What a person wants to know of the data before a model sees it, and the log-probabilities of bare word frequencies.

V vocabulary.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from funcnet.tasks.pretraining.instances import TokenizedDocuments


def unigram_log_probabilities(tokens: NDArray[Any], vocab_size: int) -> NDArray[np.float32]:
    """The logarithm of each token's frequency, every token counted once more than it was seen (Laplace).

    `-log_probabilities[masked_ids]`, averaged over the masked positions, is the loss to beat before context counts for
    anything.

    Args:
        tokens: ids of the training documents, any shape.
        vocab_size: V.

    Returns:
        (V,) float32, the logarithms of numbers that sum to 1.

    Example:
        >>> np.exp(unigram_log_probabilities(np.array([0, 0, 1]), 3)).round(3).tolist()
        [0.5, 0.333..., 0.16...]
    """
    counts = np.bincount(np.asarray(tokens).reshape(-1), minlength=vocab_size) + 1.0
    return np.log(counts / counts.sum()).astype(np.float32)


def describe_documents(documents: TokenizedDocuments, unknown_id: int) -> dict[str, Any]:
    """Documents, sentences, tokens and the share of unknown ones, as JSON takes it."""
    lengths = np.diff(documents.sentences)
    return {
        "documents": len(documents.documents) - 1,
        "documents_without_pairs": int((np.diff(documents.documents) < 2).sum()),  # of one sentence, or none
        "sentences": len(lengths),
        "tokens": len(documents.tokens),
        "tokens_per_sentence": round(float(lengths.mean()), 2) if len(lengths) else 0.0,
        "unknown_share": round(float((documents.tokens == unknown_id).mean()), 6) if len(documents.tokens) else 0.0,
    }


def describe_pairs(pairs: dict[str, NDArray[Any]], seq_len: int) -> dict[str, Any]:
    """Examples, their lengths, the share of padding and of random pairs, as JSON takes it."""
    length = pairs["a_length"].astype(np.int64) + pairs["b_length"] + 3
    return {
        "examples": int(length.shape[-1]),
        "passes": int(length.shape[0]),
        "mean_length": round(float(length.mean()), 2),
        "full_share": round(float((length == seq_len).mean()), 4),
        "padding_share": round(float(1 - length.mean() / seq_len), 4),
        "random_next_share": round(float(pairs["is_random_next"].mean()), 4),
    }
