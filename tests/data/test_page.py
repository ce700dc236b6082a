"""docs/data.md runs from top to bottom."""

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "data.md"


def test_the_page_runs():
    names: dict = {}
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 5
    for block in blocks:
        exec(compile(block, "data.md", "exec"), names)
