"""`funcnet data …` as a person uses it."""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Sequence
from pathlib import Path

from funcnet.tasks.pretraining_data.build import build
from funcnet.tasks.pretraining_data.export import export_examples
from funcnet.tasks.pretraining_data.google_examples import import_examples
from funcnet.tasks.pretraining_data.progress import Stopped, progress_bars
from funcnet.tasks.pretraining_data.reader import check_data
from funcnet.tasks.pretraining_data.report import draw
from funcnet.tasks.pretraining_data.settings import BuildData
from funcnet.train.interruption import Interruption

__all__ = ["build_data", "export_data", "import_data", "report_data"]


def build_data(arguments: BuildData) -> int:
    """Runs `funcnet data build`; the exit code.

    Raises:
        OSError, ValueError: see `build`.
    """
    started, out = time.perf_counter(), arguments.out
    with Interruption() as stop, progress_bars(stop) as progress:
        try:
            made_again = build(out, arguments, processes=arguments.processes, progress=progress)
        except Stopped:
            print("Stopped: nothing was lost. Go on with the same command.")
            return stop.exit_code
    if not (out / "report.png").exists() or made_again:
        draw(out / "report.png", json.loads((out / "report.json").read_text("utf-8")))
    if made_again:
        print(f"Damaged or missing, and made again: {', '.join(made_again)}.")
    print((out / "report.txt").read_text("utf-8"))
    print(f"Written: {out}, in {time.perf_counter() - started:,.1f} s. The report with its picture: report.*")
    print(f"Go on with: funcnet pretrain --data {shlex.quote(str(out))} --seq-len {arguments.seq_len[0]} --out DIR")
    return 0


def report_data(directory: Path) -> int:
    """Runs `funcnet data report`; the exit code.

    Raises:
        OSError, ValueError: see `open_data`.
    """
    told = check_data(directory, every_byte=True)
    print((directory / "report.txt").read_text("utf-8").rstrip())
    lengths = " or ".join(map(str, told["settings"]["seq_len"]))
    print(f"Rows of {lengths} tokens; every file that the manifest names is as it was written.")
    return 0


def export_data(directory: Path, out: Path, *, seq_len: int | None, seed: int, held_out: bool) -> int:
    """Runs `funcnet data export`; the exit code.

    Raises:
        OSError, ValueError: see `export_examples`.
    """
    number = export_examples(directory, out, seq_len=seq_len, seed=seed, held_out=held_out)
    print(f"Written: {out}, {number:,} examples.")
    return 0


def import_data(files: Sequence[Path], out: Path, *, vocab: Path, held_out: Sequence[Path], cased: bool) -> int:
    """Runs `funcnet data import`; the exit code.

    Raises:
        OSError, ValueError: see `import_examples`.
    """
    number = import_examples(files, out, vocab=vocab, held_out=held_out, cased=cased)
    draw(out / "report.png", json.loads((out / "report.json").read_text("utf-8")))
    print((out / "report.txt").read_text("utf-8"))
    seq_len = json.loads((out / "manifest.json").read_text("utf-8"))["settings"]["seq_len"][0]
    print(f"Written: {out}, {number:,} examples to train on. The report with its picture: report.*")
    print(f"Go on with: funcnet pretrain --data {shlex.quote(str(out))} --seq-len {seq_len} --out DIR")
    return 0
