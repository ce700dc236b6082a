"""What reaches `collate_fn`, and what an error says."""

import numpy as np
import pytest

from funcnet.data import ArrayDataset, DataLoader, Dataset


class Listing(Dataset):
    """`__getitems__` returns items."""

    def __len__(self):
        return 4

    def __getitem__(self, index):
        raise AssertionError("__getitems__ is there")

    def __getitems__(self, indices):
        assert all(type(index) is int for index in indices)
        return [index * 10 for index in indices]


def test_a_list_of_items_is_collated():
    assert [batch.tolist() for batch in DataLoader(Listing(), 3)] == [[0, 10, 20], [30]]
    assert list(DataLoader(Listing(), 3, collate_fn=sum)) == [30, 30]


def test_collate_fn_gets_items_also_of_a_dataset_that_returns_batches():
    dataset = ArrayDataset({"x": np.arange(4)})
    assert list(DataLoader(dataset, 2, collate_fn=lambda items: [item["x"] for item in items])) == [[0, 1], [2, 3]]


def test_a_list_of_the_wrong_length_is_refused():
    class Short(Listing):
        def __getitems__(self, indices):
            return [0]

    with pytest.raises(
        ValueError, match=r"Short \(4 items\): __getitems__ returned the wrong number.*expected 3, got 1"
    ):
        next(iter(DataLoader(Short(), 3)))


@pytest.mark.parametrize("dataset", [[1, 2, 3], {0: 1, 1: 2}.items()])
def test_a_collate_fn_that_returns_nothing_is_named(dataset):
    def forgetful(items):
        pass

    with pytest.raises(TypeError, match=r"collate_fn returned nothing; expected a batch from forgetful for"):
        list(DataLoader(dataset, 2, collate_fn=forgetful))


def test_an_error_in_collate_fn_names_the_items():
    def failing(items):
        raise OSError("no")

    with pytest.raises(OSError, match="no") as found:
        list(DataLoader([1, 2, 3], 2, collate_fn=failing))
    assert "items 0, 1 of list (3 items)" in found.value.__notes__[0]
    with pytest.raises(OSError, match="no") as found:
        list(DataLoader(iter_numbers(), 2, collate_fn=failing))
    assert "items 0 to 1" in found.value.__notes__[0]


class iter_numbers:
    def __iter__(self):
        yield from (1, 2)
        raise KeyError("third")


def test_an_error_of_a_stream_names_the_item():
    passage = iter(DataLoader(iter_numbers(), 1))
    assert [next(passage).tolist(), next(passage).tolist()] == [[1], [2]]
    with pytest.raises(KeyError) as found:
        next(passage)
    assert "while reading item 2 of iter_numbers" in found.value.__notes__[0]


def test_keys_of_any_type_without_bounds():
    named = {"a": 1, "b": 2}
    assert [batch.tolist() for batch in DataLoader(named, 2, sampler=["b", "a"])] == [[2, 1]]
    rows = np.arange(8).reshape(4, 2)
    bulk = DataLoader(list(rows), batch_size=None, sampler=[3, 1])
    assert [row.tolist() for row in bulk] == [[6, 7], [2, 3]]
