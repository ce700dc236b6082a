"""`funcnet features`: vectors for lines of text."""

from __future__ import annotations

import dataclasses
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import tyro

from funcnet.files import require_folder, require_other
from funcnet.heads.reading.tables import COLUMNS, OBJECTS
from funcnet.tasks.features.extract import FeatureExtractor, Features, Pool, Text
from funcnet.tasks.features.files import starts_file, write_features

__all__ = ["FeaturesArguments", "features"]

_PAIR = " ||| "  # between the two texts of a line, as in Google's script


@dataclasses.dataclass(frozen=True)
class FeaturesArguments:
    """Turn lines of text into vectors with a pretrained BERT: hidden states of any layers, pooled or of every token.

    Input: a line is a text, or two with " ||| " between them, as in Google's script. An empty line is an empty text,
    and gets a vector too. Tables are not parsed: every line of a .csv or .jsonl file is one text.

    Output, for N texts, L layers and width D, all float32: .npy (N, D), or (N, L, D) for several layers; with
    "--pool none" one row for each token of all texts, (tokens, D) or (tokens, L, D), and text i in the rows from
    starts[i] to starts[i + 1] of a second file, NAME.starts.npy. .arrow: an IPC file with a row a text and the columns
    "tokens" and "layer_-1" (one for each of --layers): D numbers, or with "--pool none" a list of D numbers for each
    token. .jsonl: an object a line, "linex_index" and "layers", or with "--pool none" "features", as Google's script.

    Texts of about the same length share a batch and a compiled program. At most a few thousand lines are in memory. The
    output file is written whole or not at all.
    """

    directory: tyro.conf.Positional[Path]
    """Run of `funcnet pretrain` or `finetune`, or any directory with config.json, weights and a vocabulary."""
    files: tyro.conf.Positional[tuple[Path, ...]]
    """Files with one text per line; "-" is standard input."""
    out: Annotated[Path, tyro.conf.arg(aliases=["-o"])]
    """File to write: .arrow (one row per text), .npy (an array), or .jsonl (as Google's script); see above."""
    layers: tuple[int, ...] = (-1,)
    """Layers whose hidden states are written: -1 is the last layer, 0 the embeddings."""
    pool: Pool = "mean"
    """How the vectors of a text's tokens become one vector; none: write the vector of every token."""
    seq_len: int | None = None
    """Number of tokens to which longer texts are cut. The default is the row length of fine-tuning, otherwise the
    largest that the model allows."""
    batch_tokens: int | None = None
    """Number of tokens in a batch, padding included. The default depends on the device."""


def features(arguments: FeaturesArguments) -> int:
    """Runs the command.

    Returns:
        0.

    Raises:
        ValueError: as `FeatureExtractor` and `write_features`; a file that is not UTF-8; no line at all; a setting.
        OSError: a file cannot be read or written.
    """
    _check(arguments)
    extract = FeatureExtractor(
        arguments.directory,
        layers=arguments.layers,
        pool=arguments.pool,
        max_length=arguments.seq_len,
        tokens=arguments.batch_tokens,
    )
    began = time.perf_counter()
    count = _write(arguments, extract)
    seconds = time.perf_counter() - began
    cut = f"; {extract.truncated:,} were cut to {extract.run.longest} tokens" if extract.truncated else ""
    has_starts = arguments.pool == "none" and arguments.out.suffix.lower() == ".npy"
    beside = f", {starts_file(arguments.out)}" if has_starts else ""
    print(
        f"{count:,} texts in {seconds:.1f} s, {count / max(seconds, 1e-9):,.0f} a second{cut}. Written: "
        f"{arguments.out}{beside}"
    )
    return 0


def _write(arguments: FeaturesArguments, extract: FeatureExtractor) -> int:
    """Writes the features of all lines, with a progress bar; returns how many lines there are."""
    from rich.progress import MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = SpinnerColumn(), TextColumn("texts"), MofNCompleteColumn(), TimeElapsedColumn()
    with Progress(*columns, transient=True) as bar:
        task = bar.add_task("texts", total=None)

        def counted() -> Iterator[Features]:
            for one in extract(_texts(arguments.files)):
                yield one
                bar.advance(task)

        return write_features(arguments.out, counted(), arguments.layers)


def _check(arguments: FeaturesArguments) -> None:
    """Refuses, before anything is loaded, what cannot be done."""
    if arguments.batch_tokens is not None and arguments.batch_tokens < 1:
        raise ValueError(f"features: --batch-tokens; expected at least 1, got {arguments.batch_tokens}.")
    if len(set(arguments.layers)) < len(arguments.layers):
        raise ValueError(f"features: --layers; expected each once, got {' '.join(map(str, arguments.layers))}.")
    if not arguments.files:
        raise ValueError('features: no file of text; expected at least one (or "-"), got none.')
    if arguments.files.count(Path("-")) > 1:
        raise ValueError('features: "-" occurs twice; expected standard input at most once.')
    require_folder(arguments.out, "features: --out")
    inputs = [file for file in arguments.files if str(file) != "-"]
    require_other(arguments.out, inputs, "features: --out")
    if arguments.out.suffix.lower() == ".npy":
        require_other(starts_file(arguments.out), inputs, "features: beside --out,")
    for file in inputs:
        if not file.exists() or file.is_dir():
            got = "a folder" if file.is_dir() else "nothing"
            raise FileNotFoundError(f"features: {file} is no file; expected one, got {got}.")
        if (suffix := file.suffix.lower()) in COLUMNS:
            more = "names and signs of JSON" if suffix in OBJECTS else "columns' names and signs"
            warnings.warn(
                f"features: {file} is read as plain lines, and each line is one text, including the {more}. Give a "
                "file with nothing but the texts.",
                stacklevel=2,
            )


def _texts(files: tuple[Path, ...]) -> Iterator[Text]:
    number = -1
    for file in files:
        handle = sys.stdin.buffer if str(file) == "-" else file.open("rb")
        with handle:
            for number, line in enumerate(handle):
                try:
                    text = line.decode("utf-8-sig" if number == 0 else "utf-8").strip()
                except UnicodeDecodeError as error:
                    raise ValueError(
                        f"features: {file}, line {number + 1} is not UTF-8; expected text, got byte "
                        f"0x{error.object[error.start]:02x}. Convert the file."
                    ) from None
                first, between, second = text.rpartition(_PAIR)  # the last one, as Google's greedy pattern does
                yield (first, second) if between else text
    if number < 0:
        raise ValueError(f"features: {', '.join(map(str, files))}: no line; expected at least one, got none.")
