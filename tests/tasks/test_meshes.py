"""Every task on a mesh of `data`, `fsdp` and `tensor`: none of them names a sharding, the losses are those of one
device, and a device stores the bytes that the printed table says. Fine-tuning by two processes.
"""

import re

import jax
import numpy as np
import pytest

from funcnet import train
from funcnet.files import read_json
from funcnet.tasks.images.task import ImageTask
from funcnet.train import trials
from tests.processes import FUNCNET, ROOT, joining, start, succeeded
from tests.tasks.command import metrics, run_here, write_corpus
from tests.tasks.images.small_network import small
from tests.tasks.small_bert import all_texts, write_model, write_task
from tests.tasks.test_lifecycle import arguments

MESH = "data=2,fsdp=2,tensor=2"


@pytest.fixture(autouse=True)
def small_network(monkeypatch, tmp_path):
    monkeypatch.setattr(ImageTask, "_network", small)  # rounding does not grow in its losses
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A corpus, and a small BERT to fine-tune, whose word table `tensor` divides."""
    folder = tmp_path_factory.mktemp("meshes")
    write_model(folder / "model", all_texts(), vocab_size=128)
    return folder, write_corpus(folder / "corpus")


@pytest.fixture
def stored(monkeypatch):
    """[bytes of the parameters on a device, bytes of all parameters] of each training that starts."""
    found = []

    def recording(step, state, *rest, **options):
        leaves = jax.tree.leaves(state.params)
        found.append([sum(leaf.addressable_shards[0].data.nbytes for leaf in leaves), sum(x.nbytes for x in leaves)])
        return original(step, state, *rest, **options)

    original = trials.train
    monkeypatch.setattr(trials, "train", recording)
    return found


def assert_sharded(stored, printed):
    (one, whole), (part, same) = stored
    assert one == whole == same
    table = re.search(r"^all .* ([\d,]+)$", printed, re.MULTILINE)
    assert table and int(table[1].replace(",", "")) == part < 0.7 * whole


def assert_same_losses(ours, theirs):
    for name in ("loss", "eval_loss"):
        a, b = ([row[name] for row in rows if name in row] for rows in (ours, theirs))
        assert len(a) == len(b) > 0
        np.testing.assert_allclose(a, b, rtol=1e-5, err_msg=name)


@pytest.mark.slow
@pytest.mark.parametrize("task", ["pretrain", "train-images", "classify", "tokens", "answer", "quantize"])
def test_every_command_on_a_mesh(task, data, tmp_path, stored, capsys):
    more = [] if task in ("classify", "tokens", "answer") else ["--evaluate-every", "3"]
    if task in ("classify", "tokens", "answer"):
        more = ["--log-every", "1"]
    arguments(task, data, tmp_path)  # may train a model to quantize
    stored.clear()
    for name, mesh in (("one", "data=1"), ("mesh", MESH)):
        assert run_here(*arguments(task, data, tmp_path / name, *more, "--mesh", mesh)) == 0
    assert_sharded(stored, capsys.readouterr().out)
    assert_same_losses(metrics(tmp_path / "mesh"), metrics(tmp_path / "one"))


def test_the_task_of_the_readme_on_a_mesh(tmp_path, stored, capsys):
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), re.DOTALL | re.MULTILINE)
    (code,) = [block for block in blocks if "class Circle(Task)" in block]
    names = {"__name__": "readme"}
    exec(code.replace('run_task(Circle, Settings(), where="circle")', ""), names)
    for name, mesh in (("one", "data=1"), ("mesh", MESH)):
        settings = names["Settings"](
            train.RunSettings(out=tmp_path / name),
            train.LoopSettings(batch_size=16, log_every=10),
            train.DeviceSettings(mesh=mesh),
        )
        assert train.run_task(names["Circle"], settings, where="circle") == 0
    assert_sharded(stored, capsys.readouterr().out)
    ours, theirs = ([row["loss"] for row in metrics(tmp_path / name)] for name in ("mesh", "one"))
    np.testing.assert_allclose(ours, theirs, rtol=1e-5)


def test_a_task_without_a_net_has_the_data_axis_alone():
    class Bare(train.Task):
        name = "bare"

    with pytest.raises(ValueError, match=r"the task 'bare' has no net .* a mesh with the axis data alone, .* got 8"):
        train.task.layout_for(Bare(), train.open_layout(train.DeviceSettings(mesh="data=4,tensor=2"), "here"))


@pytest.mark.slow
def test_fine_tuning_by_two_processes_gives_the_results_of_one(data, tmp_path):
    folder, _ = data
    file = write_task(tmp_path / "classify", "classify")
    tuning = ["finetune", "classify", "--model", folder / "model", "--train", file, "--test", file, "--seq-len", "32"]
    tuning += ["--batch-size", "8", "--epochs", "2", "--split", "0.2", "--dropout", "0.1", "--log-every", "1"]
    tuning += ["--mesh", "data=2"]
    succeeded(start([*FUNCNET, *tuning, "--out", tmp_path / "one"], tmp_path / "cache"))
    both = [start([*FUNCNET, *tuning, "--out", tmp_path / "two", *joined], tmp_path / "cache") for joined in joining(2)]
    succeeded(*both)
    assert metrics(tmp_path / "two") == metrics(tmp_path / "one")
    assert read_json(tmp_path / "two/eval.json") == read_json(tmp_path / "one/eval.json")
