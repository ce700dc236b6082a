"""A step's batch follows from (seed, step); every example comes once an epoch."""

import numpy as np
import pytest

from funcnet.data import ArrayDataset, DataLoader


def numbers(size):
    return ArrayDataset({"x": np.arange(size)})


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("size,batch_size", [(10, 4), (12, 4), (5, 5), (101, 7)])
def test_an_epoch_has_every_example_once(size, batch_size, drop_last):
    loader = DataLoader(numbers(size), batch_size, shuffle=True, seed=3, drop_last=drop_last)
    orders = []
    for epoch in range(3):
        batches = [batch["x"] for batch in loader.epoch(epoch)]
        assert len(batches) == len(loader)
        seen = np.concatenate(batches)
        expected = size - size % batch_size if drop_last else size
        assert len(seen) == expected == len(set(seen.tolist()))
        orders.append(seen.tolist())
    assert orders[0] != orders[1] != orders[2]


def test_resumes_from_the_step_number_alone():
    def fresh():
        return DataLoader(numbers(23), 4, shuffle=True, seed=5, drop_last=True)

    whole = [batch["x"].tolist() for batch in fresh().batches(0, 17)]
    for start in (0, 1, 5, 6, 16):
        assert [batch["x"].tolist() for batch in fresh().batches(start, 17)] == whole[start:]
    far = fresh().batch(10**12)["x"]
    assert len(far) == 4


def test_in_order_without_shuffle_and_other_seeds_differ():
    assert DataLoader(numbers(5), 2).batch(1)["x"].tolist() == [2, 3]
    first, second = (DataLoader(numbers(50), 50, shuffle=True, seed=seed).batch(0)["x"] for seed in (0, 1))
    assert first.tolist() != second.tolist()


def test_a_plain_array_is_a_dataset_and_at_epoch_is_asked():
    assert DataLoader(np.arange(6).reshape(3, 2), 2).batch(0).tolist() == [[0, 1], [2, 3]]

    class Epochs(ArrayDataset):
        def at_epoch(self, epoch):
            return ArrayDataset({"x": self.columns["x"] + 100 * epoch})

    loader = DataLoader(Epochs({"x": np.arange(4)}), 2)
    assert loader.batch(0)["x"].tolist() == [0, 1] and loader.batch(5)["x"].tolist() == [202, 203]


def test_a_dataset_smaller_than_a_batch_is_said():
    loader = DataLoader(numbers(3), 8, drop_last=True)
    with pytest.warns(UserWarning, match=r"an epoch has no batch.*expected at least 8 items, got ArrayDataset"):
        assert list(loader) == []
    with pytest.raises(ValueError, match=r"smaller than one batch; expected at least 8 items, got ArrayDataset"):
        loader.batches()
    with pytest.raises(ValueError, match="expected at least 1 items"):
        DataLoader(numbers(0), 8).batch(0)
    assert list(DataLoader(numbers(0), 8)) == []  # as in torch


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda: list(DataLoader([1, None], 2)), r"different types; expected numbers like 1, got None"),
        (lambda: list(DataLoader([1, "a"], 2)), r"different types; expected numbers like 1, got 'a'"),
        (lambda: DataLoader([1], seed="a"), r"seed has the wrong type; expected an int, got 'a'"),
        (lambda: DataLoader([1], seed=1.5), r"seed has the wrong type; expected an int, got 1.5"),
        (lambda: DataLoader([1], collate_fn=3), r"collate_fn has the wrong type; expected a function .*, got 3"),
        (lambda: DataLoader([1], worker_init_fn=3, num_workers=1), r"worker_init_fn has the wrong type"),
        (lambda: DataLoader([1]).load_state_dict(None), r"the saved position is not a dict; .* got None"),
    ],
)
def test_values_of_a_wrong_type(use, message):
    with pytest.raises(TypeError, match=message):
        use()


def test_numpy_integers_are_integers():
    loader = DataLoader(np.arange(4), np.int64(2), num_workers=np.int32(1), seed=np.int64(3))
    assert [batch.tolist() for batch in loader] == [[0, 1], [2, 3]]
