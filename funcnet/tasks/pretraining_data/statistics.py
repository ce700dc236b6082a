"""What a person wants to know of the data before a model sees it, and the log-probabilities of bare word frequencies.

V vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from funcnet.tasks.pretraining_data.packing import number_of_rows

LONGEST = 512  # what is longer counts as this long in histograms


def unigram_log_probabilities(counts: NDArray[Any]) -> NDArray[np.float32]:
    """The logarithm of each token's frequency, every token counted once more than it was seen (Laplace).

    `-log_probabilities[masked_ids]`, averaged over the masked positions, is the loss to beat before context counts for
    anything.

    Args:
        counts: (V,) how often each token occurs in the training documents.

    Returns:
        (V,) float32, the logarithms of numbers that sum to 1.

    Example:
        >>> np.exp(unigram_log_probabilities(np.array([2, 1, 0]))).round(3).tolist()
        [0.5, 0.333..., 0.16...]
    """
    counts = counts + 1.0
    return np.log(counts / counts.sum()).astype(np.float32)


def describe_documents(sentences: Iterable[tuple[Mapping[str, NDArray[Any]], int]]) -> dict[str, Any]:
    """Documents, sentences and tokens, and how long they are.

    Args:
        sentences: of each shard its columns `length` and `document`, and how many documents it has.

    Returns:
        As JSON takes it; the histograms have a number for each length, the last for all that are longer.
    """
    lengths = np.zeros(LONGEST + 1, np.int64)
    per_document = np.zeros(LONGEST + 1, np.int64)
    documents = alone = tokens = 0
    for columns, number in sentences:
        documents += number
        alone += int((np.bincount(columns["document"], minlength=number) < 2).sum())
        tokens += int(columns["length"].sum(dtype=np.int64))
        lengths += np.bincount(np.minimum(columns["length"], LONGEST), minlength=LONGEST + 1)
        sizes = np.bincount(columns["document"], columns["length"], minlength=number).astype(np.int64)
        per_document += np.bincount(np.minimum(sizes, LONGEST), minlength=LONGEST + 1)
    number = int(lengths.sum())
    return {
        "documents": documents,
        "documents_without_pairs": alone,  # of one sentence, or none
        "sentences": number,
        "tokens": tokens,
        "tokens_per_sentence": round(tokens / number, 2) if number else 0.0,
        "sentence_lengths": lengths.tolist(),
        "document_lengths": per_document.tolist(),
    }


def describe_pairs(passes: Iterable[Iterable[Mapping[str, NDArray[Any]]]], seq_len: int) -> dict[str, Any]:
    """Examples, their lengths, the share of padding and of random pairs, as JSON takes it.

    Args:
        passes: of each pass the columns of each shard, cut to what all passes have.
        seq_len: of full rows.
    """
    lengths = np.zeros((2, seq_len + 1), np.int64)
    random = number = rows = 0
    for shards in passes:
        number += 1
        for columns in shards:
            length = columns["a_length"].astype(np.int64) + columns["b_length"] + 3
            label = columns["is_random_next"].astype(np.int64)
            random += int(label.sum())
            rows += number_of_rows(columns["row"]) if "row" in columns else len(label)
            lengths += np.bincount(length + (seq_len + 1) * label, minlength=2 * (seq_len + 1)).reshape(2, -1)
    total = int(lengths.sum())
    tokens = float((lengths.sum(0) * np.arange(seq_len + 1)).sum())
    mean = tokens / max(total, 1)
    return {
        "examples": total // max(number, 1),
        "passes": number,
        "mean_length": round(mean, 2),
        "full_share": round(float(lengths[:, seq_len].sum() / max(total, 1)), 4),
        "padding_share": round(1 - mean / seq_len, 4),
        "packed_padding_share": round(1 - tokens / seq_len / max(rows, 1), 4),
        "random_next_share": round(random / max(total, 1), 4),
        "lengths": {"next": lengths[0].tolist(), "random": lengths[1].tolist()},
    }


def describe_masks(batch: Mapping[str, NDArray[Any]], mask_id: int) -> dict[str, Any]:
    """How many words a batch hides, and what stands in their places."""
    taken = batch["masked_weights"] == 1
    shown = np.take_along_axis(batch["input_ids"], batch["masked_positions"], 1)[taken]
    was = batch["masked_ids"][taken]
    words = int((batch["attention_mask"].sum(1) - 3).sum())
    share = lambda part, whole: round(float(part.sum() / max(whole, 1)), 4)  # long words may leave nothing hidden
    return {
        "rows": len(taken),
        "hidden_share": share(taken, words),
        "shows_mask": share(shown == mask_id, len(shown)),
        "shows_itself": share(shown == was, len(shown)),
        "shows_another": share((shown != mask_id) & (shown != was), len(shown)),
    }
