"""A pass over an iterable dataset that is saved anywhere and continued reads each row once.

The oracles are the rows themselves, and a pass that is not interrupted.
"""

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from funcnet import data
from funcnet.data.resumable import Cursor
from tests.data.streams import Around, Asking, Counting, Growing, GrowingReader, Resetting

STREAMS = {
    "without a state": Asking,
    "whose state stays at its end": Counting,
    "whose state is set back at its end": Resetting,
    "that passes on the state of another": lambda size: Around(Resetting(size)),
    "that shuffles another": lambda size: data.ShuffleBuffer(Resetting(size), 4, seed=1),
    "that shuffles one without a state": lambda size: data.ShuffleBuffer(Asking(size), 3),
    "of one source": lambda size: data.MixedIterableDataset(
        [Resetting(size)], [1], stopping_strategy="first_exhausted"
    ),
    "of a collection": lambda size: data.MixedIterableDataset([range(size)], [1], stopping_strategy="first_exhausted"),
}
SIZES = {"size": st.integers(0, 25), "batch_size": st.sampled_from([None, 1, 2, 3, 5, 8])}


def make(name, size, batch_size, workers, **options):
    return data.DataLoader(STREAMS[name](size), batch_size, num_workers=workers, **options)


def rows(batches):
    return [row for batch in batches for row in ([batch] if isinstance(batch, int) else batch.tolist())]


def saved(loader):
    """A position as a checkpoint returns it."""
    return json.loads(json.dumps(loader.state_dict()))


def check_every_save_point(name, size, batch_size, workers, **options):
    whole = list(map(rows, [[batch] for batch in make(name, size, batch_size, workers, **options)]))
    assert sorted(itertools.chain(*whole)) == list(range(size))
    for stop in range(len(whole) + 1):
        loader, again = (make(name, size, batch_size, workers, **options) for _ in range(2))
        assert rows(itertools.islice(loader, stop)) == list(itertools.chain(*whole[:stop]))
        again.load_state_dict(saved(loader))
        assert rows(again) == list(itertools.chain(*whole[stop:]))
        assert sorted(rows(again)) == list(range(size)), "the next epoch is a whole one"


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("name", STREAMS)
def test_twenty_rows_in_batches_of_three(name, workers):
    check_every_save_point(name, 20, 3, workers)


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("name", STREAMS)
def test_a_look_at_an_epoch_leaves_the_position_where_it_was(name, workers):
    loader, again, other = (make(name, 20, 3, workers) for _ in range(3))
    expected, iterator = list(map(rows, [[batch] for batch in other])), iter(loader)
    first = [next(iterator), next(iterator)]
    assert rows(itertools.islice(loader.epoch(0), 3)) == list(itertools.chain(*expected[:3]))
    first.append(next(iterator))
    again.load_state_dict(saved(loader))
    assert rows(first) + rows(again) == list(itertools.chain(*expected))


GROWING = {
    "set back": Growing,
    "at its end": GrowingReader,
    "around another": lambda size: Around(Growing(size)),
    "shuffled": lambda size: data.ShuffleBuffer(Growing(size), 4),
    "mixed": lambda size: data.MixedIterableDataset([Growing(size)], [1], stopping_strategy="first_exhausted"),
}
WORKERS = {"none": {}, "persistent": {"num_workers": 2, "persistent_workers": True}, "new": {"num_workers": 2}}


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("name", GROWING)
@pytest.mark.parametrize(("size", "drop_last"), [(20, False), (24, False), (20, True)])
def test_a_stream_that_counts_its_epochs_continues_with_the_rows_that_would_follow(name, workers, size, drop_last):
    make = lambda: data.DataLoader(GROWING[name](size), 3, drop_last=drop_last, **WORKERS[workers])
    loader = make()
    whole, saves = [], [saved(loader)]
    for _ in range(4):
        for batch in loader:
            whole.append(rows([batch]))
            saves.append(saved(loader))
        saves[-1] = saved(loader), saves[-1]  # after the end was seen, and before
    for number, save in enumerate(saves[: 3 * len(whole) // 4]):
        for state in save if isinstance(save, tuple) else [save]:
            again = make()
            again.load_state_dict(state)
            found = [rows([batch]) for _ in range(5) for batch in again]
            expected = whole[number:] if workers != "new" else whole[number : len(whole) // 4 * (1 + state["epoch"])]
            assert found[: len(expected)] == expected


@pytest.mark.slow
@pytest.mark.parametrize("name", STREAMS)
def test_twenty_rows_from_processes(name):
    options = {"multiprocessing_context": "forkserver"}
    whole = list(map(rows, [[batch] for batch in make(name, 20, 3, 2, **options)]))
    assert sorted(itertools.chain(*whole)) == list(range(20))
    for stop in (0, len(whole) // 2, len(whole) - 1, len(whole)):
        loader, again = (make(name, 20, 3, 2, **options) for _ in range(2))
        first = rows(itertools.islice(loader, stop))
        again.load_state_dict(saved(loader))
        assert sorted(first + rows(again)) == list(range(20))


@pytest.mark.slow
@given(**SIZES, name=st.sampled_from(sorted(STREAMS)), workers=st.integers(0, 3))
def test_each_row_is_read_once_from_every_save_point(name, size, batch_size, workers):
    check_every_save_point(name, size, batch_size, workers)


@pytest.mark.slow
@given(
    **SIZES, name=st.sampled_from(sorted(STREAMS)), workers=st.tuples(st.integers(0, 3), st.integers(0, 3)),
    other=st.sampled_from([None, 1, 4]),
)  # fmt: skip
def test_the_start_and_the_end_of_an_epoch_are_valid_for_any_number_of_workers(name, size, batch_size, workers, other):
    loader, again = make(name, size, batch_size, workers[0]), make(name, size, other, workers[1])
    iterator = iter(loader)
    for state in (make(name, size, batch_size, workers[0]).state_dict(), saved(loader)):
        again.load_state_dict(state)
        assert sorted(rows(again)) == list(range(size))
    first = rows(iterator)
    assert sorted(first) == list(range(size))
    again.load_state_dict(saved(loader))
    assert again.state_dict()["epoch"] == 1 and sorted(rows(again)) == list(range(size))


def test_a_position_after_the_last_rows_is_valid_for_any_number_of_workers_if_the_end_was_seen():
    loader = make("whose state is set back at its end", 20, 3, 2)  # the last batch of each worker has one row
    passage = iter(loader)
    assert len([next(passage) for _ in range(8)]) == 8
    for workers in (0, 1, 3):
        again = make("whose state is set back at its end", 20, 3, workers)
        again.load_state_dict(saved(loader))
        assert rows(again) == [] and sorted(rows(again)) == list(range(20))


@given(
    **SIZES, name=st.sampled_from(sorted(STREAMS)), workers=st.integers(0, 3), other=st.integers(1, 6),
    stop=st.integers(0, 12),
)  # fmt: skip
def test_the_batch_size_may_change(name, size, batch_size, workers, other, stop):
    loader, again = make(name, size, batch_size, workers), make(name, size, other, workers)
    first = rows(itertools.islice(loader, stop))
    state = saved(loader)
    again.load_state_dict(state)
    assert sorted(first + (rows(again) if state["epoch"] == 0 else [])) == list(range(size))


@given(size=st.integers(0, 12), batch_size=st.integers(1, 4), workers=st.integers(0, 3), stop=st.integers(0, 12))
def test_drop_last_drops_the_same_rows_after_a_resume(size, batch_size, workers, stop):
    for name in ("without a state", "whose state is set back at its end"):
        whole = rows(make(name, size, batch_size, workers, drop_last=True))
        loader, again = (make(name, size, batch_size, workers, drop_last=True) for _ in range(2))
        first = rows(itertools.islice(loader, stop))
        state = saved(loader)
        again.load_state_dict(state)
        assert first + (rows(again) if state["epoch"] == 0 else []) == whole


def test_a_loader_stops_in_the_same_place_if_the_pass_is_closed():
    loader = make("without a state", 9, 2, 0)
    passage = iter(loader)
    next(passage)
    state = loader.state_dict()
    passage.close()
    assert list(passage) == [] and loader.state_dict() == state


def test_a_saved_position_does_not_change_later():
    class Live(Counting):
        def __init__(self, size):
            super().__init__(size)
            self.own = {"row": 0}

        def state_dict(self):
            self.own["row"] = self.row
            return self.own

    loader = data.DataLoader(Live(9), 2)
    passage = iter(loader)
    next(passage)
    state = loader.state_dict()
    kept = json.dumps(state)
    list(passage)
    assert json.dumps(state) == kept


@pytest.mark.parametrize("source", [Resetting, Counting, Asking])
def test_a_cursor_knows_that_its_source_has_ended(source):
    cursor = Cursor(source(5))
    cursor.begin(0)
    assert cursor.take(9) == list(range(5)) and cursor.state()["cursor"] == "ended"
    other = Cursor(source(5))
    other.begin(0, cursor.state())
    assert other.take(1) == [] and other.state()["cursor"] == "ended"
    other.begin(1)
    assert other.take(9) == list(range(5))


@pytest.mark.parametrize(
    "change",
    [{"epoch": -1}, {"epoch": "1"}, {"turn": 2}, {"turn": -1}, {"workers": 3}, {"workers": []}, {"workers": [{}, None]},
     {"workers": [{"items": -2}, None]}, {"workers": ["ab", None]}],
)  # fmt: skip
def test_a_position_that_no_loader_saved_is_refused(change):
    loader = make("without a state", 9, 2, 2)
    next(iter(loader))
    with pytest.raises(
        ValueError, match=r"DataLoader: the saved position is out of range; expected an epoch and a turn"
    ):
        loader.load_state_dict({**loader.state_dict(), **change})


@pytest.mark.parametrize("workers", [0, 3])
def test_inside_an_epoch_the_number_of_workers_must_be_the_same(workers):
    loader = make("without a state", 9, 2, 2)
    next(iter(loader))
    expected = (
        rf"inside an epoch .* expected {max(1, workers)} worker\(s\), got 2\. Pass num_workers=2, or save at the end"
    )
    with pytest.raises(ValueError, match=expected):
        make("without a state", 9, 2, workers).load_state_dict(loader.state_dict())
