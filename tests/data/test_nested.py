"""A batch of a dataset that is made of others is the collated items, whatever reads the parts."""

import collections
import copy

import datasets
import numpy as np
import pytest
import torch.utils.data

from funcnet import data
from funcnet.data.nested import at_epoch, read, read_parts
from tests.data.test_collate import same

X, Y = np.arange(12, dtype=np.float32).reshape(6, 2), np.arange(6) * 10
Point = collections.namedtuple("Point", ["x", "y"])


def augmented(kind):
    """A subclass whose items differ from those of its base in a way that no batch of the base has."""

    class Augmented(kind):
        def __getitem__(self, index):
            item = super().__getitem__(index)
            if isinstance(item, dict):
                return {name: value + 1000 for name, value in item.items()}
            return tuple(value + 1000 for value in item) if isinstance(item, tuple) else item + 1000

    return Augmented


class Scaled(data.Dataset):
    """Returns whole batches, and has epochs."""

    epoch = 0

    def __len__(self):
        return 6

    def __getitem__(self, index):
        return X[index] * (self.epoch + 1)

    __getitems__ = __getitem__

    def at_epoch(self, epoch):
        new = copy.copy(self)
        new.epoch = epoch
        return new


PAIRS = data.TensorDataset(X, Y)
SOURCES = {
    "TensorDataset": augmented(data.TensorDataset)(X, Y),
    "ArrayDataset": augmented(data.ArrayDataset)({"x": X, "y": Y}),
    "Subset": augmented(data.Subset)(PAIRS, [5, 0, 1, 2, 3, 4]),
    "Subset with epochs": augmented(data.Subset)(Scaled(), range(6)),
    "ConcatDataset": augmented(data.ConcatDataset)([PAIRS, PAIRS]),
    "ConcatDataset with epochs": augmented(data.ConcatDataset)([Scaled(), X]),
    "StackDataset": augmented(data.StackDataset)(X, Y),
    "StackDataset with epochs": augmented(data.StackDataset)(x=augmented(Scaled)(), y=Y),
    "MixedDataset": augmented(data.MixedDataset)([PAIRS, PAIRS], [1, 1]),
    "own class": augmented(Scaled)(),
    "arrays": PAIRS,
}
AROUND = {
    "alone": lambda source: source,
    "Subset": lambda source: data.Subset(source, [4, 1, 0, 3, 2, 5]),
    "Subset of torch": lambda source: torch.utils.data.Subset(source, [4, 1, 0, 3, 2, 5]),
    "ConcatDataset": lambda source: data.ConcatDataset([source]),
    "ConcatDataset of two": lambda source: data.ConcatDataset([data.Subset(source, [0, 1]), source]),
    "StackDataset": lambda source: data.StackDataset(source, range(len(source))),
    "StackDataset by name": lambda source: data.StackDataset(a=source, b=np.arange(len(source))),
    "MixedDataset": lambda source: data.MixedDataset([source], [1], length=6),
    "MixedDataset of two": lambda source: data.MixedDataset([source, data.Subset(source, [2, 3])], [2, 1], length=6),
    "random_split": lambda source: data.random_split(source, [len(source) - 1, 1])[0],
    "two floors": lambda source: data.Subset(data.ConcatDataset([data.MixedDataset([source], [1]), source]), range(6)),
}


@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize("name", SOURCES)
def test_a_batch_is_the_collated_items(name, around):
    dataset = AROUND[around](SOURCES[name])
    loader = data.DataLoader(dataset, 4)
    for epoch in range(2):
        items = dataset.at_epoch(epoch) if hasattr(dataset, "at_epoch") else dataset
        expected = data.default_collate([items[index] for index in range(4)])
        same(loader.batch(epoch * len(loader)), to_torch(expected))


def to_torch(batch):
    if isinstance(batch, dict):
        return {key: to_torch(value) for key, value in batch.items()}
    if isinstance(batch, Point):
        return Point(*map(to_torch, batch))
    if isinstance(batch, list):
        return [to_torch(value) for value in batch]
    return torch.from_numpy(batch) if isinstance(batch, np.ndarray) else batch


def test_an_override_is_named_that_at_epoch_would_lose():
    class Base(Scaled):
        def at_epoch(self, epoch):
            return Base()

    class Proxy:
        def __init__(self, inner):
            self.inner = inner

        def __getattr__(self, name):
            return getattr(self.__dict__["inner"], name)

        def __len__(self):
            return 6

        def __getitem__(self, index):
            return self.inner[index] + 1000

    for dataset in (augmented(Base)(), Proxy(Scaled())):
        for whole in (dataset, data.Subset(dataset, [0]), data.MixedDataset([dataset], [1])):
            with pytest.raises(
                TypeError, match=r"at_epoch returned an object that reads other items; expected a (A|P)"
            ):
                data.DataLoader(whole, 2).batch(0)
    assert type(at_epoch(Base(), 3)) is Base and at_epoch([1], 3) == [1]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (np.arange(3), np.arange(3) + 0.25),  # numbers that a promotion would keep
        (np.arange(3) + 2**60, np.zeros(3, np.float32)),  # numbers that it would change
        (np.zeros(3, bool), np.zeros(3, np.int8)),
        (np.zeros((3, 2)), np.zeros((3, 3))),
        (data.TensorDataset(np.zeros(3), np.zeros(3)), data.TensorDataset(np.zeros(3), np.zeros(3, np.int32))),
        (data.ArrayDataset({"x": np.zeros(3)}), data.ArrayDataset({"x": np.zeros(3, np.float32)})),
    ],
)
@pytest.mark.parametrize(
    "join", [lambda *parts: data.ConcatDataset(parts), lambda *parts: data.MixedDataset(parts, [1, 1])]
)
def test_parts_that_differ_are_refused_as_items_are(first, second, join):
    with pytest.raises((TypeError, RuntimeError), match=r"different dtypes; expected|equal size, but got"):
        list(data.DataLoader(join(first, second), 6))


class Whole(data.Dataset):
    """Three items, with the given batch for all of them."""

    def __init__(self, items, batch):
        self.items, self.batch = items, batch

    def __len__(self):
        return len(self.items)

    def __getitem__(self, index):
        return self.items[index]

    def __getitems__(self, indices):
        return self.batch


BATCHES = {
    "arrays": ([0, 1, 2], np.arange(3)),
    "dicts": ([{"x": 0, "t": "a"}, {"x": 1, "t": "b"}, {"x": 2, "t": "c"}], {"x": np.arange(3), "t": ["a", "b", "c"]}),
    "records": ([Point(0, "a"), Point(1, "b"), Point(2, "c")], Point(np.arange(3), ("a", "b", "c"))),
    "columns": ([{"c": [0, 5]}, {"c": [1, 6]}, {"c": [2, 7]}], {"c": [np.arange(3), np.arange(5, 8)]}),
    "as many columns as rows": (
        [{"c": [0, 5, 1]}, {"c": [1, 6, 1]}, {"c": [2, 7, 1]}],
        {"c": [np.arange(3), np.arange(5, 8), np.ones(3, int)]},
    ),
    "not of rows": ([{"n": 3}] * 3, {"n": 3}),
    "objects": ([{"x": [1, 2]}, {"x": [3, 4]}, {"x": [5, 6]}], {"x": [[1, 2], [3, 4], [5, 6]]}),
}


@pytest.mark.parametrize("name", BATCHES)
def test_batches_are_joined_as_their_items_are_collated(name):
    items, batch = BATCHES[name]
    source = Whole(items, batch)
    joined = data.ConcatDataset([source, source]).__getitems__([3, 4, 5, 0, 1, 2])
    assert isinstance(joined, list) == (name in ("not of rows", "objects"))  # these are left to collating
    same(
        data.default_collate(joined) if isinstance(joined, list) else joined, to_torch(data.default_collate(items * 2))
    )


def test_columns_of_lists_of_hugging_face_are_joined():
    table = datasets.Dataset.from_dict({"x": [[1, 2], [3, 4], [5, 6]], "t": ["a", "b", "c"]})
    for whole in (data.ConcatDataset([table, table]), data.MixedDataset([table, table], [1, 1], shuffle=False)):
        (batch,) = data.DataLoader(whole, 6)
        expected = data.default_collate([whole[index] for index in range(6)])
        assert [column.tolist() for column in batch["x"]] == [column.tolist() for column in expected["x"]]
        assert list(batch["t"]) == list(expected["t"])


def test_a_part_with_the_wrong_number_of_items_is_named():
    source = Whole([1, 2, 3], [1])
    assert read(source, [0]) == [1]
    with pytest.raises(ValueError, match=r"Whole: __getitems__ returned the wrong number of items; expected 2, got 1"):
        read_parts([1, 2, 3], [0, 1], [(source, [0, 1], [0, 1])])
