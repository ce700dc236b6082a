"""`funcnet features`: lines of text in, vectors out."""

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
from funcnet.tasks.features.extract import FeatureExtractor, Pool, Text
from funcnet.tasks.features.files import starts_file, write_features

__all__ = ["FeaturesArguments", "features"]

_PAIR = " ||| "  # between the two texts of a line, as in Google's script


@dataclasses.dataclass(frozen=True)
class FeaturesArguments:
    """Turn lines of text into vectors with a pretrained BERT: hidden states of any layers, pooled or of every token.

    Input: a line is a text, or two with " ||| " between them, as in Google's script; an empty line is an empty text,
    and gets its vector too. Tables are not read as such: every line of a .csv or .jsonl is one text.

    Output, for N texts, L layers and width D, all float32: .npy (N, D), or (N, L, D) for several layers; with
    "--pool none" one row for each token of all texts, (tokens, D) or (tokens, L, D), and text i in the rows from
    starts[i] to starts[i + 1] of a second file, NAME.starts.npy. .arrow: an IPC file with a row a text and the columns
    "tokens" and "layer_-1" (one for each of --layers): D numbers, or with "--pool none" a list of D numbers for each
    token. .jsonl: an object a line, "linex_index" and "layers", or with "--pool none" "features", as Google's script.

    Texts of about one length go together through one compiled program each; nothing is held but some thousand lines.
    A file is there whole or not at all.
    """

    directory: tyro.conf.Positional[Path]
    """a run of `funcnet pretrain` or `finetune`, or any directory with config.json, weights and a vocabulary"""
    files: tyro.conf.Positional[tuple[Path, ...]]
    """files of text, one text a line, tables too; "-" is standard input"""
    out: Annotated[Path, tyro.conf.arg(aliases=["-o"])]
    """.arrow (a row a text), .npy (an array), or .jsonl (as Google's extract_features.py); see above"""
    layers: tuple[int, ...] = (-1,)
    """which hidden states: -1 is the last layer's, 0 the embeddings'"""
    pool: Pool = "mean"
    """over the tokens of a text; none: every token's vector"""
    seq_len: int | None = None
    """longer texts are cut to so many tokens; by default a fine-tuned run's row length, else what the model takes"""
    batch_tokens: int | None = None
    """tokens in a batch, padding included; by default as suits the device"""


def features(arguments: FeaturesArguments) -> int:
    """Runs the command.

    Returns:
        0.

    Raises:
        ValueError: as `FeatureExtractor` and `write_features`; a file that is not UTF-8; no line at all; a setting.
        OSError: a file cannot be read or written.
    """
    from rich.progress import MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    if arguments.batch_tokens is not None and arguments.batch_tokens < 1:
        raise ValueError(f"features: --batch-tokens; expected at least 1, got {arguments.batch_tokens}.")
    if len(set(arguments.layers)) < len(arguments.layers):
        raise ValueError(f"features: --layers; expected each once, got {' '.join(map(str, arguments.layers))}.")
    if not arguments.files:
        raise ValueError('features: no file of text; expected at least one, got none. Name it, or "-".')
    if arguments.files.count(Path("-")) > 1:
        raise ValueError('features: "-" is there twice; expected standard input once, got it again. Leave one out.')
    require_folder(arguments.out, "features: --out")
    inputs = [file for file in arguments.files if str(file) != "-"]
    require_other(arguments.out, inputs, "features: --out")
    starts = starts_file(arguments.out) if arguments.out.suffix.lower() == ".npy" else None
    if starts is not None:
        require_other(starts, inputs, "features: beside --out,")
    for file in inputs:
        if not file.exists() or file.is_dir():
            got = "a folder" if file.is_dir() else "nothing"
            raise FileNotFoundError(f"features: {file} is no file; expected one, got {got}. Check the path.")
        if (suffix := file.suffix.lower()) in COLUMNS:
            more = "names and signs of JSON" if suffix in OBJECTS else "columns' names and signs"
            warnings.warn(
                f"features: {file} is read as plain lines, each of them one text, the {more} included. Give a file of "
                "the texts alone.",
                stacklevel=2,
            )
    extract = FeatureExtractor(
        arguments.directory,
        layers=arguments.layers,
        pool=arguments.pool,
        max_length=arguments.seq_len,
        tokens=arguments.batch_tokens,
    )
    began = time.perf_counter()
    with Progress(
        SpinnerColumn(), TextColumn("texts"), MofNCompleteColumn(), TimeElapsedColumn(), transient=True
    ) as bar:
        task = bar.add_task("texts", total=None)

        def told() -> Iterator:
            for one in extract(_texts(arguments.files)):
                yield one
                bar.advance(task)

        count = write_features(arguments.out, told(), arguments.layers)
    seconds = time.perf_counter() - began
    cut = f"; {extract.truncated:,} were cut to {extract.run.longest} tokens" if extract.truncated else ""
    beside = f", {starts}" if starts is not None and arguments.pool == "none" else ""
    print(
        f"{count:,} texts in {seconds:.1f} s, {count / max(seconds, 1e-9):,.0f} a second{cut}. Written: "
        f"{arguments.out}{beside}"
    )
    return 0


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
        raise ValueError(
            f"features: {', '.join(map(str, files))}: no line; expected at least one, got none. Name another file."
        )
