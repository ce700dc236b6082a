"""Mix several datasets by weight.

The mixture is divided into blocks of 1,024 positions (more if a source has less than 1/1,024 of the weight). The
positions of a block are divided among the sources by weight. The rounding errors of successive blocks do not add up.
The order inside a block is a permutation that depends only on the seed and the number of the block. The source of a
position, and the number of earlier positions with this source, therefore depend only on the position, the weights and
the seed.

S is the number of sources.
"""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from funcnet.arguments import boolean, integer
from funcnet.data.checks import require_datasets, require_iterable, require_numbers
from funcnet.data.dataset import Dataset
from funcnet.data.gather import Items, items_of
from funcnet.data.hashed_draws import draw_bits, permute
from funcnet.data.nested import at_epoch, read_parts
from funcnet.data.resumable import Cursor, ResumableDataset
from funcnet.data.sharing import own_copy
from funcnet.data.worker import worker_here

__all__ = ["MixedDataset", "MixedIterableDataset", "Proportions"]

BLOCK = 1024
LARGEST_BLOCK = 2**20  # a block is a table in memory: 16 MB at this size


class Proportions:
    """Assigns each position of an endless sequence to one of S sources, in proportion to weights.

    Args:
        weights: a positive number for each source. Only their ratios matter.
        seed: seed of the order inside the blocks.

    Attributes:
        weights: tuple of S floats with sum 1.
        block_size: number of positions per block.

    Raises:
        ValueError: if there are no weights, a weight is not positive and finite, or a weight is below 2**-20 of the
            sum.

    Example:
        >>> sources, draws = Proportions([3, 1]).locate(np.arange(1024))
        >>> np.bincount(sources).tolist(), sorted(draws[sources == 1].tolist()) == list(range(256))
        ([768, 256], True)
    """

    def __init__(self, weights: Sequence[float], *, seed: int = 0):
        wrong = [weight for weight in weights if not 0 < weight < float("inf")]
        if wrong or not len(weights):
            raise ValueError(
                f"Proportions: the weights are wrong; expected at least one number, each positive and finite, got "
                f"{list(weights)}."
            )
        exact = [Fraction(float(weight)) for weight in weights]
        self.block_size = max(BLOCK, 1 << (math.ceil(sum(exact) / min(exact)) - 1).bit_length())
        if self.block_size > LARGEST_BLOCK:
            raise ValueError(
                f"Proportions: a weight is too small; expected at least 2**-20 of the sum, got {min(weights)} of "
                f"{sum(weights)}."
            )
        self.weights = tuple(float(weight / sum(exact)) for weight in exact)
        self.seed = seed
        self._ends = [sum(exact[: number + 1]) / sum(exact) for number in range(len(exact))]
        self._last: tuple[int, NDArray[np.int64], NDArray[np.int64]] | None = None

    def draws_before(self, block: int) -> NDArray[np.int64]:
        """Return how many positions before a block belong to each source: int64 (S,), with sum `block * block_size`.

        In the n positions before the block, source i occurs between n w_i - 1 and n w_i + 1 times, with w_i the
        value of `weights[i]`.
        """
        ends = [0] + [int(end * block * self.block_size + Fraction(1, 2)) for end in self._ends]
        return np.array([stop - start for start, stop in itertools.pairwise(ends)], np.int64)

    def block(self, number: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """For each position of a block, return its source, and how many earlier positions have the same source.

        Returns:
            Two int64 arrays of shape (block_size,), the sources and the numbers of earlier positions.
        """
        last = self._last  # read only once, because several threads may share this object
        if last is not None and last[0] == number:
            return last[1:]
        before, after = self.draws_before(number), self.draws_before(number + 1)
        grouped = np.repeat(np.arange(len(before)), after - before)
        sources = grouped[permute(np.arange(self.block_size), self.block_size, seed=self.seed, epoch=number)]
        draws = np.empty(self.block_size, np.int64)
        draws[np.argsort(sources, kind="stable")] = np.concatenate(
            [np.arange(start, stop) for start, stop in zip(before, after, strict=True)]
        )
        self._last = number, sources, draws
        return sources, draws

    def locate(self, positions: ArrayLike) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """For each position, return its source, and how many earlier positions of the sequence have the same source.

        The cost depends on how many blocks contain the positions, not on how large the positions are.

        Args:
            positions: integers >= 0 of any shape.

        Returns:
            Two int64 arrays of the shape of `positions`, the sources and the numbers of earlier positions.
        """
        where = np.asarray(positions, np.int64)
        blocks, places = np.divmod(where, self.block_size)
        sources, draws = np.empty_like(where), np.empty_like(where)
        for number in np.unique(blocks).tolist():
            here = blocks == number
            block_sources, block_draws = self.block(number)
            sources[here], draws[here] = block_sources[places[here]], block_draws[places[here]]
        return sources, draws


class MixedDataset(Dataset[Any]):
    """A map-style dataset that draws from several map-style datasets in proportion to weights.

    Each source is read repeatedly. Every pass over a source uses a new permutation of its items, and no item is
    repeated within a pass. Because the mixture itself defines the order, load it without shuffling:
    `DataLoader(MixedDataset(…), shuffle=False)`.

    Args:
        datasets: map-style datasets. If a dataset has `at_epoch`, pass number r over the dataset reads from
            `dataset.at_epoch(r)`.
        weights: a positive number for each dataset. Only their ratios matter.
        seed: seed of the mixture and of the permutations.
        shuffle: if False, each source is read from its first to its last item.
        length: number of items in an epoch. The default is the sum of the lengths of the datasets.

    Raises:
        ValueError: if a dataset is empty, `length` is below 1, the numbers of weights and datasets differ, or a weight
            is invalid (see `Proportions`).
        TypeError: if a dataset is not map-style, or another argument has the wrong type.

    Differs from torch: torch mixes by weight with `WeightedRandomSampler` over a `ConcatDataset`. With this
    sampler, the shares vary randomly, and items are drawn with replacement.

    Example:
        >>> mixed = MixedDataset([np.arange(6), np.arange(100, 103)], [2, 1], seed=1)
        >>> len(mixed), sorted(mixed[i].item() for i in range(9))
        (9, [0, 1, 2, 3, 5, 100, 101, 102, 102])
    """

    def __init__(
        self,
        datasets: Sequence[Any],
        weights: Sequence[float],
        *,
        seed: int = 0,
        shuffle: bool = True,
        length: int | None = None,
    ):
        require_datasets("MixedDataset", datasets)
        _check_sources("MixedDataset", datasets, weights)
        integer("MixedDataset", "seed", seed)
        boolean("MixedDataset", "shuffle", shuffle)
        length = None if length is None else integer("MixedDataset", "length", length)
        lengths = [len(dataset) for dataset in datasets]
        if min(lengths) < 1 or (length is not None and length < 1):
            raise ValueError(
                f"MixedDataset: there is nothing to draw; expected datasets of at least 1 item and a length of at "
                f"least 1, got lengths {lengths} and length {length}."
            )
        self.datasets, self.seed, self.shuffle = tuple(datasets), seed, shuffle
        self._views = tuple(items_of(dataset) for dataset in datasets)
        self.length = sum(lengths) if length is None else length
        self.proportions = Proportions(weights, seed=seed)
        self._lengths = np.array(lengths, np.int64)
        self._start = 0

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> Any:
        numbers, rounds, items = (part.item() for part in self.locate(self._checked([index])))
        return self._source(numbers, rounds)[items]

    def __getitems__(self, indices: Sequence[int]) -> Any:
        """Return the batch of some indices, or the list of their items if the sources do not return batches.

        The result is a batch if every source returns complete batches with the same nesting, dtypes and shapes. A
        source returns complete batches if it is an array, or if its `__getitems__` returns a complete batch. All
        requested items of one pass over a source are read with one call.
        """
        numbers, rounds, items = self.locate(self._checked(indices))
        parts = []
        for number, round_ in np.unique(np.stack([numbers, rounds], 1), axis=0).tolist():
            rows = np.flatnonzero((numbers == number) & (rounds == round_))
            parts.append((self._source(number, round_), items[rows].tolist(), rows.tolist()))
        return read_parts(self, list(indices), parts)

    def at_epoch(self, epoch: int) -> MixedDataset:
        """Return the dataset of one epoch, which continues the endless mixture at position `epoch * len(self)`."""
        new = copy.copy(self)
        new._start = epoch * self.length
        return new

    def locate(self, indices: ArrayLike) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """For each index of the mixture, return which source it belongs to, and which item of this source it is.

        Args:
            indices: integers >= 0, shape (B,). An index may exceed the length of an epoch, because the mixture is
                endless.

        Returns:
            Three int64 arrays (B,): the index of the source, the index of the current pass over the source, and the
            index of the item in the source.
        """
        numbers, draws = self.proportions.locate(np.asarray(indices, np.int64) + self._start)
        rounds, places = np.divmod(draws, self._lengths[numbers])
        if self.shuffle:
            for number, round_ in np.unique(np.stack([numbers, rounds], 1), axis=0).tolist():
                where = (numbers == number) & (rounds == round_)
                key = int(draw_bits(self.seed, 1 + number))  # gives other bits than the permutation of a block
                places[where] = permute(places[where], int(self._lengths[number]), seed=key, epoch=round_)
        return numbers, rounds, places

    def _checked(self, indices: Sequence[int]) -> NDArray[np.int64]:
        """Convert `indices` to numbers from 0 to `length - 1`. A negative index counts from the end, as in a list."""
        wrong = [index for index in indices if not -self.length <= index < self.length]
        if wrong:
            raise IndexError(
                f"MixedDataset: the index is out of range; expected {-self.length} to {self.length - 1}, "
                f"got {wrong[0]}."
            )
        return np.asarray(indices, np.int64) % self.length

    def _source(self, number: int, round_: int) -> Items:
        dataset = at_epoch(self.datasets[number], round_)
        return self._views[number] if dataset is self.datasets[number] else items_of(dataset)


class MixedIterableDataset(ResumableDataset):
    """An iterable dataset that draws from several iterable datasets in proportion to weights.

    In a `DataLoader` with workers, each worker has copies of the sources, and mixes their items.

    Args:
        datasets: iterable datasets. Each source should have `state_dict` and `load_state_dict`. Without these methods,
            a resumed run reads and drops the items before the saved position. If a dataset has `set_epoch`, this method
            is called before each pass over the dataset.
        weights: a positive number for each dataset. Only their ratios matter.
        seed: seed for the order of the sources. The order also depends on the epoch.
        stopping_strategy: with "never", a source that ends is restarted, and the epoch never ends. With
            "first_exhausted", the epoch ends when a source ends. With "all_exhausted", a source that ends is restarted,
            and the epoch ends when each source has ended at least once.

    Raises:
        ValueError: if the numbers of weights and datasets differ, a weight is invalid, or the strategy is unknown.
            ValueError is also raised while iterating if a source has no items.
        TypeError: if a dataset cannot be iterated over, or another argument has the wrong type.

    Example:
        >>> mixed = MixedIterableDataset([["a", "b", "c"], ["d"]], [3, 1], stopping_strategy="all_exhausted", seed=2)
        >>> "".join(mixed)
        'adbca'

    Reference: `interleave_datasets` of Hugging Face's datasets, which uses the same names for the strategies
    """

    def __init__(
        self,
        datasets: Sequence[Iterable[Any]],
        weights: Sequence[float],
        *,
        seed: int = 0,
        stopping_strategy: Literal["never", "first_exhausted", "all_exhausted"] = "never",
    ):
        super().__init__()
        require_iterable("MixedIterableDataset", "datasets", datasets, "a list of iterable datasets")
        for place, dataset in enumerate(datasets):
            require_iterable("MixedIterableDataset", f"datasets[{place}]", dataset, "an iterable dataset")
        _check_sources("MixedIterableDataset", datasets, weights)
        integer("MixedIterableDataset", "seed", seed)
        if stopping_strategy not in ("never", "first_exhausted", "all_exhausted"):
            raise ValueError(
                "MixedIterableDataset: the stopping strategy is unknown; expected 'never', 'first_exhausted' or "
                f"'all_exhausted', got {stopping_strategy!r}."
            )
        self.datasets, self.seed, self.stopping_strategy = tuple(datasets), seed, stopping_strategy
        self.weights = Proportions(weights).weights
        self._cursors: list[Cursor] = []  # of the newest iterator

    def __copy__(self) -> MixedIterableDataset:
        """Return a copy of the mixture with copies of the sources, so that each worker thread has its own positions."""
        new = object.__new__(type(self))
        new.__dict__.update(self.__dict__, datasets=tuple(own_copy(dataset) for dataset in self.datasets), _cursors=[])
        return new

    def __iter__(self) -> Iterator[Any]:
        self._cursors = []  # the new iterator creates its cursors at its first item
        return super().__iter__()

    def first_state(self, epoch: int) -> dict[str, Any]:
        """Return the state of the mixture at the start of an epoch."""
        number = len(self.datasets)
        return {"epoch": epoch, "position": 0, "rounds": [0] * number, "sources": [None] * number}

    def items_from(self, state: dict[str, Any]) -> Iterator[Any]:
        """Yield the items after the position `state`, and update `state` to the position after each item."""
        epoch, rounds = state["epoch"], state["rounds"]
        self._cursors = cursors = [Cursor(dataset) for dataset in self.datasets]
        for cursor, round_, source in zip(cursors, rounds, state["sources"], strict=True):
            cursor.begin(_epoch_of(epoch, round_), source)
        proportions = Proportions(self.weights, seed=int(draw_bits(self.seed, epoch)))
        while True:
            block, place = divmod(state["position"], proportions.block_size)
            for number in proportions.block(block)[0][place:].tolist():
                item = cursors[number].take(1)
                if not item:
                    rounds[number] += 1
                    if self.stopping_strategy == "first_exhausted":
                        return
                    if self.stopping_strategy == "all_exhausted" and all(rounds):
                        return
                    cursors[number].begin(_epoch_of(epoch, rounds[number]))
                    item = cursors[number].take(1)
                    if not item:
                        raise _no_items(number, self.datasets[number])
                state["position"] += 1
                yield item[0]

    def current_state(self, state: dict[str, Any]) -> dict[str, Any]:
        """Return the state of the newest iterator over the mixture, with the current states of all sources."""
        return {**state, "sources": [cursor.state() for cursor in self._cursors]} if self._cursors else state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Make the next `iter(dataset)` continue at the position that `state_dict` returned as `state`.

        Raises:
            ValueError: if the state is from a different class, or from a mixture with a different number of sources.
        """
        if len(state.get("sources", ())) != len(self.datasets):
            raise ValueError(
                f"MixedIterableDataset.load_state_dict: the state is from a different mixture; expected "
                f"{len(self.datasets)} sources, got {len(state.get('sources', ()))}."
            )
        super().load_state_dict(state)


def _check_sources(where: str, datasets: Sequence[Any], weights: Sequence[float]) -> None:
    require_numbers(where, "weights", weights)
    if len(datasets) != len(weights):
        raise ValueError(
            f"{where}: datasets and weights differ in number; expected one weight per dataset, got {len(datasets)} "
            f"datasets and {len(weights)} weights."
        )


def _no_items(number: int, source: object) -> ValueError:
    info = worker_here()
    where, advice = "", "An iterator can be read only once; use an iterable dataset."
    if info is not None and info.num_workers > 1:
        where = f" for worker {info.id} of {info.num_workers}"
        advice = f"Each worker reads its own share of a source; pass num_workers=1, or add files. {advice}"
    return ValueError(
        f"MixedIterableDataset: source {number} has no items{where}; expected at least one item in each pass over the "
        f"{type(source).__name__}, got none. {advice}"
    )


def _epoch_of(epoch: int, round_: int) -> int:
    """Return the epoch number that a source gets for its pass `round_` in epoch `epoch` of the mixture."""
    return epoch + (round_ << 20)
