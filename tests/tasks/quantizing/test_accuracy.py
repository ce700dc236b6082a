"""What integers cost, on real data: digits, words of the default corpus, and Reuters R8.

With conversion alone, an int8 model loses less than a point of accuracy. After training that is aware of the rounding,
it loses at most 0.3. On two idle cores, all of it takes half an hour.
"""

import csv

import pytest

from funcnet.files import read_json
from tests import real_data
from tests.tasks.command import run_here

pytestmark = pytest.mark.slow


def lost(run, out, metric, steps):
    """How many points of a metric the int8 models lose: converted, and after training."""
    found = {}
    for name, more in {"converted": (), "trained": ("--steps", str(steps), "--evaluate-every", "0")}.items():
        assert run_here("quantize", run, "--out", out / name, *more) == 0
        values = read_json(out / name / "eval.json")
        found[name] = 100 * (values["float"][metric] - values["int8"][metric])
        assert values["int8"]["bytes"] < 0.6 * values["float"]["bytes"]
    return found


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory):
    """600 steps of the default run."""
    run = tmp_path_factory.mktemp("pretrained") / "run"
    assert run_here("pretrain", "--out", run, "--steps", "600") == 0
    return run


def test_digits(tmp_path):
    """A point is 3.6 of 360 images."""
    assert run_here("train-images", "--out", tmp_path / "run") == 0
    assert read_json(tmp_path / "run" / "eval.json")["accuracy"] > 0.96
    points = lost(tmp_path / "run", tmp_path, "accuracy", steps=24)
    assert points["converted"] < 1 and points["trained"] <= 0.3, points


def test_masked_words(pretrained, tmp_path):
    """23,003 masked words. The most frequent token is right for a twentieth of them."""
    assert read_json(pretrained / "eval.json")["mlm_accuracy"] > 0.2
    points = lost(pretrained, tmp_path, "mlm_accuracy", steps=60)
    assert points["converted"] < 1 and points["trained"] <= 0.3, points


def test_articles(pretrained, tmp_path):
    """2,189 articles of Reuters R8."""
    files = []
    for part in ("train", "test"):
        lines = real_data.reuters(part).read_text("utf-8").split("\n")[3:]
        rows = [line.split("\t") for line in lines if line]
        files.append(tmp_path / f"{part}.csv")
        with open(files[-1], "w", encoding="utf-8", newline="") as out:
            csv.writer(out).writerows([("text", "label"), *((text, label) for label, text in rows)])
    paths = ["--model", pretrained, "--train", files[0], "--test", files[1], "--out", tmp_path / "run"]
    small = ["--seq-len", "128", "--epochs", "5", "--learning-rate", "1e-3"]
    assert run_here("finetune", "classify", *paths, *small) == 0
    assert read_json(tmp_path / "run" / "eval.json")["test_accuracy"] > 0.9
    points = lost(tmp_path / "run", tmp_path, "test_accuracy", steps=60)
    assert points["converted"] < 1 and points["trained"] <= 0.3, points
