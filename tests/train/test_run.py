"""The lifecycle of a run, with a model from outside the package: a causal language model on characters."""

import contextlib
import json
import re
import signal

import numpy as np
import pytest

from funcnet import train
from funcnet.files import read_json, write_json
from funcnet.settings import compose
from tests.train.character_model import CharacterTask, Settings
from tests.train.kill_matrix import killed


def run(folder, **values):
    return train.run_task(CharacterTask, compose(Settings, out=folder, **values), where="character_model")


def model(folder):
    return (folder / "model.safetensors").read_bytes()


def losses(folder):
    return [(row["step"], row["loss"]) for row in train.read_metrics(folder / "metrics.jsonl")]


@contextlib.contextmanager
def stopped_after(step):
    """The process gets SIGTERM when `step` is finished."""
    after_step = train.TrainingProgress.after_step

    def stop(self, number):
        after_step(self, number)
        if number == step:
            signal.raise_signal(signal.SIGTERM)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(train.TrainingProgress, "after_step", stop)
        yield


@pytest.mark.parametrize("parallel", ["jit", *(pytest.param(p, marks=pytest.mark.slow) for p in ("shard_map", "pmap"))])
def test_killed_and_stopped_a_run_ends_with_the_same_bits(tmp_path, capsys, parallel):
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    assert run(whole, devices=8, parallel=parallel) == 0
    command = ["tests.train.character_model", "--out", cut, "--devices", 8, "--parallel", parallel]
    killed("step: half of the line", 3, cut, tmp_path, *command)
    with stopped_after(5):
        assert run(cut, devices=8, parallel=parallel, resume=True) == 143
    assert not (cut / "model.safetensors").exists()
    said = (
        r"Stopped and saved after step 6 of 12, \d+\.\d s after the signal\. Continue with --resume \(in Python: resume"
    )
    assert re.search(said, capsys.readouterr().out)
    assert run(cut, devices=8, parallel=parallel, resume=True) == 0
    assert model(cut) == model(whole)
    assert losses(cut) == losses(whole)
    assert read_json(cut / "eval.json") == read_json(whole / "eval.json")
    assert run(cut, devices=8, parallel=parallel, resume=True) == 0
    assert "has finished; there is nothing left to do" in capsys.readouterr().out


@pytest.mark.slow
def test_a_run_resumes_on_other_devices(tmp_path):
    """Under jit dropout and data do not depend on the devices: the losses are the same but for rounding."""
    assert run(tmp_path / "whole", devices=8) == 0
    with stopped_after(5):
        assert run(tmp_path / "cut", devices=8) == 143
    assert run(tmp_path / "cut", mesh="data=2", resume=True) == 0
    (steps, ours), (same, theirs) = (zip(*losses(tmp_path / name), strict=True) for name in ("cut", "whole"))
    assert steps == same
    np.testing.assert_allclose(ours, theirs, rtol=1e-5)


@pytest.mark.slow
def test_the_model_learns(tmp_path):
    assert run(tmp_path / "run", steps=30) == 0
    found = losses(tmp_path / "run")
    assert found[-1][1] < 0.6 * found[0][1]
    assert (tmp_path / "run" / "report.png").stat().st_size > 10_000


@pytest.mark.slow
def test_settings_of_another_run_are_refused_and_new_ones_have_their_default(tmp_path):
    assert run(tmp_path / "run", steps=4) == 0
    with pytest.raises(train.RunError, match=r"steps was 4, now 8"):
        run(tmp_path / "run", steps=8, resume=True)
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    record["finished"] = False
    del record["config"]["mesh"]  # as written by a release without this setting
    write_json(tmp_path / "run" / "run.json", record)
    assert run(tmp_path / "run", steps=4, resume=True) == 0


def test_wrong_devices_are_refused_before_anything_is_written(tmp_path):
    for values, message in [
        (
            {"devices": 8, "batch_size": 12},
            "character_model: --batch-size: the batch does not divide evenly over 8 devices",
        ),
        ({"devices": 9}, "CPU devices is out of range; expected 1 to 8, got 9"),
        ({"mesh": "data=2,model=4"}, "no array is sharded along the axis 'model'"),
        ({"mesh": "data=2", "devices": 2}, "--devices 2 and --mesh data=2 are both given; expected one of them"),
        ({"mesh": "data 2"}, "'data 2' is not a mesh"),
    ]:
        with pytest.raises(ValueError, match=message):
            run(tmp_path / "run", **values)
        assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_devices_is_short_for_mesh(tmp_path):
    assert run(tmp_path / "short", devices=4, steps=3) == 0
    assert run(tmp_path / "long", mesh="data=4", steps=3) == 0
    assert model(tmp_path / "short") == model(tmp_path / "long")
