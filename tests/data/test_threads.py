"""What holds for workers of both kinds, and for threads."""

import gc
import itertools
import threading
import time

import numpy as np
import pytest

from funcnet.data import DataLoader, IterableDataset, get_worker_info
from tests.data.loading import Failing, Numbers, Odd, Sleeping, refuse

KINDS = [None, "spawn"]


@pytest.mark.parametrize("context", KINDS)
def test_batches_are_in_order_and_keep_their_contents(context):
    loader = DataLoader(Numbers(150), 4, num_workers=2, multiprocessing_context=context)
    kept = list(loader)  # more batches than there are slots of shared memory
    assert [index for batch in kept for index in batch[0].tolist()] == list(range(150))
    assert [batch[1][0] for batch in kept] == [number % 2 for number in range(len(kept))]
    for indices, _, words in kept:
        np.testing.assert_array_equal(words, np.repeat(indices[:, None], words.shape[1], 1))
        words[0] = 0  # writable


@pytest.mark.parametrize("context", [*KINDS, "none"])
def test_an_error_names_dataset_item_and_worker_and_iteration_goes_on(context):
    options = {} if context == "none" else {"num_workers": 2, "multiprocessing_context": context}
    passage = iter(DataLoader(Failing(12), 1, **options))
    seen, errors = [], []
    while True:
        try:
            seen += next(passage).tolist()
        except StopIteration:
            break
        except Exception as error:
            errors.append(error)
    assert seen == [0, 1, 2, 3, 4, 7, 8, 10, 11]
    missing, unbuildable, stopped = errors
    assert type(missing) is KeyError and missing.args == ("no item 5",)
    notes = ["\n".join(error.__notes__) for error in errors]
    assert "item 5 of Failing (12 items)" in notes[0] and "item 6 of Failing" in notes[1]
    assert "this and that" in str(unbuildable)
    assert type(stopped) is RuntimeError and "raised StopIteration" in str(stopped)
    if context != "none":
        assert "in worker 1 of DataLoader" in notes[0]
    if context == "spawn":
        assert "loading.py" in notes[0] and type(unbuildable) is RuntimeError  # with the worker's traceback


@pytest.mark.parametrize("context", KINDS)
@pytest.mark.parametrize(
    ("start", "error", "message", "note"),
    [
        (0, TypeError, r"expected float32 as at entry 0, got float64 at entry 2", "entry 2 is item 2 of Odd"),
        (4, RuntimeError, r"got \[2\] at entry 0 and \[3\] at entry 2", "entry 2 is item 6 of Odd"),
    ],
)
def test_items_that_do_not_fit_together_are_named(context, start, error, message, note):
    loader = DataLoader(
        Odd(8), sampler=range(start, start + 4), batch_size=4, num_workers=1, multiprocessing_context=context
    )
    with pytest.raises(error, match=message) as found:
        list(loader)
    assert note in "\n".join(found.value.__notes__)


@pytest.mark.parametrize("context", KINDS)
def test_an_error_in_worker_init_fn_arrives(context):
    loader = DataLoader(Numbers(4), num_workers=2, worker_init_fn=refuse, multiprocessing_context=context)
    with pytest.raises(RuntimeError, match="worker 0 refuses"):
        list(loader)


@pytest.mark.slow
@pytest.mark.parametrize("context", KINDS)
def test_a_worker_that_hangs_is_noticed(context):
    loader = DataLoader(Sleeping(8), num_workers=2, timeout=0.5, multiprocessing_context=context)
    with pytest.raises(RuntimeError, match=r"DataLoader timed out after 0\.5 seconds; expected a batch from 2 workers"):
        list(loader)


@pytest.mark.parametrize("context", KINDS)
def test_persistent_workers_stay_and_a_newer_pass_takes_them(context):
    loader = DataLoader(
        Numbers(20), 4, num_workers=2, persistent_workers=True, multiprocessing_context=context, shuffle=True
    )
    first = iter(loader)
    next(first)
    passes = [[index for batch in loader for index in batch[0].tolist()] for _ in range(2)]
    assert all(sorted(one) == list(range(20)) for one in passes) and passes[0] != passes[1]
    with pytest.raises(RuntimeError, match="a newer pass over this loader took its persistent workers"):
        next(first)
    loader._kept.close()


class Flagged(Numbers):
    flag = 0

    def set_flag(self, worker):
        self.flag = worker + 1

    def __getitem__(self, index):
        info = get_worker_info()
        assert info is not None and info.dataset is self
        return self.flag


def test_each_thread_has_its_own_copy_of_the_dataset():
    dataset = Flagged(8)
    loader = DataLoader(dataset, num_workers=2, worker_init_fn=dataset.set_flag)
    assert [batch[0] for batch in loader] == [1, 2] * 4
    assert dataset.flag == 0


class Leaving(Numbers):
    def __getitem__(self, index):
        raise SystemExit


def test_an_exit_in_a_thread_does_not_hang():
    with pytest.raises(SystemExit):
        list(DataLoader(Leaving(4), num_workers=2))


def workers_alive():
    return [thread for thread in threading.enumerate() if thread.name.startswith("funcnet-data")]


@pytest.mark.slow
def test_a_pass_that_is_given_up_leaves_no_thread():
    before = set(workers_alive())  # such as the threads of the test whose dataset hangs
    for _ in range(5):
        passage = iter(DataLoader(Numbers(100), num_workers=3))
        next(passage)
        del passage
        gc.collect()
    end = time.monotonic() + 60
    while set(workers_alive()) - before and time.monotonic() < end:
        time.sleep(0.02)
    assert not set(workers_alive()) - before


class Forever(IterableDataset):
    def __iter__(self):
        yield from itertools.count(100 * get_worker_info().id)


@pytest.mark.parametrize("context", KINDS)
def test_an_endless_stream(context):
    loader = DataLoader(Forever(), 2, num_workers=2, multiprocessing_context=context)
    passage = iter(loader)
    assert [next(passage).tolist() for _ in range(4)] == [[0, 1], [100, 101], [2, 3], [102, 103]]


def test_results_out_of_order_arrive_as_soon_as_they_are_made():
    ready = threading.Event()

    class Uneven(Numbers):
        """Item 0 waits for item 3, which the other worker begins after it has handed over item 1."""

        def __getitem__(self, index):
            if index == 0:
                ready.wait(60)
            elif index == 3:
                ready.set()
            return index

    options = {"num_workers": 2, "prefetch_factor": 2}
    assert [int(batch[0]) for batch in DataLoader(Uneven(4), in_order=True, **options)] == [0, 1, 2, 3]
    ready.clear()
    found = [int(batch[0]) for batch in DataLoader(Uneven(4), in_order=False, **options)]
    assert sorted(found) == [0, 1, 2, 3] and found[0] == 1
