"""The shuffle buffer: each item once, inside its block, and the identical rest from every position."""

import copy
import itertools
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from funcnet.data import DataLoader
from funcnet.data.mixing import MixedIterableDataset
from funcnet.data.resumable import ResumableDataset
from funcnet.data.shards import ShardDataset
from funcnet.data.shuffle_buffer import ShuffleBuffer


class Rows(ResumableDataset):
    """Rows of an epoch. `read` counts the items that were produced."""

    def __init__(self, size):
        super().__init__()
        self.size, self.read = size, 0

    def first_state(self, epoch):
        return {"epoch": epoch, "row": 0}

    def items_from(self, state):
        while state["row"] < self.size:
            state["row"] += 1
            self.read += 1
            yield 1000 * state["epoch"] + state["row"] - 1


@pytest.mark.slow
@given(
    size=st.integers(0, 60),
    buffer_size=st.integers(1, 70),
    stop=st.integers(0, 60),
    epoch=st.integers(0, 2),
    own=st.booleans(),
)
def test_the_rest_is_the_same_from_every_position(size, buffer_size, stop, epoch, own):
    def shuffled():
        return ShuffleBuffer(Rows(size) if own else range(size), buffer_size, seed=3)

    data = shuffled()
    data.set_epoch(epoch)
    whole = list(data)
    for start in range(0, size, buffer_size):
        block = [item - 1000 * epoch * own for item in whole[start : start + buffer_size]]
        assert sorted(block) == list(range(start, min(start + buffer_size, size))), "each item once, in its block"
    data.set_epoch(epoch)
    assert list(itertools.islice(iter(data), stop)) == whole[:stop]
    state = json.loads(json.dumps(data.state_dict()))
    other = shuffled()
    other.load_state_dict(state)
    assert list(other) == whole[stop:]
    assert list(other) == list(data), "then comes the next epoch"


def test_resuming_reads_only_from_the_start_of_the_block():
    data = ShuffleBuffer(Rows(1000), 10)
    list(itertools.islice(data, 985))
    other = ShuffleBuffer(Rows(1000), 10)
    other.load_state_dict(data.state_dict())
    assert len(list(other)) == 15 and other.source.read == 20


def test_the_state_does_not_grow():
    data = ShuffleBuffer(Rows(5000), 2000)
    sizes = {len(json.dumps(data.state_dict())) for _ in data}
    assert max(sizes) < 100


def test_the_order_is_random_and_depends_on_seed_epoch_and_block():
    data = ShuffleBuffer(range(200), 100, seed=1)
    first, again = list(data), list(data)
    other = list(ShuffleBuffer(range(200), 100, seed=2))
    orders = [first[:100], again[:100], other[:100], [item - 100 for item in first[100:]], list(range(100))]
    for one, two in itertools.combinations(orders, 2):
        assert np.equal(one, two).sum() < 8, "about one in place, as in two random permutations"
    assert list(ShuffleBuffer(range(200), 100, seed=1)) == first


def test_the_buffer_holds_one_block_and_reads_evenly():
    """One item is read per item emitted, and an item that was emitted is not kept."""

    class Item:
        alive = 0

        def __init__(self):
            Item.alive += 1

        def __del__(self):
            Item.alive -= 1

    class Items:
        read = 0

        def __iter__(self):
            for _ in range(100):
                self.read += 1
                yield Item()

    source = Items()
    iterator, most = iter(ShuffleBuffer(source, 20)), 0
    for emitted in range(1, 101):
        item = next(iterator)
        most = max(most, Item.alive)
        assert source.read == min(100, 20 + emitted)
        del item
    assert most <= 22


def test_copies_have_their_own_source():
    data = ShuffleBuffer(Rows(50), 10)
    one, two = copy.copy(data), copy.copy(data)
    first, second = iter(one), iter(two)
    mixed = [(next(first), next(second)) for _ in range(30)]
    assert all(a == b for a, b in mixed) and one.state_dict() == two.state_dict()
    next(first)
    assert one.state_dict() != two.state_dict()


@pytest.mark.slow
@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_loader_continues_a_shuffled_mixture_of_shards(num_workers, tmp_path):
    """The whole chain, with the state of each worker: batches after every position, and the next epoch."""
    for shard in range(6):
        np.save(tmp_path / f"{shard}.npy", np.arange(5 + shard) + 100 * shard)

    def loader():
        shards = ShardDataset(tmp_path.glob("*.npy"), seed=1)
        mixed = MixedIterableDataset([ShuffleBuffer(shards, 4), range(50)], [2, 1], stopping_strategy="first_exhausted")
        return DataLoader(mixed, batch_size=4, num_workers=num_workers)

    def batches(data):
        return [batch.tolist() for batch in data]

    data = loader()
    whole, following = batches(data), batches(data)
    rows = sorted(row for batch in whole for row in batch if row >= 100)
    assert rows and len(rows) == len(set(rows)) and whole != following
    for stop in range(len(whole) + 1):
        first, second = loader(), loader()
        assert batches(itertools.islice(first, stop)) == whole[:stop]
        second.load_state_dict(json.loads(json.dumps(first.state_dict())))
        assert batches(second) == whole[stop:] and batches(second) == following


def test_errors():
    with pytest.raises(ValueError, match="buffer_size is out of range; expected at least 1, got 0"):
        ShuffleBuffer([1], 0)
    with pytest.raises(
        ValueError, match=r"from a different dataset; expected the keys \['block', .* got \['epoch', 'row'\]"
    ):
        ShuffleBuffer([1], 2).load_state_dict(Rows(3).state_dict())
