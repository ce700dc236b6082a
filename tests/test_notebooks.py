"""The notebooks run from top to bottom, and draw."""

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from funcnet import text
from tests import real_data
from tests.porting.packages import package
from tests.processes import AS_A_USER
from tests.tasks.small_bert import write_model

NOTEBOOKS = Path(__file__).parent.parent / "notebooks"
PICTURES = {
    "text_to_model": 3,
    "inside_bert": 3,
    "port_from_torch": 2,
    "port_whisper": 2,
    "quantize": 3,
    "search": 2,
    "operators": 0,
}


def test_every_notebook_is_run_here():
    assert {path.stem for path in NOTEBOOKS.glob("*.ipynb")} == set(PICTURES)


@pytest.mark.parametrize("name", PICTURES)
def test_what_it_shows_is_not_kept(name):
    cells = nbformat.read(NOTEBOOKS / f"{name}.ipynb", as_version=4).cells
    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in cells)


@pytest.fixture(autouse=True)
def _as_a_user(monkeypatch):
    for name, value in (AS_A_USER | {"XLA_FLAGS": ""}).items():  # one device
        monkeypatch.setenv(name, value)


@pytest.mark.slow
@pytest.mark.parametrize("name", PICTURES)
def test_it_runs(name, tmp_path, monkeypatch):
    monkeypatch.setenv("RUNS", str(tmp_path))
    monkeypatch.setenv("STEPS", "40")
    if name == "inside_bert":
        monkeypatch.setenv("MODEL", str(real_data.minilm()))
    if name == "port_whisper":
        monkeypatch.setenv("SOURCE", str(package("openai-whisper")))
    execute(name, tmp_path)
    if name == "text_to_model":
        execute(name, tmp_path)  # a second time, as a reader does: the run there has finished


@pytest.mark.slow
def test_inside_a_run_of_ones_own(tmp_path, monkeypatch):
    """Two layers, not MiniLM's six."""
    texts = [document.text for document in text.open_corpus().documents()]
    monkeypatch.setenv("MODEL", str(write_model(tmp_path / "model", texts[:40])))
    execute("inside_bert", tmp_path)


def execute(name, folder):
    """Runs a notebook in a folder; every cell without an error, and as many pictures as it draws."""
    notebook = nbformat.read(NOTEBOOKS / f"{name}.ipynb", as_version=4)
    NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(folder)}}).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert sum("image/png" in output.get("data", {}) for output in outputs) >= PICTURES[name]
    assert not any(output.output_type == "error" for output in outputs)
