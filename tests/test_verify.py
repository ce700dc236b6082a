"""The verification: every test is in an area, every file reaches an area, and an unknown area is an error."""

import contextlib

import pytest

from scripts import verify
from tests.processes import ROOT

PARTS = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "funcnet").rglob("*.py"))


@pytest.fixture
def commands(monkeypatch, tmp_path):
    """The commands of areas, which are recorded instead of run."""
    found = []
    monkeypatch.setattr(verify, "_run", lambda command, **_: found.append(command) or 1)
    monkeypatch.setattr(verify, "_environment", lambda *_: contextlib.nullcontext(tmp_path))
    monkeypatch.setenv("FUNCNET_CHROMIUM", "chromium")
    return found


def test_every_test_is_in_an_area(commands):
    for area in verify.AREAS.values():
        assert area.run() >= 1
    paths = {word for command in commands for word in command if word.startswith("tests/") or word == "funcnet"}
    assert "funcnet" in paths  # the examples
    assert all((ROOT / path).exists() for path in paths)
    for file in (ROOT / "tests").rglob("test_*.py"):
        name = file.relative_to(ROOT).as_posix()
        assert any(name == path or name.startswith(f"{path}/") for path in paths), f"{name} is in no area"


def test_every_file_reaches_an_area():
    assert [file for file in PARTS if not verify.reached([file])] == ["funcnet/__init__.py"]


def test_files_reach_the_areas_of_their_folder_and_of_its_tests():
    assert verify.reached(["tests/bridges/test_nnx.py"]) == ["bridges"]
    assert verify.reached(["README.md", "scripts/verify.py"]) == ["docs"]
    assert "oldest" in verify.reached(["pyproject.toml"])
    assert not verify.reached(["CHANGELOG.md"])


@pytest.mark.parametrize(
    ("before", "areas"),
    [(('\n    """Scale."""', ""), ["data", "docs"]), (("2 * x", "3 * x"), ["data"])],
    ids=["docstring", "code"],
)
def test_a_docstring_that_changed_reaches_the_documentation(monkeypatch, tmp_path, before, areas):
    source = 'def f(x):\n    """Scale."""\n    return 2 * x\n'
    answers = {"diff": "funcnet/data/scale.py\n", "show": source.replace(*before)}
    monkeypatch.setattr(verify, "_git", lambda *arguments, check=True: answers[arguments[0]])
    monkeypatch.setattr(verify, "ROOT", tmp_path)
    (tmp_path / "funcnet/data").mkdir(parents=True)
    (tmp_path / "funcnet/data/scale.py").write_text(source, encoding="utf-8")
    assert [name for name in verify.changed() if name in ("data", "docs")] == areas


def test_an_unknown_area(capsys):
    assert verify.main(["layer"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("verify.sh: unknown area 'layer'; expected some of: databases, layers")
