"""One lifecycle: every task, killed in a save, ends with the same bits. The test files of the tasks kill smaller runs;
`tests/train/test_kill_matrix.py` kills pretraining in all phases of a step and of a save.
"""

import itertools

import pytest

from funcnet.files import read_json
from funcnet.tasks.finetuning.task import FinetuningTask
from funcnet.tasks.images.task import ImageTask
from funcnet.tasks.pretraining.task import PretrainingTask
from funcnet.tasks.quantizing.task import QuantizationTask
from funcnet.train import trials
from tests.tasks.command import SMALL, metrics, run_here, write_corpus
from tests.tasks.small_bert import sentence, write_model, write_task
from tests.train.kill_matrix import killed

TASKS = ["pretrain", "train-images", "classify", "labels", "regress", "pairs", "tokens", "choice", "answer", "quantize"]
FILES = ("model.safetensors", "eval.json", "config.json", "images.json", "finetuning.json", "int8.json")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A corpus, and a small BERT to fine-tune."""
    folder = tmp_path_factory.mktemp("lifecycle")
    texts = [sentence(number, label) for number in range(40) for label in ("good", "bad")]
    write_model(folder / "model", [*texts, "how was the soup? which? it was"])
    return folder, write_corpus(folder / "corpus")


def arguments(task, data, out, *more):
    folder, corpus = data
    if task == "pretrain":
        small = [*SMALL, "--dropout", "0.1", "--steps", "8", "--save-every", "3", "--evaluate-every", "5"]
        return ["pretrain", "--out", out, "--corpus", corpus, *small, *more]
    if task == "train-images":
        small = ["--steps", "6", "--batch-size", "16", "--log-every", "1", "--save-every", "2", "--evaluate-every", "6"]
        return ["train-images", "--out", out, *small, *more]
    if task == "quantize":
        tuned = folder / "tuned"
        if not tuned.exists():
            assert run_here(*arguments("classify", data, tuned)) == 0
        small = ["--steps", "8", "--batch-size", "8", "--log-every", "1", "--save-every", "3", "--length", "32"]
        return ["quantize", tuned, "--out", out, *small, *more]
    train = write_task(folder / task, task)
    small = ["--seq-len", "32", "--batch-size", "8", "--epochs", "2", "--split", "0.2", "--dropout", "0.1"]
    return ["finetune", task, "--model", folder / "model", "--train", train, "--out", out, *small, *more]


@pytest.mark.slow
@pytest.mark.parametrize(
    "task",
    [task if task == "classify" else pytest.param(task, marks=pytest.mark.slow) for task in TASKS],
)
def test_objectives_return_sums(data, tmp_path, monkeypatch, task):
    """What `run_task` checks once for other tasks, which cost these two compilations in every run."""
    checked = []
    command = arguments(task, data, tmp_path / "out")  # may train a model, by the run as it is

    def check(*args, **kwargs):
        checked.append(task)
        check_returns_sums(*args, **kwargs)

    check_returns_sums = trials.check_returns_sums
    monkeypatch.setattr(trials, "check_returns_sums", check)
    monkeypatch.setattr(trials.Trials, "all", lambda self, folder: False)  # the check alone
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for kind in (PretrainingTask, FinetuningTask, ImageTask, QuantizationTask):
        monkeypatch.setattr(kind, "checks_objective", True)
    assert run_here(*command) == 0
    assert checked == [task]


@pytest.mark.every_row
@pytest.mark.parametrize("task", ["pretrain", "train-images", "classify", "quantize"])
def test_every_command_that_trains_saves_as_often_as_one_likes(tmp_path, task, capsys):
    command = {
        "classify": ["finetune", "classify", "--model", tmp_path, "--train", tmp_path],
        "quantize": ["quantize", tmp_path],
    }
    assert run_here(*command.get(task, [task]), "--out", tmp_path / "out", "--save-every", "-1") == 2
    assert "--save-every is out of range; expected at least 0 (0: only at the end), got -1" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "parallel"), list(zip(TASKS, itertools.cycle(["jit", "shard_map", "pmap"]), strict=False))
)
def test_killed_and_resumed_a_run_ends_with_the_same_bits(data, tmp_path, task, parallel):
    whole, out, flags = tmp_path / "whole", tmp_path / "killed", ("--devices", "8", "--parallel", parallel)
    assert run_here(*arguments(task, data, whole, *flags)) == 0
    steps, command = metrics(whole)[-1]["step"], arguments(task, data, out, *flags)
    killed("save: some files", steps, out, tmp_path, *command)
    assert run_here(*command, "--resume") == 0
    assert metrics(out) == metrics(whole)
    for name in FILES:
        assert (out / name).exists() == (whole / name).exists()
        assert not (whole / name).exists() or (out / name).read_bytes() == (whole / name).read_bytes(), name
    assert read_json(out / "run.json")["finished"]
