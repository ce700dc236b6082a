import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from funcnet.data import BucketBatchSampler, DataLoader, PaddedCollate, bucket_lengths


@given(st.lists(st.integers(1, 60), min_size=1, max_size=60), st.integers(1, 8), st.integers(1, 4), st.booleans())
def test_every_item_comes_once_an_epoch_in_the_same_shapes(lengths, batch_size, most, shuffle):
    boundaries = bucket_lengths(np.array(lengths), 64, most)
    items = [np.full(length, index) for index, length in enumerate(lengths)]
    sampler = BucketBatchSampler(lengths, batch_size, boundaries, shuffle=shuffle, seed=3)
    loader = DataLoader(items, batch_sampler=sampler, collate_fn=PaddedCollate(boundaries, fill=-1))
    shapes = []
    for epoch in range(3):
        found = list(loader.epoch(epoch))
        assert len(found) == len(loader) == -(-len(lengths) // batch_size)
        assert sorted(row[0] for batch in found for row in batch) == list(range(len(lengths)))
        assert all((row >= 0).sum() == lengths[row[0]] for batch in found for row in batch)
        shapes.append(sorted(batch.shape for batch in found))
    assert shapes[0] == shapes[1] == shapes[2]
    assert {shape[1] for shape in shapes[0]} <= set(boundaries)


def test_a_position_between_buckets():
    lengths = list(range(1, 30))
    make = lambda: DataLoader(np.arange(29), batch_sampler=BucketBatchSampler(lengths, 4, [8, 32], seed=1))
    whole = [batch.tolist() for batch in make()]
    loader = make()
    passage = iter(loader)
    first = [next(passage).tolist() for _ in range(3)]
    again = make()
    again.load_state_dict(loader.state_dict())
    assert first + [batch.tolist() for batch in again] == whole
    assert loader.state_dict()["resumes"] == "position"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([5, 9], 2, [8]), r"item 1 is too long; expected at most 8, the last boundary, got 9"),
        (([5], 0, [8]), "batch_size should be a positive integer"),
        (([5], 1, [8, 4]), "boundaries must increase"),
        (([5], 1, []), "boundaries must increase"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        BucketBatchSampler(*arguments)


def test_an_array_that_is_too_long_is_named():
    with pytest.raises(ValueError, match="entry 1 of the batch is too long; expected at most 4"):
        PaddedCollate([2, 4])([np.ones(1), np.ones(5)])
