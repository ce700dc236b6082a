"""Runs of several processes over Gloo: their numbers, signals, deaths and mistakes. Each process is a real command."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from funcnet.files import file_digest
from tests.tasks import command

ROOT = Path(__file__).resolve().parents[2]
LONG = ["--seq-len", "32", "--vocab-size", "200", "--batch-size", "8", "--dropout", "0.1", "--log-every", "1"]
LONG += ["--save-every", "5", "--evaluate-every", "10"]


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return command.write_corpus(tmp_path_factory.mktemp("text") / "corpus")


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


def start(count, cache, *arguments, extra=lambda index: []):
    """The processes of one run."""
    address = f"127.0.0.1:{free_port()}"
    return [
        command.start(
            *arguments,
            *(["--coordinator", address, "--num-processes", str(count), "--process-id", str(i)] if count > 1 else []),
            *extra(i),
            cache=cache,
        )
        for i in range(count)
    ]


def ended(processes, timeout=240):
    """[(exit code, output)]"""
    try:
        outputs = [process.communicate(timeout=timeout)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
    return [(process.returncode, output) for process, output in zip(processes, outputs, strict=True)]


def pretrain(corpus, out, mesh, *more, steps=20):
    return ["pretrain", "--corpus", corpus, "--out", out, "--mesh", mesh, "--steps", str(steps), *LONG, *more]


@pytest.fixture(scope="module")
def alone(corpus, cache, tmp_path_factory):
    """A run of one process with two devices."""
    out = tmp_path_factory.mktemp("alone") / "run"
    ((code, output),) = ended(start(1, cache, *pretrain(corpus, out, "data=2")))
    assert code == 0, output
    return out


def same_bits(out, alone):
    assert command.metrics(out) == command.metrics(alone)
    assert file_digest(out / "model.safetensors") == file_digest(alone / "model.safetensors")


def until(condition, timeout=120):
    end = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def lines(out):
    return len(command.metrics(out))


def test_two_processes_have_the_bits_of_one(corpus, cache, alone, tmp_path):
    out = tmp_path / "run"
    for code, output in ended(start(2, cache, *pretrain(corpus, out, "data=2"))):
        assert code == 0, output
    same_bits(out, alone)


@pytest.mark.slow
def test_four_processes_over_a_mesh_have_the_losses_of_one_device(corpus, cache, tmp_path):
    for count, mesh in ((1, "data=1"), (4, "data=2,fsdp=2,tensor=2")):
        for code, output in ended(start(count, cache, *pretrain(corpus, tmp_path / mesh, mesh))):
            assert code == 0, output
    one, four = (command.metrics(tmp_path / mesh) for mesh in ("data=1", "data=2,fsdp=2,tensor=2"))
    assert [row["loss"] for row in four] == pytest.approx([row["loss"] for row in one], rel=1e-5)


def names_the_dead(output, number):
    """Whether a message, ours or that of JAX, names the process that has died, and says what to do."""
    ours = re.search(rf"process {number}\b[^\n]* has died", output)
    of_jax = re.search(rf"stopped sending heartbeats\):\n{number}\n", output)
    return bool(ours or of_jax) and "Start all processes again with --resume" in output


@pytest.mark.slow
@pytest.mark.parametrize("victim", [0, 1])
def test_a_dead_process_ends_the_other_and_is_named(victim, corpus, cache, alone, tmp_path):
    out = tmp_path / "run"
    processes = start(2, cache, *pretrain(corpus, out, "data=2"))
    until(lambda: lines(out) > 6)
    processes[victim].kill()
    killed = time.monotonic()
    code, output = ended(processes)[1 - victim]
    assert time.monotonic() - killed < 60
    assert code not in (0, None)
    assert names_the_dead(output, victim)
    for code, output in ended(start(2, cache, *pretrain(corpus, out, "data=2", "--resume"))):
        assert code == 0, output
    same_bits(out, alone)


@pytest.mark.slow
def test_a_signal_to_one_process_stops_both_after_the_same_step(corpus, cache, alone, tmp_path):
    """The run is then continued by one process."""
    out = tmp_path / "run"
    processes = start(2, cache, *pretrain(corpus, out, "data=2"))
    until(lambda: lines(out) > 6)
    processes[1].send_signal(signal.SIGTERM)
    found = ended(processes)
    assert [code for code, _ in found] == [143, 143], found
    assert "Stopped and saved after step" in found[0][1]
    ((code, output),) = ended(start(1, cache, *pretrain(corpus, out, "data=2", "--resume")))
    assert code == 0, output
    same_bits(out, alone)


@pytest.mark.slow
def test_a_disk_that_is_full_for_one_process_is_named(corpus, cache, tmp_path):
    """The limit on the size of a file stands for a full disk: a write fails after some bytes."""
    out, address = tmp_path / "run", f"127.0.0.1:{free_port()}"
    begin = [
        sys.executable,
        "-c",
        "from funcnet.cli import main; main()",
        *map(str, pretrain(corpus, out, "data=2,fsdp=2")),
    ]
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache), "JAX_PLATFORMS": "cpu", "PYTHONUNBUFFERED": "1"}
    environment.pop("XLA_FLAGS", None)
    processes = []
    for index in range(2):
        run = [*begin, "--coordinator", address, "--num-processes", "2", "--process-id", str(index)]
        if index == 1:
            run = ["bash", "-c", 'ulimit -f 200; exec "$@"', "bash", *run]
        processes.append(
            subprocess.Popen(run, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        )
    (first, said), (second, reason) = ended(processes)
    assert second == 2 and "process 1" in reason and "cannot write" in reason, reason
    assert first not in (0, None) and names_the_dead(said, 1), said


def test_processes_that_disagree_are_named(corpus, cache, tmp_path):
    extra = lambda index: ["--learning-rate", "0.01"] if index else []
    for code, output in ended(start(2, cache, *pretrain(corpus, tmp_path / "run", "data=2"), extra=extra)):
        assert code == 2
        assert "expected learning_rate = 0.0015 as in process 0, got 0.01 in process 1" in output


JOIN = """
import sys
import jax
jax.config.update("jax_platforms", "cpu")
from funcnet.parallel import join_processes
try:
    join_processes(*eval(sys.argv[1]), timeout=2, where="pretrain")
except ValueError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("127.0.0.1:1", 2, 1), "the coordinator at 127.0.0.1:1 does not answer; expected process 0 there within 2"),
        (("127.0.0.1:{used}", 2, 0), "of --coordinator 127.0.0.1:{used} is in use; expected a free port"),
        (("127.0.0.1", 2, 0), "--coordinator is not an address; expected HOST:PORT, got '127.0.0.1'"),
        (("127.0.0.1:1", None, 0), "--num-processes is missing; expected all of --coordinator HOST:PORT"),
        (("127.0.0.1:1", 2, 2), "--process-id is out of range; expected 0 to 1 for 2 processes, got 2"),
    ],
)
def test_processes_that_cannot_join(arguments, message):
    with socket.socket() as used:
        used.bind(("", 0))
        used.listen()
        port = str(used.getsockname()[1])
        given = repr(arguments).replace("{used}", port)
        found = subprocess.run(
            [sys.executable, "-c", JOIN, given], capture_output=True, text=True, cwd=ROOT, timeout=60
        )
    assert message.replace("{used}", port) in found.stdout, found


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, None),
        ({"SLURM_STEP_NUM_TASKS": "1", "SLURM_PROCID": "0"}, None),
        ({"SLURM_STEP_NUM_TASKS": "4", "SLURM_PROCID": "3"}, (None, 4, 3)),
        ({"OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_RANK": "1"}, (None, 2, 1)),
        (
            {"JAX_NUM_PROCESSES": "8", "JOB_COMPLETION_INDEX": "7", "JAX_COORDINATOR_ADDRESS": "run-0.run:1234"},
            ("run-0.run:1234", 8, 7),
        ),
    ],
)
def test_the_environment_of_launchers(variables, expected):
    from funcnet.parallel.processes import _of_environment

    assert _of_environment(variables) == expected


@pytest.mark.slow
def test_the_script_that_starts_processes_on_one_machine(corpus, cache, alone, tmp_path):
    out = tmp_path / "run"
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache), "JAX_PLATFORMS": "cpu"}
    environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
    environment.pop("XLA_FLAGS", None)
    script = [str(ROOT / "scripts" / "launch" / "local.sh"), "2", "funcnet", *map(str, pretrain(corpus, out, "data=2"))]
    subprocess.run(script, env=environment, check=True, timeout=240, capture_output=True)
    same_bits(out, alone)
