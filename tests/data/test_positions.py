"""A pass that is stopped anywhere and continued under other counts reads every item as often as it should."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from funcnet import data


def passed_on(state):
    """A position as a checkpoint returns it."""
    return json.loads(json.dumps(state))


class Items:
    """Plain items, one at a time."""

    def __init__(self, size):
        self.size = size

    def __len__(self):
        return self.size

    def __getitem__(self, index):
        return np.array([index, index * index])


def global_order(size, seed, epoch, shuffle):
    loader = data.DataLoader(np.arange(size), 1, shuffle=shuffle, seed=seed)
    return [int(batch[0]) for batch in loader.epoch(epoch)]


@pytest.mark.slow
@given(
    size=st.integers(1, 80), seed=st.integers(0, 2**31), shuffle=st.booleans(), first=st.integers(1, 9),
    second=st.integers(1, 9), workers=st.tuples(st.integers(0, 3), st.integers(0, 3)), stop=st.integers(0, 200),
)  # fmt: skip
def test_stopped_anywhere_and_resumed_with_other_batches_and_workers(size, seed, shuffle, first, second, workers, stop):
    def make(batch_size, count):
        return data.DataLoader(Items(size), batch_size, shuffle=shuffle, num_workers=count, seed=seed)

    loader, seen = make(first, workers[0]), []
    for number, batch in enumerate(loader.endless()):
        if number == stop % (3 * len(loader)):
            break
        seen += batch[:, 0].tolist()
    else:
        raise AssertionError
    fresh = make(first, workers[0])
    going = fresh.endless()
    for _ in range(stop % (3 * len(loader))):
        next(going)
    resumed = make(second, workers[1])
    resumed.load_state_dict(passed_on(fresh.state_dict()))
    rest = []
    for batch in resumed.endless():
        rest += batch[:, 0].tolist()
        if len(seen) + len(rest) >= 4 * size:
            break
    epochs = [global_order(size, seed, epoch, shuffle) for epoch in range(6)]
    assert (seen + rest)[: 4 * size] == [index for epoch in epochs for index in epoch][: 4 * size]


@pytest.mark.filterwarnings("ignore:DataLoader. an epoch has no batch")
@given(
    size=st.integers(1, 60), seed=st.integers(0, 99), replicas=st.tuples(st.integers(1, 5), st.integers(1, 5)),
    batch_size=st.tuples(st.integers(1, 6), st.integers(1, 6)), stop=st.integers(0, 30), drop_last=st.booleans(),
)  # fmt: skip
def test_processes_together_read_every_item_once_also_if_their_number_changes(
    size, seed, replicas, batch_size, stop, drop_last
):
    def make(which, rank):
        sampler = data.DistributedSampler(range(size), replicas[which], rank, seed=seed, drop_last=drop_last)
        return data.DataLoader(np.arange(size), batch_size[which], sampler=sampler)

    seen, states = [], []
    for rank in range(replicas[0]):
        loader = make(0, rank)
        passage = iter(loader)
        steps = stop % (len(loader) + 1)
        seen.append([index for _ in range(steps) for index in next(passage).tolist()])
        states.append(passed_on(loader.state_dict()))
    assert all(state == states[0] for state in states)  # each process saves the same position
    rest = []
    for rank in range(replicas[1]):
        loader = make(1, rank)
        loader.load_state_dict(states[0])
        rest.append([index for batch in loader for index in batch.tolist()])
    order = [int(i) for i in data.permute(range(size), size, seed=seed, epoch=0)]
    done = [index for turn in zip(*seen, strict=True) for index in turn]
    if states[0]["epoch"]:  # the first epoch was read completely
        assert sorted(done[:size]) == sorted(order)[: len(done)] or drop_last
        return
    left = [index for turn in zip(*rest, strict=True) for index in turn]
    assert done == order[: len(done)]
    expected = order[len(done) :]
    if drop_last:
        assert left == expected[: len(left)] and len(expected) - len(left) < replicas[1]
    else:
        assert left[: len(expected)] == expected  # what follows is the padding, from the beginning of the order
        assert left[len(expected) :] == (order * replicas[1])[: len(left) - len(expected)]


def test_a_position_costs_the_same_anywhere():
    read = []

    class Counted(Items):
        def __getitem__(self, index):
            read.append(index)
            return super().__getitem__(index)

    loader = data.DataLoader(Counted(10**9), 4, shuffle=True, seed=3)
    loader.load_state_dict(loader.position(200_000_000))
    next(iter(loader))
    assert len(read) == 4


class Stream(data.IterableDataset):
    """Yields a share of the numbers below `size` in each worker."""

    def __init__(self, size):
        self.size = size
        self.drawn = 0

    def __iter__(self):
        info = data.get_worker_info()
        step, start = (1, 0) if info is None else (info.num_workers, info.id)
        for number in range(start, self.size, step):
            self.drawn += 1
            yield number


class SavedStream(Stream):
    """The same with a state of its own."""

    place = begin = 0

    def __iter__(self):
        info = data.get_worker_info()
        step, start = (1, 0) if info is None else (info.num_workers, info.id)
        first, self.begin = self.begin, 0
        self.place = first
        for number in range(start + first * step, self.size, step):
            self.drawn += 1
            self.place = (number - start) // step + 1
            yield number

    def state_dict(self):
        return {"place": self.place}

    def load_state_dict(self, state):
        self.begin = state["place"]


@pytest.mark.parametrize(("kind", "resumes"), [(Stream, "skipping"), (SavedStream, "state")])
@pytest.mark.parametrize("workers", [0, 1, 3])
@pytest.mark.parametrize("stop", [0, 1, 2, 5, 6])
def test_a_stream_continues_by_its_own_state_or_by_skipping_and_says_which(kind, resumes, workers, stop):
    make = lambda: data.DataLoader(kind(17), 3, num_workers=workers)
    whole = [batch.tolist() for batch in make()]
    assert sorted(index for batch in whole for index in batch) == list(range(17))
    loader = make()
    passage = iter(loader)
    first = [next(passage).tolist() for _ in range(stop)]
    state = passed_on(loader.state_dict())
    assert state["resumes"] == resumes
    again = make()
    again.load_state_dict(state)
    assert first + [batch.tolist() for batch in again] == whole
    assert [batch.tolist() for batch in again] == whole  # the next epoch is a whole one
    if workers == 0 and stop == 5 and resumes == "state":
        fresh = make()
        fresh.load_state_dict(state)
        list(fresh)
        assert fresh.dataset.drawn == 2  # what was read before is not read again


def test_a_stream_saved_with_other_workers_is_refused():
    state = data.DataLoader(Stream(9), 2, num_workers=2).state_dict()
    data.DataLoader(Stream(9), 2).load_state_dict(state)  # at the beginning, any number will do
    loader = data.DataLoader(Stream(9), 2, num_workers=2)
    next(iter(loader))
    with pytest.raises(
        ValueError, match=r"different number of workers.*expected 1 worker\(s\), got 2\. Pass num_workers=2"
    ):
        data.DataLoader(Stream(9), 2).load_state_dict(loader.state_dict())


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: data.DataLoader(np.arange(11), 2, shuffle=True, seed=1), r"a different length; expected 11, got 10"),
        (lambda: data.DataLoader(np.arange(10), 2, shuffle=True, seed=2), r"a different seed; expected 2, got 1"),
        (lambda: data.DataLoader(np.arange(10), 2, seed=1), r"a different (order|seed)"),
        (
            lambda: data.DataLoader(np.arange(10.0), 2, shuffle=True, seed=1),
            r"a different dataset; expected ndarray\(float64",
        ),
        (lambda: data.DataLoader(Stream(10), 2), r"incomplete; expected the entries dataset, epoch, turn, workers"),
    ],
)
def test_a_position_of_other_data_is_refused(make, message):
    state = data.DataLoader(np.arange(10), 2, shuffle=True, seed=1).state_dict()
    with pytest.raises(ValueError, match=rf"DataLoader: the saved position .*{message}"):
        make().load_state_dict(state)


@pytest.mark.parametrize("change", [{"epoch": -1}, {"examples": 11}, {"examples": "3"}])
def test_a_position_out_of_range_is_refused(change):
    loader = data.DataLoader(np.arange(10), 2)
    with pytest.raises(ValueError, match="the saved position is out of range"):
        loader.load_state_dict({**loader.state_dict(), **change})


def test_a_sampler_of_the_user_is_skipped_through():
    sampler = [3, 1, 4, 1, 5, 9, 2, 6]
    loader = data.DataLoader(np.arange(10), 3, sampler=sampler)
    passage = iter(loader)
    assert next(passage).tolist() == [3, 1, 4]
    again = data.DataLoader(np.arange(10), 3, sampler=sampler)
    state = passed_on(loader.state_dict())
    assert state["resumes"] == "skipping"
    again.load_state_dict(state)
    assert [batch.tolist() for batch in again] == [[1, 5, 9], [2, 6]]


def test_batches_out_of_order_have_no_position():
    loader = data.DataLoader(np.arange(10), 2, num_workers=2, in_order=False)
    with pytest.raises(ValueError, match="batches out of order have no exact position"):
        loader.state_dict()


class Told(data.Sampler):
    """Its order depends on its epoch, which only `set_epoch` changes, as in torch's DistributedSampler."""

    epoch = 0

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __len__(self):
        return 8

    def __iter__(self):
        return iter(np.random.default_rng(self.epoch).permutation(8).tolist())


class Counting(Told):
    """Counts its epochs."""

    def __iter__(self):
        self.epoch += 1
        return iter(np.random.default_rng(self.epoch - 1).permutation(8).tolist())


class WithoutEpoch(data.Sampler):
    def __len__(self):
        return 8

    def __iter__(self):
        return iter([3, 1, 4, 0, 5, 2, 6, 7])


@pytest.mark.parametrize("kind", [Told, Counting, WithoutEpoch])
@pytest.mark.parametrize("passes", [0, 1, 2])
@pytest.mark.parametrize("tells", [False, True])
def test_a_sampler_of_ones_own_continues_in_the_order_of_the_interrupted_pass(kind, passes, tells):
    make = lambda: data.DataLoader(np.arange(8), 2, sampler=kind())

    def epoch_of(loader, number):
        if tells and kind is not WithoutEpoch:
            loader.sampler.set_epoch(10 + number)
        return iter(loader)

    for stop in range(5):
        loader, again = make(), make()
        for number in range(passes):
            list(epoch_of(loader, number))
        iterator = epoch_of(loader, passes)
        first = [next(iterator).tolist() for _ in range(stop)]
        state = json.loads(json.dumps(loader.state_dict()))
        rest = [batch.tolist() for batch in iterator]
        again.load_state_dict(state)
        found = [batch.tolist() for batch in epoch_of(again, passes)]
        if 0 < stop < 4:
            assert found == rest, "the interrupted pass"
            assert sorted(np.concatenate(first + found).tolist()) == list(range(8))
