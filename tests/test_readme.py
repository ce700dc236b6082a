"""What the README shows runs, and what it names is there."""

import re
from pathlib import Path

README = (Path(__file__).parent.parent / "README.md").read_text("utf-8")


def test_its_python_runs(capsys):
    blocks = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert blocks
    for block in blocks:
        exec(compile(block, "README.md", "exec"), {})
    assert "(64,)" in capsys.readouterr().out


def test_its_files_are_there():
    root = Path(__file__).parent.parent
    named = set(re.findall(r"(?:scripts|docs)/[\w/]+\.(?:sh|py|md)|[A-Z]+\.md", README))
    assert named and all((root / name).exists() for name in named), named
