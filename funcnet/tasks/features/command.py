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
from funcnet.settings import with_helps
from funcnet.tasks.features.extract import FeatureExtractor, Features, Pool, Text
from funcnet.tasks.features.files import starts_file, write_features

__all__ = ["FeaturesArguments", "features"]

_PAIR = " ||| "  # between the two texts of a line, as in Google's script


@with_helps
@dataclasses.dataclass(frozen=True)
class FeaturesArguments:
    """Turn lines of text into vectors with a pretrained BERT: hidden states of any layers, either pooled or per token.

    Input: each line is one text, or two texts separated by " ||| ", as in Google's script. An empty line is an empty
    text, which also gets a vector. Tables are not parsed, so every line of a .csv or .jsonl file is one text.

    All numbers in the output are float32. For N texts, L layers and vectors of D numbers, the formats are as follows.

    A .npy file has the shape (N, D), or (N, L, D) for several layers. With "--pool none", its shape is (T, D) or (T, L,
    D), where T is the number of tokens in all texts. A second file, NAME.starts.npy, then says where each text begins,
    so that text i has the rows from starts[i] up to starts[i + 1].

    An .arrow file (Arrow IPC) has one row per text. Its columns are "tokens" and one column per layer, such as
    "layer_-1". Each cell of a layer's column has D numbers. With "--pool none", the cell has a list of D numbers for
    each token.

    A .jsonl file has one object per line, as in Google's script. Its keys are "linex_index" and "layers". With "--pool
    none", the second key is "features".

    Texts of similar length share a batch and a compiled program. At most a few thousand lines are in memory. If the
    command fails, no incomplete file is left.
    """

    directory: tyro.conf.Positional[Path]
    """Output directory of `funcnet pretrain` or `finetune`, or another directory with config.json, weights and a
    vocabulary."""
    files: tyro.conf.Positional[tuple[Path, ...]]
    """Files with one text per line. "-" is standard input."""
    out: Annotated[Path, tyro.conf.arg(aliases=["-o"])]
    """File to write. Its suffix, .npy, .arrow or .jsonl, selects one of the formats above."""
    layers: tuple[int, ...] = (-1,)
    """Layers whose hidden states are written. -1 is the last layer, and 0 is the embeddings."""
    pool: Pool = "mean"
    """How to pool the vectors of a text's tokens into one vector. "cls" takes the vector of [CLS]. "none" writes the
    vector of every token."""
    seq_len: int | None = None
    """Maximum number of tokens per text. Longer texts are truncated. The default is the --seq-len with which the model
    was fine-tuned, or the size of its position table if it was not fine-tuned."""
    batch_tokens: int | None = None
    """Number of tokens in a batch, including padding. The default depends on the device."""


def features(arguments: FeaturesArguments) -> int:
    """Run `funcnet features` and return the exit code 0."""
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
        f"{count:,} texts in {seconds:.1f} s, {count / max(seconds, 1e-9):,.0f} per second{cut}. Written: "
        f"{arguments.out}{beside}"
    )
    return 0


def _write(arguments: FeaturesArguments, extract: FeatureExtractor) -> int:
    """Write the vectors of all lines of text to the output file, show a progress bar, and return the number of
    lines.
    """
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
    """Raise an error for wrong arguments, before the model or a file is read."""
    if arguments.batch_tokens is not None and arguments.batch_tokens < 1:
        raise ValueError(
            f"features: --batch-tokens is out of range; expected at least 1, got {arguments.batch_tokens}."
        )
    if len(set(arguments.layers)) < len(arguments.layers):
        raise ValueError(
            f"features: --layers has duplicates; expected each layer once, got {' '.join(map(str, arguments.layers))}."
        )
    if not arguments.files:
        raise ValueError('features: no input file; expected at least one file, or "-" for standard input, got none.')
    if arguments.files.count(Path("-")) > 1:
        raise ValueError('features: "-" occurs more than once; expected standard input at most once.')
    require_folder(arguments.out, "features: --out")
    inputs = [file for file in arguments.files if str(file) != "-"]
    require_other(arguments.out, inputs, "features: --out")
    if arguments.out.suffix.lower() == ".npy":
        require_other(starts_file(arguments.out), inputs, "features: the second output file")
    for file in inputs:
        if not file.exists() or file.is_dir():
            wrong = "is a folder" if file.is_dir() else "is missing"
            raise FileNotFoundError(f"features: {file} {wrong}; expected a text file.")
        if (suffix := file.suffix.lower()) in COLUMNS:
            more = "keys and punctuation of JSON" if suffix in OBJECTS else "names and separators of the columns"
            warnings.warn(
                f"features: {file} is read as plain text. Each line is one text, including the {more}. Pass a file "
                "that contains only the texts.",
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
                        f"features: {file}, line {number + 1} is not UTF-8; expected UTF-8 text, got byte "
                        f"0x{error.object[error.start]:02x}. Convert the file to UTF-8."
                    ) from None
                first, between, second = text.rpartition(_PAIR)  # at the last separator, as Google's pattern
                yield (first, second) if between else text
    if number < 0:
        raise ValueError(
            f"features: {', '.join(map(str, files))}: the input is empty; expected at least one line, got none."
        )
