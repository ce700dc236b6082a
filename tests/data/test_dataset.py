"""Datasets beside torch's; a gathered batch is the collated items."""

import copy
import pickle

import numpy as np
import pytest
import torch
import torch.utils.data as reference
from hypothesis import given
from hypothesis import strategies as st

from funcnet import data
from funcnet.data.describe import describe

A, B = np.arange(12.0).reshape(6, 2), np.arange(6) * 10


class Plain:
    """A dataset of items, as torch users write them."""

    def __len__(self):
        return 6

    def __getitem__(self, index):
        return A[index], B[index]


def nested():
    """Datasets made of datasets, of 6 or more items."""
    arrays, named = data.TensorDataset(A, B), data.ArrayDataset({"a": A, "b": B})
    return {
        "tensors": arrays,
        "arrays": named,
        "subset": data.Subset(named, [5, 0, 0, 3, 2, 4]),
        "subset of subset": data.Subset(data.Subset(arrays, [5, 4, 3, 2, 1, 0]), [1, 0, 2, 5, 4, 3]),
        "joined": data.ConcatDataset([named, data.ArrayDataset({"a": A[:2] + 100, "b": B[:2]})]),
        "joined arrays": data.ConcatDataset([A, A[:3] + 50]),
        "joined with items": data.ConcatDataset([arrays, Plain()]),
        "stacked": data.StackDataset(named, B),
        "stacked by name": data.StackDataset(x=A, y=Plain()),
        "plain": Plain(),
        "split": data.random_split(data.ConcatDataset([named, named]), [8, 4], seed=1)[0],
    }


@given(st.lists(st.integers(0, 5), min_size=1, max_size=8), st.sampled_from(sorted(nested())))
def test_a_gathered_batch_is_the_collated_items(indices, name):
    dataset = nested()[name]
    (gathered,) = data.DataLoader(dataset, batch_sampler=[indices])
    expected = data.default_collate([dataset[index] for index in indices])
    leaves = lambda batch: (
        [leaf for part in (batch.values() if isinstance(batch, dict) else batch) for leaf in (leaves(part))]
        if isinstance(batch, dict | list | tuple)
        else [batch]
    )
    assert type(gathered) is type(expected)
    for ours, theirs in zip(leaves(gathered), leaves(expected), strict=True):
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(ours, theirs)


def test_whole_batches_are_used_where_the_parts_have_them():
    for name, kind in {"tensors": tuple, "subset": dict, "joined": dict, "stacked": tuple, "split": dict}.items():
        assert type(nested()[name].__getitems__([1, 0, 5])) is kind, name
    assert type(nested()["joined with items"].__getitems__([1, 8])) is list


@pytest.mark.parametrize("name", sorted(nested()))
def test_datasets_can_be_pickled_and_copied(name):
    dataset = nested()[name]
    for other in (pickle.loads(pickle.dumps(dataset)), copy.copy(dataset)):
        assert len(other) == len(dataset)
        assert describe(other) == describe(dataset)


@pytest.mark.parametrize("lengths", [[3, 7], [0.5, 0.5], [0.34, 0.33, 0.33], [0.1, 0.2, 0.3, 0.4], [10], [1.0]])
def test_random_split_has_torchs_lengths(lengths):
    ours, theirs = data.random_split(range(10), lengths, seed=3), reference.random_split(range(10), lengths)
    assert [len(part) for part in ours] == [len(part) for part in theirs]
    assert sorted(item for part in ours for item in part) == list(range(10))
    again = data.random_split(range(10), lengths, seed=4)
    assert len(lengths) == 1 or [list(part) for part in ours] != [list(part) for part in again]


def both_raise(make):
    """The messages of torch and of funcnet, which raise the same type."""
    with pytest.raises(Exception) as theirs:
        make(reference, torch.as_tensor)
    with pytest.raises(type(theirs.value)) as ours:
        make(data, np.asarray)
    return str(theirs.value).rstrip("."), str(ours.value)


@pytest.mark.parametrize(
    "make",
    [
        lambda m, t: m.TensorDataset(t([1, 2]), t([1])),
        lambda m, t: m.ConcatDataset([]),
        lambda m, t: list(m.ChainDataset([[1]])),
        lambda m, t: len(m.ChainDataset([[1]])),
        lambda m, t: m.ConcatDataset([[1, 2]])[-3],
        lambda m, t: m.StackDataset(),
        lambda m, t: m.StackDataset([1], [1, 2]),
        lambda m, t: m.random_split(range(4), [1, 2]),
        lambda m, t: m.random_split(range(4), [0.1]),
        lambda m, t: m.random_split(range(4), [-0.5, 1.5]),
    ],
)
def test_errors_have_torchs_words(make):
    theirs, ours = both_raise(make)
    assert theirs.split(",")[0].split("!")[0].lower() in ours.lower()


def test_an_empty_split_is_warned_of():
    with pytest.warns(UserWarning, match="Length of split at index 1 is 0"):
        data.random_split(range(1), [0.1, 0.9])


def test_at_epoch_reaches_the_parts():
    class Epochs:
        def __init__(self, epoch=0):
            self.epoch = epoch

        def __len__(self):
            return 3

        def __getitem__(self, index):
            return index + 100 * self.epoch

        def at_epoch(self, epoch):
            return Epochs(epoch)

    for dataset, expected in (
        (data.Subset(Epochs(), [2, 0]), [202, 200]),
        (data.ConcatDataset([Epochs(), [7]]), [200, 201, 202, 7]),
        (data.StackDataset(Epochs(), ["a", "b", "c"]), [(200, "a"), (201, "b"), (202, "c")]),
    ):
        assert [data.DataLoader(dataset, None).dataset.at_epoch(2)[i] for i in range(len(dataset))] == expected
    assert [batch.tolist() for batch in data.DataLoader(Epochs(), 3).batches(0, 2)] == [[0, 1, 2], [100, 101, 102]]


def test_a_dataset_that_has_changed_is_named():
    items = [1, 2, 3]
    loader = data.DataLoader(items, 2)
    items.append(4)
    with pytest.raises(ValueError, match=r"the dataset has changed.*expected list \(3 items\), got list \(4 items\)"):
        next(iter(loader))

    class Shrinking(Plain):
        def __getitem__(self, index):
            return [5, 6, 7][index]

    with pytest.raises(IndexError) as found:
        list(data.DataLoader(Shrinking(), 2))
    assert "item 3 of Shrinking (6 items)" in "\n".join(found.value.__notes__)


@pytest.mark.parametrize("index", [7, -1, 1.5, None])
@pytest.mark.parametrize("dataset", [B, [1, 2, 3, 4, 5, 6], Plain(), data.ArrayDataset({"b": B})])
def test_an_index_that_is_wrong_is_named(index, dataset):
    with pytest.raises((IndexError, TypeError)) as found:
        list(data.DataLoader(dataset, 2, sampler=[0, index]))
    text = "\n".join([str(found.value), *found.value.__notes__])
    assert str(index) in text and type(dataset).__name__ in text


def test_joining_streams_as_items_is_refused():
    with pytest.raises(AssertionError, match="ConcatDataset does not support IterableDataset"):
        data.ConcatDataset([data.IterableDataset()])
    assert isinstance(data.IterableDataset() + data.IterableDataset(), data.ChainDataset)


def test_a_subclass_that_overrides_only_getitem_is_read_item_by_item():
    class Augmented(data.TensorDataset):
        def __getitem__(self, index):
            return super().__getitem__(index)[1] + 1000

    for dataset in (Augmented(A, B), data.Subset(Augmented(A, B), range(6)), data.ConcatDataset([Augmented(A, B)])):
        assert next(iter(data.DataLoader(dataset, 3))).tolist() == [1000, 1010, 1020]
