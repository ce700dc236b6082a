"""Compare data loaders: examples per second of funcnet, torch and Grain, for seven kinds of data.

    OMP_NUM_THREADS=1 python scripts/benchmarks/data_loading.py --picture data_loading.png

Each row of the table is a kind of data with 0 or 2 workers. The loaders take turns in several rounds. A figure is the
median over the rounds of the examples per second of a pass, without the start of workers. The ratio is that of funcnet
to torch in the same round, with its quartiles. With 2 workers, funcnet uses threads or spawned processes; the table
shows both, and the ratio is that of the better one. torch forks, and Grain uses its own processes.

Needs the extra `test`.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grain.python as grain
import matplotlib.pyplot as plt
import numpy as np
import pyarrow as pa
import torch
from absl import flags
from PIL import Image

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import datasets

from funcnet import data

CONTENDERS = ("funcnet", "funcnet, processes", "torch", "Grain")
BATCH = 256


class Rows:
    """Items of an array, as torch users write it."""

    def __init__(self, array: Any):
        self.array = array

    def __len__(self) -> int:
        return len(self.array)

    def __getitem__(self, index: int) -> Any:
        return self.array[index]


class Pairs:
    """Items that are dicts."""

    def __init__(self, images: Any, labels: Any):
        self.images, self.labels = images, labels

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> Any:
        return {"image": self.images[index], "label": self.labels[index]}


class Pictures:
    """JPEG files, decoded and resized."""

    def __init__(self, files: list[str]):
        self.files = files

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> Any:
        with Image.open(self.files[index]) as image:
            return np.asarray(image.resize((64, 64)))


class TableRows:
    """Rows of an Arrow table, one at a time."""

    def __init__(self, table: pa.Table):
        self.table = table

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def __getitem__(self, index: int) -> Any:
        row = self.table.slice(index, 1)
        return {name: row.column(name).to_numpy()[0] for name in self.table.column_names}


class Stream(data.IterableDataset):
    """Yields the rows of an array; each worker yields its share."""

    def __init__(self, array: Any):
        self.array = array

    def __iter__(self) -> Iterator[Any]:
        info = data.get_worker_info()
        start, step = (0, 1) if info is None else (info.id, info.num_workers)
        return (self.array[index] for index in range(start, len(self.array), step))


class TorchStream(torch.utils.data.IterableDataset):
    """The same for torch."""

    def __init__(self, array: Any):
        self.array = array

    def __iter__(self) -> Iterator[Any]:
        info = torch.utils.data.get_worker_info()
        start, step = (0, 1) if info is None else (info.id, info.num_workers)
        return (self.array[index] for index in range(start, len(self.array), step))


def kinds(folder: Path, size: int) -> dict[str, tuple[Any, Any, Any]]:
    """{name: the dataset for (funcnet, torch, Grain)}; None where a loader cannot read it."""
    random = np.random.default_rng(0)
    tokens = np.lib.format.open_memmap(folder / "tokens.npy", "w+", np.int32, (size, 128))
    tokens[:] = random.integers(0, 30_000, (size, 128))
    mapped = np.load(folder / "tokens.npy", mmap_mode="r")
    rows = list(np.array(tokens[: size // 4]))
    small = size // 8
    pairs = Pairs(random.normal(size=(small, 3, 32, 32)).astype(np.float32), list(range(small)))
    files = []
    for number in range(max(40, size // 100)):
        files.append(str(folder / f"{number}.jpg"))
        Image.fromarray(random.integers(0, 255, (256, 256, 3), np.uint8)).save(files[-1])
    fixed = pa.FixedSizeListArray.from_arrays(pa.array(np.array(tokens[:small]).reshape(-1)), 128)
    table = pa.table({"tokens": fixed, "label": pa.array(np.arange(small))})
    plain = datasets.Dataset(table)
    numpy, tensors = plain.with_format("numpy"), plain.with_format("torch")
    stream = Rows(rows)
    return {
        "memory map": (mapped, Rows(mapped), Rows(mapped)),
        "list of arrays": (rows, rows, Rows(rows)),
        "dicts": (pairs, pairs, pairs),
        "images (Pillow)": (Pictures(files), Pictures(files), Pictures(files)),
        "Arrow table": (table, TableRows(table), TableRows(table)),
        "datasets": (numpy, tensors, numpy),
        "iterable": (Stream(rows), TorchStream(rows), stream),
    }


def loader(contender: str, dataset: Any, workers: int, batch: int) -> Any:
    """An iterable of batches."""
    options = {"num_workers": workers, "persistent_workers": workers > 0}
    if contender.startswith("funcnet"):
        context = "spawn" if "processes" in contender else None
        return data.DataLoader(dataset, batch, multiprocessing_context=context, **options)
    if contender == "torch":
        return torch.utils.data.DataLoader(dataset, batch, **options)
    threads = grain.ReadOptions(num_threads=0, prefetch_buffer_size=0)
    stream = grain.MapDataset.source(dataset).to_iter_dataset(threads).batch(batch)
    return stream.mp_prefetch(grain.MultiprocessingOptions(num_workers=workers)) if workers else stream


def rate(contender: str, batches: Any, workers: int) -> float:
    """Examples per second of a second pass; for Grain, whose workers start anew, after some batches."""
    if contender != "Grain":
        for _ in batches:
            pass
    passage = iter(batches)
    for _ in range(2 * workers + 1 if contender == "Grain" else 0):
        next(passage)
    began, seen = time.perf_counter(), 0
    for batch in passage:
        seen += count(batch)
    return seen / (time.perf_counter() - began)


def count(batch: Any) -> int:
    """The number of examples in a batch."""
    while isinstance(batch, dict | list | tuple):
        batch = next(iter(batch.values())) if isinstance(batch, dict) else batch[0]
    return len(batch)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=100_000, help="sequences in the memory map; other kinds have fewer")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="*", help="kinds of data to measure")
    parser.add_argument("--picture", type=Path, help="write a picture to this file")
    options = parser.parse_args()
    table: dict[str, dict[str, float]] = {}
    flags.FLAGS(sys.argv[:1])  # Grain's processes read absl's flags
    print(f"| data | workers | {' | '.join(CONTENDERS)} | funcnet / torch |\n|{'---|' * 7}")
    with tempfile.TemporaryDirectory() as folder:
        for name, (ours, theirs, grains) in kinds(Path(folder), options.size).items():
            if options.only and name not in options.only:
                continue
            batch = min(32 if "images" in name else BATCH, options.size // 100)
            by = {"funcnet": ours, "funcnet, processes": ours, "torch": theirs, "Grain": grains}
            for workers in (0, 2):
                rates: dict[str, list[float]] = {one: [] for one in CONTENDERS}
                for turn in range(options.rounds):
                    for one in CONTENDERS[turn % 4 :] + CONTENDERS[: turn % 4]:
                        if workers or "processes" not in one:
                            rates[one].append(rate(one, loader(one, by[one], workers, batch), workers))
                table[f"{name}, {workers}"] = {one: float(np.median(seen or [np.nan])) for one, seen in rates.items()}
                print(line(name, workers, rates), flush=True)
    if options.picture:
        draw(table, options.picture)


def line(name: str, workers: int, rates: dict[str, list[float]]) -> str:
    """A row of the table."""
    ours = max(rates["funcnet"], rates["funcnet, processes"] or [0.0], key=np.median)
    low, middle, high = np.percentile(np.array(ours) / np.array(rates["torch"]), [25, 50, 75])
    figures = " | ".join(f"{np.median(seen):,.0f}" if seen else "" for seen in rates.values())
    return f"| {name} | {workers} | {figures} | {middle:.2f} ({low:.2f} to {high:.2f}) |"


def draw(table: dict[str, dict[str, float]], path: Path) -> None:
    """Draw the rates as bars, on a logarithmic axis."""
    figure, axis = plt.subplots(figsize=(9, 0.55 * len(table) + 1.5), layout="constrained")
    for place, one in enumerate(CONTENDERS):
        heights = [rates[one] for rates in table.values()]
        axis.barh(np.arange(len(table)) + 0.2 * place - 0.3, heights, 0.2, label=one)
    axis.set(yticks=range(len(table)), yticklabels=list(table), xscale="log", xlabel="examples per second")
    axis.invert_yaxis()
    axis.legend(loc="lower right")
    axis.set_title("Data loading: kind of data, number of workers", loc="left")
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
