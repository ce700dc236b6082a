"""Samplers: the order in which a `DataLoader` reads a map-style dataset.

The samplers of single indices in this module are subclasses of `OrderedSampler`. Their `order(epoch, positions)` is a
pure function, so any part of any epoch can be computed without the parts before it. N is the number of items of the
dataset.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Sized
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from funcnet.arguments import integer, shown
from funcnet.data.checks import refuse_generator, require_items, require_iterable, require_positive
from funcnet.data.hashed_draws import draw_bits, permute, to_integers, to_uniform

__all__ = [
    "BatchSampler",
    "OrderedSampler",
    "RandomSampler",
    "Sampler",
    "SequentialSampler",
    "SubsetRandomSampler",
    "WeightedRandomSampler",
    "require_sized",
]

T_co = TypeVar("T_co", covariant=True)
CHUNK = 4096  # positions that an iterator computes at once


class Sampler(Generic[T_co]):
    """Base class of samplers. A subclass defines `__iter__`, which yields indices, and usually `__len__`.

    A `DataLoader` accepts any iterable of indices as its sampler. If the sampler has `set_epoch`, the loader calls this
    method when it continues from a saved position or reads given steps, but not before an ordinary pass. A position
    contains the attribute `epoch` of the sampler, if it has one, so that the order is that of the interrupted pass.

    Example:
        >>> class Backwards(Sampler):
        ...     def __iter__(self):
        ...         return iter([2, 1, 0])
        >>> list(Backwards())
        [2, 1, 0]

    Reference: torch.utils.data.Sampler
    """

    def __init__(self, data_source: object = None):
        pass

    def __iter__(self) -> Iterator[T_co]:
        raise NotImplementedError(f"{type(self).__name__}: the sampler has no order; expected a method __iter__.")


class OrderedSampler(Sampler[int]):
    """Base class of samplers whose order is a pure function of the epoch and the position.

    A subclass defines `size` and `order`. Each `iter(sampler)` begins the next epoch, which `set_epoch` can
    choose.

    Attributes:
        num_replicas, rank: the sampler yields the positions rank, rank + num_replicas, … of the order.
        seed: seed for the random order.
        epoch: number of the next epoch.
    """

    num_replicas = 1
    rank = 0
    seed = 0
    epoch = 0

    @property
    def size(self) -> int:
        """The number of positions in an epoch, over all replicas."""
        raise NotImplementedError

    def order(self, epoch: int, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the indices of the items that are read at some positions of an epoch.

        Args:
            epoch: number of the epoch.
            positions: int64 array of values in [0, size).

        Returns:
            int64 array of indices, of the shape of `positions`.
        """
        raise NotImplementedError

    def share(self, start: int = 0) -> int:
        """Return how many positions each replica reads from position `start` to the end of the epoch."""
        return self.size - start

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch of the next `iter(sampler)`."""
        self.epoch = epoch

    def next_epoch(self) -> int:
        """Begin an epoch and return its number."""
        self.epoch += 1
        return self.epoch - 1

    def part(self, epoch: int, start: int, first: int, last: int) -> list[int]:
        """Return a part of the indices that this replica reads from position `start` of the epoch on.

        If `i` is the list of all indices that the replica reads from there on, the result is `i[first:last]`. Positions
        beyond the end of the epoch continue at its beginning, as in torch's `DistributedSampler`.
        """
        positions = start + np.arange(first, last, dtype=np.int64) * self.num_replicas + self.rank
        found: list[int] = self.order(epoch, positions % self.size).tolist()
        return found

    def __len__(self) -> int:
        return self.share()

    def __iter__(self) -> Iterator[int]:
        epoch, count = self.next_epoch(), len(self)
        parts = (self.part(epoch, 0, first, min(first + CHUNK, count)) for first in range(0, count, CHUNK))
        return (index for part in parts for index in part)


class SequentialSampler(OrderedSampler):
    """Yields 0, 1, …, N - 1.

    Args:
        data_source: the dataset, or any object with a length N.

    Example:
        >>> list(SequentialSampler(range(3)))
        [0, 1, 2]

    Reference: torch.utils.data.SequentialSampler
    """

    def __init__(self, data_source: Sized):
        require_sized("SequentialSampler", "data_source", data_source)
        self.data_source = data_source

    @property
    def size(self) -> int:
        return len(self.data_source)

    def order(self, epoch: int, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        return positions


class RandomSampler(OrderedSampler):
    """Yields indices in random order, with a different order in each epoch.

    Args:
        data_source: the dataset, or any object with a length N.
        replacement: if True, each index is drawn independently, so an index may occur several times in an epoch.
        num_samples: number of indices per epoch, N by default. If `num_samples` is larger than N and `replacement` is
            False, the sampler yields several permutations in a row.
        generator: must be None. Pass `seed` instead.
        seed: seed for the random order.

    Raises:
        TypeError: if `data_source` has no length, `replacement` is not a bool, or `seed` is not an integer.
        ValueError: if `num_samples` is not a positive integer.

    Differs from torch: `seed` replaces `generator`, and its default is 0. The order depends only on the seed and the
    number of the epoch. No permutation is stored.

    Example:
        >>> sampler = RandomSampler(range(5), seed=1)
        >>> sorted(sampler), list(sampler) == list(sampler)
        ([0, 1, 2, 3, 4], False)

    Reference: torch.utils.data.RandomSampler
    """

    def __init__(
        self,
        data_source: Sized,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: None = None,
        *,
        seed: int = 0,
    ):
        refuse_generator("RandomSampler", generator)
        require_sized("RandomSampler", "data_source", data_source)
        integer("RandomSampler", "seed", seed)
        if not isinstance(replacement, bool):
            raise TypeError(f"RandomSampler: replacement should be a boolean value, but got replacement={replacement}.")
        self.data_source, self.replacement, self.seed = data_source, replacement, seed
        self._num_samples = num_samples
        require_positive("RandomSampler", "num_samples", self.num_samples)

    @property
    def num_samples(self) -> int:
        """The number of indices per epoch."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    @property
    def size(self) -> int:
        return self.num_samples

    def order(self, epoch: int, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        count = len(self.data_source)
        if self.replacement:
            return to_integers(draw_bits(self.seed, epoch, positions), count)
        if self.num_samples <= count:
            return permute(positions, count, seed=self.seed, epoch=epoch)
        rounds = positions // count  # the number of the permutation
        indices = np.empty_like(positions)
        for number in np.unique(rounds).tolist():
            here = rounds == number
            seed = self.seed if number == 0 else int(draw_bits(self.seed, number)[()])
            indices[here] = permute(positions[here] % count, count, seed=seed, epoch=epoch)
        return indices


class SubsetRandomSampler(OrderedSampler):
    """Yields given indices in random order, with a different order in each epoch.

    Args:
        indices: the indices.
        generator: must be None. Pass `seed` instead.
        seed: seed for the random order.

    Raises:
        TypeError: if `indices` is not a sequence, or `seed` is not an integer.

    Example:
        >>> sorted(SubsetRandomSampler([7, 3, 5]))
        [3, 5, 7]

    Reference: torch.utils.data.SubsetRandomSampler
    """

    def __init__(self, indices: Sequence[int], generator: None = None, *, seed: int = 0):
        refuse_generator("SubsetRandomSampler", generator)
        require_items("SubsetRandomSampler", "indices", indices)
        integer("SubsetRandomSampler", "seed", seed)
        self.indices, self.seed = indices, seed

    @property
    def size(self) -> int:
        return len(self.indices)

    def order(self, epoch: int, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        places = permute(positions, self.size, seed=self.seed, epoch=epoch)
        if isinstance(self.indices, np.ndarray):
            return self.indices[places]
        return np.array([self.indices[place] for place in places.tolist()], np.int64)


class WeightedRandomSampler(OrderedSampler):
    """Draws indices from 0 to N - 1, each with a probability that is proportional to its weight.

    Args:
        weights: (N,), the weights. The weights need not sum to 1.
        num_samples: number of indices per epoch.
        replacement: if False, no index is drawn twice in an epoch.
        generator: must be None. Pass `seed` instead.
        seed: seed of the draws.

    Raises:
        TypeError: if the weights are not numbers, or `seed` is not an integer.
        ValueError: if `num_samples` is not a positive integer, `replacement` is not a bool, or the weights are not a
            one-dimensional sequence of finite numbers >= 0 with a positive sum. ValueError is also raised if
            `replacement` is False and fewer than `num_samples` weights are positive.

    Example:
        >>> sorted(WeightedRandomSampler([0.0, 3.0, 1.0], 2, replacement=False))
        [1, 2]

    Reference: torch.utils.data.WeightedRandomSampler; without replacement, Efraimidis, Spirakis, Weighted random
        sampling with a reservoir, Information Processing Letters 2006
    """

    def __init__(
        self,
        weights: ArrayLike,
        num_samples: int,
        replacement: bool = True,
        generator: None = None,
        *,
        seed: int = 0,
    ):
        refuse_generator("WeightedRandomSampler", generator)
        integer("WeightedRandomSampler", "seed", seed)
        require_positive("WeightedRandomSampler", "num_samples", num_samples)
        if not isinstance(replacement, bool):
            raise ValueError(
                f"WeightedRandomSampler: replacement should be a boolean value, but got replacement={replacement}."
            )
        try:
            self.weights = np.asarray(weights, np.float64)
        except (TypeError, ValueError):
            raise TypeError(
                f"WeightedRandomSampler: weights are not numbers; expected an array (N,), got {shown(weights)}."
            ) from None
        if self.weights.ndim != 1:
            raise ValueError(
                "WeightedRandomSampler: weights should be a 1d sequence but given weights have shape "
                f"{self.weights.shape}."
            )
        if not (np.isfinite(self.weights).all() and (self.weights >= 0).all() and self.weights.sum() > 0):
            raise ValueError(
                "WeightedRandomSampler: the weights are not a distribution; expected finite numbers >= 0 with a "
                f"positive sum, got {np.array2string(self.weights, threshold=6)}."
            )
        positive = int((self.weights > 0).sum())
        if not replacement and num_samples > positive:
            raise ValueError(
                "WeightedRandomSampler: too few weights are positive to draw without replacement; expected at least "
                f"num_samples={num_samples}, got {positive}."
            )
        self.num_samples, self.replacement, self.seed = num_samples, replacement, seed
        self._drawn: tuple[tuple[int, int], NDArray[np.int64]] | None = None  # ((seed, epoch), the whole order)

    @property
    def size(self) -> int:
        return self.num_samples

    def order(self, epoch: int, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        if self.replacement:
            ends = np.cumsum(self.weights)
            draws = to_uniform(draw_bits(self.seed, epoch, positions)) * ends[-1]
            return np.minimum(np.searchsorted(ends, draws, "right"), np.flatnonzero(self.weights)[-1])
        drawn = self._drawn
        if drawn is None or drawn[0] != (self.seed, epoch):
            uniform = 1 - to_uniform(draw_bits(self.seed, epoch, np.arange(len(self.weights))))  # in (0, 1]
            with np.errstate(divide="ignore"):
                keys = np.where(self.weights > 0, np.log(uniform) / self.weights, -np.inf)
            drawn = self._drawn = ((self.seed, epoch), np.argsort(-keys, kind="stable")[: self.num_samples])
        return drawn[1][positions]


class BatchSampler(Sampler[list[int]]):
    """Groups the indices of a sampler into lists of `batch_size`.

    Args:
        sampler: any iterable of indices.
        batch_size: number of indices per list.
        drop_last: if True, omit the last list if it is shorter than `batch_size`.

    Raises:
        ValueError: if `batch_size` is not a positive integer, or `drop_last` is not a bool.
        TypeError: if `sampler` cannot be iterated over.

    Example:
        >>> list(BatchSampler(SequentialSampler(range(5)), batch_size=2, drop_last=False))
        [[0, 1], [2, 3], [4]]

    Reference: torch.utils.data.BatchSampler
    """

    def __init__(self, sampler: Iterable[int], batch_size: int, drop_last: bool):
        require_iterable("BatchSampler", "sampler", sampler, "an iterable of indices")
        require_positive("BatchSampler", "batch_size", batch_size)
        if not isinstance(drop_last, bool):
            raise ValueError(f"BatchSampler: drop_last should be a boolean value, but got drop_last={drop_last}.")
        self.sampler, self.batch_size, self.drop_last = sampler, int(batch_size), drop_last

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch of the next iteration over the sampler, if the sampler has a method `set_epoch`."""
        if hasattr(self.sampler, "set_epoch"):
            self.sampler.set_epoch(epoch)

    def __iter__(self) -> Iterator[list[int]]:
        batch: list[int] = []
        for index in self.sampler:
            batch.append(index)
            if len(batch) == self.batch_size:
                yield batch
                batch = []
        if batch and not self.drop_last:
            yield batch

    def __len__(self) -> int:
        count = len(self.sampler)  # type: ignore[arg-type]
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)


def require_sized(where: str, name: str, value: object) -> None:
    """Raise a TypeError if an argument has no length."""
    if isinstance(value, type) or not hasattr(value, "__len__"):
        raise TypeError(f"{where}: {name} has no length; expected an object with __len__, got {shown(value)}.")
