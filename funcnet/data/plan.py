"""A plan determines which items each batch of an epoch contains, and the position in the epoch after each batch.

A position in an epoch is one integer. In an `OrderedPlan`, the position is the number of examples that all processes
together have read, so the position does not depend on the number of processes or on the batch size.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, Protocol, runtime_checkable

from funcnet.data.sampler import BatchSampler, OrderedSampler

__all__ = ["BatchPlan", "IteratedPlan", "OrderedBatches", "OrderedPlan", "PlannedBatches", "Step", "make_plan"]

CHUNK = 4096  # positions whose order is computed at once


class Step(NamedTuple):
    """One batch of an epoch.

    Attributes:
        indices: list of the indices of the items, or the index of one item if items are not batched.
        position: position in the epoch after the batch, or None if the batch is known to be the last of the epoch.
    """

    indices: Any
    position: int | None


class BatchPlan(Protocol):
    """The interface of a plan, which yields the batches of an epoch.

    Attributes:
        unit: what a position counts: "examples" or "batches".
        resumes: "position" if reading can begin at any position at the same cost, or "skipping" if the plan must first
            go through all batches before the position.
        seed: seed of the order of the items, or None if the plan has no seed.
        length: number of examples or batches in an epoch, or None if unknown.
        epoch: number of the next epoch.
    """

    unit: str
    resumes: str

    @property
    def seed(self) -> int | None: ...
    @property
    def length(self) -> int | None: ...
    @property
    def epoch(self) -> int: ...
    @property
    def name(self) -> str: ...

    def count(self) -> int:
        """Return the number of batches of an epoch."""

    def position_of(self, number: int) -> int:
        """Return the position in an epoch before batch `number` of the epoch."""

    def steps(self, epoch: int, position: int = 0) -> Iterator[Step]:
        """Yield the batches of an epoch, beginning at a position in the epoch."""

    def next_epoch(self) -> int:
        """Begin an epoch, and return its number."""

    def set_epoch(self, epoch: int) -> None:
        """Make `epoch` the next epoch."""


@runtime_checkable
class OrderedBatches(Protocol):
    """A batch sampler whose batches are a pure function of the epoch, such as `BucketBatchSampler`."""

    seed: int
    epoch: int

    def __len__(self) -> int: ...

    def plan(self, epoch: int) -> list[list[int]]:
        """Return the indices of all batches of an epoch."""


class OrderedPlan:
    """A plan whose batches contain the indices of an ordered sampler in order, or single indices if `batch_size` is
    None.
    """

    unit = "examples"
    resumes = "position"

    def __init__(self, sampler: OrderedSampler, batch_size: int | None, drop_last: bool):
        self.sampler, self.batch_size, self.drop_last = sampler, batch_size, drop_last

    @property
    def seed(self) -> int:
        return self.sampler.seed

    @property
    def epoch(self) -> int:
        return self.sampler.epoch

    @property
    def length(self) -> int:
        return self.sampler.size

    @property
    def name(self) -> str:
        shuffled = getattr(self.sampler, "shuffle", True)
        name = type(self.sampler).__name__
        if name == "DistributedSampler":  # it has the same order as these two, and can be resumed as one of them
            name = "RandomSampler" if shuffled else "SequentialSampler"
        return name

    def count(self, position: int = 0) -> int:
        share, size = self.sampler.share(position), self.batch_size or 1
        return share // size if self.drop_last else -(-share // size)

    def steps(self, epoch: int, position: int = 0) -> Iterator[Step]:
        sampler, size = self.sampler, self.batch_size or 1
        share, count = sampler.share(position), self.count(position)
        together = -(-CHUNK // size)  # batches whose order is computed at once
        for number in range(count):
            place = number % together * size
            if place == 0:
                part = sampler.part(epoch, position, number * size, min((number + together) * size, share))
            after = None if number == count - 1 else position + (number + 1) * size * sampler.num_replicas
            yield Step(part[place : place + size] if self.batch_size else part[place], after)

    def position_of(self, number: int) -> int:
        return number * (self.batch_size or 1) * self.sampler.num_replicas

    def next_epoch(self) -> int:
        return self.sampler.next_epoch()

    def set_epoch(self, epoch: int) -> None:
        self.sampler.set_epoch(epoch)


class PlannedBatches:
    """A plan with the batches of a batch sampler whose method `plan` returns a complete epoch."""

    unit = "batches"
    resumes = "position"

    def __init__(self, batches: OrderedBatches):
        self.batches = batches

    @property
    def seed(self) -> int:
        return self.batches.seed

    @property
    def epoch(self) -> int:
        return self.batches.epoch

    @property
    def length(self) -> int:
        return len(self.batches)

    @property
    def name(self) -> str:
        return type(self.batches).__name__

    def count(self) -> int:
        return len(self.batches)

    def steps(self, epoch: int, position: int = 0) -> Iterator[Step]:
        planned = self.batches.plan(epoch)
        for number in range(position, len(planned)):
            yield Step(planned[number], None if number == len(planned) - 1 else number + 1)

    def position_of(self, number: int) -> int:
        return number

    def next_epoch(self) -> int:
        self.batches.epoch += 1
        return self.batches.epoch - 1

    def set_epoch(self, epoch: int) -> None:
        self.batches.epoch = epoch


class IteratedPlan:
    """A plan with the batches or indices that a user's sampler yields. When a run is resumed, the plan skips the
    batches before the saved position.
    """

    unit = "batches"
    resumes = "skipping"
    seed = None
    length = None

    def __init__(self, sampler: Iterable[Any]):
        self.sampler = sampler
        self.epoch = 0

    @property
    def name(self) -> str:
        return type(self.sampler).__name__

    def count(self) -> int:
        return len(self.sampler)  # type: ignore[arg-type]

    def steps(self, epoch: int, position: int = 0) -> Iterator[Step]:
        for number, indices in enumerate(self.sampler):
            if number >= position:
                yield Step(indices, number + 1)

    def position_of(self, number: int) -> int:
        return number

    def next_epoch(self) -> int:
        self.epoch += 1
        return self.epoch - 1

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch
        if hasattr(self.sampler, "set_epoch"):
            self.sampler.set_epoch(epoch)


def make_plan(sampler: Iterable[Any], batch_sampler: Iterable[Any] | None) -> BatchPlan:
    """Return the plan with the batches of `batch_sampler`, or with the single indices of `sampler` if that is None."""
    if batch_sampler is None:
        return OrderedPlan(sampler, None, False) if isinstance(sampler, OrderedSampler) else IteratedPlan(sampler)
    if type(batch_sampler) is BatchSampler and isinstance(batch_sampler.sampler, OrderedSampler):
        return OrderedPlan(batch_sampler.sampler, batch_sampler.batch_size, batch_sampler.drop_last)
    return PlannedBatches(batch_sampler) if isinstance(batch_sampler, OrderedBatches) else IteratedPlan(batch_sampler)
