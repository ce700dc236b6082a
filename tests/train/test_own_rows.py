"""Each process of a run reads its own rows: counted, and with the bits of a run of one process."""

import json
import sys
from collections import Counter

import numpy as np
import pytest

from funcnet import weights
from tests.processes import AS_A_USER, joining, start, succeeded
from tests.tasks.command import metrics

AHEAD = 4  # batches that are read before their step

SCRIPT = """
import json, sys
from funcnet import parallel

out, count, log = sys.argv[1], int(sys.argv[2]), sys.argv[3]
if count > 1:
    parallel.join_processes(sys.argv[4], count=count, index=int(sys.argv[5]))

import numpy as np
import optax
from funcnet import nn, train
from funcnet.data import random_split

class Counting:
    def __init__(self, rows, name):
        self.x = np.random.default_rng(0).normal(size=(rows, 3)).astype(np.float32)
        self.name, self.read = name, []
    def __len__(self):
        return len(self.x)
    def __getitem__(self, index):
        self.read.append(index)
        return {"x": self.x[index], "y": self.x[index].sum() > 0}

data, held_out = Counting(64, "data"), Counting(21, "held out")
net = nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.Dropout(0.1), nn.Linear(8, 2))
def loss(model, batch):
    return nn.functional.cross_entropy(model(batch["x"]), batch["y"].astype(int), reduction="none")
train.fit(
    net, loss, random_split(data, [48, 16])[0], optax.sgd(0.1), validation=held_out, out=out, steps=12, batch_size=8,
    predict=lambda model, batch: (model(batch["x"]).argmax(-1), batch["y"]), evaluate_every=6, mesh="data=4",
    metrics=lambda guess, right: {"accuracy": float((guess == right).mean()), "rows": len(guess)}, log_every=1,
)
open(log, "w").write(json.dumps([data.read, held_out.read]))
"""


@pytest.fixture(autouse=True)
def _as_a_user(monkeypatch):
    for name, value in AS_A_USER.items():
        monkeypatch.setenv(name, value)


def run(folder, count):
    """Run the script in processes of 4 devices together. Return the indices that each of them has read."""
    script = folder / "script.py"
    script.write_text(SCRIPT)
    joined = [(join[1], join[-1]) for join in joining(count)] if count > 1 else [()]
    logs = [folder / f"{count}-{index}.json" for index in range(count)]
    command = [sys.executable, script, folder / str(count), count]
    both = zip(logs, joined, strict=True)
    succeeded(*(start([*command, log, *one], folder / "cache") for log, one in both))
    return [json.loads(log.read_text()) for log in logs]


@pytest.mark.slow
def test_a_script_reads_each_row_once_and_has_the_losses_of_one_process(tmp_path):
    """12 batches of 8 of 48 rows are two epochs. The last batch of 21 held-out rows, which 4 devices cannot divide, is
    read by all processes.
    """
    run(tmp_path, 1)
    alone = metrics(tmp_path / "1")
    assert {row["eval_rows"] for row in alone if "eval_rows" in row} == {21}
    for count in (2, 4):
        read = run(tmp_path, count)
        for rows, held_out in read:
            assert len(held_out) == 2 * (16 // count + 5)
            assert len(rows) <= 1 + (96 + 8 * AHEAD) // count  # the first row, and batches that are read ahead
        trained = Counter(row for rows, _ in read for row in rows[: 1 + 96 // count])
        trained[read[0][0][0]] -= count  # the first row, which all processes read, to compare it
        assert set(trained.values()) == {2} and len(trained) == 48
        found = metrics(tmp_path / str(count))
        for name in ("loss", "eval_loss", "eval_accuracy", "eval_rows"):
            expected = [row[name] for row in alone if name in row]
            assert [row[name] for row in found if name in row] == pytest.approx(expected, rel=1e-5)
        paths = (tmp_path / name / "model.safetensors" for name in ("1", str(count)))
        for one, other in zip(*(weights.load(path).values() for path in paths), strict=True):
            np.testing.assert_allclose(np.asarray(other), np.asarray(one), atol=1e-5)
