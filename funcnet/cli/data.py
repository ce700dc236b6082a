"""`funcnet data`: build, report, export and import pretraining data."""

import dataclasses
from pathlib import Path
from typing import Annotated

import tyro

from funcnet.settings import with_helps
from funcnet.tasks.pretraining_data.commands import BuildData

__all__ = ["Data", "run_data"]


@with_helps
@dataclasses.dataclass(frozen=True)
class ReportData:
    """Check all files of a data folder, and print its report: documents, tokens, pairs and masks."""

    directory: tyro.conf.Positional[Path]
    """Folder that `funcnet data build` or `funcnet data import` wrote."""


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


def run_data(arguments: Data) -> int:
    """Run a subcommand of `funcnet data`; return the exit code."""
    from funcnet.tasks.pretraining_data import commands

    match arguments.command:
        case BuildData():
            return commands.build_data(arguments.command)
        case ReportData(directory):
            return commands.report_data(directory)
        case ExportData(directory, out, seq_len, seed, held_out):
            return commands.export_data(directory, out, seq_len=seq_len, seed=seed, held_out=held_out)
        case ImportData(files, vocab, out, held_out_files, cased):
            return commands.import_data(files, out, vocab=vocab, held_out=held_out_files, cased=cased)
