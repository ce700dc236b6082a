"""Ctrl-C in any command: one line, exit code 130, and no incomplete file, whenever it comes."""

import random
import signal
import time

import numpy as np
import pytest

from funcnet.heads.text import Classify
from funcnet.tasks.finetuning import directory
from funcnet.text import load_tokenizer
from tests.processes import ended
from tests.tasks import command
from tests.tasks.small_bert import write_model

START = 0.3  # seconds; before this, Python itself may still be starting


def interrupted(arguments, after, cache):
    """(exit code, output) of a command that gets SIGINT after some seconds, and again when it has not ended by then."""
    process = command.start(*arguments, cache=cache)
    time.sleep(after)
    process.send_signal(signal.SIGINT)
    return ended(process, timeout=60)[0]


@pytest.fixture(scope="module")
def arguments(tmp_path_factory):
    """A long run of each command."""
    folder = tmp_path_factory.mktemp("interrupted")
    model, corpus = write_model(folder / "model", ["a film that lasts"] * 2), command.write_corpus(folder / "corpus")
    head, tuned = Classify(labels=("a", "b")), folder / "tuned"
    directory.save(tuned, directory.FineTuned(head, load_tokenizer(model), *directory.start(model, head), 32))
    lines = folder / "lines.txt"
    lines.write_text("a film that lasts\n" * 200_000)
    large = folder / "large.txt"  # 30 MB, of which an interrupt sees only the beginning
    numbers = np.random.default_rng(0).integers(0, 5000, (100_000, 4, 15)).astype(str)
    large.write_text("\n\n".join(" ".join(f"Of {' '.join(row)}." for row in document) for document in numbers))
    out = lambda name: str(folder / f"{name}-{random.getrandbits(32):08x}")
    return {
        "features": lambda: ["features", model, lines, "--out", out("vectors") + ".npy"],
        "predict": lambda: ["predict", tuned, lines, "--out", out("answers") + ".jsonl"],
        "pretrain": lambda: ["pretrain", "--corpus", corpus, "--out", out("run"), *command.SMALL, "--steps", "100000"],
        "build": lambda: ["data", "build", "--corpus", large, "--out", out("data"), "--passes", "99"],
    }, folder


@pytest.mark.slow
@pytest.mark.parametrize("name", ["features", "predict", "pretrain", "build"])
def test_an_interrupt_gives_one_line_and_130(arguments, tmp_path, name):
    made, folder = arguments
    for after in [START, random.uniform(0.2, 8)]:
        code, output = interrupted(made[name](), after, tmp_path)
        if code == -signal.SIGINT and not output:  # Python itself had not started yet; shells show this as 130 too
            continue
        assert code == 130, (after, code, output)
        assert "Traceback" not in output, (after, output)
        last = output.strip().split("\n")[-1]
        assert "interrupted" in last or "Stopped" in last or "Continue" in last, (after, output)
        assert not list(folder.glob(".*.part"))
