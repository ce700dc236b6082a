"""The notebooks run from top to bottom, and draw."""

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from tests import real_data

NOTEBOOKS = Path(__file__).parent.parent / "notebooks"
PICTURES = {"text_to_model": 3, "inside_bert": 3, "port_from_torch": 2}


def test_every_notebook_is_run_here():
    assert {path.stem for path in NOTEBOOKS.glob("*.ipynb")} == set(PICTURES)


@pytest.mark.parametrize("name", PICTURES)
def test_what_it_shows_is_not_kept(name):
    cells = nbformat.read(NOTEBOOKS / f"{name}.ipynb", as_version=4).cells
    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in cells)


@pytest.mark.slow
@pytest.mark.parametrize("name", PICTURES)
def test_it_runs(name, tmp_path, monkeypatch):
    monkeypatch.setenv("RUNS", str(tmp_path))
    monkeypatch.setenv("STEPS", "40")
    monkeypatch.setenv("XLA_FLAGS", "")  # one device, as a reader has
    if name == "inside_bert":
        monkeypatch.setenv("MODEL", str(real_data.minilm()))
    notebook = nbformat.read(NOTEBOOKS / f"{name}.ipynb", as_version=4)
    NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(tmp_path)}}).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert sum("image/png" in output.get("data", {}) for output in outputs) >= PICTURES[name]
    assert not any(output.output_type == "error" for output in outputs)
