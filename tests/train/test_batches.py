"""The data of a run: streams without a length, looks that change nothing, epochs that end when the data end."""

import itertools
import json
import random

import numpy as np
import pytest
import torch

from funcnet import data, train
from funcnet.data import DataLoader, IterableDataset
from funcnet.data.resumable import ResumableDataset
from funcnet.train.batches import EpochBatches, LoaderBatches
from tests.data.streams import Growing, GrowingReader
from tests.train.small_fit import Stream, died_after, fit, losses, quick, row, same, stopped_after


class Iterated:
    """No IterableDataset, only `__iter__`."""

    def __iter__(self):
        return map(row, range(10))


class TorchStream(torch.utils.data.IterableDataset):
    __iter__ = Iterated.__iter__


class Keeping(ResumableDataset):
    """Saves its own position; each epoch has other rows."""

    def first_state(self, epoch):
        return {"epoch": epoch, "next": 0}

    def items_from(self, state):
        while state["next"] < 10:
            state["next"] += 1
            yield row(state["next"] + 100 * state["epoch"])


class Longer(IterableDataset):
    """Epochs of different lengths."""

    epoch = 0

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __iter__(self):
        return map(row, range(4 + 3 * self.epoch))


class Unsized:
    """A sampler or batch sampler without a length."""

    def __init__(self, *parts):
        self.parts = parts

    def __iter__(self):
        return iter(self.parts)


class Permuted:
    """A sampler of the user's own, which draws another order in each epoch."""

    epoch = 0

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __iter__(self):
        return iter(np.random.default_rng(self.epoch).permutation(10).tolist())


ROWS = [row(number) for number in range(10)]
STREAMS = {
    "generator": Stream,
    "only __iter__": Iterated,
    "torch's": TorchStream,
    "own state": Keeping,
    "epochs of different lengths": Longer,
    "loader": lambda: DataLoader(Stream(), 3),
    "single rows": lambda: DataLoader(Stream(), None, collate_fn=lambda one: {k: v[None] for k, v in one.items()}),
    "2 threads": lambda: DataLoader(Stream(), 2, num_workers=2),
    "shuffle buffer": lambda: data.ShuffleBuffer(Stream(), 4, seed=1),
    "mixture": lambda: data.MixedIterableDataset([Stream(), Stream(7)], [1, 2]),
    "batch sampler": lambda: DataLoader(ROWS, batch_sampler=Unsized([1, 2], [3, 4, 5], [6])),
    "sampler": lambda: DataLoader(ROWS, 3, sampler=Unsized(4, 2, 9, 0, 3)),
    "sampler with set_epoch": lambda: DataLoader(ROWS, 3, sampler=Permuted()),
    "batches of it": lambda: DataLoader(ROWS, batch_sampler=data.BatchSampler(Permuted(), 4, True)),
}


@pytest.mark.slow
@pytest.mark.parametrize("stop", quick([2, 3, 4], 3))
@pytest.mark.parametrize("name", quick(STREAMS, "generator", "2 threads", "sampler with set_epoch"))
def test_a_stream_without_a_length_trains_and_resumes_to_the_same_bits(name, stop, tmp_path):
    """The steps to stop after are before, at and after the end of an epoch of ten rows."""
    whole = fit(tmp_path / "whole", STREAMS[name]())
    assert [entry["step"] for entry in losses(whole)] == list(range(1, 9))
    with stopped_after(stop):
        fit(tmp_path / "cut", STREAMS[name]())
    assert same(fit(tmp_path / "cut", STREAMS[name]()), whole)


# ------------------------------------------------------------------------------------------- looks that change nothing


class Counting(IterableDataset):
    """Every `iter` is another epoch, and nobody can set it back."""

    epoch = 0

    def __iter__(self):
        self.epoch += 1
        info = data.get_worker_info()
        share = range(10) if info is None else range(info.id, 10, info.num_workers)
        return (row(number + 100 * self.epoch) for number in share)


class Drawing(data.Dataset):
    """Reading draws from a global generator."""

    def __init__(self):
        random.seed(3)

    def __len__(self):
        return 10

    def __getitem__(self, index):
        return row(index + random.randrange(100))


def consuming():
    """A function that reads on where its last batch ended."""
    batches = (row_batch(number) for number in itertools.count())
    return lambda start_step: batches


def row_batch(number):
    return {name: value[None] for name, value in row(number).items()}


def iterating():
    loader = DataLoader(Counting(), 3)
    return lambda start_step: itertools.chain.from_iterable(iter(loader) for _ in range(9))


LOOKS = {
    "epochs counted in __iter__": Counting,
    "of a loader": lambda: DataLoader(Counting(), 3),
    "of 2 threads": lambda: DataLoader(Counting(), 2, num_workers=2),
    "single rows of a loader": lambda: DataLoader(
        Counting(), None, collate_fn=lambda one: {k: v[None] for k, v in one.items()}
    ),
    "own state": Keeping,
    "numbers drawn while reading": Drawing,
    "a function that reads on": consuming,
    "a function that iterates over a loader": iterating,
}


@pytest.mark.parametrize("name", quick(LOOKS, "epochs counted in __iter__", "numbers drawn while reading"))
def test_a_run_that_was_killed_before_its_first_checkpoint_repeats_its_steps(name, tmp_path):
    """A run that was not killed checks its first batch, and a restart does not."""
    whole = fit(tmp_path / "whole", LOOKS[name](), validation=ROWS)
    with died_after(2):
        fit(tmp_path / "cut", LOOKS[name](), validation=ROWS)
    assert not list((tmp_path / "cut" / "checkpoints").glob("step-*"))
    assert same(fit(tmp_path / "cut", LOOKS[name](), validation=ROWS), whole)


def test_the_first_batch_is_read_once_and_is_that_of_step_0(tmp_path):
    seen = []

    class Recorded(Stream):
        def __iter__(self):
            seen.append("begin")
            for item in super().__iter__():
                seen.append(int(item["y"][0]))
                yield item

    fit(tmp_path, Recorded(30), steps=2)
    assert seen[:7] == ["begin", 0, 1, 2, 3, 4, 5] and seen.count("begin") == 1


@pytest.mark.slow
def test_a_loader_that_was_used_before_begins_with_epoch_0(tmp_path):
    fresh = fit(tmp_path / "fresh", DataLoader(Keeping(), 3))
    used = DataLoader(Keeping(), 3)
    next(iter(used))
    assert same(fit(tmp_path / "used", used), fresh)
    again = fit(tmp_path / "again", used)  # as in a notebook
    assert same(again, fresh)


EVALUATED = {"own state": Keeping, "epochs of different lengths": Longer, "loader": lambda: DataLoader(Keeping(), 3)}


@pytest.mark.parametrize("name", quick(EVALUATED, "own state"))
def test_every_evaluation_of_a_stream_reads_the_same_rows_and_leaves_training_alone(name, tmp_path):
    stream = EVALUATED[name]()
    if isinstance(stream, DataLoader):
        next(iter(stream))  # a look of the user's own
    frozen = fit(tmp_path / "a", Stream(), validation=stream, evaluate_every=1, optimizer=_still())
    assert len({entry["eval_loss"] for entry in losses(frozen)}) == 1
    without = fit(tmp_path / "b", Stream(), optimizer=_still())
    assert [entry["loss"] for entry in losses(frozen)] == [entry["loss"] for entry in losses(without)]


def _still():
    import optax

    return optax.sgd(0.0)


@pytest.mark.slow
@pytest.mark.parametrize("name", quick(["generator", "only __iter__", "loader", "2 threads", "sampler"], "loader"))
def test_training_and_evaluation_may_read_the_same_object_if_it_has_no_position(name, tmp_path):
    shared = STREAMS[name]()
    once = fit(tmp_path / "shared", shared, validation=shared, evaluate_every=2, save_every=3)
    apart = fit(tmp_path / "apart", STREAMS[name](), validation=STREAMS[name](), evaluate_every=2, save_every=3)
    assert same(once, apart)


@pytest.mark.parametrize("wrap", [lambda one: one, lambda one: DataLoader(one, 3)], ids=["dataset", "loader"])
@pytest.mark.parametrize("kind", [Keeping, Longer])
def test_one_object_with_a_position_for_training_and_evaluation_is_refused(kind, wrap, tmp_path):
    shared = kind()
    with pytest.raises(ValueError, match=rf"data and validation are the same {kind.__name__}, .* expected two objects"):
        fit(tmp_path / "run", wrap(shared), validation=wrap(shared))
    assert not (tmp_path / "run").exists()


# --------------------------------------------------------------------------------------------------------------- epochs


def ends(loader, epochs):
    return [
        (np.asarray(batch["y"]).ravel().astype(int).tolist(), batches.ends)
        for batches in [EpochBatches(loader, epochs)]
        for batch in batches
    ]


def test_the_last_batch_of_an_epoch_says_so():
    assert ends(DataLoader(Stream(5), 3), 2) == 1 * [
        ([0, 1, 2], ""),
        ([3, 4], "epoch"),
        ([0, 1, 2], ""),
        ([3, 4], "run"),
    ]
    assert ends(DataLoader(Longer(), 4), 2) == [([0, 1, 2, 3], "epoch"), ([0, 1, 2, 3], ""), ([4, 5, 6], "run")]
    assert ends(STREAMS["batch sampler"](), 1) == [([1, 2], ""), ([3, 4, 5], ""), ([6], "run")]
    with pytest.raises(ValueError, match=r"epoch 1 of Stream has no batch; expected at least one, got no item"):
        ends(DataLoader(Stream(0), 3), None)


class Once(IterableDataset):
    """Its iterator is always the same one."""

    def __init__(self):
        self.rows = iter(range(6))

    def __iter__(self):
        return self.rows


@pytest.mark.parametrize("read", [lambda loader: list(EpochBatches(loader, 2)), lambda loader: list(loader.endless())])
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: DataLoader(Once(), 2), "epoch 2 of Once has no batch.* Return a new iterator in each __iter__"),
        (lambda: DataLoader(Once(), 7, drop_last=True), "epoch 1 of Once .* fewer than 7 items, which drop_last=True"),
    ],
)
def test_an_epoch_without_a_batch_is_an_error(read, make, message):
    with pytest.raises(ValueError, match=message):
        read(make())


@pytest.mark.parametrize("kind", [Growing, GrowingReader])
@pytest.mark.parametrize("by_epoch", [False, True])
def test_a_run_on_a_stream_that_counts_its_epochs_continues_with_its_next_rows(kind, by_epoch):
    """Also from the end of an epoch, where `save_every="epoch"` saves."""
    make = lambda: LoaderBatches(DataLoader(kind(7), 3), by_epoch=by_epoch)
    batches = make()(0)
    whole, saves = [], []
    for batch in itertools.islice(batches, 12):
        whole.append(batch.tolist())
        saves.append(batches.state_dict())
    for step, state in enumerate(saves[:9], 1):
        found = itertools.islice(make()(step, json.loads(json.dumps(state))), 12 - step)
        assert [batch.tolist() for batch in found] == whole[step:]


EPOCHS = {  # data, and the last steps of three epochs
    "rows": (lambda: ROWS, [3, 6, 9]),
    "dict": (lambda: {name: np.stack([one[name] for one in ROWS]) for name in ("x", "y")}, [3, 6, 9]),
    "loader": (lambda: DataLoader(ROWS, 3, shuffle=True), [4, 8, 12]),
    "stream": (lambda: Stream(10), [3, 6, 9]),
    "loader of a stream": (lambda: DataLoader(Stream(10), 3), [4, 8, 12]),
    "longer": (Longer, [1, 3, 6]),
    **{name: (STREAMS[name], [3, 6, 9]) for name in ("own state", "batch sampler")},
    "sampler": (STREAMS["sampler with set_epoch"], [4, 8, 12]),
    "2 threads": (STREAMS["2 threads"], [6, 12, 18]),
}


@pytest.mark.parametrize("name", quick(EPOCHS, "longer"))
class TestEpochs:
    @pytest.mark.slow
    def test_a_run_has_its_epochs_and_is_evaluated_and_saved_at_their_ends(self, name, tmp_path):
        make, ended = EPOCHS[name]
        options = {"validation": ROWS, "evaluate_every": "epoch", "save_every": "epoch", "keep": 9}
        run = fit(tmp_path / "run", make(), epochs=3, **options)
        assert [entry["step"] for entry in losses(run) if "eval_loss" in entry] == ended
        assert losses(run)[-1]["step"] == ended[-1]
        saved = sorted(int(path.name[5:]) for path in (tmp_path / "run" / "checkpoints").glob("step-*"))
        assert saved == ended
        by_steps = fit(tmp_path / "steps", make(), steps=ended[-1], **options)
        assert same(by_steps, run), "epochs only say when a run ends"

    @pytest.mark.slow
    def test_stopped_in_an_epoch_and_at_its_end_it_ends_with_the_same_bits(self, name, tmp_path):
        make, ended = EPOCHS[name]
        options = {"epochs": 3, "validation": ROWS, "evaluate_every": "epoch"}
        whole = fit(tmp_path / "whole", make(), **options)
        for cut, stop in {"inside": ended[1] + 1, "at the end": ended[1], "of the run": ended[2]}.items():
            with stopped_after(stop):
                fit(tmp_path / cut, make(), **options)
            assert same(fit(tmp_path / cut, make(), **options), whole), cut

    def test_a_finished_run_is_trained_for_more_epochs(self, name, tmp_path):
        make, ended = EPOCHS[name]
        fit(tmp_path / "longer", make(), epochs=2)
        longer, whole = fit(tmp_path / "longer", make(), epochs=3), fit(tmp_path / "whole", make(), epochs=3)
        assert same(longer, whole) and losses(longer)[-1]["step"] == ended[-1]
        with pytest.raises(train.RunError, match=r"epochs was 3, now 1"):
            fit(tmp_path / "longer", make(), epochs=1)


def test_an_epoch_needs_data_that_have_epochs(tmp_path):
    for options, message in [
        ({"epochs": 2}, r"epochs=2 needs data with epochs; .* got a function data\(start_step\)"),
        ({"evaluate_every": "epoch"}, r"evaluate_every='epoch' needs data with epochs"),
        ({"save_every": "epoch"}, r"save_every='epoch' needs data with epochs"),
        (
            {"epochs": 2, "steps": 3},
            "the length of the run is not clear; expected either steps or epochs, got steps=3 and",
        ),
        ({"steps": None}, "expected either steps or epochs, got neither"),
    ]:
        with pytest.raises(ValueError, match=f"^train.fit: .*{message}"):
            fit(tmp_path / "run", lambda start_step: iter([]), **options)
    with pytest.raises(ValueError, match=r"a run over the epochs of a stream cannot go back .* epochs=2 and"):
        fit(tmp_path / "run", Stream(), epochs=2, rewind_above=2.0)
    with pytest.raises(ValueError, match=r"no batch; expected at least one"):
        fit(tmp_path / "run", Stream(0), epochs=2)
    assert not (tmp_path / "run").exists()


def test_a_cadence_in_epochs_needs_batches_that_say_where_an_epoch_ends():
    assert not train.Cadence(10, evaluate_every="epoch").evaluates(5)
    assert train.Cadence(None, evaluate_every="epoch").evaluates(5, ends_epoch=True)
    assert train.Cadence(10, save_every="epoch").saves(10)
