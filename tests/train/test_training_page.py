"""The script with epochs, F1, the best model and early stopping of docs/training.md: killed anywhere, the same bits."""

import re
import sys
from pathlib import Path

import pytest

from funcnet import train
from funcnet.files import read_json
from tests import processes
from tests.train.kill_matrix import killed
from tests.train.small_fit import CLOCK

PAGE = (Path(__file__).parents[2] / "docs" / "training.md").read_text("utf-8")
SCRIPT = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)[4]
WORKERS = '{"num_workers": 2, "multiprocessing_context": "spawn"}'
VARIANTS = {"no workers": "{}", "2 threads": '{"num_workers": 2}', "2 processes": WORKERS}
# Each kill follows the one before, in the same run: phase, step, and the step whose checkpoint must be complete before.
# An epoch ends at the steps 4, 8, 12 and 16.
KILLS = [
    ("step: given to the devices", 1, 0),
    ("step: given to the devices", 2, 0),
    ("step: a batch is moved", 3, 0),
    ("evaluation: the first batch", 4, 0),
    ("save: before the first byte", 4, 0),
    ("step: metrics read", 5, 4),
    ("resumption: the checkpoint is read", 4, 4),
    ("save: some files of the arrays", 8, 4),
    ("save: digests under their temporary name", 8, 4),
    ("step: line of the log written", 8, 4),
    ("resumption: the shortened log", 4, 4),
    ("save: complete, the old checkpoint", 12, 8),
    ("evaluation: the first batch", 16, 12),
    ("end: model written, report", 16, 16),
    ("end: all files written", 16, 16),
]


@pytest.fixture(autouse=True)
def _as_a_user(monkeypatch):
    for name, value in processes.AS_A_USER.items():
        monkeypatch.setenv(name, value)


def written(workers, path):
    """Write the script of the page, with fewer rows and epochs."""
    text = SCRIPT
    for whole, less in [
        ("test_size=0.2", "train_size=220, test_size=70"),
        ("epochs=10", "epochs=4, keep=1"),
        (WORKERS, workers),
        ('"runs/digits"', "sys.argv[1]"),
        ("import numpy", "import sys\n\nimport numpy"),
    ]:
        assert SCRIPT.count(whole) == 1, whole
        text = text.replace(whole, less)
    path.write_text(text, "utf-8")
    return path


def result(out):
    rows = [{k: v for k, v in row.items() if k not in CLOCK} for row in train.read_metrics(out / "metrics.jsonl")]
    return (out / "model.safetensors").read_bytes(), rows, read_json(out / "eval.json")


def test_the_script_has_at_most_forty_lines():
    assert len([line for line in SCRIPT.splitlines() if line.strip()]) <= 40


@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS)
def test_killed_anywhere_the_script_ends_with_the_same_bits(variant, tmp_path):
    script = written(VARIANTS[variant], tmp_path / "digits.py")
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    (said,) = processes.succeeded(processes.start([sys.executable, script, whole], tmp_path / "cache"))
    expected = result(whole)
    assert [row["step"] for row in expected[1] if "eval_f1" in row] == [4, 8, 12, 16]
    assert float(said.splitlines()[-1]) == max(row["eval_f1"] for row in expected[1] if "eval_f1" in row)
    assert sum(map(sum, expected[2]["confusion"])) == 70 and expected[2]["step"] in (4, 8, 12, 16)
    for phase, step, complete in KILLS:
        killed(phase, step, cut, tmp_path / "cache", script, cut, complete=complete)
    processes.succeeded(processes.start([sys.executable, script, cut], tmp_path / "cache"))
    assert result(cut) == expected


@pytest.mark.slow
def test_workers_do_not_change_the_bits(tmp_path):
    found = {}
    for variant, workers in VARIANTS.items():
        script, out = written(workers, tmp_path / f"{len(found)}.py"), tmp_path / variant.replace(" ", "-")
        processes.succeeded(processes.start([sys.executable, script, out], tmp_path / "cache"))
        found[variant] = result(out)
    assert found["no workers"] == found["2 threads"] == found["2 processes"]
