"""`funcnet data` and its subcommands: their settings, their output and their exit codes."""

from __future__ import annotations

import dataclasses
import os
import shlex
import time
from pathlib import Path
from typing import Annotated

import tyro

from funcnet.files import parse_json
from funcnet.settings import Range, with_helps
from funcnet.tasks.pretraining_data.build import build
from funcnet.tasks.pretraining_data.data_report import draw_data_report
from funcnet.tasks.pretraining_data.data_settings import DataSettings
from funcnet.tasks.pretraining_data.google_examples import export_examples, import_examples
from funcnet.tasks.pretraining_data.progress import progress_bars
from funcnet.tasks.pretraining_data.reader import check_data
from funcnet.train import Interruption, Stopped

__all__ = ["BuildData", "Data", "ExportData", "ImportData", "ReportData"]


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

    def run(self) -> int:
        """Run `funcnet data build`; return the exit code."""
        started, out = time.perf_counter(), self.out
        with Interruption() as stop, progress_bars(stop) as progress:
            try:
                repaired = build(out, self, processes=self.processes, progress=progress)
            except Stopped:
                print("Stopped; no work was lost. Run the same command again to continue.")
                return stop.exit_code
        if not (out / "report.png").exists() or repaired:
            draw_data_report(out / "report.png", parse_json(out / "report.json", "data build"))
        if repaired:
            print(f"Rebuilt files that were damaged or missing: {', '.join(repaired)}.")
        _print_end(out, f"in {time.perf_counter() - started:,.1f} s", self.seq_len[0])
        return 0


@with_helps
@dataclasses.dataclass(frozen=True)
class ReportData:
    """Check all files of a data folder, and print its report: documents, tokens, pairs and masks."""

    directory: tyro.conf.Positional[Path]
    """Folder that `funcnet data build` or `funcnet data import` wrote."""

    def run(self) -> int:
        """Run `funcnet data report`; return the exit code."""
        manifest = check_data(self.directory, every_byte=True)
        print((self.directory / "report.txt").read_text("utf-8").rstrip())
        lengths = " or ".join(map(str, manifest.settings["seq_len"]))
        print(f"Rows of {lengths} tokens; all files in the manifest are intact.")
        return 0


@with_helps
@dataclasses.dataclass(frozen=True)
class ExportData:
    """Export a data folder as Google's tf_examples.tfrecord, with masks."""

    directory: tyro.conf.Positional[Path]
    """Folder that `funcnet data build` or `funcnet data import` wrote."""
    out: Path
    """File to write."""
    seq_len: int | None = None
    """Number of tokens per row. It is required if the folder has rows of several lengths."""
    seed: int = 0
    """Seed of the masks."""
    held_out: bool = False
    """Export the held-out examples instead of the training examples."""

    def run(self) -> int:
        """Run `funcnet data export`; return the exit code."""
        number = export_examples(self.directory, self.out, seq_len=self.seq_len, seed=self.seed, held_out=self.held_out)
        print(f"Written: {self.out}, {number:,} examples.")
        return 0


@with_helps
@dataclasses.dataclass(frozen=True)
class ImportData:
    """Import Google's tf_examples.tfrecord, with its masks, into a folder for `funcnet pretrain --data`."""

    files: tyro.conf.Positional[tuple[Path, ...]]
    """Files that create_pretraining_data.py or `funcnet data export` wrote. All rows must have the same length."""
    vocab: Path
    """Vocabulary with which the files were made: a vocab.txt, or a directory that contains one."""
    out: Path
    """Folder to write."""
    held_out: tuple[Path, ...] = ()
    """Files with examples for evaluation. By default, there are none, and runs are not evaluated."""
    cased: bool = False
    """Use this flag if the vocabulary keeps capital letters and accents."""

    def run(self) -> int:
        """Run `funcnet data import`; return the exit code."""
        out = self.out
        number = import_examples(self.files, out, vocab=self.vocab, held_out=self.held_out, cased=self.cased)
        report = parse_json(out / "report.json", "data import")
        draw_data_report(out / "report.png", report)
        _print_end(out, f"{number:,} training examples", int(next(iter(report["pairs"]))))
        return 0


@with_helps
@dataclasses.dataclass(frozen=True)
class Data:
    """Build, check, export or import pretraining data that many runs can use."""

    command: (
        Annotated[BuildData, tyro.conf.subcommand("build")]
        | Annotated[ReportData, tyro.conf.subcommand("report")]
        | Annotated[ExportData, tyro.conf.subcommand("export")]
        | Annotated[ImportData, tyro.conf.subcommand("import")]
    )

    def run(self) -> int:
        """Run the subcommand; return the exit code."""
        return self.command.run()


def _print_end(out: Path, what: str, seq_len: int) -> None:
    print((out / "report.txt").read_text("utf-8"))
    print(f"Written: {out}, {what}. The report is in its files report.*.")
    print(f"Next: funcnet pretrain --data {shlex.quote(str(out))} --seq-len {seq_len} --out DIR")
