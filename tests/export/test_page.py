"""What the page on exports shows runs."""

import json
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

from funcnet.export import load_wasm
from tests.cli.test_export import example, run
from tests.export.web.models import saved
from tests.export.web.node import NODE

PAGE = Path(__file__).parents[2] / "docs" / "export.md"


@pytest.mark.slow
def test_its_python_runs(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    names: dict = {}
    for block in blocks:
        exec(compile(block, "export.md", "exec"), names)
    said = capsys.readouterr().out.splitlines()
    assert said[3] == "84" and (tmp_path / "digits.tflite").exists()
    for line in said[:3]:
        assert float(line.split()[2]) < 1e-6


@pytest.mark.slow
def test_its_javascript_gives_the_logits_of_load_wasm(capsys, tmp_path):
    (block,) = re.findall(r"```js\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    model = saved(tmp_path / "model", "BertForMaskedLM")
    code, said = run(capsys, model, "--to", "wasm", "--out", tmp_path / "mine.wasm", "--length", 8, 16)
    assert code == 0, said.err
    arrays = example(16)
    (expected,) = load_wasm(tmp_path / "mine.wasm")(*arrays)
    given = ", ".join(str(array[0].tolist()) for array in arrays)
    script = f"""
      import {{ readFile }} from "node:fs/promises";
      const [ids, mask, types] = [{given}], vocabularySize = {expected.shape[-1]};
      {block}
      console.log(JSON.stringify([...logits]));
    """
    command = [NODE, "--input-type=module", "-e", script]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    np.testing.assert_array_equal(np.float32(json.loads(done.stdout)).reshape(expected.shape), expected)
