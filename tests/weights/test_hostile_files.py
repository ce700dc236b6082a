"""Files that mean harm or are broken: refused by the name of the fault, nothing run, memory bounded."""

import json
import os
import re
import subprocess
import sys
from collections import OrderedDict
from pathlib import Path

import numpy as np
import pytest

from funcnet import weights
from tests.weights.hostile import legacy, outcome, storage, tensor, zipped
from tests.weights.hostile_files import CONTAINERS
from tests.weights.hostile_pickles import MARK


@pytest.mark.parametrize("name", CONTAINERS)
def test_it_is_refused_by_the_name_of_its_fault(name, tmp_path, monkeypatch):
    case = CONTAINERS[name]
    path = tmp_path / f"x{case.suffix}"
    path.write_bytes(case.content)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(case.error, match=case.text) as caught:
        weights.load(path)
    assert type(caught.value) is case.error and str(caught.value).startswith(f"weights.load: {path}: ")
    assert not Path(MARK).exists() and os.listdir(tmp_path) == [path.name]


def test_there_are_many():
    assert len(CONTAINERS) >= 60


@pytest.mark.slow
def test_memory_is_bounded(tmp_path):
    """All of them in one process that may take 256 MB beyond what Python and JAX have."""
    for number, case in enumerate(CONTAINERS.values()):
        (tmp_path / f"{number}{case.suffix}").write_bytes(case.content)
    command = [sys.executable, "-m", "tests.weights.hostile", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2])
    report = json.loads(done.stdout)
    for number, (name, case) in enumerate(CONTAINERS.items()):
        error, said = report["outcomes"][f"{number}{case.suffix}"]
        assert error == case.error.__name__ and re.search(case.text, said), (name, error, said)
    assert report["grown_kilobytes"] < 100_000


def whole_files(folder):
    tree = OrderedDict(a=np.arange(300.0), b=np.ones((3, 5), np.int16), c=np.zeros(0), d=np.array(True))
    for name in ("x.safetensors", "x.pt"):
        weights.save(folder / name, tree)
    (folder / "x.pth").write_bytes(legacy(b"\x80\x02}X\x01\x00\x00\x00a" + tensor(of=storage(legacy=True)) + b"s."))
    return [folder / name for name in ("x.safetensors", "x.pt", "x.pth")]


@pytest.mark.parametrize("which", [0, 1, 2], ids=["safetensors", "zip", "old"])
def test_a_file_cut_anywhere_is_refused(which, tmp_path):
    path = whole_files(tmp_path)[which]
    whole = path.read_bytes()
    assert outcome(path)[0] == ""
    for cut in sorted({len(whole) * percent // 100 for percent in range(100)} | {len(whole) - 1}):
        path.write_bytes(whole[:cut])
        error, said = outcome(path)
        assert error == "ValueError" and "got" in said, (cut, error, said)


@pytest.mark.parametrize("which", [0, 1, 2], ids=["safetensors", "zip", "old"])
def test_a_file_with_a_byte_changed_is_read_or_refused(which, tmp_path):
    """No other error than ours, whatever byte is whatever else."""
    path = whole_files(tmp_path)[which]
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    interesting = [i for i in range(len(whole)) if whole[i] or i < 64] if which < 2 else list(range(len(whole)))
    for at in rng.permutation(interesting)[:400]:
        path.write_bytes(whole[:at] + bytes([(whole[at] + rng.integers(1, 256)) % 256]) + whole[at + 1 :])
        error, said = outcome(path)
        assert error in ("", "ValueError", "UnsafeFileError"), (at, error, said)


def test_harmless_things_that_look_odd(tmp_path):
    """Shared parts, a large memo, repeated elements: as torch writes them."""
    path = tmp_path / "x.pt"
    path.write_bytes(zipped(b"\x80\x02](" + tensor((3, 4), (0, 1)) + b"q\x00h\x00" + tensor((), (), 2) + b"e."))
    expanded, same, scalar = weights.load(path)
    assert expanded is same and expanded.shape == (3, 4) and expanded.strides == (0, 4) and scalar.shape == ()
