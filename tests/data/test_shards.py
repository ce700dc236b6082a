"""Shards: every format against the library that wrote it, the identical rest from every row, and flat memory."""

import itertools
import json
import multiprocessing
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from funcnet.data import DataLoader, write_columns, write_examples
from funcnet.data.shards import ShardDataset
from funcnet.data.shuffle_buffer import ShuffleBuffer
from funcnet.data.worker import WorkerInfo, WorkerThread

SIZES = [4, 0, 1, 7, 3]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Five shards of 4, 0, 1, 7 and 3 rows, in each format. Row r of shard s is 100 s + r."""
    folder = tmp_path_factory.mktemp("shards")
    for shard, size in enumerate(SIZES):
        rows = 100 * shard + np.arange(size)
        np.save(folder / f"{shard}.npy", rows)
        write_columns(folder / f"{shard}.arrow", {"row": rows, "wide": np.stack([rows, -rows], 1)})
        table = pa.table({"row": rows, "name": [str(row) for row in rows], "list": [[1.0] * (row % 3) for row in rows]})
        parquet.write_table(table, folder / f"{shard}.parquet", row_group_size=2)
        write_examples(folder / f"x.tfrecord-{shard}-of-5", [{"row": np.array([row])} for row in rows])
        (folder / f"{shard}.jsonl").write_text("".join(f'{{"row": {row}}}\n\n' for row in rows))
        (folder / f"{shard}.txt").write_text("".join(f"{row}\n" for row in rows))
    return folder


ROW = {
    "*.npy": int,
    "*.arrow": lambda item: int(item["row"]),
    "*.parquet": lambda item: int(item["row"]),
    "*.tfrecord-*": lambda item: int(item["row"][0]),
    "*.jsonl": lambda item: item["row"],
    "*.txt": int,
}
WHOLE = [100 * shard + row for shard, size in enumerate(SIZES) for row in range(size)]


@pytest.mark.parametrize("pattern", ROW)
def test_each_format_and_the_same_rest_from_every_row(pattern, folder):
    data = ShardDataset(folder.glob(pattern), shuffle=False)
    assert [ROW[pattern](item) for item in data] == WHOLE
    for stop in range(len(WHOLE) + 1):
        data.set_epoch(0)
        iterator = iter(data)
        assert [ROW[pattern](item) for item in itertools.islice(iterator, stop)] == WHOLE[:stop]
        other = ShardDataset(folder.glob(pattern), shuffle=False)
        other.load_state_dict(json.loads(json.dumps(data.state_dict())))
        assert [ROW[pattern](item) for item in other] == WHOLE[stop:]


def test_items(folder):
    (arrow, *_), (table, *_) = (list(ShardDataset([folder / f"3.{suffix}"])) for suffix in ("arrow", "parquet"))
    assert arrow["wide"].tolist() == [300, -300] and type(arrow["row"]) is np.int64
    assert table["name"] == "300" and table["list"].tolist() == [] and type(table["row"]) is np.int64
    rows = list(ShardDataset([folder / "3.npy"]))
    assert all(type(row) is np.int64 for row in rows)


@pytest.mark.parametrize("shape", [(5,), (5, 3), (5, 2, 2), (5, 0), (0, 3), (700, 1000), (3, 300_000)])
@pytest.mark.parametrize("dtype", ["<f4", ">i2", "?", "M8[s]", "U3", [("a", "i4"), ("b", "f8")]])
def test_npy_arrays_of_every_kind(shape, dtype, tmp_path, monkeypatch):
    monkeypatch.setattr("funcnet.data.shards.READ", 40)
    array = np.random.default_rng(0).integers(0, 2, shape).astype(np.int64).astype(dtype)
    np.save(tmp_path / "x.npy", array)
    data = ShardDataset([tmp_path / "x.npy"])
    rows = list(data)
    assert len(rows) == len(array) and all(row.dtype.kind == array.dtype.kind for row in rows)
    assert all(np.array_equal(row, expected) for row, expected in zip(rows, array, strict=True))
    assert all(row.base is None for row in rows if row.ndim), "an item does not keep its part of the file alive"


def test_rows_beyond_one_part_of_an_arrow_file(tmp_path, monkeypatch):
    monkeypatch.setattr("funcnet.data.shards.MAPPED", 1000)
    values = np.arange(3000).reshape(1000, 3)
    write_columns(tmp_path / "x.arrow", {"x": values})
    np.testing.assert_array_equal(np.stack([row["x"] for row in ShardDataset([tmp_path / "x.arrow"])]), values)


# -------------------------------------------------------------------------------------------------------------- order


@given(number=st.integers(1, 12), replicas=st.integers(1, 3), workers=st.integers(1, 3), epoch=st.integers(0, 3))
def test_readers_share_the_shards(number, replicas, workers, epoch):
    replicas = min(replicas, number)
    paths = [f"{shard:02}" for shard in range(number)]
    found = []
    for rank in range(replicas):
        data = ShardDataset(paths, read=lambda path: [path], seed=5, num_replicas=replicas, rank=rank)
        for worker in range(workers):
            data.set_epoch(epoch)
            found.append(in_worker(lambda data=data: list(data), worker, workers))
    assert sorted(itertools.chain.from_iterable(found)) == paths
    lengths = [len(part) for part in found]
    assert max(lengths) - min(lengths) <= 1
    alone = ShardDataset(paths, read=lambda path: [path], seed=5)
    assert [paths[place] for place in alone.order(epoch)] == [
        path for row in itertools.zip_longest(*by_position(found, replicas, workers)) for path in row if path
    ]


def by_position(found, replicas, workers):
    """The parts in the order of their first position: rank, then worker of the rank."""
    return [found[rank * workers + worker] for worker in range(workers) for rank in range(replicas)]


def in_worker(function, worker, workers):
    out = []
    thread = WorkerThread(target=lambda: out.append(function()))
    thread.worker_info = WorkerInfo(worker, workers, 0, None)
    thread.start()
    thread.join()
    return out[0]


def test_order_depends_on_seed_and_epoch_but_not_on_the_list():
    paths = [str(number) for number in range(50)]
    read = lambda path: [path]
    data = ShardDataset(paths, read=read)
    first, second = list(data), list(data)
    assert first != second and first != paths and sorted(first) == sorted(second) == sorted(paths)
    assert list(ShardDataset(paths[::-1], read=read)) == first
    assert list(ShardDataset(paths, read=read, seed=1)) != first


def test_a_state_is_of_its_shards_and_its_reader(folder, tmp_path):
    data = ShardDataset(folder.glob("*.npy"))
    next(iter(data))
    state = data.state_dict()
    for shard in range(5):
        shutil.copy(folder / f"{shard}.npy", tmp_path)
    moved = ShardDataset(tmp_path.glob("*.npy"))
    moved.load_state_dict(state)
    assert len(list(moved)) == 14, "the folder may move"
    for other in (
        ShardDataset([folder / f"{shard}.npy" for shard in range(4)]),
        ShardDataset(folder.glob("*.txt")),
        ShardDataset(folder.glob("*.npy"), seed=1),
        ShardDataset(folder.glob("*.npy"), shuffle=False),
    ):
        with pytest.raises(ValueError, match=r"is from different shards; expected .*'number': .* got .*'number': 5"):
            other.load_state_dict(state)
    half = ShardDataset(folder.glob("*.npy"), num_replicas=2, rank=1)
    half.load_state_dict(state)
    with pytest.raises(ValueError, match=r"from a different reader; expected reader 1 of 2 .*, got 0 of 1"):
        next(iter(half))


def test_a_reader_of_ones_own(folder):
    def read(path):
        if path.endswith("3.txt"):
            raise OSError("no network")
        yield from map(int, Path(path).read_text().split())

    data = ShardDataset(folder.glob("*.txt"), read=read, shuffle=False)
    iterator = iter(data)
    assert [next(iterator) for _ in range(5)] == WHOLE[:5]
    with pytest.raises(OSError, match="no network") as caught:
        next(iterator)
    assert "3.txt" in caught.value.__notes__[0]


# ------------------------------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize("pattern", ["3.npy", "3.arrow", "3.parquet", "x.tfrecord-3-of-5"])
@pytest.mark.parametrize("damage", ["truncated", "empty", "noise"])
def test_a_damaged_shard_is_named(pattern, damage, folder, tmp_path):
    data = (folder / pattern).read_bytes()
    file = tmp_path / pattern
    file.write_bytes({"truncated": data[:-9], "empty": b"", "noise": bytes(range(256)) * 9}[damage])
    shards = ShardDataset([file])
    if damage == "empty" and "tfrecord" in pattern:
        assert list(shards) == [], "an empty file has no records"
        return
    with pytest.raises(ValueError, match=r"ShardDataset: .*3.* is damaged; expected .*, got '") as caught:
        list(shards)
    assert str(file) in str(caught.value)


def test_other_damage(tmp_path):
    def message(name, data):
        (tmp_path / name).write_bytes(data)
        with pytest.raises(ValueError, match=r"is damaged; expected") as caught:
            list(ShardDataset([tmp_path / name]))
        assert str(tmp_path / name) in str(caught.value)
        return str(caught.value)

    assert "line 3: " in message("x.jsonl", b'{"a": 1}\n\n{"a": \n')
    assert "utf-8" in message("x.txt", b"fine\n\xff\xfe\n")
    np.save(tmp_path / "f.npy", np.asfortranarray(np.ones((2, 3))))
    assert "Fortran" in message("f.npy", (tmp_path / "f.npy").read_bytes())
    np.save(tmp_path / "o.npy", np.array([None, "x"]), allow_pickle=True)
    assert "Python objects" in message("o.npy", (tmp_path / "o.npy").read_bytes())


@pytest.mark.parametrize("names", ["aa", "aba", "abb", ["", ""], ["label", "x", "label"]])
def test_columns_of_one_name_are_refused(names, tmp_path):
    """The first of them was dropped."""
    table = pa.table([[1, 2]] * len(names), [*names])
    parquet.write_table(table, tmp_path / "x.parquet")
    twice = next(name for name in names if [*names].count(name) == 2)
    for dataset in (ShardDataset([tmp_path / "x.parquet"]), table):
        with pytest.raises(ValueError, match=rf"same name; expected different names, got 2 .* the names \['{twice}'\]"):
            list(DataLoader(dataset, 2))


def test_wrong_arguments(folder, tmp_path):
    with pytest.raises(TypeError, match="paths is a single path; expected a list of paths"):
        ShardDataset(str(folder / "1.npy"))
    with pytest.raises(ValueError, match="too few shards; expected at least one per replica \\(1\\), got 0"):
        ShardDataset([])
    with pytest.raises(ValueError, match="too few shards; expected at least one per replica \\(2\\), got 1"):
        ShardDataset(["1.npy"], num_replicas=2)
    with pytest.raises(ValueError, match="got rank 2 of 2"):
        ShardDataset(["1.npy", "2.npy"], num_replicas=2, rank=2)
    with pytest.raises(ValueError, match=r"got '1\.npy' twice"):
        ShardDataset(["1.npy", "2.npy", "1.npy"])
    with pytest.raises(ValueError, match=r"x\.bin has an unknown suffix; expected \.npy, .* got '\.bin'"):
        ShardDataset(["x.bin"])
    for suffix in ("npy", "arrow", "parquet", "tfrecord", "jsonl", "txt"):
        with pytest.raises(FileNotFoundError, match=f"no.{suffix}"):
            list(ShardDataset([tmp_path / f"no.{suffix}"]))


# ------------------------------------------------------------------------------------------------------------- memory

MEASURE = """
import sys
from pathlib import Path
from funcnet.data.shards import ShardDataset
from funcnet.data.shuffle_buffer import ShuffleBuffer

def peak():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024

data = ShuffleBuffer(ShardDataset(Path(sys.argv[1]).iterdir()), 16)
before = peak()
rows = sum(1 for _ in data)
print(rows, peak() - before)
"""


def rows_and_growth(folder):
    """Read all rows in a new process. Return their number and the growth of the peak of resident memory, in MB."""
    done = subprocess.run([sys.executable, "-c", MEASURE, folder], capture_output=True, text=True, check=True)
    rows, growth = done.stdout.split()
    return int(rows), float(growth)


def write_sparse(folder, files, rows, row_bytes):
    for number in range(files):
        with open(folder / f"{number}.npy", "wb") as file:
            header = {"descr": "|u1", "fortran_order": False, "shape": (rows, row_bytes)}
            np.lib.format.write_array_header_1_0(file, header)
            file.truncate(file.tell() + rows * row_bytes)


linux = pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="reads /proc")


@pytest.mark.slow
@linux
def test_memory_is_flat(tmp_path):
    """512 MB through a buffer of 16 MB."""
    write_sparse(tmp_path, 2, 256, 2**20)
    rows, growth = rows_and_growth(tmp_path)
    assert rows == 512 and growth < 100


@pytest.mark.slow
@linux
def test_memory_of_a_mapped_file_is_flat(tmp_path):
    """240 MB in one Arrow file, of which 8 MB are mapped at a time."""
    writer = multiprocessing.get_context("spawn").Process(target=write_wide, args=(tmp_path / "x.arrow",))
    writer.start()
    writer.join()
    rows, growth = rows_and_growth(tmp_path)
    assert rows == 30_000 and growth < 100


def write_wide(path):
    write_columns(path, {"x": np.zeros((30_000, 1000), np.int64)})


@linux
@pytest.mark.slow
def test_memory_of_20_gigabytes_is_flat(tmp_path):
    """20 names of one file of 1 GB, which has no blocks on the disk."""
    write_sparse(tmp_path, 1, 1024, 2**20)
    for number in range(1, 20):
        os.link(tmp_path / "0.npy", tmp_path / f"{number}.npy")
    rows, growth = rows_and_growth(tmp_path)
    assert rows == 20 * 1024 and growth < 100


def test_shuffled_shards_resume(folder):
    def data():
        return ShuffleBuffer(ShardDataset(folder.glob("*.txt"), seed=2), 4, seed=3)

    whole = list(data())
    assert sorted(map(int, whole)) == WHOLE
    for stop in range(len(whole) + 1):
        first, second = data(), data()
        assert list(itertools.islice(first, stop)) == whole[:stop]
        second.load_state_dict(json.loads(json.dumps(first.state_dict())))
        assert list(second) == whole[stop:]


def test_an_array_is_opened_again_if_the_parser_of_cpython_fails(folder, monkeypatch):
    """The error of CPython 3.11 needs two threads and garbage collection at one moment, so it is imitated."""
    load, calls = np.load, itertools.count(1)

    def fails_at_first(*args, **kwargs):
        if next(calls) % 3:
            raise SystemError("AST constructor recursion depth mismatch (before=60, after=56)")
        return load(*args, **kwargs)

    monkeypatch.setattr(np, "load", fails_at_first)
    assert [int(row) for row in ShardDataset(folder.glob("*.npy"), shuffle=False)] == WHOLE
    monkeypatch.setattr(np, "load", lambda *args, **kwargs: load(1 / 0))
    with pytest.raises(ZeroDivisionError):
        list(ShardDataset(folder.glob("*.npy")))


def test_threads_have_their_own_shards(folder):
    data = ShardDataset(folder.glob("*.npy"), shuffle=False)
    assert [int(row) for row in in_worker(lambda: list(data), 1, 2)] == [300 + row for row in range(7)]
