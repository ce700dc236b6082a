"""Plans: which items form each batch of an epoch, and where the epoch stands after the batch.

A position in an epoch is one integer. In an `OrderedPlan`, it is the number of examples that all processes together
have read, so it does not depend on their number or on the batch size.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, Protocol, runtime_checkable

from funcnet.data.sampler import BatchSampler, OrderedSampler

__all__ = ["BatchPlan", "IteratedPlan", "OrderedBatches", "OrderedPlan", "PlannedBatches", "Step", "make_plan"]

CHUNK = 4096  # positions


class Step(NamedTuple):
    """One batch: its indices (or one index, without batching), and the position after it. None is the epoch's end."""

    indices: Any
    position: int | None


class BatchPlan(Protocol):
    """The batches of an epoch.

    Attributes:
        unit: what a position counts: "examples" or "batches".
        resumes: "position" if any position costs the same, or "skipping" if the batches before it are skipped.
        seed: seed of the order, or None.
        length: the length of an epoch in its unit, or None if unknown.
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
        """Return the position before a batch, given its number in the epoch."""

    def steps(self, epoch: int, position: int = 0) -> Iterator[Step]:
        """Yield the batches of an epoch from a position on."""

    def next_epoch(self) -> int:
        """Begin an epoch, and return its number."""

    def set_epoch(self, epoch: int) -> None:
        """Choose the next epoch."""


@runtime_checkable
class OrderedBatches(Protocol):
    """A batch sampler whose batches are a pure function of the epoch, such as `BucketBatchSampler`."""

    seed: int
    epoch: int

    def __len__(self) -> int: ...

    def plan(self, epoch: int) -> list[list[int]]:
        """Return all batches of an epoch."""


class OrderedPlan:
    """The batches of an ordered sampler. `batch_size` None plans single indices."""

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
        if name == "DistributedSampler":  # it reads the same order as these two, and can be resumed as one of them
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
    """The batches of a batch sampler that plans whole epochs."""

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
    """The batches or indices that a user's sampler yields. A saved position is reached by skipping batches."""

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
    """Return the plan of a sampler and a batch sampler. Without the latter, indices are not batched."""
    if batch_sampler is None:
        return OrderedPlan(sampler, None, False) if isinstance(sampler, OrderedSampler) else IteratedPlan(sampler)
    if type(batch_sampler) is BatchSampler and isinstance(batch_sampler.sampler, OrderedSampler):
        return OrderedPlan(batch_sampler.sampler, batch_sampler.batch_size, batch_sampler.drop_last)
    return PlannedBatches(batch_sampler) if isinstance(batch_sampler, OrderedBatches) else IteratedPlan(batch_sampler)
