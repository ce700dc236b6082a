"""Put items of similar length into the same batch, so that the batches have few different shapes and little padding.

A jitted function is compiled once for each shape of its inputs. Each batch is therefore padded to one of a few lengths,
the shortest one that is long enough for all its items. The items that are padded to the same length form a bucket.
Items that remain after the full batches of a bucket move to the bucket with the next larger length. An epoch of N items
in batches of B has ceil(N / B) batches, and each item occurs once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from funcnet.arguments import boolean, integer, shown
from funcnet.data.checks import require_numbers, require_positive
from funcnet.data.collate import default_collate
from funcnet.data.hashed_draws import permute
from funcnet.data.sampler import Sampler

__all__ = ["BucketBatchSampler", "PaddedCollate", "bucket_lengths"]

STEP = 8  # padded lengths are multiples of this number


class BucketBatchSampler(Sampler[list[int]]):
    """Groups items of similar length into batches.

    Args:
        lengths: (N,), length of each item.
        batch_size: number of items per batch, B. Only the last batch of an epoch can be smaller.
        boundaries: padded lengths in increasing order, such as `bucket_lengths` returns. The last boundary must be at
            least the longest length.
        shuffle: if True, each epoch uses a different random order of items and batches.
        seed: seed for the random order.

    Raises:
        ValueError: if `batch_size` is below 1, `boundaries` do not increase, or an item is longer than the last
            boundary.
        TypeError: if an argument has the wrong type.

    Differs from torch: torch has no such sampler.

    Example:
        >>> sampler = BucketBatchSampler([3, 6, 4, 9], 2, [4, 16], shuffle=False)
        >>> list(sampler)
        [[0, 2], [1, 3]]
    """

    def __init__(
        self, lengths: ArrayLike, batch_size: int, boundaries: Sequence[int], *, shuffle: bool = True, seed: int = 0
    ):
        self.lengths = np.asarray(lengths)
        if self.lengths.ndim != 1 or (self.lengths.dtype.kind not in "iu" and self.lengths.size):
            raise TypeError(
                f"BucketBatchSampler: lengths are not integers; expected an integer array (N,), got {shown(lengths)}."
            )
        require_positive("BucketBatchSampler", "batch_size", batch_size)
        _check_boundaries("BucketBatchSampler", boundaries)
        boolean("BucketBatchSampler", "shuffle", shuffle)
        integer("BucketBatchSampler", "seed", seed)
        if self.lengths.size and self.lengths.max() > boundaries[-1]:
            place = int(self.lengths.argmax())
            raise ValueError(
                f"BucketBatchSampler: item {place} is too long; expected at most {boundaries[-1]}, the last boundary, "
                f"got {self.lengths[place]}."
            )
        self.batch_size, self.boundaries, self.shuffle, self.seed = batch_size, list(boundaries), shuffle, seed
        self.epoch = 0
        self._bucket = np.searchsorted(self.boundaries, self.lengths)

    def __len__(self) -> int:
        """Return the number of batches in an epoch."""
        return -(-len(self.lengths) // self.batch_size)

    def plan(self, epoch: int) -> list[list[int]]:
        """Return the indices of all batches of an epoch."""
        size = self.batch_size
        order = np.arange(len(self.lengths))
        if self.shuffle:
            order = permute(order, len(order), seed=self.seed, epoch=epoch)
        batches: list[NDArray[np.int64]] = []
        left = order[:0]
        for bucket in range(len(self.boundaries)):
            left = np.concatenate([left, order[self._bucket[order] == bucket]])
            whole = len(left) // size * size
            batches += list(left[:whole].reshape(-1, size))
            left = left[whole:]
        if len(left):
            batches.append(left)
        places = range(len(batches))
        if self.shuffle:
            places = permute(places, len(batches), seed=self.seed + 1, epoch=epoch).tolist()
        return [batches[place].tolist() for place in places]

    def __iter__(self) -> Iterator[list[int]]:
        self.epoch += 1
        return iter(self.plan(self.epoch - 1))


class PaddedCollate:
    """A `collate_fn` that pads the arrays of the items to a common length, and then collates as `default_collate` does.

    The first dimension of each array is padded to the shortest boundary that is long enough for the longest array of
    the batch. Numbers and arrays without dimensions are not padded.

    Args:
        boundaries: padded lengths in increasing order.
        fill: padding value, or a dict from the key of an entry to its padding value. Entries that are not in the dict
            are padded with 0.

    Raises:
        ValueError: if `boundaries` do not increase. ValueError is also raised when called, if an array is longer than
            the last boundary.
        TypeError: if `boundaries` is not a sequence of numbers.

    Example:
        >>> collate = PaddedCollate([4, 8], fill={"label": -100})
        >>> first = {"ids": np.array([5, 6]), "label": np.array([1, 2])}
        >>> batch = collate([first, {"ids": np.array([7]), "label": np.array([3])}])
        >>> batch["ids"].tolist(), batch["label"].tolist()
        ([[5, 6, 0, 0], [7, 0, 0, 0]], [[1, 2, -100, -100], [3, -100, -100, -100]])
    """

    def __init__(self, boundaries: Sequence[int], fill: object = 0):
        _check_boundaries("PaddedCollate", boundaries)
        self.boundaries, self.fill = list(boundaries), fill

    def __call__(self, items: Sequence[Any]) -> Any:
        longest = max((_longest(item) for item in items), default=0)
        place = int(np.searchsorted(self.boundaries, longest))
        if place == len(self.boundaries):
            entry = max(range(len(items)), key=lambda number: _longest(items[number]))
            raise ValueError(
                f"PaddedCollate: entry {entry} of the batch is too long; expected at most {self.boundaries[-1]}, the "
                f"last boundary, got {longest}."
            )
        return default_collate([self._padded(item, self.boundaries[place], self.fill) for item in items])

    def _padded(self, value: Any, length: int, fill: Any) -> Any:
        if isinstance(value, Mapping):
            fills = fill if isinstance(fill, Mapping) else dict.fromkeys(value, fill)
            return {key: self._padded(part, length, fills.get(key, 0)) for key, part in value.items()}
        if isinstance(value, tuple | list) and not _is_sequence_of_numbers(value):
            return type(value)(self._padded(part, length, fill) for part in value)
        array = np.asarray(value)
        if not array.ndim or array.dtype.kind in "SUO":
            return value
        padding = [(0, length - len(array)), *[(0, 0)] * (array.ndim - 1)]
        return np.pad(array, padding, constant_values=0 if isinstance(fill, Mapping) else fill)


def bucket_lengths(lengths: NDArray[np.int64], longest: int, most: int = 4) -> list[int]:
    """Return at most `most` padded lengths, in increasing order, with which the items need the least padding.

    Args:
        lengths: (N,), lengths of the items.
        longest: largest padded length. The other padded lengths are multiples of 8.
        most: maximum number of padded lengths, and thus of the compilations of a jitted function that reads the
            batches.

    Raises:
        TypeError: if an argument has the wrong type.
        ValueError: if `longest` or `most` is below 1.

    Example:
        >>> bucket_lengths(np.array([5, 6, 7, 7, 30, 31, 60]), 64, most=2)
        [8, 64]
        >>> bucket_lengths(np.array([5, 6, 7, 7, 30, 31, 60]), 64, most=3)
        [8, 32, 64]
    """
    require_numbers("bucket_lengths", "lengths", np.asarray(lengths)[:1] if np.ndim(lengths) == 1 else lengths)
    integer("bucket_lengths", "longest", longest, 1)
    integer("bucket_lengths", "most", most, 1)
    rounded = np.minimum(-(-np.maximum(lengths, 1) // STEP) * STEP, longest)
    sizes, counts = np.unique(rounded, return_counts=True)
    total = np.concatenate([[0], np.cumsum(counts)])
    # best[j] is (padded tokens, chosen lengths) for the items of the j shortest sizes. The last length is sizes[j-1].
    nothing: list[int] = []
    best = [(0.0, nothing)] + [(float("inf"), nothing)] * len(sizes)
    for _ in range(min(most, len(sizes))):
        best = [best[0]] + [
            min((best[i][0] + sizes[j - 1] * (total[j] - total[i]), [*best[i][1], int(sizes[j - 1])]) for i in range(j))
            for j in range(1, len(sizes) + 1)
        ]
    return best[-1][1]


def _check_boundaries(where: str, boundaries: Sequence[int]) -> None:
    require_numbers(where, "boundaries", boundaries)
    if list(boundaries) != sorted(set(boundaries)) or not len(boundaries):
        raise ValueError(
            f"{where}: boundaries must increase; expected lengths in increasing order, got {list(boundaries)}."
        )


def _longest(value: object) -> int:
    if isinstance(value, Mapping):
        return max((_longest(part) for part in value.values()), default=0)
    if isinstance(value, tuple | list) and not _is_sequence_of_numbers(value):
        return max((_longest(part) for part in value), default=0)
    array = np.asarray(value)
    return len(array) if array.ndim and array.dtype.kind not in "SUO" else 0


def _is_sequence_of_numbers(value: Sequence[Any]) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], int | float | np.number)
