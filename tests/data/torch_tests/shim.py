"""The classes of funcnet.data with the arguments and the tensors of torch.utils.data, for torch's own tests.

Three things are translated. `generator=` becomes `seed=`. NumPy arrays in batches become tensors. Workers are
processes, because torch's tests read their process ids, kill them, and seed torch's global generator in each of them.
"""

import collections.abc

import numpy as np
import torch
import torch.utils.data.dataset

from funcnet import data

__all__ = ["install"]

SAME = (
    *("Dataset", "IterableDataset", "TensorDataset", "ConcatDataset", "ChainDataset", "StackDataset", "Subset"),
    *("Sampler", "SequentialSampler", "BatchSampler", "DistributedSampler", "get_worker_info"),
)


def draw(generator):
    """A seed from a torch generator; None is the global one."""
    return int(torch.empty((), dtype=torch.int64).random_(generator=generator).item())


class Seeded:
    """A sampler that draws its seed when an iteration begins, as torch's do."""

    def __init__(self, *args, generator=None, **kwargs):
        super().__init__(*args, **kwargs)
        self.generator = generator

    def __iter__(self):
        self.seed, self.epoch = draw(self.generator), 0
        yield from super().__iter__()


class RandomSampler(Seeded, data.RandomSampler):
    pass


class SubsetRandomSampler(Seeded, data.SubsetRandomSampler):
    pass


class WeightedRandomSampler(Seeded, data.WeightedRandomSampler):
    pass


def random_split(dataset, lengths, generator=None):
    return data.random_split(dataset, lengths, seed=draw(generator))


def to_torch(value):
    """A batch with tensors in the place of arrays."""
    if isinstance(value, np.ndarray):
        if value.dtype.kind in "SUO":
            return value
        return torch.from_numpy(value) if value.flags.writeable else torch.from_numpy(value.copy())
    if isinstance(value, tuple):
        parts = [to_torch(part) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    if isinstance(value, collections.abc.MutableMapping):
        for key in value:
            value[key] = to_torch(value[key])
    elif isinstance(value, collections.abc.MutableSequence):
        for place, part in enumerate(value):
            value[place] = to_torch(part)
    return value


class Passage:
    """An iterator of a loader, with the attributes that torch's tests read."""

    def __init__(self, batches, convert):
        self.batches, self.convert = batches, convert

    def __iter__(self):
        return self

    def __next__(self):
        return self.convert(next(self.batches))

    @property
    def _workers(self):
        return self.batches._workers.processes


class DataLoader(data.DataLoader):
    def __init__(self, dataset, *args, generator=None, num_workers=0, collate_fn=None, **kwargs):
        context = kwargs.pop("multiprocessing_context", None)
        if num_workers > 0:
            fork = context == "fork" or getattr(context, "_name", None) == "fork"
            context = "spawn" if context is None or fork else context
        kwargs.pop("pin_memory_device", None)
        super().__init__(
            dataset, *args, num_workers=num_workers, collate_fn=collate_fn, multiprocessing_context=context, **kwargs
        )
        self.generator = generator
        self.convert = to_torch if collate_fn is None else lambda batch: batch

    def __class_getitem__(cls, kind):
        return cls

    @property
    def _auto_collation(self):
        return self.batch_sampler is not None

    def __iter__(self):
        self.seed = draw(self.generator)
        if isinstance(self.sampler, data.RandomSampler):
            self.sampler.seed = self.seed
        return Passage(super().__iter__(), self.convert)


def install():
    """Put funcnet's classes into torch.utils.data."""
    where = torch.utils.data
    for name in SAME:
        setattr(where, name, getattr(data, name))
    for own in (RandomSampler, SubsetRandomSampler, WeightedRandomSampler, DataLoader, random_split):
        setattr(where, own.__name__, own)
    where.dataset.random_split = random_split
    for name in ("default_collate", "default_convert"):
        function = getattr(data, name)
        converted = lambda batch, function=function: to_torch(function(batch))
        setattr(where, name, converted)
        setattr(where._utils.collate, name, converted)
