import itertools

import numpy as np
import pytest
import torch.utils.data as reference
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from funcnet import data
from funcnet.data.sampler import OrderedSampler


def test_sequential_and_batches_are_torchs():
    for count, size, drop_last in itertools.product(range(8), range(1, 5), (False, True)):
        ours = data.BatchSampler(data.SequentialSampler(range(count)), size, drop_last)
        theirs = reference.BatchSampler(reference.SequentialSampler(range(count)), size, drop_last)
        assert list(ours) == list(theirs)
        assert len(ours) == len(theirs)


@pytest.mark.parametrize("num_samples", [None, 3, 10, 11, 25])
def test_random_sampler_repeats_whole_permutations_as_torch_does(num_samples):
    ours = data.RandomSampler(range(10), num_samples=num_samples, seed=3)
    theirs = reference.RandomSampler(range(10), num_samples=num_samples)
    assert len(ours) == len(theirs)
    found, expected = list(ours), list(theirs)
    for start in range(0, len(expected), 10):  # each round of 10 contains every index at most once
        assert len(set(found[start : start + 10])) == len(expected[start : start + 10])
    if num_samples == 25:
        assert found[:10] != found[10:20]


def test_each_iteration_is_the_next_epoch_and_set_epoch_chooses_it():
    sampler = data.RandomSampler(range(50), seed=1)
    first, second = list(sampler), list(sampler)
    assert first != second
    sampler.set_epoch(0)
    assert list(sampler) == first
    assert list(data.RandomSampler(range(50), seed=2)) != first


@pytest.mark.parametrize("make", [
    lambda seed: data.RandomSampler(range(40), replacement=True, num_samples=4000, seed=seed),
    lambda seed: data.WeightedRandomSampler([1.0] * 40, 4000, seed=seed),
])  # fmt: skip
def test_draws_with_replacement_are_uniform(make):
    counts = np.bincount(list(make(5)), minlength=40)
    assert stats.chisquare(counts).pvalue > 1e-4


def test_weighted_draws_have_torchs_distribution():
    weights = [0.0, 1.0, 2.0, 5.0]
    drawn = np.bincount(list(data.WeightedRandomSampler(weights, 20_000, seed=2)), minlength=4)
    assert drawn[0] == 0
    assert stats.chisquare(drawn[1:], 20_000 * np.array(weights[1:]) / 8).pvalue > 1e-4
    # without replacement: how often each ordered pair comes first, against torch.multinomial
    ours = data.WeightedRandomSampler(weights, 2, replacement=False, seed=4)
    pairs = list(itertools.permutations((1, 2, 3), 2))
    found = np.array([pairs.index(tuple(ours)) for _ in range(4000)])
    torch = pytest.importorskip("torch")
    generator = torch.Generator().manual_seed(0)
    theirs = [
        pairs.index(tuple(torch.multinomial(torch.tensor(weights), 2, generator=generator).tolist()))
        for _ in range(4000)
    ]
    table = np.stack([np.bincount(found, minlength=6), np.bincount(theirs, minlength=6)])
    assert stats.chi2_contingency(table).pvalue > 1e-4


@given(
    count=st.integers(1, 60), replicas=st.integers(1, 7), shuffle=st.booleans(), drop_last=st.booleans(),
    epoch=st.integers(0, 5),
)  # fmt: skip
def test_distributed_sampler_shares_as_torch_does(count, replicas, shuffle, drop_last, epoch):
    parts = []
    for rank in range(replicas):
        ours = data.DistributedSampler(range(count), replicas, rank, shuffle, 3, drop_last)
        theirs = reference.DistributedSampler(range(count), replicas, rank, shuffle=False, drop_last=drop_last)
        ours.set_epoch(epoch)
        part = list(ours)
        assert len(part) == len(ours) == len(theirs)
        if not shuffle:
            assert part == list(theirs)
        parts.append(part)
    order = [index for turn in itertools.zip_longest(*parts) for index in turn if index is not None]
    assert order[:count] == list(dict.fromkeys(order[:count]))  # no index twice, apart from the padding
    if not drop_last:
        assert set(order) == set(range(count))
        assert order[count:] == order[: len(order) - count] or replicas > count


@given(count=st.integers(1, 100), seed=st.integers(-5, 2**40), epoch=st.integers(0, 9), data_=st.data())
def test_any_part_of_an_order_is_computed_alone(count, seed, epoch, data_):
    samplers: list[OrderedSampler] = [
        data.SequentialSampler(range(count)),
        data.RandomSampler(range(count), seed=seed),
        data.RandomSampler(range(count), replacement=True, num_samples=2 * count, seed=seed),
        data.RandomSampler(range(count), num_samples=3 * count, seed=seed),
        data.SubsetRandomSampler(list(range(0, 3 * count, 3)), seed=seed),
        data.WeightedRandomSampler(range(1, count + 1), count, replacement=False, seed=seed),
        data.DistributedSampler(range(count), 1, 0, seed=seed),
    ]
    for sampler in samplers:
        sampler.set_epoch(epoch)
        whole = list(sampler)
        place = data_.draw(st.integers(0, len(whole) - 1))
        assert sampler.part(epoch, 0, place, len(whole)) == whole[place:]
        assert sampler.part(epoch, place, 0, len(whole) - place) == whole[place:]
        assert all(type(index) is int for index in whole)


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda m: m.RandomSampler(range(5), num_samples=0), ValueError),
        (lambda m: m.RandomSampler(range(5), num_samples=2.5), ValueError),
        (lambda m: m.RandomSampler(range(5), replacement="no"), TypeError),
        (lambda m: m.RandomSampler([]), ValueError),
        (lambda m: m.WeightedRandomSampler([1.0], 0), ValueError),
        (lambda m: m.WeightedRandomSampler([[1.0]], 1), ValueError),
        (lambda m: m.WeightedRandomSampler([1.0], 1, replacement=1), ValueError),
        (lambda m: m.BatchSampler([1, 2], 0, False), ValueError),
        (lambda m: m.BatchSampler([1, 2], True, False), ValueError),
        (lambda m: m.BatchSampler([1, 2], 2, 0), ValueError),
        (lambda m: m.DistributedSampler(range(5), 2, 2), ValueError),
        (lambda m: m.DistributedSampler(range(5), 2, -1), ValueError),
    ],
)
def test_bad_arguments_are_refused_with_torchs_words(make, error):
    with pytest.raises(error) as theirs:
        make(reference)
    with pytest.raises(error) as ours:
        make(data)
    assert str(theirs.value).rstrip(".") in str(ours.value)


@pytest.mark.parametrize("weights", [[-1.0, 2.0], [np.nan, 1.0], [np.inf], [0.0, 0.0]])
def test_weights_that_are_no_distribution_are_refused(weights):
    with pytest.raises(ValueError, match="weights are not a distribution"):
        data.WeightedRandomSampler(weights, 1)


def test_too_few_positive_weights_are_refused():
    with pytest.raises(ValueError, match=r"expected at least num_samples=3, got 2"):
        data.WeightedRandomSampler([1.0, 0.0, 2.0], 3, replacement=False)


def test_a_sampler_without_an_order_is_refused():
    with pytest.raises(NotImplementedError, match="expected a method __iter__"):
        iter(data.Sampler())


class Backwards(data.SequentialSampler):
    def __iter__(self):
        return iter(range(self.size)[::-1])


class Even(data.RandomSampler):
    def __iter__(self):
        return (index for index in super().__iter__() if index % 2 == 0)

    def __len__(self):
        return self.size // 2


class Sevens(data.DistributedSampler):
    def __iter__(self):
        return iter([7] * len(self))


class Turned(data.BucketBatchSampler):
    def __iter__(self):
        return (batch[::-1] for batch in super().__iter__())


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: Backwards(range(8)), "sampler"),
        (lambda: Even(range(8), seed=1), "sampler"),
        (lambda: Sevens(range(8), 2, 0), "sampler"),
        (lambda: Turned(np.arange(1, 9), 2, [4, 8]), "batch_sampler"),
        (lambda: data.BatchSampler(Even(range(8), seed=1), 3, False), "batch_sampler"),
    ],
)
@pytest.mark.parametrize("batch_size", [1, 3, None])
def test_a_loader_iterates_over_the_sampler_it_was_given(make, name, batch_size):
    """As torch does, also if a subclass overrides how a sampler of ours is iterated over."""
    options = {name: make()} if name == "batch_sampler" else {name: make(), "batch_size": batch_size}
    ours, theirs = data.DataLoader(np.arange(8), **options), reference.DataLoader(range(8), **{**options, name: make()})
    for _ in range(2):
        assert [np.ravel(batch).tolist() for batch in ours] == [np.ravel(batch).tolist() for batch in theirs]


def test_a_loader_with_an_iter_of_its_own_is_not_bypassed():
    class Added(data.DataLoader):
        def __iter__(self):
            return (batch + 100 for batch in super().__iter__())

    loader = Added(np.arange(4), 2)
    assert [batch.tolist() for batch in loader] == [[100, 101], [102, 103]]
    assert next(loader.endless()).tolist() == [100, 101]
    for read in (lambda: loader.epoch(0), lambda: loader.batches(0, 1), lambda: loader.batch(0)):
        with pytest.raises(TypeError, match=r"Added has an __iter__ of its own.* Change the batches in collate_fn"):
            read()
