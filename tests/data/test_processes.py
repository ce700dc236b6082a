"""Worker processes: their deaths, their parent's death, Ctrl-C, and what they leave behind."""

import gc
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from funcnet.data import DataLoader
from tests.data.loading import Numbers, Waiting, leave, open_files, processes_of

ROOT = Path(__file__).resolve().parents[2]


def spawned(dataset, **options):
    return DataLoader(dataset, **{"num_workers": 2, "multiprocessing_context": "spawn", **options})


def until(condition, seconds=60.0):
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.02)
    return condition()


def test_a_killed_worker_ends_the_pass_with_an_error_and_the_others():
    passage = iter(spawned(Waiting(10_000), timeout=120))
    next(passage)
    workers = passage._workers.processes
    os.kill(workers[1].pid, signal.SIGKILL)
    with pytest.raises(
        RuntimeError, match=rf"DataLoader worker \(pid {workers[1].pid}\) is killed by signal: Killed.*worker 1 of 2"
    ):
        for _ in passage:
            pass
    assert until(lambda: not any(process.is_alive() for process in workers))


def test_a_worker_that_exits_is_noticed():
    with pytest.raises(RuntimeError, match=r"exited unexpectedly with exit code 3"):
        list(spawned(Numbers(4), worker_init_fn=leave))


def test_a_dataset_that_cannot_be_pickled_is_named_and_nothing_runs():
    before = set(processes_of(os.getpid()))

    class Local(Numbers):
        pass

    with pytest.raises(TypeError, match=r"cannot be sent to worker processes.*Local.*Define classes and functions at"):
        iter(spawned(Local(4)))
    lists = DataLoader([lambda: 0], num_workers=1, multiprocessing_context="spawn")
    with pytest.raises(TypeError, match=r"cannot be sent to worker processes.*list \(1 items\)"):
        iter(lists)
    assert until(lambda: len(set(processes_of(os.getpid())) - before) <= 1)  # multiprocessing's resource tracker


def test_a_memory_map_is_opened_by_its_name(tmp_path):
    array = np.memmap(tmp_path / "x", np.int32, "w+", shape=(1000, 256))
    array[:] = np.arange(1000)[:, None]
    passage = iter(spawned(array, batch_size=100, num_workers=1))
    assert next(passage)[:, 0].tolist() == list(range(100))
    maps = Path(f"/proc/{passage._workers.processes[0].pid}/maps").read_text()
    assert str(tmp_path / "x") in maps
    assert [batch[0, 0] for batch in passage] == list(range(100, 1000, 100))


@pytest.mark.slow
def test_nothing_leaks_over_many_passes():
    loader = spawned(Numbers(24), batch_size=4)
    list(loader)
    gc.collect()
    until(lambda: len(processes_of(os.getpid())) <= 1)
    before = open_files()
    for _ in range(4):
        list(loader)
        passage = iter(loader)
        next(passage)
        del passage
    gc.collect()
    assert until(lambda: len(processes_of(os.getpid())) <= 1)  # multiprocessing's resource tracker stays
    assert until(lambda: open_files() <= before)


def script(tmp_path, body):
    path = tmp_path / "script.py"
    path.write_text(
        "import os, signal, sys, time\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell starts background jobs without it\n"
        "from funcnet.data import DataLoader\nfrom tests.data.loading import Numbers, Waiting\n" + body
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
    return subprocess.Popen(
        [sys.executable, str(path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        start_new_session=True,
    )


READING = """
if __name__ == "__main__":
    loader = DataLoader(Waiting(100_000), 4, num_workers=2, multiprocessing_context="spawn")
    for number, batch in enumerate(loader):
        if number == 10:
            print("reading", flush=True)
"""


def test_no_worker_is_left_after_a_kill_of_the_parent(tmp_path):
    process = script(tmp_path, READING)
    assert process.stdout.readline() == "reading\n"
    children = processes_of(process.pid)
    assert len(children) >= 2
    process.kill()
    process.wait()
    assert until(lambda: not any(os.path.exists(f"/proc/{child}") for child in children))
    process.communicate()


@pytest.mark.slow
def test_ctrl_c_ends_everything_without_noise(tmp_path):
    process = script(tmp_path, READING)
    assert process.stdout.readline() == "reading\n"
    children = processes_of(process.pid)
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=120)
    assert errors.count("Traceback") == 1 and errors.rstrip().endswith("KeyboardInterrupt")
    assert until(lambda: not any(os.path.exists(f"/proc/{child}") for child in children))


def test_no_interrupt_is_lost_while_a_batch_is_freed():
    """Python discards a KeyboardInterrupt that comes in a function which the garbage collector called."""
    passage = iter(spawned(Numbers(24), batch_size=4, num_workers=1))
    called = []
    batch = next(passage)
    sys.setprofile(lambda frame, event, argument: called.append(frame.f_code.co_name) if event == "call" else None)
    del batch
    sys.setprofile(None)
    assert called == []


def test_a_script_without_a_guard_is_told_what_to_do(tmp_path):
    process = script(
        tmp_path, 'list(DataLoader(Numbers(4), num_workers=1, multiprocessing_context="spawn", timeout=60))\n'
    )
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    assert '`if __name__ == "__main__":`' in errors.splitlines()[-1]


def test_a_worker_does_not_import_jax():
    class_free = spawned([0, 1], num_workers=1, worker_init_fn=jax_is_absent)
    assert len(list(class_free)) == 2


def jax_is_absent(worker):
    assert "jax" not in sys.modules


@pytest.mark.slow
def test_a_soak_of_200_000_batches_with_random_deaths():
    """Every death is reported; the stream goes on from the saved position; nothing is left."""
    size, batch_size = 200_000 * 8, 8
    random = np.random.default_rng(0)
    array = np.arange(size)
    before, state, expected, deaths = open_files(), None, 0, 0
    while expected < size:
        loader = spawned(array, batch_size=batch_size, timeout=60)
        if state is not None:
            loader.load_state_dict(state)
        passage = iter(loader)
        victim = expected + int(random.integers(20_000, 300_000))
        try:
            for batch in passage:
                assert batch.tolist() == list(range(expected, expected + batch_size))
                expected += batch_size
                state = loader.state_dict()
                if victim is not None and expected > victim:
                    os.kill(passage._workers.processes[int(random.integers(2))].pid, signal.SIGKILL)
                    victim = None
        except RuntimeError as error:
            assert "is killed by signal" in str(error)
            deaths += 1
    del passage, loader
    gc.collect()
    assert expected == size and deaths >= 5
    assert until(lambda: len(processes_of(os.getpid())) <= 1) and until(lambda: open_files() <= before + 2)
