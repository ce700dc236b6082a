"""Two processes that would read different batches, or one of which cannot open its data, say so and end."""

import sys

import pytest

from tests.processes import ended, joining, start

SCRIPT = """
import sys
from funcnet import parallel

index = int(sys.argv[2])
parallel.join_processes(sys.argv[1], count=2, index=index)

import numpy as np
import optax
from funcnet import nn, train
from funcnet.data import DataLoader

x = np.arange(64, dtype=np.float32)[:, None]
rows = [{{"x": row}} for row in x]
{data}
loss = lambda model, batch: model(batch["x"])[:, 0] ** 2
try:
    train.fit(nn.Linear(1, 1), loss, data, optax.sgd(1e-3), out={out!r}, steps=4, batch_size=8, mesh="data=2")
except ValueError as error:
    print(error)
    parallel.leave(7)
"""
# without `leave`; process 0 waits until the other process has printed its error
FORGETFUL = (
    SCRIPT[: SCRIPT.index("try:")].replace(
        "from funcnet import parallel\n", "from funcnet import parallel\nparallel.processes.LEAVING = 3600\n"
    )
    + "train.fit(nn.Linear(1, 1), loss, data, optax.sgd(1e-3), out={out!r}, steps=4, batch_size=8, mesh='data=2')\n"
)
ALL = "the first batch = 'x: float32[8, 1], SHA-256 "  # each process reads all rows
MISTAKES = {
    "the seed of a loader": (
        "data = DataLoader(rows, 8, shuffle=True, seed=index, drop_last=True)",
        "the first batch = 'rows ",
    ),
    "torch's DistributedSampler": (
        "import torch.utils.data\n"
        "data = DataLoader(rows, 8, sampler=torch.utils.data.DistributedSampler(rows, 2, index), drop_last=True)",
        ALL,
    ),
    "other rows": ("data = {'x': x + index}", "the first row = 'x: float32[1, 1], SHA-256 "),
    "a function": ("data = lambda start_step: iter([{'x': x[:8] * index}] * 4)", ALL),
}


def run(folder, data, code=SCRIPT):
    """[(exit code, output)] of the two processes."""
    script = folder / "script.py"
    script.write_text(code.format(data=data, out=str(folder / "run")))
    joined = [(arguments[1], arguments[-1]) for arguments in joining(2)]
    return ended(*(start([sys.executable, script, *arguments], folder / "cache") for arguments in joined))


@pytest.mark.slow
@pytest.mark.parametrize("mistake", MISTAKES)
def test_processes_that_read_different_batches_are_named(mistake, tmp_path):
    data, named = MISTAKES[mistake]
    for code, output in run(tmp_path, data):
        assert code == 7, output
        assert f"train.fit: the processes disagree; expected {named}" in output, output
        assert "in process 1. All processes must read the same batches" in output
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_an_error_of_the_data_in_process_0_ends_the_others(tmp_path):
    data = "data = {'x': x} if index else {'x': x[:4]}  # fewer rows than a batch"
    (first, said), (second, heard) = run(tmp_path, data)
    assert (first, second) == (7, 7), said + heard
    assert "the dataset is smaller than one batch" in said
    assert "process 0 has ended with an error: " in heard and "the dataset is smaller than one batch" in heard


@pytest.mark.slow
def test_processes_that_read_the_same_train(tmp_path):
    for code, output in run(tmp_path, "data = DataLoader(rows, 8, shuffle=True, seed=3, drop_last=True)"):
        assert code == 0, output


@pytest.mark.slow
def test_a_script_that_never_leaves_ends_as_soon_as_the_others_have(tmp_path):
    data, named = MISTAKES["other rows"]
    for code, output in run(tmp_path, data, FORGETFUL):
        assert code not in (0, None) and named in output, output
