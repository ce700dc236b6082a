"""Broken batches in real runs: skipped, rewound and replayed, on one device, a mesh and two processes."""

import json
import signal
import sys
from types import SimpleNamespace

import pytest

from funcnet.files import file_digest
from tests import processes
from tests.processes import ended, joining, succeeded, wait_for
from tests.tasks import command

FAULTS = {7: "nan", 13: "nan"}
SPIKE = {45: "labels", 52: "nan"}


def start(faults, cache, *arguments):
    return processes.start([sys.executable, "-m", "tests.tasks.faulty", json.dumps(faults), *arguments], cache)


def events(out):
    return [json.loads(line) for line in (out / "faults.jsonl").read_text().splitlines()]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return command.write_corpus(tmp_path_factory.mktemp("text") / "corpus")


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


def pretrain(corpus, out, mesh, steps=20):
    small = ["--seq-len", "32", "--vocab-size", "200", "--batch-size", "8", "--log-every", "1", "--dropout", "0.1"]
    return ["pretrain", "--corpus", corpus, "--out", out, "--mesh", mesh, "--steps", steps, "--save-every", "5", *small]


def test_what_is_no_bundle_of_a_command_is_refused(tmp_path, capsys, monkeypatch):
    assert command.run_here("replay", tmp_path / "missing") == 2
    assert "missing" in capsys.readouterr().err
    monkeypatch.setattr("funcnet.cli.replay.read_bundle", lambda _: SimpleNamespace(where="train.fit"))
    assert command.run_here("replay", tmp_path) == 2
    assert "was written by train.fit; expected one of the commands pretrain, " in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize(("count", "mesh"), [(1, "data=1"), (1, "data=2,fsdp=2,tensor=2"), (2, "data=2")])
def test_nan_batches_are_skipped_and_replayed(count, mesh, corpus, cache, tmp_path):
    out = tmp_path / "run"
    succeeded(*(start(FAULTS, cache, *pretrain(corpus, out, mesh), *join) for join in joining(count)))
    rows = command.metrics(out)
    assert [row["step"] for row in rows] == list(range(1, 21))
    assert [row["step"] for row in rows if row.get("skipped_steps")] == [8, 14]
    found = events(out)
    assert [(event["kind"], event["step"], event["batch"]) for event in found] == [
        ("skipped", 8, 7),
        ("skipped", 14, 13),
    ]
    for event in found:
        (said,) = succeeded(start(FAULTS, cache, "replay", out / event["bundle"]))
        assert "in 'masked_weights' that are not finite" in said and "; as in the run." in said
    ((code, said),) = ended(start({}, cache, "replay", out / found[0]["bundle"]))
    assert code == 2 and "the data have changed since the run; expected batch 7 as in" in said
    other = start({}, cache, "replay", tmp_path)
    assert "is not a replay bundle; expected a folder with bundle.json" in ended(other)[0][1]


@pytest.mark.slow
def test_a_loss_of_two_terms_is_replayed_to_the_bit(corpus, cache, tmp_path):
    """Nearly every rise of the loss counts as a spike here, so the run may end after ten of them."""
    out = tmp_path / "run"
    ((_, said),) = ended(start({}, cache, *pretrain(corpus, out, "data=2", 60), "--rewind-above", "1.001"))
    assert "Going back to step" in said, said
    found = events(out)
    assert found and all(event["kind"] == "spike" for event in found)
    for event in found[:3]:
        (said,) = succeeded(start({}, cache, "replay", out / event["bundle"]))
        assert "; as in the run." in said and "All outputs of layers" in said, said


def train_images(cache, out, *more):
    size = ["--steps", "60", "--batch-size", "16", "--save-every", "10", "--evaluate-every", "30", "--log-every", "1"]
    # The wrong labels multiply the loss by nine and nothing else by more than two, on any machine.
    calm = ["--learning-rate", "0.005", "--rewind-above", "4"]
    options = [*size, *calm, "--devices", "2", "--nan-trace", "--keep", "3"]
    return start(SPIKE, cache, "train-images", "--out", out, *options, *more)


@pytest.fixture(scope="module")
def whole(cache, tmp_path_factory):
    """A run with a spike and a NaN that nothing interrupts."""
    out = tmp_path_factory.mktemp("images") / "whole"
    succeeded(train_images(cache, out))
    return out


def same_bits(out, whole):
    assert events(out) == events(whole)
    assert command.metrics(out) == command.metrics(whole)
    assert file_digest(out / "model.safetensors") == file_digest(whole / "model.safetensors")


@pytest.mark.slow
def test_wrong_labels_rewind_and_a_killed_run_ends_with_the_same_bits(cache, whole, tmp_path):
    spike, skipped = events(whole)
    assert (spike["kind"], spike["batch"], spike["back_to"]) == ("spike", 45, 30)
    assert (skipped["kind"], skipped["batch"], skipped["step"]) == ("skipped", 52, 37)
    assert skipped["layer"] == "forward: the output of 'conv1' is the first that is not finite"
    out = tmp_path / "killed"
    for moment in (33, 36, 50):  # before the spike was found again, after, and near the end
        process = train_images(cache, out, *(["--resume"] if (out / "run.json").exists() else []))
        wait_for(lambda moment=moment: len(command.metrics(out)) >= moment, process)
        process.send_signal(signal.SIGKILL)
        process.communicate()
    succeeded(train_images(cache, out, "--resume"))
    same_bits(out, whole)
    for event in (spike, skipped):
        succeeded(start(SPIKE, cache, "replay", out / event["bundle"]))


@pytest.mark.slow
def test_two_processes_rewind_together(cache, whole, tmp_path):
    succeeded(*(train_images(cache, tmp_path / "two", *join) for join in joining(2)))
    same_bits(tmp_path / "two", whole)
