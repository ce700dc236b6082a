"""Ctrl-C in any command: one line, exit code 130, and no incomplete file, whenever it comes."""

import random
import signal
import sys
from importlib.metadata import version

import jax
import numpy as np
import pytest

from funcnet.cli import main
from funcnet.heads.text import Classify
from funcnet.tasks.finetuning import directory
from funcnet.text import load_tokenizer
from tests import processes
from tests.tasks import command
from tests.tasks.small_bert import write_model

COUNTING = """
import signal, sys
from funcnet.cli import main
left = int(sys.argv.pop(1))
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell starts background jobs without it
def count(frame, event, _):
    global left
    if event == "call" and frame.f_globals.get("__name__", "").startswith("funcnet."):
        left -= signal.getsignal(signal.SIGINT) is not signal.default_int_handler  # the command has begun
        if left == 0:
            sys.setprofile(None)
            signal.raise_signal(signal.SIGINT)
sys.setprofile(count)
main()
"""


def interrupted(arguments, calls, cache):
    """(exit code, output) of a command that gets SIGINT when that many functions of funcnet have been called."""
    run = processes.start([sys.executable, "-c", COUNTING, calls, *arguments], cache)
    return processes.ended(run)[0]


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
    draw = random.Random(name)
    for calls in [2, 100, 1000, draw.randint(2000, 8000), draw.randint(8000, 40_000)]:
        code, output = interrupted(made[name](), calls, tmp_path)
        assert code == 128 + signal.SIGINT, (calls, code, output)
        assert "Traceback" not in output, (calls, output)
        last = output.strip().split("\n")[-1]
        assert "interrupted" in last or "Stopped" in last or "Continue" in last, (calls, output)
        assert not list(folder.glob(".*.part"))


def test_version(capsys):
    with pytest.raises(SystemExit, match="0"):
        main(["--version"])
    assert capsys.readouterr().out.startswith(f"funcnet {version('funcnet')}, jax {jax.__version__}, jaxlib ")
