"""Epochs and positions of iterable datasets, and of the sources that they read."""

import itertools
import pickle

import pytest

from funcnet.data import MixedIterableDataset, ShuffleBuffer
from funcnet.data.resumable import Cursor, ResumableDataset


class Rows(ResumableDataset):
    def first_state(self, epoch):
        return {"epoch": epoch, "row": 0}

    def items_from(self, state):
        while state["row"] < 5:
            state["row"] += 1
            yield 10 * state["epoch"] + state["row"] - 1


def test_each_iterator_is_the_next_epoch():
    rows = Rows()
    assert [list(rows) for _ in range(3)] == [[10 * epoch + row for row in range(5)] for epoch in range(3)]
    rows.set_epoch(7)
    assert rows.state_dict() == {"epoch": 2, "row": 5}, "the newest iterator, which has ended"
    assert [next(iter(rows)), next(iter(rows))] == [70, 80]


def test_a_loaded_state_lasts_until_the_next_iterator_or_another_epoch():
    rows = Rows()
    rows.load_state_dict({"epoch": 4, "row": 3})
    rows.set_epoch(4)
    assert rows.state_dict() == {"epoch": 4, "row": 3}
    assert list(rows) == [43, 44] and list(rows) == [50, 51, 52, 53, 54]
    rows.load_state_dict({"epoch": 4, "row": 3})
    rows.set_epoch(6)
    assert list(rows) == [60, 61, 62, 63, 64]
    rows.load_state_dict({"epoch": 4, "row": 5})
    assert list(rows) == [], "the end of an epoch is a position, too"


def test_the_state_is_of_the_newest_iterator_and_does_not_change_later():
    rows = Rows()
    first = iter(rows)
    next(first)
    state = rows.state_dict()
    second = iter(rows)
    next(second), next(second), next(first)
    assert state == {"epoch": 0, "row": 1} and rows.state_dict() == {"epoch": 1, "row": 2}
    loaded = {"epoch": 0, "row": 1}
    rows.load_state_dict(loaded)
    next(iter(rows))
    assert loaded == {"epoch": 0, "row": 1}
    assert pickle.loads(pickle.dumps(rows)).state_dict() == {"epoch": 0, "row": 2}


def test_states_of_other_classes_are_refused():
    with pytest.raises(ValueError, match=r"Rows.load_state_dict: .* expected the keys \['epoch', 'row'\], got \['x'\]"):
        Rows().load_state_dict({"x": 1})
    for method, argument in (("first_state", 0), ("items_from", {})):
        with pytest.raises(NotImplementedError, match=f"ResumableDataset: {method} is not defined"):
            getattr(ResumableDataset(), method)(argument)


@pytest.mark.parametrize("stop", range(6))
@pytest.mark.parametrize("source", [Rows, lambda: [30, 31, 32, 33, 34]])
def test_a_cursor_resumes_any_source(source, stop):
    cursor = Cursor(source())
    cursor.begin(3)
    cursor.take(stop)
    state = cursor.state()
    rest = cursor.take(9)
    other = Cursor(source())
    other.begin(3, state)
    assert other.state() == state
    assert other.take(9) == rest == [30, 31, 32, 33, 34][stop:]
    assert other.take(1) == []


class OwnState:
    """A source with a state, which checks nothing."""

    row = 0

    def __iter__(self):
        return iter(range(self.row, 5))

    def state_dict(self):
        return {"own": self.row}

    def load_state_dict(self, state):
        self.row = state["own"]


@pytest.mark.parametrize("stateful", [Rows, OwnState, lambda: ShuffleBuffer(range(5), 2)])
@pytest.mark.parametrize("around", [lambda x: ShuffleBuffer(x, 2), lambda x: MixedIterableDataset([x, [7, 8]], [1, 1])])
def test_a_position_of_a_source_that_lost_or_got_a_state_is_refused(stateful, around):
    for before, after, expected in (
        (stateful(), range(5), r"range: .*; expected the key 'skip', because .*, got the keys \['(block|epoch|own)'"),
        (range(5), stateful(), r"(Rows|OwnState|Sh\w+): .*; expected a state of its own, got the keys \['skip'\]"),
    ):
        first, other = around(before), around(after)
        next(iter(first))
        other.load_state_dict(first.state_dict())
        with pytest.raises(ValueError, match=expected):
            list(other)


def test_a_stateless_source_has_epochs():
    class Source:
        epoch = None

        def set_epoch(self, epoch):
            self.epoch = epoch

        def __iter__(self):
            return itertools.count(100 * self.epoch)

    cursor = Cursor(Source())
    cursor.begin(2, {"skip": 3})
    assert cursor.take(2) == [203, 204] and cursor.state() == {"skip": 5}
