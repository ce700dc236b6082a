"""Mixtures: exact shares, every item once per round, and the identical rest from every position.

The oracle of the shares is `n * weight` itself; that of the multiplicity is counting.
"""

import copy
import itertools
import json
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from funcnet.data.mixing import MixedDataset, MixedIterableDataset, Proportions
from funcnet.data.resumable import ResumableDataset

WEIGHTS = st.lists(st.floats(0.05, 20), min_size=1, max_size=7)


class Counting(ResumableDataset):
    """(name, epoch, row) for `size` rows, with a state of its own."""

    def __init__(self, name, size):
        super().__init__()
        self.name, self.size = name, size

    def first_state(self, epoch):
        return {"epoch": epoch, "row": 0}

    def items_from(self, state):
        while state["row"] < self.size:
            state["row"] += 1
            yield self.name, state["epoch"], state["row"] - 1


class Batches:
    """A source that returns complete batches."""

    def __init__(self, start, size, dtype=np.int64):
        self.values, self.read = np.arange(start, start + size).astype(dtype), 0

    def __len__(self):
        return len(self.values)

    def __getitem__(self, index):
        return {"x": self.values[index], "pair": (np.full(3, self.values[index]), 1)}

    def __getitems__(self, indices):
        assert all(type(index) is int for index in indices)
        self.read += 1
        values = self.values[indices]
        return {"x": values, "pair": (np.repeat(values[:, None], 3, 1), np.ones(len(indices), np.int64))}


# -------------------------------------------------------------------------------------------------------- proportions


@given(weights=WEIGHTS, first=st.integers(0, 2**20), seed=st.integers(0, 5))
def test_shares_are_exact_in_every_block(weights, first, seed):
    proportions = Proportions(weights, seed=seed)
    size, exact = proportions.block_size, np.array(weights) / np.sum(weights)
    assert size >= 1024
    for block in (0, first, first + 1):
        before, after = proportions.draws_before(block), proportions.draws_before(block + 1)
        assert before.sum() == block * size
        assert np.abs(before - block * size * exact).max() <= 1 + 1e-3, "long-run shares are exact"
        sources, draws = proportions.block(block)
        np.testing.assert_array_equal(np.bincount(sources, minlength=len(weights)), after - before)
        for source in range(len(weights)):
            np.testing.assert_array_equal(draws[sources == source], np.arange(before[source], after[source]))


@given(weights=WEIGHTS, positions=st.lists(st.integers(0, 2**40), min_size=1, max_size=20))
def test_a_position_does_not_depend_on_the_others(weights, positions):
    proportions = Proportions(weights, seed=3)
    sources, draws = proportions.locate(positions)
    for place, position in enumerate(positions):
        alone = Proportions(weights, seed=3).locate(position)
        assert (alone[0], alone[1]) == (sources[place], draws[place])


def test_draws_of_a_source_are_numbered_without_gaps():
    """Eleven sources, some of which occur less than once in 1,024 positions."""
    weights = [1000, 300, 1, 1, 0.5, 7, 0.4, 11, 0.3, 900, 0.25]
    proportions = Proportions(weights)
    assert proportions.block_size == 16384
    sources, draws = proportions.locate(np.arange(10 * proportions.block_size))
    for source in range(len(weights)):
        own = draws[sources == source]
        np.testing.assert_array_equal(own, np.arange(len(own)))
        assert abs(len(own) - len(sources) * weights[source] / sum(weights)) < 1


def test_equal_weights_are_equal_and_order_depends_on_seed_and_block():
    proportions = Proportions([5, 5], seed=1)
    first, second = proportions.block(0)[0], proportions.block(1)[0]
    assert np.bincount(first).tolist() == np.bincount(second).tolist() == [512, 512]
    other = Proportions([1, 1], seed=2).block(0)[0]
    for a, b in itertools.combinations([first, second, other], 2):
        assert 400 < (a == b).sum() < 624, "as for coins: 512, standard deviation 16"
    np.testing.assert_array_equal(first, Proportions([1, 1], seed=1).block(0)[0])


@pytest.mark.parametrize("weights", [[], [1, 0], [1, -2], [1, float("nan")], [1, float("inf")], [1, 1e-9]])
def test_wrong_weights(weights):
    with pytest.raises(ValueError, match=r"Proportions: .*weight.*; expected .* got"):
        Proportions(weights)


# --------------------------------------------------------------------------------------------------------- map-style


@pytest.mark.slow
@given(
    sizes=st.lists(st.integers(1, 300), min_size=1, max_size=4),
    shuffle=st.booleans(),
    seed=st.integers(0, 9),
    data=st.data(),
)
def test_every_round_has_every_item_once(sizes, shuffle, seed, data):
    weights = data.draw(st.lists(st.floats(0.1, 10), min_size=len(sizes), max_size=len(sizes)))
    mixed = MixedDataset([np.arange(size) for size in sizes], weights, seed=seed, shuffle=shuffle)
    sources, rounds, items = mixed.locate(np.arange(3000))
    for source, size in enumerate(sizes):
        own = items[sources == source]
        np.testing.assert_array_equal(rounds[sources == source], np.arange(len(own)) // size)
        for start in range(0, len(own) - size + 1, size):
            whole = own[start : start + size]
            assert sorted(whole.tolist()) == list(range(size))
            assert shuffle or whole.tolist() == list(range(size))
        if shuffle and size > 50 and len(own) >= 2 * size:
            assert own[:size].tolist() != own[size : 2 * size].tolist(), "a new order each round"


def test_items_and_batches_agree_and_batches_are_read_at_once():
    sources = [Batches(0, 7), Batches(100, 50)]
    mixed = MixedDataset(sources, [1, 2], seed=4)
    assert len(mixed) == 57
    items = [mixed[i] for i in range(57)]
    batch = mixed.__getitems__([3, 50, 3, 0])
    assert [source.read for source in sources] <= [4, 1], "once per source and round"
    assert batch["x"].tolist() == [items[i]["x"] for i in (3, 50, 3, 0)]
    assert batch["pair"][0].tolist() == [items[i]["pair"][0].tolist() for i in (3, 50, 3, 0)]
    assert isinstance(batch["pair"], tuple) and batch["pair"][1].tolist() == [1] * 4
    assert mixed[-1]["x"] == items[56]["x"]
    for index in (57, -58):
        with pytest.raises(IndexError, match=f"expected -57 to 56, got {index}"):
            mixed[index]


def test_sources_of_different_structure_come_as_items():
    arrays = MixedDataset([np.arange(5), np.arange(5.0)], [1, 1], seed=1)
    assert [type(item) for item in arrays.__getitems__(list(range(10)))] == [type(arrays[i]) for i in range(10)]
    assert {type(item) for item in arrays.__getitems__(list(range(10)))} == {np.int64, np.float64}
    lists = MixedDataset([["a", "b"], ["c"]], [2, 1])
    assert lists.__getitems__([0, 1, 2]) == [lists[0], lists[1], lists[2]]
    half = MixedDataset([["a", "b"], Batches(0, 3)], [1, 1])
    assert {str(type(item)) for item in half.__getitems__(list(range(5)))} == {"<class 'str'>", "<class 'dict'>"}


def test_epochs_continue_the_mixture():
    mixed = MixedDataset([np.arange(10), np.arange(10, 20)], [3, 1], seed=1, length=8)
    through = [mixed.at_epoch(epoch)[i] for epoch in range(5) for i in range(8)]
    sources, _, items = mixed.locate(np.arange(40))
    assert through == (10 * sources + items).tolist()
    assert [mixed.at_epoch(2)[i] for i in range(8)] == mixed.at_epoch(2).__getitems__(list(range(8))).tolist()


@pytest.mark.slow
def test_a_round_of_a_source_is_its_epoch():
    class Epochs:
        def __init__(self, epoch=0):
            self.epoch = epoch

        def __len__(self):
            return 4

        def __getitem__(self, index):
            return self.epoch, index

        def at_epoch(self, epoch):
            return Epochs(epoch)

    mixed = MixedDataset([Epochs(), Epochs()], [3, 1], length=16)
    drawn = [mixed.at_epoch(epoch)[i] for epoch in range(64) for i in range(16)]
    counts = {pair: drawn.count(pair) for pair in set(drawn)}
    assert set(counts) == {(epoch, index) for epoch in range(192) for index in range(4)}
    assert all(count == (2 if epoch < 64 else 1) for (epoch, _), count in counts.items())


def test_wrong_sources():
    with pytest.raises(ValueError, match="expected one weight per dataset, got 1 datasets and 2 weights"):
        MixedDataset([[1]], [1, 2])
    with pytest.raises(ValueError, match=r"at least 1 item and a length of at least 1, got lengths \[1, 0\]"):
        MixedDataset([[1], []], [1, 2])
    with pytest.raises(ValueError, match="and length 0"):
        MixedDataset([[1]], [1], length=0)


# ---------------------------------------------------------------------------------------------------------- iterable


def mixture(strategy="all_exhausted", seed=0):
    return MixedIterableDataset(
        [Counting("a", 5), Counting("b", 40), range(9)], [1, 3, 2], seed=seed, stopping_strategy=strategy
    )


@given(stop=st.integers(0, 90), epoch=st.integers(0, 2), seed=st.integers(0, 4))
def test_the_rest_is_the_same_from_every_position(stop, epoch, seed):
    mixed = mixture(seed=seed)
    mixed.set_epoch(epoch)
    whole = list(mixed)
    mixed.set_epoch(epoch)
    iterator = iter(mixed)
    start = list(itertools.islice(iterator, stop))
    state = json.loads(json.dumps(mixed.state_dict()))
    other = mixture(seed=seed)
    other.load_state_dict(state)
    assert other.state_dict() == state, "before the first item, too"
    other.set_epoch(epoch)  # the same epoch: the position stays
    resumed = iter(other)
    assert other.state_dict() == state
    assert start + list(resumed) == whole
    assert list(other) == list(mixed) or stop < len(whole), "then comes the next epoch"


def test_stopping_strategies():
    def counts(items):
        names = [item[0] if isinstance(item, tuple) else "range" for item in items]
        return names.count("a"), names.count("b"), names.count("range")

    a, b, others = counts(mixture("first_exhausted"))
    assert max(a / 5, b / 40, others / 9) == 1
    a, b, others = counts(mixture("all_exhausted"))
    assert b == 40 and a > 5 and others > 9, "b ends last"
    never = list(itertools.islice(mixture("never"), 6 * 1024))
    assert np.abs(np.array(counts(never)) - 1024 * np.array([1, 3, 2])).max() <= 1
    assert [item for item in never if isinstance(item, int)][:20] == [*range(9), *range(9), 0, 1]


def test_a_source_gets_a_new_epoch_for_each_pass():
    mixed = MixedIterableDataset([Counting("a", 2)], [1])
    mixed.set_epoch(3)
    epochs = [epoch for _, epoch, _ in itertools.islice(mixed, 6)]
    assert epochs[0] == 3 and len(set(epochs)) == 3 and epochs[0::2] == epochs[1::2]


def test_copies_and_pickles_have_their_own_position():
    mixed = mixture()
    whole = list(mixture())
    one, two = copy.copy(mixed), copy.copy(mixed)
    first, second = iter(one), iter(two)
    assert [next(first) for _ in range(9)] == whole[:9] and next(second) == whole[0]
    state = one.state_dict()
    assert state["position"] == 9 and sum(source.get("row", source.get("skip")) for source in state["sources"]) == 9
    sleeping = MixedIterableDataset([Counting("a", 2)], [1], stopping_strategy="first_exhausted")
    assert list(pickle.loads(pickle.dumps(sleeping))) == list(sleeping)


def test_a_new_iterator_starts_with_a_new_state():
    mixed = mixture()
    next(iter(mixed))
    _ = iter(mixed)
    assert mixed.state_dict() == {"epoch": 1, "position": 0, "rounds": [0, 0, 0], "sources": [None] * 3}


def test_errors():
    with pytest.raises(ValueError, match="expected 'never', 'first_exhausted' or 'all_exhausted', got 'first'"):
        MixedIterableDataset([[1]], [1], stopping_strategy="first")
    with pytest.raises(ValueError, match="got 1 datasets and 2 weights"):
        MixedIterableDataset([[1]], [1, 1])
    with pytest.raises(ValueError, match="source 0 has no items"):
        list(MixedIterableDataset([[]], [1]))
    with pytest.raises(ValueError, match="source 0 has no items"):
        list(MixedIterableDataset([iter([1, 2])], [1]))
    with pytest.raises(ValueError, match="expected 3 sources, got 1"):
        mixture().load_state_dict(MixedIterableDataset([[1]], [1]).state_dict())
    with pytest.raises(ValueError, match="expected 3 sources, got 0"):
        mixture().load_state_dict({"epoch": 1})
