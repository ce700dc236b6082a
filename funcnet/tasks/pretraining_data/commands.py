"""The subcommands of `funcnet data`: their output and their exit codes."""

from __future__ import annotations

import dataclasses
import os
import shlex
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from funcnet.files import parse_json
from funcnet.settings import Range
from funcnet.tasks.pretraining_data.build import build
from funcnet.tasks.pretraining_data.data_report import draw_data_report
from funcnet.tasks.pretraining_data.data_settings import DataSettings
from funcnet.tasks.pretraining_data.google_examples import export_examples, import_examples
from funcnet.tasks.pretraining_data.progress import progress_bars
from funcnet.tasks.pretraining_data.reader import check_data
from funcnet.train import Interruption, Stopped

__all__ = ["BuildData", "build_data", "export_data", "import_data", "report_data"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class BuildData(DataSettings):
    """Build the data of pretraining runs from text of any size, for `funcnet pretrain --data`.

    The command writes into --out: shards of tokens and of sentence pairs, the vocabulary, a manifest and a report
    (report.txt, report.json, report.png). For 1 GB of text, the build needs 425 MB of memory with one process, 663 MB
    with two, and 895 MB with four. If the build was killed, run the same command again to continue. If the data are
    complete, the command checks all files and repairs damaged ones.

    Exit codes: 0 finished; 2 an error in the arguments, the text or the files, reported in one line; 130 stopped by
    Ctrl-C; 143 stopped by SIGTERM. To continue a stopped build, run the same command again.
    """

    out: Path
    """Folder to write the data to."""
    processes: Annotated[int, Range(1)] = os.cpu_count() or 1
    """Number of worker processes. The number does not change the data. The default is the number of CPU cores."""


def build_data(arguments: BuildData) -> int:
    """Run `funcnet data build`; return the exit code."""
    started, out = time.perf_counter(), arguments.out
    with Interruption() as stop, progress_bars(stop) as progress:
        try:
            repaired = build(out, arguments, processes=arguments.processes, progress=progress)
        except Stopped:
            print("Stopped; no work was lost. Run the same command again to continue.")
            return stop.exit_code
    if not (out / "report.png").exists() or repaired:
        draw_data_report(out / "report.png", parse_json(out / "report.json", "data build"))
    if repaired:
        print(f"Rebuilt files that were damaged or missing: {', '.join(repaired)}.")
    _print_end(out, f"in {time.perf_counter() - started:,.1f} s", arguments.seq_len[0])
    return 0


def report_data(directory: Path) -> int:
    """Run `funcnet data report`; return the exit code."""
    manifest = check_data(directory, every_byte=True)
    print((directory / "report.txt").read_text("utf-8").rstrip())
    lengths = " or ".join(map(str, manifest.settings["seq_len"]))
    print(f"Rows of {lengths} tokens; all files in the manifest are intact.")
    return 0


def export_data(directory: Path, out: Path, *, seq_len: int | None, seed: int, held_out: bool) -> int:
    """Run `funcnet data export`; return the exit code."""
    number = export_examples(directory, out, seq_len=seq_len, seed=seed, held_out=held_out)
    print(f"Written: {out}, {number:,} examples.")
    return 0


def import_data(files: Sequence[Path], out: Path, *, vocab: Path, held_out: Sequence[Path], cased: bool) -> int:
    """Run `funcnet data import`; return the exit code."""
    number = import_examples(files, out, vocab=vocab, held_out=held_out, cased=cased)
    report = parse_json(out / "report.json", "data import")
    draw_data_report(out / "report.png", report)
    _print_end(out, f"{number:,} training examples", int(next(iter(report["pairs"]))))
    return 0


def _print_end(out: Path, what: str, seq_len: int) -> None:
    print((out / "report.txt").read_text("utf-8"))
    print(f"Written: {out}, {what}. The report is in its files report.*.")
    print(f"Next: funcnet pretrain --data {shlex.quote(str(out))} --seq-len {seq_len} --out DIR")
