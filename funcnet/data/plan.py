"""A plan determines which items each batch of an epoch contains, and the position in the epoch after each batch.

A position in an epoch is one integer. In an `OrderedPlan`, the position is the number of examples that all processes
together have read, so the position does not depend on the number of processes or on the batch size.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from funcnet.data.sampler import CHUNK, BatchSampler, OrderedSampler

__all__ = [
    "BatchPlan",
    "IteratedPlan",
    "OrderedBatches",
    "OrderedPlan",
    "PlannedBatches",
    "Step",
    "is_planned",
    "make_plan",
    "smallest_size",
]


class Step(NamedTuple):
    """One batch of an epoch.

    Attributes:
        indices: list of the indices of the items, or the index of one item if items are not batched.
        position: position in the epoch after the batch, or None if the batch is known to be the last of the epoch.
        places: an integer for each item, which no other item of the epoch has. Places do not depend on workers.
    """

    indices: Any
    position: int | None
    places: range


class BatchPlan(ABC):
    """Base class of plans, which yield the batches of an epoch.

    Args:
        source: the sampler or batch sampler of the plan.

    Attributes:
        unit: what a position counts: "examples" or "batches".
        resumes: "position" if reading can begin at any position at the same cost, or "skipping" if the plan must first
            go through all batches before the position.
        seed: seed of the order of the items, or None if the plan has no seed.
        length: number of examples or batches in an epoch, or None if unknown.
        epoch: number of the next epoch.
        name: name of the order of the items, which a saved position contains.
    """

    unit = "batches"
    resumes = "position"

    def __init__(self, source: Any):
        self.source = source

    @property
    def seed(self) -> int | None:
        return self.source.seed  # type: ignore[no-any-return]

    @property
    def length(self) -> int | None:
        return self.count()

    @property
    def epoch(self) -> int:
        return self.source.epoch  # type: ignore[no-any-return]

    @property
    def name(self) -> str:
        return type(self.source).__name__

    def count(self) -> int:
        """Return the number of batches of an epoch."""
        return len(self.source)

    def position_of(self, number: int) -> int:
        """Return the position in an epoch before batch `number` of the epoch."""
        return number

    @abstractmethod
    def steps(self, epoch: int, position: int = 0) -> Iterator[Step]:
        """Yield the batches of an epoch, beginning at a position in the epoch."""

    def next_epoch(self) -> int:
        """Begin an epoch, and return its number."""
        self.source.epoch += 1
        return self.source.epoch - 1  # type: ignore[no-any-return]

    def set_epoch(self, epoch: int) -> None:
        """Make `epoch` the next epoch."""
        self.source.epoch = epoch

    def state(self, epoch: int) -> dict[str, int]:
        """Return further entries of a position in an epoch."""
        return {}

    def resume(self, position: Mapping[str, Any]) -> None:
        """Make the epoch of a saved position the next one."""
        self.set_epoch(position["epoch"])


@runtime_checkable
class OrderedBatches(Protocol):
    """A batch sampler whose batches are a pure function of the epoch, such as `BucketBatchSampler`."""

    seed: int
    epoch: int

    def __len__(self) -> int: ...

    def plan(self, epoch: int) -> list[list[int]]:
        """Return the indices of all batches of an epoch."""


class OrderedPlan(BatchPlan):
    """A plan whose batches contain the indices of an ordered sampler in order, or single indices if `batch_size` is
    None.
    """

    unit = "examples"

    def __init__(self, sampler: OrderedSampler, batch_size: int | None, drop_last: bool):
        super().__init__(sampler)
        self.batch_size, self.drop_last = batch_size, drop_last

    @property
    def length(self) -> int:
        return self.source.size  # type: ignore[no-any-return]

    @property
    def name(self) -> str:
        shuffled = getattr(self.source, "shuffle", True)
        name = super().name
        if name == "DistributedSampler":  # it has the same order as these two, and can be resumed as one of them
            name = "RandomSampler" if shuffled else "SequentialSampler"
        return name

    def count(self, position: int = 0) -> int:
        share, size = self.source.share(position), self.batch_size or 1
        return share // size if self.drop_last else -(-share // size)

    def steps(self, epoch: int, position: int = 0) -> Iterator[Step]:
        sampler, size = self.source, self.batch_size or 1
        share, count = sampler.share(position), self.count(position)
        together = -(-CHUNK // size)  # batches whose order is computed at once
        for number in range(count):
            place = number % together * size
            if place == 0:
                part = sampler.part(epoch, position, number * size, min((number + together) * size, share))
            after = None if number == count - 1 else position + (number + 1) * size * sampler.num_replicas
            first, stride = position + number * size * sampler.num_replicas + sampler.rank, sampler.num_replicas
            indices = part[place : place + size] if self.batch_size else part[place]
            yield Step(indices, after, range(first, first + size * stride, stride))

    def position_of(self, number: int) -> int:
        return number * (self.batch_size or 1) * self.source.num_replicas

    def next_epoch(self) -> int:
        return self.source.next_epoch()  # type: ignore[no-any-return]

    def set_epoch(self, epoch: int) -> None:
        self.source.set_epoch(epoch)


class PlannedBatches(BatchPlan):
    """A plan with the batches of a batch sampler whose method `plan` returns a complete epoch."""

    def steps(self, epoch: int, position: int = 0) -> Iterator[Step]:
        planned = self.source.plan(epoch)
        for number in range(position, len(planned)):
            yield Step(planned[number], None if number == len(planned) - 1 else number + 1, _places(number))


class IteratedPlan(BatchPlan):
    """A plan with the batches or indices that a user's sampler yields. When a run is resumed, the plan skips the
    batches before the saved position.

    A sampler may count its epochs itself, or have the attribute `epoch` that only `set_epoch` changes, as in torch. So
    a position contains the value of this attribute at the start of the pass.
    """

    resumes = "skipping"
    seed = length = None
    epoch = 0

    def __init__(self, sampler: Iterable[Any]):
        super().__init__(sampler)
        self._begun: tuple[int, int | None] | None = None  # the newest pass, and the sampler's own epoch at its start

    def steps(self, epoch: int, position: int = 0) -> Iterator[Step]:
        for number, indices in enumerate(self.source):
            if number >= position:
                yield Step(indices, number + 1, _places(number))

    def next_epoch(self) -> int:
        self._begun = self.epoch, self._own_epoch()
        self.epoch += 1
        return self.epoch - 1

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch
        self._tell(epoch)

    def state(self, epoch: int) -> dict[str, int]:
        is_begun = self._begun is not None and self._begun[0] == epoch
        own = self._begun[1] if self._begun is not None and is_begun else self._own_epoch()
        return {} if own is None else {"sampler_epoch": own}

    def resume(self, position: Mapping[str, Any]) -> None:
        self.epoch = position["epoch"]
        self._tell(position.get("sampler_epoch", self.epoch))

    def _tell(self, epoch: int) -> None:
        if hasattr(self.source, "set_epoch"):
            self.source.set_epoch(epoch)

    def _own_epoch(self) -> int | None:
        own = getattr(getattr(self.source, "sampler", self.source), "epoch", None)
        return int(own) if isinstance(own, int | np.integer) and not isinstance(own, bool) else None


def _places(number: int) -> range:
    """Return the places of the items of batch `number`, which may have 2**32 items."""
    return range(number << 32, (number + 1) << 32)


def is_planned(sampler: object) -> bool:
    """Return whether the indices of a sampler are a function of the epoch that the loader may compute without it.

    They are not if a subclass overrides how the sampler is iterated over.

    Example:
        >>> from funcnet.data import SequentialSampler
        >>> class Backwards(SequentialSampler):
        ...     def __iter__(self):
        ...         return iter(range(self.size)[::-1])
        >>> is_planned(SequentialSampler(range(3))), is_planned(Backwards(range(3)))
        (True, False)
    """
    if type(sampler) is BatchSampler:
        return is_planned(sampler.sampler)
    if not isinstance(sampler, OrderedSampler | OrderedBatches):
        return False
    iterates, plans = {"__iter__", "__len__"}, {"plan", "order", "part", "share", "size"}
    home = next(kind for kind in type(sampler).__mro__ if (iterates | plans) & vars(kind).keys())
    return bool(plans & vars(home).keys())


def make_plan(sampler: Iterable[Any], batch_sampler: Iterable[Any] | None) -> BatchPlan:
    """Return the plan with the batches of `batch_sampler`, or with the single indices of `sampler` if that is None."""
    if batch_sampler is None:
        is_ordered = isinstance(sampler, OrderedSampler) and is_planned(sampler)
        return OrderedPlan(sampler, None, False) if is_ordered else IteratedPlan(sampler)  # type: ignore[arg-type]
    if not is_planned(batch_sampler):
        return IteratedPlan(batch_sampler)
    if type(batch_sampler) is BatchSampler:
        return OrderedPlan(batch_sampler.sampler, batch_sampler.batch_size, batch_sampler.drop_last)  # type: ignore[arg-type]
    return PlannedBatches(batch_sampler)


def smallest_size(sampler: object, batch_sampler: object, drop_last: bool) -> int:
    """Return the smallest number of items in a dataset with which an epoch has at least one batch.

    Example:
        >>> smallest_size(None, BatchSampler(range(9), 4, True), drop_last=True)
        4
    """
    size = int(getattr(batch_sampler, "batch_size", 1)) if drop_last else 1
    replicas = getattr(sampler, "num_replicas", 1)
    return size * replicas if getattr(sampler, "drop_last", False) else (size - 1) * replicas + 1
