"""A run that is killed at random moments and resumed ends with the bits of an uninterrupted run."""

import hashlib
import random
import signal
import time

import pytest

from tests.processes import succeeded, wait_for
from tests.tasks.command import SMALL, metrics, start, write_corpus

STEPS = 60


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return write_corpus(tmp_path_factory.mktemp("kill") / "corpus")


def arguments(corpus, out, devices, *more):
    every = ["--save-every", "7", "--evaluate-every", "20", "--dropout", "0.1", "--steps", STEPS]
    return ["pretrain", "--out", out, "--corpus", corpus, *SMALL, *every, "--devices", devices, *more]


def digest(out):
    return hashlib.sha256((out / "model.safetensors").read_bytes()).hexdigest()


def kill_and_resume(corpus, tmp_path, devices, kills, seed):
    """Kill and resume a run several times, then let it finish: (its folder, how many kills interrupted it)."""
    moments = random.Random(seed)
    out, met = tmp_path / "killed", []
    for _ in range(kills):
        resume = ["--resume"] if (out / "run.json").exists() else []
        process = start(*arguments(corpus, out, devices, *resume), cache=tmp_path / "cache")
        before = len(metrics(out))
        if moments.random() < 0.2:  # while it starts, compiles or restores
            time.sleep(moments.uniform(0.5, 8))
        else:  # some steps later
            steps = moments.randint(1, max(1, STEPS // kills))
            wait_for(lambda before=before, steps=steps: len(metrics(out)) >= before + steps, process)
            time.sleep(moments.uniform(0, 0.3))
        met.append(process.poll() is None)
        process.send_signal(signal.SIGKILL)
        process.communicate()
    for _ in range(2):  # the second time, the run reports that it has finished
        (said,) = succeeded(start(*arguments(corpus, out, devices, "--resume"), cache=tmp_path / "cache"))
    assert "has finished" in said
    return out, sum(met)


def check(corpus, tmp_path, devices, kills, seed):
    whole = tmp_path / "whole"
    succeeded(start(*arguments(corpus, whole, devices), cache=tmp_path / "cache"))
    killed, met = kill_and_resume(corpus, tmp_path, devices, kills, seed)
    print(f"{met} of {kills} kills interrupted the run, {devices} device(s)")
    assert met >= kills * 0.7
    assert digest(killed) == digest(whole)
    assert metrics(killed) == metrics(whole)
    assert [row["step"] for row in metrics(killed)] == list(range(1, STEPS + 1))


@pytest.mark.slow
@pytest.mark.parametrize("devices", [1, 8])
def test_ten_kills(corpus, tmp_path, devices):
    check(corpus, tmp_path, devices, kills=10, seed=2)
