"""Each row of an iterable dataset is read once with any number of workers. The oracle is a pass without workers."""

import itertools
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import datasets
import numpy as np
import pytest
import torch.utils.data
from datasets.distributed import split_dataset_by_node
from torch.utils.data import get_worker_info as ask_torch

from funcnet import data
from funcnet.data.sharing import own_copy
from tests.data.streams import Around, Asking, Counting, Silent

ROOT = Path(__file__).parents[2]


def even(row):
    return row["x"] % 2 == 0


def doubled(row):
    return {"x": 2 * row["x"]}


def generated(parts):
    for part in parts:
        yield from ({"x": 10 * part + number} for number in range(part))


def rows(count, shards, start=0):
    table = datasets.Dataset.from_dict({"x": list(range(start, start + count))})
    return table.to_iterable_dataset(num_shards=shards)


class Wrapped(torch.utils.data.IterableDataset):
    """A dataset of torch that reads one of Hugging Face."""

    def __init__(self, inner):
        self.inner = inner

    def __iter__(self):
        for row in self.inner:
            yield {"x": row["x"] + 1}


HUGGING_FACE = {
    "shards": lambda: rows(20, 4),
    "one shard": lambda: rows(20, 1),
    "map": lambda: rows(20, 4).map(doubled),
    "filter": lambda: rows(20, 4).filter(even),
    "shuffle": lambda: rows(20, 4).shuffle(seed=1, buffer_size=5),
    "numpy": lambda: rows(20, 4).with_format("numpy"),
    "generator": lambda: datasets.IterableDataset.from_generator(generated, gen_kwargs={"parts": [3, 1, 4, 5]}),
    "column": lambda: rows(20, 4)["x"],
    "concatenated": lambda: datasets.concatenate_datasets([rows(20, 4), rows(9, 3, 100)]),
    "interleaved": lambda: datasets.interleave_datasets(
        [rows(20, 4), rows(9, 3, 100)], stopping_strategy="all_exhausted_without_replacement"
    ),
    "of one node": lambda: split_dataset_by_node(rows(20, 4), 1, 2),
    "wrapped": lambda: Wrapped(rows(20, 4)),
    "buffer": lambda: data.ShuffleBuffer(rows(20, 4), 6),
    "mixture": lambda: data.MixedIterableDataset([rows(20, 2)], [1], stopping_strategy="first_exhausted"),
    "chain": lambda: data.ChainDataset([Wrapped(rows(20, 4)), Wrapped(rows(5, 1, 50))]),
}


def values(batch):
    return np.ravel(batch["x"] if isinstance(batch, dict) else batch).tolist()


def read(dataset, **options):
    return sorted(itertools.chain.from_iterable(map(values, data.DataLoader(dataset, 3, **options))))


@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize("name", HUGGING_FACE)
def test_workers_together_read_each_row_of_hugging_face_once(name, workers):
    """Also in later epochs, for which Hugging Face draws another order of the shards, or raises an error."""
    loader = data.DataLoader(HUGGING_FACE[name](), 3, num_workers=workers, persistent_workers=True)
    epochs = [sorted(itertools.chain.from_iterable(map(values, loader))) for _ in range(2)]
    assert epochs == [read(HUGGING_FACE[name]())] * 2


@pytest.mark.slow
@pytest.mark.parametrize("name", HUGGING_FACE)
def test_so_do_processes(name):
    found = read(HUGGING_FACE[name](), num_workers=2, multiprocessing_context="spawn")
    assert found == read(HUGGING_FACE[name]())


WITHOUT_TORCH = """
import datasets
from tests.data.test_sharing import HUGGING_FACE, read, rows, split_dataset_by_node
for workers in (2, 5):
    for name in HUGGING_FACE.keys() - {"wrapped", "chain", "of one node"}:
        assert read(HUGGING_FACE[name]()) == read(HUGGING_FACE[name](), num_workers=workers), name
    nodes = [read(split_dataset_by_node(rows(20, 4), node, 2), num_workers=workers) for node in range(2)]
    assert sorted(sum(nodes, [])) == list(range(20))
print([base.__module__ for base in datasets.IterableDataset.__mro__])
"""


@pytest.mark.slow
def test_so_it_is_without_torch():
    """`USE_TORCH=0` is what `datasets` sees where torch is not installed."""
    environment = {**os.environ, "USE_TORCH": "0", "USE_JAX": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", WITHOUT_TORCH], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "torch" not in done.stdout


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("name", ["shards", "shuffle", "numpy", "generator", "concatenated"])
@pytest.mark.parametrize("epoch", [0, 1])
def test_a_saved_position_of_hugging_face_loses_no_row(name, workers, epoch):
    make = lambda: data.DataLoader(HUGGING_FACE[name](), 3, num_workers=workers)
    whole = read(HUGGING_FACE[name]())
    for stop in range(len(list(make())) + 1):
        loader, again = make(), make()
        for _ in range(epoch):
            list(loader)
        first = [value for batch in itertools.islice(loader, stop) for value in values(batch)]
        state = json.loads(json.dumps(loader.state_dict()))
        assert state["resumes"] == ("skipping" if name in ("shuffle", "concatenated") else "state")
        again.load_state_dict(state)
        assert sorted(first + [value for batch in again for value in values(batch)]) == whole


@pytest.mark.parametrize("workers", [0, pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "make",
    [
        lambda: rows(20, 4).take(14),
        lambda: rows(20, 4).skip(3).map(doubled),
        lambda: rows(20, 4).shuffle(seed=1, buffer_size=5).take(14),
    ],
)
def test_take_and_skip_give_torchs_rows_in_every_epoch(make, workers):
    """With workers, Hugging Face takes and skips in each shard."""
    loader = data.DataLoader(make(), 3, num_workers=workers)
    theirs = torch.utils.data.DataLoader(
        make(), 3, num_workers=workers, multiprocessing_context="spawn" if workers else None
    )
    expected = [value for batch in theirs for value in batch["x"].tolist()]
    for _ in range(2):
        assert [value for batch in loader for value in values(batch)] == expected


@pytest.mark.parametrize("name", ["shards", "interleaved", "map"])
def test_an_unshuffled_dataset_of_hugging_face_has_the_same_order_in_every_epoch(name):
    """As in torch's loader, which does not call `set_epoch`."""
    loader = data.DataLoader(HUGGING_FACE[name](), 3)
    assert len({str([values(batch) for batch in loader]) for _ in range(3)}) == 1


class Listed(data.IterableDataset, Sequence):
    """An iterable dataset that is a sequence too, and yields the share of its worker."""

    def __len__(self):
        return 9

    def __getitem__(self, index):
        return index

    def __iter__(self):
        info = data.get_worker_info()
        yield from range(9) if info is None else range(info.id, 9, info.num_workers)


@pytest.mark.parametrize("around", [lambda items: items, lambda items: data.ShuffleBuffer(items, 2)])
def test_a_dataset_that_divides_itself_is_not_divided_twice(around):
    assert read(around(Listed()), num_workers=2) == list(range(9))


class Items(torch.utils.data.Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, index):
        ours, theirs = data.get_worker_info(), ask_torch()  # the name was imported before the loader was made
        assert isinstance(theirs, torch.utils.data._utils.worker.WorkerInfo)
        assert theirs.dataset is ours.dataset is self and theirs.seed == ours.seed
        return theirs.id, theirs.num_workers


def test_torch_answers_as_we_do():
    assert [[a.tolist(), b.tolist()] for a, b in data.DataLoader(Items(), 2, num_workers=2)] == [
        [[0, 0], [2, 2]],
        [[1, 1], [2, 2]],
    ]
    assert ask_torch() is None and data.get_worker_info() is None


class Asks(torch.utils.data.IterableDataset):
    def __iter__(self):
        return iter(range(ask_torch().id, 6, ask_torch().num_workers))


@pytest.mark.slow
def test_torchs_own_loader_is_as_before():
    assert sorted(data.DataLoader(Asks(), None, num_workers=2)) == list(range(6))
    theirs = torch.utils.data.DataLoader(Asks(), None, num_workers=2, multiprocessing_context="spawn")
    assert sorted(theirs) == list(range(6))


@pytest.mark.slow
@pytest.mark.parametrize("context", [None, pytest.param("spawn", marks=pytest.mark.slow)])
def test_torch_may_be_imported_while_a_worker_reads(context):
    code = (
        "import sys; from funcnet.data import DataLoader; from tests.data.streams import AskingTorch\n"
        "if __name__ == '__main__':\n"
        f"    loader = DataLoader(AskingTorch(7), 2, num_workers=2, multiprocessing_context={context!r})\n"
        "    passage = iter(loader); assert 'torch' not in sys.modules or loader.multiprocessing_context is None\n"
        "    assert sorted(x for batch in passage for x in batch.tolist()) == list(range(7))\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr[-3000:]


class Lines:
    """An iterable of no base class, which cannot know its worker."""

    def __iter__(self):
        return iter("abcdef")


class SilentOfTorch(torch.utils.data.IterableDataset):
    def __iter__(self):
        return iter(range(6))


SILENT = {
    "of funcnet": lambda: Silent(6),
    "of torch": SilentOfTorch,
    "without a base": Lines,
    "datapipe": lambda: torch.utils.data.datapipes.iter.IterableWrapper(range(6)).sharding_filter(),
    "in a buffer": lambda: data.ShuffleBuffer(Lines(), 2),
    "in a mixture": lambda: data.MixedIterableDataset([Asking(6), Silent(6)], [1, 1]),
    "in a chain": lambda: data.ChainDataset([Asking(2), Silent(6)]),
}


@pytest.mark.parametrize("context", [None, pytest.param("spawn", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", SILENT)
def test_what_does_not_ask_is_refused_with_several_workers(name, context):
    with pytest.raises(TypeError, match=r"cannot be divided among workers; expected an iterable dataset that calls"):
        list(data.DataLoader(SILENT[name](), 1, num_workers=2, multiprocessing_context=context))


@pytest.mark.parametrize("name", sorted(SILENT.keys() - {"in a mixture"}))
def test_it_is_read_with_one_worker_and_with_a_worker_init_fn(name):
    whole = list(data.DataLoader(SILENT[name](), None))
    assert list(data.DataLoader(SILENT[name](), None, num_workers=1)) == whole and len(whole) >= 6
    both = list(data.DataLoader(SILENT[name](), None, num_workers=2, worker_init_fn=abs))
    assert len(both) == (2 * len(whole) if name != "in a chain" else 2 * len(whole) - 2)  # as in torch


@pytest.mark.parametrize(
    "collection",
    [range(7), [3, 1, 4, 1, 5], {"a": 1, "b": 2, "c": 3}.items(), {0: 1, 1: 2}.values(), np.arange(4)],
    ids=repr,
)
@pytest.mark.parametrize("around", [lambda items: items, lambda items: data.ShuffleBuffer(items, 2)])
def test_collections_are_divided(collection, around):
    dataset = around(collection)
    if dataset is collection and hasattr(collection, "__getitem__"):
        dataset = data.MixedIterableDataset([collection], [1], stopping_strategy="first_exhausted")
    found = list(data.DataLoader(dataset, None, num_workers=3))
    assert sorted(map(str, found)) == sorted(str(data.default_convert(item)) for item in collection)


def test_a_worker_that_asked_once_may_remember_its_share():
    class Remembering(Asking):
        own = None

        def __iter__(self):
            if self.own is None:
                self.own = list(super().__iter__())
            yield from self.own

    loader = data.DataLoader(Remembering(7), 2, num_workers=2, persistent_workers=True)
    for _ in range(3):
        assert sorted(value for batch in loader for value in batch.tolist()) == list(range(7))


def test_threads_do_not_share_the_datasets_inside_a_dataset():
    inner = Counting(9)
    nested = Around([inner, {"a": inner}]), Around(Around(inner))
    assert own_copy(nested[0]).inner[0] is not inner and own_copy(nested[1]).inner.inner is not inner
    make = lambda: data.DataLoader(Around(Counting(20)), 3, num_workers=2)
    for stop in range(9):
        loader, again = make(), make()
        first = [value for batch in itertools.islice(loader, stop) for value in batch.tolist()]
        again.load_state_dict(loader.state_dict())
        assert sorted(first + [value for batch in again for value in batch.tolist()]) == list(range(20))
