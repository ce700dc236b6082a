"""Measure how many examples per second the loaders of funcnet, torch and Grain read, from nine kinds of data.

    python scripts/benchmarks/data_loading.py --out data_loading.md --picture data_loading.png

    python scripts/benchmarks/data_loading.py --only images "memory map" --turns 9

Each kind is read without workers and with two. All loaders have the same batch size and order. Without workers, each
reads in the calling thread. With two, funcnet has threads (its default) and spawned processes, torch has forked
processes (its default on Linux), and Grain has threads and processes. A loader keeps its workers from one pass to the
next. The first pass is not timed: it checks that all loaders deliver the same number of examples and the same sum.
Then the loaders run in turns, in one process, and each of them goes first in some of the turns. Each turn is one pass
over the data.

The table contains the median of the examples per second, and the ratio of funcnet to torch: the median and the
quartiles over the turns. With two workers, the ratio is that of the faster of threads and processes. A value above 1
means that funcnet is faster. Without workers, the last column is the ratio by CPU time, which depends less on other
work on the machine. Grain with processes runs after the others, because its processes continue reading between turns.
Grain is left out if it is not installed, and so are the kinds that need Hugging Face's `datasets`.
"""

import os

os.environ["OMP_NUM_THREADS"] = "1"

import argparse
import functools
import gc
import importlib.util
import itertools
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from funcnet.data import DataLoader, get_worker_info

Batches = Iterable[Any]
HAS_GRAIN = importlib.util.find_spec("grain") is not None
HAS_DATASETS = importlib.util.find_spec("datasets") is not None
CONTENDERS = (
    "funcnet",
    "funcnet, threads",
    "funcnet, processes",
    "torch",
    "Grain",
    "Grain, threads",
    "Grain, processes",
)
LAST = CONTENDERS[-1]


class Items:
    """Dicts of a small image and a label."""

    def __init__(self, count: int):
        random = np.random.default_rng(0)
        self.count, self.images = count, random.random((min(count, 2048), 3, 32, 32), np.float32)

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {"x": self.images[index % len(self.images)], "y": index}


class Images:
    """Photographs that Pillow decodes and resizes."""

    def __init__(self, paths: list[Path]):
        self.paths = paths

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> np.ndarray:
        from PIL import Image

        with Image.open(self.paths[index]) as image:
            return np.array(image.convert("RGB").resize((64, 64)))


class RowsOfTable:
    """The rows of an Arrow table, for loaders that read single items."""

    def __init__(self, table: Any):
        self.table = table

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def __getitem__(self, index: int) -> dict[str, Any]:
        ids, label = self.table.column("ids")[index], self.table.column("label")[index]
        return {"ids": ids.values.to_numpy(), "label": label.as_py()}


class Stream:
    """An iterable dataset of arrays. Each worker yields its share of them."""

    def __init__(self, rows: np.ndarray, worker_info: Callable[[], Any] = get_worker_info):
        self.rows, self.worker_info = rows, worker_info

    def __iter__(self) -> Iterator[np.ndarray]:
        info = self.worker_info()
        return iter(self.rows if info is None else self.rows[info.id :: info.num_workers])


@dataclass
class Kind:
    """A kind of data: the dataset for each loader, and how it is read. A kind with None is left out for Grain."""

    name: str
    ours: Any
    torch: Any
    grain: Any
    size: int = 256
    shuffle: bool = False
    reads_at_once: bool = False  # torch gets a batch's indices at once, by sampler=BatchSampler(...)


def random_rows(count: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 30_000, (max(count, 8), 128), np.int32)


def memory_maps(folder: Path, scale: float) -> Iterator[Kind]:
    np.save(folder / "rows.npy", random_rows(int(100_000 * scale)))
    rows = np.load(folder / "rows.npy", mmap_mode="r")
    plain = rows.view(np.ndarray)  # which torch and Grain read faster than a np.memmap
    yield Kind("memory map", rows, plain, plain)
    yield Kind("memory map, shuffled", rows, plain, plain, shuffle=True)
    yield Kind("memory map; torch reads a batch at once", rows, plain, None, shuffle=True, reads_at_once=True)


def lists(folder: Path, scale: float) -> Iterator[Kind]:
    rows = list(random_rows(int(50_000 * scale)))
    yield Kind("list of arrays", rows, rows, rows)


def items(folder: Path, scale: float) -> Iterator[Kind]:
    dicts = Items(max(8, int(10_000 * scale)))
    yield Kind("dicts of a (3, 32, 32) array and a number", dicts, dicts, dicts)


def images(folder: Path, scale: float) -> Iterator[Kind]:
    from PIL import Image

    random, paths = np.random.default_rng(0), []
    for number in range(max(8, int(512 * scale))):
        paths.append(folder / f"{number}.jpg")
        coarse = Image.fromarray(random.integers(0, 256, (32, 32, 3), np.uint8))
        coarse.resize((256, 256), Image.Resampling.BICUBIC).save(paths[-1], quality=90)
    yield Kind("JPEG images, decoded and resized", Images(paths), Images(paths), Images(paths), size=32)


def table_of(rows: np.ndarray) -> Any:
    import pyarrow as pa

    ids = pa.FixedSizeListArray.from_arrays(pa.array(rows.reshape(-1)), rows.shape[1])
    return pa.table({"ids": ids, "label": pa.array(np.arange(len(rows)))})


def tables(folder: Path, scale: float) -> Iterator[Kind]:
    table = table_of(random_rows(int(40_000 * scale)))
    yield Kind("Arrow table", table, RowsOfTable(table), RowsOfTable(table))


def hugging_face(folder: Path, scale: float) -> Iterator[Kind]:
    if not HAS_DATASETS:
        print("Hugging Face's datasets is not installed: pip install datasets")
        return
    import datasets

    rows = random_rows(int(10_000 * scale))
    made = datasets.Dataset.from_dict({"ids": rows, "label": np.arange(len(rows))})
    as_arrays = made.with_format("numpy")
    yield Kind("Hugging Face, format numpy, or torch for torch", as_arrays, made.with_format("torch"), as_arrays)
    some = made.select(range(len(rows) // 4))
    yield Kind("Hugging Face, without a format", some, some, None)


def streams(folder: Path, scale: float) -> Iterator[Kind]:
    import torch

    class TorchStream(Stream, torch.utils.data.IterableDataset):
        pass

    rows = random_rows(int(50_000 * scale))
    yield Kind("iterable dataset", Stream(rows), TorchStream(rows, torch.utils.data.get_worker_info), None)


def read_with_funcnet(kind: Kind, workers: int, context: str | None = None) -> Batches:
    return DataLoader(
        kind.ours, kind.size, shuffle=kind.shuffle or None, num_workers=workers, multiprocessing_context=context,
        persistent_workers=workers > 0,
    )  # fmt: skip


def read_with_torch(kind: Kind, workers: int) -> Batches:
    from torch.utils import data

    how: dict[str, Any] = {"batch_size": kind.size, "shuffle": kind.shuffle or None}
    if kind.reads_at_once:
        order = (data.RandomSampler if kind.shuffle else data.SequentialSampler)(kind.torch)
        how = {"batch_size": None, "sampler": data.BatchSampler(order, kind.size, drop_last=False)}
    return data.DataLoader(kind.torch, num_workers=workers, persistent_workers=workers > 0, **how)


def read_with_grain(kind: Kind, threads: int = 0, workers: int = 0) -> Batches:
    import grain
    from absl import flags

    flags.FLAGS([""])  # Grain's processes need parsed flags
    data = grain.MapDataset.source(kind.grain)
    data = data.shuffle(seed=0) if kind.shuffle else data
    data = data.batch(kind.size)
    options = grain.ReadOptions(num_threads=threads, prefetch_buffer_size=2 * threads)
    if not workers:
        return data.to_iter_dataset(options)  # type: ignore[no-any-return]
    endless = data.repeat().to_iter_dataset(options).mp_prefetch(grain.MultiprocessingOptions(workers))
    return Passes(iter(endless), len(data))


class Passes:
    """Passes of a number of batches over an endless iterator, because Grain cannot keep its processes otherwise."""

    def __init__(self, batches: Iterator[Any], count: int):
        self.batches, self.count = batches, count

    def __iter__(self) -> Iterator[Any]:
        return itertools.islice(self.batches, self.count)


def contenders(kind: Kind, workers: int) -> dict[str, Callable[[], Batches]]:
    """The loaders by their names, not yet opened. torch is first, so that it forks before others start threads."""
    found = {"torch": functools.partial(read_with_torch, kind, workers)}
    if not workers:
        found["funcnet"] = functools.partial(read_with_funcnet, kind, 0)
        grains = {"Grain": functools.partial(read_with_grain, kind)}
    else:
        found["funcnet, threads"] = functools.partial(read_with_funcnet, kind, workers)
        found["funcnet, processes"] = functools.partial(read_with_funcnet, kind, workers, "spawn")
        grains = {
            "Grain, threads": functools.partial(read_with_grain, kind, threads=workers),
            "Grain, processes": functools.partial(read_with_grain, kind, workers=workers),
        }
    return {**found, **(grains if HAS_GRAIN and kind.grain is not None else {})}


def last_leaf(batch: Any) -> Any:
    while isinstance(batch, dict):
        batch = list(batch.values())[-1]
    return batch


def summed(batches: Batches) -> tuple[int, float]:
    """(examples, sum of the first number of each) of one pass."""
    leaves = [np.asarray(last_leaf(batch)) for batch in batches]
    return sum(map(len, leaves)), float(sum(leaf.reshape(len(leaf), -1)[:, 0].sum(dtype=float) for leaf in leaves))


def seconds(batches: Batches) -> tuple[float, float]:
    """(wall, CPU) seconds of one pass. The CPU time is that of this process."""
    wall, cpu = time.perf_counter(), time.process_time()
    for _ in batches:
        pass
    return time.perf_counter() - wall, time.process_time() - cpu


@dataclass
class Row:
    """The measurements for one kind of data with one number of workers."""

    kind: str
    workers: int
    rates: dict[str, np.ndarray]  # examples per second, by contender and turn
    cpu: dict[str, np.ndarray]  # CPU seconds of this process, by contender and turn

    @property
    def best(self) -> str:
        return max((name for name in self.rates if name.startswith("funcnet")), key=lambda n: np.median(self.rates[n]))

    @property
    def ratio(self) -> tuple[float, float, float]:
        """(lower quartile, median, upper quartile) of funcnet over torch."""
        low, middle, high = np.percentile(self.rates[self.best] / self.rates["torch"], [25, 50, 75])
        return float(low), float(middle), float(high)

    def cells(self) -> list[str]:
        rates = [f"{np.median(self.rates[name]):,.0f}" if name in self.rates else "" for name in CONTENDERS]
        low, middle, high = self.ratio
        by_cpu = "" if self.workers else f"{np.median(self.cpu['torch'] / self.cpu['funcnet']):.2f}"
        return [self.kind, str(self.workers), *rates, f"{middle:.2f} ({low:.2f} to {high:.2f})", by_cpu]


def measure(kind: Kind, workers: int, turns: int) -> Row:
    opened = contenders(kind, workers)
    loaders = {name: open_it() for name, open_it in opened.items() if name != LAST}
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in opened}
    sums = {name: summed(loader) for name, loader in loaders.items()}
    for turn in range(turns):
        for name in sorted(loaders, reverse=turn % 2 == 1):
            times[name].append(seconds(loaders[name]))
    if LAST in opened:
        loader = opened[LAST]()
        sums[LAST] = summed(loader)
        for _ in range(turns):
            summed(loader)  # empties its buffers
            times[LAST].append(seconds(loader))
    if len(set(sums.values())) != 1:
        raise SystemExit(f"{kind.name}: the loaders deliver different data: {sums}")
    count = next(iter(sums.values()))[0]
    wall, cpu = ({name: np.array(taken)[:, clock] for name, taken in times.items()} for clock in (0, 1))
    return Row(kind.name, workers, {name: count / taken for name, taken in wall.items()}, cpu)


def table(rows: list[Row]) -> str:
    head = ["data", "workers", *CONTENDERS, "funcnet / torch", "by CPU time"]
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *(row.cells() for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def draw(rows: list[Row], path: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4 + 0.5 * len(rows)))
    for panel, workers in enumerate((0, 2)):
        axes = figure.add_subplot(2, 1, panel + 1)
        shown = [row for row in rows if row.workers == workers]
        names = [name for name in CONTENDERS if any(name in row.rates for row in shown)]
        for place, name in enumerate(names):
            here = np.arange(len(shown)) + (place - (len(names) - 1) / 2) * 0.8 / len(names)
            values = [np.median(row.rates[name]) if name in row.rates else np.nan for row in shown]
            color = "tab:" + {"f": "blue", "t": "orange", "G": "gray"}[name[0]]
            alpha = 0.55 if name.endswith("processes") else 1
            axes.barh(here, values, 0.8 / len(names), label=name, color=color, alpha=alpha)
        axes.set_yticks(np.arange(len(shown)), [row.kind for row in shown])
        axes.set(xscale="log", xlim=(100, None), title=f"{workers or 'no'} workers", xlabel="examples per second")
        axes.invert_yaxis()
        axes.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--scale", type=float, default=1.0, help="size of the data, relative to the usual one")
    parser.add_argument("--only", nargs="*", default=[""], help="kinds whose name contains one of these texts")
    parser.add_argument("--workers", type=int, nargs="*", default=[0, 2])
    parser.add_argument("--out", type=Path, help="file for the table, in Markdown")
    parser.add_argument("--picture", type=Path, help="file for a chart, PNG")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    import torch

    torch.set_num_threads(1)
    if not HAS_GRAIN:
        print("Grain is not installed: pip install grain")
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for make in (memory_maps, lists, items, images, tables, hugging_face, streams):
            for kind in make(Path(folder), arguments.scale):
                for workers in arguments.workers if any(text in kind.name for text in arguments.only) else ():
                    row = measure(kind, workers, arguments.turns)
                    gc.collect()  # ends the workers
                    rates = ", ".join(f"{name} {np.median(rate):,.0f}" for name, rate in row.rates.items())
                    print(f"{row.kind}, {workers} workers: {rates}; {row.cells()[-2]} with {row.best}", flush=True)
                    rows.append(row)
    print("", table(rows), sep="\n")
    if arguments.out:
        arguments.out.write_text(table(rows) + "\n", "utf-8")
    if arguments.picture:
        draw(rows, arguments.picture)


if __name__ == "__main__":
    main()
