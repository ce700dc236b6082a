"""The draws of an item are the same with any workers, batches and processes, and after every resume."""

import itertools
import threading
import warnings

import numpy as np
import pytest
import torch  # noqa: F401  whose generator is watched as well
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from funcnet import data
from tests.data.draws import Drawing, DrawingOfPython, DrawingOfTorch, DrawingWhole, GloballyDrawing, StreamOfDraws

SPAWN = {"num_workers": 2, "multiprocessing_context": "spawn"}


def drawn(loader, epochs=1):
    """The rows of the next epochs, in order."""
    return [row for _ in range(epochs) for batch in loader for row in np.asarray(batch).tolist()]


def samplers(size):
    return {
        "in order": {},
        "shuffled": {"shuffle": True},
        "with replacement": {"sampler": data.RandomSampler(range(size), replacement=True, num_samples=2 * size)},
        "weighted": {"sampler": data.WeightedRandomSampler(np.arange(1, size + 1), 2 * size)},
        "of the user": {"sampler": [0, 0, *range(size), 0]},
    }


@pytest.mark.parametrize("name", samplers(7))
@pytest.mark.parametrize("options", [{}, {"num_workers": 2}, pytest.param(SPAWN, marks=pytest.mark.slow)])
def test_workers_and_batches_do_not_matter(name, options):
    make = lambda batch_size, **more: data.DataLoader(Drawing(7), batch_size, seed=3, **samplers(7)[name], **more)
    whole = drawn(make(3), 2)
    assert drawn(make(3, **options), 2) == whole
    if name != "of the user":  # whose batches are counted
        assert drawn(make(5, **options), 2) == whole
    assert len({row[1] for row in whole} | {row[2] for row in whole}) == 2 * len(whole), "no draw is repeated"
    assert drawn(data.DataLoader(Drawing(7), 3, seed=4, **samplers(7)[name])) != whole[: len(whole) // 2]


def test_processes_draw_what_threads_draw():
    make = lambda **options: data.DataLoader(Drawing(9), 2, shuffle=True, seed=1, **options)
    assert drawn(make(**SPAWN)) == drawn(make(num_workers=2)) == drawn(make())


@given(
    size=st.integers(1, 12), first=st.integers(1, 5), second=st.integers(1, 5), stop=st.integers(0, 20),
    workers=st.tuples(st.integers(0, 2), st.integers(0, 2)), name=st.sampled_from(sorted(samplers(1))),
)  # fmt: skip
def test_after_a_resume_the_draws_go_on(size, first, second, stop, workers, name):
    if name == "of the user":
        second = first
    make = lambda batch_size, count: data.DataLoader(
        Drawing(size), batch_size, num_workers=count, seed=2, **samplers(size)[name]
    )
    whole = drawn(make(first, 0), 3)
    loader, again = make(first, workers[0]), make(second, workers[1])
    going = loader.endless()
    seen = [row for _ in range(stop % (2 * len(loader))) for row in next(going).tolist()]
    again.load_state_dict(loader.state_dict())
    assert (seen + drawn(again, 3))[: len(whole)] == whole


def test_steps_draw_what_epochs_draw():
    loader = data.DataLoader(Drawing(7), 3, shuffle=True)
    whole = drawn(loader, 3)
    assert [row for batch in loader.batches(0, 9) for row in batch.tolist()] == whole
    assert loader.batch(4).tolist() == whole[10:13]


def test_processes_that_share_an_epoch_draw_what_one_draws():
    alone = drawn(data.DataLoader(Drawing(8), 3, shuffle=True, seed=5))
    for count in (2, 4):
        parts = [
            drawn(
                data.DataLoader(Drawing(8), 2, seed=5, sampler=data.DistributedSampler(range(8), count, rank, seed=5))
            )
            for rank in range(count)
        ]
        assert [row for turn in zip(*parts, strict=True) for row in turn] == alone
    halves = []
    for rank in range(2):
        loader = data.DataLoader(Drawing(8), 4, shuffle=True, seed=5)
        loader.read_rows(lambda count, rank=rank: np.arange(rank, count, 2))
        halves.append(drawn(loader))
    assert sorted(halves[0] + halves[1]) == sorted(alone)


class DrawingBefore(data.Dataset):
    """Draws before it reads the items of another dataset, one by one or a batch at a time."""

    def __init__(self, inner):
        self.inner = inner

    def __len__(self):
        return len(self.inner)

    def __getitem__(self, index):
        own = data.item_rng().random()
        return np.append(self.inner[index], own)

    def __getitems__(self, indices):
        own = [data.item_rng(row).random() for row in range(len(indices))]
        return [np.append(item, draw) for item, draw in zip(self.inner.__getitems__(indices), own, strict=True)]


AROUND = {
    "alone": lambda dataset: dataset,
    "Subset": lambda dataset: data.Subset(dataset, [3, 1, 0, 2, 5, 4]),
    "ConcatDataset": lambda dataset: data.ConcatDataset([data.Subset(dataset, [0, 2]), dataset]),
    "StackDataset": lambda dataset: data.StackDataset(a=dataset, b=dataset),
    "MixedDataset": lambda dataset: data.MixedDataset([dataset, data.Subset(dataset, [1, 2])], [1, 2], length=20),
    "beside items": lambda dataset: data.ConcatDataset([dataset, list(np.zeros((3, 3)))]),
    "beside another dtype": lambda dataset: data.MixedDataset(
        [data.StackDataset(dataset, np.arange(6)), data.StackDataset(dataset, np.arange(6))], [1, 1]
    ),
}


@pytest.mark.parametrize("around", AROUND)
def test_whole_batches_and_items_have_the_same_draws(around):
    found = []
    for kind in (Drawing, DrawingWhole):
        for batch_size in (1, 4, 7):
            loader = data.DataLoader(AROUND[around](kind(6)), batch_size, shuffle=around != "MixedDataset", seed=1)
            found.append([leaf for batch in loader for leaf in rows(batch)])
    assert all(one == found[0] for one in found[1:])


@pytest.mark.parametrize("batch_size", [2, 4, 5, 12])
def test_items_that_are_read_again_keep_what_was_drawn_before(batch_size):
    dataset = DrawingBefore(data.ConcatDataset([Drawing(6), DrawingWhole(6)]))
    alone, found = (np.concatenate(list(data.DataLoader(dataset, size))) for size in (1, batch_size))
    np.testing.assert_array_equal(found, alone)
    assert len(np.unique(alone[:, 1:])) == alone[:, 1:].size, "no number twice"


def rows(batch):
    parts = batch.values() if isinstance(batch, dict) else batch if isinstance(batch, list) else [batch]
    return [np.concatenate([np.ravel(value) for value in row]).tolist() for row in zip(*parts, strict=True)]


def test_a_collate_fn_names_the_row():
    def noisy(items):
        return np.array([item + data.item_rng(row).random() for row, item in enumerate(items)])

    one, other = (data.DataLoader(range(9), size, collate_fn=noisy) for size in (2, 4))
    assert drawn(one) == drawn(other) and len(set(drawn(one))) == 9
    single = data.DataLoader(range(9), None, collate_fn=lambda item: item + data.item_rng().random())
    assert list(single.epoch(0)) == drawn(data.DataLoader(range(9), 3, collate_fn=noisy))


@pytest.mark.parametrize("options", [{"num_workers": 2}, pytest.param(SPAWN, marks=pytest.mark.slow)])
@pytest.mark.parametrize("stop", [0, 1, 3, 6])
def test_streams_draw_by_the_number_of_the_item(options, stop):
    whole = drawn(data.DataLoader(StreamOfDraws(13), 2), 2)
    assert len({draw for _, draw in whole}) == 26
    assert sorted(drawn(data.DataLoader(StreamOfDraws(13), 2, **options))) == whole[:13]
    for more in ({}, options):
        loader, again = (data.DataLoader(StreamOfDraws(13), 2, **more) for _ in range(2))
        seen = [row for batch in itertools.islice(loader, stop) for row in batch.tolist()]
        again.load_state_dict(loader.state_dict())
        assert sorted(seen + drawn(again)) == whole[:13]


def test_a_mixture_of_streams_is_resumed_with_the_same_draws():
    make = lambda: data.DataLoader(
        data.MixedIterableDataset([StreamOfDraws(5), StreamOfDraws(8)], [1, 2], stopping_strategy="all_exhausted"), 3
    )
    whole = drawn(make())
    for stop in range(1 + len(whole) // 3):
        loader, again = make(), make()
        seen = [row for batch in itertools.islice(loader, stop) for row in batch.tolist()]
        again.load_state_dict(loader.state_dict())
        assert seen + drawn(again) == whole


def test_draws_before_a_shuffle_buffer_are_refused():
    with pytest.raises(RuntimeError, match=r"got a call from the source of a ShuffleBuffer\. Draw after"):
        list(data.DataLoader(data.ShuffleBuffer(StreamOfDraws(5), 2), 2))
    after = data.DataLoader(data.ShuffleBuffer(range(9), 4), 2, collate_fn=lambda items: data.item_rng(0).random())
    assert len(set(after)) == 5


def test_wrong_uses_are_named():
    with pytest.raises(RuntimeError, match=r"item_rng: there is no item; .* got a call outside a DataLoader"):
        data.item_rng()
    with pytest.raises(RuntimeError, match="outside a DataLoader"):
        Drawing(3)[0]

    class Whole(Drawing):
        row = None

        def __getitems__(self, indices):
            return data.item_rng(self.row).random(len(indices))

    with pytest.raises(TypeError, match=r"a complete batch is being read; expected the row .* as in item_rng\(0\)"):
        next(iter(data.DataLoader(Whole(4), 3)))
    for Whole.row in (-1, 2**33):
        with pytest.raises(IndexError, match="item_rng: the row is out of range; expected 0 to 2, got"):
            next(iter(data.DataLoader(Whole(4), 3)))


def test_a_loader_inside_a_dataset_has_its_own_items():
    class Outer(Drawing):
        def __getitem__(self, index):
            before = data.item_rng().random()
            inner = drawn(data.DataLoader(Drawing(2), 1, seed=9))
            return [before, inner, data.item_rng().random()]

    rows = list(data.DataLoader(Outer(2), None, seed=1))
    assert rows[0][1] == rows[1][1] == drawn(data.DataLoader(Drawing(2), 2, seed=9))
    assert [[row[0], row[2]] for row in rows] == [row[1:] for row in drawn(data.DataLoader(Drawing(2), 2, seed=1))]


def test_the_draws_are_independent_and_uniform():
    draws = {seed: drawn(data.DataLoader(Drawing(500), 50, seed=seed), 2) for seed in (0, 1, 2**64 - 1, -2)}
    table = np.array([[row[1:] for row in rows] for rows in draws.values()])
    assert len(np.unique(table)) == table.size
    assert stats.kstest(table.ravel(), "uniform").pvalue > 1e-3
    parts = [table[0, :500, 0], table[0, 500:, 0], table[1, :500, 0], table[0, :500, 1]]
    correlations = np.corrcoef(parts)[np.triu_indices(4, 1)]
    assert np.abs(correlations).max() < 0.2


# ------------------------------------------------------------------------------------------ draws from other generators

GLOBAL = {"np.random": GloballyDrawing, "random": DrawingOfPython, "torch": DrawingOfTorch}


@pytest.mark.parametrize("options", [{"num_workers": 2}, pytest.param(SPAWN, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", GLOBAL)
def test_draws_from_a_global_generator_in_a_worker_are_warned_of_once(name, options):
    loader = data.DataLoader(GLOBAL[name](96), 2, **options)
    with pytest.warns(
        UserWarning, match=rf"{GLOBAL[name].__name__}.* draws random numbers from {name} in its"
    ) as found:
        list(loader)
        list(loader)
    assert len(found) == 1 and "expected draws from item_rng()" in str(found[0].message)


class Sampled(data.Sampler):
    def __iter__(self):
        return (int(np.random.randint(8)) for _ in range(64))  # noqa: NPY002

    def __len__(self):
        return 64


@pytest.mark.parametrize(
    "loader",
    [
        lambda: data.DataLoader(Drawing(64), 2, num_workers=2),
        lambda: data.DataLoader(
            Drawing(8), 2, num_workers=2, sampler=Sampled()
        ),  # the sampler draws in the main thread
        lambda: data.DataLoader(np.arange(64), 2, num_workers=2),
        lambda: data.DataLoader(GloballyDrawing(64), 2),
        lambda: data.DataLoader(StreamOfDraws(64), 2, num_workers=2),
    ],
)
def test_nothing_else_is_warned_of(loader):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in loader():
            np.random.rand()  # noqa: NPY002  the training loop may draw


def test_another_thread_that_reads_accuses_no_one():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in data.Prefetcher(data.DataLoader(Drawing(64), 2, num_workers=2)):
            np.random.rand()  # noqa: NPY002


def test_another_bit_generator_is_watched():
    before = np.random.get_bit_generator()
    np.random.set_bit_generator(np.random.PCG64(0))
    try:
        with pytest.warns(UserWarning, match="draws random numbers from np.random"):
            list(data.DataLoader(GloballyDrawing(96), 2, num_workers=2))
    finally:
        np.random.set_bit_generator(before)


def test_nothing_is_left_on_the_thread():
    list(data.DataLoader(Drawing(3), 2))
    assert getattr(threading.current_thread(), "item_reading", None) is None
