"""Processes that work on tasks: all results, few tasks ahead, and a message if a worker is killed."""

import os
import signal

import pytest

from funcnet.tasks.pretraining_data.process_pool import ProcessPool


@pytest.mark.parametrize("processes", [1, 2])
def test_all_results_arrive_and_few_tasks_are_read_ahead(processes):
    taken, results, ahead = [], [], []

    def tasks():
        for number in range(12):
            taken.append(number)
            yield number, 10

    def done(result):
        results.append(result)
        ahead.append(len(taken) - len(results))

    with ProcessPool(processes) as pool:
        pool.run(max, tasks(), done=done)
    assert sorted(results) == [10] * 11 + [11] and max(ahead) <= processes


def end_this_process(_):
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_worker_that_is_killed():
    with (
        ProcessPool(2) as workers,
        pytest.raises(
            ChildProcessError,
            match=r"a worker was killed; expected 2 live workers, got one less "
            r".* Fewer worker processes \(--processes\) need less",
        ),
    ):
        workers.run(end_this_process, [(1,)], done=print)


def test_at_least_one_process():
    with pytest.raises(ValueError, match="--processes is out of range; expected at least 1, got 0"):
        ProcessPool(0)
