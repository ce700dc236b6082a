"""Every task on a mesh of `data`, `fsdp` and `tensor`: none of them names a sharding, the losses are those of one
device, and a device stores the bytes that the printed table says. By two processes, each reads its own rows.
"""

import re
import sys

import jax
import numpy as np
import pytest

from funcnet import train
from funcnet.files import read_json
from funcnet.tasks.images.task import ImageTask
from funcnet.train import trials
from tests.processes import ROOT, joining, start, succeeded
from tests.tasks.command import metrics, run_here, write_corpus
from tests.tasks.images.small_network import small
from tests.tasks.small_bert import all_texts, write_model
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


@pytest.mark.slow
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
        train.task_interface.layout_for(Bare(), train.open_layout(train.DeviceSettings(mesh="data=4,tensor=2"), "here"))


# Counts the rows that a command reads: of datasets, and of the texts that fine-tuning pads.
COUNTING = """
import sys
from funcnet.cli import main
from funcnet.data import fetch
from funcnet.heads import buckets
from funcnet.tasks.finetuning import batches, rows
from funcnet.tasks.images.task import ImageTask
from tests.tasks.images.small_network import small

ImageTask._network = small
read = [0, 0]  # in training, in evaluations

def count(kind, name, rows):
    whole = getattr(kind, name)
    def counted(*arguments):
        place, number = rows(*arguments)
        read[place] += number
        return whole(*arguments)
    setattr(kind, name, counted)

def of_dataset(self, items, indices):
    is_padded = isinstance(items, batches.PaddedRows)  # it has all indices, and reads some of them
    return int(self.is_held_out), 0 if is_padded else len(indices)

begin = fetch.MapFetcher.__init__
def started(self, dataset, *rest, **named):
    begin(self, dataset, *rest, **named)
    sizes.append(len(dataset))
    self.is_held_out = len(dataset) < max(sizes)

sizes = [0]
fetch.MapFetcher.__init__ = started
count(fetch.MapFetcher, "_batch", of_dataset)
count(rows.Rows, "fill", lambda self, chosen, *rest: (0, len(chosen)))
count(buckets, "pad", lambda chosen, *rest: (1, len(chosen)))
try:
    main()
finally:
    print("rows read:", *read, file=sys.stderr)
"""


def rows_read(output):
    return np.array(re.search(r"^rows read: (\d+) (\d+)$", output, re.MULTILINE).groups(), int)


@pytest.mark.slow
@pytest.mark.parametrize("task", ["pretrain", "train-images", "classify"])
def test_two_processes_have_the_bits_of_one_and_each_reads_half_of_the_rows(task, data, tmp_path):
    more = ["--log-every", "1", "--mesh", "data=2"]
    command = [sys.executable, "-c", COUNTING]
    run = lambda name, *join: start(
        [*command, *arguments(task, data, tmp_path / name, *more), *join], tmp_path / "cache"
    )
    (alone,) = map(rows_read, succeeded(run("one")))
    both = [*map(rows_read, succeeded(*(run("two", *join) for join in joining(2))))]
    ahead = 4 * 8  # rows of batches that are read ahead, when the run ends
    more_rows = sum(both) - alone
    assert abs(more_rows[0]) <= ahead and alone[1] > 0
    assert 0 <= more_rows[1] <= 32  # the examples of a report, and one row of a last batch of which there is none
    assert all(abs(own - alone / 2).max() <= ahead for own in both)
    assert metrics(tmp_path / "two") == metrics(tmp_path / "one")
    assert read_json(tmp_path / "two/eval.json") == read_json(tmp_path / "one/eval.json")
