"""A run is stopped and continued on other meshes and by another number of processes: the batches stay the same, and the
losses are those of one device up to rounding.

Each process runs the real command through this file, which records a digest of each row of each batch on the host:

    python -m tests.parallel.test_other_meshes FILE pretrain --out OUT …
"""

import hashlib
import itertools
import json
import signal
import sys
from typing import Any

import pytest

from tests import processes
from tests.processes import ended, joining, succeeded, wait_for
from tests.tasks import command

STEPS, PART = 40, 8  # steps of the run, and steps between two stops
WAYS = {
    "8 devices, 4, a 2 x 2 x 2 mesh, 1": [
        ("data=8", 1),
        ("data=4", 1),
        ("data=2,fsdp=2,tensor=2", 1),
        ("data=1", 1),
    ],
    "2 processes, 1": [("data=2,fsdp=2", 2), ("data=1", 1)],
}


def digests(batch: dict[str, Any]) -> list[str]:
    """The SHA-256 of each row of a batch: of the names, dtypes, shapes and bytes."""
    found = []
    for row in range(len(batch["input_ids"])):
        arrays = {name: array[row] for name, array in sorted(batch.items())}
        parts = [f"{name} {array.dtype} {array.shape}".encode() + array.tobytes() for name, array in arrays.items()]
        found.append(hashlib.sha256(b"".join(parts)).hexdigest())
    return found


def record_batches(path: str) -> None:
    """Append the number of the step and the digests of the rows of each batch that a step gets."""
    from funcnet.train import loop

    def recording(step: Any, state: Any, batches: Any, *, place: Any, **options: Any) -> Any:
        first = options["begin"].get("data", {"next_step": int(state.step)})["next_step"] + 1
        numbers = itertools.count(first)

        def recorded(batch: Any) -> Any:
            with open(path, "a") as file:
                file.write(json.dumps([next(numbers), digests(batch)]) + "\n")
            return place(batch)

        return train(step, state, batches, place=recorded, **options)

    from funcnet.train import trials

    train = loop.train
    assert trials.train is train
    trials.train = recording


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return command.write_corpus(tmp_path_factory.mktemp("meshes") / "corpus")


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


def start(out, corpus, cache, mesh, count, *more):
    """The processes of a run. Each records its batches in a file beside the run."""
    small = ["--seq-len", "32", "--vocab-size", "200", "--batch-size", "8", "--passes", "2", "--dropout", "0.1"]
    every = ["--steps", STEPS, "--log-every", 1, "--save-every", PART, "--evaluate-every", 20]
    run = ["pretrain", "--out", out, "--corpus", corpus, *small, *every, "--mesh", mesh, *more]
    recording = [sys.executable, "-m", "tests.parallel.test_other_meshes"]
    return [
        processes.start([*recording, out.with_name(f"{out.name}.batches-{index}"), *run, *join], cache)
        for index, join in enumerate(joining(count))
    ]


def batches(out, index=0):
    """{number of the step: digests of the rows that a process has read for it}

    A step appears more than once in the file if a batch was read ahead before a stop.
    """
    found: dict[int, list[str]] = {}
    for line in out.with_name(f"{out.name}.batches-{index}").read_text().splitlines():
        step, rows = json.loads(line)
        if step <= STEPS:
            few, found[step] = sorted((found.get(step, []), rows), key=len)
            assert set(few) <= set(found[step]), f"another batch for step {step}"
    return found


@pytest.fixture(scope="module")
def alone(corpus, cache, tmp_path_factory):
    """A run on one device, without a stop."""
    out = tmp_path_factory.mktemp("alone") / "run"
    succeeded(*start(out, corpus, cache, "data=1", 1))
    return out


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_a_run_continues_on_other_meshes(way, corpus, cache, alone, tmp_path):
    out, stops = tmp_path / "run", []
    for number, (mesh, count) in enumerate(WAYS[way]):
        resume = ["--resume"] if number else []
        run = start(out, corpus, cache, mesh, count, *resume)
        is_last = number == len(WAYS[way]) - 1
        if not is_last:
            wanted = len(command.metrics(out)) + PART - 2
            wait_for(lambda wanted=wanted: len(command.metrics(out)) >= wanted, *run)
            run[-1].send_signal(signal.SIGTERM)
        found = ended(*run)
        assert [code for code, _ in found] == [0 if is_last else 143] * count, found
        axes = mesh.replace(",", ", ")
        assert f"({axes})" in found[0][1], found[0][1]
        if number:
            assert f"Resuming from the checkpoint of step {stops[-1]:,}." in found[0][1], found[0][1]
        stops.append(len(command.metrics(out)))
    assert stops == sorted(set(stops)) and stops[-1] == STEPS, "each part of the run has made steps"

    expected, read = batches(alone), batches(out)
    assert list(expected) == list(range(1, STEPS + 1))
    assert len({row for rows in expected.values() for row in rows}) == 8 * STEPS, "no two rows are equal"
    if WAYS[way][0][1] == 1:
        assert read == expected
    else:  # a process may read only the rows of its devices
        second = batches(out, 1)
        assert set(range(1, stops[0] + 1)) <= set(second)
        assert {step: {*rows, *second.get(step, [])} for step, rows in read.items()} == {
            step: set(rows) for step, rows in expected.items()
        }

    ours, theirs = command.metrics(out), command.metrics(alone)
    assert [row["step"] for row in ours] == [row["step"] for row in theirs] == list(range(1, STEPS + 1))
    differences = [abs(row["loss"] / other["loss"] - 1) for row, other in zip(ours, theirs, strict=True)]
    print(f"{way}: stopped after {stops[:-1]}, losses differ by {max(differences):.1e} at most")
    assert max(differences) < 1e-5
    for row, other in zip(ours, theirs, strict=True):
        evaluated = [name for name in other if name.startswith("eval_") and name.endswith("loss")]
        assert all(row[name] == pytest.approx(other[name], rel=1e-5) for name in evaluated)


if __name__ == "__main__":
    record_batches(sys.argv[1])
    from funcnet.cli import main

    main(sys.argv[2:])
