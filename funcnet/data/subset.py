"""Parts of a dataset."""

from __future__ import annotations

import copy
import itertools
import math
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from funcnet.arguments import integer, shown
from funcnet.data.checks import refuse_generator, require_items, require_numbers
from funcnet.data.dataset import Dataset
from funcnet.data.gather import Items, SizedItems
from funcnet.data.hashed_draws import permute
from funcnet.data.nested import at_epoch, read

__all__ = ["Subset", "random_split"]

T_co = TypeVar("T_co", covariant=True)


class Subset(Dataset[T_co]):
    """A dataset that contains selected items of another map-style dataset.

    Args:
        dataset: the dataset.
        indices: indices of the items.

    Raises:
        TypeError: if `dataset` has no items, or `indices` is not a sequence of integers.

    Example:
        >>> list(Subset(["a", "b", "c"], [2, 0]))
        ['c', 'a']

    Reference: torch.utils.data.Subset
    """

    def __init__(self, dataset: Items, indices: Sequence[int]):
        require_items("Subset", "dataset", dataset, length=False)
        _check_indices(indices)
        self.dataset, self.indices = dataset, indices

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, list):
            return self.dataset[[self.indices[place] for place in index]]
        return self.dataset[self.indices[index]]

    def __getitems__(self, indices: list[int]) -> Any:
        """Return a list of the items at `indices`, or a complete batch if the dataset returns complete batches."""
        return read(self.dataset, [int(self.indices[index]) for index in indices])

    def at_epoch(self, epoch: int) -> Subset[T_co]:
        """Return the subset from which the items of epoch number `epoch` are read."""
        new = copy.copy(self)
        new.dataset = at_epoch(self.dataset, epoch)
        return new


def random_split(
    dataset: SizedItems, lengths: Sequence[float], generator: None = None, *, seed: int = 0
) -> list[Subset[Any]]:
    """Split a dataset into random parts that do not overlap.

    Args:
        dataset: a map-style dataset with a length N.
        lengths: the number of items in each part, or the fraction of the items in each part. Fractions must sum to 1.
            The number of items for a fraction is rounded down, and the first parts get one of the remaining items each.
        generator: must be None. Pass `seed` instead.
        seed: seed for the random order.

    Returns:
        A list of `Subset`s.

    Raises:
        ValueError: if the lengths do not sum to N, a length is negative, or a fraction is not between 0 and 1.
        TypeError: if an argument has the wrong type.

    Warns:
        UserWarning: if a part that is given as a fraction is empty.

    Example:
        >>> [len(part) for part in random_split(range(10), [0.5, 0.3, 0.2])]
        [5, 3, 2]

    Reference: torch.utils.data.random_split
    """
    refuse_generator("random_split", generator)
    require_items("random_split", "dataset", dataset)
    require_numbers("random_split", "lengths", lengths)
    integer("random_split", "seed", seed)
    size = len(dataset)
    counts: list[Any] = list(lengths)
    if math.isclose(sum(counts), 1) and sum(counts) <= 1:
        for place, fraction in enumerate(counts):
            if not 0 <= fraction <= 1:
                raise ValueError(f"random_split: Fraction at index {place} is not between 0 and 1, got {fraction}.")
        counts = [math.floor(size * fraction) for fraction in counts]
        for place in range(size - sum(counts)):
            counts[place % len(counts)] += 1
        for place, count in enumerate(counts):
            if count == 0:
                warnings.warn(
                    f"random_split: Length of split at index {place} is 0. This might result in an empty dataset.",
                    UserWarning,
                    stacklevel=2,
                )
    if sum(counts) != size:
        raise ValueError(
            "random_split: Sum of input lengths does not equal the length of the input dataset; expected "
            f"{size}, got {sum(counts)}."
        )
    for place, count in enumerate(counts):
        integer("random_split", f"lengths[{place}]", count, 0)
    order = permute(range(size), size, seed=seed, epoch=0).tolist() if size else []
    ends = list(itertools.accumulate(int(count) for count in counts))
    return [Subset(dataset, order[end - int(count) : end]) for end, count in zip(ends, counts, strict=True)]


def _check_indices(indices: Any) -> None:
    """Check that indices are a sequence, and that the first one is an integer."""
    is_sequence = hasattr(indices, "__len__") and hasattr(indices, "__getitem__") and not isinstance(indices, Mapping)
    first = indices[0] if is_sequence and len(indices) else 0
    if not is_sequence or not hasattr(first, "__index__") or isinstance(first, bool) or np.ndim(first):
        raise TypeError(
            f"Subset: indices is not a sequence of integers; expected a list of integers, got {shown(indices)}."
        )
