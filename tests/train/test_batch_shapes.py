"""A line of the log says when new shapes compile a new program of the training step, and what helps."""

import re

import jax
import numpy as np
import pytest

from funcnet import functional as F
from funcnet import nn
from funcnet.data import DataLoader
from funcnet.train import step as steps
from tests.train.small_fit import fit, quick, row

LINE = re.compile(r"Step (\d+): program (\d+) of the training step was compiled in \S+ s, for a batch with new shapes ")


def loss(model, batch):
    ids = batch["ids"]
    return F.cross_entropy(model(ids).swapaxes(1, 2), ids, reduction="none")


def batches(*shapes, dtype=np.int32):
    return lambda start_step: iter([{"ids": np.ones(shape, dtype)} for shape in shapes][start_step:])


@pytest.mark.parametrize("kind", quick(["jit", "shard_map", "pmap"], "jit"))
@pytest.mark.parametrize(
    ("shapes", "lines", "advice"),
    [
        ([(4, 8)] * 4, [], ""),
        ([(4, 8), (4, 6), (4, 8), (4, 6)], [(2, 2)], "Pad all batches to a few lengths"),
        ([(4, 8), (4, 6), (4, 7), (4, 5)], [(2, 2), (3, 3), (4, 4)], "Pad all batches to a few lengths"),
        ([(4, 8), (4, 8), (2, 8), (4, 8)], [(3, 2)], "Only the number of rows is new. With drop_last=True"),
        ([(4, 8), (2, 6), (2, 8), (4, 6)], [(2, 2), (3, 3), (4, 4)], "Only the number of rows is new"),
    ],
    ids=["one shape", "two lengths", "four lengths", "last batch", "both"],
)
def test_each_new_shape_is_one_line_and_one_program(shapes, lines, advice, kind, tmp_path, capsys, monkeypatch):
    traced = []
    objective = steps.make_step

    def counted(objective_, *args, **options):
        return objective(lambda *a, **k: traced.append(1) or objective_(*a, **k), *args, **options)

    monkeypatch.setattr("funcnet.train.trials.make_step", counted)
    net = nn.Embedding(3, 3)
    fit(tmp_path, batches(*shapes), net=net, loss=loss, steps=len(shapes), batch_size=4, devices=2, parallel=kind)
    printed = capsys.readouterr().out
    assert [tuple(map(int, found)) for found in LINE.findall(printed)] == lines
    assert len(traced) == len({*shapes}), "the lines count the programs"
    assert advice in printed and printed.count("new shapes (ids: int32[") == len(lines)


@pytest.mark.slow
def test_a_new_dtype_and_a_resumed_run(tmp_path, capsys):
    rows = [row(number) for number in range(10)]
    fit(tmp_path, DataLoader(rows, 4), steps=3)
    assert LINE.findall(capsys.readouterr().out) == [("3", "2")]
    fit(tmp_path, DataLoader(rows, 4), steps=4)
    assert LINE.findall(capsys.readouterr().out) == []
    with jax.enable_x64(False):
        mixed = lambda start_step: iter([{"ids": np.ones((2, 3), dtype)} for dtype in (np.int32, np.int8)][start_step:])
        fit(
            tmp_path / "dtypes",
            mixed,
            net=nn.Embedding(3, 3),
            loss=lambda m, b: loss(m, {"ids": b["ids"].astype(int)}),
            steps=2,
        )
    assert "new shapes (ids: int8[2, 3])" in capsys.readouterr().out
