"""The import law: a module imports only from lower ranks or from its own folder; and the house rules that parse."""

import ast
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "funcnet"
RANKS = {
    "tree": 0,
    "random": 0,
    "files": 0,
    "table": 0,
    "settings": 0,
    "functional": 1,
    "text": 1,
    "data": 1,
    "optim": 1,
    "losses": 2,
    "nn": 2,
    "weights": 2,
    "parallel": 3,
    "bridges": 3,
    "comparison": 3,
    "heads": 4,
    "models": 4,
    "train": 4,
    "serving": 5,
    "tasks": 5,
    "cli": 6,
}
FILES = sorted(PACKAGE.rglob("*.py"))
TESTS_ONLY = {"torch", "transformers", "sklearn", "pytest", "hypothesis"}


def part_of(file: Path) -> str:
    """The part of the house that a file belongs to: a folder or a file right under the package."""
    return file.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports(file: Path) -> set[str]:
    """Every dotted name that the file imports, at any depth of its code."""
    found = set()
    package = ("funcnet", *file.relative_to(PACKAGE).parts[:-1])
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package[: len(package) - node.level + 1]) if node.level else ""
            module = ".".join(s for s in (base, node.module or "") if s)
            found |= {f"{module}.{alias.name}" for alias in node.names}
    return found


def parts_imported(file: Path) -> set[str]:
    dotted = [name.split(".") for name in imports(file)]
    return {segments[1] for segments in dotted if segments[0] == "funcnet" and len(segments) > 1}


@pytest.mark.parametrize("file", FILES, ids=lambda f: str(f.relative_to(PACKAGE)))
def test_the_import_law(file):
    own = part_of(file)
    if own == "__init__":
        return
    assert own in RANKS, f"{own}: a new part of the house needs a rank, here and in docs/architecture.md"
    for other in parts_imported(file) - {own}:
        assert other in RANKS, f"{file}: imports funcnet.{other}, which has no rank"
        assert RANKS[other] < RANKS[own], f"{file}: {own} (rank {RANKS[own]}) imports {other} (rank {RANKS[other]})"


@pytest.mark.parametrize("file", FILES, ids=lambda f: str(f.relative_to(PACKAGE)))
def test_oracles_are_not_dependencies(file):
    assert not {name.split(".")[0] for name in imports(file)} & TESTS_ONLY


def test_text_and_data_do_not_know_each_other():
    """Equal ranks do not import each other; named, because one may wish to move them apart."""
    for own, other in (("text", "data"), ("data", "text"), ("models", "train"), ("train", "models")):
        assert all(other not in parts_imported(file) for file in (PACKAGE / own).rglob("*.py"))


def test_ranks_are_those_of_the_architecture_page():
    law = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8").split("Import law:")[1].split("`tests/")[0]
    written = {}
    for group, rank in re.findall(r"`([\w, ]+)` \((\d)", law):
        written |= dict.fromkeys(group.split(", "), int(rank))
    assert written == RANKS


def test_no_file_is_too_long_and_no_folder_is_a_drawer():
    long = {str(f.relative_to(ROOT)): n for f in FILES if (n := len(f.read_text(encoding="utf-8").splitlines())) > 600}
    assert not long, f"past 600 lines there are two ideas in one file: {long}"
    drawers = {"utils", "utils.py", "helpers", "common", "misc"}
    torchs = ROOT / "funcnet" / "nn" / "utils"  # torch.nn.utils: its name is part of the promise
    assert not [f for f in FILES if f.parent != torchs and drawers & set(f.relative_to(ROOT).parts)]


def test_the_law_can_be_broken(tmp_path, monkeypatch):
    """The reader of imports sees them all: absolute, relative, nested."""
    folder = tmp_path / "nn"
    folder.mkdir()
    file = folder / "x.py"
    file.write_text("import funcnet.train.loop\nfrom funcnet import tasks\ndef f():\n    from ..models import bert\n")
    monkeypatch.setattr(sys.modules[__name__], "PACKAGE", tmp_path)
    assert parts_imported(file) == {"train", "tasks", "models"}
