"""`funcnet bench serve`: the latency of `serving.inference` for several text lengths and numbers of threads."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import tyro

from funcnet import table
from funcnet.files import require_folder, require_other, write_json
from funcnet.heads import check_length
from funcnet.models import bert
from funcnet.serving.inference import Inference, inference
from funcnet.settings import with_helps
from funcnet.train import compilation_cache

__all__ = ["BenchServe", "Latency", "bench_serve", "measure", "random_items"]


@with_helps
@dataclasses.dataclass(frozen=True)
class BenchServe:
    """Measure how long a fine-tuned or pretrained model takes to answer a text.

    The model is loaded and compiled with `serving.inference`. Texts of each length are then sent from one thread, and
    from several threads at the same time. The command prints the median, the 95th and the 99th percentile of the
    latency in milliseconds, and the number of answers per second.
    """

    what: tyro.conf.Positional[Literal["serve"]]
    """What to measure. "serve" measures how long the model takes to answer a text."""
    directory: tyro.conf.Positional[Path]
    """Output directory of `funcnet pretrain` or `finetune`, or a Hugging Face directory with a vocabulary."""
    file: Path | None = None
    """File with one text per line. By default, random texts of each of the --lengths are measured."""
    task: str | None = None
    """Task to measure, such as fill-mask, classify or pairs. The default is the task that the model was trained for."""
    lengths: tuple[int, ...] = (16, 64, 128)
    """Lengths of the random texts, in tokens."""
    threads: Annotated[tuple[int, ...], tyro.conf.arg(aliases=["-t"])] = (1, 2, 4)
    """One or more numbers of threads that send texts at the same time. Each number is measured separately."""
    seconds: float = 2.0
    """Duration of each measurement, which gives one line of the table, in seconds."""
    seq_len: int | None = None
    """Maximum number of tokens per row. The default is the --seq-len with which the model was fine-tuned, or the size
    of the model's position table if it was not fine-tuned."""
    out: Path | None = None
    """File to write the results to, as JSON."""


@dataclasses.dataclass(frozen=True)
class Latency:
    """The latency for one text length and number of threads: one line of the table.

    Attributes:
        texts: length of the texts in tokens, or name of the file.
        threads: number of threads.
        median, p95, p99: latency in milliseconds.
        per_second: answers per second, summed over all threads.
        answers: number of answers that were measured.
    """

    texts: str
    threads: int
    median: float
    p95: float
    p99: float
    per_second: float
    answers: int


def measure(serve: Callable[[Any], Any], items: Sequence[Any], name: str, threads: int, seconds: float) -> Latency:
    """Call `serve` with the items in turn from `threads` threads for `seconds` seconds, and return a `Latency`.

    Example:
        >>> measure(len, ["a", "b"], "letters", threads=2, seconds=0.01).threads
        2
    """

    def ask(start: int) -> list[float]:
        number, taken = start, list[float]()
        while not taken or time.perf_counter() < end:
            began = time.perf_counter()
            serve(items[number % len(items)])
            taken.append(time.perf_counter() - began)
            number += threads
        return taken

    with ThreadPoolExecutor(threads) as pool:
        began = time.perf_counter()
        end = began + seconds
        taken = 1e3 * np.concatenate([*pool.map(ask, range(threads))])
        elapsed = time.perf_counter() - began
    median, p95, p99 = np.percentile(taken, [50, 95, 99]).tolist()
    return Latency(name, threads, median, p95, p99, len(taken) / elapsed, len(taken))


def bench_serve(arguments: BenchServe) -> int:
    """Run `funcnet bench serve`.

    Args:
        arguments: the arguments of the command.

    Returns:
        The exit code 0.

    Raises:
        ValueError: if an argument is out of range, or the file has no text to measure.
        OSError: if the directory or the file is missing, or `out` cannot be written.
    """
    from rich.progress import Progress

    if arguments.seconds <= 0 or min(arguments.threads, default=0) < 1:
        raise ValueError(
            f"bench serve: --seconds or --threads is out of range; expected positive numbers, got "
            f"{arguments.seconds} and {arguments.threads}."
        )
    if min(arguments.lengths, default=0) < 1:
        raise ValueError(
            "bench serve: --lengths is invalid; expected positive numbers, got "
            f"{' '.join(map(str, arguments.lengths)) or 'none'}."
        )
    if arguments.out is not None:
        require_folder(arguments.out, "bench serve: --out")
        require_other(arguments.out, [arguments.file] if arguments.file else [], "bench serve: --out")
    lines = _lines(arguments.file) if arguments.file else []
    if arguments.seq_len is not None:
        most = bert.BertConfig.load(arguments.directory).max_position_embeddings
        check_length(arguments.seq_len, most, "bench serve: --seq-len", arguments.directory)
    compilation_cache.enable()
    began = time.perf_counter()
    with Progress(transient=True) as bar:
        task = bar.add_task("compiling")
        serve = inference(
            arguments.directory,
            arguments.task,
            max_length=arguments.seq_len,
            progress=lambda done, of: bar.update(task, completed=done, total=of),
        )
    ready = time.perf_counter() - began
    asked = _of_lines(serve, arguments.file, lines) if arguments.file else random_items(serve, arguments.lengths)
    found = [
        measure(serve, items, name, threads, arguments.seconds)
        for name, items in asked.items()
        for threads in arguments.threads
    ]
    head = ["texts", "threads", "median ms", "95 % ms", "99 % ms", "per second"]
    rows = [
        [one.texts, str(one.threads), *(f"{ms:.2f}" for ms in (one.median, one.p95, one.p99)), f"{one.per_second:,.0f}"]
        for one in found
    ]
    print(f"{arguments.directory}: {serve.task}, {len(serve.run.shapes())} programs, ready after {ready:.1f} s")
    print(table.text([head, *rows], left=1))
    longest = serve.run.longest
    if not arguments.file and (longer := [str(length) for length in arguments.lengths if length > longest]):
        source = "--seq-len" if arguments.seq_len else "the model"
        print(
            f"Instead of the lengths {', '.join(longer)}, texts of {longest} tokens were measured, the longest that "
            f"{source} allows."
        )
    if arguments.out is not None:
        write_json(arguments.out, {"task": serve.task, "ready": ready, "rows": [vars(one) for one in found]})
    return 0


def _lines(file: Path) -> list[str]:
    if not file.is_file():
        raise FileNotFoundError(f"bench serve: {file} is missing; expected a text file.")
    try:
        return [line.strip() for line in file.read_text("utf-8-sig").split("\n")]
    except UnicodeDecodeError as error:
        raise ValueError(
            f"bench serve: {file}, line {error.object.count(10, 0, error.start) + 1} is not UTF-8; expected UTF-8 "
            f"text, got byte 0x{error.object[error.start]:02x}. Convert the file to UTF-8."
        ) from None


def _of_lines(serve: Inference, file: Path, lines: Sequence[str]) -> dict[str, list[Any]]:
    needs = serve.head.needs
    texts = [line for line in lines if line and needs in line]
    if not texts:
        wanted = f"lines with {needs} in them" if needs else "lines of text"
        raise ValueError(f"bench serve: {file} has no text to measure; expected {wanted}, got none.")
    return {file.name: [serve.head.sample(text) for text in texts]}


def random_items(serve: Inference, lengths: Sequence[int]) -> dict[str, list[Any]]:
    """Make texts of random words, to measure `serve` with.

    Args:
        serve: function from `serving.inference`.
        lengths: lengths of the texts in tokens. A length above the longest row of the model becomes that length.

    Returns:
        A dict such as {"16 tokens": items} with 16 items per length. Each item fills a row of its length.

    Example:
        >>> import jax, tempfile
        >>> from funcnet import serving, text
        >>> tokenizer = text.train_wordpiece(["the cat sat on the mat"] * 3, vocab_size=40)
        >>> sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 8}
        >>> model = bert.BertForMaskedLM(bert.BertConfig(vocab_size=40, **sizes))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     bert.save_pretrained(folder, model, *jax.jit(model.init)(jax.random.key(0)))
        ...     text.save_tokenizer(tokenizer, folder)
        ...     serve = serving.inference(folder, lengths=[8], max_length=8, ahead=False)
        >>> {name: len(items) for name, items in random_items(serve, [8, 8, 500]).items()}
        {'8 tokens': 16}
    """
    head, found = serve.head, {}
    for length in dict.fromkeys(min(length, serve.run.longest) for length in lengths):
        random = np.random.default_rng(length)
        texts = [" ".join(random.choice(serve.words, max(2, length - head.extra_tokens))) for _ in range(16)]
        found[f"{length} tokens"] = [head.sample(f"{text} {head.needs}".strip()) for text in texts]
    return found
