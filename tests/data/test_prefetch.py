"""Order is kept, errors arrive where they happened, closing ends the thread, and waiting is measured."""

import gc
import queue
import threading
import time
import types

import jax
import numpy as np
import pytest

from funcnet.data import Prefetcher


def workers():
    return [thread for thread in threading.enumerate() if thread.name == "funcnet-prefetch"]


def test_order_and_transfer_to_a_device():
    with Prefetcher((np.full(3, i, np.int32) for i in range(20)), transfer=jax.device_put, depth=3) as ahead:
        got = list(ahead)
    assert [int(array[0]) for array in got] == list(range(20))
    assert all(isinstance(array, jax.Array) for array in got)
    assert not workers()


def test_an_error_surfaces_at_its_batch():
    def batches():
        yield 1
        yield 2
        raise OSError("the disk went away")

    ahead = Prefetcher(batches())
    assert [next(ahead), next(ahead)] == [1, 2]
    with pytest.raises(OSError, match="the disk went away"):
        next(ahead)
    with pytest.raises(StopIteration):
        next(ahead)
    assert not workers()


def test_an_error_in_the_transfer_surfaces_too():
    with Prefetcher([0], transfer=lambda x: 1 // x) as ahead, pytest.raises(ZeroDivisionError):
        next(ahead)


def test_close_ends_an_endless_source_and_its_generator():
    closed = threading.Event()

    def endless():
        try:
            while True:
                yield 0
        finally:
            closed.set()

    ahead = Prefetcher(endless())
    next(ahead)
    ahead.close()
    ahead.close()
    assert closed.is_set() and not workers() and list(ahead) == []


@pytest.mark.slow
def test_closing_does_not_wait_for_a_source_that_blocks():
    go_on = threading.Event()

    def blocked():
        yield 1
        go_on.wait()

    ahead = Prefetcher(blocked())
    assert next(ahead) == 1
    closing = threading.Thread(target=ahead.close, daemon=True)
    closing.start()
    closing.join(60)
    assert not closing.is_alive()
    go_on.set()


def test_a_forgotten_one_stops_its_thread():
    ahead = Prefetcher(iter(int, 1))
    next(ahead)
    del ahead
    gc.collect()
    deadline = time.monotonic() + 60
    while workers() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not workers()


def test_only_waiting_is_measured(monkeypatch):
    """On a clock that the source and the consumer move."""
    clock = types.SimpleNamespace(now=0.0, perf_counter=lambda: clock.now, monotonic=time.monotonic)
    monkeypatch.setattr("funcnet.data.prefetch.time", clock)
    asked = threading.Semaphore(0)

    def slow():
        for i in range(6):
            asked.acquire()  # not before the consumer asks
            clock.now += 3
            yield i

    class Asking(queue.Queue):
        def get(self, *args, **kwargs):
            asked.release()
            return super().get(*args, **kwargs)

    monkeypatch.setattr("funcnet.data.prefetch.queue", types.SimpleNamespace(**{**vars(queue), "Queue": Asking}))
    with Prefetcher(slow(), depth=1) as ahead:
        for _ in ahead:
            clock.now += 100  # the consumer is busy; nothing waits
    assert ahead.waited == 15  # the first batch does not count


def test_depth_is_checked():
    with pytest.raises(ValueError, match="Prefetcher: depth is out of range; expected at least 1, got 0"):
        Prefetcher([], depth=0)
