"""Arrays in slots of shared memory, in one process."""

import gc
import multiprocessing
import os

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from funcnet.data.shared_memory import KEPT, Receiver, Sender


def releasing(sender):
    """What `Receiver` needs to give slots back to a sender of the same process."""
    return lambda slot: lambda _: sender.release(slot)


@pytest.fixture
def ends():
    here, there = multiprocessing.Pipe(duplex=True)
    sender = Sender(there, os.getpid())
    yield sender, Receiver(here, releasing(sender))
    here.close()
    there.close()


def test_a_slot_is_used_again_only_when_nothing_refers_to_it(ends):
    sender, receiver = ends
    first = np.arange(50_000)
    sender.send({"a": first})
    kept = receiver.receive()["a"]
    sender.send({"a": first + 1})
    part = receiver.receive()["a"][10:20]
    gc.collect()
    assert sender._made == 2
    np.testing.assert_array_equal(kept, first)
    del kept
    gc.collect()
    sender.send({"a": first + 2})
    again = receiver.receive()["a"]
    assert sender._made == 2  # the slot of `kept`
    assert part.tolist() == list(range(11, 21)) and again[0] == 2
    again[0] = 7  # writable


def test_many_kept_batches_are_copied_and_slots_stay_few(ends):
    sender, receiver = ends
    kept = []
    for number in range(50):
        sender.send(np.full(50_000, number))
        kept.append(receiver.receive())
    assert sender._made <= KEPT + 1
    assert [array[0] for array in kept] == list(range(50))


@given(
    st.lists(st.tuples(st.integers(0, 40_000), st.sampled_from(["u1", "f4", "i8"])), max_size=5), st.text(max_size=5)
)
def test_any_nesting_arrives(sizes, text):
    here, there = multiprocessing.Pipe(duplex=True)
    with here, there:
        sender = Sender(there, os.getpid())
        receiver = Receiver(here, releasing(sender))
        sent = {"text": text, "arrays": [np.arange(size).astype(kind) for size, kind in sizes], "none": None}
        for _ in range(3):
            sender.send(sent)
            found = receiver.receive()
            assert found["text"] == text and found["none"] is None
            for ours, theirs in zip(found["arrays"], sent["arrays"], strict=True):
                assert ours.dtype == theirs.dtype
                np.testing.assert_array_equal(ours, theirs)
            del found
