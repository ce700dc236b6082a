"""Runs of several processes over Gloo: their numbers, signals, deaths and mistakes. Each process is a real command."""

import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from funcnet.files import file_digest
from funcnet.parallel.errors import ProcessError
from funcnet.parallel.launchers import process_of_environment
from funcnet.parallel.processes import join_processes
from tests import processes
from tests.processes import FUNCNET, ROOT, ended, joining, succeeded, wait_for
from tests.tasks import command

LONG = ["--seq-len", "32", "--vocab-size", "200", "--batch-size", "8", "--dropout", "0.1", "--log-every", "1"]
LONG += ["--save-every", "5", "--evaluate-every", "10"]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return command.write_corpus(tmp_path_factory.mktemp("text") / "corpus")


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


def start(count, cache, *arguments, extra=lambda index: []):
    """The processes of one run."""
    return [command.start(*arguments, *join, *extra(index), cache=cache) for index, join in enumerate(joining(count))]


def pretrain(corpus, out, mesh, *more, steps=20):
    return ["pretrain", "--corpus", corpus, "--out", out, "--mesh", mesh, "--steps", str(steps), *LONG, *more]


@pytest.fixture(scope="module")
def alone(corpus, cache, tmp_path_factory):
    """A run of one process with two devices."""
    out = tmp_path_factory.mktemp("alone") / "run"
    succeeded(*start(1, cache, *pretrain(corpus, out, "data=2")))
    return out


def same_bits(out, alone):
    assert command.metrics(out) == command.metrics(alone)
    assert file_digest(out / "model.safetensors") == file_digest(alone / "model.safetensors")


@pytest.mark.slow
def test_two_processes_have_the_bits_of_one(corpus, cache, alone, tmp_path):
    out = tmp_path / "run"
    succeeded(*start(2, cache, *pretrain(corpus, out, "data=2")))
    same_bits(out, alone)


@pytest.mark.slow
def test_four_processes_over_a_mesh_have_the_losses_of_one_device(corpus, cache, tmp_path):
    for count, mesh in ((1, "data=1"), (4, "data=2,fsdp=2,tensor=2")):
        succeeded(*start(count, cache, *pretrain(corpus, tmp_path / mesh, mesh)))
    one, four = (command.metrics(tmp_path / mesh) for mesh in ("data=1", "data=2,fsdp=2,tensor=2"))
    assert [row["loss"] for row in four] == pytest.approx([row["loss"] for row in one], rel=1e-5)


def names_the_dead(output, number):
    """Whether a message, ours or that of JAX, names the process that has died, and the last line says what to do."""
    ours = re.search(rf"process {number}\b[^\n]* has died", output)
    of_jax = re.search(rf"stopped sending heartbeats\):\n{number}\n", output)
    return bool(ours or of_jax) and output.rstrip().endswith("Start all processes again with --resume.")


@pytest.mark.slow
@pytest.mark.parametrize("victim", [0, 1])
def test_a_dead_process_ends_the_other_and_is_named(victim, corpus, cache, alone, tmp_path):
    out = tmp_path / "run"
    run = start(2, cache, *pretrain(corpus, out, "data=2"))
    assert wait_for(lambda: len(command.metrics(out)) > 6, *run)
    run[victim].kill()
    code, output = ended(*run, timeout=120)[1 - victim]  # the heartbeat takes 20 s
    assert code not in (0, None)
    assert names_the_dead(output, victim)
    succeeded(*start(2, cache, *pretrain(corpus, out, "data=2", "--resume")))
    same_bits(out, alone)


@pytest.mark.slow
def test_a_signal_to_one_process_stops_both_after_the_same_step(corpus, cache, alone, tmp_path):
    """The run is then continued by one process."""
    out = tmp_path / "run"
    run = start(2, cache, *pretrain(corpus, out, "data=2"))
    assert wait_for(lambda: len(command.metrics(out)) > 6, *run)
    run[1].send_signal(signal.SIGTERM)
    found = ended(*run)
    assert [code for code, _ in found] == [143, 143], found
    assert re.search(r"Stopped and saved after step \d+ of 20\. Continue with --resume", found[0][1])
    succeeded(*start(1, cache, *pretrain(corpus, out, "data=2", "--resume")))
    same_bits(out, alone)


@pytest.mark.slow
def test_a_disk_that_is_full_for_one_process_is_named(corpus, cache, tmp_path):
    """The limit on the size of a file stands for a full disk: a write fails after some bytes."""
    first, second = ([*FUNCNET, *pretrain(corpus, tmp_path / "run", "data=2,fsdp=2"), *join] for join in joining(2))
    limited = ["bash", "-c", 'ulimit -f 200; exec "$@"', "bash", *second]
    (first, said), (second, reason) = ended(*(processes.start(run, cache) for run in (first, limited)))
    assert second == 2 and "process 1" in reason and "cannot write" in reason, reason
    assert "Traceback" not in reason, reason
    assert first not in (0, None) and names_the_dead(said, 1), said


def test_processes_that_disagree_are_named(corpus, cache, tmp_path):
    extra = lambda index: ["--learning-rate", "0.01"] if index else []
    for code, output in ended(*start(2, cache, *pretrain(corpus, tmp_path / "run", "data=2"), extra=extra)):
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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("127.0.0.1:1", 2, 1), "the coordinator at 127.0.0.1:1 does not answer; expected process 0 there within 2"),
        (("127.0.0.1:{used}", 2, 0), "of the coordinator 127.0.0.1:{used} is in use; expected a free port"),
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
    assert process_of_environment(variables, "pretrain") == expected


@pytest.mark.parametrize(
    ("variables", "name"),
    [
        ({"SLURM_STEP_NUM_TASKS": "four", "SLURM_PROCID": "0"}, "SLURM_STEP_NUM_TASKS"),
        ({"SLURM_STEP_NUM_TASKS": "4", "SLURM_PROCID": "0x"}, "SLURM_PROCID"),
        ({"OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_RANK": "1.0"}, "OMPI_COMM_WORLD_RANK"),
    ],
)
def test_variables_of_launchers_that_are_no_numbers(variables, name, monkeypatch):
    for key, value in variables.items():
        monkeypatch.setenv(key, value)
    with pytest.raises(ProcessError, match=f"^pretrain: the environment variable {name} is not a number; expected"):
        join_processes(None, None, None, where="pretrain")


@pytest.mark.slow
def test_a_script_of_one_s_own_as_the_page_shows_it(cache, tmp_path):
    page = (ROOT / "docs" / "parallel.md").read_text("utf-8")
    (code,) = re.findall(r"^```python processes\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    address = joining(2)[0][1]
    assert "10.0.0.1:8476" in code
    script = code.replace("10.0.0.1:8476", address).replace('"runs/', f'"{tmp_path}/')
    outputs = succeeded(*(processes.start([sys.executable, "-c", script, i], cache) for i in range(2)))
    assert [output.strip().splitlines()[-1] for output in outputs] == ["process 0 of 2", "process 1 of 2"]


@pytest.mark.slow
def test_the_script_that_starts_processes_on_one_machine(corpus, cache, alone, tmp_path):
    out = tmp_path / "run"
    environment = processes.environment(cache)
    environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
    script = [str(ROOT / "scripts" / "launch" / "local.sh"), "2", "funcnet", *map(str, pretrain(corpus, out, "data=2"))]
    subprocess.run(script, env=environment, check=True, timeout=240, capture_output=True)
    same_bits(out, alone)
