"""A text longer than a row, read whole: in parts of equal length, each a row of its own."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Part", "mean_of_parts", "read_parts"]


class Part(NamedTuple):
    """One row.

    Attributes:
        ids: (T,) `[CLS] part [SEP]`.
        type_ids: (T,) zeros.
    """

    ids: list[int]
    type_ids: list[int]


def read_parts(ids: Sequence[int], special: dict[str, int], seq_len: int) -> list[Part]:
    """The rows that a text is read in: as few as hold it, and of equal length but for a token.

    Equal, because a short rest behind full rows would weigh as much as they do where their logits are averaged.

    Args:
        ids: of the text's tokens, without special ones.
        special: ids of `[CLS]` and `[SEP]`.
        seq_len: the most tokens of a row, special ones included; at least 3, which the callers see to.

    Returns:
        At least one, in order; of an empty text one without a token of its own.

    Example:
        >>> [part.ids for part in read_parts([5, 6, 7, 8], {"[CLS]": 2, "[SEP]": 3}, seq_len=5)]
        [[2, 5, 6, 3], [2, 7, 8, 3]]
    """
    count = max(1, -(-len(ids) // (seq_len - 2)))
    ends = [len(ids) * part // count for part in range(count + 1)]
    rows = [[special["[CLS]"], *ids[a:b], special["[SEP]"]] for a, b in itertools.pairwise(ends)]
    return [Part(row, [0] * len(row)) for row in rows]


def mean_of_parts(logits: NDArray[Any], counts: Sequence[int]) -> NDArray[Any]:
    """What a model says of whole texts: the mean of what it says of their parts.

    Args:
        logits: (P, C) of all parts, text after text.
        counts: (N,) parts of each text, at least one; P together.

    Returns:
        (N, C)

    Example:
        >>> mean_of_parts(np.array([[1.0, 0.0], [3.0, 4.0], [5.0, 6.0]]), [2, 1]).tolist()
        [[2.0, 2.0], [5.0, 6.0]]
    """
    starts = np.cumsum([0, *counts[:-1]])
    means: NDArray[Any] = np.add.reduceat(logits, starts) / np.asarray(counts)[:, None]
    return means
